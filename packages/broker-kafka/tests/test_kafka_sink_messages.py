"""What the sink `kafka` makes of rows, by both strategies: topics, partitions, headers, refusals."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from ksink_reading import make_topic, read_topic
from ksink_writing import Place, identity, numbered, told, values_of
from mainstem import Events, OptionError
from mainstem.columns import read_columns
from pyspark.sql import functions as F  # noqa: N812

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(params=["microbatch", "transactional"])
def write(request):
    """Writes one batch by each strategy: `write(place, rows, **options)`."""

    def write(place, rows, **options):
        sink = place.sink(**options)
        put = sink.write if request.param == "microbatch" else sink.write_once
        return told(put(place.frame(rows), place.batch()))

    write.timed = request.param == "transactional"
    return write


@pytest.fixture
def place(kafka, spark):
    return Place(kafka, spark)


@pytest.mark.in_turn
def test_messages_come_as_they_were(place, write):
    """Pass: keys and values that are null, empty or any bytes, headers, and the identity in hex; only a
    transactional batch keeps the timestamp, Spark's writer has none."""
    rows = [
        {"key": b"a", "value": b"\x00\xff,\n"},
        {"key": b"deleted", "value": None},
        {"key": b"", "value": b""},
        {"key": None, "value": b"no key"},
        {"key": b"h", "value": b"h", "headers": {"one": b"1", "empty": b"", "null": None}},
        {"key": b"again", "value": b"i", "headers": {"mainstem-id": b"of the source", "x": b"y"}},
        {"key": b"t", "value": b"t", "timestamp": NOW - timedelta(days=1)},
    ]
    assert write(place, rows) == {}
    found = {message.value: message for message in place.read()}
    assert {(m.key, m.value) for m in found.values()} == {(r["key"], r["value"]) for r in rows}
    assert len(place.read()) == len(rows)
    for row in rows:
        assert found[row["value"]].mark == identity(row).hex().encode()
    assert found[b"h"].own_headers == {"one": b"1", "empty": b"", "null": None}
    assert found[b"i"].own_headers == {"x": b"y"}
    age = time.time() - found[b"t"].timestamp / 1000
    assert (age > 80_000) == write.timed


@pytest.mark.in_turn
def test_keys_go_where_java_sends_them(place, write, kafka):
    """Pass: 60 keys, also such as are not ASCII, are in the partitions that Kafka's console producer
    chooses."""
    keys = [f"key {n} Łódź"[: 3 + n % 9] + str(n) for n in range(60)]
    by_java = make_topic(kafka, f"{place.name}-java", 3)
    kafka.tool(
        "kafka-console-producer", "--topic", by_java, "--property", "parse.key=true",
        "--property", "key.separator=|", stdin="".join(f"{key}|x\n" for key in keys),
    )  # fmt: skip
    write(place, [{"key": key.encode(), "value": b"x"} for key in keys])
    java = {message.key: message.partition for message in read_topic(kafka, by_java)}
    assert len(set(java.values())) == 3
    assert {message.key: message.partition for message in place.read()} == java


@pytest.mark.in_turn
def test_rows_name_topics_and_partitions(place, write, kafka, spark):
    """Pass: rows go to the topic of their column, else to the one that is given; one that is not listed,
    and a partition that is not there, are refused with the reason."""
    other = make_topic(kafka, f"{place.name}-other", 2)
    rows = [
        {"value": b"0", "origin": other},
        {"value": b"1", "origin": None},
        {"value": b"2", "origin": "nowhere"},
    ]
    refused = write(place, rows, topic_from="origin", topics=[other])
    assert refused == {b"2": "there is no topic nowhere that messages may go to"}
    assert [m.value for m in read_topic(kafka, other)] == [b"0"]
    assert place.values() == [b"1"]


@pytest.mark.in_turn
def test_rows_name_partitions(place, spark):
    """Pass: by both strategies a row goes into the partition of its column; one that the topic does not
    have is refused, null goes by the key."""
    frame = place.frame(numbered(*range(5))).selectExpr(
        "*", "CAST(substr(string(value), 2) AS INT) - 1 AS n"
    )
    for way in ("write", "write_once"):
        put = getattr(place.sink(partition_from="n"), way)
        refused = told(put(frame, place.batch()))
        assert refused == {
            b"v0": "the topic has 3 partitions, and none is -1",
            b"v4": "the topic has 3 partitions, and none is 3",
        }
    found = sorted((m.value, m.partition) for m in place.read())
    assert found == sorted([(b"v1", 0), (b"v2", 1), (b"v3", 2)] * 2)


