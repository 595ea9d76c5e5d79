"""The ledger: which batch of which checkpoint is in, and which run wrote last.

One row for each pipeline, sink and query id of Spark's. It is set in the transaction that writes a
batch's rows, so the two are in together or not at all; and it is locked from that transaction's start,
so that a run which has been replaced waits, sees the higher epoch, and gives up.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa
from mainstem import Batch, FencedError

from mainstem_database_sql.sink.target import Target

_REFUSED: dict[str, pa.DataType] = {
    "_id": pa.binary(),
    "reason": pa.string(),
    "payload": pa.binary(),
}
#: What a batch refused, as kept and as returned.
REFUSED = pa.schema(_REFUSED)


@dataclass(frozen=True)
class Entry:
    """What the ledger has of a checkpoint: the last batch that is in, and what that refused."""

    batch: int
    epoch: int
    refused: bytes | None


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

    def enter(self, connection: sa.Connection, batch: Batch, *, once: bool) -> Entry | None:
        """Enter a batch, and lock the entry; return the entry instead if the batch is in already.

        Args:
            connection: in the transaction that writes the rows.
            batch: the batch.
            once: whether a batch that is in is not to be written again.

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
        if entry.epoch > batch.epoch:
            raise FencedError(
                f"{batch.sink}: the ledger has seen run {entry.epoch} of this checkpoint, and this is "
                f"run {batch.epoch}: another runner has taken over, or the checkpoint is an old copy. "
                "Begin anew with `--fresh` if the copy is what you want.",
                node=batch.sink,
            )
        if once and entry.batch > batch.id:
            raise FencedError(
                f"{batch.sink}: the ledger has batch {entry.batch} of this checkpoint, and this is batch "
                f"{batch.id}: the checkpoint is an old copy, and what it would write need not be what is "
                "there. Go on from the newest copy, or begin anew with `--fresh`.",
                node=batch.sink,
            )
        return entry

    def keep(self, connection: sa.Connection, batch: Batch, refused: pa.Table) -> None:
        """Keep what a batch refused, for when it is asked again."""
        kept = sa.update(self._table).where(self._is).values(refused=packed(refused))
        connection.execute(kept, _who(batch))


def _who(batch: Batch) -> dict[str, object]:
    return {"of_pipeline": batch.pipeline, "of_sink": batch.sink, "of_query_id": batch.query_id}


def packed(table: pa.Table) -> bytes:
    """Return a table as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def unpacked(data: bytes) -> pa.Table:
    """Return the table of an Arrow IPC stream."""
    return pa.ipc.open_stream(data).read_all()
