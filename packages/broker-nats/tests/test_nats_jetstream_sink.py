"""The sink `jetstream` in a document and by itself."""

from __future__ import annotations

import json
import logging
import time
import uuid
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from mainstem import (
    Batch,
    Events,
    ExternalError,
    FencedError,
    OptionError,
    PermanentError,
    PipelineError,
    TransientError,
    messages,
)
from mainstem.columns import read_columns
from mainstem.plan.rendering import as_text
from mainstem_broker_nats.client import Connection
from mainstem_broker_nats.sink.jetstream import JetStreamSink
from mainstem_broker_nats.sink.ledger import Ledger, _time
from mainstem_broker_nats.sink.messages import SubjectTemplate
from mainstem_broker_nats.testing import NATS
from nats.js.api import StreamConfig, StreamSource
from nsink_streams import at, bodies, info, make, read
from pydantic import ValidationError

DDL = (
    "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
    "partition STRING, position STRING, _id BINARY, version BIGINT"
)
NAMES = [column.name for column in read_columns(DDL)]


def sink_of(nats, stream, **options):
    given = {"servers": nats.url, "stream": stream, "subject": f"{stream}.{{key}}"}
    model = JetStreamSink.options_model()
    return JetStreamSink(model.model_validate({**given, "give_up": "20 seconds", **options}))


def frame_of(spark, rows, parts=1):
    values = [tuple(row.get(name) for name in NAMES) for row in rows]
    return spark.createDataFrame(spark.sparkContext.parallelize(values, parts), DDL)


def batch_of(spark, number=0, epoch=1, sink="out", query_id="5f0c7a52"):
    return Batch(number, "test", "query", query_id, sink, spark, messages(), epoch)


def prepare(sink):
    sink.prepare(read_columns(DDL), messages())


# -- rows --------------------------------------------------------------------------------------


def test_a_message_is_what_the_row_says(nats, spark):
    """Pass: subject, body, headers and id of a row; null is an empty body; the directive that is not named is
    not sent, and does not make the stream forget what it has."""
    stream = make(nats.url, allow_rollup_hdrs=True)
    headers = {"shop": "nörd".encode(), "empty": None, "Nats-Rollup": b"all", "Nats-Msg-Id": b"x"}
    full = {"key": b"eu.berlin", "value": b"full", "headers": headers}
    rows = [{"key": b"a", "_id": b"\x02"}, {**full, "_id": b"\x01\xff"}]
    assert sink_of(nats, stream).write(frame_of(spark, rows), batch_of(spark)) is None
    empty, found = read(nats.url, stream)
    assert (found.subject, found.data) == (f"{stream}.eu.berlin", b"full")
    name = found.headers.pop("Nats-Msg-Id")
    assert name.partition("-")[0] == "01ff"
    assert found.headers == {"shop": "nörd", "empty": "", "Nats-Expected-Stream": stream}
    assert (empty.subject, empty.data) == (f"{stream}.a", b"")


@pytest.mark.in_turn
def test_rows_that_make_no_message_are_refused_with_the_others_written(nats, spark):
    """Pass: bad subjects (space, wildcard, empty, null), a bad header, too large for the stream: reasons with
    payload and id; reading them twice publishes nothing more."""
    stream = make(nats.url, max_msg_size=1000)
    rows = [{"key": b"k", "value": b"%d" % n, "_id": bytes([n])} for n in range(20)]
    for number, key in ((3, b"two words"), (5, b"a.*"), (7, b""), (9, None)):
        rows[number]["key"] = key
    rows[11]["headers"] = {"a": b"\xff"}
    rows[13]["value"] = b"x" * 2000
    refused = sink_of(nats, stream).write(frame_of(spark, rows, parts=2), batch_of(spark))
    found = {row["_id"][0]: row for row in refused.collect()}
    assert refused.columns == ["reason", "payload", "_id"]
    refused.collect()
    assert {n: bytes(row["payload"]) for n, row in found.items()} == {
        n: rows[n]["value"] for n in (3, 5, 7, 9, 11, 13)
    }
    words = {
        3: "space",
        5: "wildcard",
        7: "empty token",
        9: "is null",
        11: "UTF-8",
        13: "size exceeds",
    }
    for number, word in words.items():
        assert word in found[number]["reason"]
    assert set(bodies(nats.url, stream)) == {b"%d" % n for n in range(20) if n not in found}


