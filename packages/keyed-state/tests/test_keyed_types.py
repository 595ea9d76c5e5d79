"""Columns of every type go through keyed state as they are."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from mainstem import OptionError, PluginError
from mainstem.durable import read_whole, write_whole
from mainstem_keyed_state import Done, Logic, Step, Table
from mainstem_keyed_state.keys import KeyKind
from mainstem_keyed_state.layout import layout_of, layouts_in

#: A column of each type, as SQL.
VALUES = {
    "bool": "true",
    "tiny": "CAST(1 AS TINYINT)",
    "small": "CAST(-2 AS SMALLINT)",
    "plain": "3",
    "big": "9007199254740993L",
    "real": "CAST(1.5 AS FLOAT)",
    "wide": "double('NaN')",
    "dec": "CAST('12345678901234567890.123456' AS DECIMAL(38,6))",
    "text": "'é\\u0000x'",
    "bytes": "X'00FF'",
    "day": "DATE'1969-12-31'",
    "at": "TIMESTAMP'2026-01-02 03:04:05.000006'",
    "local": "TIMESTAMP_NTZ'2026-01-02 03:04:05.000006'",
    "nothing": "NULL",
    "list": "array(1, NULL, 3)",
    "empty": "CAST(array() AS ARRAY<STRING>)",
    "row": "named_struct('a', 1, 'b', named_struct('c', 'x'))",
    "map": "map('a', 1, 'b', NULL)",
    "maps": "array(map(1, array('x')), NULL)",
    "in_row": "named_struct('m', map('k', TIMESTAMP'2026-01-01 00:00:00'))",
    "json": "parse_json('{\"a\": [1, null]}')",
    "span": "INTERVAL '1 02:03:04.000005' DAY TO SECOND",
    "months": "INTERVAL '2-3' YEAR TO MONTH",
    "calendar": "make_interval(1, 2, 0, 3, 4, 5, 6.5)",
    "odd. name": "'spaces, `ticks` and . dots'",
}


class Context:
    """What `keyed` asks of an operator's context."""

    def __init__(self, spark: Any, folder: Any) -> None:
        self.node, self.spark, self.wanted = "kept", spark, frozenset[str]()
        self.folder = lambda: folder


@pytest.mark.in_turn
def test_all_types_go_through_rows_and_state(spark: Any, tmp_path: Any) -> None:
    """Pass: values and types of all columns are those that went in, at once and out of the state."""
    from keyed_logics import Recall
    from mainstem_keyed_state import Port, keyed, polars_schema

    rows = tmp_path / "rows"
    spark.range(2).write.parquet(f"file://{rows}")
    due = "TIMESTAMP'2026-01-01 00:00:00'"
    columns = [f"IF(id = 0, {sql}, NULL) AS `{name}`" for name, sql in VALUES.items()]
    stream = spark.readStream.name("rows").schema("id BIGINT").parquet(f"file://{rows}")
    stream = stream.selectExpr("id AS k", f"{due} AS _due", *columns).withWatermark(
        "_due", "0 seconds"
    )
    logic = Recall(polars_schema(stream))
    out = keyed(logic, {"rows": Port(stream, ["k % 1"])}, Context(spark, tmp_path))
    kinds = {field.name: field.dataType for field in stream.schema}
    assert {f.name: f.dataType for f in out.schema if f.name in kinds} == kinds
    assert {f.name: f.dataType for f in out.schema["_again"].dataType} == kinds

    shown = [_shown(name) for name in kinds]
    found: dict[str, list[str]] = {"now": [], "again": []}

    def collect(frame: Any, _: int) -> None:
        now = frame.where("_output IS NULL").select(*(f"`{name}`" for name in kinds))
        again = frame.where("_output = 'again'").select("_again.*")
        found["now"] += map(str, now.selectExpr(*shown).collect())
        found["again"] += map(str, again.selectExpr(*shown).collect())

    query = out.writeStream.foreachBatch(collect).trigger(availableNow=True)
    query.option("checkpointLocation", f"file://{tmp_path}/checkpoint").start().awaitTermination()
    batch = spark.read.parquet(f"file://{rows}").selectExpr("id AS k", f"{due} AS _due", *columns)
    expected = sorted(map(str, batch.selectExpr(*shown).collect()))
    assert sorted(found["now"]) == expected
    assert sorted(found["again"]) == expected, "a bounded run ends with the last watermark's rows"


