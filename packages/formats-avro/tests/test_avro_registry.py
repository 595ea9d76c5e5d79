"""Values by a registry's numbers: writers' schemas resolved, unknown ones refused, one that is away waited for."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from io import BytesIO

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from mainstem import Inputs, OptionError, PermanentError, TransientError
from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened
from mainstem.builtin.encode import Encode
from mainstem.registry import Registry
from mainstem_formats_avro import schemas
from mainstem_formats_avro.fingerprints import mark_of
from mainstem_formats_avro.reading import AvroValues
from mainstem_formats_avro.references import whole
from mainstem_formats_avro.writing import AvroRows, head_of
from mainstem_registry import FRAMINGS, RegistryOptions
from mainstem_testkit.proxy import FaultProxy
from pydantic import ValidationError


def record(*fields, name="Order"):
    held = [{"name": n, "type": t, **({"default": d[0]} if d else {})} for n, t, *d in fields]
    return json.dumps({"type": "record", "name": name, "fields": held})


ORDER = record(("id", "long"), ("name", ["null", "string"], None), ("count", "long", 1))
OLD = record(("id", "int"), ("gone", "string"))
NEW = record(("name", ["null", "string"]), ("id", "long"), ("count", "int"), ("more", "string"))
OTHER = record(("id", "string"), name="Other")


def written(schema, row, head=b""):
    stream = BytesIO(head)
    stream.seek(len(head))
    schemaless_writer(stream, parse_schema(json.loads(schema)), row)
    return stream.getvalue()


def options(url, seconds=5.0):
    return RegistryOptions(url=url, give_up=timedelta(seconds=seconds))


@pytest.fixture
def topic(request):
    """A topic that no other test has."""
    return f"{request.node.name}-{time.time_ns()}"


def read(values, url, framing="confluent", **more):
    made = AvroValues([ORDER], framing=framing, registry=options(url), **more)
    arrays, reasons = made.read(pa.array(values, pa.binary()))
    return list(zip(*(each.to_pylist() for each in arrays), strict=True)), reasons


def test_values_of_several_schemas_are_read_as_the_document_has_them(apicurio, topic):
    """Pass: new fields are left out, old ones have their defaults, in the order of the values."""
    old, new, own, other = (
        apicurio.register(f"{topic}-{n}", each) for n, each in enumerate((OLD, NEW, ORDER, OTHER))
    )
    heads = {number: FRAMINGS["confluent"].head(number) for number in (old, new, own, other)}
    values = [
        written(NEW, {"id": 1, "name": "a", "count": 2, "more": "x"}, heads[new]),
        written(OLD, {"id": 2, "gone": "y"}, heads[old]),
        written(OTHER, {"id": "3"}, heads[other]),
        written(ORDER, {"id": 4, "name": None, "count": 5}, heads[own]),
        written(OLD, {"id": 6, "gone": "y"}, heads[old]),
        heads[old], heads[old][:3], b"", b"\1" + heads[old], FRAMINGS["confluent"].head(999_999) + b"\2", None,
    ]  # fmt: skip
    rows, reasons = read(values, apicurio.url)
    none = (None, None, None)
    assert rows == [(1, "a", 2), (2, None, 1), none, (4, None, 5), (6, None, 1), *[none] * 6]
    assert reasons == [
        None, None, f"schema {other}: it is Other, not Order", None, None,
        "the value is cut", *["it names no schema"] * 3, "the registry has no schema 999999", "the value is null",
    ]  # fmt: skip


NEWEST = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "day", "type": {"type": "int", "logicalType": "date"}}, {"name": "id", "type": "long"},
    {"name": "either", "type": ["int", "string"]},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "raw", "type": {"type": "array", "items": "bytes"}}, {"name": "odd", "type": "double"},
    {"name": "map", "type": {"type": "map", "values": {"type": "record", "name": "In", "fields": [{"name": "a", "type": "float"}]}}},
]})  # fmt: skip


def test_new_fields_are_a_column_where_it_is_asked_for(apicurio, topic):
    """Pass: as JSON, null where there are none; through both ways of reading; unions of several types are not there."""
    newest, old = (apicurio.register(f"{topic}-{n}", each) for n, each in enumerate((NEWEST, OLD)))
    head = FRAMINGS["confluent"].head
    value = {
        "day": -1, "id": 5, "either": "x", "at": 1_700_000_000_123, "local": 1, "price": b"\xff\x6a", "raw": [b"\0\xff"],
        "odd": float("-inf"), "map": {"k": {"a": 0.5}},
    }  # fmt: skip
    values = [
        written(json.dumps(schemas.without_logical(json.loads(NEWEST))), each, head(newest))
        for each in (value, {**value, "at": None})
    ]
    values += [written(OLD, {"id": 2, "gone": "y"}, head(old)), values[0][:-1]]
    told = {
        "day": "1969-12-31", "at": "2023-11-14T22:13:20.123000Z", "local": "1970-01-01T00:00:00.000001", "price": -1.5,
        "raw": ["AP8="], "odd": "-Infinity", "map": {"k": {"a": 0.5}},
    }  # fmt: skip
    rows, reasons = read(values, apicurio.url, unknown=True)
    assert reasons == [None, None, None, "the value is cut"]
    assert [row[:3] for row in rows[:3]] == [(5, None, 1), (5, None, 1), (2, None, 1)]
    found = [row[3] and json.loads(row[3]) for row in rows]
    assert found == [told, {**told, "at": None}, {"gone": "y"}, None]
    assert '"price":-1.50' in rows[0][3]
    made = AvroValues([ORDER], framing="confluent", registry=options(apicurio.url), unknown=True)
    assert [made._alone(each) for each in values[:3]] == [list(row) for row in rows[:3]]
    own = written(
        ORDER, {"id": 4, "name": None, "count": 5}, head(apicurio.register(f"{topic}-own", ORDER))
    )
    assert read([own], apicurio.url, unknown=True) == ([(4, None, 5, None)], [None])


ODD = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "n", "type": "string"}, {"name": "n", "type": {"type": "int", "logicalType": "date"}},
    {"name": "r", "type": {"type": "record", "name": "R", "fields": [
        {"name": "u", "type": ["null", "string", "int"]}, {"name": "k", "type": "int"}]}},
    {"name": "us", "type": {"type": "array", "items": ["string", "int"]}},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 30}},
]})  # fmt: skip


def test_new_fields_that_can_not_be_told_are_left_out():
    """Pass: the second of two of one name, unions and lists of them, in records too; digits stay, or the value is refused."""
    small = 12_345_678_901_234_567_890_123
    made = AvroValues([ORDER], framing="single_object", unknown=True)
    writer = made.resolved(ODD)
    mark = mark_of(ORDER)
    made._writers[mark] = writer

    def value(number):
        whole = number.to_bytes(16, "big", signed=True)
        return mark + b"\2\2a\6" + b"\2\2b\12" + b"\2\0\2c\0" + b"\x20" + whole

    arrays, reasons = made.read(pa.array([value(small)] * 200 + [value(-1)], pa.binary()))
    assert reasons == [None] * 201
    text = arrays[3].to_pylist()[0]
    assert text == '{"n":"a","r":{"k":5},"d":0.000000012345678901234567890123}'
    assert made._alone(value(small))[3] == text


PAID = json.dumps({
    "type": "record", "name": "Paid", "namespace": "shop", "aliases": ["Settled"],
    "fields": [{"name": "order", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
})  # fmt: skip
SETTLED = json.dumps({
    "type": "record", "name": "Settled", "namespace": "shop", "fields": [{"name": "order", "type": "int"}],
})  # fmt: skip


def test_values_of_several_types_have_a_column_each(apicurio, topic):
    """Pass: by the record's name or an alias, resolved; others are refused, or are rows of nulls."""
    odd = '{"type": "record", "name": "Odd", "fields": [{"name": "a", "type": ["int", "string"]}]}'
    new, settled, other, text = (
        apicurio.register(f"{topic}-{n}", each)
        for n, each in enumerate((NEW, SETTLED, odd, '"string"'))
    )
    head = FRAMINGS["confluent"].head
    values = [
        written(SETTLED, {"order": 5}, head(settled)), head(other) + b"\2\2a",
        written(NEW, {"id": 1, "name": "a", "count": 2, "more": "x"}, head(new)), head(text) + b"\2a",
        written(SETTLED, {"order": 6}, head(settled))[:5], head(999_999),
    ]  # fmt: skip
    order, paid = {"id": 1, "name": "a", "count": 2}, {"order": 5, "note": None}
    told = ["the value is cut", "the registry has no schema 999999"]
    none = (None, None)
    for other_types in (False, True):
        made = AvroValues(
            [ORDER, PAID], framing="confluent", registry=options(apicurio.url), by_type=True,
            other_types=other_types,
        )  # fmt: skip
        arrays, reasons = made.read(pa.array(values, pa.binary()))
        rows = list(zip(*(each.to_pylist() for each in arrays), strict=True))
        assert rows == [(None, paid), none, (order, None), none, none, none]
        names = {other: "Odd", text: "no record"}
        refused = [
            None if other_types else f"schema {n}: it is {its}, not Order, shop.Paid"
            for n, its in names.items()
        ]
        assert reasons == [None, refused[0], None, refused[1], *told]