@pytest.mark.in_turn
def test_two_sinks_write_the_same_rows_into_one_stream(nats, spark):
    """Pass: rows with the same `_id` under two subjects are both there: neither is taken for a copy; each sink
    writing its own again adds nothing."""
    stream = make(nats.url)
    rows = [{"key": b"k", "value": b"%d" % n, "_id": bytes([n])} for n in range(5)]
    for _ in range(2):
        for name in ("raw", "flagged"):
            sink = sink_of(nats, stream, subject=f"{stream}.{name}")
            sink.write(frame_of(spark, rows), batch_of(spark, sink=name))
    assert sorted(bodies(nats.url, stream)) == sorted(2 * [b"%d" % n for n in range(5)])


def test_order_log_brings_each_subject_into_the_order_of_its_log(nats, spark):
    """Pass: rows of 3 keys, scattered over 4 partitions in wrong order, are in order for each subject."""
    stream = make(nats.url)
    rows = [
        {"key": b"%d" % (n % 3), "value": b"%d" % n, "_id": n.to_bytes(4, "big")}
        | {"origin": "o", "partition": "p", "position": f"{n:06}"}
        for n in range(300)
    ]
    scattered = [row for start in range(7) for row in reversed(rows[start::7])]
    sink = sink_of(nats, stream, order="log", partitions=2)
    assert sink.write(frame_of(spark, scattered, parts=4), batch_of(spark)) is None
    numbers = [int(body) for body in bodies(nats.url, stream)]
    assert sorted(numbers) == list(range(300))
    for key in range(3):
        mine = [number for number in numbers if number % 3 == key]
        assert mine == sorted(mine)


def test_rows_of_one_subject_have_one_sql_value(spark):
    """Pass: the SQL that rows are brought together by gives what the template gives, quotes and braces too."""
    template = SubjectTemplate("it's\\{{{k}}}.{n}")
    frame = spark.createDataFrame([(b"a", "x.y")], "k BINARY, n STRING")
    found = frame.selectExpr(f"{template.sql()} AS s").first()["s"]
    assert found == template.subject((b"a", "x.y"))


@pytest.mark.in_turn
def test_an_expected_sequence_comes_from_its_column(nats, spark):
    """Pass: of two writers of version 1 of a subject the second is refused; null expects nothing; the whole
    batch again, after the window, refuses the same row and doubles none that expects something."""
    stream = make(nats.url, duplicate_window=0.1)
    versions = [(b"a", 0, b"first"), (b"b", 0, b"other"), (b"a", 0, b"late"), (b"a", 1, b"second")]
    rows = [{"key": k, "version": v, "value": x, "_id": x} for k, v, x in versions]
    sink = sink_of(nats, stream, expect_subject_sequence="version", in_flight=1)
    for _ in range(2):
        refused = sink.write(frame_of(spark, rows), batch_of(spark)).collect()
        assert [bytes(row["payload"]) for row in refused] == [b"late"]
        assert "wrong last sequence" in refused[0]["reason"]
        time.sleep(0.3)
    assert bodies(nats.url, stream) == [b"first", b"other", b"second"]
    free = {"key": b"a", "value": b"free", "_id": b"free"}
    assert sink.write(frame_of(spark, [free]), batch_of(spark, 1)) is None
    assert bodies(nats.url, stream)[-1] == b"free"


# -- the window, and runs that were replaced ----------------------------------------------------


@pytest.mark.in_turn
def test_a_window_shorter_than_the_outage_doubles_as_the_plan_says(nats, spark, caplog):
    """Pass: the same batch after the stream's window is there twice, and the log says so; within a long window
    it is there once, and the log says nothing."""
    rows = [{"key": b"k", "value": b"%d" % n, "_id": bytes([n])} for n in range(5)]
    for window, times in ((600.0, 1), (0.2, 2)):
        stream = make(nats.url, duplicate_window=window)
        sink = sink_of(nats, stream)
        caplog.clear()
        for epoch in (1, 2):
            sink.write_new(frame_of(spark, rows), batch_of(spark, epoch=epoch))
            time.sleep(0.5)
        assert sorted(bodies(nats.url, stream)) == sorted(times * [b"%d" % n for n in range(5)])
        told = [r.message for r in caplog.records if r.levelno == logging.WARNING]
        assert bool([text for text in told if "may be there twice" in text]) == (times == 2)


