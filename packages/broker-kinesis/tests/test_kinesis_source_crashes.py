"""The receiver's process, killed at each of its crash points, over an emulator: each record once, in order.

The emulators are none of AWS; what they have in common with it is that a record is read as often as it is
asked for.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack

import pytest
from kinesis_processes import Taker, stored
from kinesis_streams import Stream
from mainstem_broker_kinesis.source.records import position
from mainstem_testkit import wait_for

POINTS = [
    "kinesis.after-decision",
    "kinesis.after-read",
    "kinesis.after-end",
    "ingress.before-cursor",
    "ingress.after-cursor",
    "ingress.before-write",
    "ingress.after-write",
    "ingress.after-fsync",
    "ingress.after-rename",
    "ingress.after-folder-fsync",
    "ingress.before-acknowledge",
    "ingress.after-acknowledge",
]
SLOW = pytest.mark.slow


def options(stream, **more):
    return {
        "stream": stream.name,
        "endpoint": stream.server.url,
        "region": "us-east-1",
        "access_key": "test",
        "secret_key": "test",
        "poll_every": "20 ms",
        "reads_per_second": 1000,
        "records_per_read": 4,
        "linger": "0 s",
        "discover_every": "500 ms",
        **more,
    }


def check(stream, folder, *, ordered=True):
    """Hold the log against the emulator's own records: each once, in each shard's order; with one
    receiver each key's in the order of putting."""
    expected = {
        (shard, position(r["SequenceNumber"])): r["Data"]
        for shard, records in stream.server.records(stream.name).items()
        for r in records
    }
    rows = stored(folder)
    found = [((row["partition"], row["position"]), row["value"]) for row in rows]
    assert dict(found) == expected
    assert len(found) == len(expected) == stream.count
    by_shard, by_key = defaultdict(list), defaultdict(list)
    for row in rows:
        by_shard[row["partition"]].append(row["position"])
        by_key[row["key"]].append(int(row["value"]))
    assert all(places == sorted(places) for places in by_shard.values())
    if ordered:
        assert all(numbers == sorted(numbers) for numbers in by_key.values())


def history(stream):
    """Records through a split and a merge; what is killed reads them all from the start."""
    stream.put(10)
    stream.server.split(stream.name, stream.open()[0])
    stream.put(10)
    stream.server.merge(stream.name, *stream.open())
    stream.put(10)


@pytest.mark.parametrize(
    ("point", "passes"),
    [
        pytest.param(point, passes, marks=() if passes == 1 else SLOW)
        for point in POINTS
        for passes in (1, 3)
        if (point, passes) not in (("kinesis.after-decision", 3), ("ingress.before-cursor", 3))
        and (point, passes) != ("ingress.after-cursor", 3)
    ],
)
@pytest.mark.in_turn
def test_a_kill_at_each_point_loses_and_doubles_nothing(kinesalite, tmp_path, point, passes):
    """Pass: killed there, and then read to the end by another process, all is in the log once, in order."""
    stream = Stream(kinesalite)
    alone = point.endswith("-cursor")  # where reading begins, stored while there is no record
    if not alone:
        history(stream)
    folder, trace = tmp_path / "log", tmp_path / "trace"
    armed = f"{point}:{passes}:kill"
    env = {"MAINSTEM_FAILPOINT": armed, "MAINSTEM_FAILPOINT_TRACE": str(trace)}
    with Taker(folder, options(stream), **env) as taker:
        assert taker.process.wait(60) == -9
    assert armed in trace.read_text().split()
    if alone:
        history(stream)
    with Taker(folder, options(stream)) as taker:
        wait_for(lambda: len(stored(folder)) >= stream.count)
        taker.until(ready=True)
        assert taker.end() == 0
    check(stream, folder)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["kinesalite", "kinesis_local"])
def test_two_receivers_killed_again_and_again(request, server, tmp_path):
    """Pass: with a split and a merge meanwhile, and each receiver killed three times, all is in the logs
    once, and each shard in its order."""
    stream = Stream(request.getfixturevalue(server), 2)
    folder = tmp_path / "log"
    for turn in range(4):
        with ExitStack() as takers:
            for number in range(2):
                takers.enter_context(Taker(folder, options(stream, receivers=2), number))
            before = len(stored(folder)) if folder.exists() else 0
            stream.put(15)
            wait_for(lambda before=before: folder.exists() and len(stored(folder)) > before + 3)
            if turn == 0:
                stream.server.split(stream.name, stream.open()[0])
            elif turn == 1:
                stream.server.merge(stream.name, *stream.open()[-2:])
    with ExitStack() as takers:
        for number in range(2):
            takers.enter_context(Taker(folder, options(stream, receivers=2), number))
        wait_for(lambda: len(stored(folder)) >= stream.count)
    check(stream, folder, ordered=False)
