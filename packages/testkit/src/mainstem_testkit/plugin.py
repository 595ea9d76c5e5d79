"""The pytest plugin: fixtures, the report of the suites, one loud line for missing servers."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from mainstem.crashpoints import FILE

from mainstem_testkit.conformance.report import PROPERTY, UNSHOWN, Report, Unshown
from mainstem_testkit.server import Server, ServerFailed, ServerMissing
from mainstem_testkit.turns import TURN, Tier, Turn, turn_of

if TYPE_CHECKING:
    from mainstem.testing.trial import Trial
    from pyspark.sql import SparkSession

    from mainstem_testkit.conformance.suite import Suite
    from mainstem_testkit.pipelines import PipelineFolder
    from mainstem_testkit.proxy import FaultProxy

#: The group of entry points that name test servers, classes of `Server`: each has a fixture of its name.
SERVERS = "mainstem.test_servers"
REQUIRE = "MAINSTEM_REQUIRE_SERVICES"
#: Begins the reason of a test that was skipped for want of a server.
_MISSING = "server missing: "
_COLLECTOR = pytest.StashKey["_Collector"]()
_TURN = pytest.StashKey[Turn]()
#: The property of the report of a test that was drawn.
_DRAWN = "mainstem-in-turn"


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
        pytest.skip(f"{_MISSING}{make.name}: {error}")
    try:
        yield server
    finally:
        server.stop()


def check_installed(names: Iterable[str], folder: Path) -> None:
    """Skip a test that starts servers itself and lacks one; fail it if that is required.

    Args:
        names: of the servers' fixtures.
        folder: an empty one.
    """
    entries = entry_points(group=SERVERS)
    for name in sorted(names):
        make = entries[name].load()
        try:
            make(folder / name).prepare()
        except ServerMissing as error:
            if required(make.name):
                pytest.fail(str(error), pytrace=False)
            pytest.skip(f"{_MISSING}{make.name}: {error}")


class _Elsewhere:
    """A server that somebody else runs: it has an address, and can't be broken."""

    def __init__(self, kind: Server, url: str) -> None:
        self._kind = type(kind)
        self.name = kind.name
        self.url = url
        self.port = urlsplit(url).port

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._kind, name):
            pytest.skip(f"{self.name} runs elsewhere ({name} is not for us to do)")
        raise AttributeError(name)


def _servers() -> ModuleType:
    """Return a plugin of pytest's with a fixture for each test server that is installed, by its name."""
    found = ModuleType("mainstem_test_servers")
    for entry in entry_points(group=SERVERS):
        setattr(found, entry.name, _fixture(entry))
    return found


def _fixture(entry: EntryPoint) -> Any:
    """Return the fixture of a test server, which is loaded when it is first asked for."""

    def server(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Server]:
        yield from serve(entry.load(), request, tmp_path_factory)

    server.__doc__ = f"The test server {entry.value}."
    return pytest.fixture(scope="session", name=entry.name)(server)


@pytest.fixture(scope="session")
def turn(pytestconfig: pytest.Config) -> Turn:
    """Which of the tests that are run in turn are run now: for a test that draws its seed by it."""
    return pytestconfig.stash[_TURN]


@pytest.fixture
def fault_proxy() -> Iterator[Callable[[int], FaultProxy]]:
    """Makes proxies that break the connections to a port; all are closed at the test's end."""
    from mainstem_testkit.proxy import FaultProxy

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
    from mainstem_testkit.java import start_java_quickly

    start_java_quickly()


@pytest.fixture(scope="session")
def spark(quick_java: None) -> SparkSession:
    """The Spark session that all tests of this process share, with settings made for tests."""
    from mainstem.plan.build import make_plan
    from mainstem.run.session import start

    from mainstem_testkit.pipelines import CONF, MASTER

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
    from mainstem_testkit.pipelines import PipelineFolder

    return PipelineFolder(tmp_path)