def test_the_plan_tells_what_the_window_means(pipeline):
    """Pass: exactly-once with the assumption, with the window where the document says it; by `microbatch`
    at-least-once without it."""

    def plan(**more):
        options = {"servers": "nats://host", "stream": "S", "subject": "s.{key}"}
        options |= more.pop("options", {})
        columns = {"key": "key", "value": "value", "version": "1L"}
        pipeline.document(
            operators={"rows": {"use": "select", "from": "lines", "with": {"columns": columns}}},
            sinks={"out": {"use": "jetstream", "from": "rows", "with": options, **more}},
        )
        return pipeline.plan()

    for options, word in (
        ({}, "2 minutes unless"),
        ({"duplicates_within": "1 hour"}, "1 hour"),
        ({}, "a message whose answer was lost"),
        ({"expect_subject_sequence": "version"}, "refused although it was written"),
    ):
        made = plan(options=options)
        (sink,) = made.sinks()
        assert (sink.delivery_word, sink.promise.level) == ("idempotent", "exactly-once")
        (told,) = [text for text in sink.promise.assumptions if "retried within" in text]
        assert word in told
        assert [text for text in sink.promise.assumptions if "their ids are forgotten" in text]
        assert "is written again" in " ".join(as_text(made).split())
    (sink,) = plan(deliver="microbatch").sinks()
    assert sink.promise.level == "at-least-once"
    assert not [text for text in sink.promise.assumptions if "retried within" in text]


def test_a_ledger_that_has_no_room_for_now_is_no_lasting_failure(nats, monkeypatch):
    """Pass: what a server says it can't do now is tried again; what it forbids is not."""
    options = sink_of(nats, "S").options
    with Connection.open(options, "test") as connection:
        ledger = Ledger(connection, f"b{uuid.uuid4().hex[:8]}", "S")
        ledger.enter(batch_of(None, 0, 1))
        for code, permanent in ((503, False), (403, True)):
            told = json.dumps({"error": {"code": code, "err_code": 1, "description": "no"}})
            monkeypatch.setattr(
                connection, "request", lambda *_, told=told: SimpleNamespace(data=told.encode())
            )
            with pytest.raises(ExternalError, match="no") as failure:
                ledger._write("key", "text", 0)
            assert isinstance(failure.value, PermanentError) == permanent


def test_a_complaint_of_before_is_no_reason_of_a_failure_now(nats):
    """Pass: nobody answers, and that passes, whatever the server forbade earlier."""
    with Connection.open(sink_of(nats, "S").options, "test") as connection:
        connection.complaints.append("Permissions Violation for Publish to x")
        with pytest.raises(ExternalError) as failure:
            connection.request("nobody.listens", seconds=0.5)
        assert isinstance(failure.value, TransientError)


def test_a_run_that_was_replaced_is_told_and_others_are_not(nats):
    """Pass: by stream, sink and checkpoint; how long ago a batch was noted first is kept over runs; an entry that
    somebody deleted is no entry."""
    bucket, stream = f"b{uuid.uuid4().hex[:8]}", "S"
    options = sink_of(nats, stream).options

    def batch(*, epoch=1, number=0, **more):
        return batch_of(None, number, epoch, **more)

    with Connection.open(options, "test") as connection:
        ledger = Ledger(connection, bucket, stream)
        assert ledger.enter(batch()) is None
        assert ledger.enter(batch()).total_seconds() >= 0
        time.sleep(0.2)
        assert ledger.enter(batch(epoch=3)).total_seconds() >= 0.2
        with pytest.raises(FencedError, match="has seen run 3 .* this is run 2"):
            ledger.enter(batch(epoch=2, number=1))
        assert ledger.enter(batch(epoch=3, number=1)) is None
        assert ledger.enter(batch(sink="other")) is None
        assert ledger.enter(batch(query_id="another")) is None
        assert Ledger(connection, bucket, "T").enter(batch()) is None

        async def delete(_, js):
            await (await js.key_value(bucket)).delete("S.out.5f0c7a52")

        at(nats.url, delete)
        assert ledger.enter(batch()) is None


