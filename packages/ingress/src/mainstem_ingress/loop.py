"""What a receiver's process does: take, group, store, acknowledge; wait for who is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem.patience import pause_after

from mainstem_ingress.errors import LogError
from mainstem_ingress.messages import (
    Columns,
    Group,
    Message,
    Rows,
    Values,
    cut,
    has_cursor,
    joined,
)
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import NO_ROOM
from mainstem_ingress.writer import Store

#: How long to wait for messages at most, in seconds.
_WAIT = 0.1
_TELL_EVERY = _TIDY_EVERY = 1.0
_RETRY = 0.5
#: When no message has come for so long, all that was waiting at the external system is here.
_QUIET = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
#: How much of a refused message's value is kept.
_KEPT = 64 * 1024

#: Is told what the process does: see `Taking.tell`.
Tell = Callable[[dict[str, Any]], None]


class Taking:
    """The work of one receiver.

    Args:
        retentions: of the receiver's own folder first, then of folders whose receivers are gone.
        tell: is told about once a second, and when something changes, of `state` (`connecting`,
            `running`, `waiting` for the external system, `paused` above the high-water mark, disk
            `full`), `why`, the counts, the bytes not yet read, and `ready`: that a bounded run can
            begin.
        stop: when set, what was taken is stored and acknowledged, and the work ends.
    """

    def __init__(
        self,
        receiver: Receiver,
        store: Store,
        retentions: Sequence[Retention],
        options: IngressOptions,
        tell: Tell,
        stop: threading.Event,
    ) -> None:
        self._receiver = receiver
        self._store = store
        self._retentions = retentions
        self._unread = retentions[0].unread(store.next, store.bytes)
        self._tidied = 0.0
        #: Why nothing can be stored at present; empty otherwise. And when it is retried.
        self._no_room = ""
        self._again = 0.0
        self._options = options
        self._tell = tell
        self._stop = stop
        self._linger = options.linger.total_seconds()
        self._high_water = options.high_water // options.receivers
        self._ready = False
        self._told: tuple[str, str, bool] | None = None
        self._told_at = 0.0

    def work(self) -> None:
        """Take messages until told to stop.

        Raises:
            PermanentError: the external system refuses for good.
            LogError: the log can't be used.
        """
        failed = 0
        broke: float | None = None
        while not self._stop.is_set():
            self.tell("connecting")
            began = time.monotonic()
            try:
                try:
                    self._receiver.connect(self._store.cursor)
                    if broke is not None:
                        self._store.away(time.monotonic() - broke)
                        for retention in self._retentions:
                            retention.begin_anew()
                        broke = None
                    self._session()
                except BaseException:
                    with suppress(Exception):  # of a broken connection: the cause counts
                        self._receiver.close()
                    raise
                self._receiver.close()
            except (PermanentError, LogError):
                raise
            except Exception as error:
                broke = time.monotonic() if broke is None else broke
                if time.monotonic() - began > _LONGEST_PAUSE:
                    failed = 0
                failed += 1
                why = (
                    str(error)
                    if isinstance(error, TransientError)
                    else f"{type(error).__name__}: {error}"
                )
                self.tell("waiting", why)
                self._tidy()
                self._stop.wait(pause_after(failed, _FIRST_PAUSE, _LONGEST_PAUSE))
            else:
                failed = 0

    def tell(self, state: str, why: str = "") -> None:
        """Tell what goes on, if it is news or a second has passed."""
        now = time.monotonic()
        news = (state, why, self._ready)
        if news == self._told and now - self._told_at < _TELL_EVERY:
            return
        self._told, self._told_at = news, now
        counts = self._store.counts
        self._tell(
            {
                "state": state,
                "why": why,
                "rows": counts.stored,
                "duplicates": counts.duplicates,
                "refused": counts.refused,
                "unread_bytes": self._unread,
                "ready": self._ready,
                "gauges": self._receiver.gauges(),
                **self._receiver.facts(),
            }
        )

    def _session(self) -> None:
        """Take messages over one connection, until told to stop or the connection breaks.

        One thread does all. A second one that stores would have to share Python's lock with this one,
        which costs more than the wait for the disk: meanwhile the external system goes on sending.
        """
        receiver = self._receiver
        waiting = receiver.waiting()
        self._no_room = ""  # found out anew
        awaited = None if waiting is None else self._store.counts.taken + waiting
        group: Group = []
        size, most = 0, self._options.segment_rows
        began = last = time.monotonic()
        paused = False
        while True:
            left = _WAIT
            if group and not self._no_room:
                left = began + self._linger - time.monotonic()
            try:
                found = receiver.take(min(_WAIT, max(0.0, left)))
            except Exception:
                self._rescue(group)
                raise
            messages = found if isinstance(found, Values | Rows) else list(found)
            stopping = self._stop.is_set()
            for part in self._cut(messages, len(group)):
                if part:
                    last = time.monotonic()
                    began = began if group else last
                    part, new = refuse_large(part, self._options.max_message)
                    group = joined(group, part)
                    size += new
                full = size >= self._options.segment_bytes or len(group) >= most
                due = (
                    full or stopping or receiver.held() or time.monotonic() - began >= self._linger
                )
                if group and due and self._stored(group):
                    failpoint("ingress.before-acknowledge")
                    receiver.acknowledge(group)
                    failpoint("ingress.after-acknowledge")
                    group, size = [], 0
            if not group:
                self._keep()
            if stopping and (not group or self._no_room):
                return
            self._tidy()
            # What has no room here stays at the external system.
            high = self._unread > self._high_water
            if not paused and (high or self._no_room):
                receiver.pause()
            elif paused and not high and not self._no_room:
                receiver.resume()
            paused = bool(high or self._no_room)
            quiet = time.monotonic() - last > _QUIET
            here = awaited is not None and self._store.counts.taken >= awaited
            caught_up = receiver.caught_up()
            all_here = (quiet or here) if caught_up is None else caught_up
            # Without room, only those who read can make some.
            self._ready = self._ready or paused or (not group and all_here)
            if self._no_room:
                self.tell("full", self._no_room)
            elif high:
                self.tell("paused", f"{self._unread:,} bytes are unread")
            else:
                self.tell("running")

    def _cut(self, messages: Group, held: int) -> Iterator[Group]:
        """Yield messages in parts that segments have room for, if each could be the last that is stored.

        None could where a cursor says after which of them, and of no other, the external system goes on.

        Args:
            held: how many are to be stored before them, in the same segment.
        """
        most = self._options.segment_rows
        room = most - held
        if (
            isinstance(messages, Rows)
            or not 0 < room < len(messages)
            or self._receiver.cursor() is not None
            or has_cursor(messages)
        ):
            yield messages
            return
        yield cut(messages, 0, room)
        for at in range(room, len(messages), most):
            yield cut(messages, at, at + most)

    def _rescue(self, group: Group) -> None:
        """Store what was taken over a connection that is broken, where nobody gives it again."""
        if self._receiver.gives_again or not group:
            return
        while not self._stored(group) and not self._stop.wait(_RETRY):
            self.tell("full", self._no_room)

    def _stored(self, group: Group) -> bool:
        """Store a group; False if there is no room for it, which is retried after a while."""
        if self._no_room and time.monotonic() < self._again:
            return False
        cursor = self._receiver.cursor()
        given = () if cursor is None else (cursor,)
        complete = self._receiver.complete()
        return self._written(lambda: self._store.store(group, *given, complete=complete))

    def _keep(self) -> None:
        """Store where the external system goes on, if only that has changed."""
        cursor = self._receiver.cursor()
        if cursor is None or cursor == self._store.cursor:
            return
        if not self._no_room or time.monotonic() >= self._again:
            complete = self._receiver.complete()
            self._written(lambda: self._store.keep(cursor, complete=complete))

    def _written(self, write: Callable[[], None]) -> bool:
        """Write something; False if there is no room for it, which is retried after a while."""
        try:
            write()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise LogError(f"{self._store.folder}: {error.strerror}") from error
            self._no_room = f"{self._store.folder}: {error.strerror}"
            self._again = time.monotonic() + _RETRY
            return False
        self._no_room = ""
        return True

    def _tidy(self) -> None:
        """Remove what nobody wants any more, once a second."""
        now = time.monotonic()
        if now - self._tidied < _TIDY_EVERY:
            return
        self._tidied = now
        own, *gone = self._retentions
        try:
            all_gone = own.tidy(self._store.next, self._store.bytes)
            for retention in gone:
                all_gone = all_gone and retention.tidy_whole()
        except OSError as error:
            if error.errno not in NO_ROOM:  # the ids of a segment to be removed had no room
                raise LogError(f"{self._store.folder}: {error.strerror}") from error
        else:
            if not all_gone:  # what is left goes after the next look at the external system
                self._tidied = 0.0
        self._unread = own.unread(self._store.next, self._store.bytes)


def refuse_large(messages: Group, most: int) -> tuple[Group, int]:
    """Return messages, of which those with a value of more bytes are refused, and the bytes of all."""
    if isinstance(messages, Rows):
        parts = [
            p if isinstance(p, Columns) else list(refuse_large(p, most)[0]) for p in messages.parts
        ]
        messages = Rows(parts)
        return messages, messages.nbytes
    size = _bytes_of(messages)
    if size > most:
        messages = [
            _beginning(m, most) if m.value is not None and len(m.value) > most else m
            for m in messages
        ]
        size = _bytes_of(messages)
    return messages, size


def _bytes_of(messages: list[Message] | Values) -> int:
    if isinstance(messages, Values):
        return sum(map(len, messages.values))  # type: ignore[arg-type]
    return sum([len(m.value) for m in messages if m.value is not None])


def _beginning(message: Message, most: int) -> Message:
    value = message.value or b""
    reason = f"its value has {len(value):,} bytes, and max_message is {most:,}"
    if len(value) > _KEPT:
        reason += f"; here are the first {_KEPT:,}"
    return message._replace(value=value[:_KEPT], refused=reason)
