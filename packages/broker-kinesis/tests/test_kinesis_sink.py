"""The sink `kinesis` in a document and by itself, on an emulator."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest
from kinesis_proxy import KinesisProxy
from ksisink_reading import KEYS, found, read_by_aws
from mainstem import Batch, DocumentError, Events, OptionError, PipelineError, messages
from mainstem.columns import read_columns
from mainstem.contracts.guarantee import Level
from mainstem.sinks import Refused
from mainstem_broker_kinesis.aggregation import is_aggregated
from mainstem_broker_kinesis.sink.options import KinesisSinkOptions
from mainstem_broker_kinesis.sink.records import messages as messages_of
from mainstem_broker_kinesis.sink.sink import KinesisSink
from pydantic import ValidationError

DDL = (
    "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
    "partition STRING, position STRING, hashed STRING, _id BINARY"
)
NAMES = [column.name for column in read_columns(DDL)]


def stream_of(server: Any, shards: int = 2) -> str:
    return str(server.create(f"sink-{uuid.uuid4().hex[:10]}", shards))


def options_of(server: Any, stream: str, **options: Any) -> KinesisSinkOptions:
    given = {"stream": stream, "endpoint": server.url, "attempts": 1, "give_up": "20 seconds"}
    return KinesisSinkOptions.model_validate({**given, **KEYS, **options})


def write(sink: KinesisSink, spark: Any, rows: list[dict[str, Any]], parts: int = 1) -> Any:
    values = [tuple(row.get(name) for name in NAMES) for row in rows]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(values, parts), DDL)
    batch = Batch(0, "test", "query", "5f0c7a52", "out", spark, messages(), 1)
    return sink.write(frame, batch)


@pytest.mark.in_turn
def test_a_packed_record_is_what_the_rows_say(kinesalite, spark):
    """Pass: a reader finds key, value, headers and id of each row, and AWS's own library the same keys and values;
    the three messages of a key are one record."""
    stream = stream_of(kinesalite)
    headers = {"tenant": b"a", "raw": b"\xff", "none": None}
    rows = [
        {"key": b"k", "value": b"full", "headers": headers, "_id": b"\x01\xff"},
        {"key": b"k"},
        {"key": "Zoë".encode(), "value": b"other", "_id": b"\x02"},
        {"key": b"k", "value": b"hashed", "hashed": str(2**128 - 1)},
        {"key": b"k", "value": b"last", "_id": b"\x03"},
    ]
    sink = KinesisSink(options_of(kinesalite, stream, hash_key_from="hashed"))
    assert write(sink, spark, rows) is None
    there = {m.value: m for m in found(kinesalite, stream)}
    assert there[b"full"][1:] == ("k", b"full", b"\x01\xff", headers)
    assert there[b""][1:] == ("k", b"", None, {})
    assert there[b"other"].key == "Zoë"
    assert there[b"hashed"].shard == kinesalite.shards(stream)[-1]["ShardId"]
    assert sorted((m["key"], m["value"]) for m in read_by_aws(kinesalite, stream)) == sorted(
        (m.key, m.value) for m in there.values()
    )
    assert sum(map(len, kinesalite.records(stream).values())) == 3


@pytest.mark.in_turn
def test_a_raw_record_is_the_value_and_nothing_else(kinesalite, spark):
    """Pass: one record for each row, which holds its value under its partition key."""
    stream = stream_of(kinesalite)
    rows = [{"key": b"k", "value": b"%d" % n, "headers": {"h": b"left out"}} for n in range(3)]
    assert write(KinesisSink(options_of(kinesalite, stream, format="raw")), spark, rows) is None
    records = [r for rs in kinesalite.records(stream).values() for r in rs]
    assert [(r["PartitionKey"], r["Data"]) for r in records] == [
        ("k", b"0"),
        ("k", b"1"),
        ("k", b"2"),
    ]


@pytest.mark.in_turn
def test_rows_that_make_no_record_are_refused_with_the_others_written(kinesalite, spark):
    """Pass: keys that are none and values that are too large come back with reason, payload and id; reading them twice
    puts nothing more."""
    stream = stream_of(kinesalite)
    rows = [
        {"key": b"k%d" % (n % 3), "value": b"good %d" % n, "_id": bytes([n])} for n in range(20)
    ]
    rows[3]["key"] = b"\xff"
    rows[5]["key"] = b""
    rows[7]["key"] = b"k" * 257
    rows[9]["hashed"] = "minus one"
    rows[11]["hashed"] = str(2**128)
    rows[13]["value"] = b"x" * 3000
    sink = KinesisSink(options_of(kinesalite, stream, hash_key_from="hashed", max_record="2 KiB"))
    refused = write(sink, spark, rows, parts=2)
    reasons = {row["_id"][0]: row["reason"] for row in refused.collect()}
    assert refused.columns == ["reason", "payload", "_id"]
    refused.collect()
    assert {bytes(row["payload"]) for row in refused.collect()} == {
        rows[n]["value"] for n in (3, 5, 7, 9, 11, 13)
    }
    for number, words in {
        3: "not UTF-8",
        5: "empty",
        7: "257 characters; Kinesis takes 256",
        9: "'minus one'",
        11: "2^128-1",
        13: "the stream takes 2,048",
    }.items():
        assert words in reasons[number]
    assert {m.value for m in found(kinesalite, stream)} == {
        b"good %d" % n for n in range(20) if n not in reasons
    }
    assert len(found(kinesalite, stream)) == 14


@pytest.mark.parametrize(
    ("key", "options", "said"),
    [
        (b"\xff\x00", {"key_encoding": "hex"}, "ff00"),
        ("x" * 256, {}, "x" * 256),
        ("\U0001f680" * 128, {}, "\U0001f680" * 128),
        ("\U0001f680" * 129, {}, None),
        (b"k" * 129, {"key_encoding": "hex"}, None),
        (None, {}, ""),
    ],
)
def test_a_partition_key_is_text_of_at_most_256_characters(key, options, said):
    """Pass: counted as Java counts them, in text or bytes; what is longer is refused."""
    given = KinesisSinkOptions.model_validate({"stream": "s", **options})
    kind = pa.string() if isinstance(key, str) else pa.binary()
    batch = pa.record_batch({"key": pa.array([key], kind), "value": pa.array([b"v"])})
    refused = Refused()
    made = [m.key or "" for m in messages_of(batch, given, refused)]
    assert made == ([] if said is None else [said])
    assert len(list(refused.take())) == (said is None)


@pytest.mark.in_turn
def test_order_log_brings_each_key_into_the_order_of_its_log(kinesalite, spark):
    """Pass: rows of 3 keys, scattered over 4 partitions in wrong order, arrive in order for each key."""
    stream = stream_of(kinesalite)
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
    sink = KinesisSink(options_of(kinesalite, stream, order="log", partitions=2))
    assert write(sink, spark, scattered, parts=4) is None
    numbers = [int(m.value) for m in found(kinesalite, stream)]
    assert sorted(numbers) == list(range(600))
    for key in range(3):
        mine = [number for number in numbers if number % 3 == key]
        assert mine == sorted(mine)


# -- what is wrong ----------------------------------------------------------------------------


@pytest.mark.in_turn
def test_a_stream_that_is_missing_ends_a_run_before_its_first_batch(kinesalite, pipeline):
    """Pass: an error that names the stream and where it was looked for; nothing is committed."""
    options = {"stream": "nowhere", "endpoint": kinesalite.url, **KEYS}
    pipeline.document(sinks={"out": {"use": "kinesis", "from": "lines", "with": options}})
    pipeline.feed("1", ["a"])
    with pytest.raises(PipelineError, match="stream nowhere at http.*not there"):
        pipeline.run()
    assert not list(pipeline.folder.glob("checkpoints/**/commits/0"))


@pytest.mark.in_turn
def test_a_stream_that_goes_while_a_pipeline_runs_ends_it(kinesalite, spark):
    """Pass: the batch fails at once, in words that name the stream."""
    stream = stream_of(kinesalite)
    sink = KinesisSink(options_of(kinesalite, stream))
    assert write(sink, spark, [{"key": b"k", "value": b"v"}]) is None
    kinesalite.call("DeleteStream", StreamName=stream)
    with pytest.raises(Exception, match=f"can't put records into stream {stream}"):
        write(sink, spark, [{"key": b"k", "value": b"v"}])


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("UnrecognizedClientException", "AWS does not know the access key"),
        ("InvalidSignatureException", "AWS refuses the secret key"),
        ("ExpiredTokenException", "the credentials have run out"),
    ],
)
def test_credentials_that_aws_refuses_are_told_without_them(kinesalite, spark, caplog, code, says):
    """Pass: an error of the sink's node, from the driver; no secret is in it, nor in the log."""
    caplog.set_level("DEBUG", logger="mainstem")
    stream = stream_of(kinesalite)
    with KinesisProxy(kinesalite.port) as proxy:
        proxy.fail("*", code, times=10**9, message="for s3cr3t-key and t0ken")
        given = {"access_key": "AKIDEXAMPLE", "secret_key": "s3cr3t-key", "session_token": "t0ken"}
        sink = KinesisSink(options_of(proxy, stream, **given))
        with pytest.raises(PipelineError, match=says) as caught:
            write(sink, spark, [{"key": b"k", "value": b"v"}])
    told = str(caught.value) + repr(caught.value) + repr(sink.options) + caplog.text
    assert caught.value.node == "out"
    assert "s3cr3t-key" not in told
    assert "t0ken" not in told


