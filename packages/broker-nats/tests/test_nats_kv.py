"""The source `nats_bucket`: what a bucket's revisions become, with Spark and without."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from mainstem_broker_nats.source.columns import change_rows
from mainstem_broker_nats.source.options import BucketOptions
from mainstem_broker_nats.source.ranges import Range
from mainstem_broker_nats.source.stream import Stream
from nats.js.api import KeyValueConfig
from nats_streams import at, unique

_TIME = pa.timestamp("us", "UTC")
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("revision", pa.int64()),
        ("created", _TIME),
        ("operation", pa.string()),
        ("_change_type", pa.string()),
        ("_commit_version", pa.int64()),
        ("_commit_timestamp", _TIME),
    ]
)


def make_bucket(server, **config):
    """Make a bucket and return its name."""
    name = unique("b")
    at(server, lambda js, _: js.create_key_value(KeyValueConfig(bucket=name, **config)))
    return name


def change(server, bucket, work):
    """Do something with a bucket."""

    async def do(js, _):
        return await work(await js.key_value(bucket))

    return at(server, do)


def rows(server, bucket, keys=()):
    """Return all changes of a bucket as rows."""
    given = BucketOptions.model_validate({"servers": server.url, "bucket": bucket})
    stream = Stream(given, f"KV_{bucket}", [f"$KV.*.{key}" for key in keys], "test")
    try:
        state = stream.state()
        chunks = list(Range(stream, state.created, 0, state.last, gaps=False).chunks())
    finally:
        stream.close()
    return [row for chunk in chunks for row in change_rows(chunk, bucket, _SCHEMA).to_pylist()]


def test_puts_deletes_and_purges(nats):
    """Keys are put, put again, deleted and purged. Pass: each revision is a change of its kind."""
    bucket = make_bucket(nats, history=5)

    async def work(kv):
        await kv.put("user.1", b"a")
        await kv.put("user.1", b"b")
        await kv.put("user.2", b"")
        await kv.delete("user.1")
        await kv.put("user.3", b"c")
        await kv.put("user.3", b"d")
        await kv.purge("user.3")

    change(nats, bucket, work)
    found = rows(nats, bucket)
    told = [(r["key"], r["value"], r["revision"], r["operation"], r["_change_type"]) for r in found]
    assert told == [
        ("user.1", b"a", 1, "put", "update_postimage"),
        ("user.1", b"b", 2, "put", "update_postimage"),
        ("user.2", b"", 3, "put", "update_postimage"),
        ("user.1", None, 4, "delete", "delete"),
        ("user.3", None, 7, "purge", "delete"),  # what it was is gone with it
    ]
    for row in found:
        assert row["_commit_version"] == row["revision"]
        assert row["_commit_timestamp"] == row["created"]
        assert abs(row["created"].timestamp() - time.time()) < 60


@pytest.mark.in_turn
def test_what_expires_is_deleted_when_it_leaves_a_marker(nats):
    """A key with a time to live, in a bucket that keeps markers. Pass: put, then deleted (`expire`)."""
    bucket = unique("b")

    async def make(js, client):
        config = (
            f'{{"name": "KV_{bucket}", "subjects": ["$KV.{bucket}.>"], "max_msgs_per_subject": 1, '
            '"allow_rollup_hdrs": true, "allow_msg_ttl": true, "deny_delete": true, '
            '"subject_delete_marker_ttl": 60000000000, "storage": "file", "num_replicas": 1}'
        )
        answer = await client.request(f"$JS.API.STREAM.CREATE.KV_{bucket}", config.encode())
        assert b'"error"' not in answer.data, answer.data
        await js.publish(f"$KV.{bucket}.soon", b"v", headers={"Nats-TTL": "1s"})

    at(nats, make)
    assert [row["operation"] for row in rows(nats, bucket)] == ["put"]
    until = time.monotonic() + 30
    while (found := rows(nats, bucket))[-1]["operation"] == "put":
        assert time.monotonic() < until, "it does not expire"
        time.sleep(0.2)
    (marker,) = found
    assert (marker["key"], marker["value"], marker["operation"]) == ("soon", None, "expire")
    assert (marker["_change_type"], marker["revision"]) == ("delete", 2)


def test_some_keys(nats):
    """Two patterns of keys, of a bucket with others. Pass: theirs alone, by their whole names."""
    bucket = make_bucket(nats)

    async def work(kv):
        for key in ("a.x", "b.x", "a.y.z", "c"):
            await kv.put(key, key.encode())

    change(nats, bucket, work)
    assert [row["key"] for row in rows(nats, bucket, ["a.*", "c"])] == ["a.x", "c"]


@pytest.mark.in_turn
def test_a_bucket_becomes_a_table(nats, pipeline, spark):
    """Changes before, between and while the job is down, over three runs, one key deleted twice. Pass:
    what the changelog adds up to is what the bucket holds.
    """
    bucket = make_bucket(nats, history=3)
    pipeline.document(
        sources={
            "settings": {"use": "nats_bucket", "with": {"servers": nats.url, "bucket": bucket}}
        },
        sinks={
            "out": {
                "use": "files",
                "from": "settings",
                "with": {"path": "./out", "format": "parquet"},
            }
        },
    )

    async def first(kv):
        for number in range(20):
            await kv.put(f"k{number % 7}", b"%d" % number)
        await kv.delete("k1")

    async def second(kv):
        await kv.put("k1", b"again")
        await kv.delete("k2")
        await kv.purge("k3")
        for number in range(10):  # more than the history has
            await kv.put("k4", b"%d" % number)

    async def holds(kv):
        return {key: (await kv.get(key)).value for key in await kv.keys()}

    for work in (first, second):
        change(nats, bucket, work)
        pipeline.run()
    table = {}
    found = sorted(pipeline.rows("out"), key=lambda row: row["revision"])
    for row in found:
        if row["_change_type"] == "delete":
            table.pop(row["key"], None)
        else:
            table[row["key"]] = row["value"]
    assert table == change(nats, bucket, holds)
    assert len({row["revision"] for row in found}) == len(found)
