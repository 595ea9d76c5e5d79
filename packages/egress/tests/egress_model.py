"""A model of an external system, and a sender to it: what answers, and what breaks, is decided by a script."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mainstem import RefusedRowError, TransientError
from mainstem_egress import Answer, Dispatcher, Fate, MessageFault, OutMessage, Sender

#: What may become of a step.
ACCEPT, LATER, REFUSE, LOSE, LOSE_AFTER, SILENT = (
    "accept",
    "later",
    "refuse",
    "lose",
    "lose after",
    "silent",
)


class Wrong(BaseException):
    """The dispatcher does not keep to the contract; no exception that it could take for a lost connection."""


def must(holds: bool, what: str) -> None:
    if not holds:
        raise Wrong(what)


class Model(Sender):
    """Handles messages in the order of their sending.

    Args:
        decide: returns what becomes of the next message that is handled.

    Attributes:
        there: what was accepted, in order, copies too.
        most: how many were without an answer at most.
        lanes_twice: whether ever two messages of a lane were in flight.
        blamed: contents that end the connection.
        unfit: contents that `send` refuses.
    """

    def __init__(self, decide: Callable[[], str] = lambda: ACCEPT) -> None:
        super().__init__(None, "model")
        self.decide = decide
        self.there: list[Any] = []
        self.most = self.connections = self.closed = 0
        self.blamed: set[Any] = set()
        self.unfit: set[Any] = set()
        self.refusing = 0
        self.open = self.lanes_twice = False
        self._waiting: deque[tuple[int, Any]] = deque()

    def messages(self, batch: Any, refused: Any) -> Iterator[OutMessage]:
        raise NotImplementedError

    def connect(self) -> None:
        must(not self.open, "connected twice")
        self.connections += 1
        self.open, self._waiting, self._next = True, deque(), 1
        if self.refusing:
            self.refusing -= 1
            raise TransientError("it is away")

    def send(self, number: int, message: Any) -> None:
        content = message.content
        must(self.open, "sent without a connection")
        must(number == self._next, "numbers do not go up by one")
        if content in self.unfit:
            raise RefusedRowError(f"{content} does not fit")
        self._next += 1
        self._waiting.append((number, content))
        self.most = max(self.most, len(self._waiting))
        flying = [each.lane for each in self.in_flight.values() if each.lane is not None]
        self.lanes_twice |= len(flying) > len(set(flying))

    def answers(self, seconds: float) -> Iterable[Answer]:
        must(self.open, "asked without a connection")
        found = []
        while self._waiting:
            number, content = self._waiting.popleft()
            if content in self.blamed:
                raise MessageFault(f"{content} is to blame")
            what = self.decide()
            if what == SILENT:
                self._waiting.appendleft((number, content))
                break
            if what in (ACCEPT, LOSE_AFTER):
                self.there.append(content)
            if what in (LOSE, LOSE_AFTER):
                raise OSError("the connection broke")
            fate = {LATER: Fate.RETRY, REFUSE: Fate.REFUSED}.get(what, Fate.ACCEPTED)
            found.append(Answer(number, number, fate, f"{content}: {what}"))
        return found

    def close(self) -> None:
        must(self.open, "closed twice")
        self.open = False
        self.closed += 1

    def place(self) -> str:
        return "model"


def message(content: Any, lane: Any = None, size: int = 1) -> OutMessage:
    return OutMessage(content, lane, size, None, None)


def dispatcher(
    model: Sender,
    refused: list[tuple[Any, str]],
    *,
    kind: type[Dispatcher] = Dispatcher,
    **more: Any,
) -> Dispatcher:
    return kind(model, lambda one, why: refused.append((one.content, why)), **more)