def test_who_may_not_look_at_the_stream_may_still_write(kinesalite, spark):
    """Pass: the credentials are refused DescribeStreamSummary, and the rows are there."""
    stream = stream_of(kinesalite)
    with KinesisProxy(kinesalite.port) as proxy:
        proxy.fail("DescribeStreamSummary", "AccessDeniedException", times=10**9)
        sink = KinesisSink(options_of(proxy, stream))
        assert write(sink, spark, [{"key": b"k", "value": b"v"}]) is None
    assert [m.value for m in found(kinesalite, stream)] == [b"v"]


@pytest.mark.in_turn
def test_the_stream_says_how_large_a_record_may_be(kinesalite, spark):
    """Pass: what the stream says holds, and the option comes before it."""
    stream = stream_of(kinesalite)

    def small(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        answer["StreamDescriptionSummary"]["MaxRecordSizeInKiB"] = 2
        return answer

    row = {"key": b"k", "value": b"x" * 5000}
    with KinesisProxy(kinesalite.port) as proxy:
        proxy.rewrite("DescribeStreamSummary", small)
        refused = write(KinesisSink(options_of(proxy, stream)), spark, [row])
        assert "the stream takes 2,048" in refused.collect()[0]["reason"]
        assert (
            write(KinesisSink(options_of(proxy, stream, max_record="1 MiB")), spark, [row]) is None
        )


@pytest.mark.parametrize(
    ("options", "columns", "words"),
    [
        ({"partition_key_from": "kee"}, "value BINARY, key BINARY", "no column 'kee'"),
        ({"partition_key_from": "n"}, "value BINARY, n INT", "column n is int"),
        ({"hash_key_from": "h"}, "value BINARY, key BINARY", "no column 'h'"),
        ({"hash_key_from": "h"}, "value BINARY, h DOUBLE", "column h is double"),
        ({}, "value BINARY, key BINARY, headers MAP<STRING, STRING>", "column headers is map"),
        ({"order": "log"}, "value BINARY, key BINARY", "without origin, partition, position"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_the_first_batch(options, columns, words):
    """Pass: an OptionError that names the column."""
    given = KinesisSinkOptions.model_validate({"stream": "s", **options})
    with pytest.raises(OptionError, match=words):
        KinesisSink(given).check_types(read_columns(columns), Events(columns))


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, "value BINARY"),
        ({"hash_key_from": "H"}, "value BINARY, key STRING, h BIGINT"),
        ({"format": "raw"}, "value BINARY, headers MAP<STRING, STRING>"),
        (
            {"order": "log"},
            "value BINARY, key BINARY, origin STRING, partition STRING, position STRING",
        ),
    ],
)
def test_columns_that_fit_are_taken(options, columns):
    """Pass: no error."""
    given = KinesisSinkOptions.model_validate({"stream": "s", **options})
    assert KinesisSink(given).check_types(read_columns(columns), Events(columns)) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"give_up": "0 seconds"}, "more than 0"),
        ({"max_record": "20 MiB"}, "10485760"),
        ({"format": "json"}, "'kpl' or 'raw'"),
        ({"requests": 65}, "64"),
    ],
)
def test_options_that_can_not_be_are_refused(options, words):
    """Pass: an error that says what would be right."""
    with pytest.raises(ValidationError, match=words):
        KinesisSinkOptions.model_validate({"stream": "s", **options})