def test_types_are_columns_of_a_document(tmp_path):
    """Pass: with their names and schemas; by fingerprints too, with schemas of other writers."""
    for name, text in (("order", ORDER), ("paid", PAID), ("settled", SETTLED), ("other", OTHER)):
        (tmp_path / name).write_text(text)
    given = {
        "format": "avro", "framing": "single_object", "types": {"a": str(tmp_path / "order"), "b": str(tmp_path / "paid")},
        "writer_files": [str(tmp_path / "settled")],
    }  # fmt: skip
    model = Decode.options_for(given, Registry().component)
    decoding = Decode(model.model_validate(given)).decoding()
    assert [(c.name, c.type) for c in decoding.columns] == [
        ("a", "struct<id:bigint,name:string,count:bigint>"), ("b", "struct<order:bigint,note:string>")
    ]  # fmt: skip
    value = written(SETTLED, {"order": 5}, mark_of(SETTLED))
    (row,) = opened(decoding)(pa.array([value], pa.binary())).to_pylist()
    assert (row["c0"], row["c1"], row["reason"]) == (None, {"order": 5, "note": None}, None)
    given["writer_files"] = [str(tmp_path / "other")]
    with pytest.raises(OptionError, match="its record has another name"):
        Decode(model.model_validate(given)).decoding()
    for more, told in (
        ({"framing": "none"}, "need a `framing`"), ({"schema_file": "a"}, "give a `schema_file`, or"),
        ({"types": None}, "give a `schema_file`, or"),
    ):  # fmt: skip
        with pytest.raises(ValidationError, match=told):
            model.model_validate({**given, **more})


