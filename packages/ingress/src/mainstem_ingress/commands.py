"""`mainstem ingress`: receivers apart from Spark, and what is in their logs. Never imports pyspark."""

from __future__ import annotations

import fcntl
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from mainstem import DocumentError, MainstemError, PipelineError, Problem
from mainstem.commands import (
    File,
    Form,
    Format,
    HelperRow,
    JSONLines,
    Reporter,
    Set,
    Silent,
    load,
    reads_of,
)

from mainstem_ingress.errors import LogError
from mainstem_ingress.source import IngressSource

if TYPE_CHECKING:
    from mainstem.commands import Plan
    from rich.table import Table

    from mainstem_ingress.log import Log

_POLL = 0.05
#: How often a log is looked at again when segments were removed meanwhile.
_LOOKS = 5


def run(
    file: File,
    node: Annotated[
        list[str] | None,
        typer.Option(help="Only the receivers of this source. Repeatable.", metavar="NODE"),
    ] = None,
    set_: Set = None,
) -> None:
    """Take messages until interrupted, apart from Spark: `mainstem run` reads them when it runs.

    Both can be started beside each other: whoever comes second waits until the other has ended. On a
    terminal it shows a live table, elsewhere JSON lines. SIGINT and SIGTERM store what is in hand.

    \b
    mainstem ingress run pipeline.yaml
    mainstem ingress run pipeline.yaml --node orders
    """  # noqa: D301
    from mainstem.commands import stopping_on_signals

    stop = threading.Event()
    with stopping_on_signals(stop):
        plan = load(file, set_)
        try:
            _take(plan, _chosen(plan, node or ()), stop)
        except MainstemError as error:
            typer.echo(plan.scrubber.clean(f"error: {error}"), err=True)
            raise typer.Exit(error.exit_code) from None


def show(file: File, format: Format = Form.TEXT, set_: Set = None) -> None:  # noqa: A002
    """Show what is in the logs, who writes them, and how far each consumer has read.

    \b
    mainstem ingress show pipeline.yaml
    mainstem ingress show pipeline.yaml --format json
    """  # noqa: D301
    plan = load(file, set_)
    found = [facts_of(plan, name) for name in _sources(plan)]
    if format is Form.JSON:
        typer.echo(json.dumps({"pipeline": plan.pipeline, "sources": found}, indent=2))
    else:
        typer.echo("\n".join(line for facts in found for line in _text(facts)))


def forget(
    file: File,
    node: Annotated[str, typer.Argument(help="The source.", metavar="NODE")],
    consumer: Annotated[
        str, typer.Argument(help="As `mainstem ingress show` names it.", metavar="CONSUMER")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also one that belongs to the document.")
    ] = False,
    set_: Set = None,
) -> None:
    """Let a consumer hold nothing any more: what it alone has not read may then be removed.

    One that belongs to the document is forgotten with `--force` alone; it holds segments again from
    the next batch on, and its run fails if some that it wants are gone by then.
    """
    plan = load(file, set_)
    (name,) = _chosen(plan, [node])
    consumers = _log(plan, name).consumers
    if consumer in _expected(plan, name) and not force:
        message = f"{node}: {consumer!r} belongs to the document; to forget it anyway: --force"
        raise PipelineError(message)
    if not consumers.forget(consumer):
        there = ", ".join(consumers.all()) or "none"
        raise PipelineError(f"{node}: there is no consumer {consumer!r}. Consumers: {there}.")
    typer.echo(f"{node}: {consumer} holds nothing any more")


# -- the sources of a document --------------------------------------------------------------------


def _sources(plan: Plan) -> list[str]:
    """Return the sources on the log that some query reads.

    Raises:
        DocumentError: there is none.
    """
    read = {name for query in plan.queries for name in query.reads}
    found = [
        name
        for name, node in plan.nodes.items()
        if name in read and isinstance(node.component, IngressSource)
    ]
    if not found:
        message = "no source takes messages through the ingress log, so there are no receivers"
        hint = (
            "`mainstem plugins show WORD` tells of a source whether it has the ability Supervised"
        )
        raise DocumentError([Problem(message, "sources", plan.file, hint=hint)])
    return found


def _chosen(plan: Plan, names: Any) -> list[str]:
    found = _sources(plan)
    for name in names:
        if name not in found:
            message = f"there is no source {name!r} on the ingress log. There are: "
            raise PipelineError(f"{message}{', '.join(found)}.")
    return [name for name in found if not names or name in names]


def _log(plan: Plan, name: str) -> Log:
    component = plan.nodes[name].component
    assert isinstance(component, IngressSource)  # noqa: S101
    return component.log(plan.home(name))


def _expected(plan: Plan, name: str) -> list[str]:
    """Return the consumers that the document's queries are."""
    return [
        f"{plan.pipeline}.{query.name}.{read}"
        for query in plan.queries
        for read in reads_of(query, name)
    ]


# -- running --------------------------------------------------------------------------------------


def _take(plan: Plan, names: list[str], stop: threading.Event) -> None:
    """Run the receivers until told to stop.

    Raises:
        PipelineError: one says that no restart would help.
    """
    from mainstem.commands import Helpers

    shown: Reporter = HelperTable() if sys.stdout.isatty() else JSONLines()
    began = time.monotonic()
    shown.started(plan)
    try:
        with Helpers(plan, shown, names) as helpers:
            while not stop.is_set():
                helpers.watch()
                shown.tick()
                stop.wait(_POLL)
    finally:
        seconds = round(time.monotonic() - began, 3)
        shown.ended({"event": "summary", "pipeline": plan.pipeline, "seconds": seconds})


