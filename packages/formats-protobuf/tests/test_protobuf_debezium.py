"""Debezium's envelopes in Protocol Buffers become a changelog, as those in JSON and Avro do."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from mainstem import Inputs, OptionError
from mainstem.builtin.decode import Decode
from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_formats_protobuf.compiler import load
from mainstem_testkit import FormatSuite
from mainstem_testkit.changes import changes_of
from pydantic import ValidationError

ENVELOPE = """syntax = "proto3";
package shop.public.things;
message Envelope {
  Value before = 1;
  Value after = 2;
  Source source = 3;
  string op = 4;
  optional int64 ts_ms = 5;
}
message Value { int64 id = 1; optional string name = 2; optional int64 at = 3; }
message Source { string version = 1; int64 ts_ms = 2; }
"""
KEY = """syntax = "proto3";
package shop.public.things;
message Key { int64 id = 1; }
"""
NAME = "shop.public.things"
AT = 1_700_000_000_000
WHEN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
FIRST = {"id": 1, "name": "grüße", "at": 5}
SECOND = {"id": 2, "name": None, "at": None}


@pytest.fixture
def files(tmp_path):
    for name, text in (("value.proto", ENVELOPE), ("key.proto", KEY)):
        (tmp_path / name).write_text(text)
    return tmp_path


def google(file, name):
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(load(file)).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{NAME}.{name}"))


def envelope(files, op, before=None, after=None):
    made = google(files / "value.proto", "Envelope")(op=op)
    made.source.ts_ms = AT
    for name, row in (("before", before), ("after", after)):
        if row is not None:
            its = getattr(made, name)
            its.SetInParent()
            for column, value in row.items():
                if value is not None:
                    setattr(its, column, value)
    return made


def key(files, number):
    return google(files / "key.proto", "Key")(id=number)


def decode(files, **more):
    given = {
        "format": "debezium-protobuf", "schema_file": str(files / "value.proto"), "message": f"{NAME}.Envelope",
        "key": ["id"], **more,
    }  # fmt: skip
    return Decode(Decode.options_for(given, Registry().component).model_validate(given))


def read(files, messages, **more):
    """Return the changes of messages, pairs of value and key, why they are refused, and their times."""
    return changes_of(decode(files, **more), messages)


class TestDebeziumProtobuf(FormatSuite):
    """The standard tests."""

    use = "debezium-protobuf"

    @pytest.fixture(autouse=True)
    def _schemas(self, files):
        self.folder = files

    def options(self):
        return {
            "schema_file": str(self.folder / "value.proto"), "message": f"{NAME}.Envelope", "key": ["id"],
        }  # fmt: skip

    def _made(self, *told):
        return envelope(self.folder, *told).SerializeToString()

    def good(self):
        moved = {**SECOND, "name": "c"}
        return [
            (self._made("c", None, FIRST), [{**FIRST, "type": "insert"}]),
            (self._made("u", SECOND, moved), [
                {**SECOND, "type": "update_preimage"}, {**moved, "type": "update_postimage"}]),
            (self._made("d", SECOND), [{**SECOND, "type": "delete"}]),
        ]  # fmt: skip

    def bad(self):
        return [
            b"",
            self._made("c", None, FIRST)[:-1],
            self._made("t"),
            self._made("u", None, FIRST),
            self._made("c"),
        ]


def test_fields_of_after_are_columns(files):
    """Pass: null where they can be absent."""
    told = tuple(read_columns("id BIGINT NOT NULL, name STRING, at BIGINT"))
    assert decode(files).decoding().columns == told


def test_changes_are_told_as_of_json(files):
    """Pass: with their times; a key that moves is a deletion and an insertion."""
    moved, gone = {**FIRST, "id": 7}, {**FIRST, "name": "__debezium_unavailable_value"}
    told = [("r", None, FIRST), ("u", FIRST, moved), ("d", FIRST), ("u", FIRST, gone)]
    messages = [(envelope(files, *each).SerializeToString(), b"x") for each in told]
    changes, reasons, at = read(files, [*messages, (None, b"x")])
    assert changes == [
        [("insert", FIRST)], [("delete", FIRST), ("insert", moved)], [("delete", FIRST)], [], [],
    ]  # fmt: skip
    assert [reason is None for reason in reasons] == [True, True, True, False, True]
    assert reasons[3].startswith("name is not in the message")
    assert at == [WHEN, WHEN, WHEN, None, None]


def test_a_registry_numbers_values_and_keys(files, apicurio, request):
    """Pass: as Confluent's own serializer writes them; without pre-images the key is enough."""
    topic = f"{request.node.name}-{time.time_ns()}"
    client = SchemaRegistryClient({"url": apicurio.url})

    def written(message, part):
        serializer = ProtobufSerializer(type(message), client, {"use.deprecated.format": False})
        return serializer(message, SerializationContext(topic, part))

    values = [envelope(files, "u", None, FIRST), envelope(files, "d")]
    messages = [
        (written(value, MessageField.VALUE), written(key(files, 1), MessageField.KEY))
        for value in values
    ]
    messages += [(None, written(key(files, 9), MessageField.KEY)), (None, b"\0")]
    given = {
        "framing": "confluent", "registry": {"url": apicurio.url, "give_up": "5 seconds"}, "preimages": False,
        "key_schema_file": str(files / "key.proto"),
    }  # fmt: skip
    changes, reasons, _ = read(files, messages, **given)
    only = dict.fromkeys(FIRST)
    assert changes == [
        [("update_postimage", FIRST)], [("delete", {**only, "id": 1})], [("delete", {**only, "id": 9})], [],
    ]  # fmt: skip
    assert reasons == [None, None, None, "no value, and the key has no id"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"message": f"{NAME}.Value"}, "Value is no envelope"),
        ({"message": f"{NAME}.Source"}, "Source is no envelope"),
        ({"message": f"{NAME}.Envelop"}, "the nearest is"),
        ({"schema": "id BIGINT"}, "has the columns of its `schema_file`"),
        ({"key_schema_file": "gone.proto"}, "gone.proto"),
    ],
)
def test_what_is_no_envelope_is_told(files, more, told):
    """Pass: before anything runs."""
    with pytest.raises(OptionError, match=told):
        decode(files, **more).decoding()
    with pytest.raises(ValidationError, match="needs a `key_schema_file`"):
        decode(files, key_message="a.Key")


