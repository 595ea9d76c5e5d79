"""Kills a pipeline at each of its crash points, and shows that nothing came of it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from mainstem.crashpoints import ARMED, FILE, TRACE, Died, armed

from mainstem_testkit.pipelines import PipelineFolder, wait_for

#: What a test says of a pipeline that ran to its end: raises AssertionError if something is wrong.
Oracle = Callable[[PipelineFolder], None]

_GONE = 30.0
#: How often a pass that did not come is retried.
_AGAIN = 3


def crash_points(pipeline: PipelineFolder, *, here: bool = False) -> list[str]:
    """Return the crash points that a pipeline passes, in order; runs it to its end.

    Args:
        here: run it in this process.

    Raises:
        AssertionError: the run fails.
    """
    trace = pipeline.folder / "crash-points"
    trace.unlink(missing_ok=True)
    if here:
        with _armed_here(pipeline, "", trace):
            pipeline.run()
    else:
        ended = pipeline.command(**{TRACE: str(trace)})
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
    here: bool = False,
    before: Callable[[PipelineFolder], None] | None = None,
    meanwhile: Oracle | None = None,
) -> list[str]:
    """Run a pipeline once for each crash point, break it there, run it again, and ask the oracle.

    The pipeline is one that ends, with what it reads in its folder or brought by `before`; its
    document has relative paths. Each trial works on a copy. The broken run is a process of its own,
    which must come to the point and leave no process behind; the second runs in this process.

    With `here` the broken run is in this process too, on the shared session, in a third of the time:
    helper processes and Spark's Python workers that pass the point are killed, the driver raises
    `crashpoints.Died` there and at each point after it. That shows nothing of what rests on the memory of
    the driver's process, nor of what an `except` or a `finally` makes good.

    Args:
        oracle: looks at what came out of a whole run, and of each pair of runs.
        points: chooses among those that a whole run passes; all when left out.
        passes: at which passes of each point; those that do not come are left out, but one must: where
            processes work side by side, whether they come to it may be a matter of time, so the first
            is retried, a few times.
        action: what happens there, as in `MAINSTEM_FAILPOINT`: `kill`, `raise`, `drop`.
        here: break it in this process, by `die` in place of `action`.
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
        found = crash_points(whole, here=True)  # the same as in a process of its own, for less
        oracle(whole)
        chosen = list(points(found)) if points is not None else found
        assert chosen, "the pipeline passes no crash point"
        for point in chosen:
            broken = 0
            for attempt, number in enumerate((*passes, *passes[:1] * _AGAIN)):
                if attempt >= len(passes) and broken:
                    break
                where = f"{point}:{number}:{'die' if here else action}"
                copy = trial(f"{where.replace(':', '-')}-{attempt}")
                try:
                    if not (_break_here if here else _break)(copy, where):
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
    with pipeline.start(**{ARMED: where, TRACE: str(trace)}) as process:
        ended = process.wait()
        came = _came(trace, where)
        assert came or ended.returncode == 0, f"failed before it came there:\n{ended.stderr}"
        wait_for(lambda: not process.living(), _GONE)  # what it started ends with it
        return came


def _break_here(pipeline: PipelineFolder, where: str) -> bool:
    """Run a pipeline in this process with a crash point armed; whether it came there."""
    trace = pipeline.folder / "crash-points"
    with _armed_here(pipeline, where, trace):
        try:
            pipeline.run()
        except (Exception, Died):
            if not _came(trace, where):
                raise
    return _came(trace, where)


def _came(trace: Path, where: str) -> bool:
    return trace.exists() and where in trace.read_text().split()


@contextmanager
def _armed_here(pipeline: PipelineFolder, where: str, trace: Path) -> Iterator[None]:
    """Arm a point in this process, in those that it starts, and in Spark's workers for code of ours."""
    from mainstem.run.session import start

    # Before, or Spark's process would be armed for good.
    start(pipeline.plan())
    told = {ARMED: where, TRACE: str(trace)}
    complain = threading.excepthook

    def hook(ended: threading.ExceptHookArgs) -> None:
        if not issubclass(ended.exc_type, Died):
            complain(ended)

    workers = Path(os.environ[FILE])
    hidden = workers.with_suffix(".new")
    hidden.write_text(f"{where}\n{trace}")
    hidden.replace(workers)
    try:
        with (
            patch.dict(os.environ, told),
            patch.object(threading, "excepthook", hook),
            armed(where, str(trace)),
        ):
            yield
    finally:
        workers.unlink()
