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


def test_the_report_tells_expected_failures_and_what_was_not_run(quick_java, pytester):
    """Pass: as text and as JSON; who has tests that were not run does not conform."""
    pytester.makepyfile(SUITE % "_of_anything")
    result = pytester.runpytest_inprocess("-k", "wrong_option", "--conformance-report=report.json")
    result.assert_outcomes(passed=1, xfailed=1, deselected=28)
    result.stdout.fnmatch_lines(
        [
            "*= conformance =*",
            "source zoo_log_of_anything (mainstem-zoo 1.0): does NOT conform",
            "  options * 1 expected failure",
            "  crashes * 1 not run",
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
    assert len(results) == 14
    assert {test["result"] for test in rate["tests"]} == {"passed", "not run"}


def test_an_expected_failure_that_passes_is_a_failure(quick_java, pytester):
    """Pass: the run fails, and the report says why."""
    pytester.makepyfile(SUITE % "")
    result = pytester.runpytest_inprocess("-k", "wrong_option and TestLog")
    result.assert_outcomes(failed=1, deselected=29)
    result.stdout.fnmatch_lines([f"  failed: {WRONG_OPTION}*"])
