"""The sink `amqp` in a document and by itself."""

from __future__ import annotations

import uuid

import pytest
from mainstem import Batch, DocumentError, Events, OptionError, PipelineError, messages
from mainstem.columns import read_columns
from mainstem.contracts.guarantee import Level
from mainstem_broker_amqp.sink.sink import AMQPSink
from pydantic import ValidationError

DDL = (
    "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
    "partition STRING, position STRING, _id BINARY"
)
NAMES = [column.name for column in read_columns(DDL)]


def sink_of(broker, **options):
    model = AMQPSink.options_model()
    return AMQPSink(
        model.model_validate({"url": broker.server.url, "give_up": "20 seconds", **options})
    )


def frame_of(spark, rows, parts=1):
    values = [tuple(row.get(name) for name in NAMES) for row in rows]
    return spark.createDataFrame(spark.sparkContext.parallelize(values, parts), DDL)


def write(sink, spark, rows, parts=1):
    batch = Batch(0, "test", "query", "5f0c7a52", "out", spark, messages(), 1)
    return sink.write(frame_of(spark, rows, parts), batch)


@pytest.mark.in_turn
def test_a_message_is_what_the_row_says(broker, spark):
    """Pass: routing key, body, headers, properties, time and id of a row, and nothing else."""
    from datetime import UTC, datetime

    queue = broker.queue()
    at = datetime(2026, 1, 31, 23, 59, 59, 999999, UTC)
    headers = {"tenant": b"a", "raw": b"\xff", "amqp.type": b"order", "amqp.exchange": b"elsewhere"}
    full = {"key": queue.encode(), "value": b"full", "headers": headers, "timestamp": at}
    rows = [{**full, "_id": b"\x01\xff"}, {"key": queue.encode()}]
    assert write(sink_of(broker), spark, rows) is None
    (_, first, body), (_, second, empty) = broker.read(queue)
    assert body == b"full"
    assert first.headers == {"tenant": "a", "raw": b"\xff"}
    assert (first.type, first.message_id, first.delivery_mode) == ("order", "01ff", 2)
    assert first.timestamp == int(at.timestamp())
    assert (empty, second.headers, second.message_id, second.timestamp) == (b"", None, None, None)


@pytest.mark.in_turn
def test_rows_that_make_no_message_are_refused_with_the_others_written(broker, spark):
    """Pass: a row without a routing key, with a wrong header, unroutable, or closing the channel: four
    reasons with payload and id; reading them twice publishes nothing more."""
    queue = broker.queue()
    rows = [{"key": queue.encode(), "value": b"good %d" % n, "_id": bytes([n])} for n in range(20)]
    rows[3]["key"] = None
    rows[5]["headers"] = {"amqp.priority": b"high"}
    rows[7]["key"] = b"nobody-has-this"
    rows[9]["headers"] = {"amqp.user_id": b"eve"}
    refused = write(sink_of(broker), spark, rows, parts=2)
    found = {row["_id"][0]: row for row in refused.collect()}
    assert refused.columns == ["reason", "payload", "_id"]
    refused.collect()
    assert {number: bytes(row["payload"]) for number, row in found.items()} == {
        number: b"good %d" % number for number in (3, 5, 7, 9)
    }
    assert "no routing key: column 'key' is null" in found[3]["reason"]
    assert "amqp.priority is no number" in found[5]["reason"]
    assert found[7]["reason"] == "312 NO_ROUTE: exchange '' routing key 'nobody-has-this'"
    assert "user_id property set to 'eve'" in found[9]["reason"]
    assert set(broker.bodies(queue)) == {b"good %d" % n for n in range(20) if n not in found}


def test_a_constant_key_and_a_declared_exchange(broker, spark):
    """Pass: the exchange is made, durable, and a queue bound to it gets the messages."""
    queue, name = broker.queue(), f"x-{uuid.uuid4()}"
    sink = sink_of(broker, exchange=name, declare={"type": "topic"}, routing_key="a.b")
    write(sink, spark, [])
    with broker.channel() as channel:
        channel.exchange_declare(name, "topic", durable=True)  # closes the channel if it differs
        channel.queue_bind(queue, name, "a.*")
    assert write(sink, spark, [{"value": b"1"}, {"value": b"2", "key": b"k"}]) is None
    assert [(m.routing_key, body) for m, _, body in broker.read(queue)] == [
        ("a.b", b"1"),
        ("a.b", b"2"),
    ]


def test_an_exchange_that_is_missing_fails_before_anything_is_published(broker, spark):
    """Pass: when the run starts, in plain words."""
    with pytest.raises(PipelineError, match="no exchange 'nowhere'"):
        sink_of(broker, exchange="nowhere").prepare([], messages())


def test_the_password_is_in_no_error(broker, spark, caplog):
    """Pass: neither in what the driver raises nor in what Spark tells of a task."""
    caplog.set_level("DEBUG")
    url = broker.server.url.replace("guest:guest", "guest:SECRET")
    with pytest.raises(PipelineError, match="refuses the user or the password") as error:
        sink_of(broker, url=url).prepare([], messages())
    assert "SECRET" not in str(error.value) + repr(error.value) + caplog.text
    sink = sink_of(broker, url=url)
    with pytest.raises(Exception, match="refuses the user or the password") as error:
        write(sink, spark, [{"key": b"k", "value": b"v"}])
    assert "SECRET" not in str(error.value) + caplog.text


