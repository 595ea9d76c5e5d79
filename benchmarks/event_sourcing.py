"""Commands a second by `decide`, beside the same work as frames by `python_by_key`.

    python benchmarks/event_sourcing.py [COMMANDS] [ROUNDS]

Commands of 50,000 keys from parquet files, each of which is one event; the state counts them. The
frames' function does the same for all rows of a batch at once. Both write events into parquet. Prints
medians over the rounds, without the first batch of each run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
from job import Batches
from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from ruamel.yaml import YAML

KEYS, FILES = 50_000, 6
EVENTS = "k STRING, at TIMESTAMP, amount BIGINT"


class Account:
    """Any amount that leaves something is taken."""

    @staticmethod
    def decide(_: Any, command: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"amount": command["amount"]}]

    @staticmethod
    def evolve(state: Any, event: Mapping[str, Any]) -> dict[str, Any]:
        return {"balance": (state["balance"] if state else 0) + event["amount"]}


def account(rows: pl.DataFrame, kept: pl.DataFrame, **_: Any) -> Any:
    """Do that for all rows at once: versions go on, balances are added up."""
    known = rows.join(kept, on="k", how="left", maintain_order="left")
    number = pl.int_range(1, pl.len() + 1).over("k")
    out = known.select("k", "at", "amount", version=pl.col("version").fill_null(0) + number)
    sums = rows.group_by("k").agg(more=pl.col("amount").sum(), n=pl.len().cast(pl.Int64))
    both = sums.join(kept, on="k", how="full", coalesce=True)
    now = both.select(
        "k",
        balance=pl.col("balance").fill_null(0) + pl.col("more").fill_null(0),
        version=pl.col("version").fill_null(0) + pl.col("n").fill_null(0),
    )
    return out, now


def make_input(folder: Path, commands: int) -> None:
    """Write commands in the order of their time."""
    folder.mkdir()
    each = commands // FILES
    for file in range(FILES):
        n = pl.int_range(file * each, (file + 1) * each, eager=True)
        pl.DataFrame(
            {
                "k": (n * 7919 % KEYS).cast(pl.String),
                "at": pl.from_epoch(n + 1_700_000_000, "s").dt.replace_time_zone("UTC"),
                "amount": n % 100,
            }
        ).write_parquet(folder / f"{file:03}.parquet")


def document(folder: Path, number: int, operator: dict[str, Any]) -> Path:
    """Write a document."""
    source = {"path": str(folder / "in"), "format": "parquet", "schema": EVENTS, "max_files": 1}
    made = {
        "pipeline": "bench",
        "checkpoint": str(folder / str(number) / "checkpoint"),
        "trigger": {"available_now": True},
        "spark": {"master": "local[2]", "conf": {"spark.ui.enabled": False}},
        "sources": {
            "rows": {
                "use": "files",
                "with": source,
                "watermark": {"column": "at", "delay": "1 minute"},
            }
        },
        "operators": {"subject": {"from": "rows", **operator}},
        "sinks": {
            "events": {
                "use": "files",
                "from": "subject",
                "with": {"path": str(folder / str(number) / "events"), "format": "parquet"},
            }
        },
    }
    file = folder / f"{number}.yaml"
    with file.open("w") as text:
        YAML().dump(made, text)
    return file


def main() -> None:
    """Run both in turn."""
    commands = int(sys.argv[1]) if len(sys.argv) > 1 else 1_200_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    here = str(Path(__file__).parent)
    given = {"folder": here, "by": ["k"]}
    both: dict[str, dict[str, Any]] = {
        "decide": {
            "use": "decide",
            "with": {
                **given,
                "call": "event_sourcing:Account",
                "state": "balance BIGINT",
                "events": "amount BIGINT",
            },
        },
        "python_by_key": {
            "use": "python_by_key",
            "with": {
                **given,
                "call": "event_sourcing:account",
                "state": "balance BIGINT, version BIGINT",
                "schema": f"{EVENTS}, version BIGINT",
            },
        },
    }
    found: dict[str, list[float]] = {name: [] for name in both}
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        make_input(folder / "in", commands)
        for number in range(rounds * 2):
            word = list(both)[number % 2]
            reporter = Batches()
            run(make_plan(document(folder, number, both[word])), reporter=reporter)
            each = commands // FILES
            found[word].append(each * (FILES - 1) / sum(reporter.seconds[1:FILES]))
    for word, rates in found.items():
        print(f"{word}: {median(rates):,.0f} commands/s")
    ours, frames = (median(found[word]) for word in both)
    print(
        f"ratio {ours / frames:.2f}: a command costs {1e6 / ours - 1e6 / frames:.1f} us more by calls"
    )


if __name__ == "__main__":
    main()
