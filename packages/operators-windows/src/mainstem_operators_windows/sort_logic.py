"""What `sort` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step
from mainstem_keyed_state.waiting import in_turn, order_of, waiting_table

_WAITING = "waiting"


class SortLogic(Logic):
    """Lets rows wait until no earlier one can come. Rows of one time come in the order of their `_id`.

    Args:
        rows: the columns.
        time: the event time's; never null, and of no late row.
    """

    def __init__(self, rows: pl.Schema, time: str) -> None:
        self._time = time
        self.ports = {"input": rows}
        self.outputs = {MAIN: rows}
        self.tables = {_WAITING: waiting_table(rows)}

    def step(self, step: Step) -> Done:
        """Give what is due, and let the others wait."""
        rows = step.rows["input"].select(KEY, *self.ports["input"])
        ready, waiting = in_turn(rows, step.state[_WAITING], self._time, step.watermark)
        ready = ready.sort(order_of(self._time, ready.schema), maintain_order=True)
        return Done({MAIN: ready.drop(KEY)}, {_WAITING: waiting})
