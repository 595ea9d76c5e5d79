"""Spark's daemon of Python workers, whose pauses between tasks do not grow with what is imported.

It is the module that `spark.python.daemon.module` names in sessions of ours, so Spark starts it on each
machine. Spark's own lets a worker look through all its objects for garbage after each task, before the
next can have it: with pyarrow, pandas and Polars there are a hundred thousand, which takes longer than
the task where a batch is small. What modules have brought stays as long as the process, so it is set
aside once, and not looked through again.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from pyspark import daemon

_Work = Callable[..., int]


def sparing(work: _Work) -> _Work:
    """Return a worker's work on a task that sets aside what is there whenever modules have come."""
    known = 0

    def worker(*given: Any) -> int:
        nonlocal known
        code = work(*given)
        if len(sys.modules) > known:
            known = len(sys.modules)
            gc.collect()  # what is garbage by now is not to stay
            gc.freeze()
        return code

    return worker


if __name__ == "__main__":
    daemon.worker = sparing(daemon.worker)
    daemon.manager()
