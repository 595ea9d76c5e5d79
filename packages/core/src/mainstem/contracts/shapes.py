"""The type of a stream, known before Spark starts.

A stream is `Events` (each row happened once and is never taken back) or a `Changelog` (each row
changes a table). A shape lists the columns, with types where they are declared, and says how a row
is told from every other, for ever: its identity.

Columns whose names begin with an underscore are reserved: the core adds them, row-wise operators
pass them through untouched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from mainstem.contracts.ddl import Column, read_columns

#: What every message source gives and every message sink takes. `position` is unique and
#: increasing within origin and partition, of fixed width, so that byte order is log order.
MESSAGE_COLUMNS = read_columns(
    "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, "
    "origin STRING, partition STRING, position STRING"
)

#: The reserved columns of a changelog, named as in Spark's change feed. `_commit_version` holds the
#: sequence, so its type is the sequence's.
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = (
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
)
CHANGELOG_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


#: The reserved column of a source that reports its own event-time progress; see `Punctuated`.
CARRIED = "_watermark"
#: What marks a column as event time for Spark; the value is the watermark's delay, in milliseconds.
EVENT_TIME = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class EventTime:
    """The column that carries a watermark, and how far the watermark stays behind its maximum.

    Attributes:
        punctual: whether no row is late, wherever the watermark is: a step above has waited with them,
            and lets each out with the batch whose watermark passes it.
        passed: whether the watermark is past each row when it comes, so that a step which lets go of
            rows by their time can stand below only in another query.
        ends: whether the column is the end of an interval, which is not part of it: a row belongs to the
            time just before.
        behind: how far the query's watermark may be past a row when it comes, beyond what `passed` says:
            a relay tells its watermark as far behind.
    """

    column: str
    delay: timedelta
    punctual: bool = field(default=False, compare=False)
    passed: bool = field(default=False, compare=False)
    ends: bool = field(default=False, compare=False)
    behind: timedelta = field(default=timedelta(), compare=False)


ShapeT = TypeVar("ShapeT", bound="Shape")
T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """What `Events` and `Changelog` share; build one of those.

    `identity` names the columns that tell a row from every other; empty when there are none, or
    when a row-wise operator leaves its input's as it is.
    """

    columns: tuple[Column, ...]
    identity: tuple[str, ...] = ()
    event_time: EventTime | None = None
    #: The node above that has the stream's watermark, also where its column was left behind; the core
    #: fills it in.
    watermarked: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", tuple(map(self.exact, self.identity)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def kind(self) -> str:
        """The shape's word: `events` or `changelog`."""
        return type(self).__name__.lower()

    def column(self, name: str) -> Column | None:
        """Return the column of that name, or None. Names compare as Spark's do: case aside."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def exact(self, name: str) -> str:
        """Return a column's name as the shape has it, whose case may be another; or the name itself."""
        column = self.column(name)
        return name if column is None else column.name

    def with_columns(self: ShapeT, columns: Iterable[Column]) -> ShapeT:
        """Return this shape with other columns and no identity of its own.

        The event time stays only if a column of that name does; an operator that gives that name
        to another value has to say so (`replace(shape, event_time=None)`).
        """
        new = tuple(columns)
        kept = self.event_time
        if kept and all(c.name.lower() != kept.column.lower() for c in new):
            kept = None
        return replace(self, columns=new, identity=(), event_time=kept)

    def unlike(self, other: Shape) -> str | None:
        """Return why rows of another shape can't come with those of this one, or None if they can."""
        if type(self) is not type(other):
            return f"one is {self.kind}, the other {other.kind}"
        if missing := set(self.names) ^ set(other.names):
            return f"only one has {', '.join(sorted(missing))}"
        for column in self.columns:
            twin = other.column(column.name)
            if twin and column.type and twin.type and twin.type != column.type:
                return f"{column.name} is {column.type} in one and {twin.type} in the other"
        return self._unlike(other)

    def _unlike(self, other: Shape) -> str | None:
        return None

    def __str__(self) -> str:
        body = ", ".join(f"{c.name} {c.type.upper() if c.type else '?'}" for c in self.columns)
        return f"{self.kind}({body})"


def _columns(columns: str | Iterable[Column]) -> tuple[Column, ...]:
    return read_columns(columns) if isinstance(columns, str) else tuple(columns)


@dataclass(frozen=True, init=False)
class Events(Shape):
    """Rows that happened: facts, never taken back.

    Args:
        columns: DDL text (`"n BIGINT, at TIMESTAMP"`) or columns.
        identity: the columns that tell a row from every other, the same after any replay. They may
            be reserved ones that `load` adds to the columns; the core drops those again.
    """

    def __init__(
        self,
        columns: str | Iterable[Column],
        identity: Iterable[str] = (),
        event_time: EventTime | None = None,
        watermarked: str = "",
    ) -> None:
        super().__init__(_columns(columns), tuple(identity), event_time, watermarked)


