"""`mainstem`: the commands. Each imports what it needs when it is called."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli import beginning, checkpoint, dead_letters, observing, running, tracing, verifying
from mainstem.cli.options import (
    UNCHECKED,
    File,
    Form,
    Format,
    Set,
    Static,
    counted,
    hidden,
    load,
    load_checked,
)
from mainstem.errors import MainstemError, Problem

if TYPE_CHECKING:
    from mainstem.discovery import Word
    from mainstem.plan.model import Plan

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="""Streaming pipelines for PySpark, assembled from plugins.

\b
mainstem new pipeline orders         begin: a small project that works
mainstem doctor pipeline.yaml        what does this machine lack?
mainstem class-archive               once: Spark starts in less time
mainstem validate pipeline.yaml      is the document right?
mainstem plan pipeline.yaml          what will run, and what it guarantees
mainstem run pipeline.yaml           run it (Ctrl-C ends it in good order)
mainstem test pipeline.yaml          run the tests in pipeline.test.yaml
mainstem preview pipeline.yaml row   some rows of a node
mainstem replay pipeline.yaml ...    read again, into a shadow sink
mainstem verify pipeline.yaml ...    does a sink hold what the sources say?
mainstem deadletters list ...        rows that were refused; send them again
mainstem where pipeline.yaml ...     what became of a message
mainstem top pipeline.yaml           the table of a run elsewhere on this machine
mainstem tap pipeline.yaml order     rows that pass a node of it
mainstem page pipeline.yaml          the same as a page for a browser
mainstem lag pipeline.yaml           how far it is behind its sources
mainstem checkpoint show pipeline.yaml
                                     batches, offsets, watermarks, state
mainstem plugins show decode         the options of a word
mainstem schema > mainstem.schema.json
                                     let your editor complete documents

Exit codes: 0 done, 1 the pipeline failed, 2 the document is wrong, 3 a plugin is missing or broken,
4 the machine lacks something (Java, a jar, a folder that can be written).""",
)
plugins_app = typer.Typer(
    rich_markup_mode=None,
    help="""The plugins that are installed.

