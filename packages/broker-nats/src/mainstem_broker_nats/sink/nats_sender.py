"""Publishes to core NATS, which acknowledges nothing; the server is asked now and then what it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mainstem import RefusedRowError
from mainstem.sinks import Refused
from mainstem_egress import Answer, Fate, Sender

from mainstem_broker_nats.connection import places
from mainstem_broker_nats.sink.link import Link
from mainstem_broker_nats.sink.messages import Layout, Message, SubjectTemplate, messages
from mainstem_broker_nats.sink.options import NATSSinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


class NATSSender(Sender):
    """Publishes over one connection."""

    options: NATSSinkOptions

    def __init__(self, options: NATSSinkOptions, name: str) -> None:
        super().__init__(options, name)
        self._template = SubjectTemplate(options.subject)
        self._turn = 0
        self._link: Any = None  # a `Link` while connected

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[Message]:
        return messages(batch, Layout(self.options.subject), self._template, refused)

    def connect(self) -> None:
        turn, self._turn = self._turn, self._turn + 1  # after a loss another server is tried first
        self._link = Link.open(self.options, self.name, turn)
        self._asked = 1
        #: The subjects of what the server was not asked about yet, from number `_asked` on.
        self._subjects: list[str] = []

    def send(self, number: int, message: Message) -> None:
        if why := self._link.fits(message):
            raise RefusedRowError(why)
        self._link.put(message)
        self._subjects.append(message.subject)

    def answers(self, seconds: float) -> Iterable[Answer]:
        if not seconds:  # each question costs a round trip
            if self._link.full:
                self._link.poll(0)
            return ()
        self._link.flush()
        reasons = self._link.forbidden()
        found = [
            Answer(number, number, Fate.REFUSED, reasons[subject])
            for number, subject in enumerate(self._subjects, self._asked)
            if subject in reasons
        ] if reasons else []  # fmt: skip
        first, self._asked = self._asked, self._asked + len(self._subjects)
        self._subjects = []
        return [*found, Answer(first, self._asked - 1)]

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def place(self) -> str:
        return ", ".join(places(self.options))
