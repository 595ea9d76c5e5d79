"""Rows that come from the logic: each output's among the columns of all, which the core splits by output.

A step packs them as Arrow's bytes, whole batches of them; what is left to do is to hand these on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem_keyed_state.arrays import Array, from_plain, record_batch
from mainstem_keyed_state.logic import MAIN

if TYPE_CHECKING:
    import polars as pl

#: The columns of packed outputs.
PACKED_OUTPUTS = "payload BINARY"
OUTPUT, IDENTITY = "_output", "_id"
#: A packed output has at most so many rows, and about so many bytes.
_PACKED_ROWS, _PACKED_BYTES = 50_000, 32 * 1024 * 1024

Batches = Iterator[pa.RecordBatch]


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


def packed_outputs(whole: Whole, name: str, rows: pl.DataFrame) -> Iterator[bytes]:
    """Yield an output's rows as bytes, so many in each that neither Spark nor memory is overrun.

    A step may tell very many: one change of a row on which a million others depend.
    """
    size = max(int(rows.estimated_size()), 1)
    each = min(_PACKED_ROWS, max(_PACKED_BYTES * rows.height // size, 1))
    for part in rows.iter_slices(each):
        batch = placed(whole, name, part)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def unpack(batches: Batches) -> Batches:
    """Yield the rows of packed outputs; the function for `mapInArrow`."""
    for batch in batches:
        for payload in batch.column(0):
            with pa.ipc.open_stream(payload.as_buffer()) as reader:
                yield from reader


def placed(whole: Whole, name: str, rows: pl.DataFrame) -> pa.RecordBatch:
    """Return rows of one output among the columns of all."""
    batch = record_batch(rows)
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
