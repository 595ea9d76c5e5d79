"""`mainstem verify`: what a store holds beside what its sources say."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import uuid

import pytest
import redis as client
from mainstem.cli.app import app
from typer.testing import CliRunner

pytestmark = pytest.mark.in_turn(together=True)


@pytest.fixture
def board(pipeline, redis):
    """A table of changes, in SQLite and as hashes of Redis; five keys, one of them deleted."""
    prefix = uuid.uuid4().hex
    schema = "id INT, at INT, note STRING, gone BOOLEAN"
    rows = {"path": "./in", "format": "jsonlines", "schema": schema, "max_files": 1}
    pipeline.document(
        sources={"rows": {"use": "files", "with": rows}},
        operators={
            "changes": {
                "use": "changelog",
                "from": "rows",
                "with": {"key": ["id"], "sequence": "at", "delete": "gone"},
            }
        },
        sinks={
            "board": {
                "use": "sql",
                "from": "changes",
                "with": {"url": f"sqlite:///{pipeline.folder}/b.db", "table": "board"},
            },
            "cache": {
                "use": "redis_table",
                "from": "changes",
                "with": {"url": redis.url, "key": f"{prefix}:{{id}}"},
            },
        },
    )
    feed(pipeline, 0, [(n, 1, f"note {n}") for n in range(5)])
    pipeline.run()
    feed(pipeline, 1, [(0, 2, "newer"), (4, 2, None)])
    pipeline.run()
    return pipeline, prefix


def feed(pipeline, number, rows):
    lines = [{"id": i, "at": at, "note": note, "gone": note is None} for i, at, note in rows]
    pipeline.feed(f"{number}.jsonl", lines)


def verified(pipeline, sink, *more, code=0):
    """Return what `mainstem verify` says, as JSON."""
    given = ["verify", str(pipeline.file), "--sink", sink, "--format", "json", *more]
    ended = CliRunner().invoke(app, given, catch_exceptions=False)
    assert ended.exit_code == code, ended.output
    return json.loads(ended.output)


def sqlite(pipeline, *statements):
    with sqlite3.connect(pipeline.folder / "b.db") as connection:
        for statement in statements:
            connection.execute(statement)


def held(pipeline, question):
    with sqlite3.connect(pipeline.folder / "b.db") as connection:
        return connection.execute(question).fetchall()


def counts(found):
    return found["missing"], found["extra"], found["different"]


def test_damage_of_each_kind_is_found_and_put_right(board, redis):
    """Pass: nothing differs of what was written; a row that is gone, one that nobody wrote, one that was changed, and one that is
    back though it was deleted are found exactly, in both stores; after the repair nothing differs, and later changes are written."""
    pipeline, prefix = board
    for sink in ("board", "cache"):
        found = verified(pipeline, sink)
        assert (found["rows"], found["held"], *counts(found)) == (4, 4, 0, 0, 0)
    sqlite(
        pipeline,
        "DELETE FROM board WHERE id = 1",
        "UPDATE board SET note = 'x' WHERE id = 2",
        "INSERT INTO board (id, at, note, gone, _commit_version) VALUES (4, 1, 'back', 0, 1), (9, 1, 'new', 0, 1)",
    )
    with client.Redis("127.0.0.1", redis.port) as there:
        there.delete(f"{prefix}:1")
        there.hset(f"{prefix}:2", "note", "x")
        there.hset(f"{prefix}:4", mapping={"id": "4", "note": "back", "_version": "1"})
        there.hset(f"{prefix}:9", mapping={"id": "9", "_version": "1"})
        there.rpush(f"{prefix}:list", "is no row")
        # Of another table, whose names are longer.
        there.hset(f"{prefix}:1:order:7", mapping={"id": "1", "n": "7", "_version": "1"})
    for sink in ("board", "cache"):
        found = verified(pipeline, sink, "--show-rows", code=1)
        kinds = sorted((each["kind"], each["key"]) for each in found["differences"])
        names = [f'{{"id":{n}}}' if sink == "board" else f"{prefix}:{n}" for n in (2, 4, 9, 1)]
        assert kinds == [
            ("different", names[0]), ("extra", names[1]), ("extra", names[2]), ("missing", names[3]),
        ]  # fmt: skip
        assert "note 1" in found["differences"][3]["expected"] or sink == "cache"
        assert verified(pipeline, sink, "--repair")["repaired"]
        assert counts(verified(pipeline, sink)) == (0, 0, 0)
    feed(pipeline, 2, [(1, 3, "later"), (4, 3, "again")])
    pipeline.run()
    for sink in ("board", "cache"):
        found = verified(pipeline, sink)
        assert (found["rows"], *counts(found)) == (5, 0, 0, 0)


def test_a_pipeline_that_runs_is_compared_twice(board):
    """Pass: a row that was changed is found, and nothing else while others come and go; it can't be repaired meanwhile."""
    pipeline, _ = board
    whole = pipeline.file.read_text()
    whole = whole.replace("max_files: 1", "max_files: 1000")
    pipeline.file.write_text(whole.replace("available_now: true", "every: 100 milliseconds"))
    stop = threading.Event()

    def write():
        at = 10
        while not stop.is_set():
            feed(pipeline, at, [(100 + at % 7, at, f"note {at}" if at % 3 else None)])
            at += 1
            time.sleep(0.2)

    writer = threading.Thread(target=write)
    with pipeline.start() as running:
        writer.start()
        try:
            running.wait_for(lambda: held(pipeline, "SELECT 1 FROM board WHERE id > 99"))
            sqlite(pipeline, "UPDATE board SET note = 'x' WHERE id = 2")
            found = verified(pipeline, "board", "--wait", "2", code=1)
            assert [each["key"] for each in found["differences"]] == ['{"id":2}']
            ended = CliRunner().invoke(
                app, ["verify", str(pipeline.file), "--sink", "board", "--repair"]
            )
            assert "the pipeline runs" in str(ended.exception)
        finally:
            stop.set()
            writer.join()


