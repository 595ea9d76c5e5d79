"""How a message's AMQP properties and headers stand in the column `headers`, a map of text to bytes.

| in `headers` | on the message |
|---|---|
| `amqp.content_type`, `amqp.content_encoding`, `amqp.correlation_id`, `amqp.reply_to`, \
`amqp.expiration`, `amqp.message_id`, `amqp.type`, `amqp.user_id`, `amqp.app_id` | the property, as text |
| `amqp.priority`, `amqp.delivery_mode` | the property, as a number in text |
| `amqp.exchange` | where it was published to; not there for the default exchange; only read |
| `amqp.redelivered` | `true` when the broker had given it out before; only read |
| `amqp.header.amqp.x` | an application header whose own name begins with `amqp.` |
| any other name | the application header of that name |

Application headers when read: text is UTF-8, bytes are as they are, numbers and booleans are text
(`12`, `0.5`, `true`), timestamps are ISO 8601 in UTC (`2026-01-31T23:59:59Z`; the bare number beyond
the year 9999), tables and arrays are JSON, and a header without a value is empty. When written: text if
the bytes are UTF-8, else bytes; null is a header without a value. What comes back after a round trip is
the same bytes; that a number was one is lost. The property `timestamp` is the column `timestamp`;
`cluster_id` is obsolete and left out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

_TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
)
#: Properties that are one byte, and the greatest value that AMQP gives a meaning.
_NUMBERS = {"priority": 255, "delivery_mode": 2}
_READ_ONLY = {"exchange", "redelivered"}
_PREFIX, _ESCAPED = "amqp.", "amqp.header."
_SHORT = 255  # bytes of a name or of a property (AMQP 0-9-1, 4.2.5.3)
_LONGEST_EXPIRATION = 2**32 - 1  # RabbitMQ's


def to_headers(
    properties: Any, exchange: str | bytes = "", redelivered: bool = False
) -> list[tuple[str, bytes]] | None:
    """Return a received message's properties and headers; None when there are none.

    Args:
        properties: pika's `BasicProperties`.
        exchange: where the message was published to; pika leaves a name that is not UTF-8 as bytes.
        redelivered: whether the broker had given it out before.
    """
    # Unrolled: this runs for each message, and most properties of most messages are not set.
    found: list[tuple[str, bytes]] = []
    if (value := properties.content_type) is not None:
        found.append(("amqp.content_type", _text(value)))
    if (value := properties.content_encoding) is not None:
        found.append(("amqp.content_encoding", _text(value)))
    if (value := properties.delivery_mode) is not None:
        found.append(("amqp.delivery_mode", b"%d" % value))
    if (value := properties.priority) is not None:
        found.append(("amqp.priority", b"%d" % value))
    if (value := properties.correlation_id) is not None:
        found.append(("amqp.correlation_id", _text(value)))
    if (value := properties.reply_to) is not None:
        found.append(("amqp.reply_to", _text(value)))
    if (value := properties.expiration) is not None:
        found.append(("amqp.expiration", _text(value)))
    if (value := properties.message_id) is not None:
        found.append(("amqp.message_id", _text(value)))
    if (value := properties.type) is not None:
        found.append(("amqp.type", _text(value)))
    if (value := properties.user_id) is not None:
        found.append(("amqp.user_id", _text(value)))
    if (value := properties.app_id) is not None:
        found.append(("amqp.app_id", _text(value)))
    if exchange:
        found.append(("amqp.exchange", _text(exchange)))
    if redelivered:
        found.append(("amqp.redelivered", b"true"))
    if table := properties.headers:
        for name, value in table.items():
            if type(name) is not str:  # pika leaves a name that is not UTF-8 as bytes
                name = name.decode(errors="backslashreplace")
            if name.startswith(_PREFIX):
                name = _ESCAPED + name
            found.append((name, value.encode() if type(value) is str else _value(value)))
    return found or None


def from_headers(
    headers: Iterable[tuple[str, bytes | None]] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the properties, by pika's names for them, and the application headers of a message.

    Args:
        headers: names and values, as the column `headers` has them.

    Raises:
        ValueError: a property or a name is not what AMQP or RabbitMQ takes; the text says which.
    """
    properties: dict[str, Any] = {}
    table: dict[str, Any] = {}
    for name, value in headers or ():
        if name.startswith(_PREFIX):
            if name.startswith(_ESCAPED):
                name = name[len(_ESCAPED) :]
            else:
                if value is not None:
                    _set(properties, name[len(_PREFIX) :], value)
                continue
        if len(name) > 63 and len(name.encode()) > _SHORT:
            raise ValueError(f"header {name[:40]!r}...: names have {_SHORT} bytes at most")
        if value is not None:
            try:
                table[name] = value.decode()
                continue
            except UnicodeDecodeError:
                pass
        table[name] = value
    return properties, table


def _set(properties: dict[str, Any], name: str, value: bytes) -> None:
    """Set a property from its text."""
    if name in _READ_ONLY:
        return
    limit = _NUMBERS.get(name)
    if limit is None and name not in _TEXTS:
        raise ValueError(
            f"header amqp.{name} names no property; an application header of that name is written "
            f"as amqp.header.amqp.{name}"
        )
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"header amqp.{name} is not UTF-8") from None
    if limit is not None:
        if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > limit:
            raise ValueError(f"header amqp.{name} is no number from 0 to {limit}: {text[:40]!r}")
        properties[name] = int(text)
        return
    if len(value) > _SHORT:
        raise ValueError(f"header amqp.{name} has {len(value)} bytes; {_SHORT} are the most")
    # The broker closes the channel over this one, with all that is in flight.
    if name == "expiration" and not (
        re.fullmatch(r"[0-9]{1,10}", text) and int(text) <= _LONGEST_EXPIRATION
    ):
        raise ValueError(f"header amqp.expiration is no number of milliseconds: {text[:40]!r}")
    properties[name] = text


def _text(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _value(value: Any) -> bytes:
    """Return an application header's value, of any type that pika decodes, as bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if value is None:
        return b""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value  # not str(): pika has integers of its own that print otherwise
    if isinstance(value, float):
        return repr(value).encode()
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    if isinstance(value, datetime):
        return _time(value).encode()
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """Return a table or an array in values that JSON has; bytes are text, else base64."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return _time(value)
    return value


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
