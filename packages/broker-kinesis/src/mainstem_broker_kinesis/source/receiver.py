"""The receiver of the source `kinesis`: reads shards ahead, parents before children, each record once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mainstem import failpoint
from mainstem_ingress import Message, Receiver, Unmendable, Unreachable

from mainstem_broker_kinesis.client import (
    Calls,
    code_of,
    connect,
    open_session,
    permanent,
    throttled,
    words,
)
from mainstem_broker_kinesis.source.fetching import (
    Answer,
    Fetchers,
    Read,
    StreamFacts,
    describe,
    list_shards,
    read,
)
from mainstem_broker_kinesis.source.losses import date_of, expired, trimmed
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.places import (
    Cursor,
    Place,
    at_end,
    at_horizon,
    at_time,
    merged,
)
from mainstem_broker_kinesis.source.records import Seen, messages
from mainstem_broker_kinesis.source.shards import Lineage, Shard, owner

#: How often other receivers' cursors are looked at, and how often a listing is asked for that is to have
#: the children of a drained shard, in seconds.
_LOOK_EVERY, _CHILDREN_EVERY = 1.0, 1.0
#: Pauses after calls that came too fast, or that failed at AWS, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
#: After so many failures of one shard in a row the far side counts as away.
_FAILURES = 6
#: What may mean that the stream is not what it was: looked at over a new connection.
_DOUBTFUL = ("ResourceNotFoundException", "InvalidArgumentException")
#: What fails at AWS and passes.
_PASSING = (
    "InternalFailure",
    "InternalFailureException",
    "InternalServerError",
    "ServiceUnavailable",
    "KMSInvalidStateException",
)
#: How often a shard's progress is kept though no record came, in seconds.
_TICK = 60.0


@dataclass
class Reading:
    """How far a shard is read.

    `covered` is the time, by the stream's clock, up to which all is read that was asked for.
    `due` is when it is read next, or None while a read is on its way. `caught_up` says whether all is
    taken that was there when the process began.
    """

    shard: Shard
    place: Place
    covered: float
    iterator: str | None = None
    since: float = 0.0
    due: float | None = 0.0
    pause: float = 0.0
    failures: int = 0
    behind: float | None = None
    caught_up: bool = False
    trouble: str = ""


@dataclass
class Counts:
    """What is shown beside the rows."""

    throttled: int = 0
    failed: int = 0
    lost: int = 0
    seen: Seen = field(default_factory=Seen)


class KinesisReceiver(Receiver):
    """Reads the shards that are its own, and keeps how far it is with what it has read."""

    options: KinesisSourceOptions

    def __init__(self, options: KinesisSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._began: float | None = None
        self._calls = Calls()
        self._counts = Counts()
        #: Whether a read has succeeded since the far side was last in doubt.
        self._served = True
        self._rates = (time.monotonic(), 0, 0.0)
        self._begin()

    def _begin(self) -> None:
        self._client: Any = None
        self._fetchers: Fetchers | None = None
        self._facts = StreamFacts("", "", 0.0, 0.0)
        self._lineage = Lineage()
        #: Of this receiver's own cursor; empty until it is decided where to begin.
        self._places: dict[str, Place] = {}
        #: The furthest of all receivers.
        self._known: dict[str, Place] = {}
        self._decided = False
        self._readings: dict[str, Reading] = {}
        self._waiting: list[Message] = []
        self._paused = False
        self._told: str | None = None
        #: Drained shards whose children no listing has yet.
        self._childless: set[str] = set()
        #: Receivers that do not know yet how many they are.
        self._busy: list[int] = []
        self._look_at = self._list_at = self._listed_at = self._tick_at = 0.0
        self._ahead = 0.0

    # -- what the log asks for ----------------------------------------------------------------

    def connect(self, cursor: str | None) -> None:
        self._begin()
        options = self.options
        try:
            session = open_session(options)
            self._client = connect(options, self._calls, session=session)
            # Each read counts for AWS's limits, so failed ones are repeated here, and more slowly.
            reader = connect(options, self._calls, 1, options.fetchers, session)
            self._describe()
        except Exception as error:
            raise self._told_as(error) from error
        if self._began is None:
            self._began = time.monotonic()
        target = options.target()
        self._fetchers = Fetchers(
            lambda asked: read(reader, target, asked, options.records_per_read), options.fetchers
        )
        own = None if cursor is None else self._decoded(cursor)
        if own is not None:
            self._places = dict(own.places)
        try:
            self._list()
        except Exception as error:
            raise self._told_as(error) from error
        self._look(own)
        try:
            self._bury()
        except Exception as error:
            raise self._told_as(error) from error
        self._start()

    def take(self, seconds: float) -> Iterable[Message]:
        fetchers = self._fetchers
        assert fetchers is not None  # noqa: S101  # `connect` has returned
        until = time.monotonic() + seconds
        while True:
            self._keep_house()
            if self._waiting:
                found, self._waiting = self._waiting, []
                return found
            self._ask()
            answer = fetchers.answer(min(until, self._next_due()) - time.monotonic())
            if answer is not None and (found := self._taken(answer)):
                return found
            if self._waiting:
                continue
            if time.monotonic() >= until:
                return []

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Do nothing: what is read is told apart by the cursor, which is stored with it."""

    def cursor(self) -> str | None:
        if not self._decided:
            return None
        if self._told is None:
            cursor = Cursor(
                self.options.name, self._facts.created, self.options.receivers, self._places
            )
            self._told = cursor.encoded()
        return self._told

    def caught_up(self) -> bool | None:
        if not self._decided or self._childless or self._waiting:
            return False
        for shard in self._lineage.shards:
            reading = self._readings.get(shard)
            done = shard in self._known and self._known[shard].drained
            if self._mine(shard) and not done and (reading is None or not reading.caught_up):
                return False
        return True

    def close(self) -> None:
        if self._fetchers is not None:
            self._fetchers.end()
            self._fetchers = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def facts(self) -> dict[str, Any]:
        reading = list(self._readings.values())
        behind = [each.behind for each in reading if each.behind is not None]
        counts, calls = self._counts, self._calls.counts
        at, before, rate = self._rates
        now = time.monotonic()
        if now - at >= 1:
            rate = (calls["GetRecords"] - before) / (now - at) / max(1, len(reading))
            self._rates = (now, calls["GetRecords"], rate)
        trouble = next((each.trouble for each in reading if each.trouble), "")
        if self._fetchers is not None and not self._decided:
            trouble = "receiver 0 has not decided yet where to begin"
        elif self._busy:
            trouble = f"receiver {self._busy[0]} still works for another number of receivers"
        return {
            "server": self.options.place(),
            "shards": len(reading),
            "behind_seconds": round(max(behind, default=0.0), 1),
            "reads_per_shard_and_second": round(rate, 2),
            "calls": dict(sorted(calls.items())),
            "throttled": counts.throttled,
            "failed": counts.failed,
            "aggregates": counts.seen.aggregates,
            "outside": counts.seen.outside,
            "lost": counts.lost,
            **({"trouble": trouble} if trouble else {}),
        }

    # -- where to begin -------------------------------------------------------------------------

    def _describe(self) -> None:
        options = self.options
        facts = describe(self._client, options.target())
        if facts.status in ("CREATING", "DELETING"):
            raise Unreachable(f"{options.place()} is {facts.status}")
        if self._facts.created and facts.created != self._facts.created:
            raise Unmendable(self._recreated(self._facts.created, facts.created))
        self._facts = facts
        self._ahead = facts.ahead

    def _recreated(self, before: str, now: str) -> str:
        return (
            f"{self.options.place()} was deleted and created again: it was created at "
            f"{date_of(float(before))}, and this one at {date_of(float(now))}. What was read of the "
            "other one says nothing of it: read it with a new checkpoint, or under another name of "
            "the source"
        )

    def _decoded(self, text: str) -> Cursor:
        """Return a stored cursor, which must be of this stream."""
        try:
            cursor = Cursor.decoded(text)
        except ValueError as error:
            raise Unmendable(str(error)) from error
        if cursor.stream != self.options.name:
            raise Unmendable(
                f"the log is of the stream {cursor.stream}, and the source reads "
                f"{self.options.name}: give it a new checkpoint, or another `folder`"
            )
        if cursor.created != self._facts.created:
            raise Unmendable(self._recreated(cursor.created, self._facts.created))
        return cursor

    def _look(self, own: Cursor | None = None) -> None:
        """Look at the cursors of all receivers, which decide together where reading goes on."""
        options = self.options
        self._look_at = time.monotonic() + _LOOK_EVERY
        several = options.receivers > 1 or not self._decided
        stored = self.stored_cursors() if several else {}
        cursors = {
            number: self._decoded(text) for number, text in stored.items() if number != self.number
        }
        self._busy = [
            number
            for number, cursor in cursors.items()
            if number < options.receivers != cursor.receivers
        ]
        if own is not None:
            cursors[self.number] = own
        self._known = merged([*cursors.values(), Cursor("", "", 0, self._places)])
        if not self._decided and not cursors and self.number == 0:
            self._resolve()
        elif not self._decided and cursors and self._places != (known := self._own(self._known)):
            self._places = known
        self._decided = self._decided or bool(cursors) or self.number == 0
        self._told = None if not self._decided else self._told
        self._miss()
        self._start()

    def _miss(self) -> None:
        """Ask for another listing, soon, while a drained shard's children are not known."""
        self._childless = self._lineage.childless(self._known)
        if self._childless:
            self._list_at = min(self._list_at, self._listed_at + _CHILDREN_EVERY)

    def _own(self, places: dict[str, Place]) -> dict[str, Place]:
        """Return what this receiver keeps of all places: its own shards', and what it kept before."""
        return {
            shard: place
            for shard, place in places.items()
            if self._mine(shard) or shard in self._places
        }

    def _resolve(self) -> None:
        """Decide where a new log begins, once, for all shards that there are."""
        start = self.options.start
        minute = int(self._now() // 60)
        if start == "trim_horizon":
            place = at_horizon(minute)
        elif start == "latest":
            # A whole second, as the stream's clock tells it.
            place = at_time(int(self._now()) * 1_000_000, minute)
        else:
            micros = round(start.timestamp() * 1e6)
            if micros > self._now() * 1e6:
                raise Unmendable(f"start: {start.isoformat()} is in the future")
            place = at_time(micros, minute)
        self._places = dict.fromkeys(self._lineage.shards, place)
        self._known = dict(self._places)
        failpoint("kinesis.after-decision")

    def _mine(self, shard: str) -> bool:
        return owner(shard, self.options.receivers) == self.number

    def _now(self) -> float:
        """Return the time, by the stream's clock."""
        return time.time() + self._ahead

    # -- shards ---------------------------------------------------------------------------------

    def _keep_house(self) -> None:
        now = time.monotonic()
        try:
            if now >= self._list_at:
                self._describe()
                self._list()
                self._bury()
                self._start()
        except Exception as error:
            if not throttled(error) and code_of(error) not in _PASSING:
                raise self._told_as(error) from error
            self._counts.throttled += 1
            self._list_at = now + _LONGEST_PAUSE
        if now >= self._look_at and (self.options.receivers > 1 or not self._decided):
            self._look()
        if now >= self._tick_at:
            self._tick_at = now + _TICK
            self._tick()

    def _list(self) -> None:
        """List the shards."""
        self._listed_at = time.monotonic()
        self._list_at = self._listed_at + self.options.discover_every.total_seconds()
        self._lineage.listed(list_shards(self._client, self.options.target()))
        self._miss()

    def _bury(self) -> None:
        """Deal with shards that are gone: forget those that were drained, and tell of the others."""
        if not self._decided:
            return
        minute = int(self._now() // 60)
        for shard in self._lineage.forgettable(self._places, minute):
            del self._places[shard]
            self._known.pop(shard, None)
            self._told = None
        for shard in self._lineage.expired(self._places):
            if self._mine(shard) and self._is_gone(shard):
                self._lose(expired(self.options, shard, self._places[shard]))
                self._set(shard, at_end(minute))
                self._readings.pop(shard, None)

    def _is_gone(self, shard: str) -> bool:
        """Ask for a shard that a listing lacks: listings lag behind."""
        try:
            self._client.get_shard_iterator(
                **self.options.target(), ShardId=shard, **at_horizon().begins()
            )
        except Exception as error:
            if code_of(error) == "ResourceNotFoundException":
                return True
            raise
        return False

    def _start(self) -> None:
        """Begin to read the shards whose parents are drained."""
        if not self._decided or self._busy:
            return
        for shard in self._lineage.ready(self._known, self._mine):
            if shard.id not in self._readings:
                if shard.id not in self._known:
                    self._set(shard.id, at_horizon(int(self._now() // 60)))
                place = self._known[shard.id]
                self._readings[shard.id] = Reading(shard, place, place.until * 60.0)

    def _set(self, shard: str, place: Place) -> None:
        self._places[shard] = self._known[shard] = place
        self._told = None

    def _tick(self) -> None:
        """Keep how far shards are in time, of which nothing came."""
        for shard, reading in self._readings.items():
            until = int(reading.covered // 60)
            if until > reading.place.until:
                reading.place = Place(reading.place.text, until)
                self._set(shard, reading.place)

    # -- reading --------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Let all shards be read that are due, as far as there are threads."""
        fetchers = self._fetchers
        if self._paused or fetchers is None:
            return
        now = time.monotonic()
        due = [r for r in self._readings.values() if r.due is not None and r.due <= now]
        for reading in sorted(due, key=lambda r: r.due or 0.0):
            if not fetchers.free:
                return
            reading.due = None
            late = 0 < reading.covered < self._now() - self._facts.retention
            fetchers.ask(
                Read(reading.shard.id, reading.place, oldest=True)
                if late
                else Read(reading.shard.id, reading.place, reading.iterator, reading.since)
            )

    def _next_due(self) -> float:
        """Return when there is something to do, if no answer comes."""
        due = [self._list_at, self._tick_at]
        if self.options.receivers > 1 or not self._decided:
            due.append(self._look_at)
        fetchers = self._fetchers
        if not self._paused and fetchers is not None and fetchers.free:
            due += [reading.due for reading in self._readings.values() if reading.due is not None]
        return min(due)

    def _taken(self, answer: Answer) -> list[Message]:
        """Take over what a read gave; return its messages."""
        reading = self._readings.get(answer.read.shard)
        if reading is None:  # its shard is gone
            return []
        if answer.ahead is not None:
            self._ahead = answer.ahead
        if answer.error is not None:
            self._failed(reading, answer.error)
            return []
        reading.pause, reading.failures, reading.trouble = 0.0, 0, ""
        self._served = True
        if answer.read.oldest:
            self._looked(reading, answer)
            return []
        failpoint("kinesis.after-read")
        options, records = self.options, answer.records
        reading.behind = answer.behind
        reading.covered = max(reading.covered, self._now() - answer.behind)
        since = reading.place.time
        if records:
            text = str(records[-1]["SequenceNumber"])
            reading.place = Place(text, int(reading.covered // 60))
        self._see(reading, answer)
        if answer.closed:
            self._ended(reading, answer)
        else:
            if records:
                self._set(reading.shard.id, reading.place)
            reading.iterator, reading.since = answer.iterator, answer.began
            wait = max(1 / options.reads_per_second, answer.bytes / options.bytes_per_second)
            if not records and not answer.behind:
                wait = max(wait, options.poll_every.total_seconds())
            reading.due = answer.began + wait
            self._ask()  # the next read goes on while these records are made messages
        if since is not None:  # AWS's client asks for whole seconds
            first = since / 1e6
            records = [r for r in records if r["ApproximateArrivalTimestamp"].timestamp() >= first]
        return messages(
            records,
            reading.shard,
            options.name,
            self._counts.seen,
            aggregated=options.aggregated,
            ids=options.ids == "when_given",
        )

    def _see(self, reading: Reading, answer: Answer) -> None:
        """See whether all is taken that was there when the process began."""
        ran = time.monotonic() - (self._began or 0.0)
        if answer.records:
            last = answer.records[-1]["ApproximateArrivalTimestamp"].timestamp()
            # A second more: so exact is the stream's clock, as we know it.
            here = last >= self._now() - ran + 1 or 0 < answer.behind <= ran
        else:
            here = answer.behind <= ran
        reading.caught_up = reading.caught_up or here

    def _ended(self, reading: Reading, answer: Answer) -> None:
        """Deal with the end of a closed shard: its children may begin."""
        shard = reading.shard.id
        del self._readings[shard]
        self._set(shard, at_end(int(self._now() // 60)))
        self._lineage.learn(answer.children)
        failpoint("kinesis.after-end")
        self._miss()
        self._start()

    def _looked(self, reading: Reading, answer: Answer) -> None:
        """Deal with a look at the oldest record of a shard whose records may have run out."""
        oldest = str(answer.records[0]["SequenceNumber"]) if answer.records else None
        read = reading.place.sequence
        if oldest is None or read is None or int(oldest) > int(read):
            upto = self._now() - self._facts.retention
            shard = reading.shard.id
            self._lose(trimmed(self.options, shard, reading.place, oldest, reading.covered, upto))
        reading.covered = self._now()
        reading.iterator = None
        reading.due = answer.began + 1 / self.options.reads_per_second
        reading.place = Place(reading.place.text, int(reading.covered // 60))
        self._set(reading.shard.id, reading.place)

    def _lose(self, message: Message) -> None:
        self._counts.lost += 1
        self._waiting.append(message)

    # -- failures -------------------------------------------------------------------------------

    def _failed(self, reading: Reading, error: Exception) -> None:
        """Let a shard wait after calls that came too fast, or failed at AWS; raise all else."""
        slow = throttled(error)
        if not slow and code_of(error) not in _PASSING:
            raise self._told_as(error) from error
        if slow:
            self._counts.throttled += 1
        else:
            self._counts.failed += 1
            reading.failures += 1
            if reading.failures >= _FAILURES:
                raise self._told_as(error) from error
        reading.trouble = f"{reading.shard.id}: {words(error, self.options)}"
        reading.iterator = reading.iterator if slow else None
        reading.pause = min(max(_FIRST_PAUSE, 2 * reading.pause), _LONGEST_PAUSE)
        reading.due = time.monotonic() + reading.pause * random.uniform(0.5, 1.0)  # noqa: S311  # jitter

    def _told_as(self, error: Exception) -> Exception:
        """Return what the log is told of an error."""
        if isinstance(error, Unmendable | Unreachable):
            return error
        place, text = self.options.place(), words(error, self.options)
        if code_of(error) in _DOUBTFUL and self._readings and self._served:
            self._served = False
            return Unreachable(f"{place}: {text}")
        why = permanent(error)
        return (
            Unreachable(f"{place}: {text}")
            if why is None
            else Unmendable(f"{place}: {why}: {text}")
        )
