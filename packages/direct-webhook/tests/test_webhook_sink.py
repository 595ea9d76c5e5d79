"""The sink `webhook` on Spark and in a document."""

from __future__ import annotations

import hashlib
import json

import pytest
from mainstem import Batch, DocumentError, PermanentError, PipelineError, messages
from mainstem.columns import read_columns
from mainstem.contracts.guarantee import Level
from mainstem_direct_webhook.sink.sink import WebhookSink
from mainstem_testkit.crashing import crash_points
from mainstem_testkit.plugin import serve
from webhook_far import FarEndpoint

DDL = (
    "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
    "partition STRING, position STRING, _id BINARY"
)
NAMES = [column.name for column in read_columns(DDL)]


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    yield from serve(FarEndpoint, request, tmp_path_factory)


@pytest.fixture
def far(server):
    return server.place()


def sink_of(far, **options):
    given = {"url": far.url, "allow_private": True, "give_up": "20 seconds", **options}
    return WebhookSink(WebhookSink.options_model().model_validate(given))


def identity(value):
    return hashlib.md5(value).digest()


def write(sink, spark, rows, parts=1):
    rows = [{"_id": identity(row["value"]), **row} for row in rows]
    values = [tuple(row.get(name) for name in NAMES) for row in rows]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(values, parts), DDL)
    return sink.write(frame, Batch(0, "test", "query", "5f0c7a52", "out", spark, messages(), 1))


@pytest.mark.in_turn
def test_refused_rows_come_back_and_the_others_are_sent(far, spark):
    """Pass: each refused row has reason, payload and id; reading them twice sends nothing more."""
    far.tell(refuse="bad")
    rows = [{"value": b"bad %d" % n if n % 5 == 0 else b"good %d" % n} for n in range(20)]
    refused = write(sink_of(far), spark, rows, parts=2)
    found = {bytes(row["payload"]): row for row in refused.collect()}
    assert refused.columns == ["reason", "payload", "_id"]
    refused.collect()
    assert set(found) == {b"bad 0", b"bad 5", b"bad 10", b"bad 15"}
    for value, row in found.items():
        assert row["reason"] == "422 Unprocessable Entity"
        assert bytes(row["_id"]) == identity(value)
    assert len(far.came()) == 20
    assert write(sink_of(far), spark, [{"value": b"good"}]) is None


@pytest.mark.in_turn
def test_order_log_brings_each_key_into_the_order_of_its_log(far, spark):
    """Pass: rows of 3 keys, scattered over 4 partitions in wrong order, come in order for each key."""
    rows = [
        {
            "key": b"%d" % (n % 3),
            "value": b"%d" % n,
            "origin": "o",
            "partition": "p",
            "position": f"{n:06}",
        }
        for n in range(300)
    ]
    scattered = [row for start in range(7) for row in reversed(rows[start::7])]
    assert write(sink_of(far, order="log", partitions=2), spark, scattered, parts=4) is None
    numbers = [int(body) for body in far.bodies()]
    assert sorted(numbers) == list(range(300))
    for key in range(3):
        mine = [number for number in numbers if number % 3 == key]
        assert mine == sorted(mine)


def test_partitions_bound_the_tasks(far, spark):
    """Pass: 4 partitions, one task at a time, one lane: one request waits at a time, in order."""
    rows = [{"value": b"%d" % n} for n in range(40)]
    assert write(sink_of(far, partitions=1, requests=1), spark, rows, parts=4) is None
    assert [int(body) for body in far.bodies()] == list(range(40))
    assert far.state()["most"] == 1


def test_text_is_sent_as_utf8(far, spark):
    """Pass: a column `value` of text, and neither key nor headers."""
    frame = spark.createDataFrame([("ä", b"\x01" * 16)], "value STRING, _id BINARY")
    batch = Batch(0, "test", "query", "5f0c7a52", "out", spark, messages(), 1)
    assert sink_of(far).write(frame, batch) is None
    assert far.bodies() == ["ä".encode()]


@pytest.mark.in_turn
def test_an_endpoint_that_fails_is_told_plainly(far, spark, caplog):
    """Pass: an error in one line, without Spark's own and without path or token."""
    caplog.set_level("DEBUG")
    far.tell(status=401, body="who are you?")
    sink = sink_of(far, url=f"{far.url}/SECRETPATH?k=SECRET", auth={"bearer": "SECRETTOKEN"})
    with pytest.raises(PermanentError, match=r"^http://127.*401 Unauthorized: who are") as error:
        write(sink, spark, [{"value": b"x"}])
    assert "\n" not in str(error.value)
    assert "SECRET" not in str(error.value) + repr(error.value) + caplog.text


