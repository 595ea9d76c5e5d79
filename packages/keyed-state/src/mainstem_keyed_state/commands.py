"""`mainstem state`: what an operator keeps, read from the checkpoint while the pipeline does not run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from mainstem import DocumentError, Problem, nearest
from mainstem.commands import File, Form, Format, Set, load

from mainstem_keyed_state.layout import Layout, layouts_in

if TYPE_CHECKING:
    from mainstem.commands import Plan
    from pyspark.sql import DataFrame

_SHOWN = 20


def show(
    file: File,
    node: Annotated[str, typer.Option(help="The operator.", metavar="NODE")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="A value of the key; repeated if it has several, in order.", metavar="VALUE"
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Only this table of the state.", metavar="TABLE")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="As it was after this batch; only the last few are kept.")
    ] = None,
    limit: Annotated[
        int, typer.Option(help="At most so many rows of a table; 0 for all.")
    ] = _SHOWN,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
) -> None:
    """Show what an operator keeps by key, as it is in the checkpoint after the last batch.

    As text a table, as JSON a line for each row: `table`, `key` and the columns.

    \b
    mainstem state pipeline.yaml --node enriched
    mainstem state pipeline.yaml --node enriched --key Berlin --format json
    """  # noqa: D301
    from mainstem.commands import start

    from mainstem_keyed_state.reading import KEY_TEXT, read_state

    plan = load(file, set_)
    layouts, query = _found(plan, node)
    spark, folder = start(plan), plan.checkpoint / "queries" / query
    frames: dict[str, DataFrame] = {}
    for state, layout in layouts.items():
        found = read_state(spark, folder, node, layout, name=state, key=key, batch=batch)
        frames |= {_named(state, name): frame for name, frame in found.items()}
    if table is not None:
        known = {_named(state, name) for state, each in layouts.items() for name in each.tables}
        # A layout of an earlier version does not tell the tables: one without rows may be there.
        if all(each.tables for each in layouts.values()) and table not in known | frames.keys():
            raise DocumentError([_no_table(plan, node, table, known | frames.keys())])
        frames = {table: frames[table]} if table in frames else {}
    for name, frame in frames.items():
        rows, more = _rows(frame, limit)
        if format is Form.JSON:
            for row in rows:
                told = {"table": name, "key": row.pop(KEY_TEXT), **row}
                typer.echo(json.dumps(told, default=str))
        else:
            _print(name, [c for c in frame.columns if c != KEY_TEXT], rows, more)
    if not frames and format is not Form.JSON:
        typer.echo(f"{node} keeps nothing" + (" of that key" if key else ""))


def _found(plan: Plan, node: str) -> tuple[dict[str, Layout], str]:
    """Return the layouts of a node's states, and the query that keeps them.

    Raises:
        DocumentError: the node keeps no state by key, or has not begun.
    """
    queries = [query.name for query in plan.queries if node in query.streaming]
    if node not in plan.nodes or not queries:
        stateful = [name for name, each in plan.nodes.items() if each.state]
        hint = nearest(node, stateful) or f"Nodes with state: {', '.join(stateful) or 'none'}."
        raise DocumentError(
            [Problem(f"there is no running node {node!r}", "operators", plan.file, hint=hint)]
        )
    layouts = layouts_in(plan.checkpoint / "nodes" / node / "state" / queries[0])
    if not layouts:
        message = f"{node!r} keeps no state by key in {plan.checkpoint}, or has not run yet"
        raise DocumentError([Problem(message, f"operators.{node}", plan.file)])
    return layouts, queries[0]


def _named(state: str, table: str) -> str:
    return f"{state}.{table}" if state else table


def _no_table(plan: Plan, node: str, table: str, tables: Iterable[str]) -> Problem:
    hint = nearest(table, tables) or f"Tables: {', '.join(sorted(tables))}."
    message = f"the state of {node!r} has no table {table!r}"
    return Problem(message, f"operators.{node}", plan.file, hint=hint)


def _rows(frame: DataFrame, limit: int) -> tuple[list[dict[str, Any]], bool]:
    if not limit:
        return [row.asDict(recursive=True) for row in frame.toLocalIterator()], False
    rows = [row.asDict(recursive=True) for row in frame.limit(limit + 1).collect()]
    return rows[:limit], len(rows) > limit


def _print(name: str, columns: list[str], rows: list[dict[str, Any]], more: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # what is in a row is no markup

    from mainstem_keyed_state.reading import KEY_TEXT

    shown = Table(title=name, title_justify="left", expand=False)
    for column in ("key", *columns):
        shown.add_column(Text(column))
    for row in rows:
        key = ", ".join("null" if part is None else part for part in row[KEY_TEXT] or [])
        shown.add_row(Text(key), *(Text(str(row[column])) for column in columns))
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(shown)
    if more:
        console.print(f"there are more than {len(rows)} rows; --limit 0 shows all")
