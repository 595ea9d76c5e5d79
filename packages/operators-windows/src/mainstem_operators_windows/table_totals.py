"""The Spark side of totals of a table: its changes into the logic's columns, and what is put aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem import CHANGE_TYPE, COMMIT_VERSION, Changelog, Events, OperatorContext, OptionError
from mainstem.columns import json_sql, literal, quoted

if TYPE_CHECKING:
    from mainstem_keyed_state import Port
    from pyspark.sql import DataFrame

    from mainstem_operators_windows.totals.calls import Call

#: What of late changes is told.
LATE_CHANGES = Events("deleted BOOLEAN, sequence STRING, row STRING")
#: Functions that go by an order, which the rows of a table have not.
_ORDERED = frozenset({"first", "first_value", "last", "last_value", "any_value"})


def check_table(given: Changelog, calls: Sequence[Call]) -> None:
    """Refuse a table that can't be totalled, or not so.

    Raises:
        OptionError: says what is wrong.
    """
    if not given.key:
        raise OptionError("the changelog has no key, by which its rows are told apart")
    for call in calls:
        if call.function in _ORDERED:
            raise OptionError(
                f"{call.text}: the rows of a table have no order",
                option="columns",
                hint="Write min_by or max_by, with what they are ordered by.",
            )


def key_column(place: int) -> str:
    """Return the name of the column with a column of the table's key."""
    return f"__key{place}"


def ports(
    changes: DataFrame,
    given: Changelog,
    by: Sequence[str],
    calls: Sequence[Call],
    ctx: OperatorContext,
) -> Mapping[str, Port]:
    """Return what stands at the port of the second step: the messages of the first.

    Args:
        changes: of the table.
        given: their shape.
        by: the columns of the group.
        calls: what is totalled.
    """
    from mainstem_keyed_state import Port, keyed, polars_schema
    from mainstem_keyed_state.changes import DELETED, SEQUENCE

    from mainstem_operators_windows.table_totals_logic import RowsLogic
    from mainstem_operators_windows.totals.frames import read_columns

    keys = {key_column(n): name for n, name in enumerate(given.key)}
    rows = changes.where(f"NOT {CHANGE_TYPE} <=> 'update_preimage'").selectExpr(
        *map(quoted, by),
        *(f"{quoted(name)} AS {column}" for column, name in keys.items()),
        *read_columns(calls, changes),
        f"{COMMIT_VERSION} AS {SEQUENCE}",
        f"coalesce({CHANGE_TYPE} = 'delete', false) AS {DELETED}",
    )
    logic = RowsLogic(polars_schema(rows))
    messages = keyed(logic, {"input": Port(rows, list(keys))}, ctx, name="rows")
    return {"input": Port(messages, [quoted(name) for name in by])}


def asides(given: Changelog, by: Sequence[str]) -> dict[str, str]:
    """Return the columns of a change that is put aside, by the names that they have in its JSON."""
    shown = {name: name for name in by}
    return {**shown, **{name: key_column(n) for n, name in enumerate(given.key)}}


def aside_columns(given: Changelog, by: Sequence[str]) -> list[str]:
    """Return the SQL of the outputs `late_changes` and `rejected`, of what the logic put aside."""
    from mainstem_keyed_state.changes import DELETED, SEQUENCE

    from mainstem_operators_windows.table_totals_logic import LATE, REFUSED

    def row(struct: str) -> str:
        columns = asides(given, by).items()
        return json_sql({name: f"{struct}.{quoted(column)}" for name, column in columns})

    late, refused = f"_{LATE}", f"_{REFUSED}"
    told = {
        "deleted": f"{late}.{DELETED}",
        "sequence": f"CAST({late}.{SEQUENCE} AS STRING)",
        "row": row(late),
    }
    reason = (
        f"IF({refused}.{SEQUENCE} IS NULL, {literal('the sequence of the change is null')}, "
        f"{literal('a key column of the change is null')})"
    )
    late_fields = ", ".join(f"{sql} AS {name}" for name, sql in told.items())
    refused_fields = f"{reason} AS reason, CAST({row(refused)} AS BINARY) AS payload"
    return [
        f"IF({struct} IS NULL, NULL, struct({fields})) AS {struct}"
        for struct, fields in ((late, late_fields), (refused, refused_fields))
    ]
