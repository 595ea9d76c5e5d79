"""A document: a database's table and its copy in another table, over runs and failures."""

from __future__ import annotations

import pytest
from mainstem import PipelineError, crashpoints
from mainstem.contracts.guarantee import Level


@pytest.mark.in_turn
def test_an_outbox_becomes_messages(place, pipeline):
    """Pass: events that were written in one transaction with what they are about come as messages, once, over runs of which
    one dies; rows that the application has deleted at once too; a changed row is refused."""
    place.sql(
        "CREATE TABLE outbox (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype TEXT, aggregateid TEXT, "
        "type TEXT, payload JSONB)"
    )
    schema = "id STRING, aggregatetype STRING, aggregateid STRING, type STRING, payload STRING"
    given = place.options(tables={"outbox": {"key": ["id"], "schema": schema}})
    pipeline.document(
        sources={"shop": {"use": "postgresql", "with": given}},
        operators={"events": {"use": "outbox", "from": "shop.outbox"}},
        sinks={
            "out": pipeline.sink("out", "events"),
            "bad": pipeline.sink("bad", "events.rejected"),
        },
    )

    def write(number, *more):
        with place.connection.transaction():
            place.sql(
                "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('orders', %s, 'made', %s)",
                str(number), f'{{"n": {number}}}',
            )  # fmt: skip
            for statement in more:
                place.sql(statement)

    write(1)
    pipeline.run()
    write(2, "DELETE FROM outbox")
    with crashpoints.armed("files.after-write:1:raise"), pytest.raises(PipelineError):
        pipeline.run()
    write(3)
    place.sql("UPDATE outbox SET type = 'changed'")
    pipeline.run()
    rows = sorted(pipeline.rows("out"), key=lambda row: row["key"])
    assert [row["origin"] for row in rows] == ["outbox.event.orders"] * 3
    assert len(pipeline.rows("bad")) == 1


@pytest.mark.in_turn
def test_a_copy_is_the_table(place, pipeline):
    """Pass: rows, changes and deletes of three runs, one of which dies with a batch written and not noted, make the copy;
    the plan says exactly-once; what is refused is told."""
    place.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, total NUMERIC)")
    place.sql("INSERT INTO orders SELECT g, 'n' || g, g / 10.0 FROM generate_series(1, 50) g")
    schema = "id BIGINT, name STRING, total DECIMAL(10, 2)"
    given = place.options(tables={"orders": {"key": ["id"], "schema": schema}}, chunk_rows=20)
    pipeline.document(
        sources={"shop": {"use": "postgresql", "with": given}},
        sinks={
            "copy": {
                "use": "sql",
                "from": "shop.orders",
                "deliver": "idempotent",
                "with": {"url": place.server.url, "namespace": place.name, "table": "copy"},
            },
            "bad": pipeline.sink("bad", "shop.rejected"),
        },
    )
    assert pipeline.plan().nodes["copy"].promise.level is Level.EXACTLY_ONCE

    def same():
        there = place.sql("SELECT id, name, total FROM orders WHERE id < 1000 ORDER BY id")
        return place.sql("SELECT id, name, total FROM copy ORDER BY id") == there

    pipeline.run()
    assert same()
    place.sql("UPDATE orders SET name = upper(name) WHERE id % 3 = 0")
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
