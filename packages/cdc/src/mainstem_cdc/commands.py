"""`mainstem cdc`: tables of a database, and snapshots of them. Never imports pyspark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from mainstem import PipelineError
from mainstem.commands import File, Form, Format, Set, load

from mainstem_cdc.options import CaptureOptions
from mainstem_cdc.requests import Cursor, Requests
from mainstem_cdc.sections import as_yaml, differing, section, with_tables
from mainstem_cdc.source import CaptureSource

if TYPE_CHECKING:
    from mainstem.commands import Plan

Node = Annotated[str, typer.Argument(help="The source.", metavar="SOURCE")]
Tables = Annotated[
    list[str] | None, typer.Option("--table", help="A table of the source. Repeatable.")
]


def tables(
    file: File,
    node: Node,
    like: Annotated[
        list[str] | None,
        typer.Option(
            help="Which tables: a pattern of SCHEMA.TABLE, or of the name alone where the schema is the "
            "usual one. Repeatable.",
            metavar="PATTERN",
        ),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write them into the document.")] = False,
    set_: Set = None,
) -> None:
    """Ask the database for its tables, as the document would have them.

    Prints those that the document does not name, with keys and types, and tells where those that it names
    are otherwise in the database.

    \b
    mainstem cdc tables pipeline.yaml shop
    mainstem cdc tables pipeline.yaml shop --like "sales.*" --write
    """  # noqa: D301
    plan = load(file, set_)
    options = _options(plan, node)
    source = plan.nodes[node].component
    assert isinstance(source, CaptureSource)  # noqa: S101
    found = source.found()
    for line in differing(options, found):
        typer.echo(line, err=True)
    made, left = section(options, found, like or ["*"])
    for line in left:
        typer.echo(line, err=True)
    if not made:
        typer.echo("No other table.", err=True)
    elif write:
        with_tables(file, node, made)
        typer.echo(f"{file}: {', '.join(made)}")
    else:
        typer.echo(as_yaml({"tables": made}), nl=False)


def snapshot(
    file: File,
    node: Node,
    table: Tables = None,
    where: Annotated[
        str | None,
        typer.Option(help="Which rows: a condition in the database's own SQL.", metavar="SQL"),
    ] = None,
    set_: Set = None,
) -> None:
    """Read tables again, whole or in part, while their changes go on.

    The source's receiver does it when it runs; rows come as inserts, with a sequence above those before
    them. Rows that are gone are not told.

    \b
    mainstem cdc snapshot pipeline.yaml shop --table orders
    mainstem cdc snapshot pipeline.yaml shop --table orders --where "id > 1000"
    """  # noqa: D301
    if not table:
        raise PipelineError("name the tables: --table")
    plan = load(file, set_)
    options = _options(plan, node)
    for name in table:
        if name in options.tables and options.tables[name].preimages:
            raise PipelineError(
                f"{name} has preimages: whoever reads them goes by what was before, which a snapshot "
                "does not tell"
            )
    _ask(plan, node, "snapshot", table, where)


def stop(file: File, node: Node, table: Tables = None, set_: Set = None) -> None:
    """Do not read tables on: those that are named, or all that are being read; changes go on."""
    _ask(load(file, set_), node, "stop", table or [])


def pause(file: File, node: Node, set_: Set = None) -> None:
    """Read no tables until `resume`; changes go on."""
    _ask(load(file, set_), node, "pause", [])


def resume(file: File, node: Node, set_: Set = None) -> None:
    """Read tables on."""
    _ask(load(file, set_), node, "resume", [])


def show(file: File, format: Format = Form.TEXT, set_: Set = None) -> None:  # noqa: A002
    """Show which tables were read, how far, and what was asked for since.

    \b
    mainstem cdc show pipeline.yaml
    mainstem cdc show pipeline.yaml --format json
    """  # noqa: D301
    plan = load(file, set_)
    found = [_facts(plan, name) for name in _sources(plan)]
    if format is Form.JSON:
        typer.echo(json.dumps({"pipeline": plan.pipeline, "sources": found}, indent=2))
    else:
        typer.echo("\n".join(line for facts in found for line in _text(facts)))


# -- parts ----------------------------------------------------------------------------------------


def _sources(plan: Plan) -> list[str]:
    found = [name for name, node in plan.nodes.items() if isinstance(node.component, CaptureSource)]
    if not found:
        raise PipelineError("no source of the document captures changes of tables")
    return found


def _options(plan: Plan, name: str) -> CaptureOptions:
    found = _sources(plan)
    if name not in found:
        raise PipelineError(
            f"there is no source {name!r} that captures changes. There are: {', '.join(found)}."
        )
    component = plan.nodes[name].component
    assert isinstance(component, CaptureSource)  # noqa: S101
    return component.options


def _folder(plan: Plan, name: str) -> tuple[Path, Cursor | None]:
    """Return the folder of a source's receiver, and what it has stored last."""
    component = plan.nodes[name].component
    assert isinstance(component, CaptureSource)  # noqa: S101
    log = component.log(plan.home(name))
    cursor = log.cursors().get(0)
    return log.receiver(0), None if cursor is None else Cursor.decoded(cursor)


def _ask(plan: Plan, name: str, kind: str, named: list[str], where: str | None = None) -> None:
    options = _options(plan, name)
    if unknown := [table for table in named if table not in options.tables]:
        there = ", ".join(options.tables) or "none"
        raise PipelineError(f"{name} has no table {unknown[0]!r}. Tables: {there}.")
    folder, cursor = _folder(plan, name)
    if cursor is None:
        raise PipelineError(f"{name} has not begun: its receiver has stored nothing yet")
    Requests(folder).put(kind, named, where, cursor.asked)
    what = f"{kind} of {', '.join(named)}" if named else kind
    typer.echo(f"{name}: {what} is asked for; the receiver does it when it runs")


def _facts(plan: Plan, name: str) -> dict[str, Any]:
    """Return what is known of a source's tables."""
    folder, cursor = _folder(plan, name)
    options = _options(plan, name)
    state: Mapping[str, Any] = {} if cursor is None else cursor.state
    reading = state.get("tables", [])
    found = {}
    for table in options.tables:
        where = state.get("wheres", {}).get(table)
        if reading[:1] == [table]:
            how = {"state": "reading", "rows": state["rows"], "where": where}
        elif table in reading:
            how = {"state": "waiting", "where": where}
        else:
            how = {"state": "whole" if table in state.get("whole", []) else "not read"}
        found[table] = how
    waiting = [] if cursor is None else Requests(folder).waiting()
    return {
        "source": name,
        "log": state.get("log"),
        "paused": bool(state.get("paused")),
        "tables": found,
        "requests": [each._asdict() for each in waiting if each.number > state.get("asked", 0)],
    }


def _text(facts: Mapping[str, Any]) -> Iterator[str]:
    paused = "; tables are not read on: paused" if facts["paused"] else ""
    at = "nothing is stored yet" if facts["log"] is None else f"log read to {facts['log']}"
    yield f"{facts['source']}: {at}{paused}"
    for name, table in facts["tables"].items():
        rows = f", {table['rows']:,} rows so far" if "rows" in table else ""
        where = f", where {table['where']}" if table.get("where") else ""
        yield f"  {name}: {table['state']}{rows}{where}"
    for request in facts["requests"]:
        of = f" of {', '.join(request['tables'])}" if request["tables"] else ""
        yield f"  asked for: {request['kind']}{of}"
