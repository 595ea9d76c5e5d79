"""The thread that stores: while it waits for the disk, messages are taken."""

from __future__ import annotations

import errno
import queue
import threading
import time
from collections.abc import Callable, Sequence

from mainstem_ingress.messages import Message
from mainstem_ingress.retention import Retention
from mainstem_ingress.storing import Store

_TIDY_EVERY = 1.0
_RETRY = 0.5
#: No room: what a write fails with that is tried again for ever.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Writer:
    """Stores one group after the other, and removes what nobody wants any more.

    Args:
        retentions: of the receiver's own folder first, then of folders whose receivers are gone.

    Attributes:
        full: why nothing can be stored at present; empty otherwise.
        unread: the bytes of the own folder that are still to be read.
    """

    def __init__(self, store: Store, retentions: Sequence[Retention]) -> None:
        self._store = store
        self._retentions = retentions
        self._groups: queue.Queue[list[Message] | None] = queue.Queue()
        self._stored: queue.SimpleQueue[list[Message]] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._given_up = threading.Event()
        self._error: BaseException | None = None
        self.full = ""
        self.unread = retentions[0].unread(store.next, store.bytes)
        self._tidied = 0.0
        self._thread = threading.Thread(target=self._work, name="ingress-writer", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether nothing is being stored."""
        return self._idle.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being stored; whether that came in time."""
        return self._idle.wait(seconds)

    def put(self, group: list[Message]) -> None:
        """Let a group be stored; only while idle."""
        self._idle.clear()
        self._groups.put(group)

    def take_stored(self) -> list[Message]:
        """Return the messages that were stored since the last time, in order.

        Raises:
            BaseException: what ended the thread.
        """
        if self._error is not None:
            raise self._error
        found: list[Message] = []
        while not self._stored.empty():
            found += self._stored.get()
        return found

    def give_up(self) -> None:
        """Forget the group that is not stored yet, and what was stored and not yet told."""
        self._given_up.set()
        self._idle.wait()
        self._given_up.clear()
        self.take_stored()

    def close(self) -> None:
        """End the thread after the group in hand."""
        self._given_up.set()
        self._groups.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            while True:
                try:
                    group = self._groups.get(timeout=_TIDY_EVERY)
                except queue.Empty:
                    self._tidy()
                    continue
                if group is None:
                    return
                if self._try(lambda group=group: self._store.store(group)):  # type: ignore[misc]
                    self._stored.put(group)
                self._tidy()
                self._idle.set()
        except BaseException as error:
            self._error = error
            self._idle.set()

    def _try(self, work: Callable[[], None]) -> bool:
        """Do something that needs room on the disk, waiting for it; False if that was given up."""
        while True:
            try:
                work()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self.full = f"{self._store.folder}: {error.strerror}"
                self._tidy(now=True)
                if self._given_up.wait(_RETRY):
                    return False
            else:
                self.full = ""
                return True

    def _tidy(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._tidied < _TIDY_EVERY:
            return
        self._tidied = time.monotonic()
        own, *gone = self._retentions
        own.tidy(self._store.next, self._store.bytes)
        self.unread = own.unread(self._store.next, self._store.bytes)
        for retention in gone:
            retention.tidy_whole()
