"""`mainstem match`: pictures of patterns. Never imports pyspark."""

from __future__ import annotations

from typing import Annotated

import typer
from mainstem import PipelineError
from mainstem.commands import File, Set, load

from mainstem_operators_patterns.match import Match

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show the patterns of a document.

\b
mainstem match picture pipeline.yaml NODE""",
)


@app.callback()
def group() -> None:
    """Keep `picture` a word of its own, though there is no other."""


@app.command()
def picture(
    file: File,
    node: Annotated[str, typer.Argument(help="The operator `match`.", metavar="NODE")],
    set_: Set = None,
) -> None:
    """Print a pattern as an automaton, in Mermaid's words: its rows, and which may follow which.

    \b
    mainstem match picture pipeline.yaml fraud
    """  # noqa: D301
    plan = load(file, set_)
    found = plan.nodes.get(node)
    if found is None or not isinstance(found.component, Match):
        there = [name for name, each in plan.nodes.items() if isinstance(each.component, Match)]
        raise PipelineError(f"{node} is no `match`. There are: {', '.join(there) or 'none'}.")
    typer.echo(found.component.automaton.mermaid(), nl=False)
