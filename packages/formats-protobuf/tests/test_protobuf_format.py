"""Messages as columns; what is read, beside Google's library; bytes that do no harm; what is written."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from mainstem import OptionError
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.columns import read_columns
from mainstem.cursors import Cursors, read_values
from mainstem.registry import Registry
from mainstem_formats_protobuf import schemas
from mainstem_formats_protobuf.compiler import load
from mainstem_formats_protobuf.reading import ProtobufValues
from mainstem_formats_protobuf.writing import ProtobufRows
from mainstem_testkit import FormatSuite

HERE = Path(__file__).parent
FILE = HERE / "order.proto"
AT = datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
LATE = 253_402_300_800_000_000  # beyond what Python's times hold
LINE = {"article": "pen", "count": -2, "prices": [0.5, -0.0], "kind": "KIND_BELOW"}
EMPTY_LINE = {"article": "", "count": 0, "prices": [], "kind": "KIND_NONE"}
EMPTY = {
    "a_double": 0.0, "a_float": 0.0, "an_int32": 0, "an_int64": 0, "a_uint32": 0, "a_uint64": Decimal(0),
    "a_sint32": 0, "a_sint64": 0, "a_fixed32": 0, "a_fixed64": Decimal(0), "a_sfixed32": 0, "a_sfixed64": 0,
    "a_bool": False, "a_string": "", "some_bytes": b"", "kind": "KIND_NONE", "maybe": None, "numbers": [],
    "words": [], "kinds": [], "line": None, "lines": [], "counts": [], "by_number": [], "mail": None,
    "phone": None, "shop": None, "nothing": None, "at": None, "took": None, "wrapped": None, "text": None,
    "times": [], "apart": [], "flags": [],
}  # fmt: skip
ROW = {
    "a_double": 0.1, "a_float": 0.5, "an_int32": -(2**31), "an_int64": -(2**63), "a_uint32": 2**32 - 1,
    "a_uint64": Decimal(2**64 - 1), "a_sint32": -(2**31), "a_sint64": 2**63 - 1, "a_fixed32": 2**32 - 1,
    "a_fixed64": Decimal(2**64 - 1), "a_sfixed32": -1, "a_sfixed64": -(2**63), "a_bool": True,
    "a_string": "grüße", "some_bytes": b"\xff\0", "kind": "KIND_NEW", "maybe": 0, "numbers": [0, -1, 2**31 - 1],
    "words": ["", "a"], "kinds": ["KIND_BELOW", "KIND_NONE"], "line": LINE, "lines": [EMPTY_LINE, LINE],
    "counts": [("a", -1)], "by_number": [(-1, LINE)], "mail": None, "phone": None,
    "shop": LINE, "nothing": None, "at": AT, "took": {"seconds": -1, "nanos": -5}, "wrapped": 0, "text": "",
    "times": [AT, datetime(1, 1, 1, tzinfo=UTC)], "apart": [0, 1, -1], "flags": [(True, b"x")],
}  # fmt: skip


@cache
def nodes(name="shop.Order", file=FILE, **more):
    return schemas.message(load(file), name, **more)


@cache
def google(name="shop.Order", file=FILE):
    """Return the class of a message, by Google's library."""
    held = descriptor_pb2.FileDescriptorSet.FromString(load(file))
    pool = descriptor_pool.DescriptorPool()
    for each in held.file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def by_google(row):
    """Return what Google's library writes of a row."""
    made = google()()
    for name, value in row.items():
        if value is not None:
            put(made, name, value)
    return made.SerializeToString(deterministic=True)


def put(made, name, value):
    field = made.DESCRIPTOR.fields_by_name[name]
    kind = field.message_type.full_name if field.message_type else ""
    if field.message_type and field.message_type.GetOptions().map_entry:
        for key, each in value:
            if isinstance(each, dict):
                fill(getattr(made, name)[key], each)
            else:
                getattr(made, name)[key] = each
    elif isinstance(value, list):
        for each in value:
            if kind:
                fill(getattr(made, name).add(), each)
            else:
                getattr(made, name).append(number_of(field, each))
    elif kind:
        getattr(made, name).SetInParent()
        fill(getattr(made, name), value)
    else:
        setattr(made, name, number_of(field, value))


def number_of(field, value):
    if field.enum_type:
        return field.enum_type.values_by_name[value].number
    return int(value) if isinstance(value, Decimal) else value


def fill(made, value):
    if isinstance(value, dict):
        for name, each in value.items():
            put(made, name, each)
    elif isinstance(value, datetime):
        made.FromDatetime(value)
    elif value is not True:
        made.value = value


