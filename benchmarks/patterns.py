"""Patterns by `match`, against Flink's MATCH_RECOGNIZE over the same files.

    python benchmarks/patterns.py [ROWS] [ROUNDS] [PYTHON]

Four patterns over rows of 50,000 keys as JSON: a sequence, a quantity with an average, one with others
between, and one with none of something between. Flink runs by an interpreter that has PyFlink, if one
is named, parallelism 2, into files; its start is taken off. The document runs in a session that has run
it before, into files. Prints rows a second, medians over the rounds, and how many matches there are.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

KEYS, FILES, AT_ONCE = 50_000, 10, 5
SCHEMA = "k STRING, at TIMESTAMP_NTZ, v INT"
#: By name: the pattern here, and in Flink's words; definitions are the same SQL in both.
PATTERNS: dict[str, dict[str, Any]] = {
    "sequence": {
        "here": "a b c",
        "flink": "a b c",
        "define": {"a": "v < 300", "b": "v >= 300 AND v < 700", "c": "v >= 700"},
    },
    "quantity": {
        "here": "a{2,4} c",
        "flink": "a{2,4} c",
        "define": {"a": "v < 500", "c": "v > 2 * avg(a.v)"},
        "flink_define": {"a": "a.v < 500", "c": "c.v > 2 * AVG(CAST(a.v AS DOUBLE))"},
    },
    "between": {
        "here": "a ... c",
        "flink": "a x*? c",
        "define": {"a": "v < 100", "c": "v > 950"},
    },
    "absence": {
        "here": "a !b c",
        "flink": "a x*? c",
        "define": {"a": "v < 100", "b": "v BETWEEN 400 AND 600", "c": "v > 950"},
        "flink_define": {
            "a": "a.v < 100",
            "x": "NOT (x.v BETWEEN 400 AND 600)",
            "c": "c.v > 950",
        },
    },
}
_FLINK = """
SELECT k, first_v, last_v FROM rows_in MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY `at`
  MEASURES FIRST(a.v) AS first_v, LAST(c.v) AS last_v
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN ({pattern}) WITHIN INTERVAL '2' HOUR
  DEFINE {define})
