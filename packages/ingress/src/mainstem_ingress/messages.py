"""What a receiver takes: messages, and what they are told apart by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Message(NamedTuple):
    """One message, as the external system gave it.

    `key`, `value`, `headers`, `timestamp` and `origin` become the message columns of those names;
    partition and position are the log's own.
    """

    value: bytes | None
    key: bytes | None = None
    #: Pairs of name and value; a name that comes twice keeps its last value.
    headers: Sequence[tuple[str, bytes]] | None = None
    #: Microseconds since 1970 in UTC; the time of storing when left out.
    timestamp: int | None = None
    #: The topic, queue, subject or path it came through.
    origin: str = ""
    #: Tells it from every other message of its source, given by whoever made it. A second message
    #: with the same id, within the horizon, is acknowledged and not stored.
    id: bytes | None = None
    #: Where the external system goes on after this message; handed to `connect` after a restart.
    cursor: str | None = None
    #: Whatever the receiver needs to acknowledge it; never stored.
    token: Any = None
    #: Why it can't be handed on as it is: it then comes out of the output `rejected`.
    refused: str | None = None
    #: The values of the columns that the source adds, in their order.
    extra: tuple[Any, ...] = ()


class Values(Sequence[Message]):
    """Messages that differ in their values alone, kept as one column.

    Where a message costs a microsecond, an object for each would cost more than all else. A receiver may
    return this from `take` whenever there is nothing to say of its messages but their values.

    Args:
        values: of each message; bytes, or an object that shows its bytes by the buffer protocol.
        origin: of all messages.
        cursor: of the last message.
    """

    def __init__(self, values: list[Buffer], origin: str = "", cursor: str | None = None) -> None:
        self.values = values
        self.origin = origin
        self.cursor = cursor

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Message]:
        last = len(self.values) - 1
        for at, value in enumerate(self.values):
            yield self._message(value, at == last)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if isinstance(at, slice):
            return list(self)[at]
        return self._message(self.values[at], at in (-1, len(self.values) - 1))

    def _message(self, value: Buffer, last: bool) -> Message:
        cursor = self.cursor if last else None
        return Message(bytes(value), origin=self.origin, cursor=cursor)


#: What is taken together, in order.
Group = list[Message] | Values


def joined(group: Group, more: Group) -> Group:
    """Return the messages of both, in order; `group` itself may be changed."""
    if not group:
        return more
    if isinstance(group, Values):
        if isinstance(more, Values) and more.origin == group.origin:
            group.values += more.values
            group.cursor = group.cursor if more.cursor is None else more.cursor
            return group
        group = list(group)
    group += more
    return group
