"""The sink `kafka` after a changelog: a key's last message is its newest version."""

from __future__ import annotations

import random

import pytest
from kafka_topics import JARS
from ksink_reading import make_topic, read_topic


@pytest.mark.parametrize("deliver", ["microbatch", "transactional"])
@pytest.mark.in_turn
def test_a_changelogs_changes_are_written_in_the_order_of_their_versions(pipeline, kafka, deliver):
    """Pass: 5 keys with 40 versions each are in one batch, in any order and over 4 files: in the topic
    each key's versions rise, and the last message of each is the newest, a delete."""
    topic = make_topic(kafka, f"order-{deliver}", 2, {"cleanup.policy": "compact"})
    rows = [{"k": f"k{key}", "n": n} for key in range(5) for n in range(40)]
    random.Random(7).shuffle(rows)
    for part in range(4):
        pipeline.feed(f"{part}.json", rows[part::4])
    pipeline.document(
        operators={
            "row": {
                "use": "decode",
                "from": "lines",
                "on_rejected": "drop",
                "with": {"format": "json", "schema": "k STRING NOT NULL, n BIGINT NOT NULL"},
            },
            "table": {
                "use": "changelog",
                "from": "row",
                "on_rejected": "drop",
                "with": {"key": ["k"], "sequence": "n", "delete": "n = 39"},
            },
            "message": {
                "use": "encode",
                "from": "table",
                "with": {"format": "json", "key": "k", "headers": {"n": "CAST(n AS STRING)"}},
            },
        },
        sinks={
            "out": {
                "use": "kafka",
                "from": "message",
                "deliver": deliver,
                "with": {
                    "servers": kafka.url,
                    "jars": JARS,
                    "topic": topic,
                    "ledger": f"{topic}-ledger",
                },
            }
        },
    )
    pipeline.run()
    found = {}
    for message in sorted(read_topic(kafka, topic), key=lambda m: (m.partition, m.offset)):
        found.setdefault(message.key, []).append((int(message.own_headers["n"]), message.value))
    assert len(found) == 5
    assert all([n for n, _ in told] == list(range(40)) for told in found.values())
    assert all(told[-1] == (39, None) for told in found.values())
