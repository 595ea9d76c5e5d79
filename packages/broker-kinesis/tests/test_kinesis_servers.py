"""The emulators of Kinesis: they start, answer, have shards, and can be given a quicker clock."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack

import pytest
from mainstem_broker_kinesis.testing import (
    Kinesalite,
    Kinesis,
    KinesisError,
    KinesisLocal,
    home,
    node,
)
from mainstem_testkit.plugin import required
from mainstem_testkit.server import ServerMissing

EMULATORS = pytest.mark.parametrize("emulator", ["kinesalite", "kinesis_local"])


@EMULATORS
@pytest.mark.in_turn
def test_an_emulator_has_shards_that_split_and_merge(emulator, request):
    """Pass: records lie by key in their shards in order, and children name their parents."""
    server: Kinesis = request.getfixturevalue(emulator)
    stream = server.create(f"split-{emulator}", 2)
    low, high = (shard["ShardId"] for shard in server.shards(stream))
    for n in range(4):
        server.put(stream, "any", b"low %d" % n, hash_key=7)
        server.put(stream, "any", b"high %d" % n, hash_key=2**128 - 1)
    server.split(stream, low)
    first, second = (shard for shard in server.shards(stream) if shard.get("ParentShardId") == low)
    server.put(stream, "any", b"child", hash_key=7)
    server.merge(stream, first["ShardId"], second["ShardId"])
    (merged,) = (s for s in server.shards(stream) if s.get("AdjacentParentShardId"))
    assert {merged["ParentShardId"], merged["AdjacentParentShardId"]} == {
        first["ShardId"],
        second["ShardId"],
    }
    server.put(stream, "any", b"grandchild", hash_key=7)
    found = {shard: [r["Data"] for r in rs] for shard, rs in server.records(stream).items()}
    assert found == {
        low: [b"low %d" % n for n in range(4)],
        high: [b"high %d" % n for n in range(4)],
        first["ShardId"]: [b"child"],
        second["ShardId"]: [],
        merged["ShardId"]: [b"grandchild"],
    }


@EMULATORS
def test_an_emulator_says_what_is_wrong_by_aws_name(emulator, request):
    """Pass: a stream that is not there is a ResourceNotFoundException that names it."""
    with pytest.raises(KinesisError, match="nowhere") as caught:
        request.getfixturevalue(emulator).call("DescribeStream", StreamName="nowhere")
    assert caught.value.code == "ResourceNotFoundException"


@EMULATORS
@pytest.mark.in_turn
def test_an_emulator_outlives_a_client_that_goes_away_within_a_request(emulator, request):
    """Pass: after a connection that is reset between a request's headers and its body, it still answers."""
    server: Kinesis = request.getfixturevalue(emulator)
    head = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{"
    for _ in range(3):
        with server.connect() as client:
            client.sendall(head)
            time.sleep(0.2)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.2)
        assert server.answers()


@pytest.mark.parametrize("kind", [Kinesalite, KinesisLocal])
@pytest.mark.in_turn
def test_an_emulator_with_a_quicker_clock_lets_iterators_expire(kind, tmp_path):
    """Pass: an iterator good for 300 seconds is refused once so many have passed by its clock alone."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(kind(tmp_path, clock=100))
        except ServerMissing as error:
            if required(kind.name):
                raise
            pytest.skip(f"server missing: {kind.name}: {error}")
        server.create("quick")
        (shard,) = server.shards("quick")
        asked = {"StreamName": "quick", "ShardId": shard["ShardId"]}
        told = server.call("GetShardIterator", **asked, ShardIteratorType="TRIM_HORIZON")
        time.sleep(3.5)
        with pytest.raises(KinesisError) as caught:
            server.call("GetRecords", ShardIterator=told["ShardIterator"])
        assert caught.value.code == "ExpiredIteratorException"


def test_a_missing_emulator_tells_where_it_was_looked_for(tmp_path, monkeypatch):
    """Pass: the message has the folder, the variable that names it, and what installs it."""
    monkeypatch.setenv("MAINSTEM_KINESIS_HOME", str(tmp_path))
    with pytest.raises(ServerMissing) as caught:
        Kinesalite(tmp_path / "data").start()
    for part in (str(tmp_path), "MAINSTEM_KINESIS_HOME", "services/kinesis.sh"):
        assert part in str(caught.value)


def test_node_beside_the_emulators_comes_before_the_one_on_path(tmp_path, monkeypatch):
    """Pass: it is found there when it is there."""
    emulators = tmp_path / "kinesis"
    monkeypatch.setenv("MAINSTEM_KINESIS_HOME", str(emulators))
    (emulators / "node_modules").mkdir(parents=True)
    beside = tmp_path / "node/bin/node"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert (home(), node()) == (emulators, str(beside))