def test_new_fields_of_types_that_no_column_is_are_left_out(apicurio, topic):
    """Pass: unions of several, what is in itself, nulls and empty records, beside fields that are read."""
    tree = {"type": "record", "name": "Tree", "fields": [
        {"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Tree"]}]}  # fmt: skip
    odd = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "either", "type": ["null", "string", "int", {"type": "map", "values": "bytes"}]},
        {"name": "tree", "type": tree}, {"name": "id", "type": "long"}, {"name": "no", "type": "null"},
        {"name": "empty", "type": {"type": "record", "name": "E", "fields": []}},
        {"name": "trees", "type": {"type": "array", "items": ["string", "Tree"]}},
        {"name": "ID", "type": {"type": "enum", "name": "K", "symbols": ["A"]}},
        {"name": "code", "type": ["int", {"type": "fixed", "name": "F", "size": 3}]},
        {"name": "name", "type": "string"},
    ]})  # fmt: skip
    number = apicurio.register(topic, odd)
    row = {
        "either": {"k": b"v"}, "tree": {"n": 1, "next": {"n": 2, "next": None}}, "id": 7, "no": None, "empty": {},
        "trees": ["a", {"n": 3, "next": None}], "ID": "A", "code": b"abc", "name": "x",
    }  # fmt: skip
    head = FRAMINGS["confluent"].head(number)
    value = written(odd, row, head)
    rows, reasons = read(
        [value, value[:-1], written(odd, {**row, "either": 5, "code": 9}, head)], apicurio.url
    )
    assert rows == [(7, "x", 1), (None, None, None), (7, "x", 1)]
    assert reasons == [None, "the value is cut", None]
    _, reasons = read([value], apicurio.url, new_fields=False)
    assert reasons[0].startswith(f"schema {number}: either, tree, no, empty, trees, ")


