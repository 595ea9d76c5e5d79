"""The table of a campaign: each path with its rounds, what was broken, and what was lost or doubled."""

from __future__ import annotations

import json
import platform
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from campaign.judging import Verdict

BEGIN, END = "<!-- campaign: begin -->", "<!-- campaign: end -->"
COLUMNS = ("path", "rounds", "faults", "rows", "lost", "doubled", "wrong", "claimed", "seen")

Outcomes = Sequence[Mapping[str, Any]]


def read(file: Path) -> Outcomes:
    return [json.loads(line) for line in file.read_text().splitlines()]


def table(outcomes: Outcomes) -> list[tuple[Any, ...]]:
    """Return a row for each path, in the order of `COLUMNS`."""
    by: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in outcomes:
        by[each["path"]].append(each)
    rows = []
    for path, mine in sorted(by.items()):
        sums = {
            what: sum(each["verdict"][what] for each in mine)
            for what in ("expected", "lost", "doubled", "wrong")
        }
        claimed = " / ".join(sorted({each["claimed"] for each in mine}))
        faults = sum(len(each["faults"]) for each in mine)
        seen = Verdict(**sums, disordered=0).seen
        rows.append((path, len(mine), faults, *sums.values(), claimed, seen))
    return rows


def as_text(outcomes: Outcomes) -> str:
    rows = [COLUMNS, *table(outcomes)]
    widths = [max(len(str(row[n])) for row in rows) for n in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def into_docs(page: Path, outcomes: Outcomes) -> None:
    """Write the table into a page, between its marks."""
    rows = table(outcomes)
    lines = [" | ".join(map(str, row)) for row in [COLUMNS, ["---"] * len(COLUMNS), *rows]]
    rounds = len({each["seed"] for each in outcomes})
    told = (
        f"{rounds} rounds of several paths each, {len(rows)} paths played {len(outcomes)} times in all, "
        f"{datetime.now(UTC):%Y-%m-%d}, PySpark {version('pyspark')}, Python {platform.python_version()}."
    )
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = "\n".join(f"| {line} |" for line in lines)
    page.write_text(f"{before}{BEGIN}\n{told}\n\n{made}\n{END}{after}")
