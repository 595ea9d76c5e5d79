"""The receiver of the source `kinesis`: reads shards ahead, parents before children, each record once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem_aws.client import (
    code_of,
    connect,
    open_session,
    passing,
    permanent,
    throttled,
    words,
)
from mainstem_ingress import Message, Receiver

from mainstem_broker_kinesis.source.counting import Counts
from mainstem_broker_kinesis.source.fetching import (
    Answer,
    Fetchers,
    Read,
    StreamFacts,
    describe,
    is_gone,
    list_shards,
    read,
)
from mainstem_broker_kinesis.source.losses import expired, trimmed
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.places import Place, at_end, at_horizon
from mainstem_broker_kinesis.source.progress import Progress, recreated
from mainstem_broker_kinesis.source.reading import ShardReading
from mainstem_broker_kinesis.source.records import messages
from mainstem_broker_kinesis.source.shards import Lineage

#: How often other receivers' cursors are looked at, and how often a listing is asked for that is to
#: have the children of a drained shard, in seconds.
_LOOK_EVERY, _CHILDREN_EVERY = 1.0, 1.0
#: When shards are listed again after that has failed, in seconds.
_LIST_AGAIN = 10.0
#: How often a shard's progress is kept though no record came, in seconds.
_TICK = 60.0
#: After so many failures of one shard in a row the external system counts as away.
_FAILURES = 6
#: What may mean that the stream is not what it was: looked at over a new connection.
_DOUBTFUL = ("ResourceNotFoundException", "InvalidArgumentException")


class KinesisReceiver(Receiver):
    """Reads the shards that are its own, and keeps how far it is with what it has read."""

    options: KinesisSourceOptions

    def __init__(self, options: KinesisSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._began: float | None = None
        self._counts = Counts()
        #: Whether a read has succeeded since the external system was last in doubt.
        self._served = True
        self._begin()

    def _begin(self) -> None:
        self._clients: list[Any] = []
        self._fetchers: Fetchers | None = None
        self._facts = StreamFacts("", "", 0.0, 0.0)
        self._progress = Progress(self.options, self.number, "")
        self._lineage = Lineage()
        #: Drained shards whose children no listing has yet.
        self._childless: set[str] = set()
        self._readings: dict[str, ShardReading] = {}
        #: What stands for losses, and is still to be taken.
        self._losses: list[Message] = []
        self._paused = False
        self._look_at = self._list_at = self._listed_at = self._tick_at = 0.0
        self._ahead = 0.0

    # -- what the log asks for ----------------------------------------------------------------

    def connect(self, cursor: str | None) -> None:
        self._begin()
        options, target = self.options, self.options.target()
        try:
            session = open_session(options)
            self._clients.append(connect("kinesis", options, self._counts.calls, session=session))
            # Each read counts for AWS's limits, so failed ones are repeated here, and more slowly.
            reader = connect("kinesis", options, self._counts.calls, 1, options.fetchers, session)
            self._clients.append(reader)
            self._describe()
            self._progress = Progress(options, self.number, self._facts.created)
            self._list()
            if self._began is None:
                self._began = time.monotonic()
            self._fetchers = Fetchers(
                lambda asked: read(reader, target, asked, options.records_per_read),
                options.fetchers,
            )
            self._look(cursor)
            self._bury()
            self._start()
        except Exception as error:
            raise self._told_as(error) from error

    def take(self, seconds: float) -> Iterable[Message]:
        fetchers = self._fetchers
        assert fetchers is not None  # noqa: S101  # `connect` has returned
        until = time.monotonic() + seconds
        while True:
            self._keep_house()
            if self._losses:
                return self._told([])
            self._ask()
            answer = fetchers.answer(min(until, self._next_due()) - time.monotonic())
            if answer is not None and (found := self._taken(answer)):
                return self._told(found)
            # A loss is returned before the cursor that is behind it can be stored alone.
            if time.monotonic() >= until and not self._losses:
                return []

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Do nothing: what is read is told apart by the cursor, which is stored with it."""

    def cursor(self) -> str | None:
        return self._progress.cursor()

    def caught_up(self) -> bool | None:
        progress = self._progress
        if not progress.decided or self._childless or self._losses:
            return False
        for shard in self._lineage.shards:
            reading = self._readings.get(shard)
            done = shard in progress.known and progress.known[shard].drained
            if progress.mine(shard) and not done and (reading is None or not reading.caught_up):
                return False
        return True

    def close(self) -> None:
        if self._fetchers is not None:
            self._fetchers.end()
            self._fetchers = None
        for client in self._clients:
            client.close()
        self._clients = []

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def facts(self) -> dict[str, Any]:
        readings = self._readings.values()
        trouble = next((each.trouble for each in readings if each.trouble), "")
        if self._fetchers is not None and not self._progress.decided:
            trouble = "receiver 0 has not decided yet where to begin"
        elif self._progress.busy:
            other = self._progress.busy[0]
            trouble = f"receiver {other} still works for another number of receivers"
        waiting = len(readings) - len(self._going())
        return {
            "server": self.options.place(),
            **self._counts.facts(readings),
            **({"shards_waiting": waiting} if waiting else {}),
            **({"trouble": trouble} if trouble else {}),
        }

    # -- the stream and its shards --------------------------------------------------------------

    def _now(self) -> float:
        """Return the time, by the stream's clock."""
        return time.time() + self._ahead

    def _minute(self) -> int:
        return int(self._now() // 60)

    def _describe(self) -> None:
        options = self.options
        facts = describe(self._clients[0], options.target())
        if facts.status in ("CREATING", "DELETING"):
            raise TransientError(f"{options.place()} is {facts.status}")
        if self._facts.created and facts.created != self._facts.created:
            raise PermanentError(recreated(options, self._facts.created, facts.created))
        self._facts = facts
        self._ahead = facts.ahead

    def _keep_house(self) -> None:
        """Do what is due beside reading."""
        now = time.monotonic()
        if now >= self._list_at:
            try:
                self._describe()
                self._list()
                self._bury()
                self._start()
            except Exception as error:
                if not throttled(error) and not passing(error):
                    raise self._told_as(error) from error
                self._counts.throttled += 1
                self._list_at = now + _LIST_AGAIN
        if now >= self._look_at and self._looks():
            self._look()
        if now >= self._tick_at:
            self._tick_at = now + _TICK
            self._tick()

    def _looks(self) -> bool:
        """Whether it matters how far other receivers are."""
        return self.options.receivers > 1 or not self._progress.decided

    def _look(self, own: str | None = None) -> None:
        """Look how far all receivers are, and decide where to begin if that is for this one to do."""
        self._look_at = time.monotonic() + _LOOK_EVERY
        if self._progress.look(self.stored_cursors(), own):
            self._progress.decide(self._lineage.shards, self._now(), self._facts.retention)
        self._miss()
        self._start()

    def _list(self) -> None:
        self._listed_at = time.monotonic()
        self._list_at = self._listed_at + self.options.discover_every.total_seconds()
        self._lineage.listed(list_shards(self._clients[0], self.options.target()))
        self._miss()

    def _miss(self) -> None:
        """Ask for another listing, soon, while a drained shard's children are not known."""
        self._childless = self._lineage.childless(self._progress.known)
        if self._childless:
            self._list_at = min(self._list_at, self._listed_at + _CHILDREN_EVERY)

    def _bury(self) -> None:
        """Deal with shards that are gone: forget those that were drained, and tell of the others."""
        progress = self._progress
        if not progress.decided:
            return
        for shard in self._lineage.forgettable(progress.places, self._minute()):
            if shard not in progress.elsewhere:
                progress.forget(shard)
        for shard in self._lineage.expired(progress.places):
            if progress.mine(shard) and is_gone(self._clients[0], self.options.target(), shard):
                place = progress.places[shard]
                self._lose(expired(self.options, shard, place, self._now()))
                self._readings.pop(shard, None)
                self._end(shard, place.until)

    def _end(self, shard: str, covered: int) -> None:
        """Note that a shard is done, which was open at a time: its children had no record before."""
        self._progress.set(shard, at_end(self._minute()))
        for child in self._lineage.children(shard):
            self._progress.begin(child, covered)

    def _start(self) -> None:
        """Begin to read the shards whose parents are drained."""
        progress = self._progress
        if not progress.decided or progress.busy:
            return
        for shard in self._lineage.ready(progress.known, progress.mine):
            if shard.id not in self._readings:
                if shard.id not in progress.known:
                    progress.set(shard.id, at_horizon(self._minute()))
                place = progress.known[shard.id]
                self._readings[shard.id] = ShardReading(shard, place, place.until * 60.0)

    def _tick(self) -> None:
        """Keep how far shards are in time, of which nothing came."""
        for shard, reading in self._readings.items():
            until = int(reading.covered // 60)
            if until > reading.place.until:
                reading.place = Place(reading.place.text, until)
                self._progress.set(shard, reading.place)

    # -- reading --------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Let all shards be read that are due, as far as there are threads."""
        fetchers = self._fetchers
        if self._paused or fetchers is None:
            return
        now = time.monotonic()
        due = [r for r in self._going() if r.due is not None and r.due <= now]
        for reading in sorted(due, key=lambda r: r.due or 0.0):
            if not fetchers.free:
                return
            reading.due = None
            late = reading.late(self._now() - self._facts.retention)
            fetchers.ask(
                Read(reading.shard.id, reading.place, oldest=True)
                if late
                else Read(reading.shard.id, reading.place, reading.iterator, reading.since)
            )

    def _next_due(self) -> float:
        """Return when there is something to do, if no answer comes."""
        due = [self._list_at, self._tick_at]
        if self._looks():
            due.append(self._look_at)
        fetchers = self._fetchers
        if not self._paused and fetchers is not None and fetchers.free:
            due += [reading.due for reading in self._going() if reading.due is not None]
        return min(due)

    def _going(self) -> list[ShardReading]:
        """Return the shards that do not wait for slower ones."""
        readings = list(self._readings.values())
        if self.options.align is None or not readings:
            return readings
        known = self._progress.known
        # How far others are is known by the minute, and of theirs only once a record came.
        far = [
            known[shard.id].until * 60.0
            for shard in self._lineage.ready(known, lambda shard: not self._progress.mine(shard))
            if shard.id in known and known[shard.id].sequence is not None
        ]
        far += [reading.covered for reading in readings if reading.behind is not None]
        limit = min(far, default=0.0) + self.options.align.total_seconds()
        return [each for each in readings if each.behind is None or each.covered <= limit]

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
        reading.works()
        self._served = True
        horizon = (answer.at or self._now()) - self._facts.retention
        if answer.gone:
            self._trimmed(reading, answer, horizon)
        elif not answer.read.oldest and reading.late(horizon):
            # It was answered so late that it may have begun behind what was dropped meanwhile.
            reading.iterator, reading.due = None, answer.began + 1 / self.options.reads_per_second
            return []
        failpoint("kinesis.after-read")
        options, records = self.options, answer.records
        since = reading.place.time
        reading.took(answer, self._now(), horizon, time.monotonic() - (self._began or 0.0))
        if answer.closed:
            self._ended(reading, answer)
        else:
            if records:
                self._progress.set(reading.shard.id, reading.place)
            reading.goes_on(answer, options)
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

    def _ended(self, reading: ShardReading, answer: Answer) -> None:
        """Deal with the end of a closed shard: its children may begin."""
        shard = reading.shard.id
        del self._readings[shard]
        self._lineage.learn(answer.children)
        self._end(shard, int(reading.covered // 60))
        failpoint("kinesis.after-end")
        self._miss()
        self._start()

    def _trimmed(self, reading: ShardReading, answer: Answer, horizon: float) -> None:
        """Tell of what the stream may have dropped before what this answer has."""
        shard, place = reading.shard.id, reading.place
        self._lose(trimmed(self.options, shard, place, answer.oldest, reading.covered, horizon))
        reading.covered = max(reading.covered, horizon)
        reading.place = Place(place.text, int(reading.covered // 60))
        self._progress.set(shard, reading.place)

    def _told(self, found: list[Message]) -> list[Message]:
        """Return what stands for losses, and what came behind it."""
        losses, self._losses = self._losses, []
        return losses + found

    def _lose(self, message: Message) -> None:
        self._counts.lost += 1
        self._losses.append(message)

    # -- failures -------------------------------------------------------------------------------

    def _failed(self, reading: ShardReading, error: Exception) -> None:
        """Let a shard wait after calls that came too fast, or failed at AWS; raise all else."""
        if throttled(error):
            self._counts.throttled += 1
        elif passing(error) and reading.failures + 1 < _FAILURES:
            self._counts.failed += 1
            reading.failures += 1
            reading.iterator = None
        else:
            raise self._told_as(error) from error
        reading.waits(words(error, self.options))

    def _told_as(self, error: Exception) -> Exception:
        """Return what the log is told of an error."""
        if isinstance(error, PermanentError | TransientError):
            return error
        place, text = self.options.place(), words(error, self.options)
        if code_of(error) in _DOUBTFUL and self._readings and self._served:
            self._served = False
            return TransientError(f"{place}: {text}")
        why = permanent(error)
        if why is None:
            return TransientError(f"{place}: {text}")
        return PermanentError(f"{place}: {why}: {text}")
