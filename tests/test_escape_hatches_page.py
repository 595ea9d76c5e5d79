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
#: Who logged in, in which minute, and whether that went well.
LOGINS = [
    [("ann", 3, True), ("ann", 1, False), ("bob", 2, False), ("bob", 4, False)],
    [("ann", 5, False), ("bob", 6, False), ("ann", 7, False)],
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.in_turn
def test_the_documents_of_the_page_run(tmp_path):
    """Pass: query and function give the prices, the function with state counts failed logins over two
    files, and the archive has all sales."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("".join(json.dumps(sale) + "\n" for sale in SALES))
    (tmp_path / "logins").mkdir()
    for number, logins in enumerate(LOGINS):
        rows = [{"user": u, "at": f"2026-01-01T00:0{m}:00Z", "ok": ok} for u, m, ok in logins]
        file = tmp_path / "logins" / f"{number}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, code in zip(("prices", "logins"), blocks("python"), strict=True):
        (tmp_path / f"{name}.py").write_text(code)
    documents = [block for block in blocks("yaml") if block.startswith("pipeline:")]
    assert len(documents) == 3
    for number, text in enumerate(documents):
        (tmp_path / f"{number}.yaml").write_text(text)
        command = [sys.executable, "-m", "mainstem", "run", str(tmp_path / f"{number}.yaml")]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
        assert result.returncode == 0, result.stdout + result.stderr

    def lines(folder):
        files = (tmp_path / folder).glob("*/*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    failed = sorted((row["user"], row["failed"]) for row in lines("failed"))
    assert failed == [("ann", 1), ("ann", 1), ("ann", 2), ("bob", 1), ("bob", 2), ("bob", 3)]
    assert sorted((row["city"], row["euros"]) for row in lines("out")) == [
        ("BERN", 3.0),
        ("OSLO", 1.25),
    ]
    files = (tmp_path / "archive").glob("*.parquet")
    cents = [value for f in files for value in pq.read_table(f)["cents"].to_pylist()]
    assert sorted(cents) == [0, 250, 300]
