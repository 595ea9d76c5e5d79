"""Schemas as columns; values as Avro resolves them; bytes that do no harm; what is written."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from random import Random

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from mainstem import OptionError
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.columns import read_columns
from mainstem.cursors import Cursors, read_values
from mainstem.registry import Registry
from mainstem_formats_avro import schemas
from mainstem_formats_avro.fingerprints import mark_of
from mainstem_formats_avro.reading import AvroValues
from mainstem_formats_avro.writing import AvroRows
from mainstem_testkit import FormatSuite

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 4}},
        {"name": "ratio", "type": "double"},
        {"name": "small", "type": "float"},
        {"name": "good", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [
                {"name": "kind", "type": "Kind"},
                {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "cost", "type": {
                    "type": "fixed", "name": "Cost", "size": 8, "logicalType": "decimal",
                    "precision": 12, "scale": 3,
                }},
            ],
        }}},
    ],
}  # fmt: skip
COLUMNS = (
    "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2) NOT NULL, at TIMESTAMP NOT NULL, seen TIMESTAMP, "
    "day DATE NOT NULL, local TIMESTAMP_NTZ NOT NULL, kind STRING NOT NULL, code BINARY NOT NULL, "
    "ratio DOUBLE NOT NULL, small FLOAT NOT NULL, good BOOLEAN NOT NULL, raw BINARY NOT NULL, "
    "tags ARRAY<STRING> NOT NULL, counts MAP<STRING, INT> NOT NULL, "
    "lines ARRAY<STRUCT<kind: STRING, when: TIMESTAMP, cost: DECIMAL(12,3)>> NOT NULL"
)
AT = datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
MILLIS = AT.replace(microsecond=456000)
ROW = {
    "id": 1, "name": "grüße", "price": Decimal("-1.50"), "at": AT, "seen": MILLIS, "day": date(1969, 12, 31),
    "local": datetime(2024, 2, 29, 1, 2, 3, 1), "kind": "OLD", "code": b"\0\1\2\3", "ratio": 0.1,
    "small": 0.5, "good": True, "raw": b"\xff", "tags": ["a", None], "counts": {"a": -1},
    "lines": [{"kind": "NEW", "when": MILLIS, "cost": Decimal("12.345")}],
}  # fmt: skip
EMPTY = {**ROW, "name": None, "seen": None, "tags": [], "counts": {}, "lines": []}


def written(schema, row):
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(schema), row)
    return stream.getvalue()


def read(schema, *values, others=(), framing="none"):
    made = AvroValues([json.dumps(schema)], [json.dumps(each) for each in others], framing=framing)
    arrays, reasons = made.read(pa.array(values, pa.binary()))
    names = [column.name for column in schemas.columns(schemas.read(json.dumps(schema)))]
    rows = [
        dict(zip(names, row, strict=True))
        for row in zip(*(a.to_pylist() for a in arrays), strict=True)
    ]
    return rows, reasons


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


class TestAvro(FormatSuite):
    """The standard tests."""

    use = "avro"

    @pytest.fixture(autouse=True)
    def _schemas(self, tmp_path):
        self.folder = tmp_path
        (tmp_path / "order.avsc").write_text(json.dumps(ORDER))

    def options(self):
        return {"schema_file": str(self.folder / "order.avsc")}

    def good(self):
        return [
            (written(ORDER, ROW), {**ROW, "counts": [("a", -1)]}),
            (written(ORDER, EMPTY), {**EMPTY, "counts": []}),
        ]

    def bad(self):
        good = written(ORDER, ROW)
        return [b"", good[:-1], good + b"\0", b"\xff" * 40]


# -- schemas ------------------------------------------------------------------------------------


def test_fields_are_columns():
    """Pass: of each type, with their nullability."""
    assert schemas.columns(schemas.read(json.dumps(ORDER))) == tuple(read_columns(COLUMNS))


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("int", "not that of a record"),
        (record(("a", ["int", "string"])), "a: a column has one type, and this has int, string"),
        (record(("a", ["null"])), "this has null"),
        (record(("a", "null")), "null alone"),
        (record(("a", "Nobody")), "no type 'Nobody' before it"),
        (record(("a", ["null", "r"])), "r is in itself"),
        (record(("a", {"type": "array", "items": record(name="e")})), "without fields"),
        (
            record(("a", {"type": "map", "values": ["int", "null", "long"]})),
            "a{}: a column has one type",
        ),
        (record(("a", {"items": "int"})), "no Avro schema"),
        (record(("a", {"type": "array"})), "no Avro schema"),
        (record(("a", {"type": "enum", "name": "e"})), "a list of symbols"),
        (record(("a", {"type": "fixed", "name": "f", "size": "4"})), "has a size"),
        (record(("a", "int"), ("A", "int")), "two fields have one name"),
        ({"type": "record", "name": "r", "fields": ["a"]}, "each field has a name"),
    ],
)
def test_what_no_column_holds_is_told(schema, told):
    """Pass: by the field."""
    with pytest.raises(ValueError, match=told):
        schemas.read(json.dumps(schema))


def test_names_have_their_namespaces():
    """Pass: a name without one is of the record that it stands in."""
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    schema = {
        "type": "record", "name": "a.b.Out", "fields": [
            {"name": "one", "type": inner},
            {"name": "two", "type": "a.b.In"},
            {"name": "three", "type": ["null", "In"]},
        ],
    }  # fmt: skip
    found = [column.type for column in schemas.columns(schemas.read(json.dumps(schema)))]
    assert found == ["struct<x:int>"] * 3


# -- values -------------------------------------------------------------------------------------


def test_values_are_what_was_written():
    """Pass: of each type, exactly."""
    rows, reasons = read(ORDER, written(ORDER, ROW), written(ORDER, EMPTY))
    assert reasons == [None, None]
    found, empty = rows
    assert found == {**ROW, "counts": [("a", -1)]}
    assert empty == {**EMPTY, "counts": []}


@pytest.mark.parametrize(
    ("kind", "kept", "told"),
    [
        ({"type": "long", "logicalType": "timestamp-micros"}, 2**62, "beyond the years"),
        ({"type": "long", "logicalType": "timestamp-millis"}, -(2**62), "beyond the years"),
        ({"type": "int", "logicalType": "date"}, 2**31 - 1, "beyond the years"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1},
            b"\x64",
            "more than 2",
        ),
    ],
)
def test_what_a_column_cannot_hold_is_refused(kind, kept, told):
    """Pass: with why, also inside other values, and the rows beside are read."""
    plain = {"long": "long", "int": "int", "bytes": "bytes"}[kind["type"]]
    small = b"\x01" if plain == "bytes" else 1
    for outer in (lambda t: t, lambda t: {"type": "array", "items": t}):
        values = [
            written(record(("a", outer(plain))), {"a": each if outer(1) == 1 else [each]})
            for each in (kept, small)
        ]
        _, reasons = read(record(("a", outer(kind))), *values)
        assert told in reasons[0]
        assert reasons[1] is None


def test_values_are_read_side_by_side_as_each_by_itself():
    """Pass: good ones all side by side; of changed ones each is read, or refused, as by itself."""
    made = AvroValues([json.dumps(ORDER)])
    good = [written(ORDER, each) for each in (ROW, EMPTY)] * 20
    cursors = Cursors(pa.array(good, pa.binary()))
    made._own.side_by_side(cursors, cursors.rows)
    assert not cursors.marked.any()
    assert cursors.ended(cursors.rows).all()
    random = Random(5)
    refused = 0
    for _ in range(40):
        values = [changed(random.choice(good), random) for _ in range(100)]
        arrays, reasons = made.read(pa.array(values, pa.binary()))
        wanted, alone = read_values(
            pa.array(values, pa.binary()), made.kinds, lambda _: [], made._alone
        )
        assert reasons == alone
        for array, its in zip(arrays, wanted, strict=True):
            array.validate(full=True)
            assert list(map(repr, array.to_pylist())) == list(map(repr, its.to_pylist()))  # NaN too
        refused += len(values) - reasons.count(None)
    assert 400 < refused < 3600


def changed(value, random):
    """Return a value of which up to three bytes are others, gone or new."""
    made = bytearray(value)
    for _ in range(random.randint(0, 3)):
        at = random.randrange(len(made))
        byte = random.choice((0, 1, 2, 127, 128, 255, random.randrange(256)))
        made[at : at + random.randint(0, 1)] = [byte] if random.random() < 0.7 else []
    return bytes(made)


def test_long_lists_are_read_in_bounded_time():
    """Pass: one of 200,000 items, beside short ones."""
    schema = record(("a", {"type": "array", "items": "int"}))
    lists = [[1], list(range(200_000)), [], [-1, 2]]
    rows, reasons = read(schema, *(written(schema, {"a": each}) for each in lists))
    assert reasons == [None] * 4
    assert [row["a"] for row in rows] == lists


def test_lists_in_lists_are_read_in_bounded_time():
    """Pass: three levels of records with 20 fields, a few values of them."""
    schema = record(*((f"a{n}", ["null", "int"]) for n in range(20)), name="d")
    row = dict.fromkeys((f"a{n}" for n in range(20)), 1)
    for name in "cba":
        schema = record(("x", {"type": "array", "items": schema}), name=name)
        row = {"x": [row] * 25}
    rows, reasons = read(schema, *[written(schema, row)] * 3)
    assert reasons == [None] * 3
    assert rows == [row] * 3


def test_values_of_other_writers_are_resolved():
    """Pass: by their fingerprints: new fields have defaults, old ones are gone, types are widened; what is
    of no known schema is refused with its fingerprint."""
    old = record(("id", "int"), ("gone", "string"))
    new = {
        "type": "record", "name": "r", "fields": [
            {"name": "id", "type": "long"}, {"name": "more", "type": ["null", "string"], "default": None},
        ],
    }  # fmt: skip
    by_old = mark_of(json.dumps(old)) + written(old, {"id": 7, "gone": "x"})
    by_new = mark_of(json.dumps(new)) + written(new, {"id": 2**40, "more": "y"})
    by_nobody = b"\xc3\x01" + b"\x01\x02\x03\x04\x05\x06\x07\x08" + b"\x00"
    rows, reasons = read(
        new, by_old, by_new, by_nobody, b"\x02", others=[old], framing="single_object"
    )
    assert rows[:2] == [{"id": 7, "more": None}, {"id": 2**40, "more": "y"}]
    assert reasons[:2] == [None, None]
    assert reasons[2:] == [
        "its schema is not known (fingerprint 0807060504030201)", "it names no schema",
    ]  # fmt: skip


def test_the_fingerprint_is_that_of_the_specification():
    """Pass: of the schema `"int"`, as tables of it have; the least byte first."""
    assert mark_of('"int"') == b"\xc3\x01" + bytes.fromhex("7275d51a3f395c8f")[::-1]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("item", ["int", "boolean", record(("x", "int"), name="e")], ids=str)
def test_a_few_bytes_cannot_ask_for_much(item):
    """Pass: counts and lengths without end are refused at once, and so are schemas of what has no bytes."""
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # as a long: the largest
    assert read(record(("a", {"type": "array", "items": item})), endless)[1] == ["the value is cut"]
    assert read(record(("a", "string")), endless)[1] == ["the value is cut"]


@pytest.mark.parametrize("part", ["null", {"type": "fixed", "size": 0, "name": "f"}], ids=str)
def test_items_of_parts_without_bytes_are_refused(part):
    """Pass: in a writer's schema a record of nothing but such is no item, whatever the reader adds to it."""
    old = record(("xs", {"type": "array", "items": record(("n", part), name="e")}))
    more = {"name": "q", "type": "int", "default": 1}
    item = {"type": "record", "name": "e", "fields": [more]}
    for new in (
        record(("xs", {"type": "array", "items": item})),
        record(("ys", ["null", "int"])) | {"fields": [more]},
    ):
        with pytest.raises(ValueError, match="items that take no bytes"):
            read(new, b"", others=[old], framing="single_object")


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x40", "an int has more than 32 bits"),
        ("long", b"\xff" * 10 + b"\x01", "a number has more than 64 bits"),
        ("long", b"\xff" * 9 + b"\x7f", "a number has more than 64 bits"),
        ("boolean", b"\x02", "a boolean is neither 0 nor 1"),
        ("string", b"\x02\xff", "a text is not UTF-8"),
        ("bytes", b"\x01", "a length is negative"),
        (["null", "int"], b"\x04\x02", "a union has no such branch"),
        (["null", "int"], b"\x01\x02", "a union has no such branch"),
        (
            {"type": "enum", "name": "e", "symbols": ["A", "B"]},
            b"\x01",
            "an enum has no such symbol",
        ),
        (
            {"type": "enum", "name": "e", "symbols": ["A", "B"]},
            b"\x04",
            "an enum has no such symbol",
        ),
        ({"type": "map", "values": "int"}, b"\x04\x02a\x02\x02a\x04\x00", "a map has a key twice"),
        ({"type": "array", "items": "int"}, b"\x01\x04\x02\x00", "a block has not as many bytes"),
        ("double", b"\0" * 7, "the value is cut"),
    ],
)
def test_bytes_that_are_no_value_are_refused(kind, value, told):
    """Pass: with why, where libraries take them for another value."""
    _, (reason,) = read(record(("a", kind)), value)
    assert reason is not None
    assert told in reason


