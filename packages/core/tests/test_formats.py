"""Values are read exactly or not at all, whoever wrote them: without Spark, so thousands in seconds."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mainstem.builtin.decode import Decode
from mainstem.contracts.ddl import Column, read_columns
from mainstem.errors import OptionError
from mainstem.formats import scalars
from mainstem.formats.compression import NotCompressed, compress, decompress
from mainstem.formats.csv_values import CsvValues, records
from mainstem.formats.json_values import AnyJson, JsonValues
from mainstem.formats.logfmt_values import LogfmtValues
from mainstem.formats.rules import Rules
from mainstem.registry import Registry
from pydantic import ValidationError

MORE = int(os.environ.get("MAINSTEM_FUZZ", "1"))
often = settings(max_examples=100 * MORE, deadline=None, derandomize=MORE == 1)

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MOMENTS = st.one_of(
    st.sampled_from([FIRST, LAST]),
    st.datetimes(timezones=st.just(UTC)),
)
PLAIN = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(38,10)": st.decimals(allow_nan=False, allow_infinity=False, places=10,
                                  min_value=-(10**28) + 1, max_value=10**28 - 1),
    "decimal(38,38)": st.decimals(0, 1, places=38).filter(lambda d: d < 1),
    "string": TEXTS,
    "binary": st.binary(max_size=12),
    "date": st.one_of(st.sampled_from([date.min, date.max]), st.dates()),
    "timestamp": MOMENTS,
    "timestamp_ntz": MOMENTS.map(lambda at: at.replace(tzinfo=None)),
}  # fmt: skip


def nested(depth=2):
    """Give a type and values of it, by strategy."""
    plain = st.sampled_from(sorted(PLAIN)).map(lambda kind: (kind, PLAIN[kind]))
    if not depth:
        return plain
    inner = nested(depth - 1)
    maybe = lambda values: st.one_of(st.none(), values)  # noqa: E731
    return st.one_of(
        plain,
        inner.map(lambda t: (f"array<{t[0]}>", st.lists(maybe(t[1]), max_size=3))),
        inner.map(
            lambda t: (f"map<string,{t[0]}>", st.dictionaries(TEXTS, maybe(t[1]), max_size=3))
        ),
        st.tuples(inner, inner).map(
            lambda ts: (
                f"struct<`a b`:{ts[0][0]},c:{ts[1][0]}>",
                st.fixed_dictionaries({"a b": maybe(ts[0][1]), "c": maybe(ts[1][1])}),
            )
        ),
    )


def in_json(value):
    """Write a value as the docs say that it is written, by Python's own means."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps({math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN"))
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{in_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(in_json, value)) + "]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return json.dumps(scalars.binascii.b2a_base64(value, newline=False).decode())
    if isinstance(value, date):  # datetimes too
        return json.dumps(value.isoformat())
    return json.dumps(value)


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    if isinstance(one, dict) and not isinstance(other, dict):
        other = dict(other)  # Arrow's maps are pairs
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def read_json(kind, *texts, **options):
    arrays, reasons = JsonValues([Column("v", kind)], **options).read(
        pa.array([text if isinstance(text, bytes) else text.encode() for text in texts])
    )
    return list(zip(arrays[0].to_pylist(), reasons, strict=True))


def read_csv(ddl, *texts, **options):
    arrays, reasons = CsvValues(read_columns(ddl), **options).read(
        pa.array([text if isinstance(text, bytes) else text.encode() for text in texts])
    )
    return list(zip(zip(*(a.to_pylist() for a in arrays), strict=True), reasons, strict=True))


@given(st.data())
@often
@pytest.mark.in_turn
def test_what_python_writes_as_json_is_read_as_it_was(data):
    """Pass: values of random types, nested ones too, come out of their JSON as they went in."""
    kind, values = data.draw(nested())
    made = data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=4))
    found = read_json(kind, *(f'{{"v": {in_json(value)}}}' for value in made))
    for value, (came, reason) in zip(made, found, strict=True):
        assert reason is None, (kind, value, reason)
        assert same(value, came), (kind, value, came)


