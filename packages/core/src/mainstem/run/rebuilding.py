"""Rebuilds what sinks hold: beside, by a replay, and then put in place at once.

The long part, the replay, runs beside the pipeline. To put its result in place the pipeline must stand
still: what came since is replayed under its lock, then each sink is swapped. The pipeline then writes
again what it has not written and the replay has; the sinks' delivery knows those rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any

from mainstem.contracts.abilities import Swappable
from mainstem.crashpoints import failpoint
from mainstem.errors import PipelineError
from mainstem.plan.model import Plan
from mainstem.plan.replaying import REBUILT
from mainstem.run.checkpoint import Checkpoint

#: Stands in the replay's checkpoint from when all is rebuilt until all is in place.
_MARK = "swapping"


def rebuild(plan: Plan, replay: Plan, run: Callable[[], bool], *, fresh: bool) -> bool:
    """Rebuild the sinks of a replay that are named for it, and put them in place.

    Args:
        plan: the pipeline's.
        replay: the replay's, made with `rebuild`.
        run: runs the replay on its checkpoint; returns whether it has caught up.
        fresh: begin anew, whatever an earlier try has left.

    Returns:
        Whether all is in place; not if the replay was interrupted.

    Raises:
        PipelineError: the pipeline runs; what is rebuilt stays for the next try.
    """
    pairs = {name.removesuffix(REBUILT): name for name in replay.nodes if name.endswith(REBUILT)}
    mark = replay.checkpoint / _MARK
    if mark.exists():  # killed while it put things in place
        with Checkpoint(plan, checked=False):
            _put_in_place(plan, replay, pairs)
        return True
    if fresh or not replay.checkpoint.exists():
        shutil.rmtree(replay.checkpoint, ignore_errors=True)
        for name in pairs.values():
            _swappable(replay, name).clear()
    if not run():
        return False
    try:
        with Checkpoint(plan, checked=False):
            if not run():  # what has come since
                return False
            mark.touch()
            _put_in_place(plan, replay, pairs)
    except PipelineError as error:
        if "is already running" not in str(error):
            raise
        raise PipelineError(
            f"{', '.join(pairs)}: rebuilt, and not put in place: {error}. Stop the pipeline and run "
            "the same command again: it goes on from here."
        ) from None
    return True


def _put_in_place(plan: Plan, replay: Plan, pairs: Mapping[str, str]) -> None:
    for name, built in pairs.items():
        failpoint("rebuild.before-swap")
        _swappable(plan, name).swap(replay.nodes[built].component)
    failpoint("rebuild.after-swap")
    shutil.rmtree(replay.checkpoint)


def _swappable(plan: Plan, name: str) -> Any:
    sink = plan.nodes[name].component
    assert isinstance(sink, Swappable)  # noqa: S101
    return sink
