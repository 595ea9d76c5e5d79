"""`lag` and `checkpoint`: what an operator of pipelines asks. No Spark is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mainstem.cli.options import (
    DryRun,
    File,
    Form,
    Format,
    Set,
    Static,
    Yes,
    agreed,
    load,
    load_checked,
)

checkpoint_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Look at a pipeline's checkpoint, check it, copy it, or take a query back.

\b
mainstem checkpoint show pipeline.yaml
mainstem checkpoint verify pipeline.yaml
mainstem checkpoint copy pipeline.yaml ./fork
mainstem checkpoint rollback pipeline.yaml --query totals --batch 41""",
)


def lag(file: File, format: Format = Form.TEXT, set_: Set = None) -> None:  # noqa: A002
    """Show how far each query is behind its sources, whether the pipeline runs or not.

    \b
    mainstem lag pipeline.yaml
    mainstem lag pipeline.yaml --format json
    """  # noqa: D301
    from mainstem.run.lag import lags

    plan = load(file, set_)
    rows = [
        {
            "query": found.query,
            "source": found.source,
            "partition": found.lag.partition if found.lag else None,
            "rows": found.lag.rows if found.lag else None,
            "seconds": found.lag.seconds if found.lag else None,
        }
        for found in lags(plan)
    ]
    if format is Form.JSON:
        typer.echo(json.dumps(rows, indent=2))
        return
    print_table(["query", "source", "partition", "rows", "seconds"], rows)


@checkpoint_app.command("show")
def show(file: File, format: Format = Form.TEXT, set_: Set = None) -> None:  # noqa: A002
    """Show batches, offsets, watermarks and the size of the state, by query."""
    from mainstem.run import checkpoints

    found = checkpoints.show(load(file, set_))
    if format is Form.JSON:
        typer.echo(json.dumps(found, indent=2, default=str))
        return
    typer.echo(f"{found['pipeline']}: {found['folder']}")
    for name, query in found["queries"].items():
        planned = query["next"]
        unread = [f"{name} {_lag_text(lag)}" for name, lag in query["unread"].items()]
        typer.echo(f"\n{name}")
        typer.echo(f"  last batch  {'none' if query['batch'] is None else query['batch']}")
        typer.echo(f"  watermark   {query['watermark'] or 'none'}")
        typer.echo(f"  state       {query['state_bytes']:,} bytes")
        typer.echo(f"  read up to  {_offsets(query['offsets'])}")
        typer.echo(f"  next        {_offsets(planned) if planned else 'planned anew'}")
        typer.echo(f"  unread      {', '.join(unread) or 'the sources can not tell'}")


@checkpoint_app.command("verify")
def verify(
    file: File,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
    static: Static = False,
) -> None:
    """Check that a run can go on from the checkpoint, with this document; exit 1 if not."""
    from mainstem.run import checkpoints

    plan = load_checked(file, set_, static=static)
    there = plan.checkpoint.exists()
    problems = checkpoints.verify(plan) if there else []
    if format is Form.JSON:
        told = {"folder": str(plan.checkpoint), "whole": not problems, "problems": problems}
        typer.echo(json.dumps(told, indent=2))
    else:
        for problem in problems:
            typer.echo(problem, err=True)
        if not there:
            typer.echo(f"there is no checkpoint in {plan.checkpoint}: a run begins one")
        elif not problems:
            typer.echo(f"{plan.checkpoint}: whole")
    if problems:
        raise typer.Exit(1)


@checkpoint_app.command("copy")
def copy(
    file: File,
    into: Annotated[Path, typer.Argument(help="The folder of checkpoints to copy into.")],
    set_: Set = None,
) -> None:
    """Copy the checkpoint, as the start of a fork: a document with `checkpoint: INTO` goes on there."""
    from mainstem.run import checkpoints

    typer.echo(checkpoints.copy(load(file, set_), into))


@checkpoint_app.command("rollback")
def rollback(
    file: File,
    query: Annotated[str, typer.Option(help="The query to take back.")],
    batch: Annotated[int, typer.Option(help="The last batch that stays done.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    set_: Set = None,
) -> None:
    """Take a query back to the end of an earlier batch; the next run reads on from there.

    Refused if a source no longer has what was read since, or a sink can't take back what it wrote.
    """
    from mainstem.history import History
    from mainstem.run.checkpoint import Checkpoint
    from mainstem.run.rollback import effects, take_back

    plan = load(file, set_)
    found = plan.query(query)
    with Checkpoint(plan, checked=False):
        if batch == max(History(plan.query_folder(query)).planned(), default=None):
            typer.echo(f"{query}: batch {batch} is the last one, and the next run goes on after it")
            return
        if not agreed(effects(plan, found, batch), yes=yes, dry_run=dry_run):
            return
        take_back(plan, found, batch)
    typer.echo(f"{query}: the next run goes on after batch {batch}")


def _offsets(offsets: dict[str, Any]) -> str:
    return "\n              ".join(f"{n} {json.dumps(o)}" for n, o in offsets.items()) or "nothing"


def print_table(columns: list[str], rows: list[dict[str, Any]]) -> None:
    """Print rows as a table; what is not known is shown as `?`."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # what rows hold is no markup

    table = Table()
    for name in columns:
        numeric = name in ("rows", "seconds", "batch")
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in columns))
    Console(soft_wrap=False).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "?"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def _lag_text(lag: Mapping[str, Any]) -> str:
    """Return rows and seconds behind as text."""
    rows = "" if lag["rows"] is None else f"{lag['rows']:,}"
    seconds = "" if lag["seconds"] is None else f"{lag['seconds']:,.0f} s"
    return " / ".join(filter(None, [rows, seconds])) or "?"
