"""`verify`: whether a sink's external system holds what it should."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli.options import File, Form, Format, Set, load

if TYPE_CHECKING:
    from mainstem.run.verifying import Difference, Verified

_EXAMPLES = 5
KINDS = ("missing", "extra", "different")


def verify(
    file: File,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            help="A sink; all that can be compared, when left out. Repeatable.", metavar="SINK"
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Put right what differs. The pipeline must not run.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            help="While the pipeline runs: for how many seconds, before what differs is looked at again.",
        ),
    ] = 5.0,
    show_rows: Annotated[
        bool, typer.Option("--show-rows", help="Show what differs whole.")
    ] = False,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
) -> None:
    """Compare what sinks' external systems hold with their rows, read again from the sources.

    Tells rows that are missing, those that should not be there, and those that differ; ends with 1 if
    there are any that were not repaired. No checkpoint is written, and nobody's offsets move.

    \b
    mainstem verify pipeline.yaml
    mainstem verify pipeline.yaml --sink board --repair --show-rows
    """  # noqa: D301
    from mainstem.run import verifying

    plan = load(file, set_)
    wrong = False
    names, others = (sink, {}) if sink else verifying.able(plan)
    for name, why in others.items():
        typer.echo(f"{name} is not compared: {why}", err=True)
    for name in names:
        found = verifying.verify(plan, name, repair=repair, wait=wait)
        wrong = wrong or bool(found.left if found.repaired else found.counts)
        if format is Form.JSON:
            typer.echo(json.dumps(_as_json(name, found, show_rows)))
        else:
            _tell(name, found, show_rows)
    if wrong:
        raise typer.Exit(1)


def _as_json(name: str, found: Verified, show_rows: bool) -> dict[str, Any]:
    return {
        "sink": name, "rows": found.rows, "held": found.held, "repaired": found.repaired,
        "left": sum(found.left.values()),
        **{kind: found.counts.get(kind, 0) for kind in KINDS},
        "differences": [_shown(each, show_rows) for each in found.differences],
    }  # fmt: skip


def _tell(name: str, found: Verified, show_rows: bool) -> None:
    typer.echo(f"{name}: {found.rows:,} rows by the sources, {found.held:,} are held")
    for kind in KINDS:
        typer.echo(f"  {kind}: {found.counts.get(kind, 0):,}")
        mine = [each for each in found.differences if each.kind == kind]
        for each in mine[:_EXAMPLES]:
            typer.echo(f"    {each.key}")
            if show_rows:
                typer.echo(f"      by the sources: {each.expected}")
                typer.echo(f"      held:           {each.held}")
    if found.repaired:
        left = ", ".join(f"{count:,} {kind}" for kind, count in found.left.items())
        typer.echo(f"  repaired, but for {left}" if left else "  repaired")


def _shown(each: Difference, rows: bool) -> dict[str, Any]:
    whole = asdict(each)
    return whole if rows else {"kind": whole["kind"], "key": whole["key"]}
