"""The source `newword`: the standard tests, and what is its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem_testkit import PipelineFolder, SourceSuite


class TestNewWord(SourceSuite):
    """What every source must show; it makes its own numbers, so there is nothing to put in."""

    use = "newword"
    wrong_options = {"rows": {"rows": 0}}

    def options(self) -> Mapping[str, Any]:
        """Return options that are right."""
        return {"rows": 3}

    def number(self, row: Mapping[str, Any]) -> int:
        """Return the number that a row counts up to."""
        return int(row["number"])


def test_each_number_has_its_text(pipeline: PipelineFolder) -> None:
    """Pass: what was asked for, and a second run goes on where the first ended."""
    used = {"use": "newword", "with": {"rows": 3, "greeting": "hi"}}
    pipeline.document(sources={"rows": used}, sinks={"out": pipeline.sink("out", "rows")})
    pipeline.run()
    pipeline.run()
    found = {row["number"]: row["text"] for row in pipeline.rows("out")}
    assert found == {number: f"hi {number}" for number in range(6)}
