"""Checks that every machine of a cluster sees what must be shared."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import MachineError
from mainstem.plan.model import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_shared(plan: Plan, spark: SparkSession) -> None:
    """Put a file at each path that must be shared, and let the executors look for it.

    Raises:
        MachineError: an executor does not see one; says which, and from which host.
    """
    probes: dict[str, Path] = {}
    try:
        for name, path in plan.shared().items():
            folder = next(p for p in (path, *path.parents) if "*" not in str(p))
            folder.mkdir(parents=True, exist_ok=True)
            probes[name] = folder / f".probe-{uuid.uuid4()}"
            probes[name].write_text("")
        if not probes:
            return
        places = {name: str(probe) for name, probe in probes.items()}

        def look(_: object) -> list[tuple[str, str]]:
            import socket

            return [(n, socket.gethostname()) for n, p in places.items() if not os.path.exists(p)]  # noqa: PTH110

        context = spark.sparkContext
        tasks = 2 * max(2, context.defaultParallelism)
        unseen = sorted(set(context.parallelize(range(tasks), tasks).flatMap(look).collect()))
    finally:
        for probe in probes.values():
            probe.unlink(missing_ok=True)
    if unseen:
        name, host = unseen[0]
        raise MachineError(
            f"{name}: {plan.shared()[name]} is not shared: an executor on {host} does not see what "
            "the driver writes there. Put it on storage that all machines mount."
        )