def test_arrays_may_be_in_blocks():
    """Pass: of any number, with their bytes told or not."""
    schema = record(("a", {"type": "array", "items": "int"}))
    rows, reasons = read(schema, b"\x02\x02\x03\x04\x04\x06\x02\x08\x00")
    assert (rows, reasons) == ([{"a": [1, 2, 3, 4]}], [None])
    for size in (b"\x05", b"\x03", b"\x01"):  # of -3, -2 and -1 bytes
        assert read(schema, b"\x01" + size + b"\x0e\x00")[1] == ["a length is negative"]


@pytest.mark.parametrize("sign", [1, -1])
def test_decimals_of_38_digits_are_exact(sign):
    """Pass: each digit, there and back, in bytes and in a fixed."""
    number = Decimal(sign * 12345678901234567890123456789012345678).scaleb(-2)
    wide = {"logicalType": "decimal", "precision": 38, "scale": 2}
    schema = record(
        ("a", {"type": "bytes", **wide}), ("b", {"type": "fixed", "name": "f", "size": 16, **wide})
    )
    array = pa.array([number], pa.decimal128(38, 2))
    values, reasons = AvroRows(json.dumps(schema), ["a", "b"]).write(array, array)
    assert reasons == [None]
    assert read(schema, *values.to_pylist()) == ([{"a": number, "b": number}], [None])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("string", "int", "a: string can't be read as int"),
        ("long", "int", "a: long can't be read as int"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "timestamp-millis can't be read as timestamp-micros",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3},
            r"DECIMAL\(10,2\) can't be read as DECIMAL\(10,3\)",
        ),
        (
            {"type": "fixed", "name": "f", "size": 3}, {"type": "fixed", "name": "f", "size": 4},
            "a fixed of 3 can't be read as one of 4",
        ),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, r"a\[\]: string"),
    ],
)  # fmt: skip
def test_writers_that_cannot_be_read_are_told(tmp_path, old, new, told):
    """Pass: before anything runs, by the field; also a field that nobody wrote."""
    for name, schema in (("old", record(("a", old))), ("new", record(("a", new)))):
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema))
    (tmp_path / "more.avsc").write_text(json.dumps(record(("a", new), ("b", "int"))))
    given = {"format": "avro", "framing": "single_object", "writer_files": [tmp_path / "old.avsc"]}

    def columns(file):
        whole = {**given, "schema_file": tmp_path / file}
        made = Decode(Decode.options_for(whole, Registry().component)(**as_text(whole)))
        return made.decoder.columns(None)

    with pytest.raises(OptionError, match=told):
        columns("new.avsc")
    assert columns("old.avsc")
    given["writer_files"] = [tmp_path / "new.avsc"]
    with pytest.raises(OptionError, match="b was not written, and has no default"):
        columns("more.avsc")