@given(st.data())
@often
def test_what_python_writes_as_csv_is_read_as_it_was(data):
    """Pass: plain values, texts with every character, come out of a file of the module `csv`."""
    kind = data.draw(st.sampled_from(sorted(PLAIN)))
    made = data.draw(st.lists(PLAIN[kind], min_size=1, max_size=4))
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    for value in made:
        text = (
            value if isinstance(value, str) else json.loads(f"[{in_json(value)}]", parse_float=str)
        )
        plain = text if isinstance(text, str) else f"{text[0]}"
        writer.writerow([plain, "x"])
    split = [record for _, record in records(iter([file.getvalue().encode()]), ",")]
    assert len(split) == len(made)
    for value, ((came, _), reason) in zip(
        made, read_csv(f"v {kind}, x string", *split), strict=True
    ):
        assert reason is None, (kind, value, reason)
        assert same(value, came), (kind, value, came)


WRITTEN = st.one_of(
    st.text(st.sampled_from("0123456789.-+eE,_ :TZ/xXNaInfity\u0663\uff11"), max_size=24),
    st.decimals().map(str),
    st.integers(-(10**40), 10**40).map(str),
    st.datetimes().map(lambda at: at.isoformat(" ")),
    st.dates().map(str),
    st.sampled_from(["2024-02-29", "2023-02-29", "1e3", "1.0", "24:00", "", "0000-01-01", "true"]),
)


@given(st.sampled_from(sorted({*PLAIN, "decimal(10,2)", "decimal(5,0)"})), st.lists(WRITTEN))
@example("decimal(10,2)", ["1.50", "12.345"])
@example("decimal(5,0)", ["1.0", "1.5"])
@example("timestamp", ["2024-02-30 00:00:00"])
@example("date", ["2024-02-30"])
@example("tinyint", ["128"])
@settings(often, max_examples=300 * MORE)
@pytest.mark.in_turn
def test_the_quick_way_to_read_texts_gives_what_the_exact_one_does(kind, texts):
    """Pass: a batch read by Arrow's casts has the values and the misfits of one text after the other."""
    one = scalars.reader(kind, Rules())
    values, bad = [], {}
    for index, text in enumerate(texts):
        try:
            values.append(one(text))
        except scalars.Misfit as misfit:
            values.append(None)
            bad[index] = str(misfit)
    for chosen in (range(len(texts)), *([n] for n in range(len(texts)))):
        batch = pa.array([texts[n] for n in chosen], pa.string())
        found, misfits = scalars.read(kind, batch)
        wanted = scalars.made(kind, [values[n] for n in chosen]).to_pylist()
        assert all(map(same, found.to_pylist(), wanted)), (kind, texts)
        assert misfits == {at: bad[n] for at, n in enumerate(chosen) if n in bad}


