"""What `sql` and `python` share: the user's own step, compared with the columns that are declared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import StringConstraints

from mainstem import (
    ANYTHING,
    REJECTED,
    Accepts,
    Changelog,
    Events,
    EventTime,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Schema,
    Shape,
    option,
)
from mainstem.attempts import OnError, on_error_option, refusal
from mainstem.builtin.attempted_steps import CAME, PAYLOAD, REASON, attempted
from mainstem.builtin.stateless import refuse_state, stand_ins
from mainstem.columns import EVENT_TIME, Column, quoted
from mainstem.contracts.abilities import Branching
from mainstem.contracts.columns import find_column
from mainstem.contracts.shapes import ASKED, PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]

_ID = "_id"


class DeclaredOptions(Options):
    """Options of a step that the user writes, and whose output's columns the user declares."""

    table_schema: Schema = option(
        alias="schema",
        description="The columns that come out, with their types; compared with what does come.",
        example="city STRING, cents BIGINT",
    )
    tables: list[TableName] = option(
        lambda: ["input"],
        min_length=1,
        description="The input ports. With several, connect each: `from: {orders: a, cities: b}`.",
        example=["orders", "cities"],
    )
    row_wise: bool = option(
        False,
        description="Each output row is one input row: it stays the same row for sinks that tell "
        "rows apart. The column `_id` must then come out as it came in.",
    )
    identity: list[str] = option(
        list,
        description="The columns that tell an output row from every other, the same after a replay; "
        "for sinks that need it. Not with `row_wise`.",
    )
    on_error: OnError = on_error_option()


