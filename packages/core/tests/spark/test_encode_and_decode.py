"""What `encode` writes, `decode` reads as it was, for every type; or one of them refuses it."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pytest
from mainstem import Inputs, OptionError
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.contracts.ddl import read_columns
from mainstem.contracts.shapes import Events
from mainstem.registry import Registry

CONTROLS = "".join(map(chr, range(32))) + "\x7f\u2028\ufdd0\ufffd"
PLAIN = {
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1, 0],
    "float": [0.1, -0.0, 3.4028234663852886e38, 1.401298464324817e-45, math.nan, math.inf, -math.inf],
    "double": [0.1, -0.0, 1.7976931348623157e308, 5e-324, 1e16, 123456789.123, math.nan, math.inf],
    "decimal(38,0)": [Decimal(10**38 - 1), Decimal(-(10**38) + 1)],
    "decimal(38,38)": [Decimal("0." + "9" * 38), Decimal("0E-38")],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-12345678.99")],
    "string": ["", " padded ", "é 🎉", 'say "hi", ok', "a\\", "\r\n", "null", CONTROLS, "1.10"],
    "binary": [b"", bytes(range(256))],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)],
    # As texts, for Python's own times are none of the year 1 in some zones.
    "timestamp": ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.000001"],
    "timestamp_ntz": ["0001-01-01 00:00:00", "2024-03-31 02:30:00.123456"],
}  # fmt: skip
NESTED = {
    "array<timestamp>": [[datetime(2024, 1, 1), None], []],
    "array<struct<x:decimal(10,2),`a b`:array<binary>>>": [
        [(Decimal("1.10"), [b"\0", None]), None]
    ],
    "map<string,double>": [{"": 0.1, "a.b": None}],
    "map<int,date>": [{1: date(2024, 1, 1)}],
    "struct<n:bigint,m:map<string,array<int>>>": [(None, {"k": [1, None]}), (1, None)],
}


class Context:
    node = "row"
    wanted = frozenset(["rejected"])


def operator(kind, given):
    """Return an operator with the options of a document."""
    return kind(kind.options_for(given, Registry().component).model_validate(given))


def there_and_back(spark, format_, kind, values, **options):
    """Return what came back: the values, and the reasons of those that were refused."""
    schema = f"n INT, v {kind}"
    rows = [(number, value) for number, value in enumerate([*values, None])]
    as_text = kind.startswith("timestamp")
    frame = spark.createDataFrame(rows, "n INT, v STRING" if as_text else schema).coalesce(1)
    frame = frame.selectExpr("n", f"CAST(v AS {kind}) AS v")
    shape = Events(read_columns(schema))
    encode = operator(Encode, {"format": format_, **options})
    messages = encode.shape(Inputs({"input": shape}))
    written = encode.apply(Inputs({"input": frame}), Context())
    decode = operator(Decode, {"format": format_, "schema": schema, **options})
    decode.shape(Inputs({"input": messages}))
    read = decode.apply(Inputs({"input": written}), Context())
    if as_text:
        read = read.withColumn("v", read["v"].cast("string"))
    read = read.collect()
    return {row["n"]: row["v"] for row in read if row["_output"] is None}, [
        row["_rejected"]["reason"] for row in read if row["_output"]
    ]


def plain(value):
    """Return a value as plain Python has it, floats by their digits."""
    if isinstance(value, float):
        return repr(value)
    if hasattr(value, "asDict"):
        return [plain(each) for each in value]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("format_", ["json", "csv"])
@pytest.mark.in_turn
def test_every_plain_value_comes_back_as_it_was(spark, format_):
    """Pass: extremes, NaN, -0.0, the first and last times, every control character, nulls."""
    for kind, values in PLAIN.items():
        found, reasons = there_and_back(spark, format_, kind, values)
        assert reasons == [], kind
        wanted = dict(enumerate([*values, None]))
        if kind == "float":  # Python has the nearest one of twice as many digits
            wanted = {n: v if v is None else float(np.float32(v)) for n, v in wanted.items()}
        assert plain(found) == plain(wanted), kind


@pytest.mark.in_turn
def test_nested_values_come_back_from_json_and_are_refused_by_csv(spark):
    """Pass: arrays, maps and structs are as they were; csv says that it has none, before Spark starts."""
    for kind, values in NESTED.items():
        found, reasons = there_and_back(spark, "json", kind, values)
        assert reasons == [], kind
        assert plain(found) == plain(dict(enumerate([*values, None]))), kind
        with pytest.raises(OptionError, match="csv has no values of type"):
            there_and_back(spark, "csv", kind, values)


@pytest.mark.parametrize(
    ("separator", "kind", "values"),
    [
        (".", "decimal(5,2)", ["1.50", "-7.00"]),
        ("-", "int", [-1, 5]),
        ("-", "date", [date(2026, 1, 2)]),
        (":", "timestamp", ["2026-01-02 03:04:05.000006"]),
        ("e", "boolean", [True, False]),
        ("/", "binary", [b"\xff\xff\xff", b""]),
    ],
)
def test_a_separator_that_is_in_a_value_parts_nothing(spark, separator, kind, values):
    """Pass: values of any type come back as they were."""
    if kind.startswith("decimal"):
        values = [Decimal(value) for value in values]
    found, reasons = there_and_back(spark, "csv", kind, values, separator=separator)
    assert reasons == []
    assert plain(found) == plain(dict(enumerate([*values, None])))


def test_keys_that_json_has_no_text_for_are_refused(spark):
    """Pass: Spark would write days since 1970; `encode` says so instead."""
    with pytest.raises(OptionError, match="JSON has no keys as those of column v"):
        there_and_back(spark, "json", "map<date,int>", [{date(2024, 1, 1): 1}])


def test_keys_and_headers_are_the_text_of_what_they_are_made_of(spark):
    """Pass: of numbers and times too; bytes stay as they are, whatever they are, and null is none."""
    schema = "n BIGINT, b BINARY, at DATE"
    frame = spark.createDataFrame(
        [(7, b"\xff\x00", date(2026, 1, 2)), (None, None, None)], schema
    ).coalesce(1)
    for key, wanted in (("n", b"7"), ("b", b"\xff\x00"), ("at", b"2026-01-02")):
        encode = operator(Encode, {"format": "json", "key": key, "headers": {"h": key}})
        encode.shape(Inputs({"input": Events(read_columns(schema))}))
        found = encode.apply(Inputs({"input": frame}), Context()).collect()
        assert [row["key"] for row in found] == [wanted, None]
        assert [row["headers"] for row in found] == [{"h": wanted}, {}]


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy", "lz4"])
def test_compressed_messages_come_back(spark, codec):
    """Pass: what `encode` compresses, `decode` reads."""
    found, reasons = there_and_back(spark, "json", "string", ["x" * 10_000, ""], compression=codec)
    assert (found, reasons) == ({0: "x" * 10_000, 1: "", 2: None}, [])


ROWS = [
    (1, "grüße", 0.1, Decimal("1.50"), date(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, 456789), True),
    (-(2**63), " a;\"b\",\n c", -1e300, Decimal("-99999999.99"), date(1, 1, 1), datetime(1970, 1, 1), False),
    (2**63 - 1, "é 🎉\\", 1e-300, Decimal("0.00"), date(9999, 12, 31), datetime(9999, 12, 31, 23, 59, 59, 999999), None),
    (0, None, None, None, None, None, None),
    (7, "", 123456789.123, Decimal("0.10"), date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 1), True),
]  # fmt: skip
COLUMNS = "id BIGINT, name STRING, ratio DOUBLE, price DECIMAL(10,2), day DATE, at TIMESTAMP_NTZ, good BOOLEAN"


def written(spark, format_):
    """Return the values of all rows, as text."""
    frame = spark.createDataFrame(ROWS, COLUMNS).coalesce(1)
    made = operator(Encode, {"format": format_}).apply(Inputs({"input": frame}), Context())
    return [bytes(row["value"]).decode() for row in made.collect()]


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_others_read_what_is_written(spark, tmp_path, format_):
    """Pass: DuckDB has all rows as they were; so has pandas, which has no times before 1677 nor exact decimals in JSON."""
    values = written(spark, format_)
    names = [column.name for column in read_columns(COLUMNS)]
    file = tmp_path / f"rows.{format_}"
    lines = values if format_ == "json" else [",".join(names), *values]
    file.write_text("".join(f"{line}\n" for line in lines), newline="")
    kinds = {
        column.name: {"string": "VARCHAR", "timestamp_ntz": "TIMESTAMP"}.get(
            column.type, column.type.upper()
        )
        for column in read_columns(COLUMNS)
    }
    if format_ == "json":
        read = f"read_json('{file}', format='newline_delimited', columns={kinds})"
    else:
        read = f"read_csv('{file}', header=true, quote='\"', escape='\"', allow_quoted_nulls=false, columns={kinds})"
    assert duckdb.sql(f"SELECT * FROM {read}").fetchall() == ROWS
    text = dict.fromkeys(names, object)
    if format_ == "json":
        found = pd.read_json(file, lines=True, dtype=text, convert_dates=False, precise_float=True)
        assert found["id"].tolist() == [row[0] for row in ROWS]
        assert found["price"].dropna().map(float).tolist() == [
            float(row[3]) for row in ROWS if row[3] is not None
        ]
    else:
        found = pd.read_csv(file, dtype=str, keep_default_na=False)
        assert found["id"].map(int).tolist() == [row[0] for row in ROWS]
        assert found["price"].tolist() == ["" if row[3] is None else str(row[3]) for row in ROWS]
    names_read = [value or None for value in found["name"].where(found["name"].notna(), None)]
    assert names_read == [row[1] or None for row in ROWS]
    days = [
        None if not value or value != value else date.fromisoformat(value) for value in found["day"]
    ]
    assert days == [row[4] for row in ROWS]
