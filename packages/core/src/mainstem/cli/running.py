"""`replay`, `preview` and `test`, and how a run is shown on the command line."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli.checkpoint import print_table
from mainstem.cli.observing import serve
from mainstem.cli.options import DryRun, File, Form, Format, Set, Yes, agreed, load
from mainstem.errors import DocumentError, MainstemError, PipelineError

if TYPE_CHECKING:
    from mainstem.plan.model import Plan
    from mainstem.testing.running import Result


def replay(
    file: File,
    query: Annotated[str, typer.Option(help="The query whose sources are read again.")],
    into: Annotated[
        list[str] | None,
        typer.Option(
            help="The rows of a sink go into a shadow sink, one with `query: replay`. Repeatable.",
            metavar="SINK=OTHER",
        ),
    ] = None,
    rebuild: Annotated[
        list[str] | None,
        typer.Option(
            help="What a sink holds is built anew beside, and put in place when the pipeline stands "
            "still. Repeatable.",
            metavar="SINK",
        ),
    ] = None,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest; for --into also an ISO 8601 time, or JSON with the offset of each source to "
            "begin after, as `checkpoint show` tells them.",
            metavar="POINT",
        ),
    ] = "earliest",
    fresh: Annotated[bool, typer.Option(help="Start over; the shadow keeps what it has.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    set_: Set = None,
) -> None:
    """Read a query's sources again into shadow sinks, beside the running job, until it has caught up.

    \b
    mainstem replay pipeline.yaml --query totals --from 2026-01-01 --into board=board_rebuilt
    mainstem replay pipeline.yaml --query totals --rebuild board
    """  # noqa: D301
    from mainstem.plan.replay import replay_plan

    for pair in into or ():
        if not all(pair.partition("=")):
            raise PipelineError(
                f"--into {pair}: expected SINK=OTHER, where OTHER is a sink with `query: replay`"
            )
    pairs = dict(pair.partition("=")[::2] for pair in into or ())
    names = dict.fromkeys(rebuild or ())
    if len(pairs) < len(into or ()) or pairs.keys() & names.keys():
        raise PipelineError("a sink is named twice")
    if not pairs and not names:
        raise PipelineError("nothing to do: name a sink by --into or --rebuild")
    plan = load(file, set_)
    replayed = replay_plan(plan, query, from_, pairs, names)
    effects = [
        *(f"{name}: what it holds is replaced by what is built beside it" for name in names),
        *(
            f"{other}: gets the rows of {name}, read again from {from_}"
            for name, other in pairs.items()
        ),
        *(["It starts over: what an earlier replay has read is read once more."] if fresh else []),
    ]
    # A shadow sink is there to be written.
    if not agreed(effects, yes=yes or not names, dry_run=dry_run):
        return
    if names:
        _rebuild(plan, replayed, fresh=fresh)
    else:
        run_shown(replayed, fresh=[each.name for each in replayed.queries] if fresh else ())


def _rebuild(plan: Plan, replayed: Plan, *, fresh: bool) -> None:
    from mainstem.run.rebuilding import rebuild

    stop = threading.Event()

    def run() -> bool:
        run_shown(replayed, stop=stop)
        return not stop.is_set()

    if not rebuild(plan, replayed, run, fresh=fresh):
        typer.echo("interrupted: the same command goes on from here", err=True)


def preview(
    file: File,
    node: Annotated[str, typer.Argument(help="A source or operator, or one of its outputs.")],
    rows: Annotated[int, typer.Option(min=1, help="The most rows to show.")] = 20,
    format: Format = Form.TEXT,  # noqa: A002
    set_: Set = None,
) -> None:
    """Show some rows of a node: no checkpoint is written, and nobody's offsets move.

    \b
    mainstem preview pipeline.yaml row
    mainstem preview pipeline.yaml row.rejected --rows 5 --format json
    """  # noqa: D301
    from mainstem.testing.preview import preview as look

    plan = load(file, set_)
    found = look(plan, node, rows)
    if format is Form.JSON:
        typer.echo("\n".join(json.dumps(row) for row in found))
    elif found:
        print_table(list(found[0]), found)
    else:
        typer.echo(f"{node}: no rows")


def run_tests_of(
    files: Annotated[list[Path], typer.Argument(help="Documents, or their files of tests.")],
    only: Annotated[
        str, typer.Option("-k", help="Run the tests alone whose names hold this.")
    ] = "",
    format: Format = Form.TEXT,  # noqa: A002
) -> None:
    """Run the tests beside a document (`x.test.yaml` beside `x.yaml`); no real system is used.

    \b
    mainstem test pipeline.yaml
    mainstem test pipeline.test.yaml -k late
    """  # noqa: D301
    from rich.console import Console

    from mainstem.testing.running import as_table

    console = Console()
    results = []
    wrong: list[int] = []
    for file in files:
        tests = file if ".test." in file.name else file.with_name(f"{file.stem}.test{file.suffix}")
        for result in _results(tests, only, wrong):
            results.append(result)
            if format is Form.JSON:
                told = {"file": str(tests), "passed": result.passed, **asdict(result)}
                typer.echo(json.dumps(told, default=str))
                continue
            word = "passed" if result.passed else "FAILED"
            line = f"{word}  {result.name}  ({result.seconds:.1f} s)"
            console.print(line, markup=False, highlight=False)
            if result.error:
                console.print(f"  {result.error}", markup=False, highlight=False)
            if result.differences:
                console.print(as_table(result.differences))
    failed = sum(not result.passed for result in results)
    if only and not results and not wrong:
        typer.echo(f"no test has {only!r} in its name", err=True)
    if format is Form.TEXT:
        console.print(f"{len(results) - failed} passed, {failed} failed", highlight=False)
    if wrong:
        raise typer.Exit(max(wrong))
    if failed or not results:
        raise typer.Exit(1)


def _results(tests: Path, only: str, wrong: list[int]) -> Iterator[Result]:
    """Yield the results of a file of tests; of a wrong one, say what is wrong, and note its exit code."""
    from mainstem.testing.running import run_tests

    try:
        yield from run_tests(tests, only)
    except DocumentError as error:
        typer.echo(f"error: {error}", err=True)
        wrong.append(error.exit_code)


def run_shown(
    plan: Plan,
    *,
    debug: bool = False,
    show_rows: bool = False,
    stop: threading.Event | None = None,
    fresh: Sequence[str] = (),
    metrics: str | None = None,
    page: str | None = None,
) -> None:
    """Run a plan with a live table on a terminal and JSON lines elsewhere; see `runner.run`.

    Raises:
        typer.Exit: the run failed; what happened has been printed.
    """
    from mainstem.observation.reporter import JSONLines, Reporter, Several
    from mainstem.observation.table import LiveTable
    from mainstem.plan.model import SinkNode
    from mainstem.run.runner import run

    prints = any(
        isinstance(node, SinkNode) and node.sink.capabilities.prints
        for node in plan.written.values()
    )
    table = sys.stdout.isatty() and not debug and not prints
    reporter: Reporter = LiveTable(plan) if table else JSONLines(to_errors=prints)
    if metrics is not None:
        from mainstem.observation.http import address_of
        from mainstem.observation.metrics import Metrics

        try:
            host, port = address_of(metrics)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--metrics") from None
        served = Metrics(port, host)
        reporter = Several(served, reporter)
        typer.echo(f"metrics at {served.url}", err=True)
    served_page = serve(plan.checkpoint, page, "--page") if page is not None else None
    try:
        run(plan, reporter=reporter, debug=debug, show_rows=show_rows, stop=stop, fresh=fresh)
    except MainstemError as error:
        shown = traceback.format_exc() if debug else f"error: {error}"
        typer.echo(plan.scrubber.clean(shown), err=True)
        raise typer.Exit(error.exit_code) from None
    finally:
        if served_page is not None:
            served_page.close()
