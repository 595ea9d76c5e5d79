"""The base of every operator that asks an external system about its rows."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from mainstem import (
    EVENTS,
    REJECTED,
    Answerable,
    Branching,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Recorded,
    Shape,
)
from mainstem.arrays import arrow_call
from mainstem.attempts import refusal, row_as_json
from mainstem.columns import (
    FAR_TIME,
    Column,
    check_names,
    far_time,
    find_column,
    has_arrow_type,
    literal,
    quoted,
)

from mainstem_lookup.asking import FOUND, REFUSAL, VALUES, Asking
from mainstem_lookup.lookup import Lookup
from mainstem_lookup.options import LookupOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The column of what was answered, between the two steps.
_ANSWER = "_answer"
#: Types of which two values are the same key only if they are equal.
_KEYS = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "binary", "date"}
)


class LookupOperator(Operator, Branching, Recorded, Answerable):
    """Adds to each row what an external system says of its key.

    A subclass annotates `options` with a subclass of `LookupOptions`, and says which `Lookup` asks,
    and which columns are the key. A row whose key is refused goes to `rejected`.
    """

    options: LookupOptions
    ports = {"input": EVENTS}
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)
    #: What a test says the answers are.
    _given: tuple[str, ...] | None = None

    @abstractmethod
    def lookup(self) -> type[Lookup]:
        """Return the class that asks. It may import the vendor's library."""

    @abstractmethod
    def key(self) -> Sequence[tuple[str, str]]:
        """Return for each key column its name, after the key of the option that names it."""

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        names = {name.lower() for name in given.names}
        check_names([column.name for column in self.options.table_schema], "schema")
        for column in self.options.table_schema:
            if column.name.lower() in names:
                hint = "Rename the row's column before, by `select`."
                raise OptionError(
                    f"the row has a column {column.name} already", option="schema", hint=hint
                )
            if not has_arrow_type(column.type or ""):
                raise OptionError(f"{column.ddl} can't be looked up", option="schema")
        columns = [column for column in given.columns if column.name != _ANSWER]
        self._keys(columns)
        new = [Column(column.name, column.type) for column in self.options.table_schema]
        return given.with_columns([*columns, *new])

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def recorded(self) -> Operator | None:
        return _First(self) if self.options.record else None

    def answered(self, rows: Sequence[Mapping[str, Any]]) -> Operator:
        keys = [name.lower() for _, name in self.key()]
        known = [*keys, *(column.name.lower() for column in self.options.table_schema)]
        found: dict[tuple[str, ...], str] = {}
        for row in rows:
            own = {name.lower(): value for name, value in row.items()}
            hint = f"Columns: {', '.join(known)}."
            for name in own:
                if name not in known:
                    raise OptionError(f"{dict(row)}: there is no column {name}", hint=hint)
            for name in keys:
                if own.get(name) is None:
                    raise OptionError(
                        f"{dict(row)}: {name}, by which it is asked, is null", hint=hint
                    )
            key = tuple(str(own[name]) for name in keys)
            if key in found:
                raise OptionError(f"{dict(row)}: there is an answer for that key already")
            found[key] = json.dumps(own, default=str)
        made = copy(self)
        made._given = tuple(found.values())
        return made

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        frame = inputs.only
        if _ANSWER not in frame.columns:
            frame = self.asked(frame, ctx)
        keys = ", ".join(name for _, name in self.key())
        types = dict(frame.dtypes)
        cases = []
        for column in self._keys(ctx.shapes.only.columns):
            if unheld := _unheld(column.name, types[column.name]):
                cases.append(f"WHEN {unheld[0]} THEN {literal(f'{column.name} {unheld[1]}')}")
        cases.append(f"WHEN {_ANSWER}.{REFUSAL} IS NOT NULL THEN {_ANSWER}.{REFUSAL}")
        if self.options.missing == "reject":
            words = literal(f"there is nothing for {keys}")
            cases.append(f"WHEN NOT {_ANSWER}.{FOUND} THEN {words}")
        kept = [name for name in frame.columns if name != _ANSWER]
        frame = frame.selectExpr(
            *map(quoted, kept),
            *(
                f"{_ANSWER}.{VALUES}.{quoted(column.name)} AS {quoted(column.name)}"
                for column in self.options.table_schema
            ),
            f"CASE {' '.join(cases)} END AS __reason",
        )
        told = refusal("__reason", row_as_json(kept), wanted="rejected" in ctx.wanted)
        return frame.selectExpr("*", *told).drop("__reason")

    def asked(self, frame: DataFrame, ctx: OperatorContext) -> DataFrame:
        """Return the rows with the column of what was answered."""
        from pyspark.sql import functions as F  # noqa: N812

        keys = self._keys(ctx.shapes.only.columns)
        schema = tuple(self.options.table_schema)
        asking = Asking(self.lookup(), self.options, tuple(keys), schema, ctx.node, self._given)
        types = dict(frame.dtypes)
        columns = []
        for column in keys:
            # Python can't be handed such a value: it is asked for as if it were null.
            unheld = _unheld(column.name, types[column.name])
            name = quoted(column.name)
            columns.append(
                F.expr(f"CASE WHEN NOT ({unheld[0]}) THEN {name} END" if unheld else name)
            )
        answer = arrow_call(asking, self.answer.type or "", *columns, once=True)
        return frame.withColumn(_ANSWER, answer)

    @property
    def answer(self) -> Column:
        """The column of what was answered."""
        values = ",".join(f"{quoted(c.name)}:{c.type}" for c in self.options.table_schema)
        fields = f"{FOUND}:boolean,{REFUSAL}:string,{VALUES}:struct<{values}>"
        return Column(_ANSWER, f"struct<{fields}>")

    def _keys(self, columns: Sequence[Column]) -> list[Column]:
        found = []
        for option, name in self.key():
            column = find_column(columns, name, option)
            kind = (column.type or "string").partition("(")[0]
            if kind not in _KEYS:
                raise OptionError(f"{column.ddl} can't be a key", option=option)
            found.append(column)
        return found


def _unheld(name: str, kind: str) -> tuple[str, str] | None:
    """Return SQL that is true for values of a key that Python can't hold, and what is said of these."""
    if kind == "string":
        return f"NOT is_valid_utf8({quoted(name)})", "is no UTF-8"
    far = far_time(quoted(name), kind)
    return (far, FAR_TIME) if far else None


class _First(Operator):
    """The first step of a lookup: asks, and is recorded."""

    options: LookupOptions
    ports = {"input": EVENTS}
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)

    def __init__(self, whole: LookupOperator) -> None:
        super().__init__(whole.options)
        self._whole = whole

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        self._whole.shape(inputs)
        return given.with_columns([*given.columns, self._whole.answer])

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        return self._whole.asked(inputs.only, ctx)
