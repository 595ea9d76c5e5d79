"""Schemas as columns; what a schema does not allow; values by a registry's numbers."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import jsonschema
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from mainstem import Inputs, OptionError, PermanentError
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_formats_json_schema import schemas
from mainstem_formats_json_schema.reading import JsonSchemaValues
from mainstem_registry import FRAMINGS, RegistryOptions
from mainstem_testkit import FormatSuite

LINE = {"type": "object", "properties": {"article": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
        "required": ["article"]}  # fmt: skip
ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Order", "type": "object",
    "properties": {
        "id": {"type": "integer"}, "name": {"type": ["string", "null"], "maxLength": 5}, "good": {"type": "boolean"},
        "ratio": {"type": "number"}, "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"}, "raw": {"type": "string", "contentEncoding": "base64"},
        "mail": {"type": "string", "format": "email"}, "kind": {"enum": ["new", "old", None]},
        "tags": {"type": "array", "items": {"type": "string"}}, "line": {"$ref": "#/$defs/Line"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {}, "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "tree": {"$ref": "#/$defs/Tree"},
    },
    "required": ["id", "name", "good", "line"],
    "$defs": {"Line": LINE, "Tree": {"type": "object", "properties": {
        "n": {"type": "integer"}, "next": {"$ref": "#/$defs/Tree"}}}},
}  # fmt: skip
COLUMNS = (
    "id BIGINT NOT NULL, name STRING, good BOOLEAN NOT NULL, ratio DOUBLE, at TIMESTAMP, day DATE, raw BINARY, "
    "mail STRING, kind STRING, tags ARRAY<STRING>, line STRUCT<article: STRING, count: BIGINT> NOT NULL, "
    "lines ARRAY<STRUCT<article: STRING, count: BIGINT>>, counts MAP<STRING, BIGINT>, any VARIANT, "
    "either VARIANT, tree STRUCT<n: BIGINT, next: VARIANT>"
)
VALUE = {
    "id": 1, "name": "grüß", "good": True, "ratio": 0.5, "at": "2024-02-29T01:02:03.5Z", "day": "2024-02-29",
    "raw": "AP8=", "mail": "a@b.org", "kind": "new", "tags": ["a"], "line": {"article": "pen"},
    "lines": [{"article": "ink", "count": 2}], "counts": {"x": 1}, "any": [1], "either": 5,
    "tree": {"n": 1, "next": {"n": 2}}, "more": 1,
}  # fmt: skip
ROW = {
    **VALUE, "at": datetime(2024, 2, 29, 1, 2, 3, 500_000, UTC), "day": date(2024, 2, 29), "raw": b"\0\xff",
    "line": {"article": "pen", "count": None}, "counts": [("x", 1)], "any": "[1]", "either": "5",
    "tree": {"n": 1, "next": '{"n": 2}'},
}  # fmt: skip
del ROW["more"]
LEAST = {"id": 1, "name": None, "good": False, "line": {"article": "pen"}}


def encoded(value):
    return json.dumps(value).encode()


def read(values, schema=ORDER, columns=COLUMNS, **more):
    made = JsonSchemaValues(json.dumps(schema), read_columns(columns), **more)
    arrays, reasons = made.read(pa.array(values, pa.binary()))
    return list(zip(*(each.to_pylist() for each in arrays), strict=True)), reasons


class TestJsonSchema(FormatSuite):
    """The standard tests."""

    use = "json-schema"

    @pytest.fixture(autouse=True)
    def _schemas(self, tmp_path):
        self.file = tmp_path / "order.json"
        self.file.write_text(json.dumps(ORDER))

    def options(self):
        return {"schema_file": str(self.file)}

    def good(self):
        least = {"id": 1, "good": False, "line": {"article": "pen", "count": None}}
        return [(encoded(VALUE), ROW), (encoded(LEAST), least)]

    def bad(self):
        return [b"", b"{}", b"[]", encoded({**LEAST, "id": "1"}), encoded({**LEAST, "kind": "x"})]


# -- columns ------------------------------------------------------------------------------------


def test_properties_are_columns():
    """Pass: of each type, null where it may be."""
    assert schemas.columns(json.dumps(ORDER)) == tuple(read_columns(COLUMNS))


def test_a_reference_at_the_top_is_followed():
    """Pass: as generators write it."""
    schema = {"$ref": "#/definitions/a~1b", "definitions": {"a/b": LINE}, "title": "x"}
    assert [c.name for c in schemas.columns(json.dumps(schema))] == ["article", "count"]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("[]", "no object with properties"),
        ("{", "no JSON"),
        ("true", "no object with properties"),
        ("[" * 100_000, "too deep"),
        (json.dumps({"properties": {"a": {"type": "int"}}}), "a: there is no type int"),
        (json.dumps({"properties": {"a": {"$ref": "other.json"}}}), "refers to other.json"),
        (json.dumps({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "refers to file"),
        (json.dumps({"properties": {"a": {"$ref": "#/b"}}}), "refers to #/b, which is not there"),
        (json.dumps({"$ref": "#"}), "no object with properties"),
        (json.dumps({"allOf": [{"properties": {"b": {}}}], "properties": {"a": {}}}), "declare the columns"),
        (json.dumps({"type": "array", "properties": {"a": {}}}), "no object with properties"),
        (json.dumps({"properties": {"a": {}}, "$schema": "http://json-schema.org/draft-03/schema"}), "nothing is known"),
        (json.dumps({"properties": {"a": {"type": [["x"]]}}}), "keyword has a value"),
        (json.dumps({"properties": {"a": {"enum": 5}}}), "keyword has a value"),
        (json.dumps({"properties": {"a": {}}, "required": [["a"]]}), "keyword has a value"),
        (json.dumps({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {
            f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}, "type": "object"}
            for n in range(40)} | {"d40": {"type": "string"}}}), "more than 10,000 types"),
    ],
)  # fmt: skip
def test_what_no_columns_are_is_told(schema, told):
    """Pass: before anything is read."""
    with pytest.raises(ValueError, match=told):
        schemas.columns(schema)


def test_references_of_all_kinds_are_looked_up_or_left_as_they_are():
    """Pass: pointers with signs, the schema's own address; anchors and addresses inside are VARIANT."""
    schema = {
        "$id": "https://x.org/y", "type": "object", "properties": {
            "a": {"$ref": "#/$defs/A%3CB%3E"}, "b": {"$ref": "https://x.org/y#/$defs/A%3CB%3E"},
            "c": {"$ref": "#line"}, "d": {"$ref": "#/$defs/In"}, "e": {"examples": [{"$ref": "other.json"}]},
        },
        "$defs": {
            "A<B>": {"type": "integer"}, "L": {"$anchor": "line", "type": "object", "properties": {"q": {}}},
            "In": {"$id": "https://x.org/in", "type": "object", "properties": {"v": {"$ref": "#/$defs/V"}},
                   "$defs": {"V": {"type": "object", "properties": {"q": {"type": "string"}}}}},
            "V": {"type": "object", "properties": {"z": {"type": "string"}}},
        },
    }  # fmt: skip
    columns = "a BIGINT, b BIGINT, c VARIANT, d VARIANT, e VARIANT"
    assert schemas.columns(json.dumps(schema)) == tuple(read_columns(columns))
    rows, reasons = read(
        [b'{"a":1,"c":{"q":2},"d":{"v":{"q":"pen"}}}', b'{"d":{"v":{"q":5}}}'], schema, columns
    )
    assert rows[0] == (1, None, '{"q":2}', '{"v":{"q":"pen"}}', None)
    assert reasons == [None, "d.v.q: type"]


