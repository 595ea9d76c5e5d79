"""`mainstem deadletters`: rows that the document refused, as its sinks have stored them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli.options import DryRun, File, Form, Format, Set, load
from mainstem.errors import PipelineError, nearest

if TYPE_CHECKING:
    from mainstem.dead_letters import Letter
    from mainstem.plan.model import Plan

letters_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Rows that the document refused, where a sink has stored them (`from: NODE.rejected`).

\b
mainstem deadletters list pipeline.yaml
mainstem deadletters show pipeline.yaml 3f2a9c0d11e0b7aa
mainstem deadletters redrive pipeline.yaml --node order""",
)
Sinks = Annotated[
    list[str] | None,
    typer.Option("--sink", help="Only what this sink has stored. Repeatable.", metavar="SINK"),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option("--node", help="Only what this node refused. Repeatable.", metavar="NODE"),
]
Reason = Annotated[
    str, typer.Option(help="Only those whose reason has this in it.", metavar="TEXT")
]


@letters_app.command("list")
def list_(
    file: File,
    sink: Sinks = None,
    node: Nodes = None,
    reason: Reason = "",
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")] = 50,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
) -> None:
    """List refused rows: id, when, which node, why. Nothing is shown of what they hold.

    \b
    mainstem deadletters list pipeline.yaml --node order --reason "NOT NULL"
    """  # noqa: D301
    plan = load(file, set_)
    rows: list[dict[str, Any]] = []
    for each in _chosen(plan, sink, node, reason):
        if limit and len(rows) == limit:
            typer.echo(f"there are more than {limit}; --limit 0 shows all", err=True)
            break
        rows.append(_shown(each))
    if format is Form.JSON:
        typer.echo("\n".join(json.dumps(row) for row in rows))
    else:
        for row in rows:
            typer.echo(f"{row['id']}  {row['at']}  {row['node']}  {row['reason']}")
        if not rows:
            typer.echo("none")


@letters_app.command()
def show(
    file: File,
    id: Annotated[str, typer.Argument(help="The id, or how it begins.", metavar="ID")],  # noqa: A002
    sink: Sinks = None,
    set_: Set = None,
) -> None:
    """Show a refused row whole, what it holds too.

    \b
    mainstem deadletters show pipeline.yaml 3f2a9c0d
    """  # noqa: D301
    plan = load(file, set_)
    for each in _chosen(plan, sink, None, ""):
        if each.id.startswith(id):
            for name, value in _shown(each).items():
                typer.echo(f"{name}: {value}")
            typer.echo(each.payload.decode(errors="backslashreplace"))
            return
    raise PipelineError(f"there is no refused row {id!r}")


@letters_app.command()
def redrive(
    file: File,
    id: Annotated[  # noqa: A002
        list[str] | None, typer.Option("--id", help="Only this one. Repeatable.", metavar="ID")
    ] = None,
    sink: Sinks = None,
    node: Nodes = None,
    reason: Reason = "",
    into: Annotated[
        str | None,
        typer.Option(help="The source `redrive`, if there are several.", metavar="SOURCE"),
    ] = None,
    again: Annotated[bool, typer.Option(help="Those too that were sent before.")] = False,
    dry_run: DryRun = False,
    set_: Set = None,
) -> None:
    """Send what refused rows hold through the document again, once, by its source `redrive`.

    The pipeline takes it as any other messages, when it runs or now. What was sent before is passed over.

    \b
    mainstem deadletters redrive pipeline.yaml --node order --reason "NOT NULL"
    mainstem deadletters redrive pipeline.yaml --id 3f2a9c0d11e0b7aa
    """  # noqa: D301
    from mainstem.builtin.redrive import Redrive
    from mainstem.dead_letters import RedriveLog

    plan = load(file, set_)
    there = [name for name, each in plan.written.items() if isinstance(each.component, Redrive)]
    if into is not None and into not in there:
        raise PipelineError(
            f"{into} is no source `redrive`. There are: {', '.join(there) or 'none'}."
        )
    if not there:
        raise PipelineError(
            "the document has no source `redrive`: add one, and let the node that refused read it too "
            "(`from: [SOURCE, again]`)"
        )
    if into is None and len(there) > 1:
        raise PipelineError(f"which source? --into {' or --into '.join(there)}")
    log = RedriveLog(plan.home(into or there[0]))
    wanted = {
        each.id: each
        for each in _chosen(plan, sink, node, reason)
        if not id or any(each.id.startswith(begin) for begin in id)
    }
    if dry_run:
        known = set() if again else log.known()
        count = len(wanted.keys() - known)
    else:
        count = log.add(list(wanted.values()), again=again)
    passed = f", {len(wanted) - count} were sent before" if len(wanted) > count else ""
    typer.echo(f"{count} {'would be sent' if dry_run else 'sent'}{passed}")


def _chosen(
    plan: Plan, sink: list[str] | None, node: list[str] | None, reason: str
) -> Iterator[Letter]:
    from mainstem.dead_letters import letter_sinks, letters

    seen = set(plan.nodes)
    for each in letters(plan, letter_sinks(plan, sink or ())):
        seen.add(each.node)  # of another version of the document, perhaps
        if (not node or each.node in node) and reason in each.reason:
            yield each
    for name in node or ():
        if name not in seen:
            raise PipelineError(f"there is no node {name!r}. {nearest(name, seen)}".strip())


def _shown(each: Letter) -> dict[str, Any]:
    at = "" if each.at is None else each.at.isoformat()
    return {
        "id": each.id, "at": at, "node": each.node, "sink": each.sink, "reason": each.reason,
        "bytes": len(each.payload),
    }  # fmt: skip
