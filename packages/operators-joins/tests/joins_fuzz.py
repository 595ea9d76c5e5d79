"""How many examples the property tests try: a tenth of their number in every run, all with
`MAINSTEM_FUZZ=1`, a hundred times as many with `MAINSTEM_FUZZ=100`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings


def fuzz(cases: int) -> Callable[[Any], Any]:
    """Return the settings of a property test that tries so many examples, or a tenth of them.

    These are always the same ones; with `MAINSTEM_FUZZ` above 1 it tries that many times more, and other
    ones each time. `pytest -m fuzz` runs these tests alone.
    """
    times = float(os.environ.get("MAINSTEM_FUZZ", "0.1"))
    found = settings(
        max_examples=round(cases * times),
        derandomize=times <= 1,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def marked(test: Any) -> Any:
        return pytest.mark.fuzz(found(test))

    return marked
