"""Puts sinks that were rebuilt beside in place of those that readers see.

A file in the pipeline's checkpoint stands from the moment at which all is rebuilt until all is in
place, and whoever holds the checkpoint next finishes what it says: nothing is written to a sink that is
about to be taken away.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from mainstem.contracts.abilities import Swappable
from mainstem.crashpoints import failpoint
from mainstem.durable import read_whole, write_whole
from mainstem.errors import PipelineError
from mainstem.plan.model import Plan
from mainstem.plan.replay import REBUILT

_MARK = "swapping"
#: Of a checkpoint: there from its first run on.
_BEGUN = "pipeline.json"


def pending(plan: Plan) -> list[str]:
    """Return the sinks that a process was killed over while it put them in place."""
    mark = plan.checkpoint / _MARK
    return list(json.loads(read_whole(mark))["sinks"]) if mark.exists() else []


def begin(plan: Plan, names: Iterable[str], replayed: Path) -> None:
    """Put rebuilt sinks in place; the caller holds the pipeline's checkpoint.

    Args:
        names: the sinks, by their names in the pipeline.
        replayed: the checkpoint of the replay that has rebuilt them, which is removed.
    """
    write_whole(plan.checkpoint / _MARK, json.dumps({"sinks": [*names], "replayed": str(replayed)}))
    finish(plan)


def finish(plan: Plan) -> None:
    """Put in place what is to be put there, if there is anything; harmless when repeated."""
    mark = plan.checkpoint / _MARK
    if not mark.exists():
        return
    told = json.loads(read_whole(mark))
    for name in told["sinks"]:
        node = plan.nodes.get(name)
        sink = node.component if node else None
        if not isinstance(sink, Swappable):
            raise PipelineError(
                f"{name}: was rebuilt and is to be put in place, and is no sink here that can be. "
                f"Name it as it was, or remove {mark} to leave what is there"
            )
        failpoint("rebuild.before-swap")
        sink.swap(sink.beside(REBUILT))
    failpoint("rebuild.after-swap")
    forget(Path(told["replayed"]))
    mark.unlink()


def forget(checkpoint: Path) -> None:
    """Remove a replay's checkpoint, in an order that never leaves a part that seems to be whole."""
    (checkpoint / _BEGUN).unlink(missing_ok=True)
    failpoint("rebuild.forgetting")
    shutil.rmtree(checkpoint, ignore_errors=True)


def begun(checkpoint: Path) -> bool:
    """Whether a replay has begun, so that it can go on."""
    return (checkpoint / _BEGUN).exists()