REFUSED = {
    "decimal(10,2)": ["1,5", "12,50", "1.234,56", "1.239", "1e400", "1_0", "$5", " 1", "1 ", "", "NaN"],
    "double": ["1,5", "1e400", "1_0", "0x10", "1d", "1f", " 1", "", "true"],
    "float": ["1e39", "-1e39"],
    "bigint": ["9223372036854775808", "1.0", "1e3", "\u0663", ""],
    "tinyint": ["128", "-129"],
    "timestamp": [
        "10:00:00", "T10:00:00", "2024", "2024-03", "1711848600", "now", "31/03/2024",
        "2024-03-31T24:00:00Z", "2024-02-30T00:00:00Z", "2024-03-31T01:30:00.1234567Z",
        "2024-03-31T01:30:00 America/New_York", "10000-01-01T00:00:00Z", "2024-03-31T01:30:00+25:00",
    ],
    "timestamp_ntz": ["2024-03-31T01:30:00Z", "2024-03-31T01:30:00+02:00"],
    "date": ["20240229", "2024-2-9", "2024", "2023-02-29", "2024-02-29T00:00:00", ""],
    "binary": ["A", "AQ", "A!=="],
    "boolean": ["1", "yes", ""],
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_exactly_of_a_type_is_refused(kind):
    """Pass: each text of the table is refused in JSON and in csv, by the type's name."""
    options = {"text_numbers": True}
    for text in REFUSED[kind]:
        ((_, reason),) = read_json(kind, json.dumps({"v": text}), **options)
        assert reason == f"v is no {kind.upper()}", text
        if text:  # in csv nothing is null
            ((_, reason),) = read_csv(f"v {kind}, x string", f'"{text}",x')
            assert reason == f"v is no {kind.upper()}", text


def test_a_text_is_no_number_unless_the_document_says_so():
    """Pass: in JSON a quoted number is refused for each type of number, and taken with `text_numbers`."""
    for kind in ("decimal(10,2)", "double", "bigint"):
        assert read_json(kind, '{"v":"15"}')[0][1] == f"v is no {kind.upper()}"
        ((value, reason),) = read_json(kind, '{"v":"15"}', text_numbers=True)
        assert (float(value), reason) == (15.0, None)


def test_numbers_in_texts_stand_as_they_stood():
    """Pass: a number or an object that lands in a STRING is its JSON text, to the letter."""
    written = [
        "12345678901234567.89", "1.10", "1e400", "-0", "0.0000001", "true",
        '{"a": 12345678901234567.89, "b":[1.10,\t"\\u00e9"]}', "123456789012345678901234567890",
    ]  # fmt: skip
    found = read_json("string", *(f'{{"v":{text}}}' for text in written))
    assert found == [(text, None) for text in written]
    assert read_json("string", '{"v":"\\u00e9\\ud83d\\ude00"}') == [("é😀", None)]


@pytest.mark.parametrize(
    "number",
    ["1e-99999999999999999999999", "0e99999999999999999999999", "-1E+99999999999999999999"],
)
def test_exponents_that_no_number_has_are_refused(number):
    """Pass: of every type that reads digits, and of VARIANTs."""
    value = f'{{"a": {number}}}'.encode()
    for kind in ("DECIMAL(10,2)", "TIMESTAMP", "VARIANT", "DOUBLE", "INT"):
        made = JsonValues(read_columns(f"a {kind}"), Rules(unit="s"))
        _, (reason,) = made.read(pa.array([value], pa.binary()))
        assert reason is not None or kind == "DOUBLE"
    unknown = JsonValues(read_columns("b INT, rest VARIANT"), unknown=True)
    assert unknown.read(pa.array([value], pa.binary()))[1][0] is not None
    assert AnyJson().read(pa.array([value], pa.binary()))[1][0] is not None
    for kind in ("decimal(10,2)", "timestamp"):
        assert scalars.read(kind, pa.array([number]), Rules(unit="s"))[1]


def test_a_variant_holds_its_numbers_exactly_or_is_refused():
    """Pass: what Spark would keep as the nearest binary number is refused by name."""
    texts = [b"1.10", b"12345678901234567.89", b"1e3", b'{"t":"1e400"}', b"1" * 38]
    arrays, reasons = AnyJson().read(pa.array(texts))
    assert arrays[0].to_pylist() == [text.decode() for text in texts]
    assert reasons == [None] * len(texts)
    bad = [b"1e400", b"12345678901234567.89e0", b"[" + b"1" * 40 + b"]", b'{"a":0.1e-400}']
    _, reasons = AnyJson().read(pa.array(bad))
    assert all("exactly" in str(reason) for reason in reasons), reasons


LONE = [rb'{"v":"\ud800"}', rb'{"v":"a\udc00"}', rb'{"v":"\ud800\u0041"}', b'{"v":"\xed\xa0\x80"}']


def test_members_that_nobody_knows_are_kept_where_they_are_asked_for():
    """Pass: as they stand, the last of a doubled one; numbers that would become others are refused."""
    made = JsonValues(read_columns("id INT, rest VARIANT"), unknown=True)
    (ids, rest), reasons = made.read(
        pa.array([
            b'{"id": 1}', b'{"id": 2, "x": 1, "y": {"z": [1, 1.10]}, "a\\"b": null, "x": 2}', b'{"id": "x", "q": 1}',
            b'{"id": 3, "q": 1e400}', None, b"[]",
        ], pa.binary())
    )  # fmt: skip
    assert ids.to_pylist()[:2] == [1, 2]
    assert rest.to_pylist()[:3] == [None, '{"x":2,"y":{"z": [1, 1.10]},"a\\"b":null}', None]
    assert reasons == [
        None, None, "id is no INT", "rest can't hold 1e400 exactly", "the value is null", "no JSON object",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"schema": "id INT, rest INT"}, "already in the schema"),
        ({}, "is for a `schema`"),
        ({"by_type": {"field": "k", "schemas": {"a": "id INT"}}}, "is for a `schema`"),
        ({"schema": "id INT", "extra": "reject"}, "keeps what `extra: reject` refuses"),
    ],
)
def test_where_nothing_unknown_can_be_kept_is_told(given, told):
    """Pass: before anything runs."""
    given = {"format": "json", "unknown": "REST", **given}
    with pytest.raises((OptionError, ValidationError), match=told):
        Decode(Decode.options_for(given, Registry().component).model_validate(given)).decoding()


