"""Whole documents: what comes, what is missing and what is refused, each to its own sink; what the plan says."""

from __future__ import annotations

import pytest
import zmq
from mainstem.plan.rendering import as_text
from mainstem_direct_zeromq.link import Link
from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions
from zeromq_peers import address


def document(pipeline, where, **more):
    given = {"bind": where, "frames": ["topic", "sequence", "value"], **more}
    columns = {"topic": "origin", "text": "STRING(value)", "n": "hex(headers['zmq.sequence'])"}
    pipeline.document(
        sources={"rows": {"use": "zeromq", "with": given}},
        operators={"text": {"use": "select", "from": "rows", "with": {"columns": columns}}},
        sinks={
            "out": pipeline.sink("out", "text"),
            "bad": pipeline.sink("bad", "rows.rejected"),
            "lost": pipeline.sink("lost", "rows.lost"),
        },
    )


@pytest.mark.in_turn
def test_rows_gaps_and_refused_messages_go_their_ways(peers, pipeline):
    """Pass: messages come with topic and number, what is missing between them out of `lost` with range, count, topic
    and time, what does not fit out of `rejected`; a second run goes on counting where the first ended."""
    where = address()
    document(pipeline, where)
    push = peers.push(where)

    def send(topic, number):
        push.send_multipart([topic, number.to_bytes(8, "big"), b"%s %d" % (topic, number)])

    for topic, number in ((b"a", 1), (b"a", 2), (b"b", 7), (b"a", 5)):
        send(topic, number)
    push.send_multipart([b"two", b"frames"])
    summary = pipeline.run()
    rows = sorted((row["topic"], row["text"], int(row["n"], 16)) for row in pipeline.rows("out"))
    assert rows == [("a", "a 1", 1), ("a", "a 2", 2), ("a", "a 5", 5), ("b", "b 7", 7)]
    (lost,) = pipeline.rows("lost")
    assert (lost["node"], lost["origin"]) == ("rows", "a")
    assert (lost["from"], lost["to"], lost["count"]) == ("3", "4", 2)
    assert "go from 2 to 5" in lost["reason"]
    assert lost["at"]
    (bad,) = pipeline.rows("bad")
    assert "it has 2 frames, and `frames` names 3" in bad["reason"]
    assert summary is not None
    send(b"b", 10)
    pipeline.run()
    assert len(pipeline.rows("out")) == 5
    assert sorted(row["count"] for row in pipeline.rows("lost")) == [2, 2]


@pytest.mark.in_turn
def test_gaps_that_nobody_reads_are_no_rows(peers, pipeline):
    """Pass: without a reader of `lost` nothing of it is among the messages."""
    where = address()
    document(pipeline, where)
    parts = {"sources": {"rows": {"use": "zeromq", "with": {"bind": where}, "on_rejected": "drop"}}}
    parts["sources"]["rows"]["with"] |= {"frames": ["sequence", "value"], "sequence": {"per": []}}
    columns = {"columns": {"text": "STRING(value)"}}
    parts["operators"] = {"text": {"use": "select", "from": "rows", "with": columns}}
    pipeline.document(**parts, sinks={"out": pipeline.sink("out", "text")})
    push = peers.push(where)
    for number in (1, 5):
        push.send_multipart([number.to_bytes(8, "big"), b"%d" % number])
    pipeline.run()
    assert sorted(row["text"] for row in pipeline.rows("out")) == ["1", "5"]


def test_the_plan_says_what_can_be_lost_and_why(pipeline):
    """Pass: at-most-once for PULL and SUB, each with its reason; a gate that asks for more ends in an error."""
    for socket, reason in (("pull", "no acknowledgements (PULL)"), ("sub", "PUB drops messages")):
        document(pipeline, "tcp://127.0.0.1:5555", socket=socket)
        plan = pipeline.plan()
        assert {sink.promise.may_lose for sink in plan.sinks()} == {True}
        told = " ".join(as_text(plan).split())
        assert "rows can lose events: " in told
        assert reason in told
        assert "10,000" in told


@pytest.mark.in_turn
def test_a_run_ends_when_the_external_system_does_not_let_us_in(pipeline):
    """Pass: exit 1 with the cause, and neither the command's output nor its errors have the password."""
    where = address()
    given = {"bind": where, "plain": {"users": {"anna": "open sesame"}}}
    door = Link(ZeroMQSinkOptions.model_validate(given), zmq.PUSH, {})
    try:
        theirs = {"connect": where, "plain": {"user": "anna", "password": "hunter2"}}
        pipeline.document(
            sources={"rows": {"use": "zeromq", "with": theirs, "on_rejected": "drop"}},
            sinks={"out": pipeline.sink("out", "rows")},
            trigger={"every": "1 second"},
        )
        with pipeline.start() as process:
            process_ended = False
            while not process_ended:
                door.wait(0.1, 0)
                process_ended = not process.running
            ended = process.wait()
    finally:
        door.close()
    assert ended.returncode == 1
    assert "rows: " in ended.stderr
    assert "does not let us in" in ended.stderr
    assert "hunter2" not in ended.stdout + ended.stderr
