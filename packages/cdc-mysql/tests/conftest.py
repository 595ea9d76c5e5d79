"""Lets the tests share `mysql_tables`, and clears away what they leave at the server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["mysql", "mariadb"])
def place(request):
    """A database of the test's own, of each product; see `mysql_tables.Place`."""
    from mysql_tables import Place

    made = Place(request.getfixturevalue(request.param))
    yield made
    made.close()


@pytest.fixture
def mysql_place(mysql):
    """A database of the test's own, of MySQL."""
    from mysql_tables import Place

    made = Place(mysql)
    yield made
    made.close()