def test_wrong_options_are_told_with_their_lines(pipeline):
    """Pass: all at once, each with its line and key."""
    pipeline.document(sinks={"out": {"use": "kinesis", "from": "lines", "with": {}}})
    wrong = "with:\n      stream: s p a c e\n      formt: raw\n      requests: 0"
    pipeline.file.write_text(pipeline.file.read_text().replace("with: {}", wrong))
    lines = pipeline.file.read_text().splitlines()
    with pytest.raises(DocumentError) as caught:
        pipeline.plan()
    problems = {problem.key.rpartition(".")[2]: problem for problem in caught.value.problems}
    assert problems.keys() == {"stream", "formt", "requests"}
    for key, problem in problems.items():
        assert lines[problem.line - 1].strip().startswith(f"{key}:")
    assert "format" in str(problems["formt"])


def keyed(bad: str = "") -> dict[str, Any]:
    """Return an operator that gives lines a key: one that is none to the lines named."""
    key = f"CASE WHEN value = '{bad}' THEN unhex('ff') ELSE encode('k', 'UTF-8') END"
    return {"use": "select", "from": "lines", "with": {"columns": {"key": key, "value": "value"}}}


@pytest.mark.in_turn
def test_a_document_with_the_sink(kinesalite, pipeline):
    """Pass: the lines are in the stream in their order, each with an id of its own."""
    stream = stream_of(kinesalite)
    options = {"stream": stream, "endpoint": kinesalite.url, **KEYS}
    out = {"use": "kinesis", "from": "keyed", "with": options}
    pipeline.document(operators={"keyed": keyed()}, sinks={"out": out})
    lines = [str(n) for n in range(50)]
    pipeline.feed("1", lines)
    pipeline.run()
    there = found(kinesalite, stream)
    assert [m.value.decode() for m in there] == lines
    assert len({m.identity for m in there}) == 50


