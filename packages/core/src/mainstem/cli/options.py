"""What the commands have in common: their arguments, and how a document is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.document.scrubber import Scrubber

if TYPE_CHECKING:
    from mainstem.plan.model import Plan

File = Annotated[Path, typer.Argument(help="The document, a YAML file.", metavar="FILE")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change the document: `sinks.out.with.path=./elsewhere`; the value is YAML. Repeatable.",
        metavar="KEY.PATH=VALUE",
    ),
]


class Form(StrEnum):
    """How a command shows what it found."""

    TEXT = "text"
    JSON = "json"


Format = Annotated[Form, typer.Option("--format", help="How to show it.")]


#: The secrets of the documents that this command has loaded: nothing of them is printed.
hidden = Scrubber()


Static = Annotated[
    bool,
    typer.Option(
        "--static",
        envvar="MAINSTEM_STATIC",
        help="Leave the SQL of the document to the run, and start no Java.",
    ),
]


#: How the warning begins that says so.
UNCHECKED = "SQL is not checked"


def load(file: Path, changes: list[str] | None = None) -> Plan:
    """Return the plan of a document, with the changes of `--set` and of the environment."""
    from mainstem.plan.build import make_plan

    return make_plan(file, changes=changes or (), scrubber=hidden)


def load_checked(file: Path, changes: list[str] | None, *, static: bool) -> Plan:
    """Return the plan of a document whose SQL Spark's analyser has looked at, unless `static`.

    Where it could not, that is said, and is among the plan's warnings.
    """
    from mainstem.analysis.process import Process, Remembered
    from mainstem.plan.build import make_plan

    if static:
        return load(file, changes)
    unchecked: list[str] = []

    def told(why: str) -> None:
        unchecked.append(f"{UNCHECKED}: {hidden.clean(why)}")
        typer.echo(f"warning: {unchecked[-1]}", err=True)

    process = Process(told)
    try:
        made = make_plan(file, changes=changes or (), scrubber=hidden, analyse=Remembered(process))
    finally:
        process.close()
    return replace(made, warnings=(*made.warnings, *unchecked))


Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def agreed(effects: Iterable[str], *, yes: bool, dry_run: bool) -> bool:
    """Tell what a command will do, and ask; whether it is to go on.

    Raises:
        typer.Abort: the answer is no, or nobody is there to give one.
    """
    if yes and not dry_run:
        return True
    for effect in effects:
        typer.echo(effect)
    if dry_run:
        return False
    typer.confirm("Go on?", abort=True)
    return True


def counted(number: int, things: str) -> str:
    """Return `1 query`, `2 queries`: a number of things, which are named in the plural."""
    one = f"{things[:-3]}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{number} {one if number == 1 else things}"
