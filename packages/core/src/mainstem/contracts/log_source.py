"""For a source that reads in Python what can be read again: who plans its batches, and who reads them.

Spark knows such a source by a class and by options, which are text and are shown. A `Reading` is an
object of the plugin instead, which goes to Spark's processes as it is, with credentials if need be; it
is given to `SourceContext.read_planned`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: How far a read has come, for JSON. Spark compares offsets as text, so the order of keys counts.
Offset = dict[str, Any]


class Planner(ABC):
    """Says what each batch reads.

    Lives in a process of its own beside the driver, and is used by one thread. Of a `MainstemError` or an
    `OptionError` that it raises users see the first line.
    """

    @abstractmethod
    def initial(self) -> Offset:
        """Return the offset before the first batch.

        Each run asks, until the first batch is done. Once that is planned (`SourceContext.progress`) the
        answer must be what it was: an offset that is looked up, such as where the external system ends
        now, is to be kept in the node's folder.
        """

    @abstractmethod
    def latest(self, start: Offset) -> Offset:
        """Return where the batch that begins at `start` ends; `start` if there is nothing new.

        Spark asks a hundred times a second while nothing comes. It keeps the answer in the checkpoint
        before anything is read.
        """

    @abstractmethod
    def parts(self, start: Offset, end: Offset) -> Sequence[Any]:
        """Return what the tasks of a batch read, one part each; they are pickled.

        Called again for a batch that is retried, also in another process: the same offsets are the
        same rows.
        """

    def prepare(self) -> None:  # noqa: B027
        """Let the batches to come end where the external system ends now: the run is one that ends."""

    def newest(self) -> Offset | None:
        """Return where the external system ends now, for Spark's progress; None if that is not known."""
        return None

    def committed(self, end: Offset) -> None:  # noqa: B027
        """Note that all before `end` is done. Told as the next batch is planned: not of the last one."""

    def close(self) -> None:  # noqa: B027
        """End what was opened. A process that is killed does not come here."""


class Reading(ABC):
    """One read of a source. It is pickled: it holds what planning and reading need, and nothing open."""

    @abstractmethod
    def schema(self) -> str:
        """Return the columns as DDL."""

    @abstractmethod
    def planner(self) -> Planner:
        """Return what plans the batches."""

    @abstractmethod
    def read(self, part: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, exactly in a schema; runs in a task.

        A generator is closed when Spark wants no more rows. Errors are shown as a planner's are.
        """