def as_text(given):
    """Return options as a document has them."""

    def text(value):
        return [text(each) for each in value] if isinstance(value, list) else str(value)

    return {name: text(value) for name, value in given.items()}


def test_defaults_of_each_type_are_read():
    """Pass: of bytes, records within records, decimals, times, symbols; also under another name."""
    old = record(("was", "int"))
    new = {
        "type": "record", "name": "r", "fields": [
            {"name": "id", "type": "long", "aliases": ["was"]},
            {"name": "raw", "type": "bytes", "default": "\u00ff"},
            {"name": "code", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "\u00ffa"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
             "default": "\u0064"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1000},
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A"]}, "default": "A"},
            {"name": "in", "type": record(("x", "int"), name="I") | {
                "fields": [{"name": "x", "type": "int", "default": 3}]}, "default": {}},
            {"name": "many", "type": {"type": "array", "items": "int"}, "default": [1]},
            {"name": "by", "type": {"type": "map", "values": "int"}, "default": {"a": 1}},
            {"name": "maybe", "type": ["null", "int"], "default": None},
        ],
    }  # fmt: skip
    value = mark_of(json.dumps(old)) + written(old, {"was": 7})
    rows, reasons = read(new, value, others=[old], framing="single_object")
    assert reasons == [None]
    wanted = {
        "id": 7, "raw": b"\xff", "code": b"\xffa", "price": Decimal("1.00"),
        "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "kind": "A", "in": {"x": 3}, "many": [1],
        "by": [("a", 1)], "maybe": None,
    }  # fmt: skip
    assert rows == [wanted]
    ids = pa.array([8], pa.int64())
    values, reasons = AvroRows(json.dumps(new), ["id"]).write(ids)
    assert reasons == [None]
    assert read(new, *values.to_pylist()) == ([{**wanted, "id": 8}], [None])


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", 2**40),
        ("int", "1"),
        ("double", "NaN"),
        ("bytes", "\u0100"),
        ("boolean", 0),
        ("int", None),
    ],
)
def test_defaults_of_another_type_are_told(kind, default):
    """Pass: by the field, before anything runs."""
    schema = record(("a", kind))
    schema["fields"][0]["default"] = default
    with pytest.raises(ValueError, match="a: its default is no"):
        schemas.read(json.dumps(schema))