def _shown(name: str) -> str:
    """Return SQL that tells values of a column apart."""
    if name == "json":
        return "to_json(json) AS json"
    return "hex(bytes) AS bytes" if name == "bytes" else f"CAST(`{name}` AS STRING) AS `{name}`"


def test_what_has_no_way_there_is_refused(spark: Any, tmp_path: Any) -> None:
    """Pass: an interval inside a struct is an error that names it."""
    from mainstem_keyed_state import polars_schema

    frame = spark.sql("SELECT named_struct('m', INTERVAL '1' MONTH) AS inside")
    with pytest.raises(PluginError, match=r"inside\.m: state by key can't hold interval month"):
        polars_schema(frame)


@pytest.mark.in_turn
def test_keys_can_be_read_back_and_stay_what_they_are(spark: Any, tmp_path: Any) -> None:
    """Pass: bytes are those written down here, for checkpoints hold them; texts are the values."""
    import pyarrow as pa
    from mainstem_keyed_state.hashes import keyed_by
    from mainstem_keyed_state.keys import KeyKind

    def key(value: Any) -> Any:
        keys, _ = keyed_by(pa.array([value], pa.binary()))
        return keys[0].as_py()

    cases: dict[tuple[str, ...], tuple[list[str], list[str]]] = {
        ("int",): (["1"], ["1"]),
        ("string", "bigint"): (["'é'", "7"], ["é", "7"]),
        ("double",): (["-0.0D"], ["0.0"]),
        ("timestamp",): (["TIMESTAMP'1970-01-01 00:00:01'"], ["1970-01-01T00:00:01+00:00"]),
        ("timestamp_ntz",): (["TIMESTAMP_NTZ'1970-01-01 00:00:01'"], ["1970-01-01T00:00:01"]),
        ("date",): (["DATE'1970-01-03'"], ["1970-01-03"]),
        ("binary",): (["X'00ff'"], ["00ff"]),
        ("decimal(5,2)",): (["-1.50BD"], ["-1.50"]),
        ("boolean",): (["false"], ["false"]),
    }
    for types, (values, texts) in cases.items():
        for lax in (False, True):
            kind = KeyKind(types, lax)
            (row,) = spark.sql(f"SELECT {kind.sql(values)} AS k").collect()
            assert kind.texts(key(row["k"])) == texts
            assert kind.of_texts(texts) == bytes(row["k"])
    strict, nulls = KeyKind(("int",)), KeyKind(("int",), nulls_equal=True)
    (row,) = spark.sql(
        f"SELECT {strict.sql(['1'])} a, {nulls.sql(['NULL'])} b, {strict.sql(['NULL'])} c, "
        f"{KeyKind(('string', 'double')).sql(['1', '0.5D'])} d"
    ).collect()
    assert key(row["a"]).hex() == "83dcefb731"
    assert key(row["b"]).hex() == "d202ef8d00"
    assert key(row["c"]) is None
    assert bytes(row["d"]) == b"\0\0\0\x01" + b"1" + b"\0\0\0\x08" + b"0x1.0p-1"
    assert nulls.texts(key(row["b"])) == [None]


