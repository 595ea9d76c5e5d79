"""The operator `newword`, as a document uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mainstem import DocumentError, Pipeline


def document(folder: Path, **options: object) -> dict[str, Any]:
    """Return a document that takes rows from `folder`/in through the operator to `folder`/out."""
    source = {"path": str(folder / "in"), "format": "jsonlines", "schema": "id INT, city STRING"}
    sink = {"path": str(folder / "out"), "format": "jsonlines"}
    return {
        "pipeline": "test",
        "checkpoint": str(folder / "checkpoints"),
        "trigger": {"available_now": True},
        "spark": {"master": "local[2]", "conf": {"spark.ui.enabled": False}},
        "sources": {"rows": {"use": "files", "with": source}},
        "operators": {
            "spelled": {"use": "newword", "from": "rows", "with": options},
        },
        "sinks": {"out": {"use": "files", "from": "spelled", "with": sink}},
    }


def test_text_is_trimmed_and_rewritten_and_null_stays_null(tmp_path: Path) -> None:
    """Pass: every row comes out once, with the other columns as they were."""
    (tmp_path / "in").mkdir()
    rows = [{"id": 1, "city": "  oslo"}, {"id": 2, "city": "LIMA "}, {"id": 3}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "in" / "rows.jsonl").write_text(text, encoding="utf-8")
    Pipeline(document(tmp_path, column="city", case="upper")).run()
    files = (tmp_path / "out").glob("*/*.json")
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(found, key=lambda row: int(row["id"])) == [
        {"id": 1, "city": "OSLO"},
        {"id": 2, "city": "LIMA"},
        {"id": 3},
    ]


@pytest.mark.parametrize(("column", "words"), [("town", "no such column"), ("id", "a STRING")])
def test_a_column_that_does_not_fit_is_refused_with_its_key(
    tmp_path: Path, column: str, words: str
) -> None:
    """Pass: an error of the document, before Spark starts."""
    with pytest.raises(DocumentError, match=rf"operators\.spelled\.with\.column: .*{words}"):
        Pipeline(document(tmp_path, column=column))
