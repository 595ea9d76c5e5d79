"""`mainstem match`: pictures of patterns, and what became of a key's rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from mainstem import PipelineError
from mainstem.commands import File, Form, Format, Plan, Set, load

from mainstem_operators_patterns.base import Matching
from mainstem_operators_patterns.match import Match

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show the patterns of a document.

\b
mainstem match picture pipeline.yaml NODE
mainstem match explain pipeline.yaml NODE --key VALUE""",
)


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
    typer.echo(_found(load(file, set_), node, Match).automaton.mermaid(), nl=False)


@app.command()
def explain(
    file: File,
    node: Annotated[
        str, typer.Argument(help="The operator `match` or `match_patterns`.", metavar="NODE")
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="A value of the key; repeated if it has several, in order.", metavar="VALUE"
        ),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option(help="The pattern, of `match_patterns`.", metavar="TEXT")
    ] = None,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
) -> None:
    """Tell of each row of a key which variable it is, what begins and ends with it, and why.

    Reads what the sources hold now, from their start, as `preview` does: no checkpoint is written, and
    nobody's offsets move. Rows that came too late are looked at too.

    \b
    mainstem match explain pipeline.yaml fraud --key 4711
    mainstem match explain pipeline.yaml fraud --key 4711 --format json
    """  # noqa: D301
    from mainstem_operators_patterns.explaining import explained

    plan = load(file, set_)
    component = _found(plan, node, Matching)
    if isinstance(component, Match):
        if pattern is not None:
            raise PipelineError(f"{node} has a pattern of its own: leave out --pattern")
        rules = component.rules()
    elif pattern is None:
        raise PipelineError(f"{node} has patterns that come as rows: which one? --pattern TEXT")
    else:
        try:
            rules = component.vocabulary().read(pattern)
        except ValueError as error:
            raise PipelineError(f"--pattern: {error}") from None
    rows, over = explained(plan, node, component, rules, key or [])
    if format is Form.JSON:
        for row in rows:
            typer.echo(json.dumps({**asdict(row), "at": row.at.isoformat()}))
        if over:
            typer.echo(json.dumps({"lines": over}))
        return
    for row in rows:
        typer.echo(f"{row.number}  {row.at:%Y-%m-%d %H:%M:%S.%f}  {', '.join(row.holds) or '-'}")
        for line in row.lines:
            typer.echo(f"    {line}")
    for line in over:
        typer.echo(line)
    if not rows:
        typer.echo(f"{node}: no rows" + (" of that key" if key else ""))


def _found(plan: Plan, node: str, kind: Any) -> Any:
    """Return an operator.

    Raises:
        PipelineError: there is none of that name and kind.
    """
    found = plan.nodes.get(node)
    if found is None or not isinstance(found.component, kind):
        there = [name for name, each in plan.nodes.items() if isinstance(each.component, kind)]
        raise PipelineError(f"{node} has no pattern. There are: {', '.join(there) or 'none'}.")
    return found.component