def read(values, name="shop.Order", file=FILE, made=None, **more):
    its = made or nodes(name, file)
    arrays, reasons = ProtobufValues(its, **more).read(pa.array(values, pa.binary()))
    names = [node.name for node in its] + (["unknown"] if more.get("unknown") else [])
    for array in arrays:
        array.validate(full=True)
    rows = [
        dict(zip(names, row, strict=True))
        for row in zip(*(a.to_pylist() for a in arrays), strict=True)
    ]
    return rows, reasons


def arrays_of(its, rows):
    columns = schemas.columns(its)
    from mainstem.columns import arrow_type

    return [pa.array([row[c.name] for row in rows], arrow_type(c.type)) for c in columns]


def written(rows, its=None):
    its = its or nodes()
    made = ProtobufRows(its, [node.name for node in its])
    return made.write(*arrays_of(its, rows))


def varint(value):
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def field(number, wire, held=b""):
    return varint(number << 3 | wire) + held


def sized(number, held):
    return field(number, 2, varint(len(held)) + held)


def proto(folder, body, syntax='syntax = "proto3";', name="m.proto"):
    file = folder / name
    file.write_text(f"{syntax}\n{body}\n")
    return file


class TestProtobuf(FormatSuite):
    """The standard tests."""

    use = "protobuf"

    def options(self):
        return {"schema_file": str(FILE), "message": "shop.Order"}

    def good(self):
        return [
            (by_google(ROW), ROW),
            (b"", EMPTY),
            (by_google({**EMPTY, "phone": 0}), {**EMPTY, "phone": 0}),
        ]

    def bad(self):
        good = by_google(ROW)
        return [good[:-1], good + b"\0", b"\xff" * 40, field(1, 0, b"\1"), sized(14, b"\xff")]


# -- columns ------------------------------------------------------------------------------------


def test_fields_are_columns():
    """Pass: of each type, and null only where absence can be told."""
    wanted = read_columns(
        "a_double DOUBLE NOT NULL, a_float FLOAT NOT NULL, an_int32 INT NOT NULL, an_int64 BIGINT NOT NULL, "
        "a_uint32 BIGINT NOT NULL, a_uint64 DECIMAL(20,0) NOT NULL, a_sint32 INT NOT NULL, "
        "a_sint64 BIGINT NOT NULL, a_fixed32 BIGINT NOT NULL, a_fixed64 DECIMAL(20,0) NOT NULL, "
        "a_sfixed32 INT NOT NULL, a_sfixed64 BIGINT NOT NULL, a_bool BOOLEAN NOT NULL, "
        "a_string STRING NOT NULL, some_bytes BINARY NOT NULL, kind STRING NOT NULL, maybe INT, "
        "numbers ARRAY<INT> NOT NULL, words ARRAY<STRING> NOT NULL, kinds ARRAY<STRING> NOT NULL, "
        "line STRUCT<article: STRING, count: INT, prices: ARRAY<DOUBLE>, kind: STRING>, "
        "lines ARRAY<STRUCT<article: STRING, count: INT, prices: ARRAY<DOUBLE>, kind: STRING>> NOT NULL, "
        "counts MAP<STRING, BIGINT> NOT NULL, by_number "
        "MAP<INT, STRUCT<article: STRING, count: INT, prices: ARRAY<DOUBLE>, kind: STRING>> NOT NULL, "
        "mail STRING, phone BIGINT, shop STRUCT<article: STRING, count: INT, prices: ARRAY<DOUBLE>, "
        "kind: STRING>, nothing BOOLEAN, at TIMESTAMP, took STRUCT<seconds: BIGINT, nanos: INT>, "
        "wrapped BIGINT, text STRING, times ARRAY<TIMESTAMP> NOT NULL, apart ARRAY<INT> NOT NULL, "
        "flags MAP<BOOLEAN, BINARY> NOT NULL"
    )
    assert schemas.columns(nodes()) == tuple(wanted)
    loose = schemas.columns(nodes("shop.Loose"))
    assert [column.type for column in loose] == ["variant", "variant", "variant", "array<variant>"]


def test_enums_may_be_numbers():
    """Pass: INT, of any number, in lists and messages too."""
    its = nodes(numbers=True)
    (row,), reasons = read([field(16, 0, b"\x07") + sized(20, b"\1\x63")], made=its)
    assert (row["kind"], row["kinds"], reasons) == (7, [1, 99], [None])
    assert written([{**row, "line": None}], its)[0].to_pylist() == [
        field(16, 0, b"\x07") + sized(20, b"\1\x63")
    ]


