"""Operator `select`: computes columns and drops rows, by SQL expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from mainstem import (
    REJECTED,
    Changelog,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    option,
)
from mainstem.attempts import Attempts, OnError, on_error_option, refusal, row_as_json
from mainstem.columns import Column, check_names, quoted, unquoted
from mainstem.contracts.abilities import Branching, Checked, Expressions, Statement
from mainstem.contracts.columns import words_in
from mainstem.contracts.shapes import CHANGE_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HOLDS = "__holds"
_COMPARING = frozenset(("and", "or", "not", "in", "is", "null", "like", "between", "true", "false"))


class SelectOptions(Options):
    """Options of `select`."""

    columns: dict[str, str] | None = option(
        None,
        min_length=1,
        description="The output's columns: SQL expressions by name; all columns when left out.",
        example={"city": "city", "euros": "cents / 100"},
    )
    where: str | None = option(
        None,
        description="An SQL condition over the input: rows where it holds go on. Of a changelog, a row "
        "where it does not hold becomes the deletion of its key, which may have met it before; "
        "pre-images then end here. A condition that only compares columns of the key drops rows as "
        "of events.",
    )
    on_error: OnError = on_error_option()


class Select(Operator, Branching, Expressions, Checked):
    """Computes columns and keeps the rows that meet a condition, by SQL expressions."""

    options: SelectOptions

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """Rows stay rows; all of them do unless there is a condition."""
        return OperatorCapabilities(row_wise=True, keeps_rows=self.options.where is None)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = self._left(inputs.only)
        wanted = self.options.columns
        if wanted is None:
            if self.options.where is None:
                raise OptionError("expected `columns`, `where` or both")
            return given.with_columns(given.columns)
        check_names(wanted, "columns")
        plain = {name: given.column(text.strip().strip("`")) for name, text in wanted.items()}
        if isinstance(given, Changelog):
            for key in given.key:
                if plain.get(key) != given.column(key):
                    raise OptionError(
                        f"the changelog's key column {key!r} must stay as it is",
                        option="columns",
                        hint=f"Write `{key}: {key}`.",
                    )
        columns = [
            Column(name, source.type, source.nullable) if source else Column(name)
            for name, source in plain.items()
        ]
        event_time = None
        if given.event_time:
            for name, source in plain.items():
                if source and source.name == given.event_time.column:
                    event_time = replace(given.event_time, column=name)
        return replace(given.with_columns(columns), event_time=event_time)

    def expressions(self) -> Mapping[str, str]:
        where = {"where": self.options.where} if self.options.where else {}
        columns = self.options.columns or {}
        return {**where, **{f"columns.{name}": text for name, text in columns.items()}}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        where = self.options.where
        return [
            *([Statement.condition("where", where)] if where else []),
            *(
                Statement(f"columns.{name}", text, column=name)
                for name, text in (self.options.columns or {}).items()
            ),
        ]

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED} if self.options.on_error == "reject" else {}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        deletes = self._deletes(ctx.shapes.only)
        if self.options.on_error == "reject":
            return self._attempted(inputs.only, deletes, told="rejected" in ctx.wanted)
        from pyspark.sql import functions as F  # noqa: N812

        frame, options = inputs.only, self.options
        reserved = [name for name in frame.columns if name.startswith("_")]
        if deletes:
            frame = frame.where(f"{CHANGE_TYPE} != 'update_preimage'")
            frame = frame.withColumn(_HOLDS, F.coalesce(F.expr(options.where or ""), F.lit(False)))
            change = f"IF({_HOLDS}, {CHANGE_TYPE}, 'delete')"
            frame = frame.withColumn(CHANGE_TYPE, F.expr(change))
        elif options.where is not None:
            frame = frame.where(options.where)
        if options.columns is None:
            return frame.drop(_HOLDS)
        plain = {name.lower() for name in frame.columns}
        columns = []
        for name, text in options.columns.items():
            value = F.expr(text)
            # What `where` keeps out may fail in an expression.
            if deletes and text.strip().strip("`").lower() not in plain:
                value = F.when(F.col(_HOLDS), value)
            columns.append(value.alias(name))
        return frame.select(*reserved, *columns)

    def _attempted(self, frame: DataFrame, deletes: bool, *, told: bool) -> DataFrame:
        """Return the frame with the rows refused for which an expression fails."""
        options = self.options
        reserved = [name for name in frame.columns if name.startswith("_")]
        given = [name for name in frame.columns if name not in reserved]
        columns = options.columns or {name: quoted(name) for name in given}
        expressions = self.expressions() if options.columns else {}
        if not options.columns and options.where:
            expressions = {"where": options.where}
        if deletes:
            frame = frame.where(f"{CHANGE_TYPE} != 'update_preimage'")
        tried = Attempts(expressions)
        holds = "true"
        reason = tried.failure(key for key in expressions if key != "where")
        if options.where:
            holds = f"coalesce({tried.value('where')}, false)"
            # What `where` keeps out may fail in the other expressions.
            reason = f"coalesce({tried.failure(['where'])}, IF({holds}, {reason}, NULL))"
        frame = tried.onto(frame).selectExpr(
            *(name for name in reserved if name != CHANGE_TYPE or not deletes),
            *([f"IF({holds}, {CHANGE_TYPE}, 'delete') AS {CHANGE_TYPE}"] if deletes else []),
            *(
                f"{tried.value(f'columns.{name}')} AS {quoted(name)}"
                if f"columns.{name}" in tried
                else f"{text} AS {quoted(name)}"
                for name, text in columns.items()
            ),
            f"{row_as_json(given)} AS __payload",
            f"{holds} AS {_HOLDS}",
            f"{reason} AS __reason",
        )
        if not deletes:
            frame = frame.where(f"{_HOLDS} OR __reason IS NOT NULL")
        return frame.selectExpr(
            *reserved,
            *map(quoted, columns),
            *refusal("__reason", "__payload", wanted=told),
        )

    def _left(self, given: Shape) -> Shape:
        """Return the shape of what `where` leaves."""
        # A deletion would have to carry the row before, which is in another row.
        return replace(given, preimages=False) if self._deletes(given) else given

    def _deletes(self, given: Shape) -> TypeGuard[Changelog]:
        """Whether a row that `where` keeps no longer is deleted."""
        where = self.options.where
        return where is not None and isinstance(given, Changelog) and not _of_key(where, given)


def _of_key(where: str, table: Changelog) -> bool:
    """Whether a condition compares columns of the key alone, so that it always holds for a key or never.

    A function could give something else each time, so one that has any does not count.
    """
    key = {name.lower() for name in table.key}
    others = {name.lower() for name in table.names} - key
    words = (word.lower() for word in words_in(where))
    return all(unquoted(word) in key or word in _COMPARING - others for word in words)