def test_a_window_that_is_open_is_not_missing(pipeline):
    """Pass: totals that the pipeline has not told yet are not told by `verify` either."""
    lines = {"path": "./in", "format": "jsonlines", "schema": "at TIMESTAMP, n INT"}
    window = {"on": "at", "tumbling": "1 hour"}
    url = f"sqlite:///{pipeline.folder}/b.db"
    pipeline.document(
        sources={
            "rows": {
                "use": "files", "with": lines, "watermark": {"column": "at", "delay": "1 minute"},
            }
        },
        operators={
            "hours": {
                "use": "aggregate", "from": "rows",
                "with": {"window": window, "columns": {"total": "sum(n)"}},
            }
        },
        sinks={
            "board": {
                "use": "sql", "from": "hours", "deliver": "idempotent",
                "with": {"url": url, "table": "board"},
            }
        },
    )  # fmt: skip
    rows = [{"at": f"2026-01-01T{hour:02}:10:00Z", "n": 1} for hour in (1, 2, 3)]
    pipeline.feed("0.jsonl", rows)
    pipeline.run()
    found = verified(pipeline, "board")
    assert (found["rows"], found["held"], *counts(found)) == (2, 2, 0, 0, 0)


def test_what_can_not_be_compared_is_told(pipeline):
    """Pass: a sink that can't say what it holds, with those that can."""
    lines = {"path": "./in", "format": "jsonlines", "schema": "id INT"}
    pipeline.document(
        sources={"rows": {"use": "files", "with": lines}},
        sinks={"out": pipeline.sink("out", "rows")},
    )
    ended = CliRunner().invoke(app, ["verify", str(pipeline.file), "--sink", "out"])
    assert "out can't be compared. Sinks that can: none" in str(ended.exception)
