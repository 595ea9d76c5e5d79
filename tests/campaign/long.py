"""A long run: events come in at a steady rate, and what the processes hold is noted.

`python -m campaign.long --minutes 120` runs the largest document. `--slow 500` runs every source into a
database that takes so many bytes a second on each connection: far more comes in than can go out.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from mainstem_testkit.java import start_java_quickly
from mainstem_testkit.pipelines import PipelineFolder

from campaign.faults import Job
from campaign.paths import Way
from campaign.places import Places
from campaign.rounds import Played, document, make, verdict, work_on

#: Every source; what is kept by key is kept for long only where the order of events is known.
LARGEST = (
    Way("files", "stream_table", "sql, transactional"),
    Way("amqp-classic", "stateless", "amqp"),
    Way("amqp-quorum", "stateless", "files"),
    Way("amqp-stream", "table", "sql, idempotent"),
    Way("kafka", "aggregate", "kafka, transactional"),
    Way("jetstream", "table_table", "sql, staged"),
    Way("jetstream-queue", "stateless", "jetstream, idempotent"),
    Way("nats", "stateless", "zeromq"),
    Way("kinesis", "stateless", "kafka, microbatch"),
    Way("webhook", "stateless", "webhook"),
    Way("zeromq", "stateless", "kinesis"),
    Way("sql-poll", "stream_stream", "jetstream, microbatch"),
)
#: The polled table is in the database that is slow, so it can't be hurried.
SLOWED = tuple(Way(way.source, "stateless", "sql, transactional") for way in LARGEST[:-1])
#: How often is noted what processes hold, and how often events are sent, in seconds.
_EVERY, _PIECE = 15.0, 0.5
#: Nothing more is to come when nothing came for so long, in seconds.
_QUIET = 60.0
#: Processes by a word of their command line; the first that fits. The rest are helpers.
_KINDS = (
    ("Spark", "java"),
    ("receivers", "mainstem_ingress.process"),
    ("workers", "worker_daemon"),
    ("workers", "pyspark.daemon"),
    ("driver", "mainstem\0run"),
)


@dataclass(frozen=True)
class Held:
    """What processes of one kind hold together."""

    processes: int = 0
    mebibytes: int = 0
    files: int = 0
    threads: int = 0


@dataclass(frozen=True)
class Note:
    """What there was at a moment.

    Attributes:
        seconds: since the run began.
        sent: events, of all paths.
        disk: MiB of the pipeline's folder.
    """

    seconds: float
    sent: int
    disk: int
    held: Mapping[str, Held]

    def __str__(self) -> str:
        kinds = ", ".join(
            f"{kind} {h.mebibytes} MiB {h.files} files {h.threads} threads in {h.processes}"
            for kind, h in sorted(self.held.items())
        )
        return f"{self.seconds:6.0f} s: {self.sent:,} sent, disk {self.disk} MiB; {kinds}"


def note(job: Job, began: float, paths: Sequence[Played]) -> Note:
    """Return what there is now."""
    held: dict[str, Held] = {}
    for pid in job.process.living() if job.process else ():
        with suppress(OSError):
            kind, found = _held(Path(f"/proc/{pid}"))
            old = held.get(kind, Held())
            sums = (getattr(old, name) + getattr(found, name) for name in Held.__annotations__)
            held[kind] = Held(*sums)
    disk = sum(_sizes(job.pipeline.folder)) >> 20
    return Note(time.monotonic() - began, sum(p.sent for p in paths), disk, held)


def _held(process: Path) -> tuple[str, Held]:
    line = process.joinpath("cmdline").read_text(errors="replace")
    kind = next((kind for kind, word in _KINDS if word in line), "helpers")
    told = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    rolled = (process / "smaps_rollup").read_text().splitlines()  # pages that are shared, by parts
    pss = next(int(line.split()[1]) for line in rolled if line.startswith("Pss:"))
    files = len(list((process / "fd").iterdir()))
    return kind, Held(1, pss >> 10, files, int(told["Threads"]))


def _sizes(folder: Path) -> Iterator[int]:
    for path, _, names in os.walk(folder):  # which passes over what goes meanwhile
        for name in names:
            with suppress(OSError):
                yield Path(path, name).stat().st_blocks * 512


def _feed(path: Played, rate: float, trouble: list[str]) -> None:
    """Send the path's events at a rate; one that fails is sent again."""
    began = time.monotonic()
    while path.sent < len(path.events):
        due = min(int((time.monotonic() - began) * rate), len(path.events))
        if due <= path.sent:
            time.sleep(_PIECE)
            continue
        some = path.events[path.sent : min(due, path.sent + 1000)]
        try:
            path.source.send(some)
        except Exception as error:
            trouble.append(f"{path.way.source}: {error!r}"[:300])
            time.sleep(1)
            continue
        path.sent += len(some)


