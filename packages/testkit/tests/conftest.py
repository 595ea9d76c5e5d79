"""Installs the zoo for the tests here: a plugin of components that are wrong on purpose."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from mainstem_testkit import install

pytest_plugins = ["pytester"]

_HERE = Path(__file__).parent
# Spark's processes take the path from here, when the session starts; so the modules are on it early.
sys.path.insert(0, str(_HERE))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(_HERE), os.environ.get("PYTHONPATH", "")])
)


@pytest.fixture(autouse=True)
def _zoo(tmp_path_factory, monkeypatch):
    """Let this process, and those that a test starts, find the zoo's words."""
    from zoo import plugin

    words = {kind: dict.fromkeys(names, "zoo.plugin") for kind, names in plugin.WORDS.items()}
    install(monkeypatch, tmp_path_factory.mktemp("site"), "mainstem-zoo", **words)
