"""Dispatches messages by a sender: what is in flight, what is sent again, and when to give up.

So many messages are in flight at a time. What has no answer when a connection ends is sent again over the
next, and so is what the external system can't take for now, once all others in flight have their answers.

With an order, the last message of a lane stays the last: one that is sent again takes all later ones of
its lane with it, also those that were accepted. So an accepted message is remembered until all before it
are settled, and what is in flight is counted from the oldest that is not.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from mainstem import FencedError, Patience, PermanentError, TransientError

from mainstem_egress.sender import Answer, Fate, MessageFault, OutMessage, Refusal, Sender

_LOG = logging.getLogger(__name__)

#: Messages between two looks at the answers.
_STRIDE = 64
#: The longest that answers are waited for before the clock is looked at, in seconds.
_LONGEST_WAIT = 0.5


@dataclass
class Counts:
    """What was done so far, in messages.

    Attributes:
        sent: how many went out, those that went out again too.
        again: how many went out again.
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
        answer_timeout: after how many seconds without an answer a connection is given up; None for never.
        give_up: after how many seconds without any progress to raise.

    Attributes:
        counts: what was done so far.
    """

    def __init__(
        self,
        sender: Sender,
        refuse: Callable[[OutMessage, str], None],
        *,
        in_flight: int = 1000,
        in_flight_bytes: int = 32 * 2**20,
        ordered: bool = True,
        answer_timeout: float | None = 30.0,
        give_up: float = 300.0,
    ) -> None:
        self._sender = sender
        self._refuse = refuse
        self._most = in_flight
        self._most_bytes = in_flight_bytes
        self._ordered = ordered
        self._silence = answer_timeout
        self._patience = Patience(give_up)
        self.counts = Counts()
        self._connected = False
        #: What is to be sent again, before anything else.
        self._again: deque[OutMessage] = deque()
        #: Of those, how many are sent one at a time, since one of them ended the connection.
        self._single = 0
        self._trouble = ""
        self._stride = 0
        self._begin()

    def _begin(self) -> None:
        """Begin to count anew, as for each connection."""
        #: By number, what was sent and is not settled: without an answer or, in an order, behind such.
        self._log: dict[int, OutMessage] = {}
        self._next = self._low = 1
        self._bytes = 0
        self._accepted: set[int] = set()
        self._retry: set[int] = set()
        self._answered = time.monotonic()

    # -- for the user -----------------------------------------------------------------------

    def send(self, message: OutMessage) -> None:
        """Send a message as soon as there is room; returns before it has an answer.

        Raises:
            PermanentError: see `flush`; nothing can be sent any more.
        """
        if not self._log and not self._again:
            self._patience.progress()  # nothing was waited for until now
        if self._again or self._retry or not self._connected or self._full(message.size):
            self._make_room(message.size)
        self._put(message)
        self._stride += 1
        if self._stride >= _STRIDE and self._connected:
            self._stride = 0
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

    def _full(self, size: int) -> bool:
        if not self._log:
            return False
        count = self._next - self._low if self._ordered else len(self._log)
        return count >= self._most or self._bytes + size > self._most_bytes

    def _make_room(self, size: int) -> None:
        self._look()
        most = self._most - max(1, self._most // 8)  # for several, to be sent at a time
        while True:
            self._step()
            count = self._next - self._low if self._ordered else len(self._log)
            at_rest = not self._again and not self._retry and self._connected
            if at_rest and count <= most and not self._full(size):
                return

    def _look(self) -> None:
        """Take what came while nobody waited, before the time that is left is looked at."""
        if self._connected and self._due():
            self._listen(0.0)

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
            self._put(self._again.popleft(), again=True)
            if not self._connected:
                return
        if self._due():
            self._listen(self._time_left())

    def _due(self) -> int:
        """Return how many answers are due."""
        return len(self._log) - len(self._accepted) - len(self._retry)

    def _put(self, message: OutMessage, *, again: bool = False) -> None:
        number = self._next
        if not self._log:
            self._answered = time.monotonic()
        self._log[number] = message
        self._next += 1
        self._bytes += message.size
        self.counts.sent += 1
        self.counts.again += again
        try:
            self._sender.send(number, message.content)
        except Refusal as error:
            self._settle(number, str(error))
            self._next -= 1  # the next message has the number
            self._low = min(self._low, self._next)
        except (PermanentError, FencedError):
            raise
        except Exception as error:
            self._lost(error)

    def _listen(self, seconds: float) -> None:
        """Take the answers that have come, waiting for the first for so long at most."""
        try:
            for answer in self._sender.answers(min(seconds, _LONGEST_WAIT)):
                self._take(answer)
        except (PermanentError, FencedError):
            raise
        except Exception as error:
            self._lost(error)
            return
        if self._silence is None or not self._due():
            return
        if time.monotonic() - self._answered > self._silence:
            self._lost(TimeoutError(f"no answer for {self._silence:g} s (answer_timeout)"))

    def _time_left(self) -> float:
        """Return how long may be waited.

        Raises:
            PermanentError: no longer.
        """
        left = self._patience.left()
        if left > 0:
            return left
        count = len(self._again) + len(self._log) - len(self._accepted)
        what = f"{count} messages were not accepted" if count else "could not connect"
        raise PermanentError(
            f"{self._where()}{what}, with no progress for {self._patience.seconds:g} s (give_up): "
            f"{self._trouble or 'no answer came'}"
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
                self.counts.connections += 1
                self._answered = time.monotonic()

    def _end(self) -> None:
        self._connected = False
        with suppress(Exception):  # it may be broken already
            self._sender.close()

    def _lost(self, error: Exception) -> None:
        """Take back what has no answer, to send it over another connection."""
        self._end()
        alone = next(iter(self._log.values())) if len(self._log) == 1 else None
        self._take_back()
        self._begin()
        if isinstance(error, MessageFault) and self._again:
            if alone is not None:
                self._again.popleft()
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
        self._answered = time.monotonic()
        log, accepted, retry = self._log, self._accepted, self._retry
        for number in range(max(first, self._low), last + 1):
            if number not in log or number in accepted or number in retry:
                continue
            if fate is Fate.RETRY:
                retry.add(number)
                self._trouble = reason
            else:
                self._settle(number, reason if fate is Fate.REFUSED else None)

    def _settle(self, number: int, reason: str | None = None) -> None:
        """Note that a message was accepted, or is refused for a reason."""
        self._patience.progress()
        if self._single:
            self._single -= 1
        if reason is None and self._ordered:
            self.counts.accepted += 1
            self._accepted.add(number)
        else:
            message = self._log.pop(number)
            self._bytes -= message.size
            if reason is None:
                self.counts.accepted += 1
            else:
                self._refused(message, reason)
        low, log, accepted = self._low, self._log, self._accepted
        while low < self._next and (low in accepted or low not in log):
            if low in accepted:
                accepted.discard(low)
                self._bytes -= log.pop(low).size
            low += 1
        self._low = low

    def _refused(self, message: OutMessage, reason: str) -> None:
        self.counts.refused += 1
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
                self.counts.accepted -= number in self._accepted
                back.append(message)
        self._log.clear()
        self._accepted.clear()
        self._retry.clear()
        self._bytes, self._low = 0, self._next
        self._again.extendleft(reversed(back))


def _words(error: BaseException) -> str:
    expected = isinstance(error, TransientError | MessageFault | OSError) and str(error)
    return str(error) if expected else f"{type(error).__name__}: {error}"
