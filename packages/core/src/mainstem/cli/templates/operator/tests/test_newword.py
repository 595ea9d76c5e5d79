"""The operator `newword`: the standard tests, and what is its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainstem.testing.trial import Trial
from mainstem_testkit import OperatorSuite


class TestNewWord(OperatorSuite):
    """What every operator must show."""

    use = "newword"
    inputs = {"input": "id INT, city STRING"}
    wrong_options = {"column": {"column": "town"}}

    def options(self) -> Mapping[str, Any]:
        """Return options that are right."""
        return {"column": "city", "case": "upper"}


def test_text_is_trimmed_and_rewritten_and_null_stays_null(trial: Callable[..., Trial]) -> None:
    """Pass: every row comes out once, with the other columns as they were."""
    source = {"path": "in", "format": "jsonlines", "schema": "id INT, city STRING"}
    used = {"use": "newword", "from": "rows", "with": {"column": "city"}}
    tried = trial(
        {
            "pipeline": "test",
            "trigger": {"available_now": True},
            "sources": {"rows": {"use": "files", "with": source}},
            "operators": {"spelled": used},
            "sinks": {"out": {"use": "console", "from": "spelled"}},
        }
    )
    tried.feed("rows", [{"id": 1, "city": "  Oslo"}, {"id": 2, "city": "LIMA "}, {"id": 3}])
    tried.batch()
    assert sorted(tried.rows("out"), key=lambda row: int(row["id"])) == [
        {"id": 1, "city": "oslo"},
        {"id": 2, "city": "lima"},
        {"id": 3, "city": None},
    ]
