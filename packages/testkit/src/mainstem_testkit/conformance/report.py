"""The conformance report: which claims of a component were proven, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

#: The properties of a test's report: who is tested by which test, and why it shows nothing.
PROPERTY, UNSHOWN = "mainstem-conformance", "mainstem-unshown"

PASSED, UNCLAIMED, NOTGIVEN, SKIPPED, EXPECTED, FAILED, MISSING, TURNED = (
    "passed",
    "not claimed",
    "not given",
    "skipped",
    "expected failure",
    "failed",
    "not run",
    "in another turn",
)
#: Of several outcomes of one test the last in this order counts.
_WORSE = (PASSED, UNCLAIMED, NOTGIVEN, SKIPPED, EXPECTED, FAILED)


class Unshown(pytest.skip.Exception):  # type: ignore[name-defined,misc]
    """Ends a standard test that shows nothing; the report takes the outcome from the class."""

    outcome: ClassVar[str]

    def __init__(self, what: str) -> None:
        super().__init__(f"{self.outcome}: {what}")
        self.what = what


class NotClaimed(Unshown):
    """The test asks for what the component does not claim."""

    outcome = UNCLAIMED


class NotGiven(Unshown):
    """The test lacks what the test module could have given."""

    outcome = NOTGIVEN


@dataclass
class Subject:
    """One component as one suite tested it: the outcome and its reason by the name of each test.

    Attributes:
        in_turn: the tests that are run in turn, and need not be run now.
    """

    facts: Mapping[str, Any]
    tests: Mapping[str, str]
    in_turn: frozenset[str] = frozenset()
    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def outcome(self, test: str) -> tuple[str, str]:
        """Return how a standard test ended, and why."""
        return self.outcomes.get(test, (TURNED if test in self.in_turn else MISSING, ""))

    @property
    def conforms(self) -> bool:
        """Whether no standard test failed or was left out, and some passed."""
        words = {self.outcome(test)[0] for test in self.tests}
        return PASSED in words and words <= {PASSED, UNCLAIMED, NOTGIVEN, TURNED}

    @property
    def not_given(self) -> list[str]:
        """What tests lacked, so that they show nothing."""
        outcomes = [self.outcome(test) for test in self.tests]
        return list(dict.fromkeys(reason for word, reason in outcomes if word == NOTGIVEN))

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.facts,
            "conforms": self.conforms,
            "not_given": self.not_given,
            "tests": [
                {
                    "test": test,
                    "proves": claim,
                    "result": self.outcome(test)[0],
                    "reason": self.outcome(test)[1],
                }
                for test, claim in self.tests.items()
            ],
        }

    def as_text(self) -> Iterator[str]:
        """Yield the lines: who, one line for each claim, and what did not just pass."""
        facts = self.facts
        verdict = "conforms" if self.conforms else "does NOT conform"
        if self.not_given:
            verdict += f" (not shown, for there was not given: {'; '.join(self.not_given)})"
        if turned := sum(self.outcome(test)[0] == TURNED for test in self.tests):
            verdict += f" ({turned} tests have other turns)"
        who = f"{facts['kind']} {facts['word']} ({facts['distribution']} {facts['version']})"
        yield f"{who}: {verdict}"
        claims: dict[str, Counter[str]] = {}
        for test, claim in self.tests.items():
            claims.setdefault(claim, Counter())[self.outcome(test)[0]] += 1
        for claim, counts in claims.items():
            yield f"  {claim:<22} " + ", ".join(f"{n} {word}" for word, n in counts.items())
        for test in self.tests:
            word, reason = self.outcome(test)
            if word in (EXPECTED, SKIPPED, FAILED):
                yield f"  {word}: {test}" + (f" ({reason})" if reason else "")


class Report:
    """What all suites of a run have shown."""

    def __init__(self) -> None:
        self.subjects: dict[str, Subject] = {}

    def add(self, report: Any) -> None:
        """Take the report of one phase of one test, if it is a standard one."""
        told = dict(report.user_properties).get(PROPERTY)
        if told is None or (report.when == "teardown" and report.passed):
            return
        name = report.nodeid.rpartition("::")[0]
        new = Subject(told["facts"], told["tests"], frozenset(told["in_turn"]))
        subject = self.subjects.setdefault(name, new)
        if report.when == "setup" and report.passed:
            return
        test, outcome = told["test"], _outcome(report)
        before = subject.outcomes.get(test, outcome)
        if test in subject.tests and outcome[0] in _WORSE:
            subject.outcomes[test] = max(before, outcome, key=lambda o: _WORSE.index(o[0]))

    def write(self, file: Path, turn: str, drawn: Sequence[str]) -> None:
        """Write the report as JSON.

        Args:
            turn: which of the tests that are run in turn were run.
            drawn: those tests.
        """
        components = [subject.as_json() for subject in self.subjects.values()]
        found = {"turn": turn, "drawn": drawn, "components": components}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=2) + "\n")


def _outcome(report: Any) -> tuple[str, str]:
    if report.skipped and (unshown := dict(report.user_properties).get(UNSHOWN)):
        return unshown[0], unshown[1]
    why = getattr(report, "wasxfail", None)
    if why is not None:
        return (EXPECTED, why) if report.skipped else (FAILED, "passes, though expected to fail")
    if report.passed:
        return PASSED, ""
    if report.failed:
        return FAILED, ""
    if not report.skipped:
        return report.outcome, ""  # another plugin's, such as a rerun
    return SKIPPED, str(report.longrepr[2]).removeprefix("Skipped: ")
