"""The source `kafka` while brokers die, topics are compacted, and a database's changes come."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from kafka_reading import document, running, values
from mainstem_testkit.pipelines import wait_for

RECORDED = Path(__file__).parents[2] / "core/tests/spark/debezium/postgres-full.jsonl"


@pytest.mark.in_turn
def test_a_broker_that_is_killed_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    pipeline, spark, topics, kafka
):
    """Pass: a broker is killed (kill -9) while batches are read, twice, and comes back: the same run goes on,
    and each message is there once."""
    topic = topics.make(2)
    topics.put(topic, range(1500), key=str)
    document(pipeline, topics.source(topic, max_rows=50), trigger={"every": "50 ms"})
    with running(pipeline) as run:

        def read():
            assert run.active
            return sum(facts["rows_in"] for facts in run.progress)

        for some in (200, 600):
            wait_for(lambda some=some: read() >= some)
            kafka.kill()
            time.sleep(1)
            kafka.start()
        wait_for(lambda: read() >= 1500, 120)
    assert Counter(map(int, values(pipeline))) == Counter(range(1500))


@pytest.mark.in_turn
def test_compaction_takes_old_values_away_and_no_new_one(pipeline, spark, topics):
    """Pass: a topic is compacted between and while it is read, so that offsets have holes: the last value of
    each key comes, deletes come as null, and nothing is taken for lost."""
    topic = topics.make(
        cleanup_policy="compact",
        segment_ms=200,
        min_cleanable_dirty_ratio=0.0,
        max_compaction_lag_ms=200,
    )
    document(pipeline, topics.source(topic, max_rows=7))
    for turn in range(3):
        for n in range(40):
            topics.put(topic, [f"{turn}-{n}"], key=f"k{n % 8}")
        time.sleep(0.3)  # the deletion begins a segment: the cleaner leaves the last one alone
        topics.put(topic, [None], key=f"k{turn}")
        if turn == 0:
            wait_for(lambda: topics.count(topic) < 30)  # the cleaner was there
        pipeline.run()
    rows = sorted(pipeline.rows("out"), key=lambda row: row["position"])
    last = {row["key"]: row.get("value") for row in rows}
    expected = {f"k{n}": f"2-{32 + n}" for n in range(8)} | {"k2": None}
    assert last == expected
    assert len(rows) == len({row["position"] for row in rows})
    assert len(rows) < 123


@pytest.mark.in_turn
def test_changes_of_a_database_come_as_a_changelog(pipeline, spark, topics):
    """Pass: envelopes that the real Debezium engine wrote, sent through a topic in their order, come
    out as its inserts, updates with pre-images, and deletes; tombstones are no changes."""
    topic = topics.make()
    messages = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    for message in messages:
        topics.put(topic, [message["value"]], key=message["key"])
    pipeline.document(
        sources={"log": topics.source(topic)},
        operators={
            "things": {
                "use": "decode",
                "from": "log",
                "on_rejected": "drop",
                "with": {
                    "format": "debezium-json",
                    "schema": "id BIGINT NOT NULL, name STRING NOT NULL",
                    "key": ["id"],
                },
            }
        },
        sinks={"out": pipeline.sink("out", "things")},
    ).run()
    found = [
        (row["_change_type"], row["id"], row["name"])
        for row in sorted(
            pipeline.rows("out"),
            key=lambda row: (row["_commit_version"], row["_change_type"] != "update_preimage"),
        )
    ]
    assert found == [
        ("insert", 1, "there before"),
        ("insert", 2, "grüße 🎉"),
        ("insert", 3, "nulls"),
        ("update_preimage", 2, "grüße 🎉"),
        ("update_postimage", 2, "changed"),
        ("delete", 3, "nulls"),
        ("insert", 4, "nulls"),
        ("delete", 1, "there before"),
        ("insert", 1, "again"),
        ("delete", 4, "nulls"),
    ]
