"""Who asks to be forgotten is gone from the stores that are derived, as the page of `forget` says."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

pytestmark = pytest.mark.in_turn


def held(pipeline):
    with closing(sqlite3.connect(pipeline.folder / "shop.db")) as database:
        return sorted(database.execute("SELECT customer_id, name FROM customers"))


def test_requests_delete_rows_of_derived_stores(pipeline):
    """Pass: of the table, and of it again when the customer is told of once more; others stay; over restarts."""
    schema = "customer_id INT, name STRING, at BIGINT"
    files = {"format": "jsonlines", "schema": schema}
    pipeline.document(
        sources={
            "told": {"use": "files", "with": {**files, "path": "./in"}},
            "requests": {"use": "files", "with": {**files, "path": "./asked"}},
        },
        operators={
            "customers": {"use": "changelog", "from": "told", "with": {"key": ["customer_id"], "sequence": "at"}},
            "gone": {"use": "changelog", "from": "requests", "with": {"key": ["customer_id"], "sequence": "at"}},
            "known": {
                "use": "table_table_join", "from": {"left": "customers", "right": "gone"},
                "with": {"on": ["customer_id"], "join": "left", "take": {"asked": "at"}},
            },
            "kept": {"use": "select", "from": "known", "with": {"where": "asked IS NULL"}},
        },
        sinks={
            "shop": {
                "use": "sql", "from": "kept",
                "with": {"url": "sqlite:///shop.db", "table": "customers"}, "deliver": "idempotent",
            }
        },
    )  # fmt: skip
    asked = pipeline.folder / "asked"
    asked.mkdir()
    (asked / "0.jsonl").write_text(json.dumps({"customer_id": 9, "at": 1}) + "\n")
    pipeline.feed("1.jsonl", [{"customer_id": n, "name": f"n{n}", "at": 1} for n in range(1, 4)])
    pipeline.run()
    assert held(pipeline) == [(1, "n1"), (2, "n2"), (3, "n3")]
    (asked / "1.jsonl").write_text(json.dumps({"customer_id": 2, "at": 1}) + "\n")
    pipeline.run()
    assert held(pipeline) == [(1, "n1"), (3, "n3")]
    again = [{"customer_id": n, "name": f"m{n}", "at": 2} for n in range(1, 4)]
    pipeline.feed("2.jsonl", [*again, {"customer_id": 9, "name": "n9", "at": 2}])
    pipeline.run()
    assert held(pipeline) == [(1, "m1"), (3, "m3")]
