"""`top`, `tap` and `page`: a run that another process holds, seen from outside."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli.options import Form, Format, Set, load
from mainstem.errors import PipelineError

if TYPE_CHECKING:
    from mainstem.observation.page.serving import Page

Run = Annotated[
    Path,
    typer.Argument(
        help="The document, a YAML file, or a pipeline's checkpoint folder.", metavar="FILE"
    ),
]


#: How often a run is asked for rows, in seconds.
_PAUSE = 0.3


def top(
    file: Run,
    format: Format = Form.TEXT,  # noqa: A002
    once: Annotated[bool, typer.Option("--once", help="Show it once, as it is now.")] = False,
    set_: Set = None,
) -> None:
    """Show the live table of a run that another process holds, until that ends.

    \b
    mainstem top pipeline.yaml
    mainstem top pipeline.yaml --once --format json
    """  # noqa: D301
    from rich.console import Console
    from rich.live import Live

    from mainstem.observation.meeting import NotRunningError, look
    from mainstem.observation.table import table_of

    checkpoint, console = checkpoint_of(file, set_), Console()
    facts = look(checkpoint)
    if format is Form.JSON:
        while True:
            typer.echo(json.dumps(facts))
            if once:
                return
            time.sleep(1)
            try:
                facts = look(checkpoint)
            except NotRunningError:
                return
    if once:
        console.print(table_of(facts))
        return
    try:
        with Live(table_of(facts), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(0.5)
                facts = look(checkpoint)
                live.update(table_of(facts), refresh=True)
    except NotRunningError:
        _tell_end(checkpoint)
    except KeyboardInterrupt:
        return


def tap(
    file: Run,
    node: Annotated[
        str,
        typer.Argument(help="A node, or one of its outputs; of a sink, the rows it is given."),
    ],
    rows: Annotated[
        int, typer.Option(min=1, max=1_000, help="The most rows to show of a batch.")
    ] = 5,
    format: Format = Form.TEXT,  # noqa: A002
    once: Annotated[
        bool, typer.Option("--once", help="End after the first batch that has any.")
    ] = False,
    set_: Set = None,
) -> None:
    """Show rows that pass a node of a run that another process holds, until that ends.

    What was refused shows its content where the run was started with `--show-rows`.

    \b
    mainstem tap pipeline.yaml order
    mainstem tap pipeline.yaml order.rejected --rows 20 --format json
    """  # noqa: D301
    from mainstem.observation.meeting import NotRunningError
    from mainstem.observation.meeting import rows as rows_of

    checkpoint, after = checkpoint_of(file, set_), 0
    found = rows_of(checkpoint, node, after, rows)
    try:
        while True:
            for each in found["rows"]:
                told = {"batch": each["batch"], "row": each["row"]}
                text = f"batch {each['batch']}  {json.dumps(each['row'], ensure_ascii=False)}"
                typer.echo(json.dumps(told) if format is Form.JSON else text)
            if found["rows"] and once:
                return
            time.sleep(_PAUSE)
            after = found["last"]
            found = rows_of(checkpoint, node, after, rows)
    except NotRunningError:
        if format is Form.TEXT:
            _tell_end(checkpoint)
    except KeyboardInterrupt:
        return


def page(
    file: Run,
    at: Annotated[
        str,
        typer.Option(
            help="Where to serve it: to this machine alone, unless an address of it is named; then a "
            "browser must show a token (MAINSTEM_PAGE_TOKEN, or one that is made).",
            metavar="[HOST:]PORT",
        ),
    ] = "8787",
    set_: Set = None,
) -> None:
    """Serve the page of a run that another process holds, or of the one that ended last.

    \b
    mainstem page pipeline.yaml
    mainstem page /var/lib/mainstem/orders --at 0.0.0.0:8787
    """  # noqa: D301
    import threading

    from mainstem.stopping import stopping_on_signals

    stop = threading.Event()
    with stopping_on_signals(stop):
        served = serve(checkpoint_of(file, set_), at, "--at")
        stop.wait()
        served.close()


def serve(checkpoint: Path, at: str, option: str) -> Page:
    """Serve the page of a checkpoint at what an option says, and tell where.

    Raises:
        typer.BadParameter: it says no address.
        MachineError: the address can't be had.
    """
    from mainstem.observation.http import address_of
    from mainstem.observation.page.serving import Page

    try:
        host, port = address_of(at)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    served = Page(checkpoint, host, port)
    typer.echo(f"page at {served.url}", err=True)
    return served


def checkpoint_of(file: Path, changes: list[str] | None) -> Path:
    """Return the checkpoint of a document, or the folder itself if it is one.

    Raises:
        PipelineError: the folder is no checkpoint.
    """
    if not file.is_dir():
        return load(file, changes).checkpoint
    if not (file / "pipeline.json").exists():
        raise PipelineError(f"{file} is no pipeline's checkpoint: it has no pipeline.json")
    return file


def _tell_end(checkpoint: Path) -> None:
    from mainstem.observation.meeting import last

    found: dict[str, Any] = last(checkpoint) or {}
    error = found.get("error")
    typer.echo(f"the run has ended{': ' + error['text'] if error else ''}")