def test_longs_that_no_double_is_are_refused():
    """Pass: Avro widens them, and would round."""
    old, new = record(("a", "long")), record(("a", "double"))
    values = [mark_of(json.dumps(old)) + written(old, {"a": each}) for each in (2**53, 2**53 + 1)]
    rows, reasons = read(new, *values, others=[old], framing="single_object")
    assert rows[0] == {"a": 2.0**53}
    assert reasons == [None, "a number is no double, exactly"]


# -- writing ------------------------------------------------------------------------------------


def test_rows_become_values_and_are_refused_where_they_are_none():
    """Pass: what is written is read as it was; a null where none may be, and a time that would be cut, have
    a reason."""
    columns = read_columns(COLUMNS)
    names = [column.name for column in columns]
    odd = {**ROW, "seen": AT}
    rows = [ROW, {**ROW, "id": None}, odd, EMPTY]
    from mainstem.columns import arrow_type

    arrays = [
        pa.array(
            [
                list(row[c.name].items()) if isinstance(row[c.name], dict) else row[c.name]
                for row in rows
            ],
            arrow_type(c.type),
        )
        for c in columns
    ]
    values, reasons = AvroRows(json.dumps(ORDER), names).write(*arrays)
    assert [reason is None for reason in reasons] == [True, False, False, True]
    assert "finer than the milliseconds" in reasons[2]
    first, last = (value for value in values.to_pylist() if value is not None)
    assert (first, last) == (written(ORDER, ROW), written(ORDER, EMPTY))