@pytest.mark.parametrize(
    ("body", "name", "told"),
    [
        ("message A { A a = 1; }", "A", "a: A is in itself"),
        ("message A { B b = 1; } message B { repeated A a = 1; }", "B", "a.b: B is in itself"),
        ("message A {}", "A", "A has no fields"),
        ("message A { int32 a = 1; }", "B", "there is no message 'B'; there are A"),
        ("message Apple { int32 a = 1; }", "Aple", "the nearest is Apple"),
        ("message A { int32 a = 1; } message B { int32 a = 1; }", None, "say which message it is .* A, B"),
        ("message A { int32 a = 1; int32 A = 2; }", "A", "two fields have one name"),
    ],
)  # fmt: skip
def test_what_no_column_holds_is_told(tmp_path, body, name, told):
    """Pass: by the field."""
    with pytest.raises(ValueError, match=told):
        schemas.message(load(proto(tmp_path, body)), name)


def test_a_group_is_no_column(tmp_path):
    """Pass: of proto2, and as an edition has it."""
    old = proto(
        tmp_path,
        "message A { optional group G = 1 { optional int32 a = 1; } }",
        'syntax = "proto2";',
    )
    with pytest.raises(ValueError, match="g: a group is no column"):
        schemas.message(load(old), "A")
    new = proto(
        tmp_path, "message A { B b = 1 [features.message_encoding = DELIMITED]; } message B { int32 a = 1; }",
        'edition = "2023";', "e.proto",
    )  # fmt: skip
    with pytest.raises(ValueError, match="b: a group is no column"):
        schemas.message(load(new), "A")


def test_the_only_message_that_no_other_has_needs_no_name(tmp_path):
    """Pass: it is found."""
    file = proto(tmp_path, "message A { B b = 1; } message B { int32 a = 1; }")
    assert [node.name for node in schemas.message(load(file), None)] == ["b"]


def test_presence_of_proto2_and_editions(tmp_path):
    """Pass: what is absent is null, required ones are refused, implicit ones are their default."""
    old = proto(
        tmp_path, "message A { optional int32 a = 1 [default = 7]; required int32 b = 2; repeated int32 c = 3; }",
        'syntax = "proto2";',
    )  # fmt: skip
    rows, reasons = read([field(2, 0, b"\5"), b""], "A", old)
    assert rows[0] == {"a": None, "b": 5, "c": []}
    assert reasons == [None, "b is not there"]
    new = proto(
        tmp_path,
        "option features.field_presence = IMPLICIT; message A { int32 a = 1; "
        "int32 b = 2 [features.field_presence = EXPLICIT]; "
        "int32 c = 3 [features.field_presence = LEGACY_REQUIRED]; "
        "repeated int32 d = 4 [features.repeated_field_encoding = EXPANDED]; }",
        'edition = "2023";', "e.proto",
    )  # fmt: skip
    rows, reasons = read([field(3, 0, b"\1"), b""], "A", new)
    assert rows[0] == {"a": 0, "b": None, "c": 1, "d": []}
    assert reasons == [None, "c is not there"]
    assert written([{"a": 0, "b": 0, "c": 0, "d": [1, 2]}], nodes("A", new))[0][0].as_py() == (
        field(2, 0, b"\0") + field(3, 0, b"\0") + field(4, 0, b"\1") + field(4, 0, b"\2")
    )


def test_files_that_are_none_are_told(tmp_path):
    """Pass: what protoc says, with the line; what is no descriptor set; what is not there."""
    with pytest.raises(ValueError, match=r"protoc refuses it: .*m.proto:2:13: .int31"):
        load(proto(tmp_path, "message A { int31 a = 1; }"))
    other = tmp_path / "x.desc"
    for held in (b"", b"\xff\xff", b"message A {}", bytes(1000)):
        other.write_bytes(held)
        with pytest.raises(ValueError, match="no descriptor set"):
            schemas.message(load(other), "A")
    with pytest.raises(ValueError, match="is no file"):
        load(tmp_path / "nothing.proto")


def test_a_changed_import_is_seen(tmp_path):
    """Pass: a .proto file is compiled again when what it imports is another."""
    other = tmp_path / "other"
    other.mkdir()
    proto(other, "message B { int32 b = 1; }", name="b.proto")
    file = proto(tmp_path, 'import "b.proto"; message A { B b = 1; }')
    assert schemas.message(load(file, [other]), "A")[0].ddl == "STRUCT<`b`: INT>"
    proto(other, "message B { int32 b = 1; string c = 2; }", name="b.proto")
    assert "c" in schemas.message(load(file, [other]), "A")[0].ddl


