"""One shard that is being read: how far, when next, and what came in between."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mainstem.patience import pause_after

from mainstem_broker_kinesis.source.fetching import Answer
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.places import Place
from mainstem_broker_kinesis.source.shards import Shard

#: Pauses after calls that came too fast, or that failed at AWS, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
#: How long it counts, in seconds, that the last record read was still there though it is older than the
#: stream promises: each such look is one of the reads that a shard allows.
_LOOK_AGAIN = 10.0
#: How exactly the stream's clock is known, in seconds: its answers tell whole ones.
_CLOCK = 1.0


@dataclass
class ShardReading:
    """How far a shard is read.

    Times are by the stream's clock, and its horizon is that before which it keeps nothing. `covered` is
    the time up to which all is read that was asked for, `looked` the horizon when the oldest record was
    looked for last.
    `due` is when it is read next (`time.monotonic`), or None while a read is in flight. `caught_up`
    says whether all is taken that was there when the process began.
    """

    shard: Shard
    place: Place
    covered: float
    looked: float = 0.0
    iterator: str | None = None
    since: float = 0.0
    due: float | None = 0.0
    waited: int = 0
    failures: int = 0
    behind: float | None = None
    caught_up: bool = False
    trouble: str = ""

    def took(self, answer: Answer, now: float, horizon: float, ran: float) -> None:
        """Take over how far a read came.

        Args:
            now: the time by the stream's clock.
            horizon: the stream's, when it answered.
            ran: for how long this process has run, in seconds.
        """
        self.behind = answer.behind
        at = now if answer.at is None else answer.at
        if answer.read.oldest:
            self.looked = horizon
        last = answer.records[-1] if answer.records else None
        arrived = last["ApproximateArrivalTimestamp"].timestamp() if last else 0.0
        if answer.closed:
            # `behind` says nothing of when the shard was closed; no record came after that.
            self.covered = max(self.covered, arrived)
        elif last or self.place.sequence:
            self.covered = at - answer.behind
        else:
            # What was there before `covered` was not asked for.
            self.covered = max(self.covered, at - answer.behind)
        if last:
            self.place = Place(str(last["SequenceNumber"]), int(self.covered // 60))
            here = arrived >= now - ran + _CLOCK or 0 < answer.behind <= ran
        else:
            here = answer.behind <= ran
        self.caught_up = self.caught_up or here

    def late(self, horizon: float) -> bool:
        """Whether what comes next may be gone, so that the oldest record is to be looked for."""
        return 0 < self.covered < horizon and not 0 <= horizon - self.looked <= _LOOK_AGAIN

    def goes_on(self, answer: Answer, options: KinesisSourceOptions) -> None:
        """Set when the next read is due, so that a shard's limits are kept."""
        self.iterator, self.since = answer.iterator, answer.began
        wait = max(1 / options.reads_per_second, answer.bytes / options.bytes_per_second)
        if not answer.records and not answer.behind:
            wait = max(wait, options.poll_every.total_seconds())
        self.due = answer.began + wait

    def waits(self, trouble: str) -> None:
        """Let it wait after a failure, longer after each in a row."""
        self.trouble = f"{self.shard.id}: {trouble}"
        self.waited += 1
        self.due = time.monotonic() + pause_after(self.waited, _FIRST_PAUSE, _LONGEST_PAUSE)

    def works(self) -> None:
        """Forget former failures."""
        self.waited, self.failures, self.trouble = 0, 0, ""
