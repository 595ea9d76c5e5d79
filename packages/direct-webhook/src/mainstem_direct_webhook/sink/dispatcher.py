"""Sends the rows of a task: requests side by side, those that share a key one after another."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from mainstem import PermanentError, TLSOptions, failpoint
from mainstem.sinks import Refused

from mainstem_direct_webhook.client.connection import Blanking, Client
from mainstem_direct_webhook.sink.requests import Packing, Parcel
from mainstem_direct_webhook.sink.worker import Gate, Lane
from mainstem_direct_webhook.standard import read_secret

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem_direct_webhook.sink.options import WebhookSinkOptions

#: Requests that are held for each one that may be in flight: a key's wait for each other, and others
#: are to be found behind them.
_DEPTH = 8
#: Bytes of bodies that are held; one request is always.
_MOST_BYTES = 32 * 1024 * 1024
#: How long `close` waits for the lanes, in seconds.
_PATIENCE = 5.0


class Delivers(Protocol):
    """What a thread of its own delivers by."""

    def deliver(self, parcel: Parcel) -> None:
        """Return when a request has its fate."""

    def abort(self) -> None:
        """Let `deliver` fail, from another thread."""

    def close(self) -> None:
        """End the connection."""


class Deliverer:
    """Hands requests to lanes, each of which is a thread.

    Args:
        make_lane: called when one more is needed.
        concurrency: how many lanes there are at most.
        stop: called when nothing is to be tried any more.
    """

    def __init__(
        self, make_lane: Callable[[], Delivers], concurrency: int, stop: Callable[[], None]
    ) -> None:
        self._make_lane = make_lane
        self._concurrency = concurrency
        self._stop = stop
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._ready: deque[Parcel] = deque()
        self._last_of: dict[Any, Parcel] = {}
        self._held = self._bytes = self._idle = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._lanes: list[Delivers] = []
        self._threads: list[threading.Thread] = []

    def send(self, parcel: Parcel) -> None:
        """Deliver a request as soon as it is its turn; returns before it is answered.

        Waits while as many are held as may be, so that a slow endpoint slows down whoever calls.

        Raises:
            Exception: what a lane raised; nothing can be sent any more.
        """
        size = len(parcel.body)
        with self._lock:
            while self._failure is None and self._full(size):
                self._room.wait()
            self._check()
            self._held += 1
            self._bytes += size
            before = {id(p): p for k in parcel.keys if (p := self._last_of.get(k))}
            for each in before.values():
                each.followers.append(parcel)
            parcel.blockers = len(before)
            self._last_of.update(dict.fromkeys(parcel.keys, parcel))
            if not before:
                self._put(parcel)

    def flush(self) -> None:
        """Wait until all requests have their fate.

        Raises:
            Exception: what a lane raised.
        """
        with self._lock:
            while self._failure is None and self._held:
                self._room.wait()
            self._check()

    def close(self) -> None:
        """End all lanes; requests without an answer may or may not have been taken."""
        with self._lock:
            unanswered = self._held > 0
            self._closed = True
            self._work.notify_all()
            lanes = list(self._lanes)
        self._stop()
        if unanswered:
            for lane in lanes:
                lane.abort()
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:  # the system's look-up of a name can't be broken off
            thread.join(max(0.0, until - time.monotonic()))

    def _full(self, size: int) -> bool:
        return self._held >= _DEPTH * self._concurrency or (
            self._held > 0 and self._bytes + size > _MOST_BYTES
        )

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _put(self, parcel: Parcel) -> None:
        """Let a lane have a request, a new one if all have something to do."""
        self._ready.append(parcel)
        if self._idle >= len(self._ready):
            self._work.notify()
        elif len(self._threads) < self._concurrency:
            name = f"webhook-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        lane = None
        try:
            lane = self._make_lane()
            with self._lock:
                self._lanes.append(lane)
            while (parcel := self._next()) is not None:
                lane.deliver(parcel)
                with self._lock:
                    self._settle(parcel)
        except BaseException as error:  # goes to whoever sends
            with self._lock:
                self._failure = self._failure or error
                self._room.notify_all()
        finally:
            if lane is not None:
                lane.close()

    def _next(self) -> Parcel | None:
        with self._lock:
            while not self._ready and not self._closed and self._failure is None:
                self._idle += 1
                self._work.wait()
                self._idle -= 1
            return None if self._closed or self._failure else self._ready.popleft()

    def _settle(self, parcel: Parcel) -> None:
        self._held -= 1
        self._bytes -= len(parcel.body)
        for key in parcel.keys:
            if self._last_of.get(key) is parcel:
                del self._last_of[key]
        for follower in parcel.followers:
            follower.blockers -= 1
            if not follower.blockers:
                self._put(follower)
        self._room.notify()


def make_deliverer(options: WebhookSinkOptions, packing: Packing, refused: Refused) -> Deliverer:
    """Return what delivers requests as the options say.

    Args:
        packing: makes a request of each message of one that was refused.
        refused: is given the messages that are refused for good.

    Raises:
        PermanentError: a file of `tls` can't be read.
    """
    gate = Gate()
    try:
        context = (options.tls or TLSOptions()).context()
    except OSError as error:
        raise PermanentError(str(error)) from None
    keys = [read_secret(secret.get_secret_value()) for secret in options.sign_with or ()]
    blanking = Blanking(options, options.sign_with or ())
    most = options.batch_timeout
    last = time.monotonic() + most.total_seconds() if most is not None else float("inf")

    def make_lane() -> Lane:
        return Lane(
            options,
            Client(options, context, method=options.method),
            gate,
            keys,
            blanking.shown,
            lambda message, why: refused.add(message.identity, message.payload, why),
            packing.pack,
            last,
        )

    return Deliverer(make_lane, options.requests, gate.stopped.set)


def send(
    batches: Iterable[pa.RecordBatch], options: WebhookSinkOptions
) -> Iterator[pa.RecordBatch]:
    """Send the rows of a task and yield those that were refused for good.

    Raises:
        PermanentError: a request was not taken, or a file of `tls` can't be read.
    """
    refused, packing = Refused(), Packing(options)
    deliverer = make_deliverer(options, packing, refused)
    try:
        for batch in batches:
            for parcel in packing.parcels(batch, refused):
                deliverer.send(parcel)
            yield from refused.take()
        deliverer.flush()
        failpoint("webhook.before-done")
        yield from refused.take()
    finally:
        deliverer.close()
