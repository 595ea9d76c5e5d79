"""Debezium's envelopes in Avro become a changelog, as those in JSON do."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO

import pytest
from fastavro import parse_schema, schemaless_writer
from mainstem import Inputs, OptionError
from mainstem.builtin.decode import Decode
from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_registry import FRAMINGS
from mainstem_testkit import FormatSuite
from mainstem_testkit.changes import changes_of

NAME = "shop.public.things"
ROW = {
    "type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "price", "type": ["null", {
            "type": "bytes", "scale": 2, "precision": 10, "connect.version": 1, "connect.parameters": {"scale": "2"},
            "connect.name": "org.apache.kafka.connect.data.Decimal", "logicalType": "decimal"}], "default": None},
        {"name": "born", "type": ["null", {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}],
         "default": None},
        {"name": "at", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}], "default": None},
        {"name": "seen", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.Timestamp"}], "default": None},
    ], "connect.name": f"{NAME}.Value",
}  # fmt: skip
SOURCE = {
    "type": "record", "name": "Source", "namespace": "io.debezium.connector.postgresql", "fields": [
        {"name": "version", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.parameters": {"allowed": "true,last"},
         "connect.default": "false", "connect.name": "io.debezium.data.Enum"}, "null"], "default": "false"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}  # fmt: skip
BLOCK = {
    "type": "record", "name": "block", "namespace": "event", "fields": [
        {"name": "id", "type": "string"}, {"name": "total_order", "type": "long"},
    ],
}  # fmt: skip
ENVELOPE = {
    "type": "record", "name": "Envelope", "namespace": NAME, "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "transaction", "type": ["null", BLOCK], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ], "connect.name": f"{NAME}.Envelope",
}  # fmt: skip
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": NAME,
    "fields": [{"name": "id", "type": "long"}],
}
COLUMNS = "id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(10,2), born DATE, at TIMESTAMP_NTZ, seen TIMESTAMP_NTZ"
#: As Avro has it, and as it is read.
FIRST = {
    "id": 1,
    "name": "grüße",
    "price": Decimal("-1.50"),
    "born": -1,
    "at": 1_700_000_000_123_456,
    "seen": 1_700_000_000_123,
}
READ = {
    **FIRST, "born": date(1969, 12, 31), "at": datetime(2023, 11, 14, 22, 13, 20, 123456),
    "seen": datetime(2023, 11, 14, 22, 13, 20, 123000),
}  # fmt: skip
SECOND = {"id": 2, "name": "b", "price": None, "born": None, "at": None, "seen": None}
AT = 1_700_000_000_000


def written(schema, row, head=b""):
    stream = BytesIO(head)
    stream.seek(len(head))
    schemaless_writer(stream, parse_schema(schema), row)
    return stream.getvalue()


def envelope(op, before=None, after=None, head=b""):
    source = {"version": "3.0", "ts_ms": AT, "snapshot": "false", "lsn": None}
    row = {
        "before": before,
        "after": after,
        "source": source,
        "transaction": None,
        "op": op,
        "ts_ms": 5,
    }
    return written(ENVELOPE, row, head)


@pytest.fixture
def files(tmp_path):
    for name, schema in (("value.avsc", ENVELOPE), ("key.avsc", KEY)):
        (tmp_path / name).write_text(json.dumps(schema))
    return tmp_path


def decode(files, **more):
    given = {
        "format": "debezium-avro",
        "schema_file": str(files / "value.avsc"),
        "key": ["id"],
        **more,
    }
    return Decode(Decode.options_for(given, Registry().component).model_validate(given))


def read(files, messages, **more):
    """Return the changes of messages, pairs of value and key, and why they are refused."""
    return changes_of(decode(files, **more), messages)


class TestDebeziumAvro(FormatSuite):
    """The standard tests."""

    use = "debezium-avro"

    @pytest.fixture(autouse=True)
    def _schemas(self, files):
        self.folder = files

    def options(self):
        return {"schema_file": str(self.folder / "value.avsc"), "key": ["id"]}

    def good(self):
        return [
            (envelope("c", None, FIRST), [{**READ, "type": "insert"}]),
            (envelope("u", SECOND, {**SECOND, "name": "c"}), [
                {**SECOND, "type": "update_preimage"}, {**SECOND, "name": "c", "type": "update_postimage"}]),
            (envelope("d", SECOND), [{**SECOND, "type": "delete"}]),
        ]  # fmt: skip

    def bad(self):
        good = envelope("c", None, FIRST)
        return [
            b"",
            good[:-1],
            good + b"\0",
            envelope("t"),
            envelope("u", None, FIRST),
            envelope("c"),
        ]


def test_fields_of_after_are_columns(files):
    """Pass: with Debezium's own types of times, and their nullability."""
    assert decode(files).decoding().columns == tuple(read_columns(COLUMNS))


