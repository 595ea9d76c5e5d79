"""Lets the tests of keyed state, and the processes that they start, share their modules."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from mainstem_testkit import install

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
    words = dict.fromkeys(("remember", "count_keys", "pair"), "keyed_plugin")
    site = tmp_path_factory.mktemp("site")
    install(monkeypatch, site, "mainstem-keyed-test", operators=words)
