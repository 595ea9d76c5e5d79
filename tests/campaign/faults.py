"""What is broken while a pipeline runs. Each does its harm, and leaves all healed when it returns."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mainstem_testkit.pipelines import PipelineFolder, Process

from campaign.clock import Clock
from campaign.places import ROOT, Place

#: How large the file system is on which a round works, in MiB: so that it can be filled.
DISK = 256


@dataclass
class Job:
    """The pipeline of a round: its process, which is started again whenever it ends.

    Attributes:
        points: the crash points that it may pass.
        clock: that of its processes, where one can be moved.
        own_ends: the codes with which it ended by itself, and the last thing that it said.
    """

    pipeline: PipelineFolder
    env: dict[str, str] = field(default_factory=dict)
    points: Sequence[str] = ()
    clock: Clock | None = None
    own_ends: list[str] = field(default_factory=list)
    process: Process | None = None

    def keep_running(self) -> None:
        if self.process is not None and not self.process.running:
            ended = self.process.wait()
            if ended.returncode != -signal.SIGKILL:  # that was a crash point
                self.own_ends.append(f"{ended.returncode}: {ended.stderr[-600:]}")
            self.end()
        if self.process is None:
            clock = self.clock.env if self.clock else {}
            self.process = self.pipeline.start(**clock, **self.env)

    def end(self) -> None:
        """Kill it and all that it started."""
        if self.process is not None:
            self.process.end()
            self.process = None

    def pids(self, *words: str) -> list[int]:
        """Return the processes below it whose command line has all of the words."""
        found = []
        for pid in self.process.living() if self.process else ():
            with suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                if all(word in line for word in words):
                    found.append(pid)
        return found


#: Does one kind of harm; may say more of it.
Fault = Callable[[Job, random.Random], str | None]


def driver(job: Job, chance: random.Random) -> None:
    if job.process is not None:
        job.process.kill()
        job.end()


def step(job: Job, chance: random.Random) -> str:
    """Restart, and be killed when a step of a protocol is come to, once."""
    armed = f"{chance.choice(job.points)}:{chance.choice([1, 1, 2, 5])}:kill"
    trace = job.pipeline.folder / f".passed-{len(list(job.pipeline.folder.glob('.passed-*')))}"
    trace.touch()
    job.env |= {"MAINSTEM_FAILPOINT": armed, "MAINSTEM_FAILPOINT_TRACE": str(trace)}
    driver(job, chance)
    return armed


def receiver(job: Job, chance: random.Random) -> None:
    _kill(job.pids("mainstem_ingress.process"), chance)


def worker(job: Job, chance: random.Random) -> None:
    """Kill a Python worker of the executor: Spark tries the task again."""
    there = [*job.pids("worker_daemon"), *job.pids("pyspark.daemon")]
    _kill([pid for pid in there if _parent(pid) in there], chance)


def helper(job: Job, chance: random.Random) -> None:
    """Kill a process that a source has started, and that is no receiver: such as one that serves HTTP."""
    _kill(job.pids("mainstem_direct_webhook"), chance)


def stopped(job: Job, chance: random.Random) -> None:
    """Let the whole pipeline stand still: for others it is there, and does nothing."""
    pids = job.process.living() if job.process else []
    _signal(pids, signal.SIGSTOP)
    time.sleep(chance.uniform(0.2, 3))
    _signal(pids, signal.SIGCONT)


def second_run(job: Job, chance: random.Random) -> None:
    """Let somebody else start the same document, for a while."""
    clock = job.clock.env if job.clock else {}
    with job.pipeline.start(**clock, **job.env):
        time.sleep(chance.uniform(3, 15))


def clock_moved(job: Job, chance: random.Random) -> str:
    """Let the wall clock jump. Spark's triggers wait for as long as it goes back by, so that is little."""
    by = chance.choice([3600, 60, 2, -1, -5])
    if job.clock is not None:
        job.clock.move(by)
    return f"{by:+} s"


