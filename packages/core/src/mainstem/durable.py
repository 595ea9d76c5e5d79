"""Files that outlive a crash: written whole or left as they were, and their names on disk too."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a small file whole, or leave it as it was; it is on disk afterwards."""
    whole = file.with_suffix(".new")
    whole.write_text(text)
    with whole.open() as written:
        os.fsync(written.fileno())
    whole.replace(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