@pytest.mark.in_turn
def test_a_refused_row_goes_where_the_document_says_or_fails_the_run(kinesalite, pipeline):
    """Pass: the good lines are in the stream; the other ends the run with its reason, unless `out.rejected` is read: then
    it is there."""
    stream = stream_of(kinesalite)
    options = {"stream": stream, "endpoint": kinesalite.url, **KEYS}
    out = {"use": "kinesis", "from": "keyed", "with": options}
    pipeline.document(operators={"keyed": keyed("bad")}, sinks={"out": out})
    pipeline.feed("1", ["a", "bad", "b"])
    with pytest.raises(PipelineError, match=r"out: 1 rows were refused.*not UTF-8"):
        pipeline.run()
    refused = pipeline.sink("refused", "out.rejected")
    pipeline.document(operators={"keyed": keyed("bad")}, sinks={"out": out, "refused": refused})
    pipeline.run()
    (row,) = pipeline.rows("refused")
    assert "not UTF-8" in row["reason"]
    assert {m.value for m in found(kinesalite, stream)} == {b"a", b"b"}


def test_the_plan_says_what_is_promised(pipeline):
    """Pass: at-least-once, with what must hold of the readers, which the format decides."""
    said = {}
    for format_ in ("kpl", "raw"):
        options = {"stream": "s", "format": format_}
        pipeline.document(sinks={"out": {"use": "kinesis", "from": "lines", "with": options}})
        (sink,) = pipeline.plan().sinks()
        assert sink.promise.level == Level.AT_LEAST_ONCE
        said[format_] = " ".join(sink.promise.assumptions)
    assert "mainstem-id" in said["kpl"]
    assert "can live with copies" in said["raw"]


def test_a_reader_that_takes_nothing_apart_sees_a_marked_record(kinesalite, spark):
    """Pass: what the README says of such readers holds: the record begins with the mark of aggregation."""
    stream = stream_of(kinesalite, 1)
    assert write(KinesisSink(options_of(kinesalite, stream)), spark, [{"value": b"v"}]) is None
    ((record,),) = kinesalite.records(stream).values()
    assert is_aggregated(record["Data"])
