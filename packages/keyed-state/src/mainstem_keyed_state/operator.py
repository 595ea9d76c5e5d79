"""The base of operators whose work a `Logic` does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from mainstem import (
    COMMIT_VERSION,
    REJECTED,
    Branching,
    Events,
    Inputs,
    Needs,
    Operator,
    OperatorContext,
    Shape,
    StateFacts,
    Stateful,
)
from mainstem.columns import quoted

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from mainstem_keyed_state.frames import Port
    from mainstem_keyed_state.logic import Logic


class KeyedOperator(Operator, Stateful, Branching):
    """An operator with state by key: it says what the keys are, and which logic does the work.

    All else is the base's: what Spark needs, what the state is, the outputs `rejected` and `late`, the
    event time of what comes out.
    """

    #: Whether null equals null in a key; else a row with a null in its key equals nothing.
    nulls_equal: ClassVar[bool] = False

    @property
    def state_name(self) -> str:
        """What tells the state from others of the node, where `ports_of` makes some of its own."""
        return ""

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        """Return the key at each of the logic's ports: SQL over its rows, equal one by one.

        Needed by all but an operator that has `ports_of` and `state` of its own.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `keys`")

    @abstractmethod
    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        """Return what does the work, given the columns of the rows at its ports."""

    def rows(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, DataFrame]:
        """Return the rows at the logic's ports; as they come, if not said otherwise."""
        return inputs

    def ports_of(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, Port]:
        """Return what stands at the logic's ports: `rows` by `keys`, if not said otherwise."""
        from mainstem_keyed_state.frames import Port

        keys = self.keys(ctx.shapes)
        return {name: Port(frame, keys[name]) for name, frame in self.rows(inputs, ctx).items()}

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        """Return why a row can't be used, by port and by a condition in SQL over its rows.

        Such a row goes to `rejected`, which is there if a port has conditions, and the logic does not see
        it. Of several that hold the first counts. See `lacking`.
        """
        return {}

    def in_time(self, inputs: Inputs[Shape]) -> str | None:
        """Return the port whose late rows go to `late`, in place of to the logic; None for none.

        Late is what is before the watermark by the event time of the port's shape. They go there as they
        came, so `rows` must leave that port all columns of its shape.
        """
        return None

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        """Return how far the watermark must pass a row's event time until all of it has come out."""
        return timedelta(0)

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        """Return the Spark types of outputs' columns that have other names at the ports; see `keyed`."""
        return {}

    # -- what the core asks -------------------------------------------------------------------

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        found: dict[str, Shape] = {}
        if any(self.refuses(inputs).values()):
            found["rejected"] = REJECTED
        if (port := self.in_time(inputs)) is not None:
            found["late"] = Events(inputs[port].columns)
        return found

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        keys = {port: list(key) for port, key in self.keys(inputs).items()}
        return StateFacts(1, keyed=True, shaped_by={"key": keys}, holds=self.holds(inputs))

    def needs(self) -> Needs:
        from mainstem_keyed_state.frames import spark_needs

        return spark_needs()

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from mainstem_keyed_state.columns import polars_schema
        from mainstem_keyed_state.frames import Port, keyed
        from mainstem_keyed_state.guard import Guard, refusals

        shapes, ports = ctx.shapes, dict(self.ports_of(inputs, ctx))
        rows = {name: port.frame for name, port in ports.items()}
        logic = self.logic({name: polars_schema(frame) for name, frame in rows.items()}, shapes)
        logic.wanted = ctx.wanted
        refuses = {name: reasons for name, reasons in self.refuses(shapes).items() if reasons}
        late = self.in_time(shapes)
        if refuses or late is not None:
            logic = Guard(logic, refuses, late, _time(shapes, late))
        for name, reasons in refuses.items():
            shown = [column for column in rows[name].columns if not column.startswith("_")]
            marked = rows[name].selectExpr("*", *refusals(shown, reasons))
            ports[name] = Port(marked, ports[name].key)
        return keyed(
            logic,
            ports,
            ctx,
            name=self.state_name,
            nulls_equal=self.nulls_equal,
            event_time=event_time(self.shape(shapes)),
            types=self.types(rows, shapes),
        )


def lacking(columns: Iterable[str]) -> dict[str, str]:
    """Return the reasons to refuse a row that has a null in one of some columns."""
    return {
        f"{quoted(name)} IS NULL": f"{'the sequence' if name == COMMIT_VERSION else name} is null"
        for name in columns
    }


def event_time(shape: Shape) -> str | None:
    """Return the name of the event-time column, as the shape has it; None without one."""
    if shape.event_time is None:
        return None
    column = shape.column(shape.event_time.column)
    return shape.event_time.column if column is None else column.name


def _time(shapes: Inputs[Shape], port: str | None) -> str | None:
    """Return the event-time column of a port; None where no row can be late."""
    known = shapes[port].event_time if port is not None else None
    if port is None or known is None or known.punctual:
        return None
    return event_time(shapes[port])
