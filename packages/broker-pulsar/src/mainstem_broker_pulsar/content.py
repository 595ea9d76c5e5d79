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
#: The last time that readers have, in milliseconds.
_LATEST = 253_402_300_799_999


class Place(NamedTuple):
    """Where a message is in a topic without partitions."""

    ledger: int
    entry: int
    batch: int


def position(place: Place) -> int:
    """Return a place as one number."""
    return (place.ledger * _ENTRIES + place.entry) * (LAST + 1) + place.batch


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


def place_of(message: Any) -> Place:
    """Return where a message is; one that is in no batch is the first of its entry.

    Raises:
        ValueError: its entry has too many messages.
    """
    found = message.message_id()
    if (batch := found.batch_index()) > LAST:
        raise ValueError(f"an entry has more than {LAST + 1:,} messages")
    return Place(found.ledger_id(), found.entry_id(), max(0, batch))


def content(message: Any) -> Content:
    """Return what a message holds.

    Raises:
        ValueError: a text of it is none; says which.
    """
    try:
        key, properties = message.partition_key(), message.properties()
    except UnicodeDecodeError:
        raise ValueError("its key, or a property, is no UTF-8") from None
    return Content(
        None if message.has_null_value() else message.data(),
        key.encode() if key else None,
        [(name, held.encode()) for name, held in properties.items()] or None,
        _micros(message.publish_timestamp()),
        _micros(message.event_timestamp()),
        message.producer_name() or None,
    )


def row(message: Any, topic: str) -> Message:
    """Return a message as the ingress log takes it; its own id is what it is acknowledged by.

    Args:
        message: as the library gave it.
        topic: that it is of.
    """
    own = message.message_id()
    # Of one partition, no two messages have the same.
    told = b"%d:%d:%d:%d" % (own.partition(), own.ledger_id(), own.entry_id(), own.batch_index())
    try:
        found = content(message)
    except ValueError as error:
        return Message(message.data(), origin=topic, id=told, token=own, refused=str(error))
    return Message(
        found.value,
        found.key,
        found.headers,
        found.timestamp,
        topic,
        told,
        token=own,
        extra=(found.event_time, found.producer, message.redelivery_count()),
    )


def _micros(millis: int) -> int | None:
    """Return a time of Pulsar's, for which 0 is none, in microseconds."""
    return millis * 1000 if 0 < millis <= _LATEST else None
