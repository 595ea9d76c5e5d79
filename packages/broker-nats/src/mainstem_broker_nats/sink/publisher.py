"""Publishes messages to a stream and knows of each one's fate: acknowledged, or refused for good.

A window of messages is on its way at a time. What the stream can't take for now is sent again, and so is
what got no answer, until nothing has gone forward for `give_up`. As soon as one message failed, no
further ones are sent until all that are on their way have their answers; then those that failed go first,
in their order. So the messages of a subject change places only where the stream took a later one while
it refused an earlier one, both on their way; with `ordered` only one of a subject ever is.

A message that is sent again after its answer was lost is known to the stream by its id, as long as that
is in the stream's duplicate window. The log tells when one is sent again later than that.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import takewhile

from mainstem import Patience

from mainstem_broker_nats.connecting import APIError, ConnectionOptions, NATSError, places
from mainstem_broker_nats.sink.answers import Verdict, forbidden, is_acknowledged, is_known, judge
from mainstem_broker_nats.sink.known import Unanswered, is_there
from mainstem_broker_nats.sink.link import Link
from mainstem_broker_nats.sink.messages import Message
from mainstem_broker_nats.sink.stream import window_of
from mainstem_broker_nats.sink.subjects import matches

_LOG = logging.getLogger(__name__)

#: The most that is on its way, in bytes.
_MOST_BYTES = 32 * 1024 * 1024
#: The longest that answers are waited for before the clock is looked at, in seconds.
_LONGEST_WAIT = 0.5


class PublishError(NATSError):
    """Messages could not be published, and trying on makes no sense; none of them was dropped."""

    def __init__(self, message: str) -> None:
        super().__init__(message, lasting=True)


class Publisher:
    """Publishes to one stream over one connection.

    Args:
        options: of the connection.
        name: what the server's monitoring shows.
        stream: the stream that takes the messages.
        refused: called with a message that is refused for good, and the reason; from within `send` and
            `flush`.
        window: how many messages are on their way at a time.
        give_up: after how many seconds without any progress to raise.
        ordered: whether a message waits until the one before it of the same subject is acknowledged.
        expect: what the messages' expected sequences are of: `stream` or `subject`.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        name: str,
        stream: str,
        refused: Callable[[Message, str], None],
        *,
        window: int = 1000,
        give_up: float = 300.0,
        ordered: bool = False,
        expect: str = "subject",
    ) -> None:
        self._options = options
        self._name = name
        self._stream = stream
        self._refuse = refused
        self._window = window
        self._patience = Patience(give_up)
        self._ordered = ordered
        self._expect = expect
        self._silence = options.answer_timeout.total_seconds()
        self._link: Link | None = None
        self._subjects: tuple[str, ...] = ()
        self._taken: dict[str, str] = {}
        self._complaints = 0
        #: On their way, by number, with when they were sent; in that order.
        self._log: dict[int, tuple[Message, float]] = {}
        self._next = 0
        self._bytes = 0
        self._failed: list[tuple[int, Message]] = []
        self._again: deque[Message] = deque()
        self._unanswered = Unanswered(stream)
        #: Subjects of which one is on its way, with what waits for that; for `ordered`.
        self._busy: dict[str, deque[Message]] = {}
        self._held = 0
        self._turn = 0
        self._answered = time.monotonic()
        self._newest = -1  # the highest number that was answered
        self._trouble = ""
        #: How many messages were there already.
        self.known = 0

    # -- for the user -----------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Publish a message as soon as the window has room; returns before it is acknowledged.

        Raises:
            PublishError: see the class; nothing can be sent any more.
        """
        if not self._log and not self._again:
            self._patience.progress()  # nothing was waited for until now
        if (
            self._link is None
            or self._failed
            or self._again
            or len(self._log) + self._held >= self._window
            or self._bytes > _MOST_BYTES
        ):
            self._make_room()
        self._put(message)
        if self._link is not None and self._link.full:
            self._look(0)

    def flush(self) -> None:
        """Wait until each message is acknowledged or refused.

        Raises:
            PublishError: see the class.
        """
        while self._log or self._failed or self._again:
            self._step(all_of_them=True)

    def connect(self) -> None:
        """Connect now, so that what can't be mended shows before the first message.

        Raises:
            PublishError: no server lets us in, or the stream is not there.
        """
        if self._link is None:
            self._patience.progress()
            self._connect()

    def close(self) -> None:
        """End the connection; messages that are not acknowledged may or may not have arrived."""
        if self._link is not None:
            self._link.close()
            self._link = None

    # -- driving ----------------------------------------------------------------------------

    def _make_room(self) -> None:
        most = self._window - max(1, self._window // 8)  # several, to be written at a time
        while True:
            self._step()
            room = len(self._log) + self._held <= most and self._bytes <= _MOST_BYTES
            if room and not self._failed and not self._again and self._link is not None:
                return

    def _step(self, *, all_of_them: bool = False) -> None:
        """Do what is due, and wait for answers a little."""
        if self._link is None:
            self._connect()
        if self._failed and not self._log:
            self._take_back()
            self._pause()
            self._find_stream()
            return
        while (
            self._again
            and not self._failed
            and len(self._log) < self._window
            and self._bytes <= _MOST_BYTES
        ):
            self._put(self._again.popleft())
        if self._log:
            wanted = len(self._log) if all_of_them else max(1, self._window // 8)
            self._look(min(self._time_left(), _LONGEST_WAIT), min(wanted, len(self._log)))
            self._check_silence()

    def _put(self, message: Message) -> None:
        assert self._link is not None  # noqa: S101
        why = self._link.fits(message) or self._fits_stream(message.subject)
        if why:
            self._refuse(message, why)
        elif self._ordered and message.subject in self._busy:
            self._busy[message.subject].append(message)
            self._held += 1
        else:
            self._launch(message)

    def _launch(self, message: Message) -> None:
        if self._ordered:
            self._busy.setdefault(message.subject, deque())
        now = time.monotonic()
        if not self._log:
            self._answered = now
        self._unanswered.check(message, now)
        self._log[self._next] = message, now
        self._bytes += len(message.body)
        self._link.put(message, self._next)  # type: ignore[union-attr]
        self._next += 1

    def _look(self, seconds: float, enough: int = 1) -> None:
        """Write what was put, and take the answers that have come."""
        link = self._link
        assert link is not None  # noqa: S101
        try:
            found = link.poll(seconds, enough)
        except NATSError as error:
            self._after_loss(str(error))
            return
        if found:
            self._answered = time.monotonic()
        for number, data, headers in found:
            self._answer(number, data, headers)
        if len(link.connection.complaints) > self._complaints:
            self._forbidden(link)
        if lost := link.lost:
            self._after_loss(lost)
        elif found:
            self._check_overtaken()

    def _time_left(self) -> float:
        """Return how long may be waited.

        Raises:
            PublishError: no longer.
        """
        left = self._patience.left()
        if left > 0:
            return left
        waiting = len(self._again) + len(self._log) + len(self._failed) + self._held
        what = f"{waiting} messages were not acknowledged" if waiting else "could not connect"
        why = self._trouble or "no answer came"
        raise PublishError(
            f"{what}, with no progress for {self._patience.seconds:g} s (give_up), at "
            f"{', '.join(places(self._options))}, stream {self._stream}: {why}"
        )

    def _pause(self) -> None:
        """Wait before the next try, each time longer."""
        time.sleep(min(self._patience.pause(), self._time_left()))

    # -- connecting -------------------------------------------------------------------------

    def _connect(self) -> None:
        while True:
            try:
                link = Link.open(self._options, self._name, self._turn)
            except NATSError as error:
                if error.lasting:
                    raise PublishError(f"can't publish to stream {self._stream}: {error}") from None
                self._trouble = str(error)
                self._pause()
                continue
            self._link, self._complaints = link, 0
            self._turn += 1  # after a loss another one of the servers is tried first
            self._find_stream()
            if self._link is not None:
                return

    def _find_stream(self) -> None:
        """Learn which subjects the stream takes, and for how long it knows its messages.

        Raises:
            PublishError: there is no such stream.
        """
        assert self._link is not None  # noqa: S101
        try:
            found = self._link.connection.ask(f"STREAM.INFO.{self._stream}")
        except NATSError as error:
            if isinstance(error, APIError) and error.code == 404:
                raise PublishError(f"there is no stream {self._stream}: {error}") from None
            if error.lasting:
                raise PublishError(f"can't look at stream {self._stream}: {error}") from None
            self._after_loss(str(error))
            self._pause()
            return
        self._subjects = tuple(found["config"].get("subjects") or ())
        self._unanswered.window = window_of(found["config"])
        self._taken.clear()

    def _fits_stream(self, subject: str) -> str:
        """Return why the stream would not take a subject, or an empty string."""
        told = self._taken.get(subject)
        if told is None:
            told = ""
            if not any(matches(subject, pattern) for pattern in self._subjects):
                takes = ", ".join(self._subjects) or "none"
                told = f"stream {self._stream} does not take subject {subject!r}, but {takes}"
            if len(self._taken) > 10_000:
                self._taken.clear()
            self._taken[subject] = told
        return told

    def _after_loss(self, why: str) -> None:
        """Take back what was on its way, to send it on another connection."""
        assert self._link is not None  # noqa: S101
        _LOG.warning("connection to NATS lost: %s", why)
        self._trouble = f"the connection was lost: {why}"
        self._link.close()
        self._link = None
        if self._log or self._failed:
            self._take_back()
            self._pause()

    def _check_silence(self) -> None:
        """Take back what will have no answer any more: the stream changed its leader, or was full."""
        if self._log and time.monotonic() - self._answered > self._silence:
            self._give_up_waiting()

    def _check_overtaken(self) -> None:
        """Take back what has long had no answer while later messages have theirs: that one got lost."""
        oldest = next(iter(self._log), self._newest)
        if oldest < self._newest and self._answered - self._log[oldest][1] > self._silence:
            self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        self._trouble = f"no answer for {self._silence:g} s (answer_timeout)"
        self._take_back()

    def _take_back(self) -> None:
        """Put what has no answer, and what failed, before what is to be sent, in its order."""
        self._unanswered.add(self._log.values())
        unanswered = [(number, message) for number, (message, _) in self._log.items()]
        back = [message for _, message in sorted([*unanswered, *self._failed])]
        self._log, self._failed, self._bytes = {}, [], 0
        if self._ordered:
            # What waits for one of these comes after it, and before what is to be sent again.
            for message in list(back):
                back += self._busy.pop(message.subject, ())
            self._held = 0
        self._again.extendleft(reversed(back))

    # -- answers ----------------------------------------------------------------------------

    def _answer(self, number: int, data: bytes, headers: bytes | None) -> None:
        sent = self._log.pop(number, None)
        if sent is None:
            return  # it was given up, and sent again, before this came
        message = sent[0]
        self._newest = max(self._newest, number)
        self._bytes -= len(message.body)
        if is_acknowledged(data):
            self.known += is_known(data)
            self._done(message)
            return
        verdict, reason = judge(data, headers)
        if verdict is Verdict.CONFLICT:
            assert self._link is not None  # noqa: S101
            try:
                there = is_there(self._link.connection, self._stream, message, self._expect)
            except NATSError as error:
                verdict, reason = Verdict.AGAIN, str(error)
            else:
                if there:
                    self.known += 1
                    self._done(message)
                    return
                if self._is_early(number, message):
                    verdict = Verdict.AGAIN
        if verdict is Verdict.AGAIN:
            self._trouble = reason
            self._failed.append((number, message))
        elif verdict is Verdict.NEVER:
            raise PublishError(f"stream {self._stream} takes nothing: {reason}")
        else:
            self._refuse(message, reason)
            self._done(message)

    def _is_early(self, number: int, message: Message) -> bool:
        """Whether what a message is to follow was sent before it, and may still have to come."""
        sent = takewhile(lambda each: each[0] < number, self._log.items())
        ahead = [(each, other) for each, (other, _) in sent] + self._failed
        return any(
            each < number and (self._expect == "stream" or other.subject == message.subject)
            for each, other in ahead
        )

    def _done(self, message: Message) -> None:
        self._patience.progress()
        self._unanswered.remove(message)
        if self._ordered and (held := self._busy.pop(message.subject, None)):
            following = held.popleft()
            self._held -= 1
            self._busy[message.subject] = held
            self._launch(following)

    def _forbidden(self, link: Link) -> None:
        """Refuse what the user may not publish: it gets no answer, but the server complains."""
        complaints = link.connection.complaints
        new, self._complaints = complaints[self._complaints :], len(complaints)
        reasons = forbidden(new)
        for number, (message, _) in list(self._log.items()):
            if why := reasons.get(message.subject):
                del self._log[number]
                self._bytes -= len(message.body)
                self._refuse(message, why)
                self._done(message)
