"""`mainstem delta`: care of tables that a document writes. Never imports pyspark."""

from __future__ import annotations

from typing import Annotated

import typer
from mainstem.commands import File, Set
from mainstem_lake import commands

from mainstem_lake_delta.sink import DeltaSink

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Care for the Delta tables of a document.

\b
mainstem delta compact pipeline.yaml orders
mainstem delta vacuum pipeline.yaml orders""",
)
Node = Annotated[str, typer.Argument(help="The sink `delta`.", metavar="SINK")]


@app.command()
def compact(file: File, node: Node, set_: Set = None) -> None:
    """Make larger files of small ones, in one commit, while the pipeline runs or not.

    \b
    mainstem delta compact pipeline.yaml orders
    """  # noqa: D301
    commands.compact(commands.sink_of(file, node, set_, DeltaSink, "delta"), node)


@app.command()
def vacuum(
    file: File,
    node: Node,
    hours: Annotated[
        int, typer.Option(min=0, help="Versions of so many hours stay readable.")
    ] = 168,
    set_: Set = None,
) -> None:
    """Remove files that the table has no longer, and those that a crash has left.

    Files that a run is writing now are younger than `--hours`, and stay: do not give 0 while it runs.

    \b
    mainstem delta vacuum pipeline.yaml orders --hours 48
    """  # noqa: D301
    from mainstem_lake_delta.table import Table

    gone = Table(commands.sink_of(file, node, set_, DeltaSink, "delta").options).vacuum(hours)
    typer.echo(f"{node}: {gone} files removed")