def test_a_document_may_declare_the_columns(tmp_path):
    """Pass: these are read, and what the file does not allow is refused all the same."""
    file = tmp_path / "a.json"
    file.write_text(json.dumps(ORDER))
    given = {"format": "json-schema", "schema_file": str(file)}
    model = Decode.options_for(given, Registry().component)
    decoder = Decode(model.model_validate(given)).decoder
    columns = read_columns("id INT, line VARIANT")
    assert decoder.columns(columns) == columns
    made = decoder.reader(columns).open()
    arrays, reasons = made(pa.array([encoded(VALUE), encoded({**VALUE, "kind": 5})], pa.binary()))
    assert (arrays[0].to_pylist()[0], reasons) == (1, [None, "kind: enum"])
    with pytest.raises(OptionError, match="is no file"):
        Decode(model.model_validate({**given, "schema_file": str(tmp_path / "b")})).decoding()


# -- what is allowed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "5"}, "id: type"),
        ({"name": "secret-secret"}, "name: maxLength"),
        ({"line": {}}, "line: required"),
        (
            {"lines": [{"article": "a", "count": 1}, {"article": "a", "count": 0}]},
            "lines.1.count: minimum",
        ),
        ({"at": "yesterday"}, "at: format"),
        ({"mail": "nobody"}, "mail: format"),
        ({"either": 1.5}, "either: oneOf"),
        ({"kind": "x", "mail": "y", "at": "z", "id": ""}, ", "),
    ],
)
def test_what_a_schema_does_not_allow_is_refused(change, told):
    """Pass: with the place and the keyword, beside good ones, and never with the value."""
    rows, reasons = read([encoded(VALUE), encoded({**VALUE, **change}), encoded(VALUE)])
    assert reasons[0] is reasons[2] is None
    assert rows[0] == rows[2] == tuple(ROW.values())
    assert told in reasons[1]
    assert not any(word in reasons[1] for word in ("secret", "yesterday", "nobody"))