def test_without_protoc_it_is_told(tmp_path, monkeypatch):
    """Pass: what to install, or to give instead."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"mainstem-formats-protobuf\[protoc\]"):
        load(proto(tmp_path, "message A { int32 a = 1; }"))


# -- reading ------------------------------------------------------------------------------------


def test_what_google_writes_is_read_and_written_the_same():
    """Pass: values, and byte for byte."""
    blank = {
        "counts": [("", 0)],
        "by_number": [(0, EMPTY_LINE)],
        "flags": [(False, b"")],
    }  # one of each:
    wanted = [{**EMPTY, **each} for each in (ROW, {}, {"nothing": True, **blank}, {"mail": ""})]
    values = list(map(by_google, wanted))  # libraries order entries as they like
    rows, reasons = read(values)
    assert reasons == [None] * 4
    assert rows == wanted
    made, why = written(rows)
    assert why == [None] * 4
    assert made.to_pylist() == values


def test_messages_are_read_side_by_side_as_each_by_itself():
    """Pass: good ones all side by side; of changed ones each is read, or refused, as by itself."""
    made = ProtobufValues(nodes(), unknown=True)
    good = [
        by_google(ROW),
        by_google(EMPTY),
        by_google({**EMPTY, "phone": 5, "counts": [("a", 1)]}),
    ] * 20
    good += [sized(99, b"new") + each for each in good]
    cursors = Cursors(pa.array(good, pa.binary()))
    list(made._together(cursors))
    assert not cursors.marked.any()
    random = Random(5)
    refused = 0
    for _ in range(40):
        values = [changed(random.choice(good), random) for _ in range(100)]
        held = pa.array(values, pa.binary())
        arrays, reasons = made.read(held)
        wanted, alone = read_values(held, made._kinds, lambda _: [], made._alone)
        assert reasons == alone
        for array, its in zip(arrays, wanted, strict=True):
            array.validate(full=True)
            assert list(map(repr, array.to_pylist())) == list(map(repr, its.to_pylist()))  # NaN too
        refused += len(values) - reasons.count(None)
        for value, reason, row in zip(values, reasons, zip(*wanted, strict=True), strict=True):
            compare(value, reason, row[3].as_py())
    assert 400 < refused < 3600


def compare(value, reason, number):
    """What is read, Google's library reads too, and alike; what it refuses is refused."""
    its = google()()
    try:
        its.ParseFromString(value)
    except Exception:
        assert reason is not None, value
        return
    if reason is None:
        assert its.an_int64 == number, value


def changed(value, random):
    """Return a message of which up to three bytes are others, gone or new, or two behind each other."""
    made = bytearray(value)
    if random.random() < 0.2:
        made += value
    for _ in range(random.randint(0, 3)):
        at = random.randrange(len(made) + 1)
        byte = random.choice((0, 1, 2, 127, 128, 255, random.randrange(256)))
        made[at : at + random.randint(0, 1)] = [byte] if random.random() < 0.7 else []
    return bytes(made)


def test_parts_are_merged_as_the_encoding_says():
    """Pass: numbers and texts are the last, lists and maps grow, messages are merged; beside others."""
    first = by_google(
        {
            **EMPTY,
            "an_int32": 1,
            "line": LINE,
            "numbers": [1],
            "counts": [("a", 1), ("b", 1)],
            "at": AT,
        }
    )
    second = by_google({
        **EMPTY, "an_int32": 2, "line": {**EMPTY_LINE, "article": "ink"}, "numbers": [2], "counts": [("a", 2)],
    })  # fmt: skip
    rows, reasons = read([second, first + second, b""])
    assert reasons == [None] * 3
    row = rows[1]
    assert (row["an_int32"], row["numbers"], row["at"]) == (2, [1, 2], AT)
    assert row["line"] == {**LINE, "article": "ink"}
    assert dict(row["counts"]) == {"a": 2, "b": 1}
    assert len(row["counts"]) == 2


