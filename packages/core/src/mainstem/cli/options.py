"""What the commands have in common: their arguments, and how a document is loaded."""

from __future__ import annotations

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


def load(file: Path, changes: list[str] | None = None) -> Plan:
    """Return the plan of a document, with the changes of `--set` and of the environment."""
    from mainstem.plan.making import make_plan

    return make_plan(file, changes=changes or (), scrubber=hidden)
