"""A log that is read by position: what its author writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mainstem.errors import PermanentError

if TYPE_CHECKING:
    import pyarrow as pa

#: Where reading begins: a number is the first position that is read, an offset lies before it.
Begin = Literal["earliest", "latest"] | int | datetime | Mapping[str, Any]
#: What to do when positions mean something else than they did.
ANEW = (
    "Begin with another checkpoint (`--fresh`), and with sinks that do not know the rows of this one: "
    "new messages have the `_id`s that the old ones of their positions had"
)


def another_log(called: str, found: str, read: str) -> PermanentError:
    """Return the error for a log that was made anew since it was read.

    Args:
        called: what errors call it.
        found: its identity.
        read: that of the one that the checkpoint has read.
    """
    return PermanentError(
        f"{called} was made anew ({found}): the checkpoint has read another one ({read}), whose "
        f"positions mean nothing here. {ANEW}"
    )


@dataclass(frozen=True)
class Span:
    """What a partition has.

    Attributes:
        first: the position of the oldest message that is there; after `last` if there is none.
        last: the position of the newest message that there ever was.
        deleted: how many between them are known to be gone.
    """

    first: int
    last: int
    deleted: int = 0


@dataclass(frozen=True)
class Seen:
    """What a log is now.

    Attributes:
        identity: tells it from one that was made anew under its name, whose positions mean something
            else: such as when it was made.
        spans: by partition.
    """

    identity: str
    spans: Mapping[str, Span]


@dataclass(frozen=True)
class Gap:
    """Positions that are not there. `count` is None where nobody knows how many messages they were."""

    first: int
    last: int
    count: int | None
    reason: str


@dataclass(frozen=True)
class Chunk:
    """Rows of a range, in the columns of the source, and what of it is not there."""

    rows: pa.RecordBatch
    gaps: Sequence[Gap] = ()


class Part(NamedTuple):
    """What one task reads: positions after one and up to another, of the log with an identity."""

    identity: str
    partition: str
    after: int
    end: int


class PositionLog(ABC):
    """A log as one process sees it; it connects when it is first asked.

    Positions of a partition grow, and a message keeps its own. While batches are planned a
    `TransientError` is retried, after `reset`, for as long as `give_up` says; `read` retries by itself.
    Other errors end the run. Commands (`lag`, `replay`, ...) ask once.

    Attributes:
        sparse: whether there are positions whose messages are never read, since others are asked for, or
            that no message has; `next`, `waiting` and `age` then say which are, and `ahead` and `between`
            where there are many.
        from_one: whether a log's first message is at 1; else nobody knows what was before the oldest that
            it has.
        digits: how many a position has at most, as text of one length.
        stamped: whether `stamp` can tell that a position has another message than it had.
    """

    sparse: bool = False
    from_one: bool = True
    digits: int = 20
    stamped: bool = False

    @abstractmethod
    def called(self, partition: str) -> str:
        """Return what errors call a partition, such as `the stream 'ORDERS'`."""

    @abstractmethod
    def look(self) -> Seen:
        """Return what the log is now.

        Raises:
            ExternalError: it is not there, or nobody answers.
            OptionError: it can't be read by position.
        """

    @abstractmethod
    def at(self, time: datetime) -> Mapping[str, int]:
        """Return, by partition, the position after which all is of a time or later."""

    @abstractmethod
    def read(self, part: Part, schema: pa.Schema, *, gaps: bool) -> Generator[Chunk]:
        """Yield what is there of a range, in order; retries by itself what passes.

        Args:
            part: the range.
            schema: of the rows.
            gaps: whether to tell of positions that are not there.

        Raises:
            ExternalError: the server stays away, or the log is another one.
        """

    def next(self, partition: str, position: int) -> int | None:
        """Return the first position at or after one whose message is read; None if there is none."""
        return position

    def ahead(self, partition: str, after: int, rows: int) -> int:
        """Return the position up to which so many rows, about, come after another one."""
        return after + rows

    def between(self, partition: str, after: int, end: int) -> int:
        """Return how many rows, about, come after a position and up to another one."""
        return end - after

    def written(self, position: int) -> str:
        """Return a position as people know it."""
        return str(position)

    def waiting(self, partition: str, after: int, last: int) -> int:
        """Return how many messages that are read come after a position."""
        return last - after

    def age(self, partition: str, after: int) -> float | None:
        """Return the age of the first message that is read after a position, in seconds, if known."""
        return None

    def stamp(self, partition: str, position: int) -> str | None:
        """Return what tells a message from another one at its position; None if it is not there."""
        return None

    def notes(self) -> Mapping[str, Any]:
        """Return what an offset keeps of the log as `look` found it, as JSON; for `recall`."""
        return {}

    def recall(self, notes: Mapping[str, Any]) -> None:  # noqa: B027
        """Be told, before `look`, what the offset that is gone on from has kept."""

    def reset(self) -> None:  # noqa: B027
        """Let go of a connection that may be broken; the next call makes another one."""

    def close(self) -> None:  # noqa: B027
        """End what was opened."""