def test_the_last_member_of_a_oneof_is_the_one():
    """Pass: whichever it is, and a message begins anew behind another member."""
    line = by_google({**EMPTY, "shop": LINE})
    short = by_google({**EMPTY, "shop": {**EMPTY_LINE, "count": 9}})
    mail, phone = (by_google({**EMPTY, **each}) for each in ({"mail": "m"}, {"phone": 0}))
    rows, reasons = read(
        [mail + phone, phone + mail, line + mail, line + short, line + mail + short, mail]
    )
    assert reasons == [None] * 6
    found = [{n: row[n] for n in ("mail", "phone", "shop") if row[n] is not None} for row in rows]
    assert found == [
        {"phone": 0}, {"mail": "m"}, {"mail": "m"}, {"shop": {**LINE, "count": 9}},
        {"shop": {**EMPTY_LINE, "count": 9}}, {"mail": "m"},
    ]  # fmt: skip


def test_lists_may_be_in_one_piece_or_in_several():
    """Pass: both, whatever the schema says, and mixed."""
    apart = b"".join(field(18, 0, varint(each)) for each in (1, 2))
    together = sized(34, varint(5) + varint(6)) + field(34, 0, b"\7")
    rows, reasons = read([apart + sized(18, b"\3\4"), together, sized(18, b"")])
    assert reasons == [None] * 3
    assert [row["numbers"] for row in rows] == [[-1, 1, -2, 2], [], []]
    assert rows[1]["apart"] == [5, 6, 7]


def test_entries_of_maps_may_lack_a_key_or_a_value():
    """Pass: these are the defaults, of a message the empty one; what is new in one is left out."""
    rows, reasons = read([
        sized(23, b""), sized(23, sized(1, b"a")), sized(24, field(1, 0, b"\5")), sized(24, sized(2, b"")),
        sized(23, field(2, 0, b"\5") + sized(9, b"new")),
    ])  # fmt: skip
    assert reasons == [None] * 5
    assert [row["counts"] for row in rows] == [[("", 0)], [("a", 0)], [], [], [("", 5)]]
    assert [row["by_number"] for row in rows[2:4]] == [[(5, EMPTY_LINE)], [(0, EMPTY_LINE)]]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (field(3, 0), "cut"),
        (field(14, 2, b"\5ab"), "cut"),
        (field(1, 1, b"abc"), "cut"),
        (field(99, 5, b"abc"), "cut"),
        (b"\xff", "cut"),
        (field(3, 1, bytes(8)), r"an_int32 \(field 3\) was written as another type"),
        (sized(21, field(1, 0, b"\1")), r"article \(field 1\) was written as another type"),
        (field(3, 0, varint(2**31)), "more than 32 bits"),
        (field(5, 0, varint(2**32)), "more than 32 bits"),
        (field(7, 0, varint(2**32)), "more than 32 bits"),
        (field(4, 0, b"\xff" * 10), "more than 64 bits"),
        (field(4, 0, b"\xff" * 9 + b"\2"), "more than 64 bits"),
        (field(13, 0, b"\2"), "neither 0 nor 1"),
        (field(16, 0, b"\x63"), "kind: the enum has no name for 99"),
        (sized(20, b"\x63"), "kinds: the enum has no name for 99"),
        (sized(14, b"\xff"), "not UTF-8"),
        (sized(19, b"\xc3"), "not UTF-8"),
        (b"\0\0", "a number that none can have"),
        (field(99, 4), "a group ends that has not begun"),
        (field(99, 3) + field(98, 4), "a group ends that has not begun"),
        (field(99, 3), "cut"),
        (field(99, 3) * 200 + field(99, 4) * 200, "groups are nested too deep"),
        (field(99, 6), "no such wire type"),
        (sized(29, field(1, 0, varint(253_402_300_800))), "at: a time is beyond the years"),
        (sized(29, field(2, 0, varint(1_000_000_000))), "other nanoseconds"),
        (sized(29, field(2, 0, varint(2**64 - 1))), "other nanoseconds"),
        (sized(29, field(2, 0, varint(1001))), "finer than microseconds"),
        (sized(22, b"\x0a\x05a"), "cut"),
    ],
)
def test_bytes_that_are_no_message_are_refused(value, told):
    """Pass: with the reason, and beside good ones."""
    good = by_google(ROW)
    rows, reasons = read([good, value, good])
    assert reasons[0] is reasons[2] is None
    assert rows[0] == rows[2] == ROW
    assert told.replace("\\", "") in reasons[1]


def test_finer_times_may_be_cut():
    """Pass: also before 1970, downwards."""
    values = [sized(29, field(1, 0, varint(2**64 - 1)) + field(2, 0, varint(999_999_999)))]
    (row,), reasons = read(values, cut=True)
    assert reasons == [None]
    assert row["at"] == datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