@dataclass(frozen=True, init=False)
class Changelog(Shape):
    """Changes of a table, one row each, told apart by key and sequence.

    The rows also carry `_change_type` (insert, update_preimage, update_postimage, delete),
    `_commit_version` (the sequence) and `_commit_timestamp`; `columns` does not list those.

    Args:
        columns: DDL text or columns of the table.
        key: the columns of the table's key.
        sequence: the column whose value `_commit_version` holds; it only grows for any one key.
            None for a changelog that comes batch by batch: the core then puts the batch's id.
        preimages: whether updates and deletes carry the row as it was before.
        sequence_type: the type of `_commit_version` in Spark's short form, empty where only Spark can
            know it; the column's when left out. It stays what it was if a later step puts another
            value into that column.
    """

    key: tuple[str, ...] = ()
    sequence: str | None = None
    preimages: bool = False
    sequence_type: str | None = None

    def __init__(
        self,
        columns: str | Iterable[Column],
        key: Iterable[str] = (),
        sequence: str | None = None,
        preimages: bool = False,
        identity: Iterable[str] = (),
        event_time: EventTime | None = None,
        sequence_type: str | None = None,
        watermarked: str = "",
    ) -> None:
        super().__init__(_columns(columns), tuple(identity), event_time, watermarked)
        object.__setattr__(self, "key", tuple(map(self.exact, key)))
        sequence = sequence if sequence is None else self.exact(sequence)
        object.__setattr__(self, "sequence", sequence)
        object.__setattr__(self, "preimages", preimages)
        if sequence_type is None:
            found = self.column(sequence) if sequence is not None else None
            sequence_type = "bigint" if sequence is None else (found.type if found else None) or ""
        object.__setattr__(self, "sequence_type", sequence_type)

    @property
    def change_columns(self) -> tuple[Column, ...]:
        """The reserved columns of the rows; the sequence's type is None where only Spark can know it."""
        return (
            Column(CHANGE_TYPE, "string"),
            Column(COMMIT_VERSION, self.sequence_type or None),
            Column(COMMIT_TIMESTAMP, "timestamp"),
        )

    def _unlike(self, other: Shape) -> str | None:
        assert isinstance(other, Changelog)  # noqa: S101
        if set(self.key) != set(other.key):
            keys = (", ".join(each.key) or "none" for each in (self, other))
            return "the key of one is {}, of the other {}".format(*keys)
        if self.sequence != other.sequence:
            names = (each.sequence or "the batch" for each in (self, other))
            return "the sequence of one is {}, of the other {}".format(*names)
        if self.preimages != other.preimages:
            return "only one has pre-images"
        return None


#: The reserved column of where a row comes from, in words; there only while a failed batch is looked
#: through for the row that it failed for.
PLACE = "_place"
#: The reserved column of the headers of a row's message that observers ask for.
ASKED = "_asked"
#: Columns that go along as far as rows stay rows, and that nothing counts on.
ALONG = (PLACE, ASKED)


def watermark_hint(shape: Shape, column: str = "...", where: str = "the input node") -> str:
    """Return what to do where a stream needs event time and has none."""
    if not shape.watermarked:
        return f"Give {where} `watermark: {{column: {column}, delay: ...}}`."
    return (
        f"The node {shape.watermarked} above has the watermark, and a stream has one: keep its column "
        "down to here, or take it away there and write it here. Below a step with state a stream can "
        "have one of its own; rows with a key can be joined as tables, by `changelog` and "
        "`table_table_join`."
    )


def sequenced_by_batch(shape: Shape | None) -> bool:
    """Whether a changelog's sequence is the ids of batches, which only a batch knows."""
    return isinstance(shape, Changelog) and shape.sequence is None


def messages() -> Events:
    """Return the shape of every message source: `MESSAGE_COLUMNS`, identified by their position."""
    return Events(MESSAGE_COLUMNS, identity=("origin", "partition", "position"))


#: Rows that a node or a sink refused. `_id` is null where the row had no identity.
REJECTED = Events("_id BINARY, node STRING, reason STRING, payload BINARY, at TIMESTAMP")

#: Ranges of a log that were lost, as far as that can be known.
LOST = Events("node STRING, `from` STRING, to STRING, count BIGINT, reason STRING")


@dataclass(frozen=True)
class Accepts:
    """What a port or a sink takes.

    Args:
        shapes: the kinds it takes.
        columns: DDL text of columns that must be there, of these types where types are known.
        preimages: whether a changelog must carry pre-images.
    """

    shapes: tuple[type[Shape], ...] = (Events, Changelog)
    columns: str = ""
    preimages: bool = False

    def refusal(self, shape: Shape) -> str | None:
        """Return why `shape` does not fit, in a few words, or None when it does."""
        if not isinstance(shape, self.shapes):
            wanted = " or ".join(kind.__name__.lower() for kind in self.shapes)
            return f"takes {wanted}, not {shape.kind}"
        if self.preimages and isinstance(shape, Changelog) and not shape.preimages:
            return "needs a changelog with pre-images (operator `table` adds them)"
        for wanted_column in read_columns(self.columns) if self.columns else ():
            found = shape.column(wanted_column.name)
            hint = ""
            if wanted_column in MESSAGE_COLUMNS:
                hint = " (operator `encode` makes messages of columns)"
            if found is None:
                names = ", ".join(shape.names)
                return f"needs a column {wanted_column.ddl}; there are: {names}{hint}"
            if found.type is not None and found.type != wanted_column.type:
                return f"needs column {wanted_column.ddl}, not {found.ddl}{hint}"
        return None


#: Any stream.
ANYTHING = Accepts()
#: Events only.
EVENTS = Accepts((Events,))
#: Messages: `value` must be there; what else of the message columns is there is used.
MESSAGES = Accepts((Events,), "value BINARY")


class Inputs(dict[str, T]):
    """What stands at an operator's ports, by the port's name: shapes, or frames."""

    @property
    def only(self) -> T:
        """What stands at the only port."""
        (value,) = self.values()
        return value
