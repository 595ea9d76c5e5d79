"""The Spark side of `table_table_join`: changelogs into the logic's columns, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem import CHANGE_TYPE, COMMIT_VERSION, Changelog, Inputs, OperatorContext
from mainstem.attempts import Attempts
from mainstem.columns import Column, json_sql, literal, quoted
from mainstem_keyed_state.changes import DELETED, SEQUENCE

from mainstem_operators_joins.table_table_options import LEFT, RIGHT, TableTableJoinOptions
from mainstem_operators_joins.table_table_sides import (
    CHANGE,
    LEFT_SEQUENCE,
    RETRACTS,
    RIGHT_SEQUENCE,
)
from mainstem_operators_joins.table_table_versions import check_sequence, known, version

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Port
    from pyspark.sql import DataFrame

_INTO = {"late": "late_changes", "rejected": "rejected"}


class Joining:
    """The frames of one join.

    Args:
        options: say what is joined, and how.
        shapes: those at the ports.
        inputs: the frames there.
        ctx: the core's.

    Raises:
        OptionError: a sequence has a type that does not serve.
    """

    def __init__(
        self,
        options: TableTableJoinOptions,
        shapes: tuple[Changelog, Changelog],
        inputs: Inputs[DataFrame],
        ctx: OperatorContext,
    ) -> None:
        self._options = options
        self._left, self._right = shapes
        self._inputs = inputs
        self._ctx = ctx
        found = options.taken(*shapes)
        self._taken = {name: column.name for name, column in found.items()}
        self._columns = {
            LEFT: list(self._left.names),
            RIGHT: list(dict.fromkeys([*self._taken.values(), *self._right.key])),
        }
        self._kinds = {side: dict(frame.dtypes) for side, frame in inputs.items()}
        for side, kinds in self._kinds.items():
            check_sequence(kinds[COMMIT_VERSION], side)

    def ports(self) -> Mapping[str, Port]:
        """Return what stands at the logic's ports.

        Raises:
            OptionError: keys of these types are never equal; known only now.
        """
        return self._by_key() if self._options.on is not None else self._by_reference()

    # -- into the logic ---------------------------------------------------------------------

    def _side(self, side: str, fails: str = "false", **more: str) -> DataFrame:
        """Return a side's changes in the logic's columns; what was before, state knows.

        Args:
            fails: SQL for whether an expression fails for a change: it then has no sequence, so that it
                is refused, and does not say whether it deletes.
            more: SQL for more columns.
        """
        kept = self._inputs[side].where(f"NOT {CHANGE_TYPE} <=> 'update_preimage'")
        sequence = known(COMMIT_VERSION, self._kinds[side][COMMIT_VERSION])
        return kept.selectExpr(
            *(f"{quoted(name)} AS {_named(side, name)}" for name in self._columns[side]),
            f"IF({fails}, NULL, {sequence}) AS {SEQUENCE}",
            f"IF({fails}, NULL, {CHANGE_TYPE} <=> 'delete') AS {DELETED}",
            *(f"{text} AS {quoted(name)}" for name, text in more.items()),
        )

    def _by_key(self) -> Mapping[str, Port]:
        from mainstem_keyed_state import Port

        keys = {LEFT: self._left.key, RIGHT: self._options.right_key(self._left, self._right)}
        if self._options.join == "full":
            for one, other in zip(keys[LEFT], keys[RIGHT], strict=True):
                kinds = [Column(n, self._kind(s, n)) for s, n in ((LEFT, one), (RIGHT, other))]
                self._options.check_comparable(*kinds)
        return {
            side: Port(self._side(side), [_named(side, name) for name in keys[side]])
            for side in (LEFT, RIGHT)
        }

    def _by_reference(self) -> Mapping[str, Port]:
        from mainstem_keyed_state import Port, keyed, polars_schema
        from mainstem_keyed_state.keys import key_expressions

        from mainstem_operators_joins.table_table_foreign import REFERENCE, References

        right, fails = self._side(RIGHT), "false"
        references = self._options.references
        if self._options.on_error == "reject":
            tried = Attempts(self._options.expressions())
            self._inputs = Inputs({**self._inputs, LEFT: tried.onto(self._inputs[LEFT])})
            references = [tried.value(key) for key in self._options.expressions()]
            fails = f"NOT {CHANGE_TYPE} <=> 'delete' AND {tried.failure()} IS NOT NULL"
        changed = self._inputs[LEFT]
        key = [_named(RIGHT, name) for name in self._right.key]
        meant = key_expressions({LEFT: (changed, references), RIGHT: (right, key)})
        reference = f"concat(X'01', {meant[LEFT]})"
        if self._options.join == "left":
            # A row that refers to nothing is a row of the result too, at a place of its own.
            own = [quoted(name) for name in self._left.key]
            itself = key_expressions({LEFT: (changed, own)})[LEFT]
            reference = f"coalesce({reference}, concat(X'00', {itself}))"
        left = self._side(
            LEFT,
            fails,
            **{REFERENCE: f"IF({CHANGE_TYPE} <=> 'delete', CAST(NULL AS BINARY), {reference})"},
        )
        columns, sequence = parted(polars_schema(left))
        by_own_key = Port(left, key=[_named(LEFT, name) for name in self._left.key])
        messages = keyed(
            References(columns, sequence), {LEFT: by_own_key}, self._ctx, name="references"
        )
        return {
            LEFT: Port(messages, [REFERENCE]),
            RIGHT: Port(right, [f"concat(X'01', {meant[RIGHT]})"]),
        }

    def _kind(self, side: str, name: str) -> str | None:
        return next((k for n, k in self._kinds[side].items() if n.lower() == name.lower()), None)

    # -- out of the logic -------------------------------------------------------------------

    def told(self, found: DataFrame) -> DataFrame:
        """Return the logic's rows in the columns of the shape, and of the named outputs."""
        kinds = [self._kinds[side][COMMIT_VERSION] for side in (LEFT, RIGHT)]
        sequences = [LEFT_SEQUENCE, RIGHT_SEQUENCE]
        made = version(sequences[0], kinds[0], sequences[1], kinds[1], RETRACTS)
        times = [s for s, kind in zip(sequences, kinds, strict=True) if kind == "timestamp"]
        at = f"greatest({', '.join(times)})" if len(times) > 1 else "".join(times)
        output = " ".join(
            f"WHEN _output = '{side}_{what}' THEN '{into}'"
            for side in (LEFT, RIGHT)
            for what, into in _INTO.items()
        )
        return found.selectExpr(
            *(f"{self._left_value(name)} AS {quoted(name)}" for name in self._columns[LEFT]),
            *(f"{_named(RIGHT, source)} AS {quoted(name)}" for name, source in self._taken.items()),
            f"{CHANGE} AS {CHANGE_TYPE}",
            f"{made} AS {COMMIT_VERSION}",
            f"{at or 'CAST(NULL AS TIMESTAMP)'} AS _commit_timestamp",
            f"CASE {output} END AS _output",
            f"{self._late()} AS _late_changes",
            f"{self._rejected()} AS _rejected",
        )

    def _left_value(self, name: str) -> str:
        keys = self._left.key
        if self._options.join != "full" or name not in keys:
            return _named(LEFT, name)
        other = self._options.right_key(self._left, self._right)[keys.index(name)]
        return f"coalesce({_named(LEFT, name)}, {_named(RIGHT, other)})"

    def _late(self) -> str:
        """Return SQL for the row of `late_changes`."""
        sides = " ".join(
            f"WHEN _output = '{side}_late' THEN struct('{side}' AS side, {row}.{DELETED} AS deleted, "
            f"CAST({row}.{SEQUENCE} AS STRING) AS sequence, {self._json(side, row)} AS row)"
            for side in (LEFT, RIGHT)
            for row in (f"_{side}_late",)
        )
        return f"CASE {sides} END"

    def _rejected(self) -> str:
        """Return SQL for the row of `rejected`."""
        sides = []
        for side in (LEFT, RIGHT):
            row = f"_{side}_rejected"
            failed = literal(f"foreign_key fails: {', '.join(self._options.references)}")
            reason = (
                f"CASE WHEN {row}.{DELETED} IS NULL THEN {failed} WHEN {row}.{SEQUENCE} IS NULL "
                f"THEN 'the sequence of the {side} change is null or empty' "
                f"ELSE 'a key column of the {side} change is null' END"
            )
            sides.append(
                f"WHEN _output = '{side}_rejected' THEN struct({reason} AS reason, "
                f"CAST({self._json(side, row)} AS BINARY) AS payload)"
            )
        return f"CASE {' '.join(sides)} END"

    def _json(self, side: str, row: str) -> str:
        """Return SQL for a change's row, by its own names, as JSON."""
        return json_sql({name: f"{row}.{_named(side, name)}" for name in self._columns[side]})


def _named(side: str, name: str) -> str:
    return quoted(f"{side}_{name}")


def parted(columns: pl.Schema) -> tuple[pl.Schema, pl.DataType]:
    """Return the columns of a side as the logic has them, and the type of its sequence."""
    from mainstem_operators_joins.table_table_foreign import REFERENCE, ROW, WHAT

    beside = (SEQUENCE, DELETED, REFERENCE, ROW, WHAT)
    kept = {name: kind for name, kind in columns.items() if name not in beside}
    return type(columns)(kept), columns[SEQUENCE]