@click.command(help=__doc__)
@click.option("--minutes", default=10.0, help="How long events come in.")
@click.option("--rate", default=20.0, help="Events a second, for each path.")
@click.option("--every", default=1.0, help="Seconds from batch to batch.")
@click.option("--slow", type=float, help="Bytes a second that a connection to the database takes.")
@click.option("--only", multiple=True, help="A source. Repeatable.")
@click.option("--seed", default=1)
@click.option("--json", "file", type=Path, help="Where the notes are written.")
def main(
    minutes: float,
    rate: float,
    every: float,
    slow: float | None,
    only: Sequence[str],
    seed: int,
    file: Path | None,
) -> None:
    """Run; ends with 1 if a claim was broken."""
    start_java_quickly()
    chance = random.Random(seed)
    ways = [way for way in (SLOWED if slow else LARGEST) if not only or way.source in only]
    count = int(minutes * 60 * rate)
    with (
        tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as name,
        Places(Path(name) / "servers") as places,
        ExitStack() as stack,
    ):
        folder = Path(name) / "run"
        pipeline = PipelineFolder(folder)
        paths = [make(way, n, places, folder, chance, count) for n, way in enumerate(ways)]
        for path in paths:
            stack.callback(path.source.close)
            stack.callback(path.sink.close)
        parts = document(paths)
        pipeline.document(**parts, trigger={"every": f"{every:g} s"})
        claims = {sink.name: sink.promise.level for sink in pipeline.plan().sinks()}
        job = Job(pipeline)
        stack.callback(job.end)
        job.keep_running()
        work_on(job)
        if slow:
            places.postgres.proxy.throttle(slow)
        began = time.monotonic()
        notes, trouble = _long(job, paths, rate, minutes * 60, began, file)
        if slow:
            out = _count(places, paths)
            seconds = notes[-1].seconds
            told = f"{notes[-1].sent / seconds:.0f} a second came in, {out / seconds:.0f} went out"
            print(f"{told}; {notes[-1].sent:,} and {out:,} in all", flush=True)
            places.postgres.proxy.heal()
            print(f"all was out {_recovered(job, places, paths):.0f} s after it was mended")
        print(note(job, began, paths))
        job.end()
        for each in trouble[:5] + job.own_ends:
            print(f"trouble: {each}")
        pipeline.document(**parts, trigger={"available_now": True, "flush": True})
        with pipeline.start() as process:
            ended = process.wait(1800)
        assert ended.returncode == 0, ended.stderr[-4000:]
        broken = 0
        for path in paths:
            found = verdict(path)
            claimed = claims[f"{path.prefix}_out"]
            broken += bool(found.broken(claimed))
            print(f"{path.way.name}: {claimed}, {found}, broken: {found.broken(claimed)}")
    sys.exit(1 if broken or job.own_ends else 0)


def _long(
    job: Job,
    paths: Sequence[Played],
    rate: float,
    seconds: float,
    began: float,
    file: Path | None,
) -> tuple[list[Note], list[str]]:
    """Send all; return what was noted, also into a file, and what went wrong on the way."""
    trouble: list[str] = []
    threads = [
        threading.Thread(target=_feed, args=(path, rate, trouble), daemon=True) for path in paths
    ]
    for thread in threads:
        thread.start()
    notes: list[Note] = []
    while any(thread.is_alive() for thread in threads):
        assert time.monotonic() - began < 2 * seconds + 600, f"events are not taken: {trouble[-3:]}"
        job.keep_running()
        time.sleep(_EVERY)
        notes.append(note(job, began, paths))
        if file is not None:
            with file.open("a") as told:
                told.write(json.dumps(asdict(notes[-1])) + "\n")
        if len(notes) % 4 == 1:
            print(notes[-1], flush=True)
    return notes, trouble


def _count(places: Places, paths: Sequence[Played]) -> int:
    from campaign.sources import postgres

    tables = [path.sink.id for path in paths]
    return sum(
        postgres(places.postgres, f"SELECT count(*) FROM {table}")[0][0]
        for table in tables
        if postgres(places.postgres, f"SELECT to_regclass('{table}') IS NOT NULL")[0][0]
    )


def _recovered(job: Job, places: Places, paths: Sequence[Played]) -> float:
    """Wait until all has come out that comes; return how long that took."""
    began = last = time.monotonic()
    before = -1
    while time.monotonic() - last < _QUIET:
        job.keep_running()
        time.sleep(1)
        if (now := _count(places, paths)) > before:
            before, last = now, time.monotonic()
    return last - began


if __name__ == "__main__":
    main()
