"""Dispatches messages by a sender: what is in flight, what is sent again, and when to give up.

So many messages are in flight at a time. What has no answer when a connection ends is sent again over the
next, and so is what the external system can't take for now, once all others in flight have their answers.

With an order, the last message of a lane stays the last: one that is sent again takes all later ones of
its lane with it, also those that were accepted. So an accepted message is remembered until all before it
are settled, and what is in flight is counted from the oldest that is not. Where a later copy would not
help (the external system drops it, or keeps no order of what is in flight), `LaneDispatcher` has one
message of a lane in flight at a time.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mainstem import FencedError, PermanentError, RefusedRowError, TransientError
from mainstem.patience import Patience

from mainstem_egress.sender import Answer, Fate, MessageFault, Sendable, Sender

_LOG = logging.getLogger(__name__)

#: Numbers with none of these bits: between two looks at the answers there are so many messages and one.
_STRIDE = 63
#: The longest that answers are waited for before the clock is looked at, in seconds.
_LONGEST_WAIT = 0.5


@dataclass
class Counts:
    """What was done so far, in messages.

    Attributes:
        sent: how many went out, those that went out again too.
        again: how many of them were to go out again.
        accepted: how many the external system has.
        refused: how many it will never take.
        connections: how many connections were made.
    """

    sent: int = 0
    again: int = 0
    accepted: int = 0
    refused: int = 0
    connections: int = 0


class Dispatcher:
    """Dispatches messages by one sender.

    Args:
        sender: is driven by this alone.
        refuse: called with a message that is refused for good, and the reason; from within `send` and
            `flush`.
        in_flight: how many messages may be without an answer.
        in_flight_bytes: how many bytes of them.
        ordered: whether messages of a lane keep their order.
        answer_timeout: after how many seconds without an answer to the oldest message in flight a
            connection is given up; None for never.
        give_up: after how many seconds without any progress to raise.
    """

    def __init__(
        self,
        sender: Sender,
        refuse: Callable[[Sendable, str], None],
        *,
        in_flight: int = 1000,
        in_flight_bytes: int = 32 * 2**20,
        ordered: bool = True,
        answer_timeout: float | None = 30.0,
        give_up: float = 300.0,
    ) -> None:
        self._sender, self._send = sender, sender.send
        #: By number, what was sent and is not settled: without an answer or, in an order, behind such.
        self._log: dict[int, Sendable] = {}
        sender.in_flight = self._log
        self._refuse = refuse
        self._most = in_flight
        self._most_bytes = in_flight_bytes
        self._ordered = ordered
        self._silence = answer_timeout
        self._patience = Patience(give_up)
        #: Since when nothing is waited for, which does not count towards giving up; None while it is.
        self._idle: float | None = time.monotonic()
        self._counts = Counts()
        self._sent_before, self._next = 0, 1
        self._connected = False
        #: Whether the next message can go as it is: nothing is to be sent before it.
        self._clear = False
        #: What is to be sent again, before anything else.
        self._again: deque[Sendable] = deque()
        #: Of those, how many are sent one at a time, since one of them ended the connection.
        self._single = 0
        self._trouble = ""
        self._begin()

    def _begin(self) -> None:
        """Begin to count anew, as for each connection."""
        self._sent_before += self._next - 1
        self._log.clear()
        self._next = self._low = self._oldest = 1
        self._bytes = 0
        self._accepted: set[int] = set()
        self._retry: set[int] = set()
        #: Since when answers were waited for while the oldest in flight has been that; None if they were
        #: not, as while messages come slowly.
        self._since: float | None = None

    @property
    def counts(self) -> Counts:
        """What was done so far."""
        sent = self._sent_before + self._next - 1
        return replace(self._counts, sent=sent)

    # -- for the user -----------------------------------------------------------------------

    def send(self, message: Sendable) -> None:
        """Send a message as soon as there is room; returns before it has an answer.

        Raises:
            PermanentError: see `flush`; nothing can be sent any more.
        """
        size, room = message.size, self._most_bytes - self._bytes
        if not (self._clear and size <= room and 0 < len(self._log) < self._most):
            self._make_ready(size)
        number = self._next  # as in `_put`, whose call would be a tenth of the time
        self._log[number] = message
        self._next = number + 1
        self._bytes += size
        try:
            self._send(number, message)
        except Exception as error:
            self._not_sent(number, error)
        if not number & _STRIDE and self._connected:
            self._listen(0.0)

    def flush(self) -> None:
        """Wait until each message is accepted or refused.

        Raises:
            PermanentError: no retry helps, or nothing has gone forward for `give_up`.
            FencedError: another run writes there now.
        """
        self._look()
        while self._log or self._again:
            self._step()
        self._idle = time.monotonic()

    def connect(self) -> None:
        """Connect now, so that what can't be mended shows before the first message.

        Raises:
            PermanentError: see `flush`.
        """
        self._patience.progress()
        self._connect()

    def close(self) -> None:
        """End the connection; messages without an answer may or may not have arrived."""
        if self._connected:
            self._end()

    # -- driving ----------------------------------------------------------------------------

    def _unsettled(self) -> int:
        """Return how many messages were handed to `send` and are in flight or held."""
        return len(self._log)

    def _full(self, size: int) -> bool:
        count = self._unsettled()
        return count >= self._most or (self._bytes + size > self._most_bytes and count > 0)

    def _make_ready(self, size: int) -> None:
        """Let there be room for a message, and nothing that is to be sent before it."""
        if not self._log and not self._again:
            self._patience.progress()  # nothing was waited for until now
            self._since = None
        if not self._clear or self._full(size):
            self._make_room(size)

    def _make_room(self, size: int) -> None:
        self._look()
        most = self._most - max(1, self._most // 8)  # for several, to be sent at a time
        while True:
            self._step()
            self._clear = not self._again and not self._retry and self._connected
            if self._clear and self._unsettled() <= most and not self._full(size):
                break
        self._idle = time.monotonic()

    def _look(self) -> None:
        """Begin to wait: take what came while nobody did, before the time that is left is looked at."""
        self._skip_idle()
        self._idle = None
        if self._connected and self._due():
            self._listen(0.0)

    def _skip_idle(self) -> None:
        if self._idle is not None:
            self._patience.skip(time.monotonic() - self._idle)
            self._idle = time.monotonic()

    def _step(self) -> None:
        """Do what is due, and wait for answers a little."""
        if not self._connected:
            self._connect()
        if self._retry:
            if self._due():
                self._listen(self._time_left())
            else:
                self._take_back()
                self._pause(self._trouble)
            return
        most = 1 if self._single else self._most
        while self._again and len(self._log) < most and not self._full(self._again[0].size):
            if not self._log:
                self._since = None
            message = self._again.popleft()
            self._put(message, message.size)
            if not self._connected:
                return
        if self._due():
            self._listen(self._time_left())

    def _due(self) -> int:
        """Return how many answers are due."""
        return len(self._log) - len(self._accepted) - len(self._retry)

    def _put(self, message: Sendable, size: int) -> None:
        number = self._next
        self._log[number] = message
        self._next = number + 1
        self._bytes += size
        try:
            self._send(number, message)
        except Exception as error:
            self._not_sent(number, error)

    def _not_sent(self, number: int, error: Exception) -> None:
        """Deal with a message that `send` has raised an error for."""
        if isinstance(error, PermanentError | FencedError):
            raise error
        if isinstance(error, RefusedRowError):
            self._settle(number, str(error))
            self._next = number  # the next message has the number
            self._low = min(self._low, number)
        else:
            self._lost(error)

    def _listen(self, seconds: float) -> None:
        """Take the answers that have come, waiting for the first for so long at most."""
        if seconds > 0 and self._since is None:
            self._since = time.monotonic()
        try:
            came = False
            for answer in self._sender.answers(min(seconds, _LONGEST_WAIT)):
                self._take(answer)
                came = True
            if came and (self._low != self._oldest or self._low in self._retry):
                self._since, self._oldest = None, self._low
        except (PermanentError, FencedError):
            raise
        except Exception as error:
            self._lost(error)
            return
        if self._silence is None or self._since is None or not self._due():
            return
        if time.monotonic() - self._since <= self._silence:
            return
        if self._sender.blocked():
            self._since = None
        else:
            self._lost(TimeoutError(f"no answer for {self._silence:g} s (answer_timeout)"))

    def _time_left(self) -> float:
        """Return how long may be waited.

        Raises:
            PermanentError: no longer.
        """
        left = self._patience.left()
        if left > 0:
            return left
        count = len(self._again) + self._unsettled() - len(self._accepted)
        what = f"{count} messages were not accepted" if count else "could not connect"
        raise PermanentError(
            f"{self._where()}{what}, with no progress for {self._patience.seconds:g} s (give_up): "
            f"{self._sender.blocked() or self._trouble or 'no answer came'}"
        )

    def _where(self) -> str:
        place = self._sender.place()
        return f"{place}: " if place else ""

    def _pause(self, why: str) -> None:
        """Wait before the next try, each time longer; a connection that is there stays alive."""
        self._trouble = why
        until = time.monotonic() + min(self._patience.pause(), self._time_left())
        while (left := until - time.monotonic()) > 0:
            if self._connected:
                self._listen(0.0)
            time.sleep(min(left, _LONGEST_WAIT))

    # -- connecting -------------------------------------------------------------------------

    def _connect(self) -> None:
        while not self._connected:
            try:
                self._sender.connect()
            except BaseException as error:
                self._end()
                if not isinstance(error, Exception) or isinstance(
                    error, PermanentError | FencedError
                ):
                    raise
                self._pause(f"can't connect: {_words(error)}")
            else:
                self._connected = True
                self._counts.connections += 1
                self._since = None

    def _end(self) -> None:
        self._connected = self._clear = False
        with suppress(Exception):  # it may be broken already
            self._sender.close()

    def _lost(self, error: Exception) -> None:
        """Take back what has no answer, to send it over another connection."""
        self._skip_idle()
        self._end()
        alone = next(iter(self._log.values())) if len(self._log) == 1 else None
        self._take_back()
        self._begin()
        if isinstance(error, MessageFault) and self._again:
            if alone is not None:
                self._again.popleft()
                self._counts.again -= 1
                self._single = max(0, self._single - 1)
                self._patience.progress()
                self._refused(alone, _words(error))
            else:
                self._single = max(self._single, len(self._again))
            return
        _LOG.warning("%sthe connection was lost: %s", self._where(), _words(error))
        self._pause(f"the connection was lost: {_words(error)}")

    # -- what is in flight ------------------------------------------------------------------

    def _take(self, answer: Answer) -> None:
        first, last, fate, reason = answer
        log, accepted, retry = self._log, self._accepted, self._retry
        if fate is Fate.ACCEPTED and first <= self._low and not accepted and not retry:
            self._accept(min(last, self._next - 1))
            return
        for number in range(max(first, self._low), last + 1):
            if number not in log or number in accepted or number in retry:
                continue
            if fate is Fate.RETRY:
                retry.add(number)
                self._trouble, self._clear = reason, False
            else:
                self._settle(number, reason if fate is Fate.REFUSED else None)

    def _accept(self, last: int) -> None:
        """Note that all from the oldest on were accepted: what most answers say."""
        log = self._log
        count = len(log)
        if last + 1 == self._next:
            log.clear()
            self._bytes = 0
        for number in range(self._low, last + 1 if log else 0):
            if (message := log.pop(number, None)) is not None:
                self._bytes -= message.size
        self._low = max(self._low, last + 1)
        count -= len(log)
        if count:
            self._counts.accepted += count
            self._single = max(0, self._single - count)
            self._patience.progress()

    def _settle(self, number: int, reason: str | None = None) -> None:
        """Note that a message was accepted, or is refused for a reason."""
        self._patience.progress()
        if self._single:
            self._single -= 1
        if reason is None and self._ordered:
            self._counts.accepted += 1
            self._accepted.add(number)
        else:
            message = self._log.pop(number)
            self._bytes -= message.size
            if reason is None:
                self._counts.accepted += 1
            else:
                self._refused(message, reason)
        low, log, accepted = self._low, self._log, self._accepted
        while low < self._next and (low in accepted or low not in log):
            if low in accepted:
                accepted.discard(low)
                self._bytes -= log.pop(low).size
            low += 1
        self._low = low

    def _refused(self, message: Sendable, reason: str) -> None:
        self._counts.refused += 1
        self._refuse(message, reason)

    def _take_back(self) -> None:
        """Put what is not accepted, and all later messages of its lanes, before what is to be sent.

        Called when no more answers will come of what is in flight.
        """
        lanes = set()
        back = []
        for number, message in self._log.items():
            if number not in self._accepted or message.lane in lanes:
                if self._ordered and message.lane is not None:
                    lanes.add(message.lane)
                self._counts.accepted -= number in self._accepted
                back.append(message)
        self._log.clear()
        self._accepted.clear()
        self._retry.clear()
        self._bytes, self._low = 0, self._next
        self._counts.again += len(back)
        self._again.extendleft(reversed([*back, *self._let_go()]))

    def _let_go(self) -> list[Sendable]:
        """Return what waits for messages in flight, in its order, and hold it no longer."""
        return []


class LaneDispatcher(Dispatcher):
    """Dispatches so that a message of a lane is in flight only when the one before it is settled."""

    def __init__(
        self, sender: Sender, refuse: Callable[[Sendable, str], None], **options: Any
    ) -> None:
        super().__init__(sender, refuse, **options, ordered=False)
        #: Lanes that have a message in flight, with what waits for its end.
        self._lanes: dict[Hashable, deque[Sendable]] = {}
        self._held = 0
        #: Lanes whose next message can be sent.
        self._free: deque[Hashable] = deque()

    def send(self, message: Sendable) -> None:
        size = message.size
        if not (self._clear and self._log) or self._full(size):
            self._make_ready(size)
        self._put(message, size)
        if not self._next & _STRIDE and self._connected:
            self._listen(0.0)

    def _unsettled(self) -> int:
        return len(self._log) + self._held

    def _put(self, message: Sendable, size: int) -> None:
        lane = message.lane
        if lane in self._lanes:
            self._lanes[lane].append(message)
            self._held += 1
            self._bytes += size
            return
        if lane is not None:
            self._lanes[lane] = deque()
        super()._put(message, size)
        self._follow()

    def _listen(self, seconds: float) -> None:
        super()._listen(seconds)
        self._follow()

    def _follow(self) -> None:
        """Send what waited for messages that are settled now."""
        while self._free and self._connected:
            lane = self._free.popleft()
            if waiting := self._lanes[lane]:
                message = waiting.popleft()
                self._held -= 1
                self._bytes -= message.size
                super()._put(message, message.size)
            else:
                del self._lanes[lane]

    def _accept(self, last: int) -> None:
        for number in range(self._low, last + 1):
            if number in self._log:
                self._settle(number)

    def _settle(self, number: int, reason: str | None = None) -> None:
        lane = self._log[number].lane
        super()._settle(number, reason)
        if lane is not None:
            self._free.append(lane)

    def _let_go(self) -> list[Sendable]:
        waiting = [message for lane in self._lanes.values() for message in lane]
        self._lanes.clear()
        self._free.clear()
        self._held = 0
        return waiting


def _words(error: BaseException) -> str:
    expected = isinstance(error, TransientError | MessageFault | OSError) and str(error)
    return str(error) if expected else f"{type(error).__name__}: {error}"
