"""Sinks that send a column to where nobody answers: a message is taken once the system has it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mainstem import Shape
from mainstem.columns import Column, check_types, find_column

from mainstem_egress.sender import Answer, OutMessage, Sender
from mainstem_egress.sink import EgressSink

if TYPE_CHECKING:
    import pyarrow as pa
    from mainstem.sinks import Refused

_TEXT = ("binary", "string")


class UnansweredSink(EgressSink):
    """Sends the column `value` of each row; `key` tells which rows keep their order."""

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse rows without a value of text or bytes."""
        super().check_types(columns, shape)
        find_column(columns, "value", "value", hint="Make it with `encode`.")
        check_types(columns, {"value": _TEXT, "key": _TEXT})


class UnansweredSender(Sender):
    """Sends values, each by `put`; all that was put is taken once `flush` returns."""

    def __init__(self, options: Any, name: str) -> None:
        super().__init__(options, name)
        self._sent = self._answered = 0

    @abstractmethod
    def open(self) -> None:
        """Connect; see `Sender.connect`."""

    @abstractmethod
    def put(self, value: bytes) -> None:
        """Send a value, or keep it for `flush` to send; see `Sender.send`."""

    def flush(self) -> None:
        """Send what was kept; raises as `put` does."""

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[OutMessage]:
        from mainstem.sinks import values_of

        rows = zip(*(values_of(batch, name) for name in ("value", "key", "_id")), strict=True)
        for value, key, identity in rows:
            yield OutMessage(value or b"", key, len(value or b""), identity, value)

    def connect(self) -> None:
        self._sent = self._answered = 0
        self.open()

    def send(self, number: int, message: OutMessage) -> None:
        self.put(message.content)
        self._sent = number

    def answers(self, seconds: float) -> Iterable[Answer]:
        self.flush()
        if self._answered == self._sent:
            return ()
        first, self._answered = self._answered + 1, self._sent
        return (Answer(first, self._sent),)
