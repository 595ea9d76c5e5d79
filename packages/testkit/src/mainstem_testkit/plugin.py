"""The pytest plugin: fixtures, the report of the suites, one loud line for missing servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from mainstem.plan.making import make_plan

from mainstem_testkit.conformance.report import PROPERTY, Report
from mainstem_testkit.conformance.suite import Suite
from mainstem_testkit.java import start_java_quickly
from mainstem_testkit.pipelines import CONF, MASTER, PipelineFolder
from mainstem_testkit.proxy import FaultProxy
from mainstem_testkit.servers.postgres import Postgres
from mainstem_testkit.servers.rabbitmq import RabbitMQ
from mainstem_testkit.servers.server import Server, ServerFailed, ServerMissing

if TYPE_CHECKING:
    from mainstem.testing.trial import Trial
    from pyspark.sql import SparkSession

REQUIRE = "MAINSTEM_REQUIRE_SERVICES"
_MISSING = pytest.StashKey[dict[str, str]]()
_REPORT = pytest.StashKey[Report]()


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


@pytest.fixture(scope="session")
def quick_java() -> None:
    """Lets Java start quickly in all tests to come."""
    start_java_quickly()


@pytest.fixture(scope="session")
def spark(quick_java: None) -> SparkSession:
    """The Spark session that all tests of this process share, with settings made for tests."""
    from mainstem.run.session import start

    return start(
        make_plan(
            {
                "pipeline": "session",
                "trigger": {"available_now": True},
                "spark": {"master": MASTER, "conf": dict(CONF)},
                "sources": {"rows": {"use": "rate"}},
                "sinks": {"out": {"use": "console", "from": "rows"}},
            }
        )
    )


@pytest.fixture
def pipeline(tmp_path: Path, quick_java: None) -> PipelineFolder:
    """A pipeline in a folder of its own; see `PipelineFolder`."""
    return PipelineFolder(tmp_path)


@pytest.fixture
def trial(tmp_path: Path, spark: SparkSession) -> Iterator[Callable[..., Trial]]:
    """Makes trials of documents on the shared session: `trial(document, *outputs)`; see `Trial`."""
    from mainstem.testing.trial import Trial

    with ExitStack() as stack:

        def make(document: str | Path | Mapping[str, Any], *outputs: str) -> Trial:
            folder = tmp_path / f"trial-{len(made)}"
            made.append(folder)
            return stack.enter_context(Trial(make_plan(document), folder, spark, outputs))

        made: list[Path] = []
        yield make


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--conformance-report`."""
    group = parser.getgroup("mainstem")
    group.addoption(
        "--conformance-report", type=Path, metavar="FILE", help="write the suites' report as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make room for the names of missing servers, and for what the suites show."""
    config.stash[_MISSING] = {}
    config.stash[_REPORT] = Report()
    config.pluginmanager.register(_Collector(config.stash[_REPORT]), "mainstem-conformance")


class _Collector:
    """Fills the report: in one process, or where the processes of pytest-xdist report to."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._report.add(report)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures that suites list."""
    for item in items:
        suite, name = _standard(item)
        if suite is not None and name in suite.expected_failures:
            reason = suite.expected_failures[name]
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _standard(item: pytest.Item) -> tuple[type[Suite] | None, str]:
    """Return the suite that a test belongs to, and the test's name there."""
    suite = getattr(item, "cls", None)
    found = suite if isinstance(suite, type) and issubclass(suite, Suite) else None
    return found, item.name.partition("[")[0]


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Add to a report who was tested by which suite, and the logs of a failed test's servers."""
    suite, name = _standard(item)
    if suite is not None and call.when == "setup":
        told = {"facts": suite.facts(), "tests": suite.standard_tests(), "test": name}
        item.user_properties.append((PROPERTY, told))
    if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
        return
    for name, value in getattr(item, "funcargs", {}).items():
        if isinstance(value, Server):
            item.add_report_section(call.when, f"log of {name}", value.log())


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what the suites have shown, and loudly what was not tested."""
    report = config.stash[_REPORT]
    if report.subjects:
        terminalreporter.section("conformance")
        for subject in report.subjects.values():
            for line in subject.as_text():
                terminalreporter.write_line(line)
        if file := config.getoption("--conformance-report"):
            report.write(file)
    missing = config.stash[_MISSING]
    if missing:
        terminalreporter.section("NOT TESTED: servers are missing (make services)", red=True)
        for name, why in missing.items():
            terminalreporter.write_line(f"{name}: {why}")
