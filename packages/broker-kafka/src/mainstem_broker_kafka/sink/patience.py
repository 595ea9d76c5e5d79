"""Calls of librdkafka's that are retried while that helps, and never waited for without an end.

A call with a timeout of its own can still stand still when brokers go away at the wrong moment. So each
is made in a thread that is waited for a little longer than the call itself was told to take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mainstem_broker_kafka.client import code, kafka_error, library

T = TypeVar("T")

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
