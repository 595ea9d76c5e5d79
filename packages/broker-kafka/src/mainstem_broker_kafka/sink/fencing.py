"""A run takes hold of a ledger: from then on no run before it writes anything more.

A run that was killed may have left transactions open, whose entries of the ledger nobody can read until
they have ended. So a run first looks at what has been committed, and whether it may take over at all;
then it fences off the run before, and each of its writers, which ends their transactions; and only then
is the ledger what it will be. Whoever looks and finds that he was replaced fences nobody off.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from mainstem import Batch, FencedError, PipelineError, failpoint

from mainstem_broker_kafka.connection import Properties
from mainstem_broker_kafka.sink import ledger as ledgers
from mainstem_broker_kafka.sink.ledger import DONE, RUN, Entry, Ledger, State
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.transaction import Transaction

#: The transactional id of a run, beside those of its writers, which are numbers.
_RUN = "run"
#: Seconds after which the hold is taken anew: brokers forget a producer that is idle for days.
_OLD = 3600.0
_AT_ONCE = 8


class Hold:
    """A run's hold on a ledger.

    Args:
        settings: of a client on librdkafka.
        options: the sink's.
        ledger: what is to be held.
        batch: of the run that takes hold.
        held: whether the run has held the ledger before.

    Raises:
        FencedError, PipelineError: see `ledger.check`.
    """

    def __init__(
        self,
        settings: Properties,
        options: KafkaSinkOptions,
        ledger: Ledger,
        batch: Batch,
        *,
        held: bool,
    ) -> None:
        self._settings = settings
        self._options = options
        self._ledger = ledger
        self._begin = options.missing_ledger == "begin"
        self._until = time.monotonic() + _OLD
        self._check(ledger.glance(), batch, held=held)
        self._run = self._transaction(_RUN, batch)
        try:
            self._run.fence()
            self._take(batch, held=held)
        except BaseException:
            self._run.close()
            raise

    @property
    def old(self) -> bool:
        """Whether it should be taken anew before the next batch."""
        return time.monotonic() > self._until

    def look(self, batch: Batch) -> State:
        """Return what the ledger has.

        Raises:
            FencedError, PipelineError: see `ledger.check`.
        """
        state = self._ledger.read()
        self._check(state, batch, held=True)
        return state

    def done(self, entry: Entry, batch: Batch) -> None:
        """Set the entry that says that all batches before `entry.next` are wholly in.

        Raises:
            FencedError: another run has taken over; the entry is not set.
        """
        self._commit({DONE: entry}, batch)

    def close(self) -> None:
        """End the client; the hold remains until another run takes over."""
        self._run.close()

    # -- taking hold ------------------------------------------------------------------------

    def _take(self, batch: Batch, *, held: bool) -> None:
        before = self._ledger.glance()
        self._check(before, batch, held=held)
        writers = self._options.writers
        if before.count is not None:
            self._fence(range(max(before.count, writers)), batch)
        state = self._ledger.read()
        self._check(state, batch, held=held)
        if state.count is not None and state.count != writers:
            self._may_change(state, batch)
        begun = {} if state.done is not None else {DONE: ledgers.begun(batch, writers)}
        failpoint("kafka.before-register")
        self._commit(begun, batch)

    def _fence(self, writers: range, batch: Batch) -> None:
        """End what writers of runs before have open."""

        def fence(number: int) -> None:
            former = self._transaction(str(number), batch)
            try:
                former.fence()
            finally:
                former.close()

        with ThreadPoolExecutor(_AT_ONCE, "kafka-fence") as threads:
            list(threads.map(fence, writers))

    def _may_change(self, state: State, batch: Batch) -> None:
        if state.of(batch.id) and not state.whole(batch.id):
            raise PipelineError(
                f"{batch.sink}: batch {batch.id} is in the middle of being written by {state.count} "
                f"writers, and some are done: {self._options.writers} would deal its rows out otherwise. "
                f"Run it with `writers: {state.count}` until the batch is in, and change the number "
                "then.",
                node=batch.sink,
            )

    def _commit(self, entries: dict[int, Entry], batch: Batch) -> None:
        """Commit entries of the ledger, and with them the run's own, lest it be forgotten before them."""
        every = {**entries, RUN: ledgers.registered(batch, self._options.writers)}
        try:
            self._run.begin()
            self._run.enter([self._ledger.place.offset(n, entry) for n, entry in every.items()])
            self._run.commit()
        except FencedError:
            self._check(self._ledger.glance(), batch, held=True)
            raise

    def _check(self, state: State, batch: Batch, *, held: bool) -> None:
        ledgers.check(state, batch, held=held, begin=self._begin)

    def _transaction(self, who: str, batch: Batch) -> Transaction:
        return Transaction(
            self._settings,
            self._ledger.place.transactional_id(who),
            self._ledger.place.topic,
            self._ledger.consumer,
            patience=self._options.patience,
            timeout=self._options.transaction_timeout.total_seconds(),
            held=lambda: self._ledger.glance().held_by(batch.epoch, batch.run),
        )
