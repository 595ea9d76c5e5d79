"""Named crash points: places where a test can break a process in the middle of a protocol.

`MAINSTEM_FAILPOINT` arms one: `NAME:N:ACTION`, at the N-th pass (the first when left out).

- `kill` (when left out): as `kill -9` does
- `die`: the same; where `armed` has armed it, raise `Died`
- `raise`: raise `Failpoint`
- `sleep=SECONDS`: stand still for so long
- `drop`: tell the caller to leave out what it is about to do

`MAINSTEM_FAILPOINT_TRACE` names a file to which each point adds its name when it is first passed, so
that a test learns which there are; and the armed one adds the whole `NAME:N:ACTION` when it acts, which
it then does only once, however many processes pass it. Both
reach whatever process inherits the environment: the driver, a
source's process, an executor's worker, a helper.

`MAINSTEM_FAILPOINT_FILE` names a file that says both, on two lines, for processes that have begun
before the point is armed: they look at it with each pass. One that is not there arms nothing.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The variables that arm a point, name the file that tells which are passed, and one that says both.
ARMED, TRACE, FILE = (
    "MAINSTEM_FAILPOINT",
    "MAINSTEM_FAILPOINT_TRACE",
    "MAINSTEM_FAILPOINT_FILE",
)


class Failpoint(Exception):  # noqa: N818
    """Raised by a crash point that was armed to raise."""


class Died(BaseException):
    """Raised by a crash point that was armed to die, and by each that is passed after it.

    The code that it goes through must not catch it, as a process that was killed can not: it stands for
    the kill of a process that lives on for other tests.
    """


def failpoint(name: str) -> bool:
    """Do what this point was armed to do; whether the caller is to drop its next step.

    Unarmed, a pass costs one look at a global.

    Raises:
        Failpoint: the point is armed with `raise`.
        Died: it is armed with `die` in this process, or another one was and has been passed.
    """
    return _armed.passed(name) if _armed is not None else False


@contextmanager
def armed(where: str = "", trace: str = "") -> Iterator[None]:
    """Arm a point in this process alone, in place of what the environment says.

    Args:
        where: as in `MAINSTEM_FAILPOINT`; no point when left out.
        trace: as in `MAINSTEM_FAILPOINT_TRACE`.
    """
    global _armed  # what a pass looks at
    before, _armed = _armed, _Armed(where, trace, here=True)
    try:
        yield
    finally:
        _armed = before


class _Armed:
    """A point that is armed, and what was passed so far; `here` by `armed`, else by the environment."""

    def __init__(self, where: str, trace: str, *, here: bool) -> None:
        self._where = where
        self._name, _, how = where.partition(":")
        at, _, self._action = how.partition(":")
        self._at = int(at or 1)
        self._trace = Path(trace) if trace else None
        self._here = here
        self._passes: dict[str, int] = {}
        self._died = False

    def passed(self, name: str) -> bool:
        if self._died:
            raise Died(self._name)
        count = self._passes[name] = self._passes.get(name, 0) + 1
        if count == 1:
            self._tell(name)
        if name != self._name or count != self._at:
            return False
        if self._trace is not None and self._where in self._trace.read_text().split():
            return False  # it has acted, in a process that was started again since
        self._tell(self._where)
        word, _, argument = self._action.partition("=")
        if word == "die" and self._here:
            self._died = True
            raise Died(name)
        if word == "raise":
            raise Failpoint(name)
        if word == "sleep":
            time.sleep(float(argument))
        elif word in ("", "kill", "die"):
            os.kill(os.getpid(), signal.SIGKILL)
        return word == "drop"

    def _tell(self, line: str) -> None:
        if self._trace is not None:
            with self._trace.open("a") as trace:
                trace.write(f"{line}\n")


class _ByFile:
    """What a file says now, as it is written and removed by another process."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known: tuple[int, int] | None = None
        self._armed: _Armed | None = None

    def passed(self, name: str) -> bool:
        try:
            found = Path(self._file).stat()
            known = (found.st_ino, found.st_mtime_ns)
            if known != self._known:
                where, _, trace = Path(self._file).read_text().partition("\n")
                self._known, self._armed = known, _Armed(where, trace.strip(), here=False)
        except FileNotFoundError:
            self._known = self._armed = None
        return self._armed.passed(name) if self._armed is not None else False


def _of_environment() -> _Armed | _ByFile | None:
    where, trace = os.environ.get(ARMED, ""), os.environ.get(TRACE, "")
    if where or trace:
        return _Armed(where, trace, here=False)
    return _ByFile(file) if (file := os.environ.get(FILE)) else None


_armed = _of_environment()