def test_names_that_only_a_value_has_are_not_told():
    """Pass: those of a map; a number that nothing can hold does not switch the schema off."""
    schema = {
        "properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "required": ["m"],
    }
    values = [
        b'{"m": {"secret": "x"}}',
        b'{"x": 1e400}',
        b'{"m": {}, "x": 1e400}',
        b'{"m": {"a": 1}}',
    ]
    _, reasons = read(values, schema, "m MAP<STRING, BIGINT>")
    assert reasons[0] == "m.*: type"
    assert "beyond all limits" in reasons[1]
    assert "beyond all limits" in reasons[2]
    assert reasons[3] is None


def test_what_no_column_holds_is_refused_though_it_is_allowed():
    """Pass: an integer beyond 64 bits, a time beyond the years 1 to 9999."""
    _, reasons = read(
        [
            encoded({**LEAST, "id": 2**70}),
            encoded({**LEAST, "at": "0000-01-01T00:00:00Z"}),
            b"{",
            None,
        ]
    )
    assert reasons[0] == "id is no BIGINT"
    assert reasons[1].startswith("at ")
    assert all(reasons)


@pytest.mark.parametrize("schema", [{"properties": {"a": {"pattern": "("}}}, {"minimum": "x"}])
def test_what_is_no_schema_ends_the_run(schema):
    """Pass: as its task begins, with what is wrong."""
    with pytest.raises(PermanentError, match="is no JSON Schema"):
        JsonSchemaValues(json.dumps(schema), read_columns("a STRING"))


