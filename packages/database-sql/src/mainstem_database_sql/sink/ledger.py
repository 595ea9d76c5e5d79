"""The ledger: which batch of which checkpoint is in, and which run wrote last.

One row for each pipeline, sink and query id of Spark's. It is set in the transaction that writes a
batch's rows, so the two are in together or not at all; and it is locked from that transaction's start,
so that a run which has been replaced waits, sees the higher epoch, and gives up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import sqlalchemy as sa
from mainstem import Batch, PipelineError
from mainstem.sinks import ledger_step, old_copy

from mainstem_database_sql.sink.target import Target

_REFUSED: dict[str, pa.DataType] = {
    "_id": pa.binary(),
    "reason": pa.string(),
    "payload": pa.binary(),
}
#: What a batch refused, as kept and as returned.
REFUSED = pa.schema(_REFUSED)
#: Marks an entry, with what its batch refused; see `Entry.disputed`.
_DISPUTED = {"disputed": "planned anew"}
#: More than the statement is long around the bytes, which PyMySQL writes as hex digits.
_STATEMENT = 4096


@dataclass(frozen=True)
class Entry:
    """What the ledger has of a checkpoint: the last batch that is in, and what that refused."""

    batch: int
    epoch: int
    refused: bytes | None

    @property
    def disputed(self) -> bool:
        """Whether a run that had planned the batch anew, from an old copy, has met it."""
        return self.refused is not None and bool(pa.ipc.open_stream(self.refused).schema.metadata)

    def told(self, batch: Batch) -> pa.Table:
        """Return what a batch that is in refused; of older ones nobody asks.

        Raises:
            FencedError: what is in need not be what the batch has.
        """
        if self.batch != batch.id or self.refused is None:
            return REFUSED.empty_table()
        if self.disputed:
            raise old_copy(
                batch, f"batch {batch.id} of this checkpoint, which was planned anew since"
            )
        return unpacked(self.refused)


class Contended(OSError):  # noqa: N818
    """Another run was in the way for a moment."""


class Ledger:
    """The ledger beside a sink's table."""

    def __init__(self, target: Target) -> None:
        table = self._table = target.ledger
        self._is = sa.and_(
            table.c.pipeline == sa.bindparam("of_pipeline"),
            table.c.sink == sa.bindparam("of_sink"),
            table.c.query_id == sa.bindparam("of_query_id"),
        )
        batch: sa.BindParameter[int] = sa.bindparam("of_batch")
        epoch: sa.BindParameter[int] = sa.bindparam("of_epoch")
        values = {"batch": batch, "epoch": epoch, "refused": None}
        self._enter = sa.update(table).where(self._is, table.c.epoch <= epoch).values(values)
        self._enter_once = self._enter.where(table.c.batch < batch)

    def find(self, connection: sa.Connection, batch: Batch, *, lock: bool = False) -> Entry | None:
        """Return the checkpoint's entry, locked until the transaction's end if told so."""
        table = self._table
        wanted = sa.select(table.c.batch, table.c.epoch, table.c.refused).where(self._is)
        row = connection.execute(wanted.with_for_update() if lock else wanted, _who(batch)).first()
        return Entry(row.batch, row.epoch, row.refused) if row else None

    def enter(
        self, connection: sa.Connection, batch: Batch, *, once: bool, tried: bool = False
    ) -> Entry | None:
        """Enter a batch, and lock the entry; return the entry instead if the batch is in already.

        Args:
            connection: in the transaction that writes the rows.
            batch: the batch.
            once: whether a batch that is in is not to be written again.
            tried: whether it may have come in by an earlier COMMIT of the same write.

        Raises:
            FencedError: a run with a higher epoch has been here; or, with `once`, a later batch.
        """
        statement = self._enter_once if once else self._enter
        numbers = {"of_batch": batch.id, "of_epoch": batch.epoch}
        if connection.execute(statement, _who(batch) | numbers).rowcount:
            return None
        entry = self.find(connection, batch, lock=True)
        if entry is None:
            # Two that insert at once: one waits for the other, and is refused as a duplicate.
            names = {"pipeline": batch.pipeline, "sink": batch.sink, "query_id": batch.query_id}
            values = {"batch": batch.id, "epoch": batch.epoch}
            try:
                connection.execute(sa.insert(self._table).values(names | values))
            except sa.exc.IntegrityError as error:
                raise Contended("another run made its ledger entry at the same time") from error
            return None
        ledger_step(batch, last=entry.batch, epoch=entry.epoch, once=once)
        if once:
            return self._met(connection, batch, entry, known=batch.retried or tried)
        return entry

    def _met(self, connection: sa.Connection, batch: Batch, entry: Entry, *, known: bool) -> Entry:
        """Return the entry of a batch that is in, after noting who met it.

        Args:
            known: whether an earlier run, or an earlier try of this one, may have written the batch.
        """
        if known and not entry.disputed:
            # A run that was replaced must not write the next batch.
            mine = sa.update(self._table).where(self._is, self._table.c.epoch < batch.epoch)
            connection.execute(mine.values(epoch=batch.epoch), _who(batch))
        elif not entry.disputed:
            # To the next run of this copy the batch will look as if an earlier run had written it.
            table = REFUSED.empty_table() if entry.refused is None else unpacked(entry.refused)
            entry = replace(entry, refused=packed(table.replace_schema_metadata(_DISPUTED)))
            marked = sa.update(self._table).where(self._is).values(refused=entry.refused)
            connection.execute(marked, _who(batch))
        return entry

    def keep(self, connection: sa.Connection, batch: Batch, refused: pa.Table) -> None:
        """Keep what a batch refused, for when it is asked again.

        Raises:
            PipelineError: it is more than MySQL takes at once.
        """
        data = packed(refused)
        if connection.dialect.name == "mysql":
            limit = connection.execute(sa.text("SELECT @@max_allowed_packet")).scalar_one()
            if 2 * len(data) + _STATEMENT > limit:  # MySQL would just hang up
                raise PipelineError(
                    f"{batch.sink}: of batch {batch.id} {refused.num_rows} rows were refused, which take "
                    f"{len(data)} bytes in the ledger, and MySQL's max_allowed_packet is {limit}: raise "
                    "it, or limit batches at the source",
                    node=batch.sink,
                )
        kept = sa.update(self._table).where(self._is).values(refused=data)
        connection.execute(kept, _who(batch))


def _who(batch: Batch) -> dict[str, object]:
    return {"of_pipeline": batch.pipeline, "of_sink": batch.sink, "of_query_id": batch.query_id}


def packed(table: pa.Table) -> bytes:
    """Return a table as one Arrow IPC stream, compressed; MySQL takes 16 MiB at once."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def unpacked(data: bytes) -> pa.Table:
    """Return the table of an Arrow IPC stream."""
    return pa.ipc.open_stream(data).read_all()
