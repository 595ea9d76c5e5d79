"""One transaction after another of one transactional id, with the errors of Kafka's client told apart.

An error of a transactional producer is one of three kinds (KIP-98, librdkafka's manual): it passes, and
the call is made again; it means that this transaction has to be aborted; or it is fatal, as when another
producer has taken over the id, and the producer is of no more use. The outcome of a commit whose answer
was lost is not known: the commit is asked for again, which does no harm, until the brokers tell.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mainstem import FencedError, PipelineError

from mainstem_broker_kafka.client import (
    Heard,
    code,
    failure,
    kafka_error,
    library,
    producer,
    raised,
    unless_given,
)
from mainstem_broker_kafka.connection import Properties

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer, TopicPartition

T = TypeVar("T")

#: What passes is asked again after so many milliseconds at first, then after twice as many each time: a
#: transaction's end is with its coordinator some milliseconds before it is everywhere, and a connection
#: to a coordinator is made when it is asked for.
BACKOFF = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10}
#: Seconds that one call may take before it is made again.
_SLICE = 10.0
_SLACK = 5.0
_PAUSE = 0.05
#: What passes by itself: coordinators move and load, brokers come back, transactions end.
_TRANSIENT = frozenset(
    {
        "_ALL_BROKERS_DOWN", "_RETRY", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_WAIT_COORD",
        "_RESOLVE", "_CONFLICT", "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE", "NETWORK_EXCEPTION", "NOT_CONTROLLER",
        "NOT_COORDINATOR", "NOT_COORDINATOR_FOR_GROUP", "COORDINATOR_LOADING_IN_PROGRESS",
        "NOT_ENOUGH_REPLICAS", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT", "UNSTABLE_OFFSET_COMMIT",
    }
)  # fmt: skip


class Stuck(Exception):  # noqa: N818
    """A call did not come back: its client must not be used again."""


def patiently(call: Callable[[float], T], seconds: float) -> T:
    """Make a call until it succeeds, fails for good, or time runs out.

    Args:
        call: is given the seconds that it may take.
        seconds: how long to try on in all.

    Raises:
        KafkaException: what the last call raised.
        Stuck: it did not come back.
    """
    until = time.monotonic() + seconds
    while True:
        left = max(until - time.monotonic(), 0.1)
        try:
            seconds_now = min(left, _SLICE)
            return bounded(partial(call, seconds_now), seconds_now + _SLACK)
        except library().KafkaException as error:
            if not passes(error) or time.monotonic() >= until:
                raise
        time.sleep(_PAUSE)


def passes(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    found = kafka_error(error)
    if found is None or found.fatal() or found.txn_requires_abort():
        return False
    return bool(found.retriable()) or code(error) in _TRANSIENT


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Make a call in a thread and wait for it for some seconds.

    Raises:
        Stuck: it did not come back; its thread is left alone.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="kafka-call", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if thread.is_alive():
        raise Stuck(f"a call of Kafka's client did not come back within {seconds:.0f} s")
    return results[0]


#: Another producer has taken over the transactional id.
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_ABORT = 10.0


class Transaction:
    """A producer with a transactional id.

    Args:
        settings: of a client on librdkafka.
        name: the transactional id.
        topic: the ledger's.
        ledger: the consumer of the ledger's group.
        patience: seconds to try on when brokers do not answer.
        timeout: seconds after which brokers abort a transaction by themselves.
        held: tells by the ledger whether the run of this producer is still the one that may write.
        more: further settings of the producer.

    Attributes:
        producer: for `produce`.
    """

    def __init__(
        self,
        settings: Properties,
        name: str,
        topic: str,
        ledger: Consumer,
        *,
        patience: float,
        timeout: float,
        held: Callable[[], bool] | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        self._settings = settings
        self._name = name
        self._topic = topic
        self._ledger = ledger
        self._patience = patience
        self._timeout = timeout
        self._held = held
        self._begun = time.monotonic()
        self._heard = Heard()
        self._open = False
        self._dead = False
        own = {
            "transactional_id": name,
            "transaction_timeout_ms": int(timeout * 1000),
            "message_timeout_ms": int(min(patience, timeout) * 1000),
            **unless_given(settings, **BACKOFF),
            **(more or {}),
        }
        self.producer: Producer = producer(settings, self._heard, **own)

    def fence(self) -> None:
        """Take over the id: an open transaction of it is aborted, and who had it can commit no more."""
        self._call(f"taking over the transactional id {self._name}", self._fence)

    def _fence(self, seconds: float) -> None:
        # A client that is connected to no broker yet waits for half a second before it looks again.
        self.producer.list_topics(self._topic, timeout=seconds)
        self.producer.init_transactions(seconds)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call("beginning a transaction", lambda _: self.producer.begin_transaction())
        self._open, self._begun = True, time.monotonic()

    def flush(self) -> None:
        """Wait until the brokers have all messages."""
        self._call("sending messages", self._flush)

    def _flush(self, seconds: float) -> None:

        if left := self.producer.flush(seconds):
            error = library().KafkaError
            raise raised(error(error._TIMED_OUT, f"{left} messages are unsent"))

    def enter(self, offsets: Sequence[TopicPartition]) -> None:
        """Let entries of the ledger go in with the messages."""
        group = self._ledger.consumer_group_metadata()
        self._call(
            "sending the ledger's entry",
            lambda seconds: self.producer.send_offsets_to_transaction(
                list(offsets), group, seconds
            ),
        )

    def commit(self) -> None:
        """Commit."""
        self._call("committing a transaction", self.producer.commit_transaction)
        self._open = False

    def failed(self, error: Exception, doing: str) -> PipelineError:
        """Return the error that tells of a failed call."""
        found = kafka_error(error)
        if isinstance(error, Stuck) or (found is not None and found.fatal()):
            self._dead = True
        if code(error) in _FENCED:
            self._dead = True
            return self._replaced(doing)
        return failure(error, doing, self._settings, self._heard)

    def _replaced(self, doing: str) -> PipelineError:
        """Return the error for an id that is another producer's, or that the brokers have given up on.

        A producer is told the same when its transaction has timed out and when it was fenced off, so the
        ledger is asked which run it is that may write.
        """
        taken = f"{doing}: another run has taken over the transactional id {self._name}"
        if self._held is None:
            return FencedError(taken)
        try:
            held = self._held()
        except PipelineError as error:
            return FencedError(f"{taken}, or its transaction has timed out: {error}")
        if not held:
            return FencedError(taken)
        lasted = time.monotonic() - self._begun
        return PipelineError(
            f"{doing}: the brokers have aborted the transaction {self._name}, {lasted:.0f} s after it "
            f"was begun: `transaction_timeout` is {self._timeout:.0f} s. No other run has taken over. "
            "Let batches be smaller (an option of the source), give the sink more `writers`, or let "
            "`transaction_timeout` be longer."
        )

    def close(self) -> None:
        """Abort what is open, so that readers need not wait for the broker to do it."""
        if self._open and not self._dead:
            self._open = False
            with suppress(Exception):  # the brokers abort it, at the latest when it times out
                patiently(self.producer.abort_transaction, _ABORT)

    def _call(self, doing: str, call: Callable[[float], Any]) -> None:

        try:
            patiently(call, self._patience)
        except (library().KafkaException, Stuck) as error:
            raise self.failed(error, doing) from None
