"""The sink `newword`: the standard tests, and what is its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mainstem_testkit import PipelineFolder, SinkSuite
from pyspark.sql import SparkSession


class TestNewWord(SinkSuite):
    """What every sink must show."""

    use = "newword"

    def options(self) -> Mapping[str, Any]:
        """Return options that are right, with a place of the test's own."""
        return {"path": str(self.place / "out")}

    def rows(self, schema: str) -> Sequence[Any]:
        """Return all that a reader sees."""
        files = [str(file) for file in self.place.glob("out/*.jsonl")]
        return SparkSession.active().read.schema(schema).json(files).collect() if files else []


def test_a_batch_is_one_file(pipeline: PipelineFolder) -> None:
    """Pass: every row of a run in one file of JSON lines."""
    source = {"path": "./in", "format": "jsonlines", "schema": "id INT, name STRING"}
    used = {"use": "newword", "from": "rows", "with": {"path": "./out"}}
    pipeline.document(sources={"rows": {"use": "files", "with": source}}, sinks={"out": used})
    rows = [{"id": 1, "name": "ä"}, {"id": 2, "name": "b"}]
    pipeline.feed("rows.jsonl", rows)
    pipeline.run()
    (file,) = (pipeline.folder / "out").iterdir()
    lines = file.read_text(encoding="utf-8").splitlines()
    assert sorted(map(json.loads, lines), key=lambda row: int(row["id"])) == rows