def test_half_a_character_is_refused():
    """Pass: lone surrogates, escaped or not, never become question marks."""
    assert all(reason in ("not JSON", "not UTF-8") for _, reason in read_json("string", *LONE))


def test_faults_have_their_own_names():
    """Pass: a doubled key keeps its last value, and what nests thousands deep is not called no JSON."""
    assert read_json("int", '{"v":1,"v":2}') == [(2, None)]
    deep = "[" * 2000 + "]" * 2000
    assert read_json("string", f'{{"x":{deep},"v":"a"}}')[0][1] == "nested too deep"
    assert AnyJson().read(pa.array([deep.encode()]))[1] == ["nested too deep"]
    most, text = "[" * 499 + "]" * 499, "[" * 2000
    assert read_json("string", f'{{"x":{most},"y":"\\"{text}","v":"a"}}')[0] == ("a", None)
    assert read_json("string", f'{{"x":[[{most}]],"v":"a"}}')[0][1] == "nested too deep"
    assert AnyJson().read(pa.array([f"[{most}]".encode()]))[1] == [None]
    assert AnyJson().read(pa.array([f"[[{most}]]".encode()]))[1] == ["nested too deep"]
    assert read_json("date", '{"v":"20240229"}')[0][1] == "v is no DATE"
    assert read_json("date", '{"v":"+12024-01-01"}')[0][1] == "v is beyond the years 1 to 9999"


def test_numbers_are_times_only_in_a_unit_that_is_stated():
    """Pass: numbers of a unit are exact, those beyond the years 1 to 9999 or finer are refused."""
    at = datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    for unit, number in (("s", "1711848600"), ("ms", "1711848600000"), ("us", "1711848600000000")):
        assert read_json("timestamp", f'{{"v":{number}}}', rules=Rules(unit=unit)) == [(at, None)]
        assert read_csv("v timestamp", number, rules=Rules(unit=unit)) == [((at,), None)]
    half = Rules(unit="s")
    exact = at + timedelta(microseconds=500_000)
    assert read_json("timestamp", '{"v":1711848600.5}', rules=half) == [(exact, None)]
    assert (
        read_json("timestamp", '{"v":1711848600.0000001}', rules=half)[0][1] == "v is no TIMESTAMP"
    )
    far = read_json("timestamp", '{"v":1711848600000}', rules=half)[0][1]
    assert far == "v is beyond the years 1 to 9999"
    assert read_json("timestamp", '{"v":1}')[0][1] == "v is no TIMESTAMP"


def test_decimal_commas_are_read_where_the_document_says_so():
    """Pass: with `decimal: ","` and `thousands: "."` numbers are what they look like; else refused."""
    comma = {"separator": ";", "rules": Rules(",", ".")}
    found = read_csv(
        "a decimal(10,2), b double, c bigint", "1.234,56;1,5;1.000", "12,50;-1;7", **comma
    )
    assert found == [((Decimal("1234.56"), 1.5, 1000), None), ((Decimal("12.50"), -1.0, 7), None)]
    ((_, reason),) = read_csv("a decimal(10,2), b double", "12.34;1.5", **comma)
    assert reason == "a is no DECIMAL(10,2), b is no DOUBLE"


def test_records_are_those_of_rfc_4180():
    """Pass: quotes, line ends, blanks and nulls are kept apart; what is no record says why."""
    schema = "a string, b string"
    for text, values in {
        'x,"say ""hi"""': ("x", 'say "hi"'),
        ' padded ,"\t"': (" padded ", "\t"),
        '"two\r\nlines",\\': ("two\r\nlines", "\\"),
        ',""': (None, ""),
        '"",': ("", None),
        'a"b,#c\r\n': ('a"b', "#c"),
        "'q',NULL\n": ("'q'", "NULL"),
        '"a,b",c\r': ("a,b", "c"),
    }.items():
        assert read_csv(schema, text) == [(values, None)], text
        assert read_csv(schema, text, '"",""')[0] == (values, None), text
    for text, why in {
        'x,"open': "a quote is not closed",
        '"a"b,c': "text after a closing quote",
        "a,b\nc,d": "more than one record",
        "a": "has 1 values, not 2",
        "a,b,c": "has 3 values, not 2",
        "": "the value is empty",
        b"caf\xe9,x": "not UTF-8",
    }.items():
        assert read_csv(schema, text)[0][1] == why
    assert read_csv(schema, b"caf\xe9,x", encoding="iso8859-1") == [(("café", "x"), None)]
    assert read_csv(schema, b"\x81,x", encoding="cp1252")[0][1] == "not cp1252"


