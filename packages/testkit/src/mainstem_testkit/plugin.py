"""The pytest plugin: fixtures, and one loud line for servers that were missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from mainstem_testkit.proxy import FaultProxy
from mainstem_testkit.servers.postgres import Postgres
from mainstem_testkit.servers.rabbitmq import RabbitMQ
from mainstem_testkit.servers.server import Server, ServerFailed, ServerMissing

REQUIRE = "MAINSTEM_REQUIRE_SERVICES"
_MISSING = pytest.StashKey[dict[str, str]]()


def required(name: str) -> bool:
    """Whether a missing server is a failure: `MAINSTEM_REQUIRE_SERVICES=all`, or names with commas."""
    wanted = os.environ.get(REQUIRE, "").split(",")
    return "all" in wanted or name in wanted


def serve(make: type[Server], request: pytest.FixtureRequest, factory: Any) -> Iterator[Server]:
    """Start a server for a session, or use the one that `MAINSTEM_TEST_<NAME>_URL` names.

    For the fixture of a server in a package's own tests: `yield from serve(...)`. Without the server
    the test is skipped and the run's last lines say so, or it fails if the server is required.
    """
    url = os.environ.get(f"MAINSTEM_TEST_{make.name.upper()}_URL")
    server = make(factory.mktemp(make.name))
    if url:
        yield _Elsewhere(server, url)  # type: ignore[misc]
        return
    try:
        server.start()
    except (ServerMissing, ServerFailed) as error:
        server.kill()
        if isinstance(error, ServerFailed) or required(make.name):
            pytest.fail(str(error), pytrace=False)
        request.config.stash[_MISSING][make.name] = str(error)
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


class _Elsewhere:
    """A server that somebody else runs: it has an address, and can't be broken."""

    def __init__(self, kind: Server, url: str) -> None:
        self.name = kind.name
        self.url = url
        self.port = urlsplit(url).port

    def __getattr__(self, name: str) -> Any:
        if hasattr(Server, name):
            pytest.skip(f"{self.name} runs elsewhere ({name} is not for us to do)")
        raise AttributeError(name)


@pytest.fixture(scope="session")
def postgres(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A PostgreSQL server with logical decoding."""
    yield from serve(Postgres, request, tmp_path_factory)


@pytest.fixture(scope="session")
def rabbitmq(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A RabbitMQ node."""
    yield from serve(RabbitMQ, request, tmp_path_factory)


@pytest.fixture
def fault_proxy() -> Iterator[Callable[[int], FaultProxy]]:
    """Makes proxies that break the connections to a port; all are closed at the test's end."""
    made: list[FaultProxy] = []

    def make(port: int) -> FaultProxy:
        made.append(FaultProxy(port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for the names of missing servers."""
    config.stash[_MISSING] = {}


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Add the logs of a failed test's servers to its report."""
    if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
        return
    for name, value in getattr(item, "funcargs", {}).items():
        if isinstance(value, Server):
            item.add_report_section(call.when, f"log of {name}", value.log())


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say loudly what was not tested."""
    missing = config.stash[_MISSING]
    if missing:
        terminalreporter.section("NOT TESTED: servers are missing (make services)", red=True)
        for name, why in missing.items():
            terminalreporter.write_line(f"{name}: {why}")
