"""`mainstem state`: what an operator keeps, read from the checkpoint, also while the pipeline runs."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from mainstem import MachineError
from mainstem.commands import File, Form, Format, Set, load

from mainstem_keyed_state.keys import KEY_TEXT
from mainstem_keyed_state.nodes import kept, no_table

if TYPE_CHECKING:
    from mainstem.commands import Plan

_SHOWN = 20


def show(
    file: File,
    node: Annotated[str | None, typer.Option(help="The operator.", metavar="NODE")] = None,
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
        int, typer.Option(min=0, help="At most so many rows of a table; 0 for all.")
    ] = _SHOWN,
    serve: Annotated[
        str | None,
        typer.Option(
            help="Answer over HTTP what nodes keep, at this address, until it is stopped.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
) -> None:
    """Show what an operator keeps by key, as it is in the checkpoint after the last batch.

    As text a table, as JSON a line for each row: `table`, `key` and `row`.

    \b
    mainstem state pipeline.yaml --node enriched
    mainstem state pipeline.yaml --node enriched --key Berlin --format json
    mainstem state pipeline.yaml --serve 8790
    """  # noqa: D301
    plan = load(file, set_)
    if serve is not None:
        _serve(plan, serve)
        return
    if node is None:
        raise typer.BadParameter("expected a node, or an address to serve at", param_hint="--node")
    found = kept(plan, node, key, batch)
    tables = found.tables
    # A layout of an earlier version does not tell the tables: one without rows may be there.
    if table is not None:
        if found.known is not None and table not in found.known | tables.keys():
            raise no_table(plan, node, table, [*(found.known | tables.keys())])
        tables = {table: tables[table]} if table in tables else {}
    any_there = False
    for name, rows in tables.items():
        if format is Form.JSON:
            for row in islice(rows, limit or None):
                told = {"table": name, "key": row.pop(KEY_TEXT), "row": row}
                typer.echo(msgspec.json.encode(told).decode())
        else:
            some = list(islice(rows, limit + 1 if limit else None))
            any_there = any_there or bool(some)
            _print(name, some, limit)
    if not any_there and format is not Form.JSON:
        typer.echo(f"{node} keeps nothing" + (" of that key" if key else ""))


def _serve(plan: Plan, address: str) -> None:
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) >= 2**16:
        raise typer.BadParameter("expected host:port, or a port", param_hint="--serve")
    host = host.strip("[]") or "127.0.0.1"
    try:
        from mainstem_keyed_state.serving import serve
    except ImportError as error:
        message = f"no module {error.name}: pip install 'mainstem-keyed-state[serve]'"
        raise MachineError(message) from None
    typer.echo(f"state at http://{f'[{host}]' if ':' in host else host}:{port}/", err=True)
    serve(plan, host, int(port))


def _print(name: str, rows: list[dict[str, Any]], limit: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # what is in a row is no markup

    if not rows:
        return
    shown = Table(title=name, title_justify="left", expand=False)
    columns = [column for column in rows[0] if column != KEY_TEXT]
    for column in ("key", *columns):
        shown.add_column(Text(column))
    for row in rows[: limit or None]:
        key = ", ".join("null" if part is None else part for part in row[KEY_TEXT] or [])
        shown.add_row(Text(key), *(Text(str(row[column])) for column in columns))
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(shown)
    if limit and len(rows) > limit:
        console.print(f"there are more than {limit} rows; --limit 0 shows all")