@pytest.mark.in_turn
def test_order_log_brings_each_key_into_the_order_of_its_log(broker, spark):
    """Pass: rows of 3 keys, scattered over 4 partitions in wrong order, arrive in order for each key."""
    queue = broker.queue()
    rows = [
        {
            "key": b"%d" % (n % 3),
            "value": b"%d" % n,
            "origin": "o",
            "partition": "p",
            "position": f"{n:06}",
        }
        for n in range(600)
    ]
    scattered = [row for start in range(7) for row in reversed(rows[start::7])]
    sink = sink_of(broker, order="log", partitions=2, routing_key=queue)
    assert write(sink, spark, scattered, parts=4) is None
    numbers = [int(body) for body in broker.bodies(queue)]
    assert sorted(numbers) == list(range(600))
    for key in range(3):
        mine = [number for number in numbers if number % 3 == key]
        assert mine == sorted(mine)


def test_rows_of_a_partition_are_published_in_their_order(broker, spark):
    """Pass: without `order: log`, one partition's rows arrive as they are; `partitions` merges partitions."""
    queue = broker.queue()
    rows = [{"value": b"%d" % n} for n in range(300)]
    assert write(sink_of(broker, routing_key=queue, partitions=1), spark, rows, parts=3) is None
    assert [int(body) for body in broker.bodies(queue)] == list(range(300))


@pytest.mark.parametrize(
    ("options", "columns", "words"),
    [
        ({}, "value BINARY", "no column 'key'"),
        ({"routing_key_from": "kee"}, "value BINARY, key BINARY", "no column 'kee'"),
        ({"routing_key_from": "n"}, "value BINARY, n INT", "column n is int"),
        ({}, "value BINARY, key INT", "column key is int, and must be binary or string"),
        (
            {"routing_key": "k"},
            "value BINARY, headers MAP<STRING, STRING>",
            "column headers is map<string,string>",
        ),
        ({"routing_key": "k"}, "value BINARY, timestamp STRING", "column timestamp is string"),
        ({"order": "log"}, "value BINARY, key BINARY", "without origin, partition, position"),
    ],
)
def test_columns_that_do_not_fit_are_refused(options, columns, words):
    """Pass: an error before the first batch that names the column."""
    model = AMQPSink.options_model().model_validate({"url": "amqp://host", **options})
    with pytest.raises(OptionError, match=words):
        AMQPSink(model).check_types(read_columns(columns), Events(columns))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"declare": {}}, "declare is there, but no exchange"),
        ({"give_up": "0 seconds"}, "more than 0"),
        ({"in_flight": 0}, "greater than 0"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, words):
    """Pass: an error that says which."""
    with pytest.raises(ValidationError, match=words):
        AMQPSink.options_model().model_validate({"url": "amqp://host", **options})


def keyed(queue):
    """Return an operator that gives lines the queue as their key, but `bad` another."""
    key = f"encode(CASE WHEN value = 'bad' THEN 'nobody-has-this' ELSE '{queue}' END, 'UTF-8')"
    return {"use": "select", "from": "lines", "with": {"columns": {"key": key, "value": "value"}}}


@pytest.mark.in_turn
def test_a_document_with_the_sink(broker, pipeline):
    """Pass: at least once is promised; the lines are in the queue, each with an id."""
    queue = broker.queue()
    out = {"use": "amqp", "from": "keyed", "with": {"url": broker.server.url}}
    pipeline.document(operators={"keyed": keyed(queue)}, sinks={"out": out})
    pipeline.feed("1.jsonl", ["a", "b"])
    assert pipeline.plan().nodes["out"].promise.level is Level.AT_LEAST_ONCE
    pipeline.run()
    found = broker.read(queue)
    assert sorted(body for _, _, body in found) == [b"a", b"b"]
    assert len({properties.message_id for _, properties, _ in found}) == 2


@pytest.mark.in_turn
def test_a_refused_row_that_nobody_reads_fails_the_run(broker, pipeline):
    """Pass: an error with the broker's reason; the good lines are in the queue."""
    queue = broker.queue()
    out = {"use": "amqp", "from": "keyed", "with": {"url": broker.server.url}}
    pipeline.document(operators={"keyed": keyed(queue)}, sinks={"out": out})
    pipeline.feed("1.jsonl", ["a", "bad", "b"])
    with pytest.raises(PipelineError, match=r"out: 1 rows were refused.*312 NO_ROUTE"):
        pipeline.run()
    assert set(broker.bodies(queue)) == {b"a", b"b"}


@pytest.mark.in_turn
def test_a_refused_row_goes_where_the_document_says(broker, pipeline):
    """Pass: the good lines are in the queue, the other in the sink of `out.rejected`."""
    queue = broker.queue()
    out = {"use": "amqp", "from": "keyed", "with": {"url": broker.server.url}}
    refused = pipeline.sink("refused", "out.rejected")
    pipeline.document(operators={"keyed": keyed(queue)}, sinks={"out": out, "refused": refused})
    pipeline.feed("1.jsonl", ["a", "bad", "b"])
    pipeline.run()
    assert sorted(broker.bodies(queue)) == [b"a", b"b"]
    (row,) = pipeline.rows("refused")
    assert "NO_ROUTE" in row["reason"]


def test_a_document_with_a_wrong_url_does_not_show_it(pipeline):
    """Pass: the document is refused, with the key and without the password."""
    sink = {"use": "amqp", "from": "lines", "with": {"url": "http://user:SECRET@host"}}
    pipeline.document(sinks={"out": sink})
    with pytest.raises(DocumentError, match="amqp://") as error:
        pipeline.plan()
    assert "url" in error.value.problems[0].key
    assert "SECRET" not in str(error.value)
