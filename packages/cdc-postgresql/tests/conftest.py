"""Lets the tests share `postgresql_tables`, and clears away what they leave at the server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["postgres", "postgres18"])
def place(request):
    """A schema of the test's own, with a slot, of each version; see `postgresql_tables.Place`."""
    from postgresql_tables import Place

    made = Place(request.getfixturevalue(request.param))
    yield made
    made.close()