def test_hostile_values_are_refused_in_bounded_time():
    """Pass: deep ones, and texts on which a careless pattern takes for ever."""
    schema = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "b": {}}}
    values = [
        encoded({"a": "a" * 100_000 + "!"}),
        b'{"b":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ]
    _, reasons = read(values, schema, "a STRING, b VARIANT")
    assert all(reasons)


class Context:
    node = "row"
    wanted = frozenset(["rejected"])


# -- writing ------------------------------------------------------------------------------------

WRITTEN = {
    "type": "object", "additionalProperties": False, "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer", "minimum": 1}, "name": {"type": ["string", "null"]}, "note": {"type": "string"},
        "price": {"type": "number"}, "line": {"anyOf": [LINE, {"type": "null"}]}, "tags": {"type": "array"},
        "at": {"type": "string", "format": "date-time"}, "raw": {"type": "string", "contentEncoding": "base64"},
    },
}  # fmt: skip
WRITTEN_COLUMNS = (
    "id BIGINT, name STRING, note STRING, price DECIMAL(38,18), line STRUCT<article: STRING, count: BIGINT>, "
    "tags ARRAY<STRING>, at TIMESTAMP, raw BINARY"
)


def encoder(tmp_path, schema=WRITTEN, **more):
    file = tmp_path / "written.json"
    file.write_text(json.dumps(schema))
    given = {"format": "json-schema", "schema_file": str(file), "on_error": "reject", **more}
    return Encode(Encode.options_for(given, Registry().component).model_validate(given))


def test_rows_become_what_the_schema_allows(spark, tmp_path):
    """Pass: nulls are left out, or there where they must be; digits stay; other rows are refused."""
    price = Decimal("1234567890123456789.123456789012345678")
    none = [None] * 3
    frame = spark.createDataFrame([
        (1, "a", "n", price, ("pen", 2), ["x"], datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC), bytearray(b"\0\xff")),
        (2, None, None, Decimal("1.5"), ("pen", None), *none),
        (3, None, None, None, None, ["x", None], None, None),
        (0, "a", None, None, None, *none),
        (4, "a", None, None, (None, 2), *none),
    ], WRITTEN_COLUMNS).coalesce(1)  # fmt: skip
    rows = encoder(tmp_path).apply(Inputs({"input": frame}), Context()).collect()
    values = [bytes(row["value"]).decode() for row in rows if row["_output"] is None]
    assert '"price":1234567890123456789.123456789012345678' in values[0]
    held = list(map(json.loads, values))
    assert held[0] == {
        "id": 1, "name": "a", "note": "n", "price": pytest.approx(1.2345678901234568e18),
        "line": {"article": "pen", "count": 2}, "tags": ["x"], "at": "2024-02-29T01:02:03.000000Z", "raw": "AP8=",
    }  # fmt: skip
    assert held[1] == {"id": 2, "name": None, "price": 1.5, "line": {"article": "pen"}}
    assert held[2] == {"id": 3, "name": None, "tags": ["x", None]}
    for each in held:
        jsonschema.validate(each, WRITTEN)
    told = [row["_rejected"]["reason"] for row in rows if row["_output"] is not None]
    assert told == ["id: minimum", "line: anyOf"]


def test_one_null_of_several_is_enough(spark, tmp_path):
    """Pass: where one or the other must be there, and not both."""
    schema = {"properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    frame = spark.sql("SELECT CAST(NULL AS INT) AS a, CAST(NULL AS INT) AS b")
    (row,) = encoder(tmp_path, schema).apply(Inputs({"input": frame}), Context()).collect()
    assert (bytes(row["value"]), row["_output"]) == (b'{"a":null}', None)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("id BIGINT", "the schema's name is required"),
        ("id BIGINT, name STRING, nam STRING", "allows no nam beside at, id"),
        ("id BIGINT, name STRING, tags ARRAY<MAP<INT, STRING>>", "no keys as those of column tags"),
    ],
)
def test_columns_that_the_schema_can_t_have_are_told(tmp_path, columns, told):
    """Pass: before Spark."""
    with pytest.raises(OptionError, match=told):
        encoder(tmp_path).encoder.check(read_columns(columns))
    encoder(tmp_path, {**WRITTEN, "additionalProperties": True}).encoder.check(
        read_columns("id BIGINT, name STRING, more STRING")
    )


