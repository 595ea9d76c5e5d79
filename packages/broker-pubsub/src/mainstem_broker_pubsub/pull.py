"""Messages of a subscription as they come by a stream, and the leases of those that are not stored."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mainstem import ExternalError, PermanentError, TransientError

from mainstem_broker_pubsub.client import TRANSIENT, Client, message, not_taken, status
from mainstem_broker_pubsub.options import PubSubSourceOptions

#: How many messages are handed on at a time.
_PART = 2_000
#: How many ids one request is about: it may have half a megabyte.
_IDS = 1_000
#: How many bytes may be with a receiver that are not stored yet.
_BYTES = 100 * 2**20
#: Leases are extended when so much of their time has passed.
_SHARE = 1 / 3
#: How often something is sent on a stream, so that nothing between takes it for dead, in seconds.
_HEARTBEAT = 30.0
#: After how many seconds without messages it is asked whether the server is there, and after how many
#: the stream is begun anew: it may be dead where the server is not.
_IDLE, _SILENT = 60.0, 600.0
#: The server ends each stream from time to time; one that lasted so long has been well.
_LASTED = 10.0
#: How long is waited before a stream is begun anew, in seconds.
_PAUSE = 0.1
#: How long is waited before an acknowledgement is retried, in seconds.
_PAUSES = (0.1, 0.5, 0.0)
#: How long the threads are waited for, in seconds.
_REST = 2.0
#: For how long nothing may come at first that was waiting, in seconds.
_FIRST = 5.0


class _Held(NamedTuple):
    """A message that is not acknowledged: until when it is leased, and its bytes."""

    until: float
    size: int


class _Stream:
    """A stream that stays open until it is ended."""

    def __init__(self, client: Client, wanted: Any) -> None:
        self._enough = threading.Event()
        self._wanted = wanted
        self.answers = client.stream("StreamingPull", self._requests())

    def _requests(self) -> Iterator[Any]:
        yield self._wanted
        while not self._enough.wait(_HEARTBEAT):
            yield message("StreamingPullRequest")

    def end(self) -> None:
        """End it; nothing more comes."""
        self._enough.set()
        self.answers.cancel()


class Pull:
    """Takes messages by one stream after the other, in a thread; another thread extends leases."""

    def __init__(self, client: Client, options: PubSubSourceOptions) -> None:
        self._client, self._options = client, options
        self._lease = int(options.lease.total_seconds())
        self._name = uuid.uuid4().hex
        self._came: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._fault: ExternalError | None = None
        self._stream: _Stream | None = None
        self._spoken = False
        self._begun = self._heard = self._asked = time.monotonic()
        self._threads = [
            threading.Thread(target=work, name=f"pubsub-{name}", daemon=True)
            for name, work in (("stream", self._read), ("leases", self._keep))
        ]
        for each in self._threads:
            each.start()

    # -- the stream -------------------------------------------------------------------------

    def _read(self) -> None:
        failing: float | None = None
        patience = self._options.connect_timeout.total_seconds()
        try:
            while not self._ended.is_set():
                began = time.monotonic()
                fault = self._one()
                now = time.monotonic()
                if fault is None or now - began >= _LASTED:
                    failing = None
                elif failing is None:
                    failing = began
                if isinstance(fault, PermanentError) or (failing and now - failing >= patience):
                    self._fault = fault
                    return
                self._ended.wait(_PAUSE)
        except Exception as error:
            self._fault = self._client.failure(error)

    def _one(self) -> ExternalError | None:
        """Read a stream to its end, and return what ended it; None without room for messages."""
        count, size = self._room()
        if count <= 0 or size <= 0:
            return None
        wanted = message(
            "StreamingPullRequest",
            subscription=self._options.path,
            stream_ack_deadline_seconds=self._lease,
            max_outstanding_messages=count,
            max_outstanding_bytes=size,
            client_id=self._name,
        )
        with self._lock:
            if self._ended.is_set():
                return None
            stream = self._stream = _Stream(self._client, wanted)
        try:
            for said in stream.answers:
                self._hear(said)
        except Exception as error:
            return self._client.failure(error)
        finally:
            stream.end()
        return TransientError(f"{self._options.place()}: the stream has ended")

    def _room(self) -> tuple[int, int]:
        """Return how many messages and bytes a new stream may send ahead."""
        with self._lock:
            size = sum(each.size for each in self._held.values())
            return self._options.prefetch - len(self._held), _BYTES - size

    def _hear(self, said: Any) -> None:
        self._spoken = True
        self._heard = time.monotonic()
        until = self._heard + self._lease
        with self._lock:
            for each in said.received_messages:
                self._held[each.ack_id] = _Held(until, len(each.message.data))
        self._came.put(said)

    # -- for the receiver -------------------------------------------------------------------

    def take(self, seconds: float) -> list[Any]:
        """Return what came, waiting for the first."""
        found: list[Any] = []
        with suppress(queue.Empty):
            found += self._came.get(timeout=seconds).received_messages if seconds else self._now()
            while len(found) < _PART:
                found += self._now()
        if not found:
            self.check()
        return found

    def _now(self) -> Any:
        return self._came.get_nowait().received_messages

    def check(self) -> None:
        """See that messages can come.

        Raises:
            ExternalError: they can't.
        """
        if self._fault is not None:
            raise self._fault
        if not self._threads[0].is_alive():
            raise TransientError(f"{self._options.place()}: nobody reads the stream")
        now = time.monotonic()
        if now - max(self._heard, self._asked) > _IDLE:
            self._asked = now
            try:
                self._client.ask("GetSubscription", subscription=self._options.path)
            except Exception as error:
                # Who may consume may perhaps not look, and not often.
                if status(error)[0] not in ("PERMISSION_DENIED", "RESOURCE_EXHAUSTED"):
                    raise self._client.failure(error) from None
            if now - self._heard > _SILENT and self._stream is not None:
                self._heard = now
                self._stream.end()

    def opened(self) -> bool:
        """Whether what was waiting would have begun to come."""
        return self._spoken or time.monotonic() - self._begun > _FIRST

    def full(self) -> bool:
        """Whether no more comes before something is acknowledged."""
        return len(self._held) >= self._options.prefetch

    def acknowledge(self, ids: Sequence[str]) -> None:
        """Acknowledge messages; one that can't be any more comes again, and is known then."""
        for at in range(0, len(ids), _IDS):
            self._ask("Acknowledge", ids[at : at + _IDS])
        self._forget(ids)

    def _forget(self, ids: Sequence[str]) -> None:
        with self._lock:
            for each in ids:
                self._held.pop(each, None)

    def _ask(self, name: str, ids: Sequence[str], **more: Any) -> None:
        """Ask something about messages; again, where that may help.

        Raises:
            ExternalError: it was refused, or did not come. Not if it was refused for single messages.
        """
        fault: ExternalError | None = None
        for pause in _PAUSES:
            try:
                self._client.ask(name, subscription=self._options.path, ack_ids=ids, **more)
            except Exception as error:
                told = not_taken(error)
                fault = None if told else self._client.failure(error)
                if isinstance(fault, PermanentError) or status(error)[0] == "DEADLINE_EXCEEDED":
                    break
                if told:
                    ids = [each for each in ids if told.get(each, "").startswith(TRANSIENT)]
            else:
                return
            if not ids:
                return
            self._ended.wait(pause)
        if fault is not None:
            raise fault

    # -- leases -----------------------------------------------------------------------------

    def _keep(self) -> None:
        """Let messages that wait to be stored be hidden for longer, for as long as they are wanted."""
        while not self._ended.wait(self._lease * _SHARE / 2):
            soon = time.monotonic() + self._lease * (1 - _SHARE)
            with self._lock:
                old = [each for each, held in self._held.items() if held.until < soon]
            for at in range(0, len(old), _IDS):
                # What fails is retried at the next look; there is time for one more.
                with suppress(Exception):
                    self._extend(old[at : at + _IDS])

    def _extend(self, ids: Sequence[str]) -> None:
        self._ask("ModifyAckDeadline", ids, ack_deadline_seconds=self._lease)
        until = time.monotonic() + self._lease
        with self._lock:
            for each in ids:
                held = self._held.get(each)
                if held is not None:
                    self._held[each] = held._replace(until=until)

    def end(self) -> None:
        """End the stream, and let others have at once what was not stored."""
        with self._lock:
            self._ended.set()
            if self._stream is not None:
                self._stream.end()
        for each in self._threads:
            each.join(_REST)
        held = list(self._held)
        if self._fault is None:
            with suppress(ExternalError):
                for at in range(0, len(held), _IDS):
                    self._ask("ModifyAckDeadline", held[at : at + _IDS], ack_deadline_seconds=0)
