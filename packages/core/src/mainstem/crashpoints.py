"""Named crash points: places where a test can break a process in the middle of a protocol.

`MAINSTEM_FAILPOINT` arms one: `NAME:N:ACTION`, at the N-th pass (the first when left out).

- `kill` (when left out): as `kill -9` does
- `raise`: raise `Failpoint`
- `sleep=SECONDS`: stand still for so long
- `drop`: tell the caller to leave out what it is about to do

`MAINSTEM_FAILPOINT_TRACE` names a file to which each point adds its name when it is first passed, so
that a test learns which there are; and the armed one adds the whole `NAME:N:ACTION` when it acts, which
it then does only once, however many processes pass it. Both
reach whatever process inherits the environment: the driver, a
source's process, an executor's worker, a helper.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

_NAME, _, _HOW = os.environ.get("MAINSTEM_FAILPOINT", "").partition(":")
_TRACE = os.environ.get("MAINSTEM_FAILPOINT_TRACE", "")
_WATCHED = bool(_NAME or _TRACE)
_passes: dict[str, int] = {}


class Failpoint(Exception):  # noqa: N818
    """Raised by a crash point that was armed to raise."""


def failpoint(name: str) -> bool:
    """Do what the environment armed this point to do; whether the caller is to drop its next step.

    Unarmed, a pass costs one look at a global.

    Raises:
        Failpoint: the point is armed with `raise`.
    """
    return _passed(name) if _WATCHED else False


def _passed(name: str) -> bool:
    count = _passes[name] = _passes.get(name, 0) + 1
    if _TRACE and count == 1:
        with Path(_TRACE).open("a") as trace:
            trace.write(f"{name}\n")
    at, _, action = _HOW.partition(":")
    if name != _NAME or count != int(at or 1):
        return False
    if _TRACE:
        armed = f"{_NAME}:{_HOW}"
        if armed in Path(_TRACE).read_text().split():
            return False  # it has acted, in a process that was started again since
        with Path(_TRACE).open("a") as trace:
            trace.write(f"{armed}\n")
    word, _, argument = action.partition("=")
    if word == "raise":
        raise Failpoint(name)
    if word == "sleep":
        time.sleep(float(argument))
    elif word in ("", "kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return word == "drop"
