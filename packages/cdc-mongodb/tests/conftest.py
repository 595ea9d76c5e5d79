"""Lets the tests share `mongodb_tables`, and clears away what they leave at the server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def place(mongodb):
    """A database of the test's own; see `mongodb_tables.Place`."""
    from mongodb_tables import Place

    made = Place(mongodb)
    yield made
    made.close()