\b
mainstem plugins                     every word, and who brings it
mainstem plugins show files          all that is called files: options, ports, abilities""",
)
app.add_typer(plugins_app, name="plugins")

app.add_typer(checkpoint.checkpoint_app, name="checkpoint")
app.add_typer(beginning.new_app, name="new")
app.add_typer(dead_letters.letters_app, name="deadletters")
app.command()(beginning.doctor)
app.command()(beginning.class_archive)
app.command()(checkpoint.lag)
app.command()(running.replay)
app.command()(verifying.verify)
app.command()(tracing.where)
app.command()(observing.top)
app.command()(observing.tap)
app.command()(observing.page)
app.command()(running.preview)
app.command("test")(running.run_tests_of)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        python = ".".join(map(str, sys.version_info[:3]))
        typer.echo(f"mainstem {version('mainstem')}, pyspark {version('pyspark')}, Python {python}")
        raise typer.Exit


@app.callback()
def mainstem(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Show the versions and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def validate(
    file: File,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
    static: Static = False,
) -> None:
    """Check a document; print every error with its line.

    SQL is parsed and resolved by Spark's own analyser in a Java process without a session; what it said
    is kept, so that only SQL that is new takes that time.
    """
    try:
        plan = load_checked(file, set_, static=static)
    except MainstemError as error:
        if format is Form.TEXT:
            raise
        told = {"file": str(file), "right": False, "errors": _errors(error), "warnings": []}
        typer.echo(json.dumps(hidden.clean_all(told), indent=2))
        raise typer.Exit(error.exit_code) from None
    counts = {"nodes": len(plan.nodes), "queries": len(plan.queries)}
    if format is Form.JSON:
        told = {"file": str(file), "right": True, "errors": [], "warnings": list(plan.warnings)}
        typer.echo(json.dumps(hidden.clean_all(told | counts), indent=2))
        return
    for warning in plan.warnings:
        if not warning.startswith(UNCHECKED):  # which was said
            typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"{file}: right ({', '.join(counted(n, name) for name, n in counts.items())})")


@app.command()
def plan(
    file: File,
    format: Annotated[  # noqa: A002
        str, typer.Option("--format", help="text, mermaid or json", metavar="FORMAT")
    ] = "text",
    set_: Set = None,
    static: Static = False,
) -> None:
    """Show nodes, queries and guarantees, without starting Spark.

    \b
    mainstem plan pipeline.yaml
    mainstem plan pipeline.yaml --format mermaid
    """  # noqa: D301
    from mainstem.plan.rendering import as_json, as_mermaid, as_text

    shows: dict[str, Callable[[Plan], str]] = {
        "text": lambda shown: hidden.clean(as_text(shown)),
        "mermaid": lambda shown: hidden.clean(as_mermaid(shown)),
        "json": lambda shown: json.dumps(hidden.clean_all(as_json(shown)), indent=2) + "\n",
    }
    if format not in shows:
        raise typer.BadParameter("expected text, mermaid or json", param_hint="--format")
    typer.echo(shows[format](load_checked(file, set_, static=static)), nl=False)


@app.command()
def run(
    file: File,
    debug: Annotated[bool, typer.Option(help="Show Spark's log and full stack traces.")] = False,
    show_rows: Annotated[
        bool,
        typer.Option(
            "--show-rows", help="Let errors, the page and `tap` show the content of refused rows."
        ),
    ] = False,
    fresh: Annotated[
        list[str] | None,
        typer.Option(
            help="Start this query over: its checkpoint is set aside, its sources are read from "
            "their start, and its sinks keep what they have. Repeatable.",
            metavar="QUERY",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Serve Prometheus metrics and /healthz on this port: to this machine alone, unless an "
            "address of it is named.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(
            help="Serve a page that shows the run, as `mainstem page` does.", metavar="[HOST:]PORT"
        ),
    ] = None,
    set_: Set = None,
) -> None:
    """Run a pipeline until it ends or is interrupted.

    On a terminal it shows a live table, elsewhere one JSON line for each batch. SIGINT and SIGTERM
    finish the batch in hand. Run again, it goes on where it was, also after a crash.
    """
    import threading

    from mainstem.stopping import stopping_on_signals

    stop = threading.Event()
    with stopping_on_signals(stop):
        made = load(file, set_)
        for warning in made.warnings:
            typer.echo(f"warning: {warning}", err=True)
        running.run_shown(
            made,
            debug=debug,
            show_rows=show_rows,
            stop=stop,
            fresh=fresh or (),
            metrics=metrics,
            page=page,
        )


@app.command()
def schema() -> None:
    """Print the JSON Schema of documents, for editors.

    \b
    mainstem schema > mainstem.schema.json
    then begin a document with
    # yaml-language-server: $schema=mainstem.schema.json
    """  # noqa: D301
    from mainstem.document.schema import json_schema
    from mainstem.registry import Registry

    typer.echo(json.dumps(json_schema(Registry()), indent=2))


@plugins_app.callback(invoke_without_command=True)
def plugins(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


@plugins_app.command("list")
def list_(format: Format = Form.TEXT) -> None:  # noqa: A002
    """Show every word, and who brings it."""
    from mainstem.cli.listing import listing, rows

    typer.echo(listing() if format is Form.TEXT else json.dumps(rows(), indent=2) + "\n", nl=False)


@plugins_app.command("show")
def show(
    word: Annotated[str, typer.Argument(help="A word, as in `use: WORD`.")],
    format: Format = Form.TEXT,  # noqa: A002
) -> None:
    """Show all kinds of a word: options with types and defaults, ports, shapes, abilities."""
    from mainstem.cli.plugins import as_json, details

    if format is Form.JSON:
        typer.echo(json.dumps(as_json(word), indent=2))
    else:
        typer.echo(details(word), nl=False)


def _add_commands(called: str) -> None:
    """Add the commands of installed packages; only the one that is called is imported."""
    if called in {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback
    } | {group.name for group in app.registered_groups}:
        return

    from mainstem.discovery import installed_words, load_command

    for word in installed_words():
        if word.kind != "command":
            continue
        if word.name != called:
            app.command(word.name, help=_about(word))(lambda: None)
            continue
        loaded = load_command(word)
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=word.name)
        else:
            app.command(word.name)(loaded)


def _about(word: Word) -> str:
    """Return what is known of a command without importing it: at least what its distribution is for."""
    from importlib.metadata import metadata

    from mainstem.catalogue import COMMANDS

    summary = str(metadata(word.distribution).json.get("summary", "")).removesuffix(".")
    return f"{COMMANDS.get(word.name, summary)} ({word.distribution})."


def _errors(error: MainstemError) -> list[dict[str, Any]]:
    """Return what is wrong, each with file, line, key and hint as far as they are known."""
    one = Problem(str(error), exit_code=error.exit_code)
    return [asdict(each) for each in getattr(error, "problems", [one])]


def _asked_for_json(arguments: Sequence[str]) -> bool:
    return "--format=json" in arguments or ("--format", "json") in pairwise(arguments)


def main() -> None:
    """Run the command line; ends the process with the exit code of the command."""
    try:
        _add_commands(next((word for word in sys.argv[1:] if not word.startswith("-")), ""))
        app()
    except MainstemError as error:
        if _asked_for_json(sys.argv):
            typer.echo(json.dumps(hidden.clean_all({"errors": _errors(error)}), indent=2))
        else:
            typer.echo(hidden.clean(f"error: {error}"), err=True)
        sys.exit(error.exit_code)
    except Exception:
        typer.echo(hidden.clean(traceback.format_exc()), err=True)
        sys.exit(1)
