"""How many examples the property tests try: `MAINSTEM_FUZZ=100` tries a hundred times as many."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings


def fuzz(cases: int) -> Callable[[Any], Any]:
    """Return the settings of a property test that tries so many examples, always the same ones.

    With `MAINSTEM_FUZZ` it tries that many times more, and other ones each time. `pytest -m fuzz` runs
    these tests alone.
    """
    times = int(os.environ.get("MAINSTEM_FUZZ", "1"))
    found = settings(
        max_examples=cases * times,
        derandomize=times == 1,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def marked(test: Any) -> Any:
        return pytest.mark.fuzz(found(test))

    return marked
