"""Lets the tests of keyed state, and the processes that they start, share their modules."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
# Before any session starts: its workers import the tests' logics, and those that tests write here.
_WRITTEN = tempfile.TemporaryDirectory(prefix="mainstem-keyed-")
os.environ["MAINSTEM_KEYED_TESTS"] = _WRITTEN.name
sys.path.insert(0, _WRITTEN.name)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [HERE, _WRITTEN.name, os.environ.get("PYTHONPATH")])
)


@pytest.fixture
def plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, and those that a test starts, find the words of `keyed_plugin`."""
    site = tmp_path_factory.mktemp("site")
    info = site / "mainstem_keyed_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mainstem-keyed-test\nVersion: 1.0\n"
    )
    words = "".join(f"{word} = keyed_plugin\n" for word in ("remember", "count_keys", "pair"))
    (info / "entry_points.txt").write_text(f"[mainstem.operators]\n{words}")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ["PYTHONPATH"]]))