def test_fields_that_nobody_knows_are_kept():
    """Pass: byte for byte, wherever they stand, groups too, and are written again."""
    new = [field(97, 0, b"\5"), sized(98, b"x"), field(99, 3) + field(1, 5, b"abcd") + field(99, 4)]
    known = by_google({**EMPTY, "an_int32": 1, "maybe": 2})
    values = [new[0] + known + new[1], known, known[:2] + new[2] + known[2:], b"".join(new)]
    rows, reasons = read(values, unknown=True)
    assert reasons == [None] * 4
    assert [row["unknown"] for row in rows] == [new[0] + new[1], None, new[2], b"".join(new)]
    assert [row["an_int32"] for row in rows] == [1, 1, 1, 0]
    its = nodes()
    made = ProtobufRows(its, [*(node.name for node in its), "rest"], "rest")
    rest = pa.array([row["unknown"] for row in rows], pa.binary())
    assert made.write(*arrays_of(its, rows), rest)[0][0].as_py() == known + new[0] + new[1]
    odd = pa.array([b"\xff", field(3, 0, b"\1"), None, b""], pa.binary())
    _, reasons = made.write(*arrays_of(its, [EMPTY] * 4), odd)
    assert reasons == [
        "the value is cut",
        "rest has a field that the message knows (3)",
        None,
        None,
    ]


def test_structs_are_json():
    """Pass: as Google's library tells them; what JSON has not is refused."""
    name = "shop.Loose"
    held = {
        "object": {"a": [1, 2.5, None, True, {"b": "ü"}], "": {}}, "any": None, "list": [[], "x"],
        "several": [1e300, -1, False],
    }  # fmt: skip
    value = json_format.ParseDict(held, google(name)()).SerializeToString()
    rows, reasons = read([value, b""], name)
    assert reasons == [None, None]
    assert {key: json.loads(rows[0][key]) for key in ("object", "any", "list")} == {
        key: held[key] for key in ("object", "any", "list")
    }
    assert [json.loads(each) for each in rows[0]["several"]] == held["several"]
    assert rows[1] == {"object": None, "any": None, "list": None, "several": []}
    nan = google(name)()
    nan.any.number_value = float("nan")
    deep = b""
    for _ in range(300):
        deep = sized(6, sized(1, deep or field(1, 0, b"\0")))
    odd = [nan.SerializeToString(), sized(2, b""), sized(2, deep), sized(2, field(3, 0, b"\1"))]
    told = ["JSON does not have", "no kind", "too deep", "another type"]
    for reason, part in zip(read(odd, name)[1], told, strict=True):
        assert part in reason


def test_many_pieces_are_read_in_bounded_time():
    """Pass: 200,000 items, unknown fields, and parts of one message, beside others."""
    many = 200_000
    values = [
        sized(18, b"\2" * many), field(97, 0, b"\1") * many, sized(21, field(2, 0, b"\1")) * many,
        field(34, 0, b"\1") * many, b"",
    ]  # fmt: skip
    rows, reasons = read(values, unknown=True)
    assert reasons == [None] * 5
    assert rows[0]["numbers"] == [1] * many
    assert len(rows[1]["unknown"]) == 3 * many
    assert rows[2]["line"] == {**EMPTY_LINE, "count": 1}
    assert len(rows[3]["apart"]) == many


@pytest.mark.in_turn
def test_deep_messages_are_read_in_bounded_time(tmp_path):
    """Pass: lists in lists in lists; a wide message that is there often; many fields that nobody knows."""
    numbers = " ".join(f"int32 a{n} = {n};" for n in range(2, 22))
    file = proto(
        tmp_path,
        f"message A {{ repeated B x = 1; {numbers} }} message B {{ repeated C x = 1; {numbers} }} "
        f"message C {{ repeated D x = 1; {numbers} }} message D {{ {numbers} }}",
    )
    value = field(2, 0, b"\1")
    for _ in range(3):
        value = sized(1, value) * 25
    rows, reasons = read([value, b"", value], "A", file)
    assert reasons == [None] * 3
    assert rows[0]["x"][24]["x"][24]["x"][24]["a2"] == 1
    wide = proto(
        tmp_path,
        "message W { repeated I x = 1; } message I { "
        + " ".join(f"int32 a{n} = {n};" for n in range(1, 1001))
        + " }",
        name="wide.proto",
    )
    rows, reasons = read([sized(1, b"") * 300] * 3, "W", wide)
    assert [len(row["x"]) for row in rows] == [300] * 3
    random = Random(3)
    odd = [
        b"".join(field(random.randrange(100, 2**20), 0, b"\1") for _ in range(20))
        for _ in range(2000)
    ]
    rows, reasons = read(odd * 2, unknown=True)
    assert reasons == [None] * 4000
    assert [row["unknown"] for row in rows] == odd * 2
    rows, reasons = read([field(99, 0, b"\1") * 20_000] * 150, unknown=True)
    assert {len(row["unknown"]) for row in rows} == {60_000}