class HelperTable(Silent):
    """Keeps a table of the helpers up to date on the terminal."""

    def started(self, plan: Plan) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title = plan.pipeline
        self._rows: dict[str, HelperRow] = {}
        self._live = Live(self._table(), console=Console(), refresh_per_second=4)
        self._live.start()

    def helper(self, facts: Mapping[str, Any]) -> None:
        self._rows.setdefault(facts["helper"], HelperRow()).put(facts)

    def tick(self) -> None:
        self._live.update(self._table())

    def ended(self, summary: Mapping[str, Any]) -> None:
        self._live.update(self._table(), refresh=True)
        self._live.stop()
        self._live.console.print(f"ended after {summary['seconds']:.1f} s")

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text  # what an external system says is no markup

        table = Table(title=self._title, title_justify="left", expand=False)
        table.add_column("receiver")
        for name in ("rows", "rows/s"):
            table.add_column(name, justify="right")
        for name, row in self._rows.items():
            shown = row.shown(name)
            table.add_row(Text(shown["query / node"]), shown["rows"], shown["rows/s"])
        return table


# -- looking --------------------------------------------------------------------------------------


def facts_of(plan: Plan, name: str) -> dict[str, Any]:
    """Return what is in the log of a source: its receivers and its consumers.

    Sizes are bytes, ages seconds. A consumer's `at` is its first segment not read; None before it
    has begun.

    Raises:
        LogError: the log can't be read.
    """
    for look in range(_LOOKS):
        try:
            return _looked_at(plan, name)
        except (LogError, FileNotFoundError):  # perhaps a segment was removed meanwhile
            if look == _LOOKS - 1:
                raise
            time.sleep(_POLL)
    raise AssertionError


def _looked_at(plan: Plan, name: str) -> dict[str, Any]:
    component = plan.nodes[name].component
    assert isinstance(component, IngressSource)  # noqa: S101
    log = _log(plan, name)
    there = log.receivers()
    wanted = [str(number) for number in range(component.options.receivers)]
    kept = log.consumers.all()
    expected = _expected(plan, name)
    receivers = [
        {
            "receiver": receiver,
            "in_document": receiver in wanted,
            "held": _held(log.receiver(receiver) / "lock"),
            **_stored(log, receiver, log.consumers.floor(receiver)),
        }
        for receiver in there
    ]
    consumers = [
        {
            "consumer": consumer,
            "in_document": consumer in expected,
            "receivers": {
                receiver: _behind(log, receiver, kept[consumer].get(receiver, 0))
                for receiver in there
            }
            if consumer in kept
            else None,
        }
        for consumer in dict.fromkeys([*expected, *kept])
    ]
    return {
        "source": name,
        "folder": str(log.folder),
        "receivers": receivers,
        "consumers": consumers,
    }


def _stored(log: Log, receiver: str, floor: int) -> dict[str, Any]:
    from mainstem_ingress.log import whole_run

    first, end = whole_run(log.receiver(receiver))
    unread = _behind(log, receiver, floor)
    rows, size, _ = _sums(log, receiver, first, end)
    return {
        "segments": end - first,
        "first": first,
        "end": end,
        "rows": rows,
        "bytes": size,
        "unread_rows": unread["rows"],
        "unread_bytes": unread["bytes"],
        "unread_seconds": unread["seconds"],
    }


def _behind(log: Log, receiver: str, since: int) -> dict[str, Any]:
    from mainstem_ingress.log import whole_run

    first, end = whole_run(log.receiver(receiver))
    rows, size, oldest = _sums(log, receiver, max(since, first), end)
    seconds = round(max(0.0, time.time() - oldest), 1) if rows else 0.0
    gone = max(0, first - since)
    return {"at": since, "rows": rows, "bytes": size, "seconds": seconds, "gone": gone}


def _sums(log: Log, receiver: str, first: int, end: int) -> tuple[int, int, float]:
    """Return rows and bytes of the segments from one to before another, and when the first came."""
    if first >= end:
        return 0, 0, 0.0
    begin, last = log.header(receiver, first), log.header(receiver, end - 1)
    from mainstem_ingress.segments import file_of

    size = file_of(log.receiver(receiver), end - 1).stat().st_size
    return (
        last.rows_before + last.rows - begin.rows_before,
        last.bytes_before + size - begin.bytes_before,
        begin.created,
    )


def _held(file: Path) -> bool:
    """Whether a process holds a lock. Two that look at once do not see each other."""
    try:
        with file.open() as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _text(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"{facts['source']}: {facts['folder']}"
    if not facts["receivers"]:
        yield "  nothing was ever stored"
    for each in facts["receivers"]:
        who = "a process takes messages" if each["held"] else "no process takes messages"
        there = "" if each["in_document"] else "; the document has no such receiver any more"
        yield f"  receiver {each['receiver']}: {who}{there}"
        yield (
            f"    {each['segments']:,} segments ({each['first']} to before {each['end']}), "
            f"{each['rows']:,} rows, {each['bytes']:,} bytes"
        )
        yield f"    unread {_amount(each['unread_rows'], each['unread_bytes'], each['unread_seconds'])}"
    for each in facts["consumers"]:
        stale = "" if each["in_document"] else ": not in the document, and still holds segments"
        yield f"  consumer {each['consumer']}{stale}"
        if each["receivers"] is None:
            yield "    has not begun"
            continue
        for receiver, one in each["receivers"].items():
            gone = f"; {one['gone']} segments that it wants are gone" if one["gone"] else ""
            behind = _amount(one["rows"], one["bytes"], one["seconds"])
            yield f"    receiver {receiver}: at segment {one['at']}, {behind} behind{gone}"


def _amount(rows: int, size: int, seconds: float) -> str:
    return f"{rows:,} rows, {size:,} bytes, {seconds:,.0f} s"
