"""Spark's daemon of Python workers, whose workers need no long pause after each task.

It is the module that `spark.python.daemon.module` names in sessions of ours, so Spark starts it on each
machine that has tasks; sources in Python have a daemon of Spark's own beside it. Spark's lets a worker
look through all its objects for garbage after each task, before it can take the next: with pyarrow,
pandas and Polars there are a hundred thousand, which takes longer than the task where a batch is small.
Nearly all of them came with modules and stay as long as the process, so what is alive after a task that
brought some is set aside, and not looked through again. What of it becomes garbage later stays, if it
refers to itself; hence this is done a few times at most.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark import daemon

_Work = Callable[..., int]

#: How often a worker sets aside what is alive. Modules come with its first tasks.
_TIMES = 5


def sparing(work: _Work) -> _Work:
    """Wrap a worker's work on a task: after one that brought modules, what is alive is set aside."""
    known = times = 0

    def worker(*given: Any) -> int:
        nonlocal known, times
        code = work(*given)
        # As Spark says that there will be another task.
        goes_on = code == 0 and os.environ.get("SPARK_REUSE_WORKER")
        if goes_on and times < _TIMES and len(sys.modules) > known:
            known, times = len(sys.modules), times + 1
            gc.collect()  # what is garbage by now is not to stay
            gc.freeze()
        return code

    return worker


if __name__ == "__main__":
    own = getattr(daemon, "worker", None)  # no name that PySpark promises
    if callable(own):
        daemon.worker = sparing(own)
    daemon.manager()
