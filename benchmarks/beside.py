"""Work of ours next to a bare client's, in turn."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mainstem_ingress import IngressOptions, Receiver
from mainstem_ingress.log import Log
from mainstem_ingress.loop import Taking
from mainstem_ingress.process import collect_seldom
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import fields_of
from mainstem_ingress.writer import Store

#: How often it is looked whether enough is stored, in seconds.
_LOOK = 0.005


def compare(
    name: str, count: int, what: str, ours: Callable[[], None], bare: Callable[[], None], runs: int
) -> None:
    """Print how many of something both do a second, and their ratio.

    Args:
        count: how many each does in a run.
        what: of what, in the plural.
        runs: of each; the figures are their medians.
    """
    seconds: dict[Callable[[], None], list[float]] = {ours: [], bare: []}
    for _ in range(runs):
        for work, taken in seconds.items():
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
    mine, other = (count / statistics.median(taken) for taken in seconds.values())
    print(f"{name}: {mine:,.0f} {what}/s, bare client {other:,.0f}: {mine / other:.2f}")


def store(receiver: Receiver, folder: Path, count: int, added: Sequence[tuple[str, str]]) -> None:
    """Let a receiver work as its process does, until so many messages are in durable segments.

    Args:
        folder: of the log, made here.
        added: names and types of the columns that the source adds.
    """
    collect_seldom()
    log, stop = Log(folder), threading.Event()
    log.receiver(0).mkdir(parents=True)
    made = Store(log, 0, IngressOptions(), fields_of(added))

    # Told once a second, which is too coarse for these.
    def watch() -> None:
        while made.counts.stored < count and not stop.wait(_LOOK):
            pass
        stop.set()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        retention = Retention(log, made.name, receiver.options)
        Taking(receiver, made, [retention], receiver.options, lambda _: None, stop).work()
    finally:
        stop.set()
        watching.join()
