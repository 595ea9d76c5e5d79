"""Publishing: what executors have staged goes into the table, all at once and with the ledger entry."""

from __future__ import annotations

import time
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from mainstem import Batch, PipelineError, failpoint

from mainstem_database_sql.sink import bulk_load
from mainstem_database_sql.sink.ledger import REFUSED, Entry
from mainstem_database_sql.sink.merging import APPEND, KEYED, Merge
from mainstem_database_sql.sink.staging import StagedBatch
from mainstem_database_sql.sink.transactions import Transaction

if TYPE_CHECKING:
    from mainstem_database_sql.sink.writing import Writer


class Vanished(PipelineError):  # noqa: N818
    """Rows that were staged are not there any more."""


def publish(writer: Writer, staged: StagedBatch, batch: Batch) -> pa.Table | Entry:
    """Put the staged rows into the table with the ledger entry, unless the batch is in."""
    tried = False

    def work(transaction: Transaction) -> pa.Table | Entry:
        nonlocal tried
        done = _put(transaction, writer, staged, batch, tried=tried)
        tried = tried or not isinstance(done, Entry)
        return done

    try:
        found = writer.transact(work, staged.staging.index)
    except Vanished:
        # PostgreSQL empties such tables when it starts after a crash, and has none at a replica.
        staged = staged.again()
        found = writer.transact(work, staged.staging.index)
    failpoint("sql.after-commit")
    # Not before: MySQL would end the transaction by it.
    writer.transact(lambda transaction: staged.staging.drop(transaction.connection))
    return found


def _put(
    transaction: Transaction, writer: Writer, staged: StagedBatch, batch: Batch, *, tried: bool
) -> pa.Table | Entry:
    staging, connection, target = staged.staging, transaction.connection, staged.staging.target
    known = writer.ledger.enter(connection, batch, once=True, tried=tried)
    if known is not None:
        return known
    failpoint("sql.after-ledger")
    counted = [staging.count(connection, staging.put, staged.tasks)]
    if target.key:
        counted.append(staging.count(connection, staging.gone, staged.tasks))
    if sum(counted) != staged.put + staged.gone:
        raise Vanished(
            f"{batch.sink}: of {staged.put + staged.gone} rows that were staged, {sum(counted)} are left",
            node=batch.sink,
        )
    merge = Merge(target, KEYED if target.key else APPEND)
    merge.begin(connection)
    numbers = _Numbers(staged)
    refused: list[dict[str, Any]] = []
    now = int(time.time())

    def put(start: int, end: int) -> None:
        first, last = numbers[start], numbers[end - 1] + 1
        if target.key and staged.gone:
            merge.delete(connection, staging.relation(staging.gone, staged.tasks, first, last), now)
        merge.put(connection, staging.relation(staging.put, staged.tasks, first, last))

    def refuse(place: int, reason: str) -> None:
        row = staging.row(connection, staged.tasks, numbers[place])
        refused.append({"reason": reason, "payload": bulk_load.payload(row)})

    transaction.put(len(numbers), put, refuse)
    writer.forget(transaction, merge)
    whole = pa.concat_tables([staged.refused, pa.Table.from_pylist(refused, REFUSED)])
    if whole.num_rows:
        writer.ledger.keep(connection, batch, whole)
    failpoint("sql.before-commit")
    return whole


class _Numbers:
    """The numbers of staged rows by their place in the batch: each task's begin far from the others'."""

    def __init__(self, staged: StagedBatch) -> None:
        self._firsts = [first for first, _ in staged.spans]
        self._starts = list(accumulate((rows for _, rows in staged.spans), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, place: int) -> int:
        task = bisect_right(self._starts, place) - 1
        return self._firsts[task] + place - self._starts[task]
