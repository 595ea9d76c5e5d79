"""Random patterns by `match_patterns`, against Flink's MATCH_RECOGNIZE: the same matches?

    python benchmarks/patterns_by_flink.py PYTHON [PATTERNS] [SEED]

PYTHON is an interpreter that has PyFlink. Patterns are what both know: sequences of variables that
exclude each other, with quantities and any rows between, within a time, by two ways to skip. Flink has
no alternatives, groups or absences, and refuses a greedy quantity at the end and what may be empty after
one. All patterns are one run here, rows of a table; in Flink a statement each, some in one job. Ends
with 1 if a pattern's matches differ.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

LETTERS = "abcd"
DEFINE = {name: f"v = {at}" for at, name in enumerate(LETTERS)}
KEYS, ROWS, AT_ONCE = 40, 2_400, 10
START = datetime(2026, 1, 1)
SKIPS = {"past_last_row": "PAST LAST ROW", "to_next_row": "TO NEXT ROW"}
FIXED, AT_LEAST_ONE, OPTIONAL = ("", "", "{2}"), ("+", "{1,3}"), ("?", "*")
Match = tuple[str, str, str]


def patterns(count: int, dice: random.Random) -> list[tuple[str, str]]:
    """Return patterns in the words of each side."""
    made = []
    for _ in range(count):
        letters = dice.sample(LETTERS, dice.randint(2, 4))
        here, there = [], []
        greedy = False
        for at, letter in enumerate(letters):
            if at and not greedy and dice.random() < 0.4:
                here.append("...")
                there.append(f"x{at}*?")
            often = FIXED if at == len(letters) - 1 else FIXED + AT_LEAST_ONE
            often += OPTIONAL if 0 < at < len(letters) - 1 and not greedy else ()
            quantity = dice.choice(often)
            greedy = quantity not in FIXED
            here.append(letter + quantity)
            there.append(letter + quantity)
        made.append((" ".join(here), " ".join(there)))
    return made


def rows(dice: random.Random) -> list[dict[str, Any]]:
    """Return rows in the order of their time, no two of one."""
    found, at = [], START
    for _ in range(ROWS):
        at += timedelta(milliseconds=dice.randrange(1, 3_000))
        text = at.isoformat(timespec="milliseconds")
        found.append({"k": f"k{dice.randrange(KEYS)}", "at": text, "v": dice.randrange(4)})
    return found


def ours(folder: Path, made: list[tuple[str, str]], skip: str) -> dict[int, Counter[Match]]:
    """Return the matches of each pattern, by its number."""
    from mainstem.plan.build import make_plan
    from mainstem.run.runner import run

    work = folder / f"ours-{skip}"
    (work / "rules").mkdir(parents=True)
    rules = [{"n": n, "pattern": here, "version": 1} for n, (here, _) in enumerate(made)]
    (work / "rules" / "1.json").write_text("\n".join(map(json.dumps, rules)) + "\n")
    lines = {"format": "jsonlines", "path": str(folder / "in")}
    conf = {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2}
    document = {
        "pipeline": "patterns",
        "checkpoint": str(work / "checkpoint"),
        "trigger": {"available_now": True, "flush": True},
        "spark": {"master": "local[2]", "conf": conf},
        "sources": {
            "lines": {
                "use": "files",
                "with": {**lines, "schema": "k STRING, at TIMESTAMP, v INT"},
                "watermark": {"column": "at", "delay": "1 minute"},
            },
            "rule_lines": {
                "use": "files",
                "with": {
                    **lines,
                    "path": str(work / "rules"),
                    "schema": "n INT, pattern STRING, version INT",
                },
            },
        },
        "operators": {
            "rules": {
                "use": "changelog",
                "from": "rule_lines",
                "with": {"key": ["n"], "sequence": "version"},
            },
            "found": {
                "use": "match_patterns",
                "from": {"input": "lines", "patterns": "rules"},
                "with": {"by": ["k"], "define": DEFINE, "within": "5 minutes", "skip": skip},
            },
        },
        "sinks": {
            "out": {
                "use": "files",
                "from": "found",
                "with": {"path": str(work / "out"), "format": "jsonlines"},
            }
        },
    }
    file = work / "document.yaml"
    file.write_text(json.dumps(document))
    run(make_plan(file))
    found: dict[int, Counter[Match]] = {n: Counter() for n in range(len(made))}
    for part in (work / "out").rglob("*.json"):
        for row in map(json.loads, part.read_text().splitlines()):
            found[row["n"]][row["k"], row["match_start"][:23], row["match_end"][:23]] += 1
    return found


def by_flink(folder: Path, skip: str) -> None:
    """Run all patterns where PyFlink is; write what each finds into a folder."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "1")
    env.get_config().set("table.local-time-zone", "UTC")
    files = "'connector' = 'filesystem', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'"
    env.execute_sql(f"""
        CREATE TABLE rows_in (
            k STRING, `at` TIMESTAMP(3), v INT, WATERMARK FOR `at` AS `at` - INTERVAL '2' DAY
        ) WITH ({files}, 'path' = '{folder / "in"}')
    """)
    made = json.loads((folder / "patterns.json").read_text())
    for first in range(0, len(made), AT_ONCE):
        together = env.create_statement_set()
        for number, (_, pattern) in enumerate(made[first : first + AT_ONCE], first):
            out = folder / f"flink-{skip}" / str(number)
            env.execute_sql(f"""
                CREATE TABLE found_{number} (k STRING, s TIMESTAMP(3), e TIMESTAMP(3))
                WITH ({files}, 'path' = '{out}')
            """)
            names = [item[0] for item in pattern.split() if item[0] != "x"]
            define = ", ".join(f"{n} AS {n}.{DEFINE[n]}" for n in names)
            together.add_insert_sql(f"""
                INSERT INTO found_{number} SELECT k, s, e FROM rows_in MATCH_RECOGNIZE (
                    PARTITION BY k ORDER BY `at`
                    MEASURES FIRST({names[0]}.`at`) AS s, LAST({names[-1]}.`at`) AS e
                    ONE ROW PER MATCH AFTER MATCH SKIP {SKIPS[skip]}
                    PATTERN ({pattern}) WITHIN INTERVAL '5' MINUTE DEFINE {define}
                )
            """)
        together.execute().wait()