def test_files_are_cut_into_records_wherever_their_bytes_are_cut():
    """Pass: any line ends, quotes and chunks give the same records, with the numbers of their lines."""
    text = b'a,"1\n2"\r\n\r\nb,x\rc,"y""\r\n"\n"never closed\nd,5" pipe\ne,z'
    whole = [
        (1, b'a,"1\n2"'), (4, b"b,x"), (5, b'c,"y""\r\n"'), (7, b'"never closed\nd,5" pipe'),
        (9, b"e,z"),
    ]  # fmt: skip
    cut = random.Random(1)
    for _ in range(200):
        ends = sorted(cut.sample(range(1, len(text)), 6))
        chunks = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
        assert list(records(iter(chunks), ",")) == whole
    broken = list(records(iter([b'x,1\n"open,2\ny,3\nz,4\n']), ","))
    assert broken == [(1, b"x,1"), (2, b'"open,2'), (3, b"y,3"), (4, b"z,4")]
    assert len(list(records(iter([b'"' + b"a\n" * 100]), ",", longest=50))) > 50


def table():
    """Return a table of what people have, with a missing value in each column."""
    return pd.DataFrame(
        {
            "n": pd.array([1, -(2**63), None, 2**63 - 1], dtype="Int64"),
            "d": [0.1, -0.0, np.nan, 1e300],
            "s": ["plain", 'quo"te, and\nline', None, " padded "],
            "at": pd.to_datetime(
                ["2024-03-31 01:30:00.123456", "1969-12-31 23:59:59", None, "2024-01-01"],
                format="mixed",
            ),
            "b": pd.array([True, False, None, True], dtype="boolean"),
        }
    )


SCHEMA = "n bigint, d double, s string, at timestamp, b boolean"


def check_table(rows):
    for row, (values, reason) in zip(table().itertuples(index=False), rows, strict=True):
        assert reason is None
        wanted = [None if pd.isna(value) else value for value in row]
        if wanted[3] is not None:
            wanted[3] = wanted[3].to_pydatetime().replace(tzinfo=UTC)
        assert list(values) == wanted


def csv_rows(data):
    found = [record for _, record in records(iter([data]), ",")]
    return read_csv(SCHEMA, *found[1:])


def test_csv_of_pandas_is_read_as_it_was_meant():
    check_table(csv_rows(table().to_csv(index=False).encode()))


def test_csv_of_arrow_is_read_as_it_was_meant():
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.Table.from_pandas(table(), preserve_index=False), sink)
    check_table(csv_rows(sink.getvalue().to_pybytes()))


def test_csv_of_duckdb_is_read_as_it_was_meant(tmp_path):
    frame = table()  # noqa: F841  DuckDB finds it by its name
    duckdb.sql(f"COPY (SELECT * REPLACE (nullif(d, 'nan') AS d) FROM frame) TO '{tmp_path}/t.csv'")
    check_table(csv_rows((tmp_path / "t.csv").read_bytes()))


def test_json_of_pandas_and_duckdb_is_read_as_it_was_meant(tmp_path):
    frame = table()
    duckdb.sql(f"COPY (SELECT * REPLACE (nullif(d, 'nan') AS d) FROM frame) TO '{tmp_path}/t.json'")
    frame["d"] = [0.1, -0.0, None, 0.5]  # pandas writes ten digits
    written = frame.to_json(orient="records", lines=True, date_format="iso", date_unit="us")
    duck = (tmp_path / "t.json").read_bytes().splitlines()
    for lines, columns in ((duck, SCHEMA), (written.encode().splitlines(), SCHEMA)):
        arrays, reasons = JsonValues(read_columns(columns)).read(pa.array(lines))
        assert reasons == [None] * 4
        rows = list(zip(*(a.to_pylist() for a in arrays), strict=True))
        if lines is duck:
            check_table([(row, None) for row in rows])
        assert [row[0] for row in rows] == [1, -(2**63), None, 2**63 - 1]
        assert rows[0][3] == datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "snappy"])
