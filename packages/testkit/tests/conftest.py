"""Installs the zoo, a plugin of components that are wrong on purpose, for this process and Spark's."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

pytest_plugins = ["pytester"]

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))


def _install() -> None:
    """Write what an installer would, before Spark starts: its processes take the path from here."""
    from zoo import plugin

    site = Path(tempfile.mkdtemp(prefix="mainstem-zoo-"))
    atexit.register(shutil.rmtree, site, ignore_errors=True)
    info = site / "mainstem_zoo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mainstem-zoo\nVersion: 1.0\n")
    lines = []
    for group, words in plugin.WORDS.items():
        lines += [f"[mainstem.{group}]", *(f"{word} = zoo.plugin" for word in words)]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(site))
    paths = [str(_HERE), str(site), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


_install()
