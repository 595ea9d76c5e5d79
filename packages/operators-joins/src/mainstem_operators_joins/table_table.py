"""Operator `table_table_join`: two changelogs become the changelog of their tables' join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from mainstem import (
    COMMIT_VERSION,
    REJECTED,
    Accepts,
    Changelog,
    Events,
    Expressions,
    Inputs,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    StateFacts,
    option,
)
from mainstem.attempts import OnError, on_error_option
from mainstem.columns import Column, quoted
from mainstem_keyed_state import KeyedOperator
from pydantic import model_validator

from mainstem_operators_joins.columns import pairs, taken_columns
from mainstem_operators_joins.table_table_versions import check_sequence

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic, Port
    from pyspark.sql import DataFrame

    from mainstem_operators_joins.table_table_frames import Joining

LEFT, RIGHT = "left", "right"
#: What of late changes is told.
LATE_CHANGES = Events("side STRING, deleted BOOLEAN, sequence STRING, row STRING")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


class TableTableJoinOptions(Options):
    """Options of `table_table_join`: exactly one of `on` and `foreign_key`."""

    on: list[str] | dict[str, str] | None = option(
        None,
        min_length=1,
        description="The key columns of both tables: a list, or by the left one's name the right one's.",
        example=["order_id"],
    )
    foreign_key: str | list[str] | None = option(
        None,
        min_length=1,
        description="SQL over the left row that gives the right table's key; a list for a key of several "
        "columns. Many left rows can refer to one right row; one with a null refers to none.",
        example="customer_id",
    )
    join: Literal["inner", "left", "full"] = option(
        "inner",
        description="Which rows there are: with a row on both sides, all of the left, or (with `on`) "
        "all of both.",
    )
    take: list[str] | dict[str, str] | None = option(
        None,
        description="The right table's columns in the result: a list, or by new name. When left out: all "
        "but those the tables are joined on.",
        example={"customer_name": "name"},
    )
    on_error: OnError = on_error_option()

    @model_validator(mode="after")
    def _one_way(self) -> TableTableJoinOptions:
        if (self.on is None) == (self.foreign_key is None):
            raise ValueError("expected exactly one of `on` and `foreign_key`")
        if self.foreign_key is not None and self.join == "full":
            raise ValueError(
                "`join: full` needs `on`: a right row to which none refers has no left key to be told by"
            )
        return self


class TableTableJoin(KeyedOperator, Expressions):
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
        self._check_keys(left, right)
        columns = list(left.columns)
        if self.options.join == "full":
            keys = {name.lower() for name in left.key}
            columns = [c if c.name.lower() in keys else _nullable(c) for c in columns]
        columns += [Column(name, found.type) for name, found in self.taken(left, right).items()]
        return Changelog(columns, left.key, COMMIT_VERSION, preimages=True)

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

    @property
    def pairs(self) -> dict[str, str]:
        """The key columns that `on` names: the right one's by the left one's."""
        return pairs(self.options.on or [])

    @property
    def references(self) -> list[str]:
        """The expressions of `foreign_key`."""
        given = self.options.foreign_key
        return [given] if isinstance(given, str) else list(given or ())

    def right_key(self, left: Changelog, right: Changelog) -> list[str]:
        """Return the right table's key columns, in the order of the left side's expressions."""
        if self.options.on is None:
            return list(right.key)
        by_left = {name.lower(): other for name, other in self.pairs.items()}
        return [by_left[name.lower()] for name in left.key]

    def taken(self, left: Changelog, right: Changelog) -> dict[str, Column]:
        """Return the right columns of the result, by their names in it.

        Raises:
            OptionError: one is not there, or its name can't be had.
        """
        if self.options.on is not None:
            keys: Iterable[str] = self.pairs.values()
        else:  # a foreign key that is a left column tells the right key already
            plain = [left.column(text.strip().strip("`")) for text in self.references]
            keys = [k for k, c in zip(right.key, plain, strict=False) if c is not None]
        return taken_columns(
            self.options.take, right, "the right table", beside=left.names, keys=keys
        )

    def _check_keys(self, left: Changelog, right: Changelog) -> None:
        if self.options.on is None:
            if len(self.references) != len(right.key):
                raise OptionError(
                    f"{len(self.references)} expressions, and the right table's key has "
                    f"{len(right.key)} columns: {', '.join(right.key)}",
                    option="foreign_key",
                )
            return
        for side, given, named in (
            (LEFT, left, list(self.pairs)),
            (RIGHT, right, list(self.pairs.values())),
        ):
            if sorted(map(str.lower, named)) != sorted(map(str.lower, given.key)):
                raise OptionError(
                    f"the {side} table's key is {', '.join(given.key)}, not {', '.join(named)}",
                    option="on",
                    hint="`on` joins tables with the same key. Where left rows name the key of a right "
                    "one, write `foreign_key`.",
                )
        for name, other in self.pairs.items():
            self.check_comparable(left.column(name), right.column(other))

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"late_changes": LATE_CHANGES, "rejected": REJECTED}

    def expressions(self) -> Mapping[str, str]:
        if isinstance(self.options.foreign_key, str):
            return {"foreign_key": self.options.foreign_key}
        return {f"foreign_key.{n}": text for n, text in enumerate(self.references)}

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        left, right = self.sides(inputs)
        return StateFacts(
            version=1,
            keyed=True,
            shaped_by={
                "on": self.pairs or None,
                "foreign_key": self.references or None,
                "join": self.options.join,
                "take": {name: column.name for name, column in self.taken(left, right).items()},
            },
            gains=frozenset({"take"}),
            grows="each key of both tables is kept; of a deleted one the sequence.",
        )

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        left, right = self.sides(inputs)
        keys = {LEFT: left.key, RIGHT: self.right_key(left, right)}
        return {side: [quoted(name) for name in names] for side, names in keys.items()}

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

        return Joining(self, self.sides(ctx.shapes), inputs, ctx)

    def check_comparable(self, left: Column | None, right: Column | None) -> None:
        """Refuse keys of types that can't be joined, as far as they are known.

        Raises:
            OptionError: names both.
        """
        if left is None or right is None or left.type is None or right.type is None:
            return
        one, other = left.type.lower(), right.type.lower()
        integers = one in _INTEGERS and other in _INTEGERS
        # A key of the result is the one or the other: both have one type.
        if one != other and not (integers and self.options.join != "full"):
            raise OptionError(
                f"the left table has the key {left.ddl}, the right one {right.ddl}",
                option="on",
                hint="Bring both to one type with `select`, before the changelogs are made.",
            )


def _nullable(column: Column) -> Column:
    return Column(column.name, column.type)
