"""After a loss of power nothing is lost that was acknowledged, and nothing doubled.

What all processes of a run did with their files is recorded, and then disks are made that have, of what was
not synced by some moment, nothing or only a part. From each the pipeline goes on, and its output is counted.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from base64 import b64decode
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from mainstem_testkit import PipelineFolder
from mainstem_testkit.server import free_port
from power.disk import Disk, Recorder, on_disk, put

TOKEN = "open-sesame"
#: How often a file of readings is put, and how many seconds of event time each has.
PAUSE, SPAN = 0.3, 25


class Run:
    """A pipeline of two queries: what is posted into files, and totals by minute of files' rows."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "disk"
        self.root.mkdir(parents=True)
        self.pipeline = PipelineFolder(folder / "pipeline")
        self.port = free_port()
        self.document(trigger={"every": "200 milliseconds"})
        self.recorder = Recorder(self.root, folder)
        self.acknowledged: dict[int, int] = {}
        self.fed = 0

    def document(self, **parts):
        verify = {"use": "bearer", "token": TOKEN}
        hook = {"port": self.port, "ids": "always", "paths": {"/in": {"verify": verify}}}
        files = {"path": "./in", "format": "jsonlines", "schema": "at TIMESTAMP, n BIGINT"}
        window = {"on": "at", "tumbling": "1 minute"}
        total = {"window": window, "columns": {"rows": "count(*)", "total": "sum(n)"}}

        def sink(name):
            return {
                "use": "files",
                "from": name,
                "with": {"path": str(self.root / name), "format": "jsonlines"},
            }

        self.pipeline.document(
            checkpoint=str(self.root / "checkpoints"),
            sources={
                "hook": {"use": "webhook", "with": hook},
                "reading": {
                    "use": "files",
                    "with": files,
                    "watermark": {"column": "at", "delay": "0 seconds"},
                },
            },
            operators={"total": {"use": "aggregate", "from": "reading", "with": total}},
            sinks={"posts": sink("hook"), "totals": sink("total")},
            **parts,
        )
        self.posts, self.totals = self.root / "hook", self.root / "total"

    def feed(self, stop):
        """Put files of readings until told to stop."""
        while not stop.wait(PAUSE):
            rows = [
                {"at": _at(self.fed * SPAN + n).isoformat(), "n": self.fed * SPAN + n}
                for n in range(SPAN)
            ]
            self.pipeline.feed(f"{self.fed:06}.jsonl", rows)
            self.fed += 1

    def post(self, stop):
        """Post numbers until told to stop; note when each was acknowledged."""
        given = {"authorization": f"Bearer {TOKEN}", "content-type": "text/plain"}
        with httpx.Client(timeout=10, headers=given) as client:
            n = 0
            while not stop.wait(0.02):
                key = {"idempotency-key": str(n)}
                where = f"http://127.0.0.1:{self.port}/in"
                client.post(where, content=str(n), headers=key).raise_for_status()
                self.acknowledged[n] = time.monotonic_ns()
                n += 1

    def record(self, batches):
        """Run until both sinks have some batches."""
        stop = threading.Event()
        work = [threading.Thread(target=each, args=(stop,)) for each in (self.feed, self.post)]
        with self.pipeline.start(**self.recorder.env) as process:
            process.wait_for(lambda: _answers(self.port))
            for thread in work:
                thread.start()
            process.wait_for(
                lambda: min(_batches(self.posts), _batches(self.totals)) >= batches, 400
            )
            stop.set()
            for thread in work:
                thread.join()
            process.kill(signal.SIGTERM)
            assert process.wait().returncode == 0
        self.document(trigger={"available_now": True, "flush": True})

    def finish(self):
        """Let the pipeline go on from the disk to its end."""
        done = self.pipeline.command()
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def check(self, until):
        """Assert that all that was acknowledged until a time is there once, and the totals are right."""
        posts = Counter(int(b64decode(row["value"])) for row in _rows(self.posts))
        promised = {n for n, at in self.acknowledged.items() if at < until}
        assert promised - posts.keys() == set(), "acknowledged, and lost"
        assert {n: count for n, count in posts.items() if count > 1} == {}, "doubled"
        totals = [(_minute(row["window_start"]), row["rows"]) for row in _rows(self.totals)]
        assert sorted(totals) == sorted(_by_minute(self.fed * SPAN).items())


def _at(seconds):
    return datetime.fromtimestamp(1_700_000_000 - 1_700_000_000 % 3600 + seconds, UTC)


def _minute(text):
    return datetime.fromisoformat(text).timestamp() // 60


def _by_minute(count):
    return Counter(_at(n).timestamp() // 60 for n in range(count))


def _answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/nothing").status_code
    except httpx.TransportError:
        return 0


def _batches(folder):
    return len(list(folder.glob("*"))) if folder.exists() else 0


def _rows(folder):
    return [
        json.loads(line)
        for file in sorted(folder.glob("*/*.json"))
        for line in file.read_text().splitlines()
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    recorded = Run(tmp_path_factory.mktemp("power"))
    recorded.record(batches=8)
    return recorded


def disk_after(run, steps):
    disk = Disk(run.root)
    for step in steps:
        disk.do(step)
    return disk


@pytest.mark.in_turn
def test_the_recorder_has_missed_nothing(run):
    run_disk = disk_after(run, run.recorder.steps()).whole()
    assert run_disk == on_disk(run.root)


@pytest.mark.in_turn
@pytest.mark.parametrize("left", ["nothing", "names", "some"])
def test_what_was_acknowledged_is_there_once_after_a_loss_of_power(run, left, turn):
    seed = f"{turn.number} {turn.draw} {left}"
    steps = run.recorder.steps()
    count = random.Random(seed).randint(len(steps) // 10, len(steps))
    put(run.root, disk_after(run, steps[:count]).left(left, seed=turn.draw))
    run.finish()
    run.check(until=steps[count - 1].time)
