"""Lets the tests of SQL databases share `sql_databases` and `sql_writing`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def place_in(request, tmp_path, spark):
    """Makes places, by product; see `sql_writing.Place`."""
    from sql_writing import Place

    made = []

    def make(product):
        server = None if product == "sqlite" else request.getfixturevalue(product)
        url = server.url if server else f"sqlite:///{tmp_path}/{len(made)}.db"
        made.append(Place(product, url, spark, server))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture(params=["postgres", "mariadb", "sqlite"])
def place(request, place_in):
    """A table of a test's own, in each of the products."""
    return place_in(request.param)


@pytest.fixture
def tripwire():
    """Makes proxies that act on what a client sends; see `sql_writing.Tripwire`."""
    from sql_writing import Tripwire

    made = []

    def make(port):
        made.append(Tripwire(port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()
