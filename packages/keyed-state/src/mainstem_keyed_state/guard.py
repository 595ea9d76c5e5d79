"""Rows that a logic is not given: those that can't be used, and those that come too late."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import polars as pl
from mainstem.columns import json_sql, literal, quoted

from mainstem_keyed_state.logic import MAIN, Done, Logic, Step
from mainstem_keyed_state.outputs import IDENTITY

LATE, REJECTED = "late", "rejected"
#: On rows of a port: why the row can't be used, and the row as JSON; null on all others.
REASON, PAYLOAD = "_refused", "_payload"
_GUARD = {REASON: pl.String(), PAYLOAD: pl.Binary()}


def refusals(columns: Sequence[str], reasons: Mapping[str, str]) -> list[str]:
    """Return the SQL of the columns `REASON` and `PAYLOAD`.

    Args:
        columns: those that are shown of a row that can't be used.
        reasons: why it can't, by SQL conditions; the first that holds counts.
    """
    cases = " ".join(f"WHEN {sql} THEN {literal(reason)}" for sql, reason in reasons.items())
    row = f"CAST({json_sql({name: quoted(name) for name in columns})} AS BINARY)"
    return [
        f"CASE {cases} END AS {REASON}",
        f"IF({' OR '.join(f'({sql})' for sql in reasons)}, {row}, NULL) AS {PAYLOAD}",
    ]


class Guard(Logic):
    """A logic that is given only what it can use; the rest goes to `rejected` and `late`.

    Args:
        logic: does the work. Of what it puts into these outputs itself nothing is lost.
        refusing: the ports whose rows have the columns of `refusals`.
        late: the port whose late rows go to `late`; None for none.
        time: its event-time column; None where no row can be late.
    """

    def __init__(
        self, logic: Logic, refusing: Collection[str], late: str | None, time: str | None
    ) -> None:
        self._logic = logic
        self._refusing = [port for port in logic.ports if port in refusing]
        self._late, self._time = late, time
        self.version = logic.version
        self.tables = logic.tables
        self.everywhere = logic.everywhere
        self.ports = {
            port: pl.Schema({**schema, **(_GUARD if port in refusing else {})})
            for port, schema in logic.ports.items()
        }
        told = {"reason": pl.String(), "payload": pl.Binary()}
        if IDENTITY in logic.outputs.get(MAIN, {}):
            told[IDENTITY] = pl.Binary()
        added = {REJECTED: pl.Schema(told)} if self._refusing else {}
        if late is not None:
            # Without what an operator has put beside the columns of the port.
            own = {n: kind for n, kind in logic.ports[late].items() if not n.startswith("__")}
            added[LATE] = pl.Schema(own)
        self.outputs = {**added, **logic.outputs}

    def share(self, step: Step) -> Done:
        """Put aside what can't be used, and let the logic share the rest."""
        rows, aside = self._refused(step.rows)
        return self._with(aside, self._logic.share(Step(rows, step.state, step.watermark)))

    def step(self, step: Step) -> Done:
        """Put aside what can't be used, and let the logic do the rest."""
        rows, aside = self._refused(step.rows)
        if self._late is not None and self._time is not None and step.watermark is not None:
            known = rows[self._late]
            late = known.get_column(self._time).to_physical() < step.watermark
            if late.any():
                late = late.fill_null(value=False)
                aside.setdefault(LATE, []).append(known.filter(late))
                rows[self._late] = known.filter(~late)
        return self._with(aside, self._logic.step(Step(rows, step.state, step.watermark)))

    def _refused(
        self, given: Mapping[str, pl.DataFrame]
    ) -> tuple[dict[str, pl.DataFrame], dict[str, list[pl.DataFrame]]]:
        """Return the rows that can be used, and those that can't by the output that they go to."""
        rows = dict(given)
        aside: dict[str, list[pl.DataFrame]] = {}
        for port in self._refusing:
            if port in rows:
                rows[port], refused = self._usable(rows[port])
                if refused is not None:
                    aside.setdefault(REJECTED, []).append(refused)
        return rows, aside

    def _with(self, aside: Mapping[str, list[pl.DataFrame]], done: Done) -> Done:
        """Return what the logic did, with the rows that it was not given."""
        if not aside:
            return done
        outputs = dict(done.outputs)
        for name, frames in aside.items():
            own = [outputs[name]] if name in outputs else []
            schema = self.outputs[name]
            every = [frame.select(_shaped(frame, schema)) for frame in (*own, *frames)]
            outputs[name] = pl.concat(every)
        return Done(outputs, done.state)

    def migrate(
        self, state: Mapping[str, pl.DataFrame], version: int
    ) -> Mapping[str, pl.DataFrame]:
        return self._logic.migrate(state, version)

    def _usable(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Return the rows that can be used, without the guard's columns, and the others."""
        usable = rows.drop(REASON, PAYLOAD)
        known = rows.get_column(REASON)
        if known.null_count() == rows.height:
            return usable, None
        others = rows.filter(known.is_not_null())
        # By themselves: the row may have columns of these names.
        identity = [IDENTITY] if IDENTITY in others.columns else []
        told = (pl.col(REASON).alias("reason"), pl.col(PAYLOAD).alias("payload"))
        refused = others.select(*told, *identity)
        return usable.filter(known.is_null()), refused


def _shaped(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Return a schema's columns of a frame, null where it lacks one."""
    return [
        pl.col(name) if name in frame.columns else pl.lit(None, kind).alias(name)
        for name, kind in schema.items()
    ]
