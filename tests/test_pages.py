"""What docs/testing.md, docs/from-python.md and docs/testing-a-plugin.md print runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mainstem.testing.running import run_tests

DOCS = Path(__file__).parent.parent / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.in_turn
def test_the_tests_of_the_page_pass(tmp_path):
    """Pass: document and tests of docs/testing.md, and they fail once a row is changed."""
    document, tests = blocks("testing.md", "yaml")
    (tmp_path / "rides.yaml").write_text(document)
    (tmp_path / "rides.test.yaml").write_text(tests)
    (result,) = run_tests(tmp_path / "rides.test.yaml")
    assert (result.error, result.differences) == ("", [])
    (tmp_path / "rides.test.yaml").write_text(tests.replace("rides: 2", "rides: 3"))
    (result,) = run_tests(tmp_path / "rides.test.yaml")
    assert [found.output for found in result.differences] == ["board"]


@pytest.mark.in_turn
def test_the_program_of_the_page_runs(tmp_path):
    """Pass: docs/from-python.md, in a folder with three numbers."""
    (code,) = blocks("from-python.md", "python")
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers" / "1.txt").write_text("1\n2\n3\n")
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=150
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "3 [{'n': 2}, {'n': 4}, {'n': 6}] [3]"


@pytest.mark.in_turn
def test_the_kill_of_the_page_does_no_harm(pipeline):
    """Pass: the test printed in docs/testing-a-plugin.md."""
    (code,) = (b for b in blocks("testing-a-plugin.md", "python") if "test_each_row_once" in b)
    names: dict[str, Any] = {}
    exec(code, names)
    names["test_each_row_once"](pipeline)
