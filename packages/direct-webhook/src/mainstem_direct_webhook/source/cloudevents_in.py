"""Reads CloudEvents 1.0 from HTTP requests: binary, structured and batched (JSON).

What is read of an event: `value` is the data, its bytes as they were sent (of text or base64 inside JSON,
what they stand for); the attributes stand in `headers` as `ce-NAME`, and `datacontenttype` as
`content-type`; `time` is the message's timestamp. An event is told from others by `source` and `id`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from mainstem_direct_webhook.cloudevents import BATCH, EPOCH, NAME, STRUCTURED, is_json
from mainstem_direct_webhook.source import json_text

_REQUIRED = ("id", "source", "type")
#: What stands in double quotes (RFC 9110, section 5.6.4), and what is escaped in there. A quote that
#: does not end matches too, to the end, so that nobody looks for its end from each one after it.
_QUOTED, _ESCAPED = re.compile(rb'"((?:[^"\\]|\\.)*+)("?)'), re.compile(rb"\\(.)")
#: RFC 3339, section 5.6, and the space that it lets stand for `T`.
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)


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
            if not _is_text(*encoded):
                raise ValueError
            value = base64.b64decode(encoded[0], validate=True)
        except ValueError:
            raise NotEvent("data_base64 is not base64") from None
    elif data is not None:
        held, written = data
        if _is_text(held, written) and kind is not None and not is_json(kind):
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
    if not all(map(NAME.fullmatch, attributes)):
        raise NotEvent("an attribute's name has other characters than a-z and 0-9")
    at = attributes.get("time")
    return Event(
        value,
        [(f"ce-{name}", _bytes(text)) for name, text in attributes.items()],
        None if at is None else _micros(at),
        _bytes(attributes["source"]) + b"\0" + _bytes(attributes["id"]),
    )


def _is_text(held: Any, written: str) -> bool:
    return isinstance(held, str) and written.startswith('"')  # whole numbers are their texts


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
    """Return what a header's value stands for (HTTP binding, 3.1.3.2)."""
    unquoted = _QUOTED.sub(_unquoted, value)
    try:
        return unquote_to_bytes(unquoted).decode()
    except UnicodeDecodeError:
        raise NotEvent("an attribute is not UTF-8") from None


def _unquoted(found: re.Match[bytes]) -> bytes:
    return _ESCAPED.sub(rb"\1", found[1]) if found[2] else found[0]


def _micros(text: str) -> int:
    """Return the microseconds since 1970 of a time in RFC 3339; a leap second is the one after it."""
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        day, hour, minute, second, fraction, zone = found.group(1, 2, 3, 4, 5, 6)
        leap = second == "60"
        written = f"{day}T{hour}:{minute}:{59 if leap else second}{fraction or ''}{zone.upper()}"
        at = datetime.fromisoformat(written)
        if leap:
            at = at.astimezone(UTC) + timedelta(seconds=1)
            if (at.day, at.hour, at.minute) != (1, 0, 0):
                raise ValueError  # they are at the end of a month
        return (at - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise NotEvent("an event's time is not of RFC 3339") from None