# -- a registry ---------------------------------------------------------------------------------


def test_values_of_a_registry_are_read(apicurio, request):
    """Pass: what Confluent's own serializer writes; other kinds and unknown numbers are refused."""
    topic = f"{request.node.name}-{time.time_ns()}"
    client = SchemaRegistryClient({"url": apicurio.url})
    context = SerializationContext(topic, MessageField.VALUE)
    value = JSONSerializer(json.dumps(ORDER), client)(VALUE, context)
    avro = apicurio.register(f"{topic}-avro", '"string"')
    head = FRAMINGS["confluent"].head
    values = [
        value,
        head(avro) + encoded(VALUE),
        head(999_999) + encoded(VALUE),
        encoded(VALUE),
        value[:5],
        None,
    ]
    registry = RegistryOptions(url=apicurio.url, give_up=timedelta(seconds=5))
    rows, reasons = read(values, registry=registry, framing="confluent")
    assert rows[0][:-1] == tuple(ROW.values())[:-1]  # it writes JSON without blanks
    assert reasons == [
        None, f"schema {avro} is AVRO", "the registry has no schema 999999", "it names no schema",
        "the value is empty", "the value is null",
    ]  # fmt: skip


def test_what_is_written_confluents_own_library_reads(spark, apicurio, request, tmp_path):
    """Pass: behind the number of the schema, which is registered."""
    topic = f"{request.node.name}-{time.time_ns()}"
    encode = encoder(
        tmp_path, framing="confluent", subject=f"{topic}-value", registry={"url": apicurio.url}
    )
    frame = spark.sql("SELECT 5 AS id, 'a' AS name")
    value = bytes(encode.apply(Inputs({"input": frame}), Context()).first()["value"])
    assert json.loads(apicurio.ask(f"subjects/{topic}-value/versions/latest")["schema"]) == WRITTEN
    read = JSONDeserializer(json.dumps(WRITTEN))
    context = SerializationContext(topic, MessageField.VALUE)
    assert read(value, context) == {"id": 5, "name": "a"}


def test_schemas_that_headers_name_are_looked_up(apicurio, request):
    """Pass: a value of one that is JSON's; one without a number is refused."""
    topic = f"{request.node.name}-{time.time_ns()}"
    apicurio.register(topic, json.dumps(ORDER), "JSON")
    number = apicurio.own(f"groups/default/artifacts/{topic}/versions/1")["globalId"]
    registry = RegistryOptions(url=apicurio.own_url, give_up=timedelta(seconds=5))
    made = JsonSchemaValues(json.dumps(ORDER), read_columns(COLUMNS), registry, "apicurio_headers")
    values = pa.array([encoded(VALUE)] * 3, pa.binary())
    ids = pa.array([number.to_bytes(8, "big"), None, (2**40).to_bytes(8, "big")], pa.binary())
    arrays, reasons = made.read(values, ids, pa.nulls(3, pa.binary()))
    assert arrays[0].to_pylist() == [1, None, None]
    assert reasons == [None, "it names no schema", f"the registry has no schema {2**40}"]


def test_through_spark(spark, tmp_path):
    """Pass: columns, and what is refused with its reason."""
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))
    given = {"format": "json-schema", "schema_file": str(file)}
    options = Decode.options_for(given, Registry().component).model_validate(given)
    values = [(bytearray(encoded(each)),) for each in (VALUE, {**VALUE, "kind": "x"})]
    frame = spark.createDataFrame(values, "value BINARY")
    rows = Decode(options).apply(Inputs({"input": frame}), Context())
    (good,) = (
        rows.where("_output IS NULL")
        .selectExpr("id", "line.article", "variant_get(any, '$[0]', 'int')")
        .collect()
    )
    assert tuple(good) == (1, "pen", 1)
    (bad,) = rows.where("_output = 'rejected'").collect()
    assert bad["_rejected"]["reason"] == "kind: enum"
