"""A plugin that is there for the tests that ask for it."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest
from mainstem_testkit import install
from packaging.version import Version

PLUGIN = Path(__file__).parent / "looking"


@pytest.fixture
def sources_by_name():
    """Skip a test of a document that gains a source, which PySpark before 4.3 does not bear."""
    if Version(pyspark.__version__) < Version("4.3"):
        pytest.skip("PySpark before 4.3 knows sources by their order")


@pytest.fixture
def looking(tmp_path_factory, monkeypatch):
    """Let this process, and those that a test starts, find the words of `looking`."""
    monkeypatch.syspath_prepend(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN), prepend=os.pathsep)
    operators = dict.fromkeys(("look", "minutes", "pairs"), "looking")
    words = {"operators": operators, "sources": {"steps": "looking"}}
    install(monkeypatch, tmp_path_factory.mktemp("site"), "mainstem-looking", **words)
