"""One round: some paths as one document, random load, random faults, a drained end, and the verdicts."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from mainstem_testkit.pipelines import PipelineFolder

from campaign.chains import CHAINS
from campaign.clock import Clock
from campaign.events import Event, events
from campaign.faults import AROUND, Fault, Job, faults, mounted, points, unmount
from campaign.judging import Verdict, judge
from campaign.paths import Way
from campaign.places import Places
from campaign.sinks import Sink
from campaign.sources import DECODED, Source

#: How long sending may go on after the last thing broke, in seconds.
PATIENCE = 120.0
#: How long a pipeline may take to start and do a batch, before things break all the same.
_STARTS = 25.0
#: How much later than others an event may be: nearly all of a round's time where its source keeps no order.
ORDERED, UNORDERED = timedelta(hours=1), timedelta(days=30)


@dataclass(frozen=True)
class Outcome:
    """What one path of a round came to.

    Attributes:
        together: all paths of the round, in their order.
        faults: what broke that the path has to do with: the pipeline's processes, and its own servers.
        sent: how many events.
        own_ends: how the process ended that nobody had killed.
        seconds: how long the round took.
    """

    path: str
    together: Sequence[str]
    seed: int
    claimed: str
    faults: Sequence[str]
    verdict: Verdict
    sent: int
    own_ends: Sequence[str]
    seconds: float

    @property
    def broken(self) -> list[str]:
        return self.verdict.broken(self.claimed)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "broken": self.broken}


@dataclass
class Played:
    """A path of a round, at work."""

    way: Way
    prefix: str
    source: Source
    sink: Sink
    events: Sequence[Event]
    second: Sequence[Mapping[str, Any]]
    places: Places
    sent: int = 0
    trouble: str = ""

    def touched_by(self, fault: str) -> bool:
        """Whether a fault is one of the whole pipeline, or of a server that the path speaks to."""
        server, _, what = fault.partition(": ")
        chain = CHAINS[self.way.chain]
        return what not in AROUND or server in (self.source.needs, chain.needs, self.sink.needs)

    def feed(self, chance: random.Random, seconds: float, begun: threading.Event) -> None:
        """Send an event, and the others in about so many seconds when the pipeline has begun.

        They go in pieces; one that fails is sent again.
        """
        until = time.monotonic() + PATIENCE
        while self.sent < len(self.events):
            size = chance.choice([1, 7, 50, 200]) if self.sent else 1
            piece = self.events[self.sent : self.sent + size]
            try:
                self.source.send(piece)
            except Exception as error:
                self.trouble = repr(error)[:500]
                if time.monotonic() > until:
                    return
                time.sleep(0.2)
                continue
            self.sent += len(piece)
            begun.wait(PATIENCE)
            time.sleep(seconds * len(piece) / len(self.events) * chance.uniform(0.5, 1.2))


def play(
    ways: Sequence[Way],
    seed: int,
    places: Places,
    folder: Path,
    *,
    seconds: float = 20,
    load: int = 1500,
    env: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    spark: Mapping[str, Any] | None = None,
    beside: Mapping[str, Fault] | None = None,
) -> list[Outcome]:
    """Play a round.

    Args:
        seconds: about how long events come in.
        load: the most events of a path.
        env: of the pipeline's processes, for builds that are broken on purpose.
        only: faults to choose among; all that fit when left out.
        spark: the document's part of that name.
        beside: further faults.
    """
    began = time.monotonic()
    chance = random.Random(seed)
    with ExitStack() as stack:
        folder.mkdir(parents=True)
        disk = mounted(folder)
        if disk:
            stack.callback(unmount, folder)
        pipeline = PipelineFolder(folder)
        made = [
            make(way, n, places, folder, chance, chance.randrange(load // 3, load))
            for n, way in enumerate(ways)
        ]
        for path in made:
            stack.callback(path.source.close)
            stack.callback(path.sink.close)
        parts = document(made) | ({"spark": spark} if spark else {})
        pipeline.document(**parts, trigger={"every": f"{chance.choice([100, 500, 1500])} ms"})
        claims = {sink.name: sink.promise.level for sink in pipeline.plan().sinks()}
        clock = Clock(folder) if shutil.which("cc") else None
        job = Job(pipeline, dict(env or {}), _points(made), clock)
        stack.callback(job.end)
        there = faults(_used(made), [p.source for p in made], disk=disk, clock=bool(clock)) | (
            beside or {}
        )
        chosen = {name: fault for name, fault in there.items() if not only or name in only}
        told = _run(job, made, chance, seconds, chosen)
        job.end()
        if unsent := [f"{p.way.name}: {p.trouble}" for p in made if p.sent < len(p.events)]:
            raise AssertionError(f"not all could be sent: {unsent}, {job.own_ends[-1:]}")
        pipeline.document(**parts, trigger={"available_now": True, "flush": True})
        ended = pipeline.command(**dict(env or {}))
        if ended.returncode:
            raise AssertionError(f"does not drain:\n{ended.stderr[-4000:]}")
        return [
            Outcome(
                path.way.name,
                [way.name for way in ways],
                seed,
                claims[f"{path.prefix}_out"],
                [each for each in told if path.touched_by(each)],
                verdict(path),
                path.sent,
                job.own_ends,
                round(time.monotonic() - began, 1),
            )
            for path in made
        ]


def make(
    way: Way, number: int, places: Places, folder: Path, chance: random.Random, count: int
) -> Played:
    """Return a path with its events, and its places on the servers."""
    source, chain, sink = way.parts
    prefix = f"p{number}"
    some = events(chance, count)
    second = chain.second(some, chance)
    return Played(
        way,
        prefix,
        source(places, folder, f"{prefix}_in"),
        sink(places, folder, f"{prefix}_out"),
        some,
        second,
        places,
    )


def document(made: Sequence[Played]) -> dict[str, Any]:
    """Return the document's parts; the second sides are there as files."""
    sources: dict[str, Any] = {}
    operators: dict[str, Any] = {}
    sinks: dict[str, Any] = {}
    for path in made:
        prefix, chain = path.prefix, CHAINS[path.way.chain]
        together = path.source.ordered and not path.source.behind
        delay = ORDERED if together else UNORDERED
        watermark = {"column": "at", "delay": f"{int(delay.total_seconds())} seconds"}
        event, result = f"{prefix}_event", f"{prefix}_result"
        part = {**path.source.part(), **path.source.options_beside()}
        if path.source.name == "sql-poll":
            sources[event] = {**part, "watermark": watermark}
        elif path.source.changes:
            sources[f"{prefix}_raw"], event = part, f"{prefix}_raw.rows"
        else:
            raw = f"{prefix}_raw"
            sources[raw] = part
            if path.source.keyed:
                operators[f"{prefix}_told"] = {"use": "events", "from": raw}
                raw = f"{prefix}_told"
            decode = {"format": "json", "schema": DECODED}
            operators[event] = {
                "use": "decode",
                "from": raw,
                "with": decode,
                "watermark": watermark,
                "on_rejected": "fail",
            }
        if chain.side:
            side = sources[f"{prefix}_side"] = _side(path, chain.side[0])
            if chain.side[1]:
                side["watermark"] = chain.side[1]
        operators |= chain.steps(event, f"{prefix}_side", result, path.places)
        last = result
        if path.sink.messages:
            last = f"{prefix}_message"
            encode = {"format": "json", "columns": list(chain.columns), "key": "k"}
            operators[last] = {"use": "encode", "from": result, "with": encode}
        sinks[f"{prefix}_out"] = {**path.sink.part(), **path.sink.more, "from": last}
    return {"sources": sources, "operators": operators, "sinks": sinks}


