"""Messages by a registry's numbers: which message it is, others refused; as Confluent's own library does it."""

from __future__ import annotations

import base64
import time
from datetime import timedelta

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from mainstem import Inputs, OptionError, TransientError
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_formats_protobuf import schemas
from mainstem_formats_protobuf.compiler import load
from mainstem_formats_protobuf.heads import Heads, head_of, written
from mainstem_formats_protobuf.reading import ProtobufValues
from mainstem_formats_protobuf.sources import imports, places, with_imports
from mainstem_formats_protobuf.writing import ProtobufRows
from mainstem_registry import RegistryOptions
from pydantic import ValidationError

TEXT = """syntax = "proto3"; // message Not {
/* message NorThis { } */
package shop;
option java_package = "message No {";
enum Kind { NONE = 0; }
message First { enum E { A = 0; } int32 a = 1; string message = 2; }
service S { rpc Get(First) returns (First) { option deprecated = true; } }
message Second {
  message Inner { string text = 1; message Deepest { bool b = 1; } }
  oneof way { int32 a = 1; string b = 2; }
  message Other { int64 number = 1; }
  repeated Other others = 3 [deprecated = true];
}
message Third { reserved 2; int32 a = 1; }
"""
PLACES = {
    "shop.First": (0,), "shop.Second": (1,), "shop.Second.Inner": (1, 0), "shop.Second.Inner.Deepest": (1, 0, 0),
    "shop.Second.Other": (1, 1), "shop.Third": (2,),
}  # fmt: skip


def options(url, seconds=5.0):
    return RegistryOptions(url=url, give_up=timedelta(seconds=seconds))


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "shop.proto"
    made.write_text(TEXT)
    return made


@pytest.fixture
def topic(request):
    """A topic that no other test has."""
    return f"{request.node.name}-{time.time_ns()}"


def google(file, name):
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(load(file)).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def read(file, name, values, url, seconds=5.0):
    nodes = schemas.message(load(file), name)
    made = ProtobufValues(nodes, heads=Heads(options(url, seconds), "confluent", [name]))
    arrays, reasons = made.read(pa.array(values, pa.binary()))
    return list(zip(*(each.to_pylist() for each in arrays), strict=True)), reasons


def head(number, *place):
    return b"\0" + number.to_bytes(4, "big") + written(place)


def test_messages_are_found_in_a_text_as_protoc_finds_them(file):
    """Pass: beside comments, texts, enums and services; in a descriptor too."""
    assert places(TEXT) == PLACES
    (held,) = descriptor_pb2.FileDescriptorSet.FromString(load(file)).file
    assert places(base64.b64encode(held.SerializeToString()).decode()) == PLACES
    assert places("AAAA") == {}
    text = """edition = "2024"; package p; export message A { oneof x { group G = 1 { int32 a = 1; } }
      message B {} } extend A { optional group H = 100 {} } local message C { map<string, int32> m = 1; message D {} }
      message message {} message group {}"""
    assert places(text) == {
        "p.A": (0,), "p.A.G": (0, 0), "p.A.B": (0, 1), "p.H": (1,), "p.C": (2,), "p.C.D": (), "p.message": (3,),
        "p.group": (4,),
    }  # fmt: skip
    assert places("message } { } { message A") == {}
    text = 'import "a.proto"; import\n public "b/c.proto";\nimport "google/protobuf/any.proto";'
    assert imports(text) == ["a.proto", "b/c.proto"]
    assert imports('import public "b/c.proto";') == ["b/c.proto"]
    odd = """syntax = "proto3"; import "a.proto"; import/* x */'b.proto'; import option "c.proto";
      /*\nimport "old.proto";\n*/ // import "older.proto";
      message import { string text = 1 [default = "import"]; }"""
    assert imports(odd) == ["a.proto", "b.proto", "c.proto"]


@pytest.mark.parametrize(
    ("place", "held"), [((0,), b"\0"), ((1,), b"\2\2"), ((1, 0), b"\4\2\0"), ((0, 0), b"\4\0\0")]
)
def test_places_stand_before_messages(place, held):
    """Pass: as numbers with signs, behind their count; the first message is a single zero."""
    assert written(place) == held


def test_confluents_own_library_reads_and_writes_the_same(apicurio, topic, file):
    """Pass: what its serializer writes is read, of an inner message too; what is written its deserializer reads."""
    client = SchemaRegistryClient({"url": apicurio.url})
    context = SerializationContext(topic, MessageField.VALUE)
    for name, row in (("shop.First", (5, "m")), ("shop.Second.Other", (2**40,))):
        kind = google(file, name)
        nodes = schemas.message(load(file), name)
        message = kind(**{node.name: value for node, value in zip(nodes, row, strict=True)})
        value = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(message, context)
        assert read(file, name, [value], apicurio.url) == ([row], [None])
        mine = head_of(
            options(apicurio.url), "confluent", f"{topic}-mine", with_imports(file), name, True
        )
        made = ProtobufRows(nodes, [node.name for node in nodes], head=mine)
        (written_,), reasons = made.write(*(pa.array([each]) for each in row))
        assert reasons == [None]
        assert written_.as_py()[5:] == value[5:]
        reader = ProtobufDeserializer(kind, {"use.deprecated.format": False})
        assert reader(written_.as_py(), context) == message


