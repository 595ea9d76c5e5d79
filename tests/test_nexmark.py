"""Three of NEXMark's queries, broken on the way, against a database; `make nexmark` does all, with more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mainstem_testkit.crashing import crash_at_every_point
from mainstem_testkit.pipelines import PipelineFolder

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
EVENTS, FILES = 20_000, 6
#: Totals of totals, ranks of windows, a join: over a relay, on state by key, on Spark's own.
QUERIES = ("q4", "q5", "q20")


@pytest.fixture
def nexmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's modules."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from nexmark import answers, events

    yield answers, events
    for name in [name for name in sys.modules if name.partition(".")[0] == "nexmark"]:
        del sys.modules[name]


@pytest.mark.in_turn
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_what_a_database_does(nexmark: Any, name: str, tmp_path: Path) -> None:
    """Pass: the document's result is the database's, also when its second batch is broken off."""
    answers, events = nexmark
    pipeline = PipelineFolder(tmp_path / "query")
    events.write_events(pipeline.folder / "in", EVENTS, FILES)
    text = (BENCHMARKS / "nexmark" / "queries" / f"{name}.yaml").read_text()
    pipeline.file.write_text(
        text.replace("format: parquet\n", "format: parquet\n      max_files: 3\n")
        + "spark: {master: 'local[2]', conf: {spark.ui.enabled: false}}\n"
    )

    def oracle(ended: PipelineFolder) -> None:
        assert not answers.difference(name, ended.folder / "in", ended.folder / "out")

    chosen = crash_at_every_point(
        pipeline, oracle, points=lambda _: ["run.after-batch"], passes=(2,), here=True
    )
    assert chosen == ["run.after-batch"]
