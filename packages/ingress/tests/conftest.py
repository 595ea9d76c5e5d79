"""Lets the tests of the ingress log, and the processes that they start, share `ingress_far`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ingress_far import HERE, Far
from mainstem_ingress.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The log in a new folder."""
    return Log(tmp_path / "log")


@pytest.fixture
def far() -> Iterator[Far]:
    """A far side that listens."""
    with Far() as far:
        yield far


@pytest.fixture
def far_plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, and those that it starts, find the far side's words."""
    site = tmp_path_factory.mktemp("site")
    info = site / "ingress_far-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ingress-far\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mainstem.sources]\nfar_queue = ingress_far_plugin\nfar_stream = ingress_far_plugin\nfar_tables = ingress_far_plugin\n"
    )
    monkeypatch.syspath_prepend(site)
    path = filter(None, [str(site), str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
