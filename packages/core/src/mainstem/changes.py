"""For sinks that keep a table in step with its changes, which tasks write; and for formats of changes.

Rows are Arrow data with the reserved column `_change_type`, as those of a changelog have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.contracts.abilities import Compared
from mainstem.contracts.columns import json_sql
from mainstem.contracts.ddl import Column, quoted
from mainstem.contracts.shapes import CHANGE_TYPE, Changelog, Shape
from mainstem.errors import OptionError
from mainstem.formats.row_changes import UNAVAILABLE as UNAVAILABLE
from mainstem.formats.row_changes import Told as Told
from mainstem.formats.row_changes import changes_told as changes_told
from mainstem.formats.row_envelopes import Records as Records
from mainstem.formats.row_envelopes import RowEnvelopes as RowEnvelopes
from mainstem.sinks.tasks import Refused, write_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A task hands over so many changes at a time, at most.
_ROWS = 5_000
_PLACE = "__place"


class ChangeTarget(ABC):
    """Where a task sets rows by their key."""

    @abstractmethod
    def write(self, sets: pa.Table, deletes: pa.Table, refused: Refused) -> None:
        """Set rows and delete keys, by the external system's own batch call.

        A call has one change of each key, some thousand at most. A change that is not newer than what the
        external system has of its key, or remembers to have deleted, must have no effect: rows come again
        after a crash, older ones with a replay, and also in a later call of the same batch.

        Args:
            sets: the rows of inserts and updates.
            deletes: those of deletions.
            refused: takes rows that the external system never will.

        Raises:
            ExternalError: they could not be written, or the run was replaced.
        """

    def close(self) -> None:  # noqa: B027
        """End what was opened."""


def write_changes(
    frame: DataFrame,
    key: Sequence[str],
    sequence: str | None,
    target: Callable[[], ChangeTarget],
    *,
    ordered: bool = False,
) -> DataFrame | None:
    """Write a batch of changes, the changes of one key by one task; return the rows that were refused.

    A row with a null in its key or its sequence is refused.

    Args:
        frame: the batch, with `_change_type`; pre-images are left out.
        key: the columns of the table's key.
        sequence: the column by which changes of a key are ordered. Without one a key must have one change
            in a batch, for a shuffle brings them in no fixed order.
        target: makes what is written to, in each task; it is pickled.
        ordered: whether calls of a task are in the order of the sequence, for a target that can't tell
            changes of one transaction apart.

    Raises:
        TransientError, PermanentError, FencedError, PipelineError: as a task has raised it.
    """
    spread = frame.repartition(*map(quoted, key))
    if ordered and sequence is not None:
        spread = spread.sortWithinPartitions(quoted(sequence))
    return write_by_tasks(spread, partial(_write, tuple(key), sequence, target))


def _write(
    key: Sequence[str],
    sequence: str | None,
    target: Callable[[], ChangeTarget],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    refused, made = Refused(), None
    try:
        for batch in batches:
            whole = without_preimages(pa.Table.from_batches([batch]))
            for start in range(0, whole.num_rows, _ROWS):
                rows = _known(whole.slice(start, _ROWS), [*key, *filter(None, [sequence])], refused)
                if rows.num_rows:
                    made = made or target()
                    sets, deletes = split(newest(rows, key, sequence))
                    made.write(sets, deletes, refused)
                yield from refused.take()
    finally:
        if made is not None:
            made.close()


def _known(rows: pa.Table, names: Sequence[str], refused: Refused) -> pa.Table:
    """Return the rows that can be compared with others: a null is neither equal nor older."""
    for name in names:
        if not rows.column(name).null_count:
            continue
        lacking = rows.column(name).is_null()
        ids: Any = rows.column("_id") if "_id" in rows.column_names else None
        for place in pc.indices_nonzero(lacking).to_pylist():
            identity = ids[place].as_py() if ids is not None else None
            refused.add(identity, None, f"column {name}, by which rows are compared, is null")
        rows = rows.filter(pc.invert(lacking))
    return rows


def compared_by_columns(columns: Sequence[Column], shape: Shape) -> Compared:
    """Return how rows are compared with those of a store that has their columns, with their types.

    What is held has the columns that are not reserved, and `_id` of events.

    Raises:
        OptionError: events have no `_id`.
    """
    names = [column.name for column in columns if not column.name.startswith("_")]
    kept = [column for column in columns if column.name in names]
    content = json_sql(names)
    if isinstance(shape, Changelog):
        key = json_sql(shape.key)
    else:
        if "_id" not in {column.name for column in columns}:
            raise OptionError(
                "events are compared by their ids, which they are not written with",
                hint="Write `deliver: idempotent`.",
            )
        key = "lower(hex(_id))"
        kept.append(Column("_id", "binary"))
    held = ", ".join(f"{quoted(column.name)} {column.type}" for column in kept)
    return Compared(key, content, held, key, content)


def without_preimages(rows: pa.Table) -> pa.Table:
    """Return changes without those that only say what was before."""
    return rows.filter(pc.invert(_are(rows, "update_preimage")))


def split(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the changes that set something, and those that delete; there are no pre-images."""
    gone = _are(rows, "delete")
    return rows.filter(pc.invert(gone)), rows.filter(gone)


def newest(rows: pa.Table, key: Sequence[str], sequence: str | None) -> pa.Table:
    """Return the last change of each key: that with the highest sequence, the later one of equals."""
    rows = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    order = [*key, *([sequence] if sequence else []), _PLACE]
    rows = rows.sort_by([(name, "ascending") for name in order])
    last = pa.array([False] * (rows.num_rows - 1) + [True] * (rows.num_rows > 0), pa.bool_())
    for name in key:
        column: Any = rows.column(name).combine_chunks()
        differs = pc.fill_null(pc.not_equal(column[:-1], column[1:]), pa.scalar(True))
        last = pc.or_(last, pa.concat_arrays([differs, last[-1:]]))
    return rows.filter(last).drop_columns([_PLACE])


def _are(rows: pa.Table, change: str) -> Any:
    return pc.is_in(rows.column(CHANGE_TYPE), value_set=pa.array([change]))
