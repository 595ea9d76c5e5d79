"""Envelopes opened one by one: CloudEvents of each binding, and what is none."""

from __future__ import annotations

import json
import random

import pytest
from mainstem.formats.envelopes import NoEnvelope, cloud_event, sns

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "placed"}


def whole(**more):
    return json.dumps({**EVENT, **more}).encode()


@pytest.mark.parametrize(
    ("more", "data"),
    [
        ({}, None),
        ({"data": None}, None),
        ({"data": {"a": 1.10}}, b'{"a": 1.1}'),
        ({"data": "text"}, b'"text"'),
        ({"data": "text", "datacontenttype": "text/plain"}, b"text"),
        ({"data": "text", "datacontenttype": "application/vnd.x+json; charset=utf-8"}, b'"text"'),
        ({"data": [1], "datacontenttype": "text/plain"}, b"[1]"),
        ({"data_base64": "AP8="}, b"\0\xff"),
        ({"data_base64": None, "data": 5}, b"5"),
        ({"data": None, "data_base64": "AP8="}, b"\0\xff"),
    ],
)
def test_events_that_are_whole_in_a_value_are_opened(more, data):
    """Pass: the data as it stands, a text of another content type as that text, bytes as bytes."""
    found, attributes = cloud_event(whole(**more), {})
    assert found == data
    assert attributes.items() >= EVENT.items()
    assert not {"data", "data_base64"} & attributes.keys()


def test_data_is_what_stood_there():
    """Pass: byte for byte, numbers with all their digits."""
    raw = b'{ "a" : 1.10000000000000000001e400 }'
    value = whole(data="DATA").replace(b'"DATA"', raw)
    assert cloud_event(value, {})[0] == raw


def test_attributes_are_texts():
    """Pass: numbers and booleans as the specification writes them; null is none."""
    attributes = cloud_event(whole(number=-5, yes=True, no=False, gone=None), {})[1]
    assert attributes == {**EVENT, "number": "-5", "yes": "true", "no": "false"}


@pytest.mark.parametrize("prefix", ["ce_", "ce-", "Ce-", "cloudEvents:", "cloudEvents_"])
def test_events_with_attributes_among_headers_are_opened(prefix):
    """Pass: of each binding, with the content type, and any data, none too."""
    headers = {f"{prefix}{name}": value.encode() for name, value in EVENT.items()}
    for data in (b"\0\1", b"", None, whole(id="other")):
        found = cloud_event(data, {**headers, "Content-Type": b"application/avro", "else": b"\xff"})
        assert found == (data, {**EVENT, "datacontenttype": "application/avro"})
    assert cloud_event(b"1", headers) == (b"1", EVENT)


def test_headers_may_name_what_is_whole_in_the_value():
    """Pass: the content type says so, whatever other headers there are."""
    headers = {
        "content-type": b"application/cloudevents+json; charset=UTF-8",
        "ce_specversion": b"0",
    }
    assert cloud_event(whole(), headers) == (None, EVENT)
    assert (
        cloud_event(whole(), {**headers, "content-type": b" Application/CloudEvents+json"})[1]
        == EVENT
    )


def test_each_binding_writes_attributes_in_its_way():
    """Pass: MQTT without anything before them; HTTP and NATS percent-encoded, Kafka not."""
    event = {**EVENT, "subject": "Euro%20%E2%82%AC"}
    bare = {name: value.encode() for name, value in event.items()}
    assert cloud_event(b"x", {**bare, "content-type": b"text/plain", "Else": b"\xff"})[1] == {
        **event, "datacontenttype": "text/plain"
    }  # fmt: skip
    kafka, http = (
        {f"{prefix}{name}": value for name, value in bare.items()} for prefix in ("ce_", "ce-")
    )
    assert cloud_event(b"x", kafka)[1]["subject"] == "Euro%20%E2%82%AC"
    assert cloud_event(b"x", http)[1]["subject"] == "Euro €"


@pytest.mark.parametrize(
    ("value", "headers", "told"),
    [
        (b"", {}, "no JSON object"),
        (b"[]", {}, "no JSON object"),
        (b"\xff", {}, "no JSON object"),
        (b"[" * 100_000, {}, "no JSON object"),
        (b"{}", {}, "it has no specversion"),
        (whole(id=""), {}, "it has no id"),
        (whole(type={"a": 1}), {}, "type is no text"),
        (whole(source=1.5), {}, "source is no text"),
        (whole(**{"a b": "c"}), {}, "a name that none can have"),
        (whole(data_base64="?"), {}, "data_base64 is no base64"),
        (whole(data_base64=5), {}, "data_base64 is no base64"),
        (whole(data_base64="AA==", data=1), {}, "stands beside data"),
        (b"1", {"ce_specversion": b"1.0"}, "it has no id"),
        (b"1", {"ce_specversion": b"\xff"}, "the header ce_specversion is no text"),
        (b"[]", {"content-type": b"application/cloudevents-batch+json"}, "several CloudEvents"),
        (
            b"[]",
            {"content-type": b"application/cloudevents+avro", "ce_specversion": b"1.0"},
            "not in JSON",
        ),
        (whole(specversion="0.3"), {}, "of version 1.0"),
        (whole(specversion=True), {}, "of version 1.0"),
        (
            b"1",
            {"ce_specversion": b"1.0", "ce_id": b"1", "cloudEvents:id": b"2"},
            "id is there twice",
        ),
        (b"1", {"ce_specversion": b"1.0", "ce_a-b": b"1"}, "a name that none can have"),
        (b"1", {"ce-specversion": b"1.0", "ce-a": b"%ff"}, "the header ce-a is no text"),
    ],
)
def test_what_is_no_event_is_told(value, headers, told):
    """Pass: with the reason."""
    with pytest.raises(NoEnvelope, match=told):
        cloud_event(value, headers)


def test_no_value_is_an_empty_one():
    """Pass: of both kinds."""
    assert cloud_event(None, {}) == sns(None, {}) == (None, None)


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"5", b'{"Message": 5}', b'{"Message": {"a": 1}}', b"\xff"]
)
def test_what_sns_has_not_sent_is_told(value):
    """Pass: with the reason."""
    with pytest.raises(NoEnvelope, match="no envelope of SNS"):
        sns(value, {})


def test_no_bytes_do_harm():
    """Pass: changed events are opened or refused."""
    chance = random.Random(3)
    good = whole(data={"a": 1}, datacontenttype="application/json")
    for _ in range(5000):
        odd = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(odd))
            odd[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        try:
            _, attributes = cloud_event(bytes(odd), {})
        except NoEnvelope:
            continue
        assert {"id", "type", "source", "specversion"} <= attributes.keys()
