"""Operator `table`: events that set or delete a key become a table that tells each of its changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem import (
    EVENTS,
    Changelog,
    Checked,
    Events,
    Expressions,
    Inputs,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    PositiveDuration,
    Shape,
    StateFacts,
    Statement,
    option,
    watermark_hint,
)
from mainstem.attempts import Attempts, OnError, on_error_option
from mainstem.columns import Column, find_column, quoted
from mainstem_keyed_state import KeyedOperator, event_time, lacking
from pydantic import model_validator

from mainstem_operators_joins.columns import GONE, check_columns, check_ordered

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic
    from pyspark.sql import DataFrame

    from mainstem_operators_joins.table_logic import TableSettings


_MICROSECOND = timedelta(microseconds=1)


class History(Options):
    """How many of a key's former rows are kept: `versions`, `within`, or as both allow."""

    versions: int | None = option(
        None, ge=1, description="The number of former rows of each key.", example=10
    )
    within: PositiveDuration | None = option(
        None,
        description="How long a former row is kept after its event time, by the watermark.",
        example="7 days",
    )

    @model_validator(mode="after")
    def _bounded(self) -> History:
        if self.versions is None and self.within is None:
            raise ValueError("expected `versions`, `within` or both")
        return self


class TableOptions(Options):
    """Options of `table`."""

    key: list[str] = option(
        min_length=1, description="The columns of the table's key.", example=["city"]
    )
    sequence: str = option(
        description="The column that only grows for a key: of two rows the one with the greater "
        "value is the newer. A version number, a time, or a message's position.",
        example="observed",
    )
    delete: str | None = option(
        None,
        description="An SQL condition: a row that meets it deletes its key, such as a tombstone.",
        example="value IS NULL",
    )
    deletes_within: PositiveDuration | None = option(
        None,
        description="How long after its event time, by the watermark, a deletion is remembered, so "
        "that an older row that comes late does not bring the key back; for ever when left out. When it "
        "is forgotten, its key's history goes too. A deletion without an event time is rejected.",
        example="1 day",
    )
    history: History | None = option(
        None,
        description="Keep former rows of each key in the state, where `mainstem state` shows them, and "
        "where they tell a late row from one that came twice.",
    )
    on_error: OnError = on_error_option()


class ToTable(KeyedOperator, Expressions, Checked):
    """Keeps the newest row of each key, and tells each change with the row as it was before."""

    options: TableOptions
    # Of rows that come in the wrong order the batches decide which are told as changes.
    capabilities = OperatorCapabilities(batch_invariant=False)
    ports = {"input": EVENTS}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        check_columns(given, options.key, "key", "the input")
        sequence = find_column(given.columns, options.sequence, "sequence", whose="the input")
        check_ordered(sequence.type, "the input", "sequence")
        within = options.history.within if options.history else None
        for name, asked in (("deletes_within", options.deletes_within), ("history", within)):
            if asked is not None and given.event_time is None:
                hint = watermark_hint(given)
                raise OptionError("the input has no event time", option=name, hint=hint)
        return Changelog(
            given.columns,
            [given.exact(name) for name in options.key],
            given.exact(options.sequence),
            preimages=True,
            event_time=given.event_time,
        )

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        late = Events([*inputs.only.columns, Column("_reason", "string")])
        return {"late": late, **super().outputs(inputs)}

    def expressions(self) -> Mapping[str, str]:
        return {"delete": self.options.delete} if self.options.delete else {}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        delete = self.options.delete
        return [Statement.condition("delete", delete)] if delete else []

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options = self.options
        return StateFacts(
            version=1,
            keyed=True,
            shaped_by={
                "key": options.key,
                "sequence": options.sequence,
                "columns": list(inputs.only.names),
                "history": options.history is not None,
            },
            gains=frozenset({"columns"}),
            grows="the table itself is kept: the newest row of every key"
            + (", and its former ones" if options.history else "")
            + ("." if options.deletes_within else ", deleted keys too (see `deletes_within`)."),
        )

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        return {"input": [quoted(inputs.only.exact(name)) for name in self.options.key]}

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        given, options = inputs.only, self.options
        needed = [given.exact(name) for name in (*options.key, options.sequence)]
        reasons = lacking(needed)
        if options.delete and options.on_error == "reject":
            reasons[f"{GONE} IS NULL"] = f"delete fails: {options.delete}"
        time = self._time(given)
        if options.deletes_within is not None and time is not None:
            reasons[f"{GONE} AND {quoted(time)} IS NULL"] = (
                f"{time} of a deletion is null, so it could not be forgotten"
            )
        return {"input": reasons}

    def rows(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, DataFrame]:
        rows, delete = inputs.only, self.options.delete
        sequence = ctx.shapes.only.exact(self.options.sequence)
        check_ordered(dict(rows.dtypes).get(sequence), "the input", "sequence")
        # The condition may speak of any column, so it comes before columns are left out.
        gone = f"coalesce({delete or 'false'}, false) AS {GONE}"
        if delete and self.options.on_error == "reject":
            tried = Attempts({"delete": delete})
            rows = tried.onto(rows)
            holds = f"coalesce({tried.value('delete')}, false)"
            gone = f"IF({tried.failure()} IS NULL, {holds}, NULL) AS {GONE}"
        names = [quoted(column.name) for column in ctx.shapes.only.columns]
        return {"input": rows.selectExpr("*", gone).selectExpr(*names, GONE)}

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_joins.table_logic import TableLogic

        return TableLogic(self._settings(inputs.only), rows["input"])

    def _time(self, given: Shape) -> str | None:
        """Return the column that says when a change was made, or None."""
        time, sequence = event_time(given), given.exact(self.options.sequence)
        kind = given.column(sequence)
        if time is None and kind is not None and kind.type == "timestamp":
            return sequence
        return time

    def _settings(self, given: Shape) -> TableSettings:
        from mainstem_operators_joins.table_logic import TableSettings

        options = self.options
        history = options.history or History(versions=1)
        return TableSettings(
            key=tuple(given.exact(name) for name in options.key),
            sequence=given.exact(options.sequence),
            time=self._time(given),
            deletes_within=_micros(options.deletes_within),
            history=options.history is not None,
            history_versions=history.versions,
            history_within=_micros(history.within),
        )


def _micros(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // _MICROSECOND
