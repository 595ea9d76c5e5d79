"""Wires the words of this distribution."""

from __future__ import annotations

import typer
from mainstem import hookimpl

from mainstem_cdc import commands

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Ask a database for its tables; read them again; see how far they are read.

\b
mainstem cdc tables pipeline.yaml SOURCE
mainstem cdc show pipeline.yaml
mainstem cdc snapshot pipeline.yaml SOURCE --table TABLE
mainstem cdc stop pipeline.yaml SOURCE
mainstem cdc pause pipeline.yaml SOURCE
mainstem cdc resume pipeline.yaml SOURCE""",
)
for command in (
    commands.tables, commands.show, commands.snapshot, commands.stop, commands.pause, commands.resume,
):  # fmt: skip
    app.command(command.__name__)(command)


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {"outbox": "mainstem_cdc.outbox:Outbox"}