def test_what_is_popped_or_merged_is_read_too():
    """Pass: a member of a oneof that another follows, and each part of a message."""
    line = sized(27, sized(1, b"\xff"))
    cut = sized(21, field(1, 2, b"\5ab")) + sized(21, b"cde")
    good = by_google({**EMPTY, "mail": "m"})
    assert read([line + good, cut, good])[1] == ["a text is not UTF-8", "the value is cut", None]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (sized(1, b"abc"), "another type"),
        (field(2, 2, b"\x08" + bytes(8)), "another type"),
        (field(3, 1, b"abcdefgh"), "another type"),
        (field(3, 5, b"abcd"), "another type"),
        (field(3, 3) + field(9, 0, b"\1") + field(3, 4), "another type"),
        (field(1, 0, b"\7"), "is none"),
        (field(4, 0, b"\2"), "is none"),
        (field(1, 0, b"\0") * 2, "several kinds"),
        (sized(3, b"\xff"), "not UTF-8"),
        (field(5, 0, b"\1"), "another type"),
    ],
)
def test_values_of_structs_are_read_exactly(value, told):
    """Pass: what Google's library leaves out, or takes for another value, is refused."""
    assert told in read([sized(2, value)], "shop.Loose")[1][0]


def test_numbers_of_structs_keep_their_sign():
    """Pass: minus zero."""
    minus = field(2, 1, b"\0\0\0\0\0\0\0\x80")
    (row,), reasons = read([sized(2, minus)], "shop.Loose")
    assert (row["any"], reasons) == ("-0.0", [None])


def test_structs_in_parts_are_refused():
    """Pass: two of one field."""
    null = sized(2, field(1, 0, b"\0"))
    assert "comes in parts" in read([null + null], "shop.Loose")[1][0]


def test_lists_of_empty_messages_there_and_back(tmp_path):
    """Pass: each by itself, though lists of numbers are in one piece."""
    file = proto(
        tmp_path, "message E {} message A { repeated E e = 1; repeated B b = 2; } enum B { X = 0; }"
    )
    its = nodes("A", file)
    row = {"e": [True, True], "b": ["X", "X"]}
    made, _ = written([row], its)
    assert made[0].as_py() == sized(1, b"") * 2 + sized(2, b"\0\0")
    assert read([made[0].as_py()], "A", file) == ([row], [None])


def test_maps_are_none_of_the_groups_of_an_edition(tmp_path):
    """Pass: whatever the file's features say."""
    body = "option features.message_encoding = DELIMITED; message A { map<string, B> m = 1; } message B { int32 b = 1; }"
    file = proto(tmp_path, body, 'edition = "2023";')
    value = sized(1, sized(1, b"k") + sized(2, field(1, 0, b"\5")))
    assert read([value], "A", file) == ([{"m": [("k", {"b": 5})]}], [None])


def test_messages_nested_too_deep_are_told(tmp_path):
    """Pass: before anything is read."""
    body = (
        " ".join(f"message M{n} {{ M{n + 1} m = 1; }}" for n in range(300))
        + " message M300 { int32 a = 1; }"
    )
    with pytest.raises(ValueError, match="nested deeper than"):
        schemas.message(load(proto(tmp_path, body)), "M0")


def test_a_file_of_googles_that_is_another_is_told(tmp_path):
    """Pass: a descriptor set with a Timestamp of three fields."""
    (tmp_path / "google/protobuf").mkdir(parents=True)
    proto(
        tmp_path / "google/protobuf",
        "package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; int32 c = 3; }",
        name="timestamp.proto",
    )
    body = (
        'import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp t = 1; }'
    )
    with pytest.raises(
        ValueError, match=r"t: its google\.protobuf\.Timestamp is not that of Google"
    ):
        schemas.message(load(proto(tmp_path, body)), "A")


def test_folders_of_any_name_are_looked_into(tmp_path):
    """Pass: with blanks and colons; a folder of imports with a colon is told, for protoc can't."""
    odd = tmp_path / "a b:c"
    odd.mkdir()
    file = proto(odd, "message A { int32 a = 1; }")
    assert schemas.message(load(file), "A")
    with pytest.raises(ValueError, match="a folder with `:`"):
        load(file, [odd])


