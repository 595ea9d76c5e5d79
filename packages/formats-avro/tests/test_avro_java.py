"""Through Spark and back, and there and back by Java's Avro, which comes with Spark."""

from __future__ import annotations

import json

import pytest
from mainstem import Events, Inputs
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_formats_avro.fingerprints import mark_of

SCHEMA = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ratio", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "line", "type": {"type": "record", "name": "Line", "fields": [
            {"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}]}},
    ],
}  # fmt: skip
ROWS = """
    SELECT 1L AS id, 'grüße' AS name, CAST(-1.50 AS DECIMAL(10,2)) AS price,
      TIMESTAMP '2024-02-29 01:02:03.456789Z' AS at, DATE '1969-12-31' AS day, 0.1D AS ratio,
      array('a', '') AS tags, map('x', -1) AS counts, named_struct('a', 2, 'b', CAST(NULL AS STRING)) AS line
    UNION ALL SELECT 2L, NULL, CAST(99999999.99 AS DECIMAL(10,2)), TIMESTAMP '0001-01-01 00:00:00Z',
      DATE '9999-12-31', -1e300D, CAST(array() AS ARRAY<STRING>), CAST(map() AS MAP<STRING, INT>),
      named_struct('a', -1, 'b', 'x')
"""


class Context:
    node = "row"
    wanted = frozenset(["rejected"])


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "order.avsc"
    made.write_text(json.dumps(SCHEMA))
    return made


def operator(kind, file, **more):
    given = {"format": "avro", "schema_file": str(file), **more}
    return kind(kind.options_for(given, Registry().component).model_validate(given))


def by_java(spark, value):
    """Return what Java's Avro reads in a value, as JSON, and what it writes again."""
    jvm = spark._jvm
    avro = jvm.org.apache.avro
    schema = jvm.org.apache.avro.Schema.Parser().parse(json.dumps(SCHEMA))
    decoder = avro.io.DecoderFactory.get().binaryDecoder(bytearray(value), None)
    record = avro.generic.GenericDatumReader(schema).read(None, decoder)
    out = jvm.java.io.ByteArrayOutputStream()
    encoder = avro.io.EncoderFactory.get().binaryEncoder(out, None)
    avro.generic.GenericDatumWriter(schema).write(record, encoder)
    encoder.flush()
    return record.toString(), bytes(out.toByteArray())


def test_there_and_back_and_through_java(spark, file):
    """Pass: what is written is read as it was, here and by Java's Avro; what that writes is read here."""
    frame = spark.sql(ROWS)
    shape = Events(read_columns(", ".join(f"{n} {t}" for n, t in frame.dtypes)))
    encode = operator(Encode, file, key="CAST(id AS STRING)")
    messages = encode.shape(Inputs({"input": shape}))
    sent = encode.apply(Inputs({"input": frame}), Context())
    values = [bytes(row["value"]) for row in sent.collect()]
    told = [by_java(spark, value) for value in values]
    assert '"name": "grüße"' in told[0][0]
    assert '"id": 2' in told[1][0]
    assert [back for _, back in told] == values
    decode = operator(Decode, file)
    decode.shape(Inputs({"input": messages}))
    read = decode.apply(Inputs({"input": sent}), Context())
    assert [row["_output"] for row in read.select("_output").collect()] == [None, None]
    names = [name for name in read.columns if not name.startswith("_")]
    # Before the years that Python's clock of this machine knows, times are compared as texts.
    texts = [f"CAST(at AS STRING) AS {name}" if name == "at" else name for name in names]
    found, wanted = (each.selectExpr(texts).orderBy("id").collect() for each in (read, frame))
    assert found == wanted


def test_a_value_that_names_its_schema_is_read_by_java(spark, file):
    """Pass: the fingerprint is the one that Java's Avro knows the schema by, which reads the whole value."""
    frame = spark.sql(ROWS).where("id = 1")
    encode = operator(Encode, file, framing="single_object")
    (row,) = encode.apply(Inputs({"input": frame}), Context()).collect()
    avro = spark._jvm.org.apache.avro
    schema = spark._jvm.org.apache.avro.Schema.Parser().parse(json.dumps(SCHEMA))
    decoder = avro.message.BinaryMessageDecoder(avro.generic.GenericData.get(), schema)
    assert '"id": 1' in decoder.decode(bytearray(row["value"])).toString()
    assert mark_of(json.dumps(SCHEMA)) == bytes(row["value"])[:10]


def test_a_row_that_is_no_value_is_refused(spark, file):
    """Pass: at `rejected`, with why; a deletion of a changelog has no value, whatever its columns are."""
    frame = spark.sql(ROWS).selectExpr("IF(id = 1, NULL, id) AS id", "* EXCEPT (id)")
    encode = operator(Encode, file, on_error="reject")
    rows = encode.apply(Inputs({"input": frame}), Context()).collect()
    (refused,) = (row for row in rows if row["_output"] == "rejected")
    assert refused["_rejected"]["reason"] == "id is null"
    assert json.loads(refused["_rejected"]["payload"])["name"] == "grüße"
    changes = frame.selectExpr(
        "*", "IF(id IS NULL, 'delete', 'insert') AS _change_type", "1L AS _commit_version"
    )
    rows = encode.apply(Inputs({"input": changes}), Context()).collect()
    assert [(row["_output"], row["value"] is None) for row in rows] == [(None, True), (None, False)]
