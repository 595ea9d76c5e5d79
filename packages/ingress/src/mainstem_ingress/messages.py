"""What a receiver takes: messages, and what they are told apart by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, overload

if TYPE_CHECKING:
    import pyarrow as pa
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
    """Messages that differ in their values, and what their source adds, kept as columns.

    Where a message costs a microsecond, an object for each would cost more than all else. A receiver may
    return this from `take` whenever there is nothing else to say of its messages.

    Args:
        values: of each message; bytes, or an object that shows its bytes by the buffer protocol.
        origin: of all messages.
        cursor: of the last message.
        extra: the columns that the source adds, all or none, each with a value for each message.
    """

    def __init__(
        self,
        values: list[Buffer],
        origin: str = "",
        cursor: str | None = None,
        extra: Sequence[pa.Array[Any]] = (),
    ) -> None:
        self.values = values
        self.origin = origin
        self.cursor = cursor
        self.extra = extra

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Message]:
        last = len(self.values) - 1
        for at, value in enumerate(self.values):
            yield self._message(value, at, last=at == last)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if isinstance(at, slice):
            return list(self)[at]
        return self._message(self.values[at], at, last=at in (-1, len(self.values) - 1))

    def _message(self, value: Buffer, at: int, *, last: bool) -> Message:
        cursor = self.cursor if last else None
        extra = tuple(column[at].as_py() for column in self.extra)
        return Message(bytes(value), origin=self.origin, cursor=cursor, extra=extra)

    def append(self, more: Values) -> None:
        """Add messages of the same origin, with as many columns."""
        import pyarrow as pa

        self.values += more.values
        self.cursor = self.cursor if more.cursor is None else more.cursor
        pairs = zip(self.extra, more.extra, strict=True)
        self.extra = [pa.concat_arrays([mine, its]) for mine, its in pairs]


class Columns(NamedTuple):
    """Rows of a table as columns, for `Rows`.

    Attributes:
        table: the name of the output.
        rows: a struct for each, of the output's columns; see `columns_of`.
        timestamps: of each, in microseconds since 1970 in UTC.
        origin: of all.
        token: what the receiver needs to acknowledge all of them.
    """

    table: str
    rows: pa.StructArray
    timestamps: Sequence[int]
    origin: str
    token: Any = None


class Rows(Sequence[Message]):
    """Rows of tables as columns, and messages without ids between them, in the order in which they came.

    An object for each of a hundred thousand rows a second would cost more than all else. A receiver of
    tables may return this from `take`. What is acknowledged has a message for each row, with the token of
    its columns and nothing else.
    """

    def __init__(self, parts: list[Columns | list[Message]]) -> None:
        self.parts = parts
        self._length = sum(len(p.rows) if isinstance(p, Columns) else len(p) for p in parts)

    @property
    def nbytes(self) -> int:
        """About how many bytes they have."""
        return sum(
            p.rows.nbytes if isinstance(p, Columns) else sum(len(m.value or b"") for m in p)
            for p in self.parts
        )

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        for part in self.parts:
            if isinstance(part, Columns):
                yield from repeat(Message(None, token=part.token), len(part.rows))
            else:
                yield from part

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if at == -1:
            last = self.parts[-1]
            return Message(None, token=last.token) if isinstance(last, Columns) else last[-1]
        return list(self)[at]


#: What is taken together, in order.
Group = list[Message] | Values | Rows


def joined(group: Group, more: Group) -> Group:
    """Return the messages of both, in order; `group` itself may be changed."""
    if not group:
        return more
    if isinstance(group, Rows) or isinstance(more, Rows):
        return Rows(_parts(group) + _parts(more))
    if isinstance(group, Values):
        if isinstance(more, Values) and more.origin == group.origin:
            group.append(more)
            return group
        group = list(group)
    group += more
    return group


def has_cursor(messages: list[Message] | Values) -> bool:
    """Whether messages say where the external system goes on after them."""
    if isinstance(messages, Values):
        return messages.cursor is not None
    return any(message.cursor is not None for message in messages)


def cut(messages: list[Message] | Values, begin: int, end: int) -> list[Message] | Values:
    """Return the messages from one on and before another; none has a cursor."""
    if isinstance(messages, Values):
        extra = [column[begin:end] for column in messages.extra]
        return Values(messages.values[begin:end], messages.origin, extra=extra)
    return messages[begin:end]


def _parts(group: Group) -> list[Columns | list[Message]]:
    return group.parts if isinstance(group, Rows) else [list(group)]
