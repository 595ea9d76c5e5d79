"""A query that keeps state, killed between the database's commit and Spark's."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest


def document(pipeline, deliver):
    schema = "k STRING, at TIMESTAMP, v INT"
    source = {"path": "./in", "format": "jsonlines", "schema": schema, "max_files": 1}
    late = {"column": "at", "delay": "10 minutes"}
    total = {
        "by": ["k"],
        "window": {"on": "at", "tumbling": "1 hour"},
        "columns": {"rows": "count(*)", "total": "sum(v)"},
    }
    table = {"url": "sqlite:///./out.db", "table": "totals"}
    return pipeline.document(
        trigger={"available_now": True, "flush": True},
        sources={"lines": {"use": "files", "with": source, "watermark": late}},
        operators={"hourly": {"use": "aggregate", "from": "lines", "with": total}},
        sinks={"totals": {"use": "sql", "from": "hourly", "deliver": deliver, "with": table}},
    )


def totals(pipeline):
    with closing(sqlite3.connect(pipeline.folder / "out.db")) as database:
        return sorted(database.execute("SELECT k, window_start, rows, total FROM totals"))


@pytest.mark.parametrize(
    ("deliver", "point"),
    [
        ("transactional", "sql.after-commit:2"),
        pytest.param("staged", "sql.after-commit:3", marks=pytest.mark.slow),
    ],
)
@pytest.mark.in_turn
def test_windows_are_complete_after_a_kill_once_their_batch_was_committed(
    pipeline, quick_java, deliver, point
):
    """Pass: the next run goes on, though the batch that comes again is in: Spark stores its state, the
    watermark moves, and each hour is there once with all its rows."""
    document(pipeline, deliver)
    for hour in range(5):
        rows = [
            {"k": k, "at": f"2024-05-01T{hour:02}:{m}:00Z", "v": hour}
            for k in "ab"
            for m in (10, 50)
        ]
        pipeline.feed(f"{hour}.jsonl", rows)
        # Spark takes files in the order of their times.
        os.utime(pipeline.folder / "in" / f"{hour}.jsonl", (hour, 1_700_000_000 + hour))
    killed = pipeline.command(MAINSTEM_FAILPOINT=point)
    assert killed.returncode == -9, killed.stderr
    pipeline.run()
    wanted = [(k, f"2024-05-01 {h:02}:00:00.000000", 2, 2 * h) for k in "ab" for h in range(5)]
    assert [(k, at[:19], rows, total) for k, at, rows, total in totals(pipeline)] == [
        (k, at[:19], rows, total) for k, at, rows, total in wanted
    ]
