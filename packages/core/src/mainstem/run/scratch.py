"""Where a run keeps what it needs while it lasts: Spark's shuffles, and libraries that Java unpacks.

A run that is killed leaves that behind. So each process has a folder for it that is named after the
checkpoint, and the next run of the checkpoint removes those of processes that are gone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from mainstem.durable import private_folder
from mainstem.plan.model import Plan

#: The longest path that Spark can put its sockets in: theirs have 108 characters at most.
_LONGEST = 64


def scratch_of(plan: Plan, process: int) -> Path:
    """Return the folder of a process that runs a plan; it need not be there."""
    name = hashlib.sha256(str(plan.checkpoint.absolute()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir(), f"mainstem-{os.getuid()}", f"{name}-{process}")


def own_scratch(plan: Plan) -> Path | None:
    """Return this process's folder, made; remove what others that ran the plan have left.

    None where it can't be made, is somebody else's, or the path would be too long: Spark then takes the
    system's folder, and leaves there what it leaves.
    """
    folder = scratch_of(plan, os.getpid())
    if len(str(folder)) > _LONGEST:
        return None
    try:
        above = private_folder(folder.parent).stat()
        if above.st_uid != os.getuid() or above.st_mode & 0o077:
            return None  # others could put files there
        private_folder(folder)
    except OSError:
        return None
    beginning = folder.name.partition("-")[0]
    for left in folder.parent.glob(f"{beginning}-*"):
        if not Path("/proc", left.name.partition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return folder
