"""The log through Spark: what was stored comes out, over restarts, for each query at its own pace."""

from __future__ import annotations

import base64
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ingress_far import Far, messages, store_of, values_in
from mainstem.run.spark_source import register
from mainstem_ingress import Message
from mainstem_ingress.log import Log
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.reading import LogReading
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import numbers


class Query:
    """A query over a log with a checkpoint; each run reads what is there."""

    def __init__(self, spark: Any, log: Log, folder: Path, **more: Any) -> None:
        self.spark, self.folder = spark, folder
        self.reading = LogReading(log.folder, **{"max_rows": 10**6, "max_bytes": 10**9, **more})
        self.batches: list[list[Any]] = []

    def run(self) -> list[Any]:
        """Return the rows that one run read."""
        begun = len(self.batches)
        format_ = register(self.spark, self.reading, "far", str(self.folder))
        frame = self.spark.readStream.name("far").format(format_).load()
        query = (
            frame.writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(self.folder))
            .foreachBatch(lambda batch, _: self.batches.append(batch.collect()))
            .start()
        )
        assert query.awaitTermination(60)
        return [row for batch in self.batches[begun:] for row in batch]


@pytest.mark.in_turn
def test_rows_are_what_was_stored(spark: Any, log: Log, tmp_path: Path) -> None:
    given = [
        Message(b"v", b"k", [("h", b"1"), ("é", b"")], 1_700_000_000_000_001, "q"),
        Message(None, timestamp=0),
        Message(b"", b"", [], 1, "🦀", refused="no"),
    ]
    store_of(log, 0).store(given)
    rows = Query(spark, log, tmp_path / "q", refused=True).run()
    assert [(r.value, r.key, r.origin, r._reason) for r in rows] == [
        (b"v", b"k", "q", None), (None, None, "", None), (b"", b"", "🦀", "no"),
    ]  # fmt: skip
    assert [r.headers for r in rows] == [{"h": b"1", "é": b""}, None, {}]
    assert rows[0].timestamp.astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 1, UTC)
    assert [(r.partition, r.position) for r in rows] == [
        ("0", f"000000000000.0000000{n}") for n in range(3)
    ]
    others = Query(spark, log, tmp_path / "others").run()
    assert [(r.value, r.position[-1]) for r in others] == [(b"v", "0"), (None, "1")]


@pytest.mark.in_turn
def test_restarts_and_two_queries_at_their_own_pace(spark: Any, log: Log, tmp_path: Path) -> None:
    """Nothing is read twice or left out, and what one has not read stays."""
    stores = [store_of(log, number) for number in range(2)]
    given = 0

    def come() -> None:
        nonlocal given
        for store in stores:
            for _ in range(3):
                store.store(messages(*range(given, given + 50)))
                given += 50
        for store in stores:
            Retention(log, store.name, IngressOptions()).tidy(store.next, store.bytes)

    quick = Query(spark, log, tmp_path / "quick", consumer="quick", max_rows=100)
    slow = Query(spark, log, tmp_path / "slow", consumer="slow")
    come()
    slow_found = [int(r.value) for r in slow.run()]
    found = [int(r.value) for r in quick.run()]
    for _ in range(2):
        come()
        found += [int(r.value) for r in quick.run()]
    come()
    assert log.consumers.all() == {"quick": {"0": 9, "1": 9}, "slow": {"0": 3, "1": 3}}
    assert log.earliest("0") == 3, "the slow one has not read on"
    assert sorted(found) == list(range(given - 300))
    assert {len(batch) for batch in quick.batches} == {100}
    slow_found += [int(r.value) for r in slow.run()]
    found += [int(r.value) for r in quick.run()]
    assert sorted(slow_found) == sorted(found) == list(range(given))
    come()
    assert numbers(stores[0].folder) == [12, 13, 14]


# -- through a document -----------------------------------------------------------------------------


@pytest.mark.usefixtures("far_plugin")
@pytest.mark.in_turn
def test_a_document_reads_a_queue_over_restarts(far: Far, pipeline: Any) -> None:
    """Rejected rows come out of their own output, and no message is left at the far side."""
    options = {"port": far.port, "receivers": 2, "max_message": 20}
    pipeline.document(
        sources={"far": {"use": "far_queue", "with": options}},
        sinks={
            "out": pipeline.sink("out", "far"),
            "bad": pipeline.sink("bad", "far.rejected"),
        },
    )
    for run in range(3):
        far.put(messages(*range(100 * run, 100 * run + 100), ids=True))
        far.put([Message(b"large" * (run + 5), id=b"large-%d" % run)])
        far.put(messages(*range(100 * run + 90, 100 * run + 100), ids=True))  # twice
        pipeline.run()
        assert far.left == 0
    log = Log(next(pipeline.folder.glob("checkpoints/test/nodes/far")))
    assert log.receivers() == ["0", "1"]
    out, bad = pipeline.rows("out"), pipeline.rows("bad")
    assert len(out) == 300
    assert len({(row["partition"], row["position"]) for row in out}) == 300
    assert len(bad) == 3
    assert {row["reason"].partition(",")[0] for row in bad} == {
        f"its value has {5 * (run + 5)} bytes" for run in range(3)
    }
    assert log.consumers.all().keys() == {"far"} or len(log.consumers.all()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("far_plugin")
def test_a_document_reads_a_stream_in_its_order(far: Far, pipeline: Any) -> None:
    far.append(messages(*range(200)))
    pipeline.document(
        sources={"far": {"use": "far_stream", "with": {"port": far.port, "segment_rows": 30}}},
        sinks={"out": pipeline.sink("out", "far")},
    )
    for _ in range(2):
        pipeline.run()
        far.append(messages(*range(200, 250)))
    rows = sorted(pipeline.rows("out"), key=lambda row: row["position"])
    found = [int(base64.b64decode(row["value"])) for row in rows]
    assert found == list(range(250))
    assert Counter(found).most_common(1)[0][1] == 1
    assert values_in(Log(pipeline.folder / "checkpoints/test/nodes/far"))[-1] == 249
