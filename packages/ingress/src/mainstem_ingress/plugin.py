"""Wires the commands of this distribution."""

from __future__ import annotations

import typer

from mainstem_ingress import commands

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Take messages while no job runs; look at the logs that they are stored in.

\b
mainstem ingress run pipeline.yaml
mainstem ingress show pipeline.yaml
mainstem ingress forget pipeline.yaml NODE CONSUMER""",
)
app.command("run")(commands.run)
app.command("show")(commands.show)
app.command("forget")(commands.forget)
