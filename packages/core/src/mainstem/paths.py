"""Local paths as Spark takes them."""

from __future__ import annotations

from pathlib import Path


def for_spark(path: Path) -> str:
    """Return a local path as Hadoop reads one: it takes what is escaped in a URI for the name itself."""
    return f"file:{path.absolute()}"