@pytest.mark.in_turn
def test_a_server_that_starts_anew_is_waited_for(tmp_path, spark):
    """Pass: the server is away when the ledger is asked, and comes back: the batch is written, once."""
    with NATS(tmp_path) as server:
        stream = make(server.url)
        sink = sink_of(server, stream)
        rows = [{"key": b"k", "value": b"%d" % n, "_id": bytes([n])} for n in range(5)]
        server.kill_for(1.0)
        assert sink.write_new(frame_of(spark, rows), batch_of(spark)) is None
        assert bodies(server.url, stream) == [b"%d" % n for n in range(5)]


def test_a_ledger_that_another_run_changes_meanwhile_is_read_again(nats, monkeypatch):
    """Pass: between reading and writing a newer run writes: this one is refused, and the newer one's entry stays."""
    bucket = f"b{uuid.uuid4().hex[:8]}"
    with Connection.open(sink_of(nats, "S").options, "test") as connection:
        ledger = Ledger(connection, bucket, "S")
        ledger.enter(batch_of(None, 0, 1))
        read_before = ledger._read

        def read_then_replaced(key):
            found = read_before(key)
            monkeypatch.undo()
            Ledger(connection, bucket, "S").enter(batch_of(None, 1, 7))
            return found

        monkeypatch.setattr(ledger, "_read", read_then_replaced)
        with pytest.raises(FencedError, match="has seen run 7"):
            ledger.enter(batch_of(None, 1, 2))


def test_times_of_the_server_are_read():
    """Pass: with nanoseconds, with fewer digits, with none, and our own."""
    wanted = datetime(2026, 1, 31, 23, 59, 59, 500000, UTC)
    for text in (
        "2026-01-31T23:59:59.500000123Z",
        "2026-01-31T23:59:59.5Z",
        "2026-01-31T23:59:59.500000+00:00",
    ):
        assert _time(text) == wanted
    assert _time("2026-01-31T23:59:59Z") == wanted.replace(microsecond=0)


# -- the stream ---------------------------------------------------------------------------------


def test_a_stream_is_made_as_the_document_says(nats):
    """Pass: all that `create` says, and the window; again it is taken as it is."""
    name = f"s{uuid.uuid4().hex[:12]}"
    create = {"subjects": [f"{name}.>", f"{name}x.*"], "retention": "workqueue", "max_age": "1 day"}
    create |= {"storage": "memory", "max_bytes": "1 MiB", "max_message": "1 KiB", "discard": "new"}
    for _ in range(2):
        prepare(sink_of(nats, name, create=create, duplicates_within="1 hour"))
    config = info(nats.url, name).config
    assert sorted(config.subjects) == sorted(create["subjects"])
    assert (config.retention, config.storage, config.discard) == ("workqueue", "memory", "new")
    assert (config.max_age, config.duplicate_window) == (86400, 3600)
    assert (config.max_bytes, config.max_msg_size) == (2**20, 2**10)


def test_a_short_life_makes_a_short_window(nats):
    """Pass: a stream that keeps messages for less than NATS's own window can be made all the same."""
    name = f"s{uuid.uuid4().hex[:12]}"
    prepare(sink_of(nats, name, create={"subjects": [f"{name}.>"], "max_age": "1 minute"}))
    assert info(nats.url, name).config.duplicate_window == 60


