"""Named crash points: places where a test can kill the process in the middle of a protocol."""

from __future__ import annotations

import os
import signal

_ARMED = os.environ.get("MAINSTEM_FAILPOINT", "")
_passes: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Kill this process, as `kill -9` does, if the environment armed this point.

    `MAINSTEM_FAILPOINT=files.after-rename:3` kills at the third pass of that point. Unarmed, a
    pass costs one comparison.
    """
    if _ARMED and _ARMED.partition(":")[0] == name:
        _passes[name] = _passes.get(name, 0) + 1
        if _passes[name] == int(_ARMED.partition(":")[2] or 1):
            os.kill(os.getpid(), signal.SIGKILL)
