"""`mainstem iceberg`: care of tables that a document writes. Never imports pyspark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from mainstem.commands import File, Set
from mainstem_lake import commands

from mainstem_lake_iceberg.sink import IcebergSink

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Care for the Iceberg tables of a document.

\b
mainstem iceberg compact pipeline.yaml orders
mainstem iceberg expire pipeline.yaml orders""",
)
Node = Annotated[str, typer.Argument(help="The sink `iceberg`.", metavar="SINK")]


@app.command()
def compact(file: File, node: Node, set_: Set = None) -> None:
    """Make larger files of small ones, in one commit, while the pipeline runs or not.

    \b
    mainstem iceberg compact pipeline.yaml orders
    """  # noqa: D301
    commands.compact(commands.sink_of(file, node, set_, IcebergSink, "iceberg"), node)


@app.command()
def expire(
    file: File,
    node: Node,
    hours: Annotated[
        int, typer.Option(min=0, help="Snapshots of so many hours stay readable.")
    ] = 168,
    set_: Set = None,
) -> None:
    """Forget old snapshots. Files that none has any more stay where they are.

    \b
    mainstem iceberg expire pipeline.yaml orders --hours 48
    """  # noqa: D301
    from mainstem_lake_iceberg.table import Table

    gone = Table(commands.sink_of(file, node, set_, IcebergSink, "iceberg").options).expire(
        datetime.now(UTC) - timedelta(hours=hours)
    )
    typer.echo(f"{node}: {gone} snapshots expired")