def full_disk(job: Job, chance: random.Random) -> None:
    ballast = job.pipeline.folder / ".ballast"
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    time.sleep(chance.uniform(0.2, 2))
    ballast.unlink(missing_ok=True)


def server_killed(place: Place, chance: random.Random) -> None:
    place.server.kill()
    time.sleep(chance.uniform(0, 1))
    place.server.start()


def server_still(place: Place, chance: random.Random) -> None:
    place.server.pause()
    time.sleep(chance.uniform(0.1, 3))
    place.server.resume()


def cut(place: Place, chance: random.Random) -> None:
    place.proxy.cut()


def refused(place: Place, chance: random.Random) -> None:
    place.proxy.refuse()
    place.proxy.cut()
    time.sleep(chance.uniform(0.1, 2))
    place.proxy.heal()


def swallowed(place: Place, chance: random.Random) -> None:
    """Swallow what is on its way, then break what has lost it: TCP would never lose the middle."""
    place.proxy.blackhole()
    time.sleep(chance.uniform(0.1, 2))
    place.proxy.cut()
    place.proxy.heal()


def answer_lost(place: Place, chance: random.Random) -> None:
    place.proxy.drop_answer(chance.randrange(1, 20))
    time.sleep(1)
    place.proxy.heal()


def garbled(place: Place, chance: random.Random) -> None:
    """Let an answer be noise, and break what has told it."""
    place.proxy.garble(chance.randrange(1, 20))
    time.sleep(1)
    place.proxy.heal()


def slow(place: Place, chance: random.Random) -> None:
    place.proxy.delay(chance.uniform(0.01, 0.2))
    time.sleep(chance.uniform(0.5, 3))
    place.proxy.heal()


#: What is done to a server, or to the connections to it.
AROUND: Mapping[str, Callable[[Place, random.Random], None]] = {
    "kill": server_killed,
    "still": server_still,
    "cut": cut,
    "refuse": refused,
    "silent": swallowed,
    "answer": answer_lost,
    "noise": garbled,
    "slow": slow,
}


def faults(
    used: Mapping[str, tuple[Place, bool]], sources: Sequence[Any], *, disk: bool, clock: bool
) -> dict[str, Fault]:
    """Return the harm that fits a round, by name.

    Args:
        used: the servers that its pipelines speak to, and whether they may be killed.
        sources: of its paths.
        disk: whether it has a file system of its own.
        clock: whether it has a clock of its own.
    """
    made: dict[str, Fault] = {
        "driver killed": driver,
        "killed at a step": step,
        "worker killed": worker,
        "process stopped": stopped,
        "run a second time": second_run,
    }
    if any(s.receives for s in sources):
        made["receiver killed"] = receiver
    if any(s.name == "webhook" for s in sources):
        made["helper killed"] = helper
    if clock:
        made["clock moved"] = clock_moved
    if disk:
        made["disk full"] = full_disk
    for name, (place, killable) in used.items():
        for what, harm in AROUND.items():
            if what != "kill" or killable:
                made[f"{name}: {what}"] = partial(_around, harm, place)
    return made


def _around(
    harm: Callable[[Place, random.Random], None], place: Place, job: Job, chance: random.Random
) -> None:
    harm(place, chance)


#: What `{points}` stands for where the source `sql` writes what it has read.
_WRITTEN = ("sql.poll", "sql.snapshot")


def points(*prefixes: str) -> list[str]:
    """Return the crash points of Mainstem whose names begin with one of some words."""
    found: set[str] = set()
    for file in ROOT.glob("packages/*/src/**/*.py"):
        for name in re.findall(r'failpoint\(f?"([^"]+)"\)', file.read_text()):
            found.update(name.replace("{points}", each) for each in _WRITTEN)
    return sorted(name for name in found if name.partition(".")[0] in prefixes)


def mounted(folder: Path) -> bool:
    """Give a folder a file system of its own; whether that is allowed here."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", str(folder)]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def _kill(pids: Sequence[int], chance: random.Random) -> None:
    if pids:
        _signal([chance.choice(pids)], signal.SIGKILL)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
