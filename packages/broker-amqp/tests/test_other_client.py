"""A client that is neither ours nor pika (py-amqp, Celery's) publishes and reads beside us."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import amqp
import pytest


@pytest.fixture
def other(rabbitmq):
    with amqp.Connection(f"127.0.0.1:{rabbitmq.port}", "guest", "guest") as connection:
        yield connection.channel()


@pytest.mark.in_turn
def test_what_another_client_publishes_arrives_with_all_it_carries(broker, other, pipeline):
    """Pass: body, key, time, properties and headers of its own types come out of the source."""
    queue = broker.queue()
    sent = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
    headers = {
        "lang": "py", "retries": 3, "big": 2**40, "exact": Decimal("1.50"), "on": True,
        "eta": sent, "nothing": None, "args": [1, "two"], "nested": {"a": {"b": 1}}, "umlaut": "ä",
    }  # fmt: skip
    message = amqp.Message(
        b"\x00\xffbytes", content_type="application/x-stuff", content_encoding="binary",
        application_headers=headers, delivery_mode=2, priority=4, correlation_id="c-1",
        reply_to="answers", expiration="60000", message_id="m-1", timestamp=int(sent.timestamp()), type="task",
        user_id="guest", app_id="worker",
    )  # fmt: skip
    other.basic_publish(message, "", queue)
    other.basic_publish(amqp.Message(""), "", queue)
    source = {"url": broker.server.url, "queue": queue}
    pipeline.document(
        sources={"orders": {"use": "amqp", "with": source}},
        sinks={
            "out": {
                "use": "files",
                "from": "orders",
                "with": {"path": "./out", "format": "parquet"},
            }
        },
    )
    pipeline.run()
    empty, full = sorted(pipeline.rows("out"), key=lambda row: len(row["value"]))
    assert full["value"] == b"\x00\xffbytes"
    assert full["key"] == queue.encode()
    assert str(full["timestamp"]).startswith("2026-01-31 23:59:59")
    found = dict(full["headers"])
    assert json.loads(found.pop("args")) == [1, "two"]
    assert json.loads(found.pop("nested")) == {"a": {"b": 1}}
    assert found == {
        "amqp.content_type": b"application/x-stuff",
        "amqp.content_encoding": b"binary",
        "amqp.delivery_mode": b"2",
        "amqp.priority": b"4",
        "amqp.correlation_id": b"c-1",
        "amqp.reply_to": b"answers",
        "amqp.expiration": b"60000",
        "amqp.message_id": b"m-1",
        "amqp.type": b"task",
        "amqp.user_id": b"guest",
        "amqp.app_id": b"worker",
        "lang": b"py",
        "retries": b"3",
        "big": str(2**40).encode(),
        "exact": b"1.50",
        "on": b"true",
        "eta": b"2026-01-31T23:59:59Z",
        "nothing": b"",
        "umlaut": "ä".encode(),
    }
    assert empty["value"] == b""
    assert broker.count(queue) == 0


@pytest.mark.in_turn
def test_another_client_reads_what_the_sink_publishes(broker, other, pipeline):
    """Pass: it finds bodies, routing key, durable delivery, ids and headers as we wrote them."""
    queue = broker.queue()
    pipeline.document(
        operators={
            "keyed": {
                "use": "sql",
                "from": "lines",
                "with": {
                    "query": f"SELECT CAST('{queue}' AS BINARY) AS key, value, map('amqp.type', "
                    "CAST('order' AS BINARY), 'shop', CAST('nörd' AS BINARY)) AS headers, position FROM input",
                    "schema": "key BINARY, value BINARY, headers MAP<STRING, BINARY>, position STRING",
                    "identity": ["position"],
                },
            }
        },
        sinks={"out": {"use": "amqp", "from": "keyed", "with": {"url": broker.server.url}}},
    )
    pipeline.feed("1", ["one", "two"])
    pipeline.run()
    found = {}
    while (message := other.basic_get(queue, no_ack=True)) is not None:
        found[bytes(message.body, "utf-8") if isinstance(message.body, str) else message.body] = (
            message
        )
    assert sorted(found) == [b"one", b"two"]
    ids = {message.properties["message_id"] for message in found.values()}
    assert len(ids) == 2
    for message in found.values():
        assert len(bytes.fromhex(message.properties["message_id"])) == 16
        assert message.properties["delivery_mode"] == 2
        assert message.properties["type"] == "order"
        assert message.properties["application_headers"] == {"shop": "nörd"}
        assert message.delivery_info["routing_key"] == queue
