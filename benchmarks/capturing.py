"""A receiver of change data capture with its log, for benchmarks."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from mainstem_ingress import IngressSource
from mainstem_ingress.log import Log
from mainstem_ingress.process import Task, work


def received(source: IngressSource, rows: int) -> None:
    """Run the receiver of a source until it has stored so many rows."""
    receiver = source.receiver()
    with tempfile.TemporaryDirectory() as folder:
        columns = tuple((column.name, column.type or "") for column in source._extra())
        target = f"{receiver.__module__}:{receiver.__qualname__}"
        task = Task(target, "bench", 0, Path(folder), source.options, columns)
        stop, done = threading.Event(), threading.Event()
        thread = threading.Thread(target=work, args=(task, lambda _: None, stop))
        thread.start()
        while not done.wait(0.02):
            if (
                Path(folder, "receivers", "0").exists()
                and Log(Path(folder)).unread("0", 0)[0] >= rows
            ):
                done.set()
        stop.set()
        thread.join()
