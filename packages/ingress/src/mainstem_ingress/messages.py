"""What a receiver takes: messages, and what they are told apart by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One message, as the far side gave it.

    `key`, `value`, `headers`, `timestamp` and `origin` become the message columns of those names;
    partition and position are the log's own.
    """

    value: bytes | None
    key: bytes | None = None
    #: Pairs of name and value; a name that comes twice keeps its last value.
    headers: Sequence[tuple[str, bytes]] | None = None
    #: Microseconds since 1970 in UTC; the time of storing when left out.
    timestamp: int | None = None
    #: The topic, queue, subject or path it came through.
    origin: str = ""
    #: Tells it from every other message of its source, given by whoever made it. A second message
    #: with the same id, within the horizon, is acknowledged and not stored.
    id: bytes | None = None
    #: Where the far side goes on after this message; handed to `connect` after a restart.
    cursor: str | None = None
    #: Whatever the receiver needs to acknowledge it; never stored.
    token: Any = None
    #: Why it can't be handed on as it is: it then comes out of the output `rejected`.
    refused: str | None = None
    #: The values of the columns that the source adds, in their order.
    extra: tuple[Any, ...] = ()
