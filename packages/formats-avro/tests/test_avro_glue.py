"""Values of AWS Glue's registry: by an emulation of its API, written by another implementation."""

from __future__ import annotations

import json
import sys
import uuid
import zlib

import boto3
import pyarrow as pa
import pytest
from aws_schema_registry import DataAndSchema, SchemaRegistryClient
from aws_schema_registry.avro import AvroSchema
from aws_schema_registry.serde import KafkaSerializer
from mainstem import PermanentError, TransientError
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.registry import Registry
from mainstem_formats_avro.reading import AvroValues
from mainstem_registry import RegistryOptions
from moto import mock_aws
from pydantic import ValidationError

ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": "string", "default": ""}]}


@pytest.fixture
def glue(monkeypatch):
    """An emulation of Glue, with a registry; in this process alone."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        made = boto3.client("glue", "eu-central-1")
        made.create_registry(RegistryName="shop")
        yield made


def options():
    return RegistryOptions.model_validate(
        {"glue": {"region": "eu-central-1"}, "give_up": "1 second"}
    )


def read(values):
    made = AvroValues([json.dumps(ORDER)], framing="glue", registry=options())
    arrays, reasons = made.read(pa.array(values, pa.binary()))
    return list(zip(*(each.to_pylist() for each in arrays), strict=True)), reasons


def test_what_another_serializer_writes_is_read(glue):
    """Pass: plain and compressed, of a newer schema too; what is none, or unknown, is refused."""
    client = SchemaRegistryClient(glue, registry_name="shop")
    write = KafkaSerializer(client).serialize
    values = [
        write(topic, DataAndSchema(row, AvroSchema(json.dumps(schema))))
        for topic, schema, row in (
            ("old", ORDER, {"id": 1, "name": "a"}),
            ("new", NEWER, {"id": 2, "name": None, "more": "x"}),
        )
    ]
    packed = b"\3\5" + values[0][2:18] + zlib.compress(values[0][18:])
    unknown = uuid.uuid4()
    values += [
        packed, b"\3\0" + unknown.bytes + b"\2\0", packed[:-1], packed + b"x", b"\3\5" + packed[2:18] + b"none",
        b"\3\7" + packed[2:], b"\0" + packed[1:], packed[:17], b"", None, values[0][:-1],
    ]  # fmt: skip
    rows, reasons = read(values)
    assert rows[:3] == [(1, "a"), (2, None), (1, "a")]
    assert reasons == [
        None, None, None, f"the registry has no schema {unknown}", *["it is not compressed as it says"] * 3,
        *["it names no schema"] * 4, "the value is null", "the value is cut",
    ]  # fmt: skip


def test_schemas_of_another_kind_are_refused(glue):
    """Pass: by the version's name."""
    made = glue.create_schema(
        RegistryId={"RegistryName": "shop"}, SchemaName="text", DataFormat="JSON", Compatibility="NONE",
        SchemaDefinition='{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}',
    )  # fmt: skip
    version = made["SchemaVersionId"]
    assert read([b"\3\0" + uuid.UUID(version).bytes + b"{}"])[1] == [f"schema {version} is JSON"]


def test_a_registry_that_is_away_fails_the_batch(monkeypatch):
    """Pass: no row is refused; credentials that are not there are told; so is a library that is not."""
    value = [b"\3\0" + uuid.uuid4().bytes]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "an-id")
    away = {"region": "eu-central-1", "endpoint": "http://127.0.0.1:1"}
    given = RegistryOptions.model_validate({"glue": away, "give_up": "0.1 seconds"})
    made = AvroValues([json.dumps(ORDER)], framing="glue", registry=given)
    with pytest.raises(TransientError, match="AWS Glue's registry"):
        made.read(pa.array(value, pa.binary()))
    monkeypatch.setenv("AWS_PROFILE", "none-such")
    with pytest.raises(PermanentError, match="no such profile"):
        read(value)
    monkeypatch.setitem(sys.modules, "mainstem_aws", None)
    with pytest.raises(PermanentError, match=r"pip install 'mainstem-registry\[glue\]'"):
        read(value)


@pytest.mark.parametrize(
    ("kind", "more", "told"),
    [
        (Decode, {"registry": {}}, "give a `url`, or `glue`"),
        (Decode, {"registry": {"url": "http://a", "glue": {}}}, "give a `url`, or `glue`"),
        (Decode, {"registry": {"glue": {}, "token": "t"}}, "are for a `url`"),
        (Decode, {"registry": {"url": "http://a"}}, "is for a `registry` that has `glue`"),
        (Decode, {"registry": {"glue": {}}, "framing": "confluent"}, "no other is"),
        (Decode, {"registry": {"glue": {"endpoint": "http://me:pass@host"}}}, "endpoint"),
        (Encode, {"registry": {"glue": {}}, "subject": "a"}, "Input should be"),
    ],
)
def test_options_that_do_not_fit_each_other_are_told(kind, more, told):
    """Pass: before anything is asked."""
    given = {"format": "avro", "schema_file": "order.avsc", "framing": "glue", **more}
    with pytest.raises(ValidationError, match=told):
        kind.options_for(given, Registry().component).model_validate(given)
