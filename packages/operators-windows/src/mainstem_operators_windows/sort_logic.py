"""What `sort` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import TIME, passed

_WAITING, _DUE = "waiting", "__due"
IDENTITY = "_id"


class SortLogic(Logic):
    """Lets rows wait until no earlier one can come. Rows of one time come in the order of their `_id`.

    Args:
        rows: the columns.
        time: the event time's; never null, and of no late row.
    """

    def __init__(self, rows: pl.Schema, time: str) -> None:
        self._time = time
        self._order = [time, *(name for name in (IDENTITY,) if name in rows)]
        self.ports = {"input": rows}
        self.outputs = {MAIN: rows}
        waiting = pl.Schema({**rows, _DUE: TIME})
        self.tables = {_WAITING: Table(waiting, due=_DUE, queued=True)}

    def step(self, step: Step) -> Done:
        """Give what is due, and let the others wait.

        A row of the batch is due at once if a step above has held it back until the watermark passed it.
        """
        # One of the watermark's own time is not late yet.
        due = (pl.col(self._time) + pl.duration(microseconds=1)).alias(_DUE)
        rows = step.rows["input"].select(KEY, *self.ports["input"]).with_columns(due)
        over = passed(_DUE, step.watermark)
        ready = pl.concat([step.state[_WAITING].select(rows.columns), rows.filter(over)])
        ready = ready.sort(self._order, maintain_order=True)
        return Done({MAIN: ready.drop(KEY, _DUE)}, {_WAITING: rows.filter(~over)})