def test_new_fields_may_be_refused(apicurio, topic):
    """Pass: by their names; values of schemas without new ones are read."""
    old, new = (
        apicurio.register(f"{topic}-{n}", each)
        for n, each in enumerate((OLD.replace("gone", "count").replace('"string"', '"int"'), NEW))
    )
    head = FRAMINGS["confluent"].head
    values = [
        written(NEW, {"id": 1, "name": "a", "count": 2, "more": "x"}, head(new)),
        written(record(("id", "int"), ("count", "int")), {"id": 2, "count": 3}, head(old)),
    ]
    rows, reasons = read(values, apicurio.url, new_fields=False)
    assert reasons == [f"schema {new}: more is new", None]
    assert rows[1] == (2, None, 3)


def test_global_ids_of_apicurio_are_read(apicurio, topic):
    """Pass: by its own API."""
    apicurio.register(topic, NEW)
    found = apicurio.own(f"groups/default/artifacts/{topic}/versions/1")
    head = FRAMINGS["apicurio"].head(found["globalId"])
    value = written(NEW, {"id": 1, "name": "a", "count": 2, "more": "x"}, head)
    assert read([value], apicurio.own_url, "apicurio") == ([(1, "a", 2)], [None])


def test_schemas_of_another_kind_are_told(apicurio, topic):
    """Pass: a schema of Protocol Buffers."""
    number = apicurio.register(topic, 'syntax = "proto3"; message A { int32 a = 1; }', "PROTOBUF")
    _, reasons = read([FRAMINGS["confluent"].head(number) + b"\2"], apicurio.url)
    assert reasons == [f"schema {number} is PROTOBUF"]


def test_confluents_own_library_reads_and_writes_the_same(apicurio, topic):
    """Pass: what its serializer writes is read, what is written its deserializer reads, byte for byte."""
    client = SchemaRegistryClient({"url": apicurio.url})
    context = SerializationContext(topic, MessageField.VALUE)
    row = {"id": -5, "name": "grüße", "count": 2**40}
    value = AvroSerializer(client, ORDER)(row, context)
    assert read([value], apicurio.url) == ([tuple(row.values())], [None])
    head = head_of(ORDER, "confluent", options(apicurio.url), f"{topic}-value", True)
    made, reasons = AvroRows(ORDER, list(row), head=head).write(
        *(pa.array([each]) for each in row.values())
    )
    assert reasons == [None]
    assert made[0].as_py() == value
    assert AvroDeserializer(client, ORDER)(made[0].as_py(), context) == row


