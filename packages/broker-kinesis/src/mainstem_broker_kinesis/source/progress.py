"""How far all receivers are: what this one's cursor is made of, and where a new log begins."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem import PermanentError, failpoint

from mainstem_broker_kinesis.source.losses import date_of
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.places import Cursor, Place, at_horizon, at_time, merged
from mainstem_broker_kinesis.source.shards import Shard, owner

#: Seconds by which a start may be ahead of the stream's clock, and counts as the present: clocks differ,
#: and the stream's is known by whole seconds.
_CLOCKS = 5.0


class Progress:
    """Where reading goes on, shard by shard.

    Args:
        options: the source's.
        number: the receiver's.
        created: when the stream was created, as it says itself.

    Attributes:
        places: of this receiver's own cursor; empty until it is decided where to begin.
        known: the furthest of all receivers.
        decided: whether it is decided where to begin, by this receiver or another one.
        elsewhere: the shards that a cursor of another receiver has, also of one that is no more.
        busy: receivers that do not know yet how many they are: nothing is read meanwhile.
    """

    def __init__(self, options: KinesisSourceOptions, number: int, created: str) -> None:
        self._options = options
        self._number = number
        self._created = created
        self.places: dict[str, Place] = {}
        self.known: dict[str, Place] = {}
        self.decided = False
        self.elsewhere: set[str] = set()
        self.busy: list[int] = []
        self._told: str | None = None

    def mine(self, shard: str) -> bool:
        """Whether a shard is read by this receiver."""
        return owner(shard, self._options.receivers) == self._number

    def cursor(self) -> str | None:
        """Return the cursor; None until it is decided where to begin."""
        if self.decided and self._told is None:
            options = self._options
            cursor = Cursor(options.name, self._created, options.receivers, self.places)
            self._told = cursor.encoded()
        return self._told

    def set(self, shard: str, place: Place) -> None:
        """Say how far a shard is."""
        self.places[shard] = self.known[shard] = place
        self._told = None

    def begin(self, shard: str, until: int) -> None:
        """Say that a shard, of any receiver, had no record before a time, in minutes since 1970."""
        place = self.known.get(shard, at_horizon())
        unread = place.sequence is None and not place.drained
        if shard not in self.known or (unread and place.until < until):
            self.set(shard, Place(place.text, until))

    def forget(self, shard: str) -> None:
        """Forget a shard that is gone, and was drained.

        Not while it is `elsewhere`: only its `end` here keeps an older place there from counting.
        """
        del self.places[shard]
        self.known.pop(shard, None)
        self._told = None

    def look(self, stored: Mapping[int, str], own: str | None = None) -> bool:
        """Take over how far the others are; return whether this one is to decide where to begin.

        Args:
            stored: the cursors of all receivers, as no crash can take them back.
            own: this receiver's, when it begins.

        Raises:
            PermanentError: a cursor is of another stream.
        """
        options = self._options
        others = {
            number: self._decoded(text) for number, text in stored.items() if number != self._number
        }
        self.busy = [
            number
            for number, cursor in others.items()
            if number < options.receivers != cursor.receivers
        ]
        if own is not None:
            self.places = dict(self._decoded(own).places)
        self.elsewhere = {shard for cursor in others.values() for shard in cursor.places}
        self.known = merged([*others.values(), Cursor("", "", 0, self.places)])
        if not self.decided and own is None and not others:
            return self._number == 0
        places = {shard: place for shard, place in self.known.items() if self.mine(shard)}
        for shard, place in self.places.items():
            if not self.mine(shard) and not self._handed_over(shard, place, others):
                places[shard] = place
        if not self.decided or places != self.places:
            self.places, self.decided, self._told = places, True, None
        return False

    def _handed_over(self, shard: str, place: Place, others: Mapping[int, Cursor]) -> bool:
        """Whether the receiver whose shard it is has stored that place, or one further on.

        Its cursor must be of this number of receivers: one of another number may be about to hand the
        shard over itself.
        """
        receivers = self._options.receivers
        cursor = others.get(owner(shard, receivers))
        if cursor is None or cursor.receivers != receivers or shard not in cursor.places:
            return False
        return cursor.places[shard].rank >= place.rank

    def decide(self, shards: Mapping[str, Shard], now: float, retention: float) -> None:
        """Decide where a new log begins, once, for all shards that there are.

        Args:
            shards: those that a listing has; what comes later begins with its oldest record.
            now: the time by the stream's clock, in seconds since 1970.
            retention: how long the stream keeps records, in seconds.

        Raises:
            PermanentError: the time to begin at is more than `_CLOCKS` ahead of that clock.
        """
        start, micros = self._options.start, 0
        if start == "latest":
            micros = int(now) * 1_000_000  # the stream's clock tells whole seconds
        elif start != "earliest":
            micros = round(start.timestamp() * 1e6)
            if micros > (now + _CLOCKS) * 1e6:
                raise PermanentError(f"start: {start.isoformat()} is in the future")
            micros = min(micros, int(now * 1e6))
        begin = at_time(micros) if micros else at_horizon()
        asked = micros // 60_000_000
        if asked * 60 < now - retention:
            # The oldest record that there is when reading begins. A child's turn comes later, and the
            # end of its parent tells since when it has records.
            roots = {name for name, s in shards.items() if not shards.keys() & set(s.parents)}
            self.places = {
                name: Place(begin.text, int(now // 60) if name in roots else 0) for name in shards
            }
        else:
            self.places = dict.fromkeys(shards, Place(begin.text, asked))
        self.known = dict(self.places)
        self.decided, self._told = True, None
        failpoint("kinesis.after-decision")

    def _decoded(self, text: str) -> Cursor:
        """Return a stored cursor, which must be of this stream."""
        options = self._options
        try:
            cursor = Cursor.decoded(text)
        except ValueError as error:
            raise PermanentError(str(error)) from error
        if cursor.stream != options.name:
            raise PermanentError(
                f"the log is of the stream {cursor.stream}, and the source reads {options.name}: give "
                "it a new checkpoint, or another `folder`"
            )
        if cursor.created != self._created:
            raise PermanentError(recreated(options, cursor.created, self._created))
        return cursor


def recreated(options: KinesisSourceOptions, before: str, now: str) -> str:
    """Return what is wrong when a stream is another one than it was."""
    return (
        f"{options.place()} was deleted and created again: it was created at "
        f"{date_of(float(before))}, and this one at {date_of(float(now))}. What was read of the other "
        "one says nothing of it: read it with a new checkpoint, or under another name of the source"
    )
