"""The source `newword`, as a document uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mainstem import DocumentError, Pipeline


def document(folder: Path, **options: object) -> dict[str, Any]:
    """Return a document that writes what the source gives to `folder`/out."""
    return {
        "pipeline": "test",
        "checkpoint": str(folder / "checkpoints"),
        "trigger": {"available_now": True},
        "spark": {"master": "local[2]", "conf": {"spark.ui.enabled": False}},
        "sources": {"rows": {"use": "newword", "with": options}},
        "sinks": {
            "out": {
                "use": "files",
                "from": "rows",
                "with": {"path": str(folder / "out"), "format": "jsonlines"},
            }
        },
    }


def written(folder: Path) -> list[dict[str, Any]]:
    """Return the rows in `folder`/out, by their numbers."""
    files = (folder / "out").glob("*/*.json")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted(rows, key=lambda row: int(row["number"]))


def test_a_second_run_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    """Pass: every number once, each with its text."""
    pipeline = Pipeline(document(tmp_path, rows=3, greeting="hi"))
    pipeline.run()
    assert [row["number"] for row in written(tmp_path)] == [0, 1, 2]
    pipeline.run()
    assert written(tmp_path) == [{"number": n, "text": f"hi {n}"} for n in range(6)]


def test_a_wrong_option_is_refused_with_its_key(tmp_path: Path) -> None:
    """Pass: an error of the document, before Spark starts."""
    with pytest.raises(DocumentError, match=r"sources\.rows\.with\.rows: .*greater than 0"):
        Pipeline(document(tmp_path, rows=0))
