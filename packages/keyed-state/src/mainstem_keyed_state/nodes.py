"""What the nodes of a plan keep by key, as it is in their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from mainstem import DocumentError, PipelineError, Problem, nearest

from mainstem_keyed_state.layout import Layout, layouts_in

if TYPE_CHECKING:
    from mainstem.commands import Plan

    from mainstem_keyed_state.reading import State


class Kept(NamedTuple):
    """What a node keeps.

    Attributes:
        tables: the rows of each table by its name, each with `_key`.
        known: the tables that there can be; None where that is not noted.
        batch: the last batch whose changes are in it.
    """

    tables: dict[str, Iterator[dict[str, Any]]]
    known: frozenset[str] | None
    batch: int


def stateful(plan: Plan) -> list[str]:
    """Return the nodes that keep state by key."""
    return [name for name in plan.nodes if _layouts(plan, name)]


def kept(plan: Plan, node: str, key: Sequence[str] | None = None, batch: int | None = None) -> Kept:
    """Return what a node keeps, after its last batch or an earlier one.

    Args:
        key: the values of one key, as text; all keys when left out.

    Raises:
        DocumentError: the node keeps no state by key, or has not begun.
        PipelineError: there is no such key, or no such batch.
    """
    from mainstem_keyed_state.reading import read_state

    layouts = layouts_of(plan, node)
    folder = plan.checkpoint / "queries" / _query(plan, node)
    tables: dict[str, Iterator[dict[str, Any]]] = {}
    at = -1
    taking = list(layouts)
    if key is not None:
        # Of a node's states some may go by other keys, which these texts are none of.
        taking = [name for name, layout in layouts.items() if _takes(layout, key)] or taking
    for name in taking:
        layout = layouts[name]
        # What was read first says of which batch all is.
        state = read_state(folder, node, layout, name=name, key=key, batch=batch if at < 0 else at)
        at = state.batch
        for table in state.tables:
            tables[_named(name, table)] = _rows(state, table)
    known = None
    if all(each.tables for each in layouts.values()):
        known = frozenset(_named(n, t) for n, each in layouts.items() for t in each.tables)
    return Kept(tables, known, at)


def _takes(layout: Layout, key: Sequence[str]) -> bool:
    try:
        layout.keys.of_texts(key)
    except PipelineError:
        return False
    return True


def layouts_of(plan: Plan, node: str) -> dict[str, Layout]:
    """Return the layouts of a node's states.

    Raises:
        DocumentError: it keeps no state by key, or has not begun.
    """
    if not _query(plan, node):
        stateful = [name for name, each in plan.nodes.items() if each.state]
        hint = nearest(node, stateful) or f"Nodes with state: {', '.join(stateful) or 'none'}."
        raise DocumentError(
            [Problem(f"there is no running node {node!r}", "operators", plan.file, hint=hint)]
        )
    layouts = _layouts(plan, node)
    if not layouts:
        message = f"{node!r} keeps no state by key in {plan.checkpoint}, or has not run yet"
        raise DocumentError([Problem(message, f"operators.{node}", plan.file)])
    return layouts


def no_table(plan: Plan, node: str, table: str, tables: Sequence[str]) -> DocumentError:
    """Return the error of a table that there is not."""
    hint = nearest(table, tables) or f"Tables: {', '.join(sorted(tables))}."
    message = f"the state of {node!r} has no table {table!r}"
    return DocumentError([Problem(message, f"operators.{node}", plan.file, hint=hint)])


def _query(plan: Plan, node: str) -> str:
    """Return the query that a node is in; empty if it is in none."""
    found = [query.name for query in plan.queries if node in query.streaming]
    return found[0] if node in plan.nodes and found else ""


def _layouts(plan: Plan, node: str) -> dict[str, Layout]:
    return layouts_in(plan.checkpoint / "nodes" / node / "state" / _query(plan, node))


def _named(state: str, table: str) -> str:
    return f"{state}.{table}" if state else table


def _rows(state: State, table: str) -> Iterator[dict[str, Any]]:
    for page in state.rows(table):
        yield from page.with_columns(_beyond(page)).iter_rows(named=True)


def _beyond(page: pl.DataFrame) -> list[pl.Expr]:
    """Return as text the columns with a time in a year that Python has not."""
    found = []
    for name, kind in page.schema.items():
        if kind == pl.Date or kind.base_type() is pl.Datetime:
            years = page[name].dt.year()
            if years.len() and not years.is_between(1, 9999).fill_null(value=True).all():
                found.append(pl.col(name).cast(pl.String))
    return found