# -- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"an_int32": None}, "an_int32 is null"),
        ({"numbers": None}, "numbers is null"),
        ({"numbers": [1, None]}, "numbers is null, or has one"),
        ({"counts": [("a", None)]}, "counts is null, or has one"),
        ({"line": {**LINE, "count": None}}, "line.count is null"),
        ({"line": {**LINE, "kind": "NEW"}}, "line.kind: the enum has no such name"),
        ({"a_uint32": -1}, "a_uint32: a number does not fit into uint32"),
        ({"a_uint32": 2**32}, "a_uint32: a number does not fit into uint32"),
        ({"a_fixed32": 2**32}, "a_fixed32: a number does not fit into fixed32"),
        ({"a_uint64": Decimal(2**64)}, "does not fit into uint64"),
        ({"a_fixed64": Decimal(-1)}, "does not fit into fixed64"),
        ({"mail": "a", "phone": 1, "shop": None}, "mail and phone are of one oneof"),
        ({"at": LATE}, "at: a time is beyond the years"),
        ({"nothing": False, "shop": None}, "an empty message (true) or none (null)"),
    ],
)  # fmt: skip
def test_rows_that_are_no_message_are_refused(changes, told):
    """Pass: with the reason, and beside good ones."""
    made, reasons = written([ROW, {**ROW, **changes}, ROW])
    assert reasons[0] is reasons[2] is None
    assert told in reasons[1]
    assert made[1].as_py() is None
    assert made[2].as_py() == by_google(ROW)


@pytest.mark.parametrize(
    ("columns", "more", "told"),
    [
        ("an_int31 INT", {}, "the schema has no field an_int31"),
        ("an_int32 BIGINT", {}, "column an_int32 is bigint, the field int"),
        ("an_int32 INT", {"unknown": "rest"}, "there is no column rest"),
        ("an_int32 INT, rest STRING", {"unknown": "rest"}, "column rest is string, the field binary"),
        ("kind BINARY", {"unknown": "kind"}, "the message has a field kind"),
        ("object VARIANT", {"message": "shop.Loose"}, "which is only read"),
        ("an_int32 INT", {"message": "shop.Ordr"}, "the nearest is shop.Order"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_the_message_are_told(columns, more, told):
    """Pass: before Spark."""
    given = {"format": "protobuf", "schema_file": str(FILE), "message": "shop.Order", **more}
    model = Encode.options_for(given, Registry().component)
    encoder = Encode(model.model_validate(given)).encoder
    with pytest.raises(OptionError, match=told):
        encoder.check(read_columns(columns))


def test_names_in_messages_keep_their_case(tmp_path):
    """Pass: the decoder's own columns are written."""
    file = proto(
        tmp_path,
        "message A { Article Art = 1; } message Article { string Name = 1; int32 SELECT = 2; }",
    )
    given = {"format": "protobuf", "schema_file": str(file), "message": "A"}
    model = Encode.options_for(given, Registry().component)
    Encode(model.model_validate(given)).encoder.check(schemas.columns(nodes("A", file)))
    row = {"Art": {"Name": "n", "SELECT": 1}}
    assert read(written([row], nodes("A", file))[0].to_pylist(), "A", file) == ([row], [None])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"schema": "a INT"}, "has the columns of its `schema_file`"),
        ({"unknown": "KIND"}, "the message has a field KIND"),
        ({"message": "nobody"}, "there is no message 'nobody'"),
    ],
)
def test_options_that_do_not_fit_each_other_are_told(more, told):
    """Pass: before Spark."""
    given = {"format": "protobuf", "schema_file": str(FILE), "message": "shop.Order", **more}
    options = Decode.options_for(given, Registry().component).model_validate(given)
    with pytest.raises(OptionError, match=told):
        Decode(options).decoding()


def test_plans_need_no_library():
    """Pass: a descriptor set is looked at with neither Arrow nor Google's library."""
    program = (
        "import sys\n"
        "from mainstem_formats_protobuf import format\n"
        "from mainstem_formats_protobuf.schemas import columns, message\n"
        "from mainstem_formats_protobuf.compiler import load\n"
        "from pathlib import Path\n"
        f"assert columns(message(load(Path({str(FILE)!r})), 'shop.Order'))\n"
        "print([each for each in ('pyarrow', 'numpy', 'google.protobuf', 'pyspark') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
