"""Small logics for the tests; a module of its own, for workers import it by name."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table

TIME = pl.Datetime("us", "UTC")


class Remember(Logic):
    """Keeps every row until it is due, and tells which rows of its key are there."""

    def __init__(self, columns: pl.Schema, due: str, queued: bool = False) -> None:
        self.ports = {"rows": columns}
        self.tables = {"kept": Table(columns, due=due, queued=queued)}
        self.outputs = {MAIN: columns, "gone": columns}
        self._due = due

    def step(self, step: Step) -> Done:
        kept = pl.concat([step.state["kept"], step.rows["rows"]])
        late = (
            pl.lit(False)
            if step.watermark is None
            else (pl.col(self._due).to_physical() <= step.watermark).fill_null(False)
        )
        gone, stay = kept.filter(late), kept.filter(~late)
        return Done({MAIN: step.rows["rows"].drop(KEY), "gone": gone.drop(KEY)}, {"kept": stay})


class Count(Logic):
    """Counts the rows of each key; gives the counts that changed."""

    ports: Mapping[str, pl.Schema] = {"rows": pl.Schema({"k": pl.Int64})}
    tables: Mapping[str, Table] = {"counts": Table(pl.Schema({"n": pl.Int64}))}
    outputs: Mapping[str, pl.Schema] = {MAIN: pl.Schema({"k": pl.Int64, "n": pl.Int64})}

    def step(self, step: Step) -> Done:
        new = step.rows["rows"].group_by(KEY, maintain_order=True).agg(pl.first("k"), more=pl.len())
        old = step.state["counts"]
        now = new.join(old, on=KEY, how="left", nulls_equal=True).with_columns(
            n=pl.col("n").fill_null(0) + pl.col("more").cast(pl.Int64)
        )
        rest = old.join(new, on=KEY, how="anti", nulls_equal=True, maintain_order="left")
        return Done(
            {MAIN: now.select("k", "n")}, {"counts": pl.concat([rest, now.select(KEY, "n")])}
        )


class CountText(Count):
    """As `Count`, in a later version that holds the counts as text, in another table."""

    version = 2
    tables = {"totals": Table(pl.Schema({"total": pl.String()}))}
    outputs = {MAIN: pl.Schema({"k": pl.Int64, "n": pl.String()})}

    def step(self, step: Step) -> Done:
        old = step.state["totals"].select(KEY, n=pl.col("total").cast(pl.Int64))
        done = super().step(Step(step.rows, {"counts": old}, step.watermark))
        out, counts = done.outputs[MAIN], done.state["counts"]
        text = counts.select(KEY, total=pl.col("n").cast(pl.String))
        return Done({MAIN: out.with_columns(pl.col("n").cast(pl.String))}, {"totals": text})

    def migrate(
        self, state: Mapping[str, pl.DataFrame], version: int
    ) -> Mapping[str, pl.DataFrame]:
        assert version == 1
        if "counts" not in state:
            return {}
        return {"totals": state["counts"].select(KEY, total=pl.col("n").cast(pl.String))}


class Pairs(Logic):
    """Gives rows at `left` with the number of rows at `right` that had their key so far."""

    def __init__(self, left: pl.Schema, right: pl.Schema) -> None:
        self.ports = {"left": left, "right": right}
        self.tables = {"counts": Table(pl.Schema({"n": pl.Int64}))}
        self.outputs = {MAIN: pl.Schema({**left, "n": pl.Int64})}

    def step(self, step: Step) -> Done:
        more = step.rows["right"].select(KEY, n=pl.lit(1, pl.Int64))
        counts = pl.concat([step.state["counts"], more.drop_nulls(KEY)])
        counts = counts.group_by(KEY, maintain_order=True).agg(pl.col("n").sum())
        out = step.rows["left"].join(counts, on=KEY, how="left").drop(KEY)
        return Done({MAIN: out.with_columns(pl.col("n").fill_null(0))}, {"counts": counts})


class Recall(Remember):
    """Gives every row at once, and again at `again` when the watermark passes its `_due`."""

    def __init__(self, columns: pl.Schema) -> None:
        super().__init__(columns, "_due")
        self.outputs = {MAIN: columns, "again": columns}

    def step(self, step: Step) -> Done:
        done = super().step(step)
        outputs = {MAIN: done.outputs[MAIN], "again": done.outputs["gone"]}
        return Done(outputs, done.state)