def _side(path: Played, schema: str) -> dict[str, Any]:
    """Return the source of a second side, whose rows are there."""
    folder = path.source.folder / f"{path.prefix}_side"
    folder.mkdir()
    (folder / "all.json").write_text("".join(json.dumps(row) + "\n" for row in path.second))
    given = {"path": f"./{folder.name}", "format": "jsonlines", "schema": schema}
    return {"use": "files", "with": given}


def _used(made: Sequence[Played]) -> dict[str, tuple[Any, bool]]:
    """Return the servers that the paths speak to, and whether they may be killed."""
    used: dict[str, tuple[Any, bool]] = {}
    for path in made:
        for end in (path.source, path.sink):
            if end.needs:
                may = used.get(end.needs, (end.place, True))[1] and end.killable
                used[end.needs] = (end.place, may)
        if needs := CHAINS[path.way.chain].needs:
            used[needs] = (getattr(path.places, needs), False)
    return used


def _points(made: Sequence[Played]) -> list[str]:
    words = {"run"}
    for path in made:
        words |= {path.sink.use, path.source.name.partition("-")[0]}
        words |= {"ingress"} if path.source.receives else set()
        words |= {"cdc"} if path.source.changes else set()
        words |= {"bootstrap"} if CHAINS[path.way.chain].loads else set()
        words |= {"keyed-state"} if CHAINS[path.way.chain].keyed else set()
    return points(*words)


def work_on(job: Job) -> None:
    """Wait until the pipeline has done a batch, for a while."""

    def done() -> int:
        return len(list(job.pipeline.folder.glob("checkpoints/**/commits/[0-9]*")))

    before, until = done(), time.monotonic() + _STARTS
    while done() <= before and time.monotonic() < until:
        job.keep_running()
        time.sleep(0.1)


def _run(
    job: Job,
    made: Sequence[Played],
    chance: random.Random,
    seconds: float,
    there: Mapping[str, Fault],
) -> list[str]:
    """Run while events come in and things break; return what broke, in its order."""
    begun, threads = threading.Event(), []
    for path in made:
        given = (random.Random(chance.random()), seconds, begun)
        threads.append(threading.Thread(target=path.feed, args=given, daemon=True))
    job.keep_running()
    for thread in threads:
        thread.start()
    work_on(job)
    begun.set()
    told = []
    for _ in range(chance.randrange(2, 6) if there else 0):
        if chance.random() < 0.7:
            work_on(job)
        time.sleep(chance.uniform(0, 2))
        # As often a process of ours as all that is around it.
        ours = [each for each in there if ":" not in each]
        name = chance.choice(ours if chance.random() < 0.5 else list(there))
        more = there[name](job, chance)
        told.append(f"{name}: {more}" if more else name)
        job.keep_running()
    until = time.monotonic() + PATIENCE
    while any(thread.is_alive() for thread in threads):
        job.keep_running()
        time.sleep(0.5)
        if time.monotonic() > until:
            said = [p.trouble for p in made]
            raise AssertionError(f"events are not taken: {said}, {job.own_ends[-1:]}")
    return told


def verdict(path: Played) -> Verdict:
    """Judge what the path's sink has, when all has been sent and drained."""
    chain = CHAINS[path.way.chain]
    expected = chain.expected(path.events, path.second)
    ordered = path.source.ordered and path.sink.ordered and chain.name == "stateless"
    rows = path.sink.rows()
    return judge(chain, expected, rows, table=path.sink.keeps, ordered=ordered)
