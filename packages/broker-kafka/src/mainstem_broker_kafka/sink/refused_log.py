"""What a writer's batch refused, kept in the ledger's topic: to be told again when the batch comes again.

A batch that is in is not written again, and the topics' limits may have changed since: what they refuse
now need not be what they refused then. So a writer that refuses rows notes them before it commits the
others, and its entry in the ledger says where. Notes that no entry names are of tries that failed.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mainstem import PipelineError

from mainstem_broker_kafka.client import Heard, failure, library, producer, raised
from mainstem_broker_kafka.connection import Properties
from mainstem_broker_kafka.sink.ledger import FIRST, Entry, Place

if TYPE_CHECKING:
    from confluent_kafka import Consumer

#: Rows by their token: why each was refused.
Notes = dict[str, str]
#: How many rows are noted in one message: it must fit into any topic's smallest sensible limit.
_ROWS = 8000


def token(identity: bytes | None, key: bytes | None, value: bytes | None) -> str:
    """Return what tells a refused row from others of its batch."""
    if identity is not None:
        return identity.hex()
    whole = hashlib.md5(usedforsecurity=False)
    for part in (key, value):
        whole.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return whole.hexdigest()


def keep(
    settings: Properties, place: Place, writer: int, batch: int, notes: Notes, seconds: float
) -> tuple[int, int, int] | None:
    """Note in the ledger's topic what a batch refused; return where, as `Entry.refused`.

    Outside of the writer's transaction: a transaction that is open would hold up who reads the notes of
    others.

    Raises:
        PipelineError: the brokers do not take it.
    """
    if not notes:
        return None
    offsets, errors = list[int](), list[Any]()

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            errors.append(error)

    heard = Heard()
    sender = producer(
        settings, heard, enable_idempotence=True, message_timeout_ms=int(seconds * 1000)
    )
    key, rows = _key(place, writer, batch), list(notes.items())
    parts = range(0, len(rows), _ROWS)
    for start in parts:
        text = zlib.compress(json.dumps(dict(rows[start : start + _ROWS])).encode())
        sender.produce(place.topic, text, key, partition=FIRST + writer, on_delivery=delivered)
    sender.flush(seconds + 1)
    if len(offsets) < len(parts):
        cause = raised(errors[0]) if errors else TimeoutError(f"no answer for {seconds:.0f} s")
        raise failure(cause, "noting which rows were refused", settings, heard)
    return len(notes), min(offsets), max(offsets)


def _key(place: Place, writer: int, batch: int) -> bytes:
    return f"{place.group}.{writer}.{batch}".encode()


def recall(consumer: Consumer, place: Place, writer: int, entry: Entry, seconds: float) -> Notes:
    """Return what the batch of a writer's entry refused.

    Raises:
        PipelineError: it is not to be had any more, or not in time.
    """
    if entry.refused is None:
        return {}
    count, first, last = entry.refused
    wanted, notes = _key(place, writer, entry.next - 1), Notes()
    until, reached = time.monotonic() + seconds, first - 1
    consumer.assign([library().TopicPartition(place.topic, FIRST + writer, first)])
    try:
        while reached < last and time.monotonic() < until:
            for message in _polled(consumer):
                reached = int(message.offset() or 0)
                if message.key() == wanted and reached <= last:
                    notes |= json.loads(zlib.decompress(message.value() or b""))
    except library().KafkaException as error:
        raise PipelineError(f"reading the rows that a batch refused failed: {error}") from None
    finally:
        consumer.unassign()
    if len(notes) != count:
        raise PipelineError(
            f"batch {entry.next - 1} is in, and {count} rows of it were refused, which {place.topic} "
            f"(partition {FIRST + writer}, from offset {first}) should tell and does not: has it been "
            "cut, or its retention.ms been shortened?"
        )
    return notes


def _polled(consumer: Consumer) -> Sequence[Any]:

    found = consumer.consume(100, timeout=0.5)
    for message in found:
        if (error := message.error()) is not None and not error.retriable():
            raise raised(error)
    return [message for message in found if message.error() is None]