def theirs(python: str, folder: Path, count: int, skip: str) -> dict[int, Counter[Match]]:
    """Return the matches that Flink finds of each pattern."""
    command = [python, __file__, "--flink", str(folder), skip]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[:3000])
    found: dict[int, Counter[Match]] = {n: Counter() for n in range(count)}
    for number, matches in found.items():
        for part in (folder / f"flink-{skip}" / str(number)).rglob("*"):
            if part.is_file():
                for row in map(json.loads, part.read_text().splitlines()):
                    times = (datetime.fromisoformat(row[name]) for name in "se")
                    start, end = (at.isoformat(timespec="milliseconds") for at in times)
                    matches[row["k"], start, end] += 1
    return found


def main() -> None:
    """Compare."""
    if sys.argv[1] == "--flink":
        by_flink(Path(sys.argv[2]), sys.argv[3])
        return
    python = sys.argv[1]
    count = int(sys.argv[2]) if sys.argv[2:] else 100
    dice = random.Random(int(sys.argv[3]) if sys.argv[3:] else 1)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "in" / "1.json").write_text("\n".join(map(json.dumps, rows(dice))) + "\n")
        made = patterns(count, dice)
        (folder / "patterns.json").write_text(json.dumps(made))
        for skip in SKIPS:
            mine, other = ours(folder, made, skip), theirs(python, folder, count, skip)
            for number, (here, _) in enumerate(made):
                if mine[number] != other[number]:
                    wrong += 1
                    lacks, more = other[number] - mine[number], mine[number] - other[number]
                    print(
                        f"{here} ({skip}): lacks {sorted(lacks)[:2]}, has more {sorted(more)[:2]}"
                    )
            total = sum(sum(each.values()) for each in mine.values())
            print(f"{skip}: {count} patterns, {total:,} matches", flush=True)
    print(f"{wrong} differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
