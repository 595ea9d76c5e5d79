"""NEXMark: each query as a document, its result, and how fast it is beside others.

`check` runs each query with batches of random sizes, kills it once, runs it again, and compares the result
with what DuckDB gives for all events. `measure` compares times with the same in PySpark by hand and, given
an interpreter that has it, with Flink's SQL.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import click
from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from mainstem.run.session import start
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from nexmark.answers import ANSWERS, difference
from nexmark.by_hand import BY_HAND, run_by_hand
from nexmark.events import write_events
from nexmark.flink import FLINK, seconds_by_flink

QUERIES = Path(__file__).parent / "queries"
SPARK = {
    "master": "local[2]",
    "conf": {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2},
}
_YAML = YAML(typ="safe", pure=True)


def document(name: str, events: Path, folder: Path, at_once: int) -> dict[str, Any]:
    """Return the document of a query for some events, its result in the folder's `out`."""
    os.environ["NEXMARK_SIDE"] = str(events / "side")
    found: dict[str, Any] = _YAML.load((QUERIES / f"{name}.yaml").read_text())
    for source, node in found["sources"].items():
        node["with"] |= {"path": str(events / source), "max_files": at_once}
    found["sinks"]["out"]["with"]["path"] = str(folder / "out")
    return found | {"checkpoint": str(folder / "work"), "spark": SPARK}


def chosen(names: tuple[str, ...]) -> list[str]:
    """Return the queries of those names, or all."""
    return list(names or ANSWERS)


@click.group()
def main() -> None:
    """Run NEXMark's queries."""


@main.command()
@click.argument("names", nargs=-1)
@click.option("--events", default=300_000, show_default=True)
@click.option(
    "--seed", default=1, show_default=True, help="Of the events, and of what is random else."
)
@click.option("--kill/--no-kill", default=True, show_default=True)
def check(names: tuple[str, ...], events: int, seed: int, kill: bool) -> None:
    """Compare what queries give with a plain computation."""
    console, failed = Console(), []
    with tempfile.TemporaryDirectory(prefix="nexmark-", ignore_cleanup_errors=True) as place:
        data = Path(place, "in")
        write_events(data, events, 30, seed)
        for name in chosen(names):
            folder = Path(place, name)
            folder.mkdir()
            began = time.perf_counter()
            draw = random.Random(f"{seed} {name}")
            at_once = draw.randint(2, 10)
            killed = _killed(document(name, data, folder, at_once), folder, draw) if kill else ""
            run(make_plan(document(name, data, folder, at_once)))
            wrong = difference(name, data, folder / "out")
            took = time.perf_counter() - began
            told = "; ".join(wrong) or "equal"
            console.print(f"{name}: {told} ({at_once} files a batch, {killed}{took:.0f} s)")
            failed += [name] if wrong else []
            shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


def _killed(given: dict[str, Any], folder: Path, draw: random.Random) -> str:
    """Run a document in a process of its own, and kill that after some batches."""
    file = folder / "query.yaml"
    file.write_text(json.dumps(given))
    command = [sys.executable, "-m", "mainstem", "run", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    batches = draw.randint(1, 3)
    try:
        while process.poll() is None:
            # Files come and go meanwhile, which `walk` does not mind.
            there = os.walk(folder / "work")
            done = [
                f
                for at, _, files in there
                if at.endswith("commits")
                for f in files
                if f.isdecimal()
            ]
            if len(done) >= batches:
                time.sleep(draw.random())
                break
            time.sleep(0.02)
        ended = process.poll() is not None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "ended before it was killed, " if ended else f"killed after {len(done)} batches, "


@main.command()
@click.argument("names", nargs=-1)
@click.option("--events", default=2_000_000, show_default=True)
@click.option("--rounds", default=3, show_default=True, help="The first warms up.")
@click.option("--flink", default="", help="An interpreter with PyFlink.")
@click.option("--jars", default="", help="A folder of jars for it; see `flink.py`.")
def measure(names: tuple[str, ...], events: int, rounds: int, flink: str, jars: str) -> None:
    """Measure queries beside PySpark by hand, and Flink SQL."""
    files, at_once = 16, 8
    table = Table(title=f"{events:,} events, thousands a second", title_justify="left")
    for column in ("query", "document", "by hand", "ratio", "Flink", "ratio"):
        table.add_column(column, justify="right")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="nexmark-", ignore_cleanup_errors=True) as place:
        data, work = Path(place, "in"), Path(place, "work")
        write_events(data, events, files)
        spark = start(make_plan(document("q0", data, work, at_once)))
        for name in chosen(names):
            ours, hand = [], []
            # Those with nothing beside them run once: the queries before have warmed up.
            for _ in range(rounds if name in BY_HAND else 1):
                ours.append(_timed(work, lambda name=name: _bounded(name, data, work, at_once)))
                if name in BY_HAND:
                    by_hand = lambda name=name: run_by_hand(spark, name, data, work, at_once)  # noqa: E731
                    hand.append(_timed(work, by_hand))
            ours, hand = ours[1:] or ours, hand[1:]
            row = [name, f"{events / median(ours) / 1000:,.0f}", "", "", "", ""]
            if hand:
                ratio = median(other / one for one, other in zip(ours, hand, strict=True))
                row[2:4] = [f"{events / median(hand) / 1000:,.0f}", f"{ratio:.2f}"]
            if flink and name in FLINK:
                took = seconds_by_flink(flink, Path(jars), name, data)
                row[4:] = [f"{events / took / 1000:,.0f}", f"{took / median(ours):.2f}"]
            table.add_row(*row)
            console.print(" ".join(row))
        spark.stop()
    console.print(table)


def _bounded(name: str, data: Path, work: Path, at_once: int) -> None:
    """Run a document as the others run theirs: windows that are open at the end stay open."""
    given = document(name, data, work, at_once)
    given["trigger"] = {"available_now": True}
    run(make_plan(given))


def _timed(work: Path, do: Any) -> float:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