def test_a_registry_that_is_away_holds_the_batch(apicurio, topic):
    """Pass: it is waited for; after that the batch fails, and no row is refused; schemas that are known need it not."""
    number = apicurio.register(topic, ORDER)
    value = written(ORDER, {"id": 4, "name": None, "count": 5}, FRAMINGS["confluent"].head(number))
    with FaultProxy(apicurio.port) as proxy:
        url = apicurio.url.replace(str(apicurio.port), str(proxy.port))
        proxy.refuse()
        made = AvroValues([ORDER], framing="confluent", registry=options(url, 0.3))
        with pytest.raises(TransientError):
            made.read(pa.array([value], pa.binary()))
        threading.Timer(1.0, lambda: proxy.refuse(False)).start()
        made = AvroValues([ORDER], framing="confluent", registry=options(url, 20))
        assert made.read(pa.array([value], pa.binary()))[1] == [None]
        proxy.refuse()
        proxy.cut()
        assert made.read(pa.array([value, value], pa.binary()))[1] == [None, None]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"framing": "confluent"}, "needs a `registry`"),
        ({"registry": {"url": "http://a"}}, "has no registry"),
        ({"framing": "apicurio", "registry": {"url": "http://a"}, "subject": "a"}, "Input should be 'none', "),
        ({"framing": "confluent", "registry": {"url": "http://a"}}, "needs a `subject`"),
        ({"subject": "a"}, "needs a `subject`"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_each_other_are_told(more, told):
    """Pass: before anything is asked."""
    given = {"format": "avro", "schema_file": "order.avsc", **more}
    with pytest.raises(ValidationError, match=told):
        Encode.options_for(given, Registry().component).model_validate(given)


class Context:
    node = "row"
    wanted = frozenset(["rejected"])


def operator(kind, file, url, **more):
    given = {
        "format": "avro", "schema_file": str(file), "framing": "confluent",
        "registry": {"url": url, "give_up": "20 seconds"}, **more,
    }  # fmt: skip
    return kind(kind.options_for(given, Registry().component).model_validate(given))


def test_there_and_back_through_spark(spark, apicurio, topic, tmp_path):
    """Pass: the schema is registered once by all tasks; one that does not fit fails the run with both."""
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    frame = spark.range(20).selectExpr(
        "id", "IF(id % 2 = 0, NULL, concat('n', id)) AS name", "id * 2 AS count"
    )
    encode = operator(Encode, file, apicurio.url, subject=topic)
    sent = encode.apply(Inputs({"input": frame.repartition(4)}), Context()).cache()
    assert {bytes(row["value"])[:5] for row in sent.collect()} == {
        FRAMINGS["confluent"].head(apicurio.ask(f"subjects/{topic}/versions/latest")["id"])
    }
    assert apicurio.ask(f"subjects/{topic}/versions") == [1]
    back = operator(Decode, file, apicurio.url).apply(Inputs({"input": sent}), Context())
    assert back.select("id", "name", "count").orderBy("id").collect() == frame.collect()
    apicurio.ask(f"config/{topic}", {"compatibility": "BACKWARD"}, "PUT")
    other = tmp_path / "other.avsc"
    other.write_text(record(("id", "string")))
    late = operator(Encode, other, apicurio.url, subject=topic)
    with pytest.raises(Exception, match="does not fit to those of") as told:
        late.apply(Inputs({"input": spark.sql("SELECT 'a' AS id")}), Context()).collect()
    assert '"default": 1' in str(told.value)


def test_a_schema_that_is_not_registered_is_told(apicurio, topic):
    """Pass: with `register: false`."""
    with pytest.raises(PermanentError, match=f"has not this schema under {topic}"):
        head_of(ORDER, "confluent", options(apicurio.url), topic, False)


# -- schemas that refer to others ---------------------------------------------------------------

CITY = '{"type": "record", "name": "City", "namespace": "geo", "fields": [{"name": "name", "type": "string"}]}'
ADDRESS = json.dumps({
    "type": "record", "name": "Address", "namespace": "shop", "fields": [
        {"name": "city", "type": "geo.City"}, {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
})  # fmt: skip
SENT = json.dumps({
    "type": "record", "name": "Sent", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"}, {"name": "to", "type": ["null", "Address"]},
        {"name": "more", "type": {"type": "array", "items": "shop.Address"}}, {"name": "kind", "type": "Kind"},
        {"name": "by", "type": {"type": "map", "values": "geo.City"}},
    ],
})  # fmt: skip
ROW = {
    "id": 1, "to": {"city": {"name": "x"}, "kind": "B"}, "more": [{"city": {"name": "y"}, "kind": "A"}], "kind": "A",
    "by": {"k": {"name": "z"}},
}  # fmt: skip


def test_named_types_of_other_schemas_are_in_the_whole():
    """Pass: each once, where it comes first, in its own namespace; fastavro makes the same of the parts."""
    made = whole(SENT, [ADDRESS, CITY, OTHER])
    known = {}
    for each in (CITY, ADDRESS, SENT):
        told = parse_schema(json.loads(each), named_schemas=known)
    assert made.count('"symbols"') == made.count('"City"') == made.count('"Address"') == 1
    assert "Other" not in made
    stream = BytesIO()
    schemaless_writer(stream, told, ROW)
    assert schemaless_reader(BytesIO(stream.getvalue()), parse_schema(json.loads(made))) == ROW
    assert whole(SENT, ()) == SENT
    assert json.loads(whole(OTHER, [CITY])) == {**json.loads(OTHER), "namespace": ""}
    again = json.dumps({"type": "record", "name": "geo.Both", "fields": [
        {"name": "a", "type": "City"}, {"name": "b", "type": {"type": "fixed", "name": "City2", "size": 2}},
        {"name": "c", "type": {"type": "City"}}, {"name": "d", "type": "City3"},
    ]})  # fmt: skip
    found = json.loads(whole(again, [CITY]))["fields"]
    assert found[0]["type"] == json.loads(CITY)
    assert found[2]["type"] == {"type": "City"}
    assert found[3]["type"] == "City3"
    with pytest.raises(ValueError, match="no JSON"):
        whole(SENT, ["{"])


def test_values_whose_schema_refers_to_others_are_read(apicurio, topic, tmp_path):
    """Pass: what Confluent's serializer writes, by such a schema; with a document whose files refer too."""
    client = SchemaRegistryClient({"url": apicurio.url})
    for name, text, uses in (("geo.City", CITY, ()), ("shop.Address", ADDRESS, ("geo.City",))):
        refers = [SchemaReference(each, f"{topic}-{each}", 1) for each in uses]
        client.register_schema(f"{topic}-{name}", Schema(text, "AVRO", refers))
    refers = [SchemaReference("shop.Address", f"{topic}-shop.Address", 1)]
    context = SerializationContext(topic, MessageField.VALUE)
    write = AvroSerializer(client, Schema(SENT, "AVRO", refers))
    value = write(ROW, context)
    files = {}
    for name, text in (("sent", SENT), ("address", ADDRESS), ("city", CITY)):
        files[name] = tmp_path / f"{name}.avsc"
        files[name].write_text(text)
    given = {
        "format": "avro", "schema_file": str(files["sent"]), "framing": "confluent",
        "registry": {"url": apicurio.url}, "reference_files": [str(files["address"]), str(files["city"])],
    }  # fmt: skip
    decode = Decode(Decode.options_for(given, Registry().component).model_validate(given))
    found = opened(decode.decoding())(pa.array([value], pa.binary())).to_pylist()
    assert found[0]["reason"] is None
    assert [found[0][f"c{n}"] for n in range(4)] == [
        ROW[name] for name in ("id", "to", "more", "kind")
    ]
    given["reference_files"] = [str(files["address"])]
    with pytest.raises(OptionError, match=r"no type 'geo.City'"):
        Decode(Decode.options_for(given, Registry().component).model_validate(given)).decoding()


# -- numbers in headers -------------------------------------------------------------------------


def test_schemas_that_headers_name_are_found(spark, apicurio, topic, tmp_path):
    """Pass: by global and by content ids, through Spark; without a header, and without headers, refused."""
    apicurio.register(topic, NEW)
    own = apicurio.own(f"groups/default/artifacts/{topic}/versions/1")
    value = written(NEW, {"id": 1, "name": "a", "count": 2, "more": "x"})
    headers = [
        {f"apicurio.value.{key}": own[key].to_bytes(8, "big")} for key in ("globalId", "contentId")
    ]
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    given = {
        "format": "avro", "schema_file": str(file), "framing": "apicurio_headers",
        "registry": {"url": apicurio.own_url}, "keep": {"n": "offset"},
    }  # fmt: skip
    decode = Decode(Decode.options_for(given, Registry().component).model_validate(given))
    rows = [(n, value, each) for n, each in enumerate([*headers, {"a": b"b"}, None])]
    frame = spark.createDataFrame(rows, "offset INT, value BINARY, headers MAP<STRING, BINARY>")

    class Context:
        node = "row"
        wanted = frozenset(["rejected"])

    for each in (frame, frame.drop("headers")):
        made = decode.apply(Inputs({"input": each}), Context()).orderBy("n").collect()
        there = 2 if "headers" in each.columns else 0
        assert [(row["id"], row["name"]) for row in made[:there]] == [(1, "a")] * there
        assert [row["_rejected"]["reason"] for row in made[there:]] == ["it names no schema"] * (
            4 - there
        )


@pytest.mark.parametrize(
    "more",
    [
        {"framing": "none"},
        {"framing": "container"},
        {"new_fields": "refuse"},
        {"schema_file": None, "types": {"a": "a.avsc"}},
    ],
)
def test_where_no_new_field_can_be_kept_is_told(more):
    """Pass: before anything is asked."""
    given = {
        "format": "avro",
        "schema_file": "a.avsc",
        "framing": "single_object",
        "unknown": "rest",
        **more,
    }
    with pytest.raises(ValidationError, match="`unknown` is for values"):
        Decode.options_for(given, Registry().component).model_validate(given)
