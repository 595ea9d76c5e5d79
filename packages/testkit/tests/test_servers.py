"""Test servers: each that is installed has a fixture, stands still and ends as told; a missing one is told."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
from mainstem_testkit import plugin
from mainstem_testkit.server import Server, ServerFailed, ServerMissing


class Page(Server):
    """A server of web pages; what it lacks can be told to it."""

    name = "page"
    broken = missing = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def prepare(self) -> None:
        if self.missing:
            raise ServerMissing("page is not installed: apt-get install page")

    def command(self):
        if self.broken:
            return [sys.executable, "-c", "raise SystemExit('no_such_setting')"], {}
        serving = ["-m", "http.server", str(self.port), "--bind", "127.0.0.1"]
        return [sys.executable, *serving, "--directory", str(self.folder)], {}

    def answers(self) -> bool:
        with self.connect() as connection:
            connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return connection.recv(16).startswith(b"HTTP/1.0 200")

    def title(self) -> str:
        return "page"


@pytest.fixture
def installed(monkeypatch):
    """Lets `page` be the one test server that is installed."""
    entry = EntryPoint("page", "test_servers:Page", plugin.SERVERS)
    monkeypatch.setattr(plugin, "entry_points", lambda group: [entry])
    monkeypatch.setitem(sys.modules, "test_servers", sys.modules[__name__])
    monkeypatch.delenv("MAINSTEM_TEST_PAGE_URL", raising=False)


INNER = """
def test_with_a_server(page):
    assert page.url and page.answers()
"""


def test_each_that_is_installed_has_a_fixture(installed, pytester):
    """Pass: it is started for the session and answers; `--fixtures` tells of it."""
    pytester.makepyfile(INNER)
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    found = pytester.runpytest_inprocess("--fixtures")
    found.stdout.fnmatch_lines(["*page*session scope*", "*test_servers:Page*"])


@pytest.mark.in_turn
def test_a_paused_server_stands_still_and_goes_on(tmp_path):
    """Pass: it takes connections and answers none, until it is resumed."""
    with Page(tmp_path / "page") as server:
        server.pause()
        with pytest.raises(OSError):  # noqa: PT011
            server.answers()
        assert server.running
        server.resume()
        server.wait()


def test_a_server_that_ends_is_told_with_its_log(tmp_path):
    """Pass: the error holds what the server printed."""
    server = Page(tmp_path / "page")
    server.start()
    server.stop()
    server.broken = True
    with pytest.raises(ServerFailed, match="no_such_setting"):
        server.start()


@pytest.mark.parametrize(("required", "outcome"), [("", "skipped"), ("all", "errors")])
def test_a_missing_server_skips_loudly_or_fails(
    installed, pytester, monkeypatch, required, outcome
):
    """Pass: skipped with a line at the end; an error where servers are required."""
    monkeypatch.setattr(Page, "missing", True)
    monkeypatch.setenv("MAINSTEM_REQUIRE_SERVICES", required)
    pytester.makepyfile(INNER)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*apt-get install page*"])
    if not required:
        result.stdout.fnmatch_lines(["*NOT TESTED: servers are missing*"])


def test_a_server_elsewhere_is_used_and_never_broken(installed, pytester, monkeypatch):
    """Pass: its address is given; a test that would kill it is skipped."""
    monkeypatch.setenv("MAINSTEM_TEST_PAGE_URL", "http://me@web:5433/x")
    pytester.makepyfile("""
    def test_address(page):
        assert (page.url, page.port) == ("http://me@web:5433/x", 5433)

    def test_kill(page):
        page.kill()

    def test_tool(page):
        page.title()
    """)
    pytester.runpytest_inprocess().assert_outcomes(passed=1, skipped=2)