def test_other_messages_are_refused(apicurio, topic, file):
    """Pass: by their names; schemas that have it elsewhere are read; what is no head is told."""
    number = apicurio.register(topic, TEXT, "PROTOBUF")
    moved = 'syntax = "proto3"; package shop; message Third { int32 a = 1; } message First { int32 a = 1; }'
    other = apicurio.register(topic + "-other", moved, "PROTOBUF")
    avro = apicurio.register(topic + "-avro", '"string"')
    body = b"\x08\5"
    values = [
        head(number, 0) + body, head(number, 2) + body, head(other, 1) + body, head(other, 0) + body,
        head(number, 7) + body, head(number, 0)[:5] + b"\2\0" + body, head(avro, 0) + body,
        head(999_999, 0) + body, head(number, 0)[:5], b"\1" + head(number, 0), head(number, 0) + b"\x08", None,
        head(number, 0)[:5] + b"\1", b"",
    ]  # fmt: skip
    rows, reasons = read(file, "shop.First", values, apicurio.url)
    assert reasons == [
        None, "the message is shop.Third, not shop.First", None, "the message is shop.Third, not shop.First",
        "the message is none of its schema's, not shop.First", None, f"schema {avro} is AVRO",
        "the registry has no schema 999999", "it names no message", "it names no schema", "the value is cut",
        "the value is null", "it names no message", "it names no schema",
    ]  # fmt: skip
    assert [row for row, reason in zip(rows, reasons, strict=True) if reason is None] == [
        (5, "")
    ] * 3


def test_messages_of_several_names_have_a_column_each(apicurio, topic, file):
    """Pass: in their order, with what nobody knows; others are refused, or are rows of nulls."""
    number = apicurio.register(topic, TEXT, "PROTOBUF")
    moved = 'syntax = "proto3"; package shop; message Third { int32 a = 1; } message First { int32 a = 1; }'
    other = apicurio.register(topic + "-other", moved, "PROTOBUF")
    body = b"\x08\5"
    values = [
        head(number, 2) + body, head(number, 0) + body + b"\x50\1", head(other, 0) + body, head(other, 1) + body,
        head(number, 1) + b"\x10\5", head(number, 0) + b"\x08", head(number, 7), head(999_999, 0), None,
        head(number, 2)[:6], head(number, 2),
    ]  # fmt: skip
    types = {"third": "shop.Third", "first": "shop.First"}
    nodes = [schemas.as_column(c, schemas.message(load(file), name)) for c, name in types.items()]
    first, third = {"a": 5, "message": ""}, {"a": 5}
    told = ["the value is cut", "the message is none of its schema's, not shop.Third or shop.First"]
    none = (None, None, None)
    for others in (False, True):
        heads = Heads(options(apicurio.url), "confluent", list(types.values()), others=others)
        made = ProtobufValues(nodes, heads=heads, by_type=True, unknown=True)
        arrays, reasons = made.read(pa.array(values, pa.binary()))
        rows = list(zip(*(each.to_pylist() for each in arrays), strict=True))
        assert rows == [
            (third, None, None), (None, first, b"\x50\1"), (third, None, None), (None, first, None),
            *[none] * 6, ({"a": 0}, None, None),
        ]  # fmt: skip
        refused = None if others else "the message is shop.Second, not shop.Third or shop.First"
        assert reasons == [
            *[None] * 4, refused, *told, "the registry has no schema 999999", "the value is null",
            "it names no message", None,
        ]  # fmt: skip


def test_names_are_columns_of_a_document(file):
    """Pass: with their messages; what is no name is told, and what types need."""
    given = {
        "format": "protobuf", "schema_file": str(file), "framing": "confluent", "registry": {"url": "http://a"},
        "types": {"a": "shop.Third", "b": "shop.Second.Other"}, "unknown": "rest",
    }  # fmt: skip
    model = Decode.options_for(given, Registry().component)
    columns = Decode(model.model_validate(given)).decoding().columns
    assert [(c.name, c.type) for c in columns] == [
        ("a", "struct<a:int>"), ("b", "struct<number:bigint>"), ("rest", "binary")
    ]  # fmt: skip
    for more, told in (
        ({"types": {"a": "shop.Thirt"}}, "the nearest is shop.Third"),
        ({"types": {"_a": "shop.Third"}}, "_a"),
        ({"unknown": "B"}, "the message has a field B"),
    ):
        with pytest.raises(OptionError, match=told):
            Decode(model.model_validate({**given, **more})).decoding()
    for more in ({"message": "shop.Third"}, {"framing": "none", "registry": None}):
        with pytest.raises(ValidationError, match="instead of a `message`"):
            model.model_validate({**given, **more})


def test_a_registry_that_is_away_fails_the_batch(file):
    """Pass: no row is refused for it."""
    with pytest.raises(TransientError):
        read(file, "shop.First", [head(1, 0)], "http://127.0.0.1:1", 0.2)


