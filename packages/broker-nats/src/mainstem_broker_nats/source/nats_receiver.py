"""The receiver of the source `nats`: subscriptions, and the count of what there was no room for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from mainstem import ExternalError, PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver, lost

from mainstem_broker_nats.client import Connection
from mainstem_broker_nats.inboxes import Inbox, Raw
from mainstem_broker_nats.source.headers import pairs
from mainstem_broker_nats.source.options import NATSSourceOptions

T = TypeVar("T")

#: The header that holds where the publisher wants an answer.
REPLY = "nats.reply"
#: How often drops are told at most, in seconds.
_TELL = 1.0


class CoreReceiver(Receiver):
    """Takes messages of subjects; counts those that came while there was no room."""

    options: NATSSourceOptions
    gives_again = False

    def __init__(self, options: NATSSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._turn = 0
        self._connection: Connection | None = None
        self._inboxes: list[Inbox] = []
        self._paused = False
        #: How many drops of the connection in hand were told of, and how many of all.
        self._told = self._lost = 0
        self._told_at = 0.0
        #: Since when nobody listened; None while somebody does, and before anybody has.
        self._away: float | None = None
        #: When the connection in hand was seen to be broken.
        self._broke: float | None = None

    def connect(self, cursor: str | None) -> None:
        self._paused, self._told, self._inboxes = False, 0, []
        self._broke = None
        self._tell(self._set_up)
        failpoint("nats.after-connect")

    def _set_up(self) -> None:
        options = self.options
        name = f"mainstem {self.node}-{self.number}"
        connection = self._connection = Connection.open(options, name, self._turn)
        share = len(options.subjects)
        for subject in options.subjects:
            rows, size = options.pending_messages // share, options.pending_bytes // share
            inbox = connection.subscribe(
                subject, options.queue or "", rows=max(1, rows), size=max(1, size)
            )
            self._inboxes.append(inbox)
        connection.flush()  # from here on nothing is missed
        if connection.complaints:
            raise PermanentError(f"{connection.server}: {connection.complaints[-1]}")

    def take(self, seconds: float) -> Iterable[Message]:
        return self._tell(lambda: self._take(seconds))

    def _take(self, seconds: float) -> list[Message]:
        connection = self._connection
        assert connection is not None  # noqa: S101
        if connection.lost and self._broke is None:
            self._broke = time.time()
        if self._paused:
            # The inboxes fill up; from then on messages are dropped, and counted.
            time.sleep(min(seconds, 0.1))
            return []
        found = self._missed()
        until = time.monotonic() + (0 if found else seconds)
        while True:
            for inbox in self._inboxes:
                left = max(0.0, until - time.monotonic()) if len(self._inboxes) == 1 else 0
                found += map(self._message, connection.take(inbox, left))
            if found or time.monotonic() >= until or connection.lost:
                break
            time.sleep(0.01)
        if not found and connection.lost:
            if found := self._missed(at_once=True):
                return found  # before the count of this connection is gone
            self._away = self._broke or time.time()
            raise TransientError(f"{connection.server}: {connection.lost}")
        if found:
            failpoint("nats.after-take")
        return found

    def _missed(self, *, at_once: bool = False) -> list[Message]:
        """Return what stands for messages that were dropped, and for those nobody listened to.

        Args:
            at_once: whether drops are told however short ago others were.
        """
        found = []
        subjects = ", ".join(self.options.subjects)
        if self._away is not None:
            gone = time.time() - self._away
            self._away = None
            reason = (
                f"the connection broke, and was back after {gone:.1f} s: what was published meanwhile "
                "went to nobody here"
            )
            found.append(lost(reason, origin=subjects))
        dropped = sum(inbox.dropped for inbox in self._inboxes)
        now = time.monotonic()
        if dropped > self._told and (at_once or now - self._told_at >= _TELL):
            count = dropped - self._told
            self._told, self._told_at = dropped, now
            self._lost += count
            reason = "slow consumer: more came than could be stored, and than there was room for"
            found.append(lost(reason, origin=subjects, count=count))
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        pass  # nobody waits for it

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def waiting(self) -> int | None:
        return 0  # core NATS keeps nothing

    def facts(self) -> dict[str, Any]:
        server = self._connection.server if self._connection is not None else ""
        return {"server": server, "dropped": self._lost}

    def _message(self, raw: Raw) -> Message:
        headers = pairs(raw.headers)
        if raw.reply:
            headers.append((REPLY, raw.reply))
        subject = raw.subject
        return Message(
            raw.data,
            subject,
            headers,
            None,
            subject.decode("utf-8", "replace"),
        )

    def _tell(self, work: Callable[[], T]) -> T:
        """Do work; when it fails, the next connection is to another server."""
        try:
            return work()
        except ExternalError:
            self._turn += 1
            raise