def test_rows_of_other_fields_are_told(files):
    """Pass: where `before` is another message than `after`."""
    text = ENVELOPE.replace("Value before", "Source before")
    (files / "value.proto").write_text(text)
    with pytest.raises(OptionError, match="have other fields"):
        decode(files).decoding()


class Context:
    node = "things"
    wanted = frozenset(["rejected"])


def test_changes_come_out_through_spark(files, spark):
    """Pass: with the sequence and both states of a row; what is no envelope with its reason."""
    told = [("c", None, SECOND), ("u", SECOND, {**SECOND, "name": "c"})]
    values = [*(envelope(files, *each).SerializeToString() for each in told), b"\xff"]
    frame = spark.createDataFrame(
        [(bytearray(value), f"00{n}") for n, value in enumerate(values)],
        "value BINARY, position STRING",
    )
    made = decode(files).apply(Inputs({"input": frame}), Context())
    rows = sorted(
        (r["_commit_version"], r["_change_type"], r["name"] or "")
        for r in made.where("_output IS NULL").collect()
    )
    assert rows == [
        ("000", "insert", ""), ("001", "update_postimage", "c"), ("001", "update_preimage", ""),
    ]  # fmt: skip
    (bad,) = made.where("_output = 'rejected'").collect()
    assert bad["_rejected"]["reason"] == "the value is cut"


def test_when_a_change_was_made_is_told_or_not(files):
    """Pass: the envelope's own time where the source has none; no time of a source that is a text."""
    without = google(files / "value.proto", "Envelope")(op="c", ts_ms=AT)
    without.after.id = 1
    silent = google(files / "value.proto", "Envelope")(op="c")
    silent.after.id = 1
    messages = [(each.SerializeToString(), None) for each in (without, silent)]
    assert read(files, messages)[2] == [WHEN, None]
    text = ENVELOPE.replace("Source source", "string source")
    (files / "value.proto").write_text(text)
    told = google(files / "value.proto", "Envelope")(op="c", source="x")
    told.after.id = 1
    assert read(files, [(told.SerializeToString(), None)])[1:] == ([None], [None])
