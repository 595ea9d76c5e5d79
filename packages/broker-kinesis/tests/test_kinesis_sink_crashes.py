"""Pipelines into a stream that are killed, or whose calls fail: each message is there, each key's in order."""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections import Counter, defaultdict
from typing import Any

import pytest
from kinesis_proxy import THROTTLED, KinesisProxy
from ksisink_reading import KEYS, found
from mainstem_broker_kinesis.testing import Kinesis
from mainstem_testkit import PipelineFolder, crash_at_every_point

FILES, LINES, NAMES = 3, 120, 5


def feed(pipeline: PipelineFolder) -> None:
    """Bring in rows of a few keys, numbered, in files that are a batch each."""
    for file in range(FILES):
        numbers = range(file * LINES, file * LINES + LINES)
        pipeline.feed(f"{file}.jsonl", [{"name": f"key {n % NAMES}", "n": n} for n in numbers])
        age = time.time() - 60 * (FILES - file)  # files are read by age
        os.utime(pipeline.folder / "in" / f"{file}.jsonl", (age, age))


def document(pipeline: PipelineFolder, url: str, stream: str, **options: Any) -> None:
    """Let a pipeline put its rows into a stream, by their key, as JSON."""
    source = {
        "path": "./in",
        "format": "jsonlines",
        "schema": "name STRING, n BIGINT",
        "max_files": 1,
    }
    given = {"stream": stream, "endpoint": url, "give_up": "60 seconds", **KEYS, **options}
    keyed = {"key": "encode(name, 'UTF-8')", "value": "encode(to_json(struct(n)), 'UTF-8')"}
    pipeline.document(
        sources={"lines": {"use": "files", "with": source}},
        operators={"keyed": {"use": "select", "from": "lines", "with": {"columns": keyed}}},
        sinks={"out": {"use": "kinesis", "from": "keyed", "with": given}},
    )


def check(server: Kinesis, stream: str) -> Counter[bytes | None]:
    """Hold a stream against what was fed; return how often each identity is there.

    Each message is there at least once, under one identity, and without its copies each key's are in
    their order.
    """
    there = found(server, stream)
    by_key: dict[str, list[int]] = defaultdict(list)
    identities: dict[bytes | None, int] = {}
    for message in there:
        n = json.loads(message.value)["n"]
        by_key[message.key].append(n)
        assert identities.setdefault(message.identity, n) == n, "two messages with one identity"
    assert len(identities) == FILES * LINES
    for key, numbers in by_key.items():
        wanted = [n for n in range(FILES * LINES) if f"key {n % NAMES}" == key]
        assert list(dict.fromkeys(numbers)) == wanted, f"{key}: {numbers}"
    return Counter(message.identity for message in there)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("emulator", ["kinesalite", "kinesis_local"])
def test_kills_at_every_crash_point_lose_and_disorder_nothing(
    emulator, request, pipeline, quick_java
):
    """Pass: killed before and after a call, at the end of a task, and in between batches, at up to three passes of each:
    after the next run the oracle of `check` holds."""
    server: Kinesis = request.getfixturevalue(emulator)
    streams: dict[Any, str] = {}

    def before(copy: PipelineFolder) -> None:
        streams[copy.folder] = server.create(f"crash-{uuid.uuid4().hex[:10]}", 2)
        document(copy, server.url, streams[copy.folder])

    document(pipeline, server.url, "none")
    feed(pipeline)
    points = crash_at_every_point(
        pipeline, lambda copy: check(server, streams[copy.folder]), passes=(1, 3), before=before
    )
    assert {"kinesis.before-put", "kinesis.after-put", "kinesis.after-flush"} <= set(points)


def throw(proxy: KinesisProxy) -> None:
    """Let the first calls, and half of the first records, fail in all the ways that AWS has."""
    dice = random.Random(10)
    for code in (THROTTLED, "InternalFailure"):
        proxy.fail_records(code, times=10, when=lambda _: dice.random() < 0.5)
    for code in ("InternalFailure", THROTTLED, "ServiceUnavailable"):
        proxy.fail("PutRecords", code)
    proxy.lose_answer("PutRecords", times=2)


@pytest.mark.parametrize(
    "emulator", ["kinesalite", pytest.param("kinesis_local", marks=pytest.mark.slow)]
)
@pytest.mark.in_turn
def test_a_pipeline_among_faults_of_all_kinds(emulator, request, pipeline):
    """Pass: with throttled and failed records and calls, and lost answers, the run ends well, and the oracle of `check` holds, with copies there."""
    server: Kinesis = request.getfixturevalue(emulator)
    stream = server.create(f"faults-{uuid.uuid4().hex[:10]}", 2)
    with KinesisProxy(server.port) as proxy:
        throw(proxy)
        document(pipeline, proxy.url, stream)
        feed(pipeline)
        pipeline.run()
        met = Counter(call.code for call in proxy.calls)
    assert max(check(server, stream).values()) > 1
    assert (met["lost"], met[THROTTLED], met["InternalFailure"]) == (2, 1, 1)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_copies_that_the_sink_makes_are_dropped_by_the_source(kinesalite, tmp_path, quick_java):
    """Pass: the writer fails after all was put, and is run again: the stream has copies, and what the reader gets out of
    it has each message once."""
    stream = kinesalite.create(f"copies-{uuid.uuid4().hex[:10]}", 2)
    writer = PipelineFolder(tmp_path / "writer")
    document(writer, kinesalite.url, stream)
    feed(writer)
    broken = writer.command(MAINSTEM_FAILPOINT="kinesis.after-flush:1:raise")
    assert broken.returncode == 1
    writer.run()
    assert max(check(kinesalite, stream).values()) > 1
    given = {"stream": stream, "endpoint": kinesalite.url, "ids": "when_given", **KEYS}
    text = {"columns": {"v": "STRING(value)"}}
    reader = PipelineFolder(tmp_path / "reader").document(
        sources={"rows": {"use": "kinesis", "with": given}},
        operators={"text": {"use": "select", "from": "rows", "with": text}},
        sinks={
            "out": PipelineFolder.sink("out", "text"),
            "refused": PipelineFolder.sink("refused", "rows.rejected"),
        },
    )
    reader.run()
    numbers = Counter(json.loads(row["v"])["n"] for row in reader.rows("out"))
    assert numbers == Counter(range(FILES * LINES))
    assert reader.rows("refused") == []
