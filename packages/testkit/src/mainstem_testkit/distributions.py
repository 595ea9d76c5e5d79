"""Distributions that a test installs: plugins that stand in its own modules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(patch: pytest.MonkeyPatch, site: Path, name: str, **words: Mapping[str, str]) -> None:
    """Let this process, and those that it starts, find a plugin's words until the patch is undone.

    Args:
        patch: undoes it.
        site: a folder, made if it is not there; what an installer would write goes into it.
        name: the distribution's.
        words: by kind (`sources`, `sinks`, `operators`, ...), the module that each word is in.
    """
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for kind, modules in words.items():
        lines += [f"[mainstem.{kind}]", *(f"{word} = {place}" for word, place in modules.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    patch.syspath_prepend(site)
    patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