@pytest.mark.in_turn
def test_texts_stand_for_the_keys_that_spark_makes_of_them(spark: Any) -> None:
    """Pass: a cast of Spark's and a reading here give the same bytes; what is no value is refused."""
    from mainstem import PipelineError
    from mainstem_keyed_state.keys import KeyKind

    cases = {
        "bigint": ["0", "-9223372036854775808", "+7", "007"],
        "double": ["0", "-0", "1", "0.1", "1e300", "-1e-320", "NaN", "Infinity", "-inf", "3.5e2"],
        "float": ["0.1", "16777217", "-0.0"],
        "decimal(38,18)": [
            "0",
            "1",
            "-12345678901234567890.123456789012345678",
            "0.0000000000000000005",
        ],
        "decimal(5,0)": ["2.5", "-3", "-0", "-0.4"],
        "timestamp": ["1969-12-31 23:59:59.999999", "2024-02-29T12:00:00+02:00", "2024-02-29"],
        "timestamp_ntz": ["2024-02-29 12:00:00.5", "0001-01-01 00:00:00"],
        "date": ["1969-12-31", "9999-12-31"],
        "boolean": ["true", "FALSE"],
        "string": ["", "é\0", " a "],
    }
    for kind, texts in cases.items():
        keys, frame = (
            KeyKind((kind,)),
            spark.createDataFrame([(text,) for text in texts], "t STRING"),
        )
        made = [
            bytes(row[0]) for row in frame.selectExpr(keys.sql([f"CAST(t AS {kind})"])).collect()
        ]
        assert [keys.of_texts([text]) for text in texts] == made, kind
    for kind, text in (
        ("int", "1.5"),
        ("int", "1_0"),
        ("tinyint", "300"),
        ("decimal(5,2)", "1000"),
        ("decimal(5,2)", "NaN"),
        ("date", "x"),
        ("boolean", "1"),
        ("binary", "0g"),
        ("interval", "1"),
    ):
        with pytest.raises(PipelineError):
            KeyKind((kind,)).of_texts([text])


def test_years_that_python_has_not_can_be_read() -> None:
    """Pass: of keys and of columns, as text, and the other columns as they are."""
    from mainstem_keyed_state.keys import KeyKind
    from mainstem_keyed_state.nodes import _beyond

    assert KeyKind(("date",)).texts(b"0000" + b"2932897") == ["1970-01-01 +2932897 days"]
    (told,) = KeyKind(("timestamp",)).texts(b"0000" + b"253402300800000000")
    assert told == "1970-01-01 +253402300800000000 microseconds"
    times = pl.Series([253402300800000000, None, 0])
    page = pl.DataFrame({"d": pl.Series([2932897, 0, None], dtype=pl.Int32).cast(pl.Date)})
    page = page.with_columns(times.cast(pl.Datetime("us", "UTC")).alias("at"), pl.lit(1).alias("n"))
    first, second, third = page.with_columns(_beyond(page)).iter_rows(named=True)
    assert "10000" in first["d"]
    assert "10000" in first["at"]
    assert (second["d"], second["n"], third["d"]) == ("1970-01-01", 1, None)
    assert _beyond(page[1:]) == []


@pytest.mark.in_turn
def test_buckets_are_spread_evenly(spark: Any) -> None:
    """Pass: Spark puts as many buckets into each partition, for any number of partitions."""
    from mainstem_keyed_state.layout import even_labels

    for partitions in (1, 2, 3, 7, 200):
        labels = even_labels(partitions, 4)
        assert len(set(labels)) == 4 * partitions
        if partitions in (2, 7):
            frame = spark.createDataFrame([(label,) for label in labels], "label INT")
            places = frame.selectExpr(f"pmod(hash(label), {partitions}) AS p").groupBy("p").count()
            assert {row["count"] for row in places.collect()} == {4}


class Noting(Logic):
    """Keeps rows of these columns, and is never run."""

    def __init__(self, columns: dict[str, Any], version: int = 1) -> None:
        self.tables = {"rows": Table(pl.Schema(columns))}
        self.version = version

    def step(self, step: Step) -> Done:
        raise NotImplementedError


def test_a_key_of_another_type_is_refused_on_an_old_checkpoint(tmp_path: Any) -> None:
    """Pass: INT may become BIGINT, whose keys are the same; DOUBLE is refused with both types."""
    context: Any = Context(SimpleNamespace(conf={"spark.sql.shuffle.partitions": "2"}), tmp_path)
    noting = Noting({"n": pl.Int64})
    first = layout_of(context, "", KeyKind(("int",)), noting)
    context.spark.conf["spark.sql.shuffle.partitions"] = "50"
    wider = layout_of(context, "", KeyKind(("bigint",)), noting)
    assert wider.labels == first.labels
    (noted,) = layouts_in(context.folder()).values()
    assert noted.keys == wider.keys == KeyKind(("bigint",))  # so that a key beyond INT is found
    with pytest.raises(OptionError, match=r"were \(bigint\) .* are \(double\) now"):
        layout_of(context, "", KeyKind(("double",)), noting)
    with pytest.raises(OptionError):
        layout_of(context, "", KeyKind(("int",), nulls_equal=True), noting)


