"""From our sink through a queue into our source: what the sink doubles, the source drops."""

from __future__ import annotations

from collections import Counter

import pytest
from mainstem.plan.rendering import as_text
from mainstem_testkit import PipelineFolder


@pytest.mark.timeout(400)
@pytest.mark.in_turn
def test_copies_that_the_sink_makes_are_dropped_by_the_source(broker, tmp_path, quick_java):
    """Pass: the writer fails after the broker has confirmed all, and is run again: the queue has copies, and what the
    reader gets out of it has each row once."""
    queue = broker.queue()
    writer = PipelineFolder(tmp_path / "writer").document(
        sinks={
            "out": {
                "use": "amqp",
                "from": "lines",
                "with": {"url": broker.server.url, "routing_key": queue},
            }
        }
    )
    lines = [str(number) for number in range(20)]
    writer.feed("1", lines)
    broken = writer.command(MAINSTEM_FAILPOINT="egress.after-answers:1:raise")
    assert broken.returncode == 1
    writer.run()
    assert broker.count(queue) > 20
    source = {"url": broker.server.url, "queue": queue, "ids": "always"}
    reader = PipelineFolder(tmp_path / "reader").document(
        sources={"rows": {"use": "amqp", "with": source}},
        operators={
            "text": {"use": "select", "from": "rows", "with": {"columns": {"v": "STRING(value)"}}}
        },
        sinks={
            "out": PipelineFolder.sink("out", "text"),
            "refused": PipelineFolder.sink("refused", "rows.rejected"),
        },
    )
    reader.run()
    assert Counter(row["v"] for row in reader.rows("out")) == Counter(lines)
    assert reader.rows("refused") == []
    assert broker.count(queue) == 0
    shown = [sink.promise.level for sink in reader.plan().sinks()]
    assert shown == ["exactly-once", "exactly-once"]


@pytest.mark.in_turn
def test_messages_that_are_too_large_come_out_of_rejected(broker, pipeline):
    """Pass: with their beginning and the reason; the others go their way, and the queue is empty."""
    queue = broker.queue()
    with broker.channel() as channel:
        channel.basic_publish("", queue, b"small")
        channel.basic_publish("", queue, b"x" * 5000)
    source = {"url": broker.server.url, "queue": queue, "max_message": 1000}
    pipeline.document(
        sources={"rows": {"use": "amqp", "with": source}},
        operators={
            "text": {"use": "select", "from": "rows", "with": {"columns": {"v": "STRING(value)"}}}
        },
        sinks={"out": pipeline.sink("out", "text"), "bad": pipeline.sink("bad", "rows.rejected")},
    )
    pipeline.run()
    assert [row["v"] for row in pipeline.rows("out")] == ["small"]
    (bad,) = pipeline.rows("bad")
    assert "5,000 bytes" in bad["reason"]
    assert broker.count(queue) == 0


@pytest.mark.in_turn
def test_a_run_ends_when_the_password_is_wrong(broker, pipeline):
    """Pass: exit 1 with the cause, and neither the command's output nor its errors have the password."""
    url = f"amqp://guest:hunter2@127.0.0.1:{broker.server.port}/"
    pipeline.document(
        sources={
            "rows": {"use": "amqp", "with": {"url": url, "queue": "q"}, "on_rejected": "drop"}
        },
        sinks={"out": pipeline.sink("out", "rows")},
        trigger={"every": "1 second"},
    )
    ended = pipeline.command()
    assert ended.returncode == 1
    assert "rows: " in ended.stderr
    assert "refuses the user or the password" in ended.stderr
    assert "hunter2" not in ended.stdout + ended.stderr


def test_on_a_cluster_the_plan_names_the_folder_of_the_log(pipeline):
    """Pass: beside the checkpoint when it lies elsewhere, not named by itself when it lies within."""
    for elsewhere in (None, pipeline.folder / "log"):
        pipeline.document(
            spark={"master": "spark://host:7077"},
            sources={
                "rows": {
                    "use": "amqp",
                    "with": {"url": "amqp://localhost/", "queue": "jobs"}
                    | ({"folder": str(elsewhere)} if elsewhere else {}),
                    "on_rejected": "drop",
                }
            },
            sinks={"out": PipelineFolder.sink("out", "rows")},
        )
        plan = pipeline.plan()
        assert plan.home("rows").is_relative_to(plan.shared()["checkpoint"])
        told = as_text(plan).partition("every worker see it")[2]
        assert str(plan.shared()["checkpoint"]) in told
        assert (f"rows.folder: {elsewhere}" in told) == bool(elsewhere)
        assert plan.shared().get("rows.folder") == elsewhere
