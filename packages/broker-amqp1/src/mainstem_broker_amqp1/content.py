"""What the sections of a message are as a row."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

from mainstem_ingress import Message

#: Numbers of a message's sections.
_HEADER, _ANNOTATIONS, _PROPERTIES, _APPLICATION = 0x70, 0x72, 0x73, 0x74
_DATA, _SEQUENCE, _VALUE = 0x75, 0x76, 0x77
_SECTIONS = range(0x70, 0x79)
#: What JMS clients note for each other begins so; which of JMS's kinds a message is.
_JMS, _KIND, _OBJECT = "x-opt-jms-", "x-opt-jms-msg-type", 1
_SERIALIZED = "application/x-java-serialized-object"
#: The columns of a message's own properties.
COLUMNS = (
    "message_id STRING, correlation_id STRING, subject STRING, reply_to STRING, content_type STRING, "
    "group_id STRING, priority INT, delivery_count INT, expires TIMESTAMP"
)
_NO_ID = "it has no message id, and `ids: always` asks for one"
_PRIORITY = 4
#: The times that readers have, in milliseconds.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999


def row(
    found: list[tuple[int, Any]], origin: str, key: str | None, ids: str, token: Any
) -> Message:
    """Return a message made of sections.

    Args:
        found: the sections.
        origin: the address.
        key: the property or annotation that is its key; None for its group.
        ids: which message ids tell copies: `always`, `when_given`, `never`.
        token: for its acknowledgement.

    Raises:
        ValueError: it can't be read.
    """
    parts = dict(found)
    if unknown := [number for number in parts if number not in _SECTIONS]:
        raise ValueError(f"it is no message of AMQP 1.0: it has a section {unknown[0]:#x}")
    header = _fields(parts.get(_HEADER), 5)
    told = _fields(parts.get(_PROPERTIES), 13)
    identity, reply, correlation, kind = told[0], told[4], told[5], told[6]
    annotations: dict[Any, Any] = parts.get(_ANNOTATIONS) or {}
    application: dict[Any, Any] = parts.get(_APPLICATION) or {}
    group = told[10]
    given = group
    if key is not None:
        given = application.get(key, annotations.get(key))
    headers = [(str(name), octets(value)) for name, value in (*annotations.items(), *application.items())
               if name != key and not str(name).startswith(_JMS)]  # fmt: skip
    refused = None
    if annotations.get(_KIND) == _OBJECT or kind == _SERIALIZED:
        refused = "it is an object that Java has serialized"
    elif identity is None and ids == "always":
        refused = _NO_ID
    return Message(
        body(found),
        None if given is None else octets(given),
        headers or None,
        _micros(told[9]),
        origin,
        None if identity is None or ids == "never" else _identity(identity),
        token=token,
        refused=refused,
        extra=(
            _text(identity),
            _text(correlation),
            _text(told[3]),
            _text(reply),
            _text(kind),
            _text(group),
            _PRIORITY if header[1] is None else _number(header[1]),
            _number(header[4] or 0),
            _micros(told[8]),
        ),
    )


def _fields(held: Any, count: int) -> list[Any]:
    """Return the fields of a section; those that it has not are null."""
    if held is None:
        held = []
    if not isinstance(held, list):
        raise ValueError("it is no message of AMQP 1.0: a section is no list")
    return [*held, *[None] * (count - len(held))]


def body(found: list[tuple[int, Any]]) -> bytes | None:
    """Return the body: data and text as they are, all else as JSON."""
    held = [(number, value) for number, value in found if number in (_DATA, _SEQUENCE, _VALUE)]
    if not held:
        return None
    number, value = held[0]
    if number == _DATA:
        return b"".join(part for kind, part in held if kind == _DATA)
    if number == _SEQUENCE:
        value = [each for kind, part in held if kind == _SEQUENCE for each in part]
    return None if value is None else octets(value)


def octets(value: Any) -> bytes:
    """Return a value as bytes: text as UTF-8, what is neither as JSON."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    if isinstance(value, UUID):
        return str(value).encode()
    return json.dumps(_plain(value), ensure_ascii=False).encode(errors="surrogatepass")


def _plain(value: Any) -> Any:
    """Return a value that JSON has: bytes are base64, other things text."""
    if isinstance(value, dict):
        found = {_text(name): _plain(held) for name, held in value.items()}
        if len(found) < len(value):
            raise ValueError("it has a map with keys that are one text")
        return found
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return int(value) if isinstance(value, int) else str(value)


def _text(value: Any) -> str | None:
    return None if value is None else octets(value).decode(errors="replace")


def _micros(milliseconds: Any) -> int | None:
    """Return a time in microseconds; None for none, and for one that is in no year of four digits."""
    if not milliseconds or not _FIRST <= int(milliseconds) <= _LAST:
        return None
    return int(milliseconds) * 1000


def _number(value: Any) -> int:
    """Return a number that its column holds."""
    if not 0 <= value < 2**31:
        raise ValueError(f"it has a number that is too large: {value}")
    return int(value)


def _identity(value: Any) -> bytes:
    """Return what tells a message by its id, of which those of different types are different."""
    if isinstance(value, str):
        return octets(value)
    kind = "BINARY" if isinstance(value, bytes) else type(value).__name__.upper()
    return f"AMQP_{kind}:".encode() + octets(value)