@pytest.mark.parametrize(
    "columns",
    [
        {"n": pl.String},
        {"m": pl.Int64},
        {"m": pl.Int64, "n": pl.Int32},
        {"m": pl.Int64, "o": pl.Int64},
    ],
)
def test_state_of_other_columns_is_refused_before_a_row_is_read(
    tmp_path: Any, columns: Any
) -> None:
    """Pass: of one version, with both lists of columns; a new version brings them as it likes."""
    context: Any = Context(SimpleNamespace(conf={"spark.sql.shuffle.partitions": "2"}), tmp_path)
    keys = KeyKind(("int",))
    layout_of(context, "", keys, Noting({"n": pl.Int64}))
    layout_of(context, "", keys, Noting({"n": pl.Int64}))
    with pytest.raises(OptionError, match=r"rows of \(n int64\), and now would have"):
        layout_of(context, "", keys, Noting(columns))
    layout_of(context, "", keys, Noting(columns, version=2))
    layout_of(context, "", keys, Noting(columns, version=2))
    with pytest.raises(OptionError):
        layout_of(context, "", keys, Noting({"n": pl.Int64}, version=2))


def test_state_with_more_columns_is_served(tmp_path: Any) -> None:
    """Pass: of one version, wherever the new one stands; it is noted, and can't be left out again."""
    context: Any = Context(SimpleNamespace(conf={"spark.sql.shuffle.partitions": "2"}), tmp_path)
    keys = KeyKind(("int",))
    layout_of(context, "", keys, Noting({"n": pl.Int64}))
    layout_of(context, "", keys, Noting({"at": pl.Datetime("us", "UTC"), "n": pl.Int64}))
    with pytest.raises(OptionError):
        layout_of(context, "", keys, Noting({"n": pl.Int64}))


def test_a_layout_without_columns_is_still_read(tmp_path: Any) -> None:
    """Pass: one of before they were noted fits, keeps its buckets, and has them noted now."""
    context: Any = Context(SimpleNamespace(conf={"spark.sql.shuffle.partitions": "2"}), tmp_path)
    keys = KeyKind(("int",))
    made = layout_of(context, "", keys, Noting({"n": pl.Int64}))
    file = tmp_path / "keyed-state.json"
    noted = json.loads(read_whole(file))
    write_whole(file, json.dumps({key: noted[key] for key in ("format", "buckets", "keys")}))
    assert layout_of(context, "", keys, Noting({"n": pl.Int64})) == made
    with pytest.raises(OptionError):
        layout_of(context, "", keys, Noting({"n": pl.String}))


def test_a_store_that_can_not_hold_it_is_refused(tmp_path: Any) -> None:
    """Pass: with the in-memory store the error says which one to take."""
    from keyed_logics import Pairs
    from mainstem_keyed_state import keyed

    provider = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    conf = {"spark.sql.streaming.stateStore.providerClass": provider}
    logic = Pairs(pl.Schema(), pl.Schema())
    logic.ports = {}
    with pytest.raises(OptionError, match="state store can't hold") as error:
        keyed(logic, {}, Context(SimpleNamespace(conf=conf), tmp_path))
    assert "rocksdb" in (error.value.hint or "")


def test_a_logic_that_declares_other_ports_is_refused(spark: Any, tmp_path: Any) -> None:
    """Pass: wrong columns, a due column that is no time, a wrong port: each names what it is."""
    from keyed_logics import Count, Remember
    from mainstem_keyed_state import Port, keyed

    frame = spark.sql("SELECT 1 AS k")
    for logic, ports, words in (
        (Count(), {"rows": Port(frame, ["k"])}, "declares .* at rows"),
        (Count(), {"others": Port(frame, ["k"])}, r"declares ports \['rows'\]"),
        (
            Remember(pl.Schema({"k": pl.Int32}), "k"),
            {"rows": Port(frame, ["k"])},
            "k is no Datetime",
        ),
    ):
        with pytest.raises(PluginError, match=words):
            keyed(logic, ports, Context(spark, tmp_path))
