"""Work of ours next to a bare client's, in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


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