@pytest.mark.in_turn
def test_a_private_address_is_refused_before_anything_is_sent(far, spark):
    """Pass: said by the driver, with the option that would allow it; nothing comes."""
    sink = sink_of(far, url=far.url.replace("127.0.0.1", "localhost"), allow_private=False)
    with pytest.raises(PermanentError, match="localhost: .*loopback.*`allow_private: true`"):
        write(sink, spark, [{"value": b"x"}])
    sink._checked = True  # a name can stand for another address in an executor
    with pytest.raises(PermanentError, match="loopback"):
        write(sink, spark, [{"value": b"x"}])
    assert far.came() == []


def test_a_file_that_is_missing_is_told_by_its_option(far, spark):
    """Pass: said by the driver before anything is sent."""
    sink = sink_of(far, url="https://localhost/", tls={"ca": "/nowhere.pem"})
    with pytest.raises(PermanentError, match="^tls.ca: .*nowhere.pem"):
        write(sink, spark, [{"value": b"x"}])


def out(far, **options):
    given = {"url": far.url, "allow_private": True, "give_up": "20 seconds", **options}
    return {"use": "webhook", "from": "lines", "with": given}


@pytest.mark.in_turn
def test_a_document_with_the_sink(far, pipeline):
    """Pass: at least once is promised, with what must hold; the lines come, each with an id; the run
    passes the sink's crash points."""
    pipeline.document(sinks={"out": out(far)})
    pipeline.feed("1.jsonl", ["a", "b"])
    promise = pipeline.plan().nodes["out"].promise
    assert promise.level is Level.AT_LEAST_ONCE
    points = crash_points(pipeline)
    assert {"webhook.before-request", "webhook.after-response", "webhook.before-done"} <= {*points}
    assert sorted(far.bodies()) == [b"a", b"b"]
    assert len({came["headers"]["webhook-id"] for came in far.came()}) == 2


@pytest.mark.in_turn
def test_a_refused_row_that_nobody_reads_fails_the_run(far, pipeline):
    """Pass: an error with the status; the good lines have come."""
    far.tell(refuse="bad", body="no bad ones")
    pipeline.document(sinks={"out": out(far)})
    pipeline.feed("1.jsonl", ["a", "bad", "b"])
    with pytest.raises(PipelineError, match=r"out: 1 rows were refused.*422.*no bad ones"):
        pipeline.run()
    assert {came["body"] for came in far.taken()} == {b"a", b"b"}


@pytest.mark.in_turn
def test_a_refused_row_goes_where_the_document_says(far, pipeline):
    """Pass: the good lines have come, the other is in the sink of `out.rejected`, with status and body."""
    far.tell(refuse="bad", body="no bad ones")
    refused = pipeline.sink("refused", "out.rejected")
    pipeline.document(sinks={"out": out(far), "refused": refused})
    pipeline.feed("1.jsonl", ["a", "bad", "b"])
    pipeline.run()
    assert {came["body"] for came in far.taken()} == {b"a", b"b"}
    (row,) = pipeline.rows("refused")
    assert row["reason"] == "422 Unprocessable Entity: no bad ones"


def test_a_wrong_url_does_not_show(pipeline):
    """Pass: the document is refused, with the key and without the token."""
    sink = {"use": "webhook", "from": "lines", "with": {"url": "htp://host/SECRET"}}
    pipeline.document(sinks={"out": sink})
    with pytest.raises(DocumentError, match="https://") as error:
        pipeline.plan()
    assert "url" in error.value.problems[0].key
    assert "SECRET" not in str(error.value)


def test_planning_needs_no_client(pipeline):
    """Pass: a plan with the sink imports neither httpcore nor pyspark, in a process of its own."""
    import subprocess
    import sys

    pipeline.document(
        sinks={"out": {"use": "webhook", "from": "lines", "with": {"url": "https://h/"}}}
    )
    code = (
        "import sys, json; from mainstem.plan.build import make_plan;"
        f"make_plan({str(pipeline.file)!r});"
        "print(json.dumps([n for n in ('httpx', 'httpcore', 'h2', 'cryptography', 'pyspark')"
        " if n in sys.modules]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(ran.stdout) == []
