"""The receiver of the source `amqp1`: one link, whose messages are settled once they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from mainstem import TransientError, failpoint
from mainstem_ingress import Message, Receiver

from mainstem_broker_amqp1.connection import ACCEPTED, RELEASED, Connection, sections
from mainstem_broker_amqp1.content import row
from mainstem_broker_amqp1.options import AMQP1SourceOptions

#: What comes of sections that are not what AMQP says.
_NOT_HELD = (ArithmeticError, AttributeError, TypeError, ValueError, RecursionError)


class AMQP1Receiver(Receiver):
    """Takes messages of a queue or subscription.

    What was not settled the broker gives again, to this or to others.
    """

    options: AMQP1SourceOptions

    def __init__(self, options: AMQP1SourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._turn, self._served = -1, False
        self._begin()

    def _begin(self) -> None:
        self._connection: Connection | None = None
        self._link: Any = None
        self._paused = False
        #: What came, by number, and is not settled.
        self._open: dict[int, Any] = {}
        self._taken: list[tuple[int, bytes]] = []
        self._came = 0

    @property
    def _container(self) -> str:
        """The container id, which is one client's alone."""
        options = self.options
        if options.client_id is not None:
            return options.client_id
        folder = str(self.log.folder) if self.log is not None else ""
        mark = blake2b(folder.encode(), digest_size=4).hexdigest()
        return f"mainstem-{self.node}-{self.number}-{mark}"

    def connect(self, cursor: str | None) -> None:
        self._begin()
        options = self.options
        # The one that served last first, then the others.
        self._turn += 0 if self._served and self._turn >= 0 else 1
        served, self._served = self._served, False
        made = self._connection = Connection(
            options, self._turn, self._container, delivered=self._came_in, served=served
        )
        failpoint("amqp1.after-connect")
        self._link = made.receiver(
            options.subscription or f"{self._container}-link",
            options.address,
            selector=options.selector,
            kept=options.subscription is not None,
            shared=options.shared,
        )
        self._served = True
        failpoint("amqp1.after-attach")
        self._grant()

    def _grant(self) -> None:
        """Let so many messages come that no more than `prefetch` are here and not settled."""
        most = self.options.prefetch
        room = most - len(self._open) - self._link.credit
        if not self._paused and room > 0 and room >= most // 4:
            self._link.flow(room)

    def _came_in(self, delivery: Any, data: bytes) -> None:
        self._came += 1
        self._open[self._came] = delivery
        self._taken.append((self._came, data))

    def take(self, seconds: float) -> Iterable[Message]:
        made = self._connection
        assert made is not None  # noqa: S101
        made.work(0 if self._taken else seconds)
        self._grant()  # credit that was taken back during a pause
        taken, self._taken = self._taken, []
        options = self.options
        found = []
        for number, data in taken:
            try:
                found.append(row(sections(data), options.address, options.key, options.ids, number))
            except (
                _NOT_HELD
            ) as error:  # raised again and again, it would hold up the queue for ever
                why = str(error) if type(error) is ValueError else f"it can't be read: {error!r}"
                found.append(Message(data, origin=options.address, token=number, refused=why))
        failpoint("amqp1.after-take")
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        made = self._connection
        if made is None:
            raise TransientError("there is no connection")
        for message in messages:
            delivery = self._open.pop(message.token)
            delivery.update(ACCEPTED)
            delivery.settle()
        self._grant()
        made.work(0)
        failpoint("amqp1.after-settle")

    def pause(self) -> None:
        self._paused = True
        if self._link.credit and self._connection is not None and self._connection.drains:
            # The broker gives it back; else what it is given for comes, and is kept.
            self._link.drain(0)

    def resume(self) -> None:
        self._paused = False
        self._grant()

    def close(self) -> None:
        made, self._connection = self._connection, None
        if made is None:
            return
        for delivery in self._open.values():  # others may have them at once
            delivery.update(RELEASED)
            delivery.settle()
        self._open.clear()
        links = [self._link] if self._link is not None else []
        made.close(links, kept=self.options.subscription is not None)
        self._link = None

    def facts(self) -> dict[str, Any]:
        host, port, _ = self.options.place(max(0, self._turn))
        return {"server": f"{host}:{port}"}
