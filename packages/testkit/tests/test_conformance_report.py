"""The rules of the suites, and the report: no standard test goes missing unseen."""

from __future__ import annotations

import json

import pytest
from mainstem_testkit import SourceSuite
from mainstem_testkit.conformance.suite import Suite

WRONG_OPTION = "test_each_wrong_option_is_refused_by_its_name"
SUITE = f"""
from mainstem_testkit import SourceSuite

class TestLog(SourceSuite):
    use = "zoo_log%s"
    expected_failures = {{"{WRONG_OPTION}": "it takes anything"}}

    def options(self):
        return {{"port": 1}}

class TestRate(SourceSuite):
    use = "rate"
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({WRONG_OPTION: lambda self: None}, "is standard"),
        ({WRONG_OPTION: None}, "is standard"),
        ({"expected_failures": {"test_that_nobody_has": "why"}}, "no standard test"),
        ({"expected_failures": {WRONG_OPTION: " "}}, "no reason"),
    ],
)
def test_a_standard_test_is_not_replaced_and_fails_only_for_a_reason(body, words):
    """Pass: the class itself is refused."""
    with pytest.raises(TypeError, match=words):
        type("TestMine", (SourceSuite,), {"use": "rate", **body})


def test_every_standard_test_says_what_it_proves():
    """Pass: none would be missing in the report."""
    for suite in (Suite, *Suite.__subclasses__()):
        names = {name for name in dir(suite) if name.startswith("test_")}
        assert suite.standard_tests().keys() == names


@pytest.mark.in_turn
def test_the_report_tells_expected_failures_and_what_was_not_run(quick_java, pytester):
    """Pass: as text and as JSON; who has tests that were not run does not conform."""
    pytester.makepyfile(SUITE % "_of_anything")
    result = pytester.runpytest_inprocess("-k", "wrong_option", "--conformance-report=report.json")
    result.assert_outcomes(passed=1, xfailed=1, deselected=32)
    result.stdout.fnmatch_lines(
        [
            "*= conformance =*",
            "source zoo_log_of_anything (mainstem-zoo 1.0): does NOT conform",
            "  options * 1 expected failure",
            "  crashes * 3 not run",
            f"  expected failure: {WRONG_OPTION} (it takes anything)",
            "source rate (mainstem *): does NOT conform",
            "  options * 1 passed",
        ]
    )
    log, rate = json.loads((pytester.path / "report.json").read_text())["components"]
    assert (log["word"], log["kind"], log["conforms"]) == ("zoo_log_of_anything", "source", False)
    assert log["abilities"] == ["Measurable"]
    results = {test["test"]: (test["result"], test["reason"]) for test in log["tests"]}
    assert results.pop(WRONG_OPTION) == ("expected failure", "it takes anything")
    assert set(results.values()) == {("not run", "")}
    assert len(results) == 16
    assert {test["result"] for test in rate["tests"]} == {"passed", "not run"}


def test_an_expected_failure_that_passes_is_a_failure(quick_java, pytester):
    """Pass: the run fails, and the report says why."""
    pytester.makepyfile(SUITE % "")
    result = pytester.runpytest_inprocess("-k", "wrong_option and TestLog")
    result.assert_outcomes(failed=1, deselected=33)
    result.stdout.fnmatch_lines([f"  failed: {WRONG_OPTION}*"])


MIXIN = """
from mainstem_testkit import SourceSuite

class Easy:
    def test_no_two_rows_have_one_identity(self):
        pass

class TestRate(Easy, SourceSuite):
    use = "rate"
"""


def test_a_standard_test_is_not_replaced_by_a_mixin(pytester):
    """Pass: the module is refused when it is collected."""
    pytester.makepyfile(MIXIN)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*TestRate.test_no_two_rows_have_one_identity is standard*"])


def test_a_suite_that_names_no_word_fails_with_a_sentence(quick_java, pytester):
    """Pass: an error of that test, not of pytest."""
    text = "from mainstem_testkit import SourceSuite\n\nclass TestNone(SourceSuite): pass\n"
    pytester.makepyfile(text)
    result = pytester.runpytest_inprocess("-k", "wrong_option")
    result.assert_outcomes(errors=1, deselected=16)
    result.stdout.fnmatch_lines(["*TestNone does not say which word is tested*"])


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
@pytest.mark.in_turn
def test_a_missing_server_is_told_loudly(quick_java, pytester, monkeypatch, workers):
    """Pass: the run's last lines name it, also if other processes ran the tests."""
    monkeypatch.setenv("MAINSTEM_REQUIRE_SERVICES", "")
    pytester.makeconftest(SERVER)
    pytester.makepyfile("def test_it(nowhere): pass")
    result = pytester.runpytest_inprocess(*workers)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*NOT TESTED: servers are missing*", "nowhere: not installed here"]
    )


SERVER = """
import pytest
from mainstem_testkit import Server, serve
from mainstem_testkit.server import ServerMissing

class Nowhere(Server):
    name = "nowhere"
    url = ""

    def prepare(self):
        raise ServerMissing("not installed here")

    def command(self):
        return [], {}

    def answers(self):
        return False

@pytest.fixture(scope="session")
def nowhere(request, tmp_path_factory):
    yield from serve(Nowhere, request, tmp_path_factory)
"""


FEIGNED = """
import pytest
from mainstem_testkit import SourceSuite

class TestRate(SourceSuite):
    use = "rate"

    def prepare(self):
        pytest.skip("not claimed: anything")
"""


def test_a_module_that_skips_by_itself_does_not_conform(quick_java, pytester):
    """Pass: the suite alone says what is not claimed; words in a reason are none of it."""
    pytester.makepyfile(FEIGNED)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(skipped=17)
    result.stdout.fnmatch_lines(
        ["source rate (mainstem *): does NOT conform", "  skipped: *(not claimed: anything)"]
    )
