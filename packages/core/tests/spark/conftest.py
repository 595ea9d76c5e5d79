"""A plugin that is there for the tests that ask for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "looking"


@pytest.fixture
def looking(tmp_path_factory, monkeypatch):
    """Let this process, and those that a test starts, find the words of `looking`."""
    site = tmp_path_factory.mktemp("site")
    info = site / "mainstem_looking-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mainstem-looking\nVersion: 1.0\n")
    words = "look = looking\nminutes = looking\npairs = looking\n"
    (info / "entry_points.txt").write_text(
        f"[mainstem.operators]\n{words}[mainstem.sources]\nsteps = looking\n"
    )
    for folder in (site, PLUGIN):
        monkeypatch.syspath_prepend(folder)
    path = os.pathsep.join(filter(None, [str(site), str(PLUGIN), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
