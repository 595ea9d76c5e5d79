"""Object container files as values: by their own schemas, compressed as they say, whole or refused."""

from __future__ import annotations

import json
from io import BytesIO

import pyarrow as pa
import pytest
from fastavro import parse_schema, writer
from mainstem_formats_avro.containers import AvroFiles
from mainstem_testkit import FormatSuite

ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}  # fmt: skip
OLD = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}  # fmt: skip
ROWS = [{"id": n, "note": None if n % 3 else "x" * n} for n in range(200)]
LIMIT = 1 << 20


def file(schema, rows, codec="null", **more):
    sink = BytesIO()
    writer(sink, parse_schema(schema), rows, codec=codec, sync_interval=500, **more)
    return sink.getvalue()


def read(*values, limit=LIMIT, **more):
    made = AvroFiles(json.dumps(ORDER), **more).read(pa.array(values, pa.binary()), limit)
    rows = pa.StructArray.from_arrays(made.rows, ["id", "note"]).to_pylist()
    starts = [0, *made.ends]
    return [rows[a:b] for a, b in zip(starts, made.ends, strict=False)], made.reasons


class TestContainers(FormatSuite):
    use = "avro"

    @pytest.fixture(autouse=True)
    def schema_file(self, tmp_path):
        self.file = tmp_path / "order.avsc"
        self.file.write_text(json.dumps(ORDER))

    def options(self):
        file = getattr(self, "file", "order.avsc")
        return {"schema_file": str(file), "framing": "container"}

    def good(self):
        return [(file(ORDER, ROWS[:3]), ROWS[:3]), (file(ORDER, []), [])]

    def bad(self):
        whole = file(ORDER, ROWS[:3])
        return [
            b"",
            b"Obj\x01",
            whole[:-1],
            whole + b"\2",
            file({**ORDER, "name": "Other"}, ROWS[:1]),
        ]


def by_java(spark, path, rows, codec):
    """Return a file as Java's Avro writes it."""
    avro = spark._jvm.org.apache.avro
    schema = avro.Schema.Parser().parse(json.dumps(ORDER))
    made = avro.file.DataFileWriter(avro.generic.GenericDatumWriter(schema))
    made.setCodec(avro.file.CodecFactory.fromString(codec))
    made.setSyncInterval(500)
    made.create(schema, spark._jvm.java.io.File(str(path)))
    for row in rows:
        record = avro.generic.GenericData.Record(schema)
        record.put("id", spark._jvm.java.lang.Long(str(row["id"])))
        record.put("note", row["note"])
        made.append(record)
    made.close()
    return path.read_bytes()


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_blocks_of_each_codec_are_read_as_java_writes_them(spark, tmp_path, codec):
    """Pass: many blocks; some bytes less refuse the file as a whole, and so do records that are too large."""
    whole = by_java(spark, tmp_path / "file", ROWS, codec)
    assert whole.count(whole[-16:]) > 3
    rows, reasons = read(whole, whole[:-20], whole)
    assert reasons[0] is reasons[2] is None
    assert reasons[1] is not None
    assert rows == [ROWS, [], ROWS]
    large = by_java(spark, tmp_path / "large", [{"id": 1, "note": "x" * 2_000_000}], codec)
    assert codec == "null" or len(large) < 200_000
    assert read(large)[1] == ["its records are too large together (max_size)"]
    assert read(large, limit=4_000_000)[1] == [None]


def test_a_file_is_read_by_its_own_schema():
    """Pass: what is new has its default, what is gone is left out, numbers are widened; or it is refused."""
    old = file(OLD, [{"id": 5, "gone": "x"}])
    assert read(old) == ([[{"id": 5, "note": None}]], [None])
    assert read(old, new_fields=False)[1] == ["its schema: gone is new"]


def test_what_is_no_file_is_told():
    """Pass: why, also of a codec that nobody here knows and a schema that is none."""
    whole = file(ORDER, ROWS[:2])
    told = {
        None: "the value is null",
        b"PAR1": "it is no container file",
        whole[:30]: "the file is cut",
        whole.replace(b"null", b"lzma", 1): None,
        file({**ORDER, "name": "Paid"}, []): "its schema: it is Paid, not Order",
    }
    rows, reasons = read(*told)
    assert rows == [[]] * len(told)
    for wanted, found in zip(told.values(), reasons, strict=True):
        assert found if wanted is None else found == wanted
    odd = bytearray(file(ORDER, ROWS[:2], "deflate"))
    at = odd.index(b"deflate")
    odd[at : at + 7] = b"brotli!"
    assert read(bytes(odd))[1] == ["it is compressed by brotli!"]


def odd_schema(*fields):
    """Return a file that claims a schema, beside the fields that are read."""
    schema = {**ORDER, "fields": [*ORDER["fields"], *fields]}
    whole = file(ORDER, ROWS[:1])
    text = json.dumps(schema).encode()
    start = whole.index(b"{")
    end = whole.index(b"}]}", start) + 3
    header = bytearray(whole[:start])
    size = len(text) << 1
    # The length before the text, of two bytes then and now.
    while header and header[-1] < 0x80 and len(header) > 5 and header[-2] >= 0x80:
        del header[-2:]
        break
    return bytes(header) + bytes([size & 0x7F | 0x80, size >> 7]) + text + whole[end:]


@pytest.mark.parametrize(
    "field",
    [
        {"name": "x", "type": {"type": "record", "name": "E", "fields": ["x"]}},
        {"name": "x", "type": {"type": "fixed", "name": "F", "size": 1e400}},
        {"name": "x", "type": {"type": "fixed", "name": "F", "size": -5}},
        {"name": "x", "type": {"type": "array", "items": "null"}},
        {
            "name": "x",
            "type": {"type": "array", "items": {"type": "record", "name": "N", "fields": []}},
        },
        {
            "name": "x",
            "type": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        },
    ],
    ids=["fields", "endless", "negative", "nulls", "empty", "nothing"],
)
def test_a_schema_that_a_message_claims_does_no_harm(field):
    """Pass: refused as no schema, whatever reading it raises, and before any number of nothings is counted."""
    rows, (reason,) = read(odd_schema(field))
    assert rows == [[]]
    assert reason.startswith("its schema: ")


@pytest.mark.in_turn
def test_records_of_nothing_within_each_other_take_no_time():
    """Pass: forty levels of two each are skipped as what they are."""
    inner = {"type": "record", "name": "T0", "fields": []}
    fields = [{"name": "x0", "type": inner}]
    for n in range(1, 40):
        its = [{"name": "a", "type": f"T{n - 1}"}, {"name": "b", "type": f"T{n - 1}"}]
        fields.append({"name": f"x{n}", "type": {"type": "record", "name": f"T{n}", "fields": its}})
    rows, reasons = read(odd_schema(*fields))
    assert reasons == [None]
    assert rows == [ROWS[:1]]


def test_a_file_cut_within_its_head_is_refused():
    """Pass: it is not taken for one without records."""
    head = file(ORDER, [])
    for less in (1, 3, 16):
        assert read(head[:-less])[1] == ["the file is cut"]
