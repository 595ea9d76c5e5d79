"""Checks that every machine of a cluster sees what must be shared."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import MachineError
from mainstem.plan.model import Plan
from mainstem.run.failures import without_core

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_shared(plan: Plan, spark: SparkSession) -> None:
    """Put a file into each folder that must be shared, and let the executors look for it.

    Raises:
        MachineError: an executor does not see one, with which and from which host; or one has no core of
            ours.
    """
    probes: list[Path] = []
    places: dict[str, str] = {}
    try:
        for name, path in plan.shared().items():
            whole = next(p for p in (path, *path.parents) if "*" not in str(p))
            places[name] = str(whole)
            if whole.is_file():
                continue
            probe = whole / f".probe-{uuid.uuid4()}"
            try:
                whole.mkdir(parents=True, exist_ok=True)
                probe.write_text("")
            except OSError as error:
                if not whole.is_dir():
                    raise MachineError(f"{name}: {whole}: {error.strerror}") from None
                continue  # it is there, and may be read alone
            probes.append(probe)
            places[name] = str(probe)
        if not places:
            return

        def look(_: object) -> list[tuple[str, str]]:
            import socket

            return [(n, socket.gethostname()) for n, p in places.items() if not os.path.exists(p)]  # noqa: PTH110

        context = spark.sparkContext
        tasks = 2 * max(2, context.defaultParallelism)
        try:
            unseen = sorted(set(context.parallelize(range(tasks), tasks).flatMap(look).collect()))
        except Exception as error:
            if absent := without_core(error):
                raise absent from error
            raise
    finally:
        for probe in probes:
            probe.unlink(missing_ok=True)
    if unseen:
        name, host = unseen[0]
        raise MachineError(
            f"{name}: {plan.shared()[name]} is not shared: an executor on {host} does not see what "
            "the driver writes there. Put it on storage that all machines mount."
        )