def test_changes_are_told_as_of_json(files):
    """Pass: with their times; a key that moves is a deletion and an insertion."""
    moved = {**FIRST, "id": 7}
    changes, reasons, at = read(files, [
        (envelope("r", None, FIRST), None), (envelope("u", FIRST, moved), None), (envelope("d", FIRST), b"x"), (None, b"x"),
    ])  # fmt: skip
    assert reasons == [None] * 4
    assert changes == [
        [("insert", READ)], [("delete", READ), ("insert", {**READ, "id": 7})], [("delete", READ)], [],
    ]  # fmt: skip
    when = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert at == [when, when, when, None]


def test_without_preimages_the_key_is_enough(files):
    """Pass: of updates without the row before, of deletions, and of messages without a value, by their key."""
    only = {**dict.fromkeys(READ), "id": 1}
    messages = [
        (envelope("u", None, FIRST), written(KEY, {"id": 1})), (envelope("d"), written(KEY, {"id": 1})),
        (None, written(KEY, {"id": 1})), (None, b"\x80"), (envelope("u", None, FIRST), written(KEY, {"id": 9})),
    ]  # fmt: skip
    given = {"preimages": False, "key_schema_file": str(files / "key.avsc")}
    changes, reasons, _ = read(files, messages, **given)
    assert changes == [
        [("update_postimage", READ)], [("delete", only)], [("delete", only)], [],
        [("delete", {**only, "id": 9}), ("insert", READ)],
    ]  # fmt: skip
    assert reasons == [None, None, None, "no value, and the key has no id", None]
    _, reasons, _ = read(files, messages[2:3], preimages=False)
    assert reasons == ["no value, and what its key is in is not said: see `key_schema_file`"]


def test_values_that_are_not_in_the_message_are_refused(files):
    """Pass: never written as what stands in their place."""
    gone = {**FIRST, "name": "__debezium_unavailable_value"}
    _, reasons, _ = read(files, [(envelope("u", FIRST, gone), None)])
    assert reasons[0].startswith("name is not in the message")


@pytest.mark.in_turn
def test_a_registry_numbers_values_and_keys(files, apicurio, request):
    """Pass: schemas with more fields are resolved; an unknown number is refused."""
    topic = f"{request.node.name}-{time.time_ns()}"
    head = FRAMINGS["confluent"].head
    more = json.loads(json.dumps(ENVELOPE))
    more["fields"].append({"name": "ts_ns", "type": ["null", "long"], "default": None})
    value, key = (
        apicurio.register(f"{topic}-{n}", json.dumps(each))
        for n, each in (("value", more), ("key", KEY))
    )
    made = envelope("u", None, FIRST, head(value)) + b"\0"
    given = {
        "framing": "confluent", "registry": {"url": apicurio.url, "give_up": "5 seconds"}, "preimages": False,
        "key_schema_file": str(files / "key.avsc"),
    }  # fmt: skip
    changes, reasons, _ = read(
        files,
        [
            (made, written(KEY, {"id": 1}, head(key))),
            (envelope("d", None, None, head(999_999)), None),
        ],
        **given,
    )
    assert changes == [[("update_postimage", READ)], []]
    assert reasons == [None, "the registry has no schema 999999"]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (KEY, "no envelope"),
        ({**ENVELOPE, "fields": ENVELOPE["fields"][:4]}, "no envelope"),
        ({**ENVELOPE, "fields": [{"name": "before", "type": SOURCE}, {"name": "after", "type": ROW}, *ENVELOPE["fields"][4:]]},
         "have other fields"),
    ],
)  # fmt: skip
def test_schemas_that_are_no_envelopes_are_told(files, schema, told):
    """Pass: before anything runs."""
    (files / "value.avsc").write_text(json.dumps(schema))
    with pytest.raises(OptionError, match=told):
        decode(files).decoding()


class Context:
    node = "things"
    wanted = frozenset(["rejected"])


def test_changes_come_out_through_spark(files, spark):
    """Pass: with the sequence and both states of a row; what is no envelope with its reason."""
    values = [envelope("c", None, SECOND), envelope("u", SECOND, {**SECOND, "name": "c"}), b"\xff"]
    frame = spark.createDataFrame(
        [(bytearray(value), f"00{n}") for n, value in enumerate(values)],
        "value BINARY, position STRING",
    )
    made = decode(files).apply(Inputs({"input": frame}), Context())
    rows = sorted(
        (r["_commit_version"], r["_change_type"], r["name"])
        for r in made.where("_output IS NULL").collect()
    )
    assert rows == [
        ("000", "insert", "b"), ("001", "update_postimage", "c"), ("001", "update_preimage", "b"),
    ]  # fmt: skip
    (bad,) = made.where("_output = 'rejected'").collect()
    assert bad["_rejected"]["reason"] == "the value is cut"
