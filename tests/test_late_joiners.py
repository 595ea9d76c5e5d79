"""Who comes late takes a table that is there, and goes on with the log: docs/event-sourcing.md."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import uuid
from pathlib import Path

import nats as nats_client
import pytest
from mainstem_testkit import PipelineFolder
from nats.js.api import KeyValueConfig

JARS = Path(__file__).parents[1] / ".tools/kafka/connector"


def at(server, do):
    """Do something with JetStream."""

    async def connected():
        client = await nats_client.connect(server.url)
        try:
            return await do(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(connected())


def told(dice, count):
    """Return random changes of a few accounts."""
    return [
        {"id": dice.randrange(12), "cents": dice.randrange(1000), "gone": dice.random() < 0.25}
        for _ in range(count)
    ]


def summed(changes):
    """Return what is there after some changes."""
    table = {}
    for each in changes:
        table.pop(each["id"], None)
        if not each["gone"]:
            table[each["id"]] = each["cents"]
    return table


def kept(pipeline):
    """Return the table that the changes of a sink's files make, by their sequence."""
    newest = {}
    for row in pipeline.rows("out"):
        if row["_change_type"] != "update_preimage":
            newest[row["id"]] = max(
                newest.get(row["id"], ("",)),
                (row["_commit_version"], row.get("cents"), row["_change_type"]),
            )
    return {key: cents for key, (_, cents, kind) in newest.items() if kind != "delete"}


@pytest.mark.in_turn
@pytest.mark.parametrize("start", [15])
def test_a_table_and_the_log_behind_it_are_the_table(nats, tmp_path, start):
    """One pipeline keeps a Delta table; the log goes on; another one begins with the table, and the log from before its
    version, is killed on the way, and goes on as the log does. Pass: it has what all changes make, each time."""
    dice, stream = random.Random(start), f"S{uuid.uuid4().hex[:8]}"
    at(nats, lambda js: js.add_stream(name=stream, subjects=[f"{stream}.>"]))
    changes = []

    def publish(count):
        some = told(dice, count)

        async def put(js):
            for each in some:
                await js.publish(f"{stream}.a", json.dumps(each).encode())

        at(nats, put)
        changes.extend(some)

    columns = "id BIGINT, cents BIGINT, gone BOOLEAN"
    log = {"use": "jetstream", "with": {"servers": nats.url, "stream": stream}}
    account = {
        "use": "decode",
        "from": "log",
        "with": {"format": "json", "schema": columns, "keep": {"at": "position"}},
    }
    table = {"use": "table", "with": {"key": ["id"], "sequence": "at", "delete": "gone"}}
    first = PipelineFolder(tmp_path / "first").document(
        sources={"log": log},
        operators={"account": account, "accounts": {**table, "from": "account"}},
        sinks={
            "lake": {
                "use": "delta",
                "from": "accounts",
                "with": {
                    "path": str(tmp_path / "lake"),
                    "properties": {"delta.enableChangeDataFeed": "true"},
                },
            }
        },
    )
    publish(40)
    first.run()
    publish(20)
    lake = {"path": str(tmp_path / "lake"), "key": ["id"], "schema": f"{columns}, at STRING"}
    late = PipelineFolder(tmp_path / "late")
    late.document(
        sources={
            "kept": {"use": "delta", "with": lake},
            "log": {"use": "jetstream", "with": {**log["with"], "start": start}},
        },
        operators={
            "snapshot": {"use": "events", "from": "kept.rows", "with": {"kinds": ["insert"], "change": "kind"}},
            "said": account,
            "account": {"use": "select", "from": "said", "with": {"columns": {
                "id": "id", "cents": "cents", "gone": "gone", "at": "at", "kind": "CAST(NULL AS STRING)"}}},
            "accounts": {**table, "from": ["snapshot", "account"]},
        },
        sinks={"out": late.sink("out", "accounts")},
    )  # fmt: skip
    assert late.command(MAINSTEM_FAILPOINT="run.after-batch:1:kill").returncode == -9
    late.run()
    assert kept(late) == summed(changes)
    publish(20)
    first.run()  # it keeps its table, which is none of this one's concern by now
    late.run()
    assert kept(late) == summed(changes)


