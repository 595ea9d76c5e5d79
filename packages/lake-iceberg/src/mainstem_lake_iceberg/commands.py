"""`mainstem iceberg`: care of tables that a document writes. Never imports pyspark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from mainstem import PipelineError
from mainstem.commands import File, Set, load

from mainstem_lake_iceberg.options import IcebergOptions
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
    from mainstem_lake_iceberg.table import Table

    before, after = Table(_options(file, node, set_)).compact()
    typer.echo(f"{node}: {before} files became {after}")


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

    gone = Table(_options(file, node, set_)).expire(datetime.now(UTC) - timedelta(hours=hours))
    typer.echo(f"{node}: {gone} snapshots expired")


def _options(file: File, node: str, set_: Set) -> IcebergOptions:
    plan = load(file, set_)
    found = plan.nodes.get(node)
    if found is None or not isinstance(found.component, IcebergSink):
        there = [n for n, each in plan.nodes.items() if isinstance(each.component, IcebergSink)]
        raise PipelineError(f"{node} is no `iceberg`. There are: {', '.join(there) or 'none'}.")
    return found.component.options