@pytest.mark.parametrize(
    ("there", "options", "option", "words"),
    [
        (None, {}, "stream", "there is no stream"),
        ({}, {"subject": "elsewhere"}, "subject", "does not take subject 'elsewhere'"),
        (
            {},
            {"duplicates_within": "1 hour"},
            "duplicates_within",
            "10 minutes .* 1 hour are wanted",
        ),
        ({"no_ack": True}, {}, "stream", "acknowledges nothing"),
        ({"sealed": True}, {}, "stream", "sealed"),
        (
            {},
            {"create": {"subjects": ["other"], "storage": "memory", "max_age": "1 hour"}},
            "create",
            "storage is file, not memory; max_age is 0, not 1 hour",
        ),
    ],
)
def test_a_stream_that_does_not_fit_is_refused_before_the_first_batch(
    nats, there, options, option, words
):
    """Pass: an OptionError of the option, with what is there and what is wanted."""
    name = f"s{uuid.uuid4().hex[:12]}"
    if there is not None:
        sealed = there.pop("sealed", False) if (there := dict(there)) else False
        make(nats.url, name, **there)
        if sealed:

            async def seal(_, js):
                config = (await js.stream_info(name)).config
                config.sealed = True
                await js.update_stream(config)

            at(nats.url, seal)
    with pytest.raises(OptionError, match=words) as error:
        prepare(sink_of(nats, name, **options))
    assert error.value.option == option


def test_a_mirror_is_refused(nats):
    """Pass: an OptionError that names what it mirrors."""
    of, name = make(nats.url), f"s{uuid.uuid4().hex[:12]}"

    async def mirrored(_, js):
        await js.add_stream(StreamConfig(name=name, mirror=StreamSource(name=of)))

    at(nats.url, mirrored)
    with pytest.raises(OptionError, match=f"mirror of {of}"):
        prepare(sink_of(nats, name))


def test_what_create_can_not_say_is_left_as_it_is(nats):
    """Pass: a stream with a limit of messages and a longer window is taken, as long as the rest agrees."""
    name = make(nats.url, max_msgs=100, duplicate_window=900.0)
    prepare(sink_of(nats, name, create={"subjects": [f"{name}.>"]}, duplicates_within="10 min"))
    assert info(nats.url, name).config.max_msgs == 100


def test_a_stream_that_overlaps_another_can_not_be_made(nats):
    """Pass: the server's reason, as an error of `create`."""
    of = make(nats.url)
    with pytest.raises(OptionError, match="subjects overlap") as error:
        prepare(sink_of(nats, f"{of}x", create={"subjects": [f"{of}.a"]}))
    assert error.value.option == "create"


def test_a_server_that_is_away_is_said_in_one_line():
    """Pass: a PipelineError with the address, before the first batch."""
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:1"):
        prepare(sink_of(SimpleNamespace(url="nats://127.0.0.1:1"), "S"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stream": "a.b"}, "stream"),
        ({"subject": "a..b"}, "empty token"),
        ({"subject": "a.{key!r}"}, "between braces"),
        ({"duplicates_within": "0 seconds"}, "more than 0 seconds"),
        ({"create": {"subjects": []}}, "subjects"),
        ({"create": {"subjects": ["a"], "max_age": "0 s"}}, "more than 0 seconds"),
        (
            {"create": {"subjects": ["a"], "max_age": "1 s"}, "duplicates_within": "1 hour"},
            "longer than create.max_age",
        ),
        ({"directives": ["Nats-Msg-Id"]}, "the sink's own"),
        ({"directives": ["nats-expected-last-sequence"]}, "the sink's own"),
        ({"directives": ["X-Mine"]}, "no directive"),
        ({"expect_sequence": "a", "expect_subject_sequence": "b"}, "expected one of"),
        ({"in_flight": 0}, "in_flight"),
        ({"give_up": "0 s"}, "more than 0 seconds"),
        ({"ledger": "a.b"}, "ledger"),
    ],
)
def test_wrong_options_are_refused(options, words):
    """Pass: a ValidationError that names the option or says what was expected."""
    given = {"servers": "nats://host", "stream": "S", "subject": "s"}
    with pytest.raises(ValidationError, match=words):
        JetStreamSink.options_model().model_validate({**given, **options})


def test_order_log_needs_the_columns_of_the_log():
    """Pass: an OptionError that names them."""
    sink = sink_of(SimpleNamespace(url="nats://host"), "S", order="log")
    with pytest.raises(OptionError, match="origin, partition, position"):
        sink.check_types(
            read_columns("key BINARY, value BINARY"), Events("key BINARY, value BINARY")
        )
    sink.check_types(read_columns(DDL), Events(DDL))
