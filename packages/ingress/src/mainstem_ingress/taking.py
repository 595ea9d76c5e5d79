"""What a receiver's process does: take, group, store, acknowledge; wait for who is away."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from mainstem import failpoint

from mainstem_ingress.errors import Unmendable, Unreachable
from mainstem_ingress.messages import Message
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.storing import Store
from mainstem_ingress.writing import Writer

#: How long to wait for messages at most, in seconds: with nothing to do, and with a group in hand.
_WAIT, _BUSY_WAIT = 0.1, 0.002
_TELL_EVERY = 1.0
#: When no message has come for so long, all that was waiting at the far side is here.
_QUIET = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
#: How much of a refused message's value is kept.
_KEPT = 64 * 1024

#: Is told what the process does: see `Taking.tell`.
Tell = Callable[[dict[str, Any]], None]


class Taking:
    """The work of one receiver.

    Args:
        tell: is told about once a second, and when something changes, of `state` (`connecting`,
            `running`, `waiting` for the far side, `paused` above the high-water mark, disk `full`),
            `why`, the counts, the bytes not yet read, and `ready`: that a bounded run can begin.
        stop: when set, what was taken is stored and acknowledged, and the work ends.
    """

    def __init__(
        self,
        receiver: Receiver,
        store: Store,
        writer: Writer,
        options: IngressOptions,
        tell: Tell,
        stop: threading.Event,
    ) -> None:
        self._receiver = receiver
        self._store = store
        self._writer = writer
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
            Unmendable: the far side refuses for good.
            LogError: the log can't be written to.
            OSError: the same.
        """
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            self.tell("connecting")
            began = time.monotonic()
            try:
                try:
                    self._receiver.connect(self._store.cursor)
                    self._session()
                finally:
                    self._receiver.close()
            except Unmendable:
                raise
            except Exception as error:
                self._writer.give_up()  # raises what is wrong with the log itself
                if time.monotonic() - began > _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE
                why = (
                    str(error)
                    if isinstance(error, Unreachable)
                    else f"{type(error).__name__}: {error}"
                )
                self.tell("waiting", why)
                self._stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311  # jitter
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = _FIRST_PAUSE

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
                "unread_bytes": self._writer.unread,
                "ready": self._ready,
                **self._receiver.facts(),
            }
        )

    def _session(self) -> None:
        """Take messages over one connection, until told to stop or the connection breaks."""
        receiver, writer = self._receiver, self._writer
        waiting = receiver.waiting()
        awaited = None if waiting is None else self._store.counts.taken + waiting
        group: list[Message] = []
        size = 0
        began = last = time.monotonic()
        paused = False
        while True:
            if not group:
                wait = _WAIT if writer.idle else _BUSY_WAIT
            elif writer.idle:
                wait = max(0.0, min(_WAIT, began + self._linger - time.monotonic()))
            else:
                wait = _BUSY_WAIT
            messages = list(receiver.take(wait))
            if messages:
                last = time.monotonic()
                began = began if group else last
                size += self._refuse_large(messages)
                group += messages
            full = size >= self._options.segment_bytes or len(group) >= self._options.segment_rows
            if full and not writer.idle:
                writer.wait(0.05)
            self._acknowledge()
            due = full or time.monotonic() - began >= self._linger or self._stop.is_set()
            if group and due and writer.idle:
                writer.put(group)
                group, size = [], 0
            # What has no room here stays at the far side.
            no_room = (full and not writer.idle) or writer.full or writer.unread > self._high_water
            if no_room and not paused:
                receiver.pause()
            elif paused and not no_room:
                receiver.resume()
            paused = bool(no_room)
            settled = not group and writer.idle
            if self._stop.is_set() and (settled or writer.full):
                self._acknowledge()
                return
            quiet = time.monotonic() - last > _QUIET
            if settled and (quiet or (awaited is not None and self._store.counts.taken >= awaited)):
                self._ready = True
            if writer.full:
                self.tell("full", writer.full)
            elif paused and writer.unread > self._high_water:
                self.tell("paused", f"{writer.unread:,} bytes are unread")
            else:
                self.tell("running")

    def _acknowledge(self) -> None:
        stored = self._writer.take_stored()
        if stored:
            failpoint("ingress.before-acknowledge")
            self._receiver.acknowledge(stored)
            failpoint("ingress.after-acknowledge")

    def _refuse_large(self, messages: list[Message]) -> int:
        """Refuse messages that are too large, in place; return the bytes of all values."""
        most = self._options.max_message
        size = sum([len(m.value) for m in messages if m.value is not None])
        if size > most:
            for index, m in enumerate(messages):
                if m.value is not None and len(m.value) > most:
                    messages[index] = _beginning(m, most)
            size = sum([len(m.value) for m in messages if m.value is not None])
        return size


def _beginning(message: Message, most: int) -> Message:
    value = message.value or b""
    reason = f"its value has {len(value):,} bytes, and max_message is {most:,}"
    if len(value) > _KEPT:
        reason += f"; here are the first {_KEPT:,}"
    return message._replace(value=value[:_KEPT], refused=reason)