class Declared(Operator, Branching):
    """A step from rows to rows that keeps no state; a subclass computes it."""

    options: DeclaredOptions
    #: The option that holds the user's own text, for errors.
    at: ClassVar[str]

    def __init__(self, options: DeclaredOptions) -> None:
        super().__init__(options)
        self._sound = False
        if len({name.lower() for name in options.tables}) < len(options.tables):
            raise OptionError("names a table twice", option="tables")
        if options.row_wise and options.identity:
            raise OptionError(
                "goes without `row_wise`: rows stay what they were", option="identity"
            )
        if options.row_wise and len(options.tables) > 1:
            raise OptionError("is for one table", option="row_wise")
        if options.on_error == "reject" and len(options.tables) > 1:
            raise OptionError("`reject` is for one table", option="on_error")
        for name in options.identity:
            find_column(options.table_schema, name, "identity")

    @property
    def ports(self) -> Mapping[str, Accepts]:  # type: ignore[override]
        """One port for each table."""
        return dict.fromkeys(self.options.tables, ANYTHING)

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """Row-wise if the user says so."""
        return OperatorCapabilities(row_wise=self.options.row_wise, keeps_names=False)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = next(iter(inputs.values()))
        if any(isinstance(shape, Changelog) for shape in inputs.values()):
            raise OptionError(
                "takes events: of a changelog it would make former and deleted rows events like others",
                hint="`select` computes columns of a changelog and keeps it one.",
            )
        columns = self.options.table_schema
        event_time: EventTime | None = None
        if len(inputs) == 1 and given.event_time:
            kept = Events(columns).column(given.event_time.column)
            if kept and kept.type == "timestamp":
                event_time = replace(given.event_time, column=kept.name)
        identity = [find_column(columns, name, "identity").name for name in self.options.identity]
        return Events(columns, identity, event_time)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED} if self.options.on_error == "reject" else {}

    @abstractmethod
    def compute(self, tables: Inputs[DataFrame]) -> DataFrame:
        """Return the user's result for the tables.

        Raises:
            OptionError: what the user wrote does not work; says why.
        """

    def check(self, trial: DataFrame) -> None:
        """Refuse a result over empty streams for a reason of the subclass's own."""

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        # What a user's code is given has nothing that changes by who looks at the run. A row's place is
        # there only where a batch that has failed is run once more, to tell the row.
        inputs = Inputs({port: frame.drop(ASKED) for port, frame in inputs.items()})
        if not self._sound:
            trial = self.compute(self._tables(stand_ins(inputs)))
            self.check(trial)
            refuse_state(trial, self.at, row_wise=self.options.row_wise)
            self._sound = True
        rejecting = self.options.on_error == "reject"
        given = self._tables(inputs)
        tables = stand_ins(given) if rejecting else given
        frame = self.compute(tables)
        self._check_columns(frame)
        if not rejecting:
            self._check_event_time(given, frame)
        kept = self._reserved(inputs, frame)
        names = [*map(quoted, [*kept, *(c.name for c in self.options.table_schema)])]
        if not rejecting:
            return frame.select(*names)
        tried = attempted(frame, tables.only, given.only, self.at)
        self._check_event_time(given, tried)
        told = refusal(REASON, PAYLOAD, wanted="rejected" in ctx.wanted)
        # What it refused is told from others as it came.
        came = [
            f"IF({REASON} IS NOT NULL, {CAME}{name}, NULL) AS {name}"
            for name in given.only.columns
            if name.startswith("_") and name not in kept
        ]
        return tried.selectExpr(*names, *came, *told)

    def _tables(self, inputs: Inputs[DataFrame]) -> Inputs[DataFrame]:
        """Return the inputs, with `_id` even where nobody uses it if the user has to pass it on."""
        from pyspark.sql import functions as F  # noqa: N812

        if not self.options.row_wise or _ID in inputs.only.columns:
            return inputs
        absent = F.lit(None).cast("binary")
        return Inputs({port: f.withColumn(_ID, absent) for port, f in inputs.items()})

    def _check_columns(self, frame: DataFrame) -> None:
        types = dict(frame.dtypes)
        wrong = misfits(self.options.table_schema, types)
        declared = {column.name for column in self.options.table_schema}
        extra = [n for n in frame.columns if n not in declared and not n.startswith("_")]
        if extra:
            wrong.append(f"{', '.join(extra)} is not declared")
        if wrong:
            given = ", ".join(f"{n} {t.upper()}" for n, t in types.items() if not n.startswith("_"))
            message = f"does not fit what `{self.at}` gives: {'; '.join(wrong)}"
            raise OptionError(message, option="schema", hint=f"It gives: {given}.")
        if len(types) < len(frame.columns):
            raise OptionError("gives two columns of one name", option=self.at)

    def _reserved(self, inputs: Inputs[DataFrame], frame: DataFrame) -> list[str]:
        """Return the reserved columns that go on: those that came, if rows stay rows."""
        if not self.options.row_wise:
            return []
        came = [n for n in inputs.only.columns if n.startswith("_") and n != PLACE]
        lost = [name for name in {_ID: "", **dict.fromkeys(came)} if name not in frame.columns]
        if lost:
            message = f"does not pass on {', '.join(lost)}, as `row_wise: true` demands"
            hint = f"Give {lost[0]} as it came: `SELECT {lost[0]}, ...`."
            raise OptionError(message, option=self.at, hint=hint)
        return came

    def _check_event_time(self, inputs: Inputs[DataFrame], frame: DataFrame) -> None:
        """Refuse a column that has the name of the event time, and another value."""
        fields = {field.name: field for field in frame.schema.fields}
        for table in inputs.values() if len(inputs) == 1 else ():
            for field in table.schema.fields:
                made = fields.get(field.name)
                if EVENT_TIME in field.metadata and made and EVENT_TIME not in made.metadata:
                    message = f"computes {field.name}, the column of the stream's event time"
                    hint = "Leave it as it is, or give what is computed another name."
                    raise OptionError(message, option=self.at, hint=hint)


def misfits(columns: Iterable[Column], types: Mapping[str, str]) -> list[str]:
    """Return what a frame's types lack of declared columns, or have otherwise."""
    wrong = []
    for column in columns:
        wanted, found = (column.type or "").replace("`", ""), types.get(column.name)
        if found is None:
            wrong.append(f"there is no column {column.name}")
        elif found != wanted:
            wrong.append(f"{column.name} is {found.upper()}, not {wanted.upper()}")
    return wrong