class Context:
    node = "row"
    wanted = frozenset(["rejected"])


def operator(kind, file, url, **more):
    given = {
        "format": "protobuf", "schema_file": str(file), "framing": "confluent", "message": "shop.Third",
        "registry": {"url": url}, **more,
    }  # fmt: skip
    return kind(kind.options_for(given, Registry().component).model_validate(given))


def test_there_and_back_through_spark(spark, apicurio, topic, file):
    """Pass: the schema is registered by the tasks, and its messages read."""
    frame = spark.range(9).selectExpr("CAST(id AS INT) AS a")
    sent = operator(Encode, file, apicurio.url, subject=topic).apply(
        Inputs({"input": frame}), Context()
    )
    value = bytes(sent.where("key IS NULL").first()["value"])
    assert value[5:7] == b"\2\4"
    back = operator(Decode, file, apicurio.url).apply(Inputs({"input": sent}), Context())
    assert back.select("a").orderBy("a").collect() == frame.collect()


IMPORTING = """syntax = "proto3";
import "shop.proto";
import "parts/kind.proto";
import "google/protobuf/duration.proto";
message Order { shop.Third third = 1; parts.Kind kind = 2; google.protobuf.Duration took = 3; }
"""
KIND = """syntax = "proto3";
package parts;
import "shop.proto";
message Kind { string name = 1; shop.Third third = 2; }
"""


def test_schemas_that_import_others_refer_to_them(spark, apicurio, topic, file, tmp_path):
    """Pass: each under the name of its import; Confluent's library writes what is read, and the other way."""
    (tmp_path / "more" / "parts").mkdir(parents=True)
    (tmp_path / "more" / "parts" / "kind.proto").write_text(KIND)
    order = tmp_path / "order.proto"
    order.write_text(IMPORTING)
    folders = (tmp_path / "more",)
    assert [each.name for each in with_imports(order, folders)] == [
        "shop.proto", "parts/kind.proto", "order.proto",
    ]  # fmt: skip
    held = descriptor_pb2.FileDescriptorSet.FromString(load(order, folders))
    pool = descriptor_pool.DescriptorPool()
    for each in held.file:
        pool.Add(each)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
    context = SerializationContext(topic, MessageField.VALUE)
    message = kind()
    message.third.a, message.kind.name, message.kind.third.a, message.took.seconds = 5, "k", 6, 7
    client = SchemaRegistryClient({"url": apicurio.url})
    value = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(message, context)
    more = {"import_folders": [str(folders[0])], "message": "Order"}
    frame = spark.createDataFrame([(bytearray(value),)], "value BINARY")
    rows = operator(Decode, order, apicurio.url, **more).apply(
        Inputs({"input": frame}), Context()
    ).select("third", "kind", "took")  # fmt: skip
    (row,) = rows.collect()
    assert row.asDict(recursive=True)["kind"] == {"name": "k", "third": {"a": 6}}
    subject = f"{topic}-mine"
    encode = operator(Encode, order, apicurio.url, subject=subject, **more)
    encode.encoder.check(
        read_columns(", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema))
    )
    back = encode.apply(Inputs({"input": rows}), Context()).first()["value"]
    assert (
        ProtobufDeserializer(kind, {"use.deprecated.format": False})(bytes(back), context)
        == message
    )
    found = apicurio.ask(f"subjects/{subject}/versions/latest")["references"]
    assert sorted((each["name"], each["subject"]) for each in found) == [
        ("parts/kind.proto", "parts/kind.proto"), ("shop.proto", "shop.proto"),
    ]  # fmt: skip
    again = operator(Encode, order, apicurio.url, subject=subject, register=False, **more)
    assert again.apply(Inputs({"input": rows}), Context()).first()["value"] == back


def test_what_a_registry_cannot_be_given_is_told(file, tmp_path):
    """Pass: before Spark: descriptor sets, imports that are not there, messages of others."""
    columns = read_columns("a INT")
    made = tmp_path / "set.desc"
    made.write_bytes(load(file))
    set_file = tmp_path / "importing.proto"
    set_file.write_text('syntax = "proto3";\nimport "gone.proto";\nmessage A { int32 a = 1; }')
    with pytest.raises(ValueError, match="imports gone.proto, which is not there"):
        with_imports(set_file)
    (tmp_path / "gone.proto").write_text('syntax = "proto3";\nimport "importing.proto";')
    with pytest.raises(ValueError, match="importing.proto imports itself"):
        with_imports(set_file)
    encode = operator(Encode, made, "http://a", subject="a", message="shop.Third")
    with pytest.raises(OptionError, match="give that"):
        encode.encoder.check(columns)
    known = tmp_path / "known.proto"
    known.write_text(
        'syntax = "proto3";\nimport "google/protobuf/duration.proto";\nmessage A { google.protobuf.Duration a = 1; }'
    )
    encode = operator(Encode, known, "http://a", subject="a", message="google.protobuf.Duration")
    with pytest.raises(OptionError, match="is not in the file itself"):
        encode.encoder.check(())
