"""Rows that come from the logic: packed outputs become the columns that the core splits by output."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from mainstem_keyed_state.columns import Array, from_plain
from mainstem_keyed_state.logic import MAIN

#: The columns of packed outputs.
PACKED_OUTPUTS = "name STRING, payload BINARY"
OUTPUT, IDENTITY = "_output", "_id"
_ROWS = 50_000
#: A packed output has at most so many rows, and about so many bytes.
_PACKED_ROWS, _PACKED_BYTES = 250_000, 32 * 1024 * 1024

Batches = Iterator[pa.RecordBatch]


def packed_outputs(rows: pl.DataFrame) -> Iterator[bytes]:
    """Yield an output's rows as bytes, so many in each that neither Spark nor memory is overrun.

    A step may tell very many: one change of a row on which a million others depend.
    """
    size = max(int(rows.estimated_size()), 1)
    each = min(_PACKED_ROWS, max(_PACKED_BYTES * rows.height // size, 1))
    for part in rows.iter_slices(each):
        sink = io.BytesIO()
        part.write_ipc_stream(sink)
        yield sink.getvalue()


@dataclass(frozen=True)
class Whole:
    """The columns that come of all outputs together.

    Attributes:
        main: the columns of the main output.
        named: those of each named output, which become a struct `_<name>`.
    """

    main: pa.Schema
    named: Mapping[str, pa.Schema]

    @property
    def schema(self) -> pa.Schema:
        """All columns: those of the main output, `_output`, and a struct for each named one."""
        if not self.named:
            return self.main
        structs = [pa.field(f"_{name}", pa.struct(list(s))) for name, s in self.named.items()]
        return pa.schema([*self.main, pa.field(OUTPUT, pa.string()), *structs])


def unpacker(whole: Whole) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` that brings packed outputs to their columns."""

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for name, payload in zip(batch.column(0), batch.column(1), strict=True):
                rows = pl.read_ipc_stream(io.BytesIO(payload.as_buffer()))
                for start in range(0, rows.height, _ROWS):
                    yield placed(whole, name.as_py(), rows.slice(start, _ROWS))

    return unpack


def placed(whole: Whole, name: str, rows: pl.DataFrame) -> pa.RecordBatch:
    """Return rows of one output among the columns of all."""
    table = rows.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    (batch,) = table.combine_chunks().to_batches()
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    if name == MAIN:
        main = {f.name: from_plain(found[f.name], f.type) for f in whole.main}
        inner: dict[str, Array] = {}
    else:
        inside = whole.named[name]
        row = [from_plain(found[f.name], f.type) for f in inside]
        inner = {
            f"_{name}": pa.StructArray.from_arrays(row, fields=list(inside)),
            OUTPUT: pa.array([name], pa.string()).take(pa.array([0] * rows.height)),
        }
        own = IDENTITY in found and IDENTITY in whole.main.names and IDENTITY not in inside.names
        main = {IDENTITY: from_plain(found[IDENTITY], pa.binary())} if own else {}
    known = {**main, **inner}
    columns = [
        known[f.name] if f.name in known else pa.nulls(rows.height, f.type) for f in whole.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=whole.schema)
