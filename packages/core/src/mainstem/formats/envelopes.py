"""Envelopes, opened one by one: what is in a message, and what is said of it beside.

Sources: the JSON format of Amazon SNS; CloudEvents 1.0, its JSON event format, and its protocol bindings
for HTTP, Kafka, AMQP, MQTT and NATS, which have attributes among a message's headers.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

#: How attributes begin among headers: of HTTP and NATS, percent-encoded; of Kafka and AMQP.
_PREFIX = re.compile(r"(?:(ce-)|ce_|cloudevents[:_])(?=.)", re.IGNORECASE)
_CONTENT_TYPES = ("content-type", "content_type", "contenttype")
_EVENTS = "application/cloudevents"
_VERSION = "1.0"
_NEEDED = ("specversion", "id", "source", "type")
_NAME = re.compile(r"[a-z0-9]+")
_JSON = re.compile(r"[^;]*[/+]json\s*(;.*)?", re.IGNORECASE)

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()

#: What is in an envelope, and its attributes.
_Opened = tuple[bytes | None, dict[str, str] | None]


class NoEnvelope(ValueError):  # noqa: N818
    """A message that is none; says why."""


def sns(value: bytes | None, _headers: Mapping[str, Any]) -> _Opened:
    """Return the message that Amazon SNS has put into JSON."""
    if value is None:
        return None, None
    message = _object(value, "it is no envelope of SNS").get("Message")
    text = None if message is None else _scalar(message)
    if not isinstance(text, str):
        raise NoEnvelope("it is no envelope of SNS")
    return text.encode(), None


def cloud_event(value: bytes | None, headers: Mapping[str, Any]) -> _Opened:
    """Return the data of a CloudEvent, in a message of its own or with attributes among the headers."""
    content, attributes = _among(headers)
    kind = content.partition(";")[0].strip().lower()
    if kind.startswith(_EVENTS):
        if kind != f"{_EVENTS}+json":
            raise NoEnvelope(
                "it is several CloudEvents, or one that is not in JSON: these are not read"
            )
    elif "specversion" in attributes:
        if content:
            attributes["datacontenttype"] = content
        return value, _checked(attributes)
    if value is None:
        return None, None
    told = _object(value, "it is no CloudEvent: no JSON object")
    data, packed = told.pop("data", None), told.pop("data_base64", None)
    attributes = {}
    for name, raw in told.items():
        if not _NAME.fullmatch(name):
            raise NoEnvelope("it is no CloudEvent: an attribute has a name that none can have")
        held = _scalar(raw)
        if isinstance(held, bool):
            held = "true" if held else "false"
        elif isinstance(held, int):
            held = str(held)
        if held is not None:
            if not isinstance(held, str):
                raise NoEnvelope(f"it is no CloudEvent: {name[:40]} is no text")
            attributes[name] = held
    return _data(data, packed, attributes), _checked(attributes)


def _among(headers: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the content type that headers tell, and the attributes of a CloudEvent."""
    content = ""
    found: dict[str, str] = {}
    # Those of MQTT have nothing before their names.
    bare = "specversion" in headers and not any(map(_PREFIX.match, headers))
    for name, held in headers.items():
        prefix = _PREFIX.match(name)
        if name.lower() in _CONTENT_TYPES:
            content = _text(held, name)
            continue
        if prefix is None and not (bare and _NAME.fullmatch(name)):
            continue
        plain = name if prefix is None else name[prefix.end() :].lower()
        text = _text(held, name)
        if not _NAME.fullmatch(plain):
            raise NoEnvelope("it is no CloudEvent: an attribute has a name that none can have")
        if prefix is not None and prefix[1]:
            text = _unquoted(text, name)
        if found.setdefault(plain, text) != text:
            raise NoEnvelope(f"it is no CloudEvent: {plain[:40]} is there twice")
    return content, found


def _unquoted(text: str, name: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise NoEnvelope(f"it is no CloudEvent: the header {name[:40]} is no text") from None


def _data(
    data: msgspec.Raw | None, packed: msgspec.Raw | None, attributes: Mapping[str, str]
) -> bytes | None:
    if packed is not None and (text := _scalar(packed)) is not None:
        try:
            if _there(data) or not isinstance(text, str):
                raise ValueError
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            told = "it is no CloudEvent: data_base64 is no base64, or stands beside data"
            raise NoEnvelope(told) from None
    if data is None or not _there(data):
        return None
    kind = attributes.get("datacontenttype", "application/json")
    if not _JSON.fullmatch(kind) and isinstance(text := _scalar(data), str):
        return text.encode()
    return bytes(data)


def _there(data: msgspec.Raw | None) -> bool:
    return data is not None and bytes(data) != b"null"


def _checked(attributes: dict[str, str]) -> dict[str, str]:
    for name in _NEEDED:
        if not attributes.get(name):
            raise NoEnvelope(f"it is no CloudEvent: it has no {name}")
    if attributes["specversion"] != _VERSION:
        raise NoEnvelope(f"it is no CloudEvent of version {_VERSION}")
    return attributes


def _object(value: bytes, flaw: str) -> dict[str, msgspec.Raw]:
    try:
        value.decode()
        return _members.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NoEnvelope(flaw) from None


def _scalar(raw: msgspec.Raw) -> Any:
    """Return a JSON value; what is nested is itself as it stands."""
    text = bytes(raw)
    if text[:1] in (b"{", b"["):
        return raw
    try:
        return _any.decode(text)
    except msgspec.MsgspecError:
        raise NoEnvelope("it is no JSON") from None


def _text(held: Any, name: str) -> str:
    try:
        return "" if held is None else bytes(held).decode()
    except UnicodeDecodeError:
        raise NoEnvelope(f"it is no CloudEvent: the header {name[:40]} is no text") from None
