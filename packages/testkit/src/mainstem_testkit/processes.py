"""What this process and those that it started hold: memory, threads, files and sockets (Linux)."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType


def descendants(of: int | None = None) -> list[int]:
    """Return the living processes that a process started, and those that these started."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(stat.parent.name))
    found, todo = [], [of or os.getpid()]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def pythons() -> list[int]:
    """Return this process and its descendants that are Python's: of the driver and of Spark."""
    return [os.getpid(), *(pid for pid in descendants() if "python" in _name(pid))]


def resident() -> Mapping[int, int]:
    """Return the resident memory of Python's processes, in bytes."""
    page = os.sysconf("SC_PAGE_SIZE")
    found = {}
    for pid in pythons():
        with suppress(OSError):
            found[pid] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
    return found


@dataclass(frozen=True)
class Resources:
    """Counts of what is held: all processes below this one; threads, files and sockets of its own.

    Without the thread and the socket over which py4j waits for a call of Java's: each query that was
    ever started has left one such pair.
    """

    processes: int
    threads: int
    files: int
    sockets: int
    #: What the files are.
    names: tuple[str, ...] = ()

    @classmethod
    def now(cls) -> Resources:
        """Return what is held at this moment."""
        held = []
        for file in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                held.append(str(file.readlink()))
        names = tuple(name for name in held if not name.startswith("socket:"))
        sockets = len(held) - len(names)
        threads = len(list(Path("/proc/self/task").iterdir()))
        waiting = sum(map(_waits_for_java, sys._current_frames().values()))
        return cls(len(descendants()), threads - waiting, len(names), sockets - waiting, names)

    def grown(self, since: Resources, *, by: int) -> list[str]:
        """Return what grew by so many or more, in words; of files, which are new."""
        found = []
        for what in ("processes", "threads", "files", "sockets"):
            count = getattr(self, what) - getattr(since, what)
            if count >= by:
                new = Counter(self.names) - Counter(since.names) if what == "files" else ()
                found.append(f"{count} {what}" + (f" ({', '.join(new)})" if new else ""))
        return found


def _waits_for_java(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "wait_for_commands":
            return True
        frame = frame.f_back
    return False


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""
