"""`where`: what became of a message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli.options import File, Form, Format, Set, load
from mainstem.errors import PipelineError

if TYPE_CHECKING:
    from mainstem.run.tracing import Found, Passage


def where(
    file: File,
    message: Annotated[
        str,
        typer.Option(
            help="The id that the external system gave it, or its place: PARTITION/POSITION (of Kafka "
            "TOPIC/PARTITION/OFFSET).",
            metavar="ID",
        ),
    ] = "",
    key: Annotated[str, typer.Option(help="All with this key, in its place.", metavar="K")] = "",
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")] = 20,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
) -> None:
    """Show what became of a message: in which batches it was, who refused it, which sinks have it.

    Looks into the log of what was taken, or at the external system's, and into the checkpoint; nothing
    is run. Ends with 1 if no source has the message.

    \b
    mainstem where pipeline.yaml --message 7f3c-221
    mainstem where pipeline.yaml --key customer-17 --format json
    """  # noqa: D301
    from mainstem.run import tracing

    if bool(message) == bool(key):
        raise PipelineError("expected either --message or --key")
    count = 0
    for count, found in enumerate(tracing.where(load(file, set_), message, key), 1):
        if limit and count > limit:
            typer.echo(f"there are more than {limit}; --limit 0 shows all", err=True)
            break
        if format is Form.JSON:
            typer.echo(json.dumps(_as_json(found)))
        else:
            typer.echo("\n".join(_text(found)))
    if not count:
        typer.echo(
            "no source has it: it never came, or was removed after all had read it", err=True
        )
        raise typer.Exit(1)


def _as_json(found: Found) -> dict[str, Any]:
    trace = found.trace
    return {
        "source": found.source, "place": dict(trace.place), "found": trace.found,
        "at": _time(trace.at), "refused": trace.refused or None,
        "queries": [
            {
                "query": each.query, "state": each.state, "batch": each.batch,
                "earlier": each.earlier, "at": _time(each.at), "sinks": each.sinks,
            }
            for each in found.passages
        ],
        "asides": [
            {"sink": each.sink, "from": each.stream, "reason": each.reason, "at": _time(each.at)}
            for each in found.asides
        ],
    }  # fmt: skip


def _time(value: Any) -> str | None:
    return None if value is None else value.isoformat()


def _text(found: Found) -> Iterator[str]:
    trace = found.trace
    stored = f", {_time(trace.at)}" if trace.at else ""
    yield f"{found.source}: {trace.found}{stored}"
    if trace.refused:
        yield f"  refused there: {trace.refused}"
    for each in found.passages:
        yield f"  {each.query}: {_state(each)}"
        yield from (f"    {sink}: {told}" for sink, told in each.sinks.items())
    for aside in found.asides:
        yield f"  {aside.sink} has it from {aside.stream}: {aside.reason}"


def _state(passage: Passage) -> str:
    if passage.batch is None:
        return "not read yet"
    which = f"batch {passage.batch}{' or an earlier one' if passage.earlier else ''}"
    if passage.state == "planned":
        return f"{which}, not done"
    return f"{which}, done{f' {_time(passage.at)}' if passage.at else ''}"
