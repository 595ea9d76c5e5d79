"""Installs the zoo for the tests here: a plugin of components that are wrong on purpose."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

_HERE = Path(__file__).parent
# Spark's processes take the path from here, when the session starts; so the modules are on it early.
sys.path.insert(0, str(_HERE))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(_HERE), os.environ.get("PYTHONPATH", "")])
)


@pytest.fixture(scope="session")
def _site(tmp_path_factory):
    """Write what an installer would."""
    from zoo import plugin

    site = tmp_path_factory.mktemp("site")
    info = site / "mainstem_zoo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mainstem-zoo\nVersion: 1.0\n")
    lines = []
    for group, words in plugin.WORDS.items():
        lines += [f"[mainstem.{group}]", *(f"{word} = zoo.plugin" for word in words)]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return site


@pytest.fixture(autouse=True)
def _zoo(_site, monkeypatch):
    """Let this process, and those that a test starts, find the zoo's words."""
    monkeypatch.syspath_prepend(_site)
    monkeypatch.setenv("PYTHONPATH", f"{_site}{os.pathsep}{os.environ['PYTHONPATH']}")
