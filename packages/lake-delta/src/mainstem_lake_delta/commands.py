"""`mainstem delta`: care of tables that a document writes. Never imports pyspark."""

from __future__ import annotations

from typing import Annotated

import typer
from mainstem import PipelineError
from mainstem.commands import File, Set, load

from mainstem_lake_delta.options import DeltaOptions
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
    from mainstem_lake_delta.table import Table

    before, after = Table(_options(file, node, set_)).compact()
    typer.echo(f"{node}: {before} files became {after}")


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

    gone = Table(_options(file, node, set_)).vacuum(hours)
    typer.echo(f"{node}: {gone} files removed")


def _options(file: File, node: str, set_: Set) -> DeltaOptions:
    plan = load(file, set_)
    found = plan.nodes.get(node)
    if found is None or not isinstance(found.component, DeltaSink):
        there = [n for n, each in plan.nodes.items() if isinstance(each.component, DeltaSink)]
        raise PipelineError(f"{node} is no `delta`. There are: {', '.join(there) or 'none'}.")
    return found.component.options
