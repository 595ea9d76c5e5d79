"""What a message of Pulsar holds, as the values of a row."""

from __future__ import annotations

from typing import Any, NamedTuple

from mainstem_ingress import Message

#: The columns of a message's own properties that both sources have.
COLUMNS = "event_time TIMESTAMP, producer STRING"
LOG_COLUMNS = f"{COLUMNS}, message_id STRING"
QUEUE_COLUMNS = f"{COLUMNS}, redeliveries INT"
#: The last place in an entry that a position can tell, and how many entries of a ledger it can.
LAST, _ENTRIES = 99_999, 10**10
#: The header of a message whose key or properties are no text, as Pulsar's are; and what it says.
UNREAD, _NO_TEXT = "mainstem-unreadable", b"its key, a property or its producer is no UTF-8"
#: The last time that readers have, in milliseconds.
_LATEST = 253_402_300_799_999


class Place(NamedTuple):
    """Where a message is in a topic without partitions."""

    ledger: int
    entry: int
    batch: int


def position(place: tuple[int, int, int]) -> int:
    """Return a place as one number."""
    ledger, entry, batch = place
    return (ledger * _ENTRIES + entry) * (LAST + 1) + batch


def place_at(position: int) -> Place:
    """Return the place of a number."""
    whole, batch = divmod(position, LAST + 1)
    return Place(*divmod(whole, _ENTRIES), batch)


class Content(NamedTuple):
    """What a message holds; times in microseconds since 1970."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes]] | None
    timestamp: int | None
    event_time: int | None
    producer: str | None


def content(message: Any) -> Content:
    """Return what a message holds; without key, properties and producer, if one is no text."""
    try:
        key, held, producer = (
            message.partition_key(), message.properties(), message.producer_name()
        )  # fmt: skip
    except UnicodeDecodeError:
        return Content(_value(message), None, [(UNREAD, _NO_TEXT)], None, None, None)
    return Content(
        _value(message),
        key.encode() if key else None,
        [(name, text.encode()) for name, text in held.items()] if held else None,
        _micros(message.publish_timestamp()),
        _micros(message.event_timestamp()),
        producer or None,
    )


def _value(message: Any) -> bytes | None:
    found: bytes | None = None if message.has_null_value() else message.data()
    return found


def row(message: Any, topic: str) -> Message:
    """Return a message as the ingress log takes it; its own id is what it is acknowledged by.

    Args:
        message: as the library gave it.
        topic: that it is of.
    """
    own = message.message_id()
    # Of one partition, no two messages have the same.
    told = b"%d:%d:%d:%d" % (own.partition(), own.ledger_id(), own.entry_id(), own.batch_index())
    value, key, headers, at, event, producer = content(message)
    refused = _NO_TEXT.decode() if headers and headers[0][0] == UNREAD else None
    extra = (event, producer, message.redelivery_count())
    return Message(value, key, headers, at, topic, told, None, own, refused, extra)


def _micros(millis: int) -> int | None:
    """Return a time of Pulsar's, for which 0 is none, in microseconds."""
    return millis * 1000 if 0 < millis <= _LATEST else None
