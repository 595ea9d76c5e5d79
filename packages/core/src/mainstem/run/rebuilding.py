"""Rebuilds what sinks hold: beside, by a replay, and then put in place at once.

The long part, the replay, runs beside the pipeline. To put its result in place the pipeline must stand
still: what came since is replayed under its lock, then each sink is swapped. The pipeline then writes
again what it has not written and the replay has; the sinks' delivery knows those rows.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstem.contracts.abilities import Rewindable, Swappable
from mainstem.contracts.components import Source
from mainstem.errors import PipelineError
from mainstem.history import History
from mainstem.plan.bootstrap import reads_of
from mainstem.plan.model import Plan
from mainstem.plan.replay import REBUILT
from mainstem.run import swapping
from mainstem.run.checkpoint import AlreadyRunning, Checkpoint


def rebuild(plan: Plan, replay: Plan, run: Callable[[], bool], *, fresh: bool) -> bool:
    """Rebuild the sinks of a replay that are named for it, and put them in place.

    Args:
        plan: the pipeline's.
        replay: the replay's, made with `rebuild`.
        run: runs the replay on its checkpoint; returns whether it has caught up.
        fresh: start over, whatever an earlier try has left.

    Returns:
        Whether all is in place; not if the replay was interrupted.

    Raises:
        PipelineError: the pipeline runs, and what is rebuilt stays for the next try; or a source no
            longer has all that was read.
    """
    names = [name.removesuffix(REBUILT) for name in replay.nodes if name.endswith(REBUILT)]
    if pending := swapping.pending(plan):
        with Checkpoint(plan, checked=False):  # which finishes it
            pass
        if set(names) <= set(pending):
            return True
    _complete(plan, replay)
    with Checkpoint(replay, checked=False):  # held, so that nobody goes on from what is removed
        if fresh or not swapping.begun(replay.checkpoint):
            swapping.forget(replay.checkpoint)
            for name in names:
                built = replay.nodes[f"{name}{REBUILT}"].component
                assert isinstance(built, Swappable)  # noqa: S101
                built.clear()
    if not run():
        return False
    try:
        with Checkpoint(plan, checked=False):
            if not run():  # what has come since
                return False
            swapping.begin(plan, names, replay.checkpoint)
    except AlreadyRunning as error:
        if error.path != plan.checkpoint:
            raise
        raise PipelineError(
            f"{', '.join(names)}: rebuilt, and not put in place: {error}. Stop the pipeline and run "
            "the same command again: it goes on from here."
        ) from None
    return True


def _complete(plan: Plan, replay: Plan) -> None:
    """Refuse a rebuild from less than all: what is missing would be gone from the sink."""
    for query in plan.queries:
        for name in query.reads:
            if name not in replay.nodes:
                continue
            source = plan.nodes[name].component
            assert isinstance(source, Source)  # noqa: S101
            assert isinstance(source, Rewindable)  # noqa: S101
            history = History(plan.query_folder(query.name))
            for read in reads_of(query, name):
                if gone := source.gone(history.beginning(read, plan.home(name))):
                    raise PipelineError(f"{name} no longer has all that was read: {gone}")
