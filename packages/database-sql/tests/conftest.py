"""Lets the tests of SQL databases share `sql_databases` and `sql_writing`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mainstem_testkit.plugin import serve

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


@pytest.fixture(scope="session")
def postgres_tls(request, tmp_path_factory):
    from sql_secured import SecuredPostgres

    yield from _with_users(SecuredPostgres, request, tmp_path_factory)


@pytest.fixture(scope="session")
def mariadb_tls(request, tmp_path_factory):
    from sql_secured import SecuredMariaDB

    yield from _with_users(SecuredMariaDB, request, tmp_path_factory)


def _with_users(kind, request, factory):
    for server in serve(kind, request, factory):
        server.users()
        yield server


@pytest.fixture(params=["postgres", "mariadb"])
def secured(request, spark):
    """A table of a test's own in a server with TLS; see `sql_secured`."""
    from sql_writing import Place

    server = request.getfixturevalue(f"{request.param}_tls")
    place = Place(request.param, server.url, spark, server)
    yield place
    place.close()
