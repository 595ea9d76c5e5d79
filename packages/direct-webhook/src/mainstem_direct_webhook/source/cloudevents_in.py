"""Reads CloudEvents 1.0 from HTTP requests: binary, structured and batched (JSON).

What is read of an event: `value` is the data, its bytes as they were sent (of text or base64 inside JSON,
what they stand for); the attributes stand in `headers` as `ce-NAME`, and `datacontenttype` as
`content-type`; `time` is the message's timestamp. An event is told from others by `source` and `id`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from mainstem_direct_webhook.source import json_text

STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"

_NAME = re.compile(r"[a-z0-9]+")
_REQUIRED = ("id", "source", "type")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = re.compile(r"[^/;]+/([^;]*\+)?json(;|$)")


class NotEvent(ValueError):  # noqa: N818
    """A request holds no CloudEvent."""


class Event(NamedTuple):
    """One event."""

    value: bytes | None
    headers: list[tuple[str, bytes]]
    #: Microseconds since 1970.
    timestamp: int | None
    id: bytes


def read(kind: str, headers: Mapping[bytes, bytes], body: bytes, most: int) -> list[Event]:
    """Return the events of a request; `most + 1` at most.

    Args:
        kind: the media type, in lower case and without parameters.
        headers: of the request, names in lower case.

    Raises:
        NotEvent: it holds none, or one that is not whole.
        json_text.NotJSON: it is no JSON.
    """
    if kind == STRUCTURED:
        return [_structured(json_text.text_of(body))]
    if kind == BATCH:
        return [_structured(text) for text in json_text.elements(body, most)]
    return [_binary(headers, body)]


def _binary(headers: Mapping[bytes, bytes], body: bytes) -> Event:
    attributes = {
        name[3:].decode("latin-1"): _decoded(value)
        for name, value in headers.items()
        if name.startswith(b"ce-")
    }
    event = _event(attributes, body)
    kind = headers.get(b"content-type")
    return event._replace(headers=[*event.headers, *([("content-type", kind)] if kind else [])])


def _structured(text: str) -> Event:
    members = json_text.members(text)
    data, encoded = members.pop("data", None), members.pop("data_base64", None)
    attributes = {name: _text(held) for name, (held, _) in members.items() if held is not None}
    kind = attributes.pop("datacontenttype", None)
    if data is not None and encoded is not None:
        raise NotEvent("an event has both data and data_base64")
    value: bytes | None = None
    if encoded is not None:
        try:
            value = base64.b64decode(encoded[0], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise NotEvent("data_base64 is not base64") from None
    elif data is not None:
        held, written = data
        is_text = isinstance(held, str) and written.startswith('"')
        if is_text and kind is not None and not _JSON.match(kind.lower()):
            written = held  # JSON can hold such data as text alone
        value = _bytes(written)
    event = _event(attributes, value)
    kind = kind or ("application/json" if data is not None else None)
    return event._replace(
        headers=[*event.headers, *([("content-type", _bytes(kind))] if kind else [])]
    )


def _event(attributes: Mapping[str, str], value: bytes | None) -> Event:
    if attributes.get("specversion") != "1.0":
        raise NotEvent("an event is not of specversion 1.0")
    missing = [name for name in _REQUIRED if not attributes.get(name)]
    if missing:
        raise NotEvent(f"an event has no {missing[0]}")
    if not all(map(_NAME.fullmatch, attributes)):
        raise NotEvent("an attribute's name has other characters than a-z and 0-9")
    at = attributes.get("time")
    return Event(
        value,
        [(f"ce-{name}", _bytes(text)) for name, text in attributes.items()],
        None if at is None else _micros(at),
        _bytes(attributes["source"]) + b"\0" + _bytes(attributes["id"]),
    )


def _text(held: Any) -> str:
    if isinstance(held, bool):
        return "true" if held else "false"
    if isinstance(held, str):  # whole numbers are their texts
        return held
    raise NotEvent("an attribute is neither text, nor a whole number, nor a boolean")


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotEvent("a text has half a character") from None


def _decoded(value: bytes) -> str:
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise NotEvent("an attribute is not UTF-8") from None


def _micros(text: str) -> int:
    """Return the microseconds since 1970 of a time in RFC 3339."""
    try:
        at = datetime.fromisoformat(text.upper())
        if at.tzinfo is None:
            raise ValueError
        return (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise NotEvent("an event's time is not of RFC 3339") from None
