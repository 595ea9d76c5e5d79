"""`new`, `doctor` and `class-archive`: how one begins."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli.options import Form, Format

new_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Write a small project that works, to be changed.

\b
mainstem new pipeline orders
mainstem new plugin source tick""",
)

Folder = Annotated[
    Path | None, typer.Argument(help="The project's folder; the name's when left out.")
]


class Kind(StrEnum):
    """What a new plugin brings."""

    SOURCE = "source"
    SINK = "sink"
    OPERATOR = "operator"


@new_app.command("pipeline")
def pipeline(
    name: Annotated[str, typer.Argument(help="The pipeline's name.")], folder: Folder = None
) -> None:
    """Write a pipeline with sample data and tests."""
    from mainstem.cli.new import new_pipeline

    _tell(new_pipeline(name, folder or Path(name)))


@new_app.command("plugin")
def plugin(
    kind: Annotated[Kind, typer.Argument(help="What it brings.")],
    word: Annotated[str, typer.Argument(help="Its word, as in `use: WORD`.")],
    folder: Folder = None,
) -> None:
    """Write a plugin that brings one word, with tests that run under tox."""
    from mainstem.cli.new import new_plugin

    name = f"mainstem-{word.replace('_', '-')}"
    _tell(new_plugin(kind.value, word, folder or Path(name)))


def doctor(
    file: Annotated[
        Path | None, typer.Argument(help="Check for this document too.", metavar="FILE")
    ] = None,
    format: Format = Form.TEXT,  # noqa: A002
) -> None:
    """Say what this machine lacks to run pipelines, or one of them, and how to get it."""
    from mainstem.cli.doctor import code_of, examine
    from mainstem.cli.doctor import doctor as report

    if format is Form.JSON:
        checks = examine(file)
        typer.echo(json.dumps([asdict(check) for check in checks], indent=2))
        raise typer.Exit(code_of(checks))
    text, code = report(file)
    typer.echo(text, nl=False)
    raise typer.Exit(code)


def class_archive() -> None:
    """Let Java start from an archive of Spark's classes: each run begins in less time.

    Made once for each Java and PySpark, by a small run, in the user's cache, or in the folder that
    MAINSTEM_CLASS_ARCHIVES names; 190 MB.
    """
    from mainstem.run.archiving import make

    made = make()
    typer.echo(f"{made} ({made.stat().st_size // 2**20} MiB)")


def _tell(files: list[Path]) -> None:
    for file in files:
        typer.echo(file)
