"""A document: a database's table and its copy in another table, over runs and failures."""

from __future__ import annotations

import sqlite3

import pytest
from mainstem import PipelineError, crashpoints
from mainstem.contracts.guarantee import Level
from mainstem_testkit.conformance.reading import Reading


@pytest.mark.in_turn
def test_a_copy_is_the_table(place, pipeline, tmp_path):
    """Pass: rows, changes and deletes of three runs, one of which dies with a batch written and not noted, make the copy;
    the plan says exactly-once; what is refused is told."""
    place.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(50), total DECIMAL(10, 3))")
    place.connection.cursor().executemany(
        "INSERT INTO orders VALUES (%s, %s, %s)", [(n, f"n{n}", n / 10) for n in range(1, 51)]
    )
    schema = "id BIGINT, name STRING, total DECIMAL(10, 2)"
    given = place.options(tables={"orders": {"key": ["id"], "schema": schema}}, chunk_rows=20)
    copy = tmp_path / "copy.db"
    pipeline.document(
        sources={"shop": {"use": "mysql", "with": given}},
        sinks={
            "copy": {
                "use": "sql",
                "from": "shop.orders",
                "deliver": "idempotent",
                "with": {"url": f"sqlite:///{copy}", "table": "copy"},
            },
            "bad": pipeline.sink("bad", "shop.rejected"),
        },
    )
    assert pipeline.plan().nodes["copy"].promise.level is Level.EXACTLY_ONCE

    def same():
        there = place.sql("SELECT id, name, total FROM orders WHERE id < 1000 ORDER BY id")
        with sqlite3.connect(copy) as connection:
            found = connection.execute("SELECT id, name, total FROM copy ORDER BY id").fetchall()
        return [(i, n, float(t)) for i, n, t in found] == [(i, n, float(t)) for i, n, t in there]

    pipeline.run()
    assert same()
    place.sql("UPDATE orders SET name = UPPER(name) WHERE id % 3 = 0")
    place.sql("UPDATE orders SET id = id + 100 WHERE id > 40")
    place.sql("DELETE FROM orders WHERE id < 10")
    place.sql("INSERT INTO orders VALUES (1000, 'too fine', 1.005)")
    with crashpoints.armed("sql.after-commit:1:raise"), pytest.raises(PipelineError):
        pipeline.run()
    place.sql("INSERT INTO orders VALUES (5, 'again', 5)")
    pipeline.run()
    assert same()
    (bad,) = pipeline.rows("bad")
    assert bad["reason"]


@pytest.mark.in_turn
def test_transactions_come_whole(mysql_place, pipeline, tmp_path):
    """Pass: transactions over both tables, of more rows than a batch may have: each batch of the source has whole ones alone,
    though they are taken and stored in parts; without `together` some are not whole."""
    place = mysql_place
    for table in ("a", "b"):
        place.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)")
    table = {"key": ["id"], "schema": "id INT, n INT"}
    given = place.options(tables={"a": table, "b": table}, max_rows=1000)

    def write(first):
        for n in (first, first + 1):
            with place.transaction(), place.connection.cursor() as cursor:
                rows = [(n * 12_000 + each, n) for each in range(12_000)]
                cursor.executemany("INSERT INTO a VALUES (%s, %s)", rows)
                place.sql("INSERT INTO b VALUES (%s, %s)", n, n)

    for first, together in ((0, {"together": "transaction"}), (5, {})):
        pipeline.document(
            sources={"subject": {"use": "mysql", "with": {**given, **together}}},
            sinks={"out": pipeline.sink("out", ["subject.a", "subject.b"])},
        )
        reading = Reading(pipeline.plan(), tmp_path / f"checkpoint-{first}")
        reading.to_end()
        write(first)
        reading.batches.clear()
        reading.to_end()
        sizes = [len(rows) for rows in reading.batches.values() if rows]
        assert sum(sizes) == 24_002
        assert all(size % 12_001 == 0 for size in sizes) == bool(together), sizes