@pytest.fixture
def trial(tmp_path: Path, spark: SparkSession) -> Iterator[Callable[..., Trial]]:
    """Makes trials of documents on the shared session: `trial(document, *outputs)`; see `Trial`."""
    from mainstem.plan.build import make_plan
    from mainstem.testing.trial import Trial

    with ExitStack() as stack:

        def make(document: str | Path | Mapping[str, Any], *outputs: str) -> Trial:
            folder = tmp_path / f"trial-{len(made)}"
            made.append(folder)
            return stack.enter_context(Trial(make_plan(document), folder, spark, outputs))

        made: list[Path] = []
        yield make


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--conformance-report`, and `mainstem_jars` to the settings."""
    parser.addini(
        "mainstem_jars",
        "folders, relative to the root, of the jars that Spark sessions in tests have",
        type="args",
        default=[],
    )
    parser.addini(
        "mainstem_turns",
        "in how many runs the tests marked `in_turn` all come round; 1: each runs all",
        default="1",
    )
    parser.addini(
        "mainstem_variants",
        "words in the ids of parameters, such as of a second server: where a test has others too, those "
        "with one of them are run in turn",
        type="args",
        default=[],
    )
    group = parser.getgroup("mainstem")
    group.addoption(
        "--conformance-report", type=Path, metavar="FILE", help="write the suites' report as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make room for what the suites show, and for the names of missing servers; give Spark its jars.

    A session takes no jars later, and any test may be the one that starts it: so all get the same.
    """
    folders = [config.rootpath / folder for folder in config.getini("mainstem_jars")]
    if jars := [str(jar) for folder in folders for jar in sorted(folder.glob("*.jar"))]:
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--jars {','.join(jars)} pyspark-shell")
    # Spark's workers outlive a test, and keep the environment that they have begun with.
    os.environ[FILE] = f"{tempfile.gettempdir()}/mainstem-failpoint-{os.getpid()}"
    config.addinivalue_line(
        "markers", "slow: dear, and shown elsewhere; run with `-m 'slow or not slow'`"
    )
    config.addinivalue_line(
        "markers",
        "in_turn(together=False): dear; each commit draws a share of these tests, see `mainstem_turns`; "
        "together: those of a file, which share what is dear",
    )
    try:
        config.stash[_TURN] = turn_of(config.rootpath, int(config.getini("mainstem_turns")))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    _without_deadlines()
    config.stash[_COLLECTOR] = _Collector()
    config.pluginmanager.register(config.stash[_COLLECTOR], "mainstem-collector")
    config.pluginmanager.register(_servers(), "mainstem-test-servers")


def _without_deadlines() -> None:
    """Let hypothesis measure no time: others have the processor too."""
    from hypothesis import settings

    settings.register_profile("mainstem", settings.get_profile("default"), deadline=None)
    settings.load_profile("mainstem")


class _Collector:
    """Reads the reports of tests: in one process, or where the processes of pytest-xdist report to."""

    def __init__(self) -> None:
        self.shown = Report()
        self.missing: dict[str, str] = {}
        self.drawn: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.shown.add(report)
        if dict(report.user_properties).get(_DRAWN):
            self.drawn[report.nodeid] = None
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if reason.startswith(_MISSING):
                name, _, why = reason.removeprefix(_MISSING).partition(": ")
                self.missing[name] = why


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect the failures that suites list, and leave out what is run in turn, and not now."""
    for item in items:
        suite, name = _standard(item)
        if suite is not None and (tier := suite.tier(name)) is not Tier.EVERY:
            item.add_marker(pytest.mark.in_turn if tier is Tier.TURN else pytest.mark.slow)
        if suite is not None and name in suite.expected_failures:
            reason = suite.expected_failures[name]
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    for item in _variants(items, config.getini("mainstem_variants")):
        item.add_marker(pytest.mark.in_turn)
    turn = config.stash[_TURN]
    left_out = set()
    dealt: Counter[str] = Counter()
    marked = [(item, mark) for item in items if (mark := item.get_closest_marker("in_turn"))]
    # By the test's name: what a class is tested for, and others too, is as dear for each.
    for item, mark in sorted(marked, key=lambda each: _function(each[0])):
        file, together = item.nodeid.partition("::")[0], mark.kwargs.get("together")
        nth = 0 if together else dealt[file]
        dealt[file] += not together
        if turn.takes(file, nth) or _asked_for(item):
            item.user_properties.append((_DRAWN, True))
        else:
            left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _function(item: pytest.Item) -> str:
    return item.name.partition("[")[0]


def _variants(items: Sequence[pytest.Item], words: Collection[str]) -> list[pytest.Item]:
    """Return the tests with a parameter that is one of some words, where the same has others too."""
    found: dict[str, list[tuple[pytest.Item, bool]]] = {}
    for item in items:
        name, _, ids = item.nodeid.rstrip("]").partition("[")
        if ids:
            found.setdefault(name, []).append((item, not {*ids.split("-")}.isdisjoint(words)))
    return [
        item
        for same in found.values()
        if not all(variant for _, variant in same)
        for item, variant in same
        if variant
    ]


def _asked_for(item: pytest.Item) -> bool:
    """Whether a test was chosen by its name, and not along with others."""
    option = item.config.option
    return bool(option.keyword) or any("::" in argument for argument in item.config.args)


def _standard(item: pytest.Item) -> tuple[type[Suite] | None, str]:
    """Return the suite that a test belongs to, and the test's name there."""
    suites = sys.modules.get("mainstem_testkit.conformance.suite")
    made = getattr(item, "cls", None)
    found = made if suites and isinstance(made, type) and issubclass(made, suites.Suite) else None
    return found, item.name.partition("[")[0]


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Add to a report who was tested by which suite, and the logs of a failed test's servers."""
    suite, name = _standard(item)
    if suite is not None and call.when == "setup":
        tests = suite.standard_tests()
        drawn = item.config.stash[_TURN].number is not None and not _asked_for(item)
        turned = [each for each in tests if drawn and suite.tier(each) is not Tier.EVERY]
        told = {"facts": suite.facts(), "tests": tests, "in_turn": turned, "test": name}
        item.user_properties.append((PROPERTY, told))
    if call.excinfo is not None and isinstance(unshown := call.excinfo.value, Unshown):
        item.user_properties.append((UNSHOWN, (unshown.outcome, unshown.what)))
    if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
        return
    if call.excinfo.errisinstance(pytest.fail.Exception):
        _leave_call()
    for name, value in getattr(item, "funcargs", {}).items():
        if isinstance(value, Server):
            item.add_report_section(call.when, f"log of {name}", value.log())


def _leave_call() -> None:
    """End this thread's connection to Spark's Java process.

    The call that a time limit broke off is answered all the same, and the next would take it for its own.
    """
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark and pyspark.SparkContext._gateway
    if gateway and (connection := gateway._gateway_client.get_thread_connection()):
        connection.close()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what the suites have shown, and loudly what was not tested."""
    found = config.stash[_COLLECTOR]
    if found.shown.subjects:
        terminalreporter.section("conformance")
        for subject in found.shown.subjects.values():
            for line in subject.as_text():
                terminalreporter.write_line(line)
    turn = config.stash[_TURN]
    if file := config.getoption("--conformance-report"):
        found.shown.write(file, str(turn), list(found.drawn))
    if turn.number is not None:
        terminalreporter.section(f"in turn: {turn}; {TURN}=all runs all")
        for name in found.drawn:
            terminalreporter.write_line(name)
    if found.missing:
        terminalreporter.section("NOT TESTED: servers are missing (make services)", red=True)
        for name, why in found.missing.items():
            terminalreporter.write_line(f"{name}: {why}")