@pytest.mark.parametrize(
    ("kind", "type_", "value", "told"),
    [
        ("boolean", pa.bool_(), None, "a is null"),
        ("double", pa.float64(), None, "a is null"),
        ({"type": "array", "items": "boolean"}, pa.list_(pa.bool_()), [True, None], "a[] is null"),
        (
            {"type": "map", "values": "int"},
            pa.map_(pa.string(), pa.int32()),
            [("k", None)],
            "a{} is null",
        ),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string(), "B", "no such symbol"),
        ({"type": "fixed", "name": "f", "size": 2}, pa.binary(), b"abc", "a has 3 bytes, not 2"),
    ],
)
def test_rows_that_the_schema_cannot_hold_are_refused(kind, type_, value, told):
    """Pass: by the field, and nothing else is written in their place."""
    values, (reason,) = AvroRows(json.dumps(record(("a", kind))), ["a"]).write(
        pa.array([value], type_)
    )
    assert values.to_pylist() == [None]
    assert told in reason


def test_times_beyond_those_of_python_are_written():
    """Pass: also inside other values."""
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    schema = record(("a", micros), ("b", {"type": "map", "values": micros}))
    far = 2**60
    kind = pa.timestamp("us", tz="UTC")
    arrays = pa.array([far], kind), pa.array([[("k", far)]], pa.map_(pa.string(), kind))
    values, reasons = AvroRows(json.dumps(schema), ["a", "b"]).write(*arrays)
    assert reasons == [None]
    plain = record(("a", "long"), ("b", {"type": "map", "values": "long"}))
    assert read(plain, *values.to_pylist())[0] == [{"a": far, "b": [("k", far)]}]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("id BIGINT, other INT", "no field other"),
        ("id INT", "column id is int, the field bigint"),
        ("name STRING", "id has no default"),
    ],
)
def test_columns_that_do_not_fit_the_schema_are_told(tmp_path, columns, told):
    """Pass: before anything runs."""
    file = tmp_path / "r.avsc"
    schema = record(("id", "long"))
    schema["fields"].append({"name": "name", "type": ["null", "string"], "default": None})
    file.write_text(json.dumps(schema))
    given = {"format": "avro", "schema_file": str(file)}
    made = Encode(Encode.options_for(given, Registry().component).model_validate(given))
    with pytest.raises(OptionError, match=told):
        made.encoder.check(read_columns(columns))
    made.encoder.check(read_columns("id BIGINT"))


def test_a_type_that_has_another_in_it_may_be_used_again():
    """Pass: by its name, as Debezium's envelopes do for the row before and after."""
    city = {"type": "record", "name": "City", "fields": [{"name": "name", "type": "string"}]}
    row = {"type": "record", "name": "Row", "fields": [{"name": "city", "type": city}]}
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Row"]}]
    found = schemas.read(json.dumps({"type": "record", "name": "Envelope", "fields": fields}))
    assert found.parts[0].ddl == found.parts[1].ddl == "STRUCT<`city`: STRUCT<`name`: STRING>>"
    twice = [{"name": "a", "type": city}, {"name": "b", "type": dict(city)}]
    with pytest.raises(ValueError, match="City is there twice"):
        schemas.read(json.dumps({"type": "record", "name": "Envelope", "fields": twice}))