@pytest.mark.in_turn
def test_a_bucket_is_a_compacted_log(nats, tmp_path):
    """Pass: a bucket that keeps one revision of a key has the table, its tombstones delete, and another pipeline reads it
    as a table, from its beginning and as it goes on."""
    bucket, dice = f"b{uuid.uuid4().hex[:8]}", random.Random(1)
    at(nats, lambda js: js.create_key_value(KeyValueConfig(bucket=bucket, history=1)))
    writing = PipelineFolder(tmp_path / "writing")
    given = {
        "path": "./in",
        "format": "jsonlines",
        "schema": "id BIGINT, cents BIGINT, gone BOOLEAN, n BIGINT",
    }
    marker = "IF(_change_type = 'delete', 'DEL', NULL)"
    writing.document(
        sources={"said": {"use": "files", "with": given}},
        operators={
            "accounts": {"use": "changelog", "from": "said", "with": {"key": ["id"], "sequence": "n", "delete": "gone"}},
            "message": {"use": "encode", "from": "accounts", "with": {"format": "json", "key": "CAST(id AS STRING)", "headers": {"KV-Operation": marker}}},
        },
        sinks={"kept": {"use": "jetstream", "from": "message", "with": {
            "servers": nats.url, "stream": f"KV_{bucket}", "subject": f"$KV.{bucket}.{{key}}", "order": "key"}}},
    )  # fmt: skip
    reading = PipelineFolder(tmp_path / "reading")
    reading.document(
        sources={"bucket": {"use": "nats_bucket", "with": {"servers": nats.url, "bucket": bucket}}},
        sinks={"out": reading.sink("out", "bucket")},
    )
    changes = []
    for number in range(3):
        some = told(dice, 30)
        rows = [{**each, "n": len(changes) + n} for n, each in enumerate(some)]
        writing.feed(f"{number}.jsonl", rows)
        changes += some
        writing.run()
        info = at(nats, lambda js: js.stream_info(f"KV_{bucket}"))
        assert info.state.messages == len({each["id"] for each in changes})
        reading.run()
        newest = {}
        for row in sorted(reading.rows("out"), key=lambda row: int(row["_commit_version"])):
            newest[int(row["key"])] = row["value"] if row["_change_type"] != "delete" else None
        held = {
            key: json.loads(base64.b64decode(value))["cents"]
            for key, value in newest.items()
            if value is not None
        }
        assert held == summed(changes)


@pytest.mark.in_turn
def test_a_compacted_topic_is_a_table(kafka, tmp_path):
    """Pass: what one pipeline keeps there, deletions as messages without a value, another reads as a table, from the
    topic's beginning and as it goes on; so does one that comes when the topic is there already."""
    topic, dice = f"t{uuid.uuid4().hex[:8]}", random.Random(2)
    broker = {"servers": kafka.url, "jars": str(JARS)}
    writing = PipelineFolder(tmp_path / "writing")
    given = {
        "path": "./in",
        "format": "jsonlines",
        "schema": "id BIGINT, cents BIGINT, gone BOOLEAN, n BIGINT",
    }
    writing.document(
        sources={"said": {"use": "files", "with": given}},
        operators={
            "accounts": {"use": "changelog", "from": "said", "with": {"key": ["id"], "sequence": "n", "delete": "gone"}},
            "message": {"use": "encode", "from": "accounts", "with": {"format": "json", "key": "CAST(id AS STRING)"}},
        },
        sinks={"topic": {"use": "kafka", "from": "message", "with": {
            **broker, "topic": topic, "create": {"partitions": 2, "cleanup_policy": "compact"}}}},
    )  # fmt: skip

    def reader(name):
        made = PipelineFolder(tmp_path / name)
        keep = {
            "id": "CAST(CAST(key AS STRING) AS BIGINT)",
            "at": "position",
            "gone": "value IS NULL",
        }
        decode = {"format": "json", "schema": "cents BIGINT", "tombstones": "null", "keep": keep}
        table = {"key": ["id"], "sequence": "at", "delete": "gone"}
        made.document(
            sources={"topic": {"use": "kafka", "with": {**broker, "topics": [topic], "start": "earliest"}}},
            operators={
                "account": {"use": "decode", "from": "topic", "with": decode},
                "accounts": {"use": "changelog", "from": "account", "with": table},
            },
            sinks={"out": made.sink("out", "accounts"), "bad": made.sink("bad", "account.rejected")},
        )  # fmt: skip
        return made

    changes, early = [], reader("early")
    for number in range(2):
        some = told(dice, 30)
        rows = [{**each, "n": len(changes) + n} for n, each in enumerate(some)]
        writing.feed(f"{number}.jsonl", rows)
        changes += some
        writing.run()
        early.run()
        assert kept(early) == summed(changes)
    late = reader("late")
    late.run()
    assert kept(late) == summed(changes)
    assert early.rows("bad") == late.rows("bad") == []