@pytest.mark.in_turn
def test_what_the_broker_would_refuse_is_refused_before(kafka, spark, write):
    """Pass: too large, and without a key on a compacted topic: refused with reasons; the rest is written.
    A message of the largest size that is let pass is taken by the broker."""
    place = Place(kafka, spark, max_message_bytes=10_000, cleanup_policy="compact")
    sizes = range(9_700, 10_001, 10)
    rows = [{"key": b"%d" % size, "value": b"x" * size} for size in sizes]
    rows.append({"value": b"no key"})
    refused = write(place, rows)
    assert refused.pop(b"no key") == "the topic is compacted, and takes no message without a key"
    assert all("max.message.bytes is 10000" in reason for reason in refused.values())
    written = {len(message.value) for message in place.read()}
    assert written == {size for size in sizes if b"x" * size not in refused}
    assert 9_800 < max(written) < 10_000


@pytest.mark.in_turn
def test_a_message_larger_than_the_clients_memory_is_written(kafka, spark):
    """Pass: a message of 34 MiB, which the topic takes and Java's client has no room for unless told, is there by
    `microbatch`; with a `buffer.memory` of the user's own, that is what counts."""
    size = 34 * 2**20
    place = Place(kafka, spark, max_message_bytes=40 * 2**20)
    frame = place.frame(numbered(1)).withColumn("value", F.repeat(F.lit("x"), size).cast("binary"))
    assert place.sink().write(frame, place.batch()) is None
    assert [len(message.value) for message in place.read()] == [size]
    with pytest.raises(Exception, match="larger than the total memory buffer"):
        place.sink(kafka={"buffer.memory": 33554432}).write(frame, place.batch())


@pytest.mark.in_turn
def test_timestamps_that_the_broker_refuses_are_refused_before(kafka, spark):
    """Pass: a day ahead is more than an hour, which Kafka allows; before 1970 can't be written; the rest
    of the batch is there."""
    place = Place(kafka, spark)
    rows = [
        {"value": b"ahead", "timestamp": NOW + timedelta(days=1)},
        {"value": b"before", "timestamp": datetime(1969, 12, 31, tzinfo=UTC)},
        {"value": b"good", "timestamp": NOW},
    ]
    refused = place.write(rows)
    assert refused.keys() == {b"ahead", b"before"}
    assert "message.timestamp.after.max.ms is 3600000" in refused[b"ahead"]
    assert "before 1970" in refused[b"before"]
    assert place.values() == [b"good"]


@pytest.mark.in_turn
def test_topics_are_made_as_told(kafka, spark):
    """Pass: partitions, policy and settings by Kafka's own tool; a second start finds nothing amiss, and
    another number, policy or setting is an error that names both."""
    place = Place(kafka, spark, partitions=0)
    create = {"partitions": 5, "cleanup_policy": "compact", "config": {"segment.ms": 60000}}
    columns = read_columns("value BINARY, key BINARY")
    for _ in range(2):
        place.sink(create=create).prepare(columns, None)
    told_of = kafka.tool("kafka-topics", "--describe", "--topic", place.name)
    assert "PartitionCount: 5" in told_of
    assert "cleanup.policy=compact" in told_of
    assert "segment.ms=60000" in told_of
    for change, words in (
        ({"partitions": 4}, "with 5 partitions, not 4"),
        ({"cleanup_policy": "delete"}, "with cleanup.policy=compact, not delete"),
        ({"config": {"segment.ms": 1}}, "with segment.ms=60000, not 1"),
    ):
        with pytest.raises(OptionError, match=words):
            place.sink(create=create | change).prepare(columns, None)


@pytest.mark.in_turn
def test_a_topic_that_is_missing_is_told(kafka, spark):
    """Pass: without `create` an error of the option, and no topic is made by asking."""
    place = Place(kafka, spark, partitions=0)
    with pytest.raises(OptionError, match="there is no topic") as refusal:
        place.sink().prepare(read_columns("value BINARY"), None)
    assert refusal.value.option == "topic"
    assert place.name not in kafka.tool("kafka-topics", "--list").split()


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("value BINARY, key INT", {}, "column key is int, and must be binary or string"),
        ("value BINARY, headers STRING", {}, "column headers is string"),
        ("value BINARY", {"topic_from": "orign"}, "there is no column 'orign'"),
        ("value BINARY, n STRING", {"partition_from": "n"}, "column n is string"),
    ],
)
def test_columns_that_can_not_be_are_refused(columns, options, words):
    """Pass: before the first batch, with the column's name."""
    from mainstem_broker_kafka.sink.options import KafkaSinkOptions
    from mainstem_broker_kafka.sink.sink import KafkaSink

    sink = KafkaSink(KafkaSinkOptions.model_validate({"servers": "h:1", "topic": "t", **options}))
    with pytest.raises(OptionError, match=words):
        sink.check_types(read_columns(columns), Events(columns))


@pytest.mark.in_turn
def test_a_batch_written_again_by_microbatch_has_the_same_identities(place):
    """Pass: each message is there twice, with one identity."""
    for _ in range(2):
        place.sink().write(place.frame(numbered(1, 2)), place.batch())
    assert place.values() == values_of(1, 1, 2, 2)
    assert len({message.mark for message in place.read()}) == 2
