"""Random bytes as values, keys and headers into every message source; what came out is counted."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from campaign.places import Places
from campaign.sources import SOURCES, Source
from mainstem_testkit.pipelines import PipelineFolder, Process

from fuzz.payloads import ODD
from fuzz.senders import SENDERS, Raw

#: Messages in one call of a sender.
_PIECE = 500
#: Nothing comes any more when nothing came for so long, in seconds.
_QUIET = 30.0
#: Longer than this for one source counts as hanging, in seconds.
_LONG = 1800.0
#: Sent until a first batch has been, so that a receiver that keeps nothing is there.
_PROBE = b"begun"


def raws(chance: random.Random, numbers: range) -> list[Raw]:
    """Return messages: bytes from nothing, what parsers stumble over, a few right values."""

    def some(most: int) -> bytes:
        if chance.random() < 0.3:
            return chance.choice(ODD)[:most]
        return chance.randbytes(chance.randrange(most) if chance.random() < 0.8 else 0)

    def value(n: int) -> bytes:
        return b'{"n": %d}' % n if chance.random() < 0.1 else some(400)

    return [
        Raw(n, value(n), some(60), [(some(20), some(60)) for _ in range(chance.randrange(4))])
        for n in numbers
    ]


def into(name: str, count: int, seed: int, folder: Path, places: Places) -> str:
    """Send messages into a source of a running pipeline; return what came of them.

    Raises:
        AssertionError: the pipeline ended, or what came out are not the bytes that were taken.
    """
    chance = random.Random(f"{seed} {name}")
    pipeline = PipelineFolder(folder)
    with closing(SOURCES[name](places, folder, "in")) as source:
        _document(pipeline, source)
        with pipeline.start() as process:
            _begin(pipeline, process, source)
            taken: Counter[bytes] = Counter()
            for start in range(2, count + 2, _PIECE):
                some = raws(chance, range(start, min(start + _PIECE, count + 2)))
                taken += SENDERS[name](source, some)
            _drain(pipeline, process, taken.total())
    came = Counter(bytes(row["value"]) for row in pipeline.rows("raw"))
    probes = came.pop(_PROBE)
    refused = Counter(bytes(row["payload"]) for row in pipeline.rows("refused"))
    told = f"{count:,} sent, {taken.total():,} taken, {came.total():,} read, {refused.total():,} refused"
    found = came + refused
    wrong = [
        (found[each], taken[each], each) for each in found | taken if found[each] != taken[each]
    ]
    assert not wrong, f"{name}, seed {seed}: {told}; came, was sent: {wrong[:3]}"
    right, unread = (len(pipeline.rows(each)) for each in ("right", "wrong"))
    told += f"; decoded {right:,}, rejected {unread:,}"
    assert right + unread == came.total() + probes, f"{name}, seed {seed}: {told}"
    assert right, f"{name}, seed {seed}: nothing was right: {told}"
    return told


def _document(pipeline: PipelineFolder, source: Source) -> None:
    part = source.part()
    part["with"].pop("ids", None)
    steps = {"format": "json", "schema": {"n": "BIGINT NOT NULL"}}
    streams = {"raw": "in", "right": "row", "wrong": "row.rejected"}
    if source.receives:
        streams["refused"] = "in.rejected"
    pipeline.document(
        trigger={"every": "1 s"},
        sources={"in": part},
        operators={"row": {"use": "decode", "from": "in", "with": steps}},
        sinks={
            name: {
                "use": "files",
                "from": stream,
                "with": {"path": f"./{name}", "format": "parquet"},
            }
            for name, stream in streams.items()
        },
    )


def _begin(pipeline: PipelineFolder, process: Process, source: Source) -> None:
    """Send something until some of it was read."""

    def begun() -> bool:
        with suppress(OSError):  # a listener is not there from the start
            SENDERS[source.name](source, [Raw(1, _PROBE, b"", ())])
        return bool(pipeline.rows("raw"))

    process.wait_for(begun, 120)


def _drain(pipeline: PipelineFolder, process: Process, count: int) -> None:
    """Wait until as much came out as was taken, or nothing comes any more; then end the run."""
    began = last = time.monotonic()
    before = -1
    while before < count and time.monotonic() - last < _QUIET:
        assert process.running, process.wait().stderr[-4000:]
        assert time.monotonic() - began < _LONG, f"{before} of {count} came, and there is no end"
        time.sleep(2)
        rows = pipeline.rows("raw") + pipeline.rows("refused")
        now = sum(row.get("value") != _PROBE for row in rows)
        if now > before:
            before, last = now, time.monotonic()
    process.kill(signal.SIGTERM)
    ended = process.wait()
    assert ended.returncode == 0, ended.stderr[-4000:]
