"""What docs/escape-hatches.md prints runs as it is printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "escape-hatches.md").read_text()
SALES = [
    {"city": "Oslo", "cents": 250, "currency": "USD"},
    {"city": "Bern", "cents": 300, "currency": "EUR"},
    {"city": "Rome", "cents": 0, "currency": "EUR"},
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.in_turn
def test_the_documents_of_the_page_run(tmp_path):
    """Pass: query and function give the prices, and the archive has all sales."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("".join(json.dumps(sale) + "\n" for sale in SALES))
    (code,) = blocks("python")
    (tmp_path / "prices.py").write_text(code)
    documents = [block for block in blocks("yaml") if block.startswith("pipeline:")]
    assert len(documents) == 2
    for number, text in enumerate(documents):
        (tmp_path / f"{number}.yaml").write_text(text)
        command = [sys.executable, "-m", "mainstem", "run", str(tmp_path / f"{number}.yaml")]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
        assert result.returncode == 0, result.stdout + result.stderr
    lines = [
        json.loads(line)
        for file in (tmp_path / "out").glob("*/*.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted((row["city"], row["euros"]) for row in lines) == [("BERN", 3.0), ("OSLO", 1.25)]
    files = (tmp_path / "archive").glob("*.parquet")
    cents = [value for f in files for value in pq.read_table(f)["cents"].to_pylist()]
    assert sorted(cents) == [0, 250, 300]
