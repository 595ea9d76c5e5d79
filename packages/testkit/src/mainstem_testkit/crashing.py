"""Kills a pipeline at each of its crash points, and shows that nothing came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from mainstem_testkit.pipelines import PipelineFolder, wait_for

#: What a test says of a pipeline that ran to its end: raises AssertionError if something is wrong.
Oracle = Callable[[PipelineFolder], None]

_GONE = 30.0
#: How often a pass that did not come is tried again.
_AGAIN = 3


def crash_points(pipeline: PipelineFolder) -> list[str]:
    """Return the crash points that a pipeline passes, in order; runs it to its end.

    Raises:
        AssertionError: the run fails.
    """
    trace = pipeline.folder / "crash-points"
    trace.unlink(missing_ok=True)
    ended = pipeline.command(MAINSTEM_FAILPOINT_TRACE=str(trace))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    points = trace.read_text().split() if trace.exists() else []
    return list(dict.fromkeys(points))  # each process traces for itself


def crash_at_every_point(
    pipeline: PipelineFolder,
    oracle: Oracle,
    *,
    points: Callable[[list[str]], Sequence[str]] | None = None,
    passes: tuple[int, ...] = (1,),
    action: str = "kill",
    before: Callable[[PipelineFolder], None] | None = None,
    meanwhile: Oracle | None = None,
) -> list[str]:
    """Run a pipeline once for each crash point, break it there, run it again, and ask the oracle.

    The pipeline is one that ends, with what it reads in its folder or brought by `before`; its
    document has relative paths. Each trial works on a copy. The broken run is a process of its own,
    which must come to the point and leave no process behind; the second runs in this process.

    Args:
        oracle: looks at what came out of a whole run, and of each pair of runs.
        points: chooses among those that a whole run passes; all when left out.
        passes: at which passes of each point; those that do not come are left out, but one must: where
            processes work side by side, whether they come to it may be a matter of time, so the first
            is tried again, a few times.
        action: what happens there, as in `MAINSTEM_FAILPOINT`: `kill`, `raise`, `drop`.
        before: brings in place what the pipeline reads, or empties what it writes outside its folder.
        meanwhile: looks at what readers see between the two runs.

    Returns:
        The points.

    Raises:
        AssertionError: something was lost or doubled, or a point was not passed; tells all of them.
    """
    failures = []
    with tempfile.TemporaryDirectory(prefix="mainstem-crash-", ignore_cleanup_errors=True) as place:

        def trial(name: str) -> PipelineFolder:
            copy = pipeline.copy(Path(place, name))
            if before is not None:
                before(copy)
            return copy

        whole = trial("whole")
        found = crash_points(whole)
        oracle(whole)
        chosen = list(points(found)) if points is not None else found
        assert chosen, "the pipeline passes no crash point"
        for point in chosen:
            broken = 0
            for attempt, number in enumerate((*passes, *passes[:1] * _AGAIN)):
                if attempt >= len(passes) and broken:
                    break
                where = f"{point}:{number}:{action}"
                copy = trial(f"{where.replace(':', '-')}-{attempt}")
                try:
                    if not _break(copy, where):
                        continue
                    broken += 1
                    if meanwhile is not None:
                        meanwhile(copy)
                    copy.run()
                    oracle(copy)
                except Exception as error:
                    failures.append(f"{where}: {error}")
            if not broken:
                failures.append(f"{point}: never passed")
    if failures:
        raise AssertionError("\n".join(failures))
    return chosen


def _break(pipeline: PipelineFolder, where: str) -> bool:
    """Run a pipeline with a crash point armed; whether it came there."""
    trace = pipeline.folder / "crash-points"
    armed = {"MAINSTEM_FAILPOINT": where, "MAINSTEM_FAILPOINT_TRACE": str(trace)}
    with pipeline.start(**armed) as process:
        ended = process.wait()
        came = trace.exists() and where in trace.read_text().split()
        assert came or ended.returncode == 0, f"failed before it came there:\n{ended.stderr}"
        wait_for(lambda: not process.living(), _GONE)  # what it started ends with it
        return came