"""


def make_input(folder: Path, rows: int) -> None:
    """Write rows in the order of their time, a file for each part of them."""
    import random

    dice = random.Random(1)
    folder.mkdir()
    for file in range(FILES):
        lines = []
        for n in range(file * rows // FILES, (file + 1) * rows // FILES):
            second = n * 86_400 // rows
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            at = f"2026-01-01T{clock}.{n % 1000:03}"
            lines.append(
                json.dumps({"k": f"k{dice.randrange(KEYS)}", "at": at, "v": dice.randrange(1000)})
            )
        (folder / f"{file:03}.json").write_text("\n".join(lines) + "\n")


def document(folder: Path, name: str) -> dict[str, Any]:
    """Return the document of a pattern."""
    given = {
        "path": str(folder / "in"),
        "format": "jsonlines",
        "schema": SCHEMA,
        "max_files": AT_ONCE,
    }
    made = PATTERNS[name]
    options = {
        "by": ["k"],
        "pattern": made["here"],
        "define": made["define"],
        "within": "2 hours",
        "measures": {"first_v": "first(a.v)", "last_v": "last(c.v)"},
    }
    columns = {"k": "k", "at": "CAST(at AS TIMESTAMP)", "v": "v"}
    return {
        "pipeline": "patterns",
        "checkpoint": str(folder / "work"),
        "trigger": {"available_now": True, "flush": True},
        "spark": {
            "master": "local[2]",
            "conf": {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2},
        },
        "sources": {"lines": {"use": "files", "with": given}},
        "operators": {
            "rows": {
                "use": "select",
                "from": "lines",
                "with": {"columns": columns},
                "watermark": {"column": "at", "delay": "1 minute"},
            },
            "found": {"use": "match", "from": "rows", "with": options},
        },
        "sinks": {
            "out": {
                "use": "files",
                "from": "found",
                "with": {"path": str(folder / "out"), "format": "jsonlines"},
            }
        },
    }


def ours(folder: Path, name: str) -> tuple[float, int]:
    """Run a pattern; return the seconds and how many matches there are."""
    from mainstem.plan.build import make_plan
    from mainstem.run.runner import run

    with tempfile.TemporaryDirectory() as work:
        made = Path(work)
        (made / "in").symlink_to(folder)
        file = made / "document.yaml"
        file.write_text(json.dumps(document(made, name)))
        plan = make_plan(file)
        began = time.perf_counter()
        run(plan)
        seconds = time.perf_counter() - began
        found = sum(len(each.read_text().splitlines()) for each in (made / "out").rglob("*.json"))
    return seconds, found


def flink(python: str, folder: Path, name: str) -> tuple[float, int]:
    """Run a pattern by Flink; return the seconds, less its start, and how many matches there are."""
    done = subprocess.run(
        [python, __file__, "--flink", name, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    told = next(line for line in done.stdout.splitlines() if line.startswith("took"))
    _, seconds, count = told.split()
    return float(seconds), int(count)


def by_flink(name: str, folder: Path) -> None:
    """Run a pattern in this interpreter, which has PyFlink; print how long it took, and the matches."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "parallelism.default": "2",
        "taskmanager.memory.managed.size": "512m",
        "table.local-time-zone": "UTC",
    }.items():
        env.get_config().set(key, value)
    env.execute_sql(
        # It reads files side by side: with a shorter delay most rows were late, and lost.
        "CREATE TABLE rows_in (k STRING, `at` TIMESTAMP(3), v INT, WATERMARK FOR `at` AS `at` - INTERVAL "
        f"'2' DAY) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json', "
        "'json.timestamp-format.standard' = 'ISO-8601')"
    )
    out = tempfile.mkdtemp()
    env.execute_sql(
        "CREATE TABLE found (k STRING, first_v INT, last_v INT) WITH ('connector' = 'filesystem', 'path' "
        f"= '{out}', 'format' = 'csv')"
    )
    made = PATTERNS[name]
    definitions = made.get("flink_define") or {
        n: sql.replace("v ", f"{n}.v ") for n, sql in made["define"].items()
    }
    sql = _FLINK.format(
        pattern=made["flink"],
        define=", ".join(f"{n} AS {each}" for n, each in definitions.items()),
    )

    def took(text: str) -> float:
        began = time.perf_counter()
        env.execute_sql(text).wait()
        return time.perf_counter() - began

    nothing = "INSERT INTO found SELECT 'x', 1, 1 FROM (VALUES (1)) AS t(id)"
    took(nothing)  # which loads classes
    start = took(nothing)
    seconds = took(f"INSERT INTO found {sql}") - start
    files = [each for each in Path(out).rglob("*") if each.is_file()]
    count = sum(len(each.read_text().splitlines()) for each in files) - 2
    print("took", seconds, count, flush=True)


def main() -> None:
    """Run both, in turn."""
    if sys.argv[1:2] == ["--flink"]:
        by_flink(sys.argv[2], Path(sys.argv[3]))
        return
    from mainstem.plan.build import make_plan
    from mainstem.run.session import start

    rows = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
    rounds = int(sys.argv[2]) if sys.argv[2:] else 3
    python = sys.argv[3] if sys.argv[3:] else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "in"
        make_input(folder, rows)
        file = Path(name) / "document.yaml"
        (Path(name) / "x").mkdir()
        file.write_text(json.dumps(document(Path(name), "sequence")))
        spark = start(make_plan(file))
        for pattern in PATTERNS:
            taken: dict[str, list[float]] = {"ours": [], "flink": []}
            found: dict[str, int] = {}
            for number in range(rounds + 1):
                seconds, found["ours"] = ours(folder, pattern)
                if number:  # the first warms up
                    taken["ours"].append(seconds)
                if number and python:
                    seconds, found["flink"] = flink(python, folder, pattern)
                    taken["flink"].append(seconds)
            told = f"{pattern}: {rows / median(taken['ours']):,.0f} rows/s, {found['ours']} matches"
            if python:
                other = median(taken["flink"])
                told += f"; Flink {rows / other:,.0f} rows/s, {found['flink']} matches: "
                told += f"{other / median(taken['ours']):.2f}"
            print(told, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