def test_compressed_values_are_whole_and_single_or_refused(codec):
    """Pass: what was compressed comes back; truncated, doubled, broken and huge ones are refused."""
    for plain in (b"", b"x", b"abc" * 50_000, os.urandom(200_000)):
        (made,) = compress(pa.array([plain]), codec).to_pylist()
        assert decompress(made, codec, len(plain)) == plain
        if plain:
            with pytest.raises(NotCompressed, match="more than"):
                decompress(made, codec, len(plain) - 1)
        for end in {0, 1, len(made) // 2, len(made) - 1} - {len(made)}:
            with pytest.raises(NotCompressed):
                decompress(made[:end], codec, 10**7)
        with pytest.raises(NotCompressed):
            decompress(made + made, codec, 10**7)
    with pytest.raises(NotCompressed, match="not"):
        decompress(b"no such thing at all", codec, 10**7)


def test_a_text_is_no_time_in_a_unit_unless_the_document_says_so():
    """Pass: digits in quotes are a time with `text_numbers` alone; other texts are read as ever."""
    unit, at = Rules(unit="ms"), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    text = '{"v":"1711848600000"}'
    assert read_json("timestamp", text, rules=unit)[0][1] == "v is no TIMESTAMP"
    assert read_json("timestamp", text, rules=unit, text_numbers=True) == [(at, None)]
    for plain in ('{"v":"2024-03-31T01:30:00Z"}', '{"v":"2024-03-31"}'):
        assert read_json("timestamp", plain, rules=unit) == read_json("timestamp", plain)
        assert read_json("timestamp", plain, rules=unit)[0][1] is None


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("map<timestamp,string>", "2024-01-01T00:00:00Z", "yesterday"),
        ("map<decimal(10,2),string>", "1.50", "x"),
        ("map<boolean,string>", "true", "maybe"),
        ("map<date,string>", "2024-01-01", "x"),
        ("map<double,string>", "1.5", "x"),
    ],
)
def test_a_key_that_is_none_hurts_no_other_row(kind, good, bad):
    """Pass: its row is refused, alone and beside others."""
    rows = [f'{{"v":{{"{key}":"x"}}}}' for key in (bad, good, bad)] + ['{"v":null}']
    found = read_json(kind, *rows)
    assert [reason is None for _, reason in found] == [False, True, False, True]
    assert read_json(kind, rows[0])[0][1] is not None


def test_keys_that_are_one_are_refused():
    """Pass: of numbers, instants and truths that are written in two ways, and of no others."""
    for kind, one, other in (
        ("map<int,string>", "1", "01"),
        ("map<boolean,string>", "true", "TRUE"),
        ("map<timestamp,string>", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00"),
    ):
        both = f'{{"v":{{"{one}":"x","{other}":"y"}}}}'
        found = read_json(kind, both, f'{{"v":{{"{one}":"x"}}}}', '{"v":{"x":"x"}}')
        assert found[0][1] == f"v is no {kind.upper()}"
        assert found[1][1] is None
        assert found[2][1] is not None


@pytest.mark.timeout(30)
def test_quotes_that_are_not_closed_cost_no_more_than_their_bytes():
    """Pass: half a megabyte of them is refused while one waits."""
    text = b"[]" * 501 + b'"' + b'\\"' * 250_000
    assert AnyJson().read(pa.array([text]))[1] != [None]


@pytest.mark.parametrize(
    ("ddl", "text", "separator"),
    [
        ("a string, b string", b"\t", "\t"),
        ("a string", b"   ", ","),
        ("a string, b string", b"a,b\n\n", ","),
        ("a string, b string", b"a,b\r\r\n", ","),
        ("a string, b string", b'"a",b\n\n', ","),
    ],
)
def test_a_record_of_csv_is_read_alike_whatever_is_beside_it(ddl, text, separator):
    """Pass: alone, and beside records that are read in another way or not at all."""
    alone = read_csv(ddl, text, separator=separator)[0]
    for beside in (b'""', b"", b"caf\xe9", b"x"):
        assert read_csv(ddl, text, beside, separator=separator)[0] == alone


def test_any_blank_of_unicode_can_be_in_a_value_of_logfmt():
    """Pass: a no-break space ends nothing."""
    arrays, reasons = LogfmtValues(read_columns("msg string, n int")).read(
        pa.array(["msg=a\u00a0b\u3000c n=1".encode()])
    )
    assert (arrays[0].to_pylist(), arrays[1].to_pylist(), reasons) == (
        ["a\u00a0b\u3000c"],
        [1],
        [None],
    )
