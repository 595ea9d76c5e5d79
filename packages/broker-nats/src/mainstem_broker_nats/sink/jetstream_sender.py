"""Publishes to a stream, which answers each message.

A message that is sent again after its answer was lost is known to the stream by its id, as long as that
is in the stream's duplicate window. The log says when one is sent again later than that.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mainstem import ExternalError, PermanentError, RefusedRowError
from mainstem.sinks import Refused
from mainstem_egress import Answer, Fate, Sender

from mainstem_broker_nats.connection import APIError, places
from mainstem_broker_nats.sink.dedup import Unanswered, is_there
from mainstem_broker_nats.sink.link import Link, Verdict, is_acknowledged, is_known, judge
from mainstem_broker_nats.sink.messages import Layout, Message, SubjectTemplate, matches, messages
from mainstem_broker_nats.sink.options import JetStreamSinkOptions
from mainstem_broker_nats.sink.stream import window_of

if TYPE_CHECKING:
    import pyarrow as pa

_EXPECT = {
    "expect_sequence": "Nats-Expected-Last-Sequence",
    "expect_subject_sequence": "Nats-Expected-Last-Subject-Sequence",
}


class JetStreamSender(Sender):
    """Publishes to one stream over one connection.

    Attributes:
        known: how many messages were there already.
    """

    options: JetStreamSinkOptions
    #: A stream drops the copies that would bring an order back.
    one_of_a_lane = True

    def __init__(self, options: JetStreamSinkOptions, name: str) -> None:
        super().__init__(options, name)
        self._stream = options.stream
        self._template = SubjectTemplate(options.subject)
        expect = options.expectation()
        self._layout = Layout(
            subject=options.subject,
            stream=options.stream,
            # Two sinks may write the same row into one stream, under two subjects, and neither is a copy.
            suffix="-" + hashlib.sha256(name.encode()).hexdigest()[:8],
            directives=frozenset(directive.lower() for directive in options.directives),
            expect=(_EXPECT[expect[0]], expect[1]) if expect else None,
        )
        #: How many answers end a wait for them.
        self._enough = max(1, options.in_flight // 8)
        self._unanswered = Unanswered(options.stream)
        self._turn = 0
        self._link: Any = None  # a `Link` while connected
        #: By number, when a message was sent that has no answer.
        self._sent: dict[int, float] = {}
        self.known = 0

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[Message]:
        return messages(batch, self._layout, self._template, refused)

    def connect(self) -> None:
        turn, self._turn = self._turn, self._turn + 1  # after a loss another server is tried first
        self._link = Link.open(self.options, self.name, turn)
        self._look_up_stream()

    def _look_up_stream(self) -> None:
        """Learn which subjects the stream takes, and for how long it knows its messages."""
        try:
            config = self._link.connection.ask(f"STREAM.INFO.{self._stream}")["config"]
        except APIError as error:
            if error.code != 404:
                raise
            raise PermanentError(f"there is no stream {self._stream}: {error}") from None
        self._subjects = tuple(config.get("subjects") or ())
        self._unanswered.window = window_of(config)
        #: By subject, why the stream does not take it, or an empty string.
        self._unfit: dict[str, str] = {}
        self._changed = False

    def send(self, number: int, message: Message) -> None:
        if self._changed:
            self._look_up_stream()
        link = self._link
        why = self._unfit.get(message.subject)
        if why is None:
            why = self._why_unfit(message.subject)
        if why := why or link.fits(message):
            raise RefusedRowError(why)
        now = self._sent[number] = time.monotonic()
        if self._unanswered:
            self._unanswered.check(message, now)
        link.put(message, number)

    def _why_unfit(self, subject: str) -> str:
        why = ""
        if not any(matches(subject, pattern) for pattern in self._subjects):
            takes = ", ".join(self._subjects) or "none"
            why = f"stream {self._stream} does not take subject {subject!r}, but {takes}"
        if len(self._unfit) > 10_000:
            self._unfit.clear()
        self._unfit[subject] = why
        return why

    def answers(self, seconds: float) -> Iterator[Answer]:
        link = self._link
        if not seconds and not link.full:
            return
        found = link.poll(seconds, min(self._enough, len(self._sent)))
        sent, unanswered = self._sent, self._unanswered
        first = last = 0  # of a run of messages that were acknowledged, as nearly all are
        for number, data, headers in found:
            if sent.pop(number, None) is None:
                continue  # it was sent again before this came
            if is_acknowledged(data):
                self.known += is_known(data)
                if unanswered:
                    unanswered.remove(self.in_flight[number])
                if number != last + 1:
                    if last:
                        yield Answer(first, last)
                    first = number
                last = number
            else:
                if last:
                    yield Answer(first, last)
                first = last = 0
                yield self._refused(number, data, headers)
        if last:
            yield Answer(first, last)
        yield from self._forbidden()
        if link.lost:
            raise ConnectionError(link.lost)

    def _refused(self, number: int, data: bytes, headers: bytes | None) -> Answer:
        """Return what an answer that is no acknowledgement means for its message."""
        message = self.in_flight[number]
        verdict, reason = judge(data, headers)
        if verdict is Verdict.NEVER:
            raise PermanentError(f"stream {self._stream} takes nothing: {reason}")
        if verdict is Verdict.CONFLICT:
            verdict, reason = self._conflict(number, message, reason)
        if verdict is Verdict.AGAIN:
            self._changed = True
            return Answer(number, number, Fate.RETRY, reason)
        self._unanswered.remove(message)
        if verdict is Verdict.KNOWN:
            self.known += 1
            return Answer(number, number)
        return Answer(number, number, Fate.REFUSED, reason)

    def _conflict(self, number: int, message: Message, reason: str) -> tuple[Verdict, str]:
        """Return what it means that a message's expected sequence is not the last."""
        expect = "stream" if self.options.expect_sequence else "subject"
        try:
            if is_there(self._link.connection, self._stream, message, expect):
                return Verdict.KNOWN, ""
        except ExternalError as error:
            return Verdict.AGAIN, str(error)
        # What it is to follow may have been sent before it, and still have to come.
        ahead = takewhile(lambda each: each[0] < number, self.in_flight.items())
        early = any(expect == "stream" or other.subject == message.subject for _, other in ahead)
        return (Verdict.AGAIN if early else Verdict.REFUSED), reason

    def _forbidden(self) -> Iterator[Answer]:
        """Refuse what the user may not publish: it gets no answer, but the server complains."""
        reasons = self._link.forbidden()
        for number in list(self._sent) if reasons else ():
            if why := reasons.get(self.in_flight[number].subject):
                del self._sent[number]
                yield Answer(number, number, Fate.REFUSED, why)

    def close(self) -> None:
        self._unanswered.add((self.in_flight[number], at) for number, at in self._sent.items())
        self._sent.clear()
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def place(self) -> str:
        return f"{', '.join(places(self.options))}, stream {self._stream}"
