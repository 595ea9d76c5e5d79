"""Operator `table_table_join`: two changelogs become the changelog of their tables' join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from mainstem import (
    COMMIT_VERSION,
    REJECTED,
    Accepts,
    Changelog,
    Deriving,
    Events,
    Expressions,
    Inputs,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Shape,
    StateFacts,
)
from mainstem.columns import Column
from mainstem_keyed_state import KeyedOperator

from mainstem_operators_joins.table_table_options import LEFT, RIGHT, TableTableJoinOptions
from mainstem_operators_joins.table_table_versions import check_sequence

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic, Port
    from pyspark.sql import DataFrame

    from mainstem_operators_joins.table_table_frames import Joining

#: What of late changes is told.
LATE_CHANGES = Events("side STRING, deleted BOOLEAN, sequence STRING, row STRING")


class TableTableJoin(KeyedOperator, Expressions, Deriving):
    """Joins two tables, each a changelog, into a third that follows their changes.

    At each batch's end the result is the join of what both sides have brought so far: what changes
    within a batch is never told. Updates and deletes carry the row as it was. The version of a change
    is text made of both sides' sequences; it only grows for a key, whatever comes late or twice.
    """

    options: TableTableJoinOptions
    capabilities = OperatorCapabilities(batch_invariant=False)
    ports = {LEFT: Accepts((Changelog,)), RIGHT: Accepts((Changelog,))}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        left, right = self.sides(inputs)
        for side, given in ((LEFT, left), (RIGHT, right)):
            check_sequence(given.sequence_type or None, side)
        self.options.check_keys(left, right)
        columns = list(left.columns)
        if self.options.join == "full":
            keys = {name.lower() for name in left.key}
            columns = [c if c.name.lower() in keys else _nullable(c) for c in columns]
        columns += [
            Column(name, found.type) for name, found in self.options.taken(left, right).items()
        ]
        return Changelog(columns, left.key, COMMIT_VERSION, preimages=True)

    def made_of(self, inputs: Inputs[Shape]) -> Mapping[str, Iterable[tuple[str, str]]]:
        left, right = self.sides(inputs)
        found = {name: [(LEFT, name)] for name in left.names}
        taken = self.options.taken(left, right)
        return {**found, **{name: [(RIGHT, column.name)] for name, column in taken.items()}}

    def sides(self, inputs: Inputs[Shape]) -> tuple[Changelog, Changelog]:
        """Return the shapes at the ports.

        Raises:
            OptionError: one has no key, or no sequence.
        """
        for side in (LEFT, RIGHT):
            given = inputs[side]
            assert isinstance(given, Changelog)  # noqa: S101
            if not given.key:
                raise OptionError(f"the {side} changelog has no key")
            if given.sequence is None:
                raise OptionError(
                    f"the {side} changelog has no sequence but the batch's number, which is not known "
                    "before the batch is written",
                    hint="Write it to a table or topic, and read that with a sequence of its own.",
                )
        left, right = inputs[LEFT], inputs[RIGHT]
        assert isinstance(left, Changelog)  # noqa: S101
        assert isinstance(right, Changelog)  # noqa: S101
        return left, right

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"late_changes": LATE_CHANGES, "rejected": REJECTED}

    def expressions(self) -> Mapping[str, str]:
        return self.options.expressions()

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        left, right = self.sides(inputs)
        return StateFacts(
            version=1,
            keyed=True,
            shaped_by={
                "on": self.options.pairs or None,
                "foreign_key": self.options.references or None,
                "join": self.options.join,
                "take": {
                    name: column.name for name, column in self.options.taken(left, right).items()
                },
            },
            gains=frozenset({"take"}),
            grows="each key of both tables is kept; of a deleted one the sequence.",
        )

    @property
    def state_name(self) -> str:
        """By a foreign key there is a step before, with state of its own."""
        return "dependants" if self.options.on is None else ""

    def ports_of(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, Port]:
        return self._joining(inputs, ctx).ports()

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_joins.table_table_foreign import Dependants
        from mainstem_operators_joins.table_table_frames import parted
        from mainstem_operators_joins.table_table_pairs import Pairs

        (left, sequence), (right, other) = (parted(rows[side]) for side in (LEFT, RIGHT))
        if self.options.on is not None:
            return Pairs(left, right, sequence, other, self.options.join)
        join: Literal["inner", "left"] = "left" if self.options.join == "left" else "inner"
        return Dependants(left, right, sequence, other, join)

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        return self._joining(inputs, ctx).told(super().apply(inputs, ctx))

    def _joining(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Joining:
        from mainstem_operators_joins.table_table_frames import Joining

        return Joining(self.options, self.sides(ctx.shapes), inputs, ctx)


def _nullable(column: Column) -> Column:
    return Column(column.name, column.type)
