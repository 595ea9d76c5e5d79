"""Tables and the log of their changes, for authors of sources of change data capture.

An author writes options on `CaptureOptions`, a `DatabaseLog` (changes, chunks of tables, marks), a
`CaptureReceiver` that opens it, and a `CaptureSource` that names that. Values are what the database
prints, and become columns by `ColumnReaders`. What only a receiver's process needs is in
`mainstem_cdc.log`, `mainstem_cdc.receiver` and `mainstem_cdc.columns`.
"""

from __future__ import annotations

from mainstem_cdc.options import CaptureOptions, RelationalOptions, TableOptions
from mainstem_cdc.snapshots import (
    Change,
    Changes,
    Chunk,
    Given,
    Position,
    SnapshotThenLog,
    TablesAndLog,
)
from mainstem_cdc.source import CaptureSource, FoundColumn, FoundTable
from mainstem_cdc.tables import START_OVER, GapError, Run, Table, Values, sequence, unnamed
from mainstem_cdc.values import READERS, UNCHANGED, Misfit, Reader, Value

__all__ = [
    "READERS",
    "START_OVER",
    "UNCHANGED",
    "CaptureOptions",
    "CaptureSource",
    "Change",
    "Changes",
    "Chunk",
    "FoundColumn",
    "FoundTable",
    "GapError",
    "Given",
    "Misfit",
    "Position",
    "Reader",
    "RelationalOptions",
    "Run",
    "SnapshotThenLog",
    "Table",
    "TableOptions",
    "TablesAndLog",
    "Value",
    "Values",
    "sequence",
    "unnamed",
]
