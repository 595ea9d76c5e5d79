"""Lets the tests share `postgresql_tables`, and clears away what they leave at the server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def place(postgres):
    """A schema of the test's own, with a slot; see `postgresql_tables.Place`."""
    from postgresql_tables import Place

    made = Place(postgres)
    yield made
    made.close()
