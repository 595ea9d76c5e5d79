"""Where reading goes on, shard by shard, and the cursor that keeps it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_FORMAT = 1
_DRAINED = "end"
_HORIZON = "start"
_TIME = "time "


class Place(NamedTuple):
    """Where reading of a shard goes on.

    Args:
        text: `start` (the oldest record), `time MICROSECONDS` since 1970 (the first record that came
            then or later), a sequence number (the record after it), or `end` (all has been read).
        until: all records that came before this time, by the stream's clock and in whole minutes
            since 1970, are read, or were not asked for; for `end`, when the end was met; 0 if nothing
            is known.
    """

    text: str
    until: int = 0

    @property
    def drained(self) -> bool:
        """Whether the shard was closed and all of it has been read."""
        return self.text == _DRAINED

    @property
    def sequence(self) -> str | None:
        """The sequence number after which reading goes on; None while nothing was read."""
        return self.text if self.text[0].isdigit() else None

    @property
    def time(self) -> int | None:
        """The time from which on is read, in microseconds since 1970; None if it is none."""
        return int(self.text.removeprefix(_TIME)) if self.text.startswith(_TIME) else None

    @property
    def rank(self) -> tuple[int, int, int]:
        """What is greater the further reading has come; of two places of one shard."""
        if self.drained:
            return 2, 0, self.until
        return (0, 0, self.until) if self.sequence is None else (1, int(self.text), self.until)

    def begins(self) -> dict[str, Any]:
        """Return what asks for an iterator from here.

        Raises:
            ValueError: it is drained.
        """
        if self.drained:
            raise ValueError("a drained shard is not read again")
        if self.sequence is not None:
            return {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": self.sequence,
            }
        if self.time is not None:
            return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": self.time / 1e6}
        return {"ShardIteratorType": "TRIM_HORIZON"}


def at_horizon(until: int = 0) -> Place:
    """Return the place before the oldest record."""
    return Place(_HORIZON, until)


def at_time(micros: int, until: int = 0) -> Place:
    """Return the place before the first record that came at a time or later."""
    return Place(f"{_TIME}{micros}", until)


def at_end(until: int) -> Place:
    """Return the place behind the last record of a closed shard."""
    return Place(_DRAINED, until)


@dataclass(frozen=True)
class Cursor:
    """What a receiver keeps of its reading, with the records that it has stored.

    Args:
        stream: the stream's name.
        created: when the stream was created, as it says itself: another one of that name differs.
        receivers: how many receivers share the shards.
        places: of the shards that this receiver reads, or has read; and of those that it has to hand
            over: until their new receiver has stored them, and at the very start those of all.
    """

    stream: str
    created: str
    receivers: int
    places: Mapping[str, Place] = field(default_factory=dict)

    def encoded(self) -> str:
        """Return the cursor as text."""
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "stream": self.stream,
            "created": self.created,
            "receivers": self.receivers,
            "places": self.places,
        }
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def decoded(cls, text: str) -> Cursor:
        """Return what `encoded` has made text.

        Raises:
            ValueError: it is something else.
        """
        try:
            facts = json.loads(text)
            if facts["format"] != _FORMAT:
                raise ValueError(
                    f"it has format {facts['format']}, and this version reads {_FORMAT}"
                )
            places = {
                shard: Place(str(at), int(until)) for shard, (at, until) in facts["places"].items()
            }
            return cls(facts["stream"], facts["created"], facts["receivers"], places)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the log's cursor is none of a Kinesis source: {error}") from None


def merged(cursors: Iterable[Cursor]) -> dict[str, Place]:
    """Return for each shard the furthest place of all cursors."""
    found: dict[str, Place] = {}
    for cursor in cursors:
        for shard, place in cursor.places.items():
            if shard not in found or found[shard].rank < place.rank:
                found[shard] = place
    return found
