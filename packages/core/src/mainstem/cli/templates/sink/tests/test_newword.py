"""The sink `newword`, as a document uses it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from mainstem import DocumentError, Pipeline

ROWS = [{"id": 1, "name": "ä"}, {"id": 2, "name": "b"}]


def document(folder: Path, **options: object) -> dict[str, Any]:
    """Return a document that hands the rows of `folder`/in to the sink."""
    source = {"path": str(folder / "in"), "format": "jsonlines", "schema": "id INT, name STRING"}
    return {
        "pipeline": "test",
        "checkpoint": str(folder / "checkpoints"),
        "trigger": {"available_now": True},
        "spark": {"master": "local[2]", "conf": {"spark.ui.enabled": False}},
        "sources": {"rows": {"use": "files", "with": source}},
        "sinks": {
            "out": {"use": "newword", "from": "rows", "with": options},
        },
    }


def feed(folder: Path) -> None:
    """Put the rows into `folder`/in."""
    (folder / "in").mkdir()
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (folder / "in" / "rows.jsonl").write_text(text, encoding="utf-8")


def test_a_batch_that_is_written_again_replaces_itself(tmp_path: Path) -> None:
    """Pass: one file with every row once, after the last batch was taken back and repeated."""
    feed(tmp_path)
    pipeline = Pipeline(document(tmp_path, path=str(tmp_path / "out")))
    pipeline.run()
    shutil.rmtree(next((tmp_path / "checkpoints").rglob("commits")))
    pipeline.run()
    (file,) = (tmp_path / "out").iterdir()
    lines = file.read_text(encoding="utf-8").splitlines()
    assert sorted(map(json.loads, lines), key=lambda row: int(row["id"])) == ROWS


def test_a_missing_option_is_told_with_its_key(tmp_path: Path) -> None:
    """Pass: an error of the document, before Spark starts."""
    with pytest.raises(DocumentError, match=r"sinks\.out\.with\.path: key 'path' is missing"):
        Pipeline(document(tmp_path))
