"""Files that outlive a crash: written whole or left as they were, and their names on disk too."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a small file whole, in UTF-8, or leave it as it was; it is on disk afterwards.

    Its suffix is `.new` until then, so `x.a` and `x.b` of one folder must not be written at a time.

    Raises:
        OSError: it can't be written.
    """
    whole = file.with_suffix(".new")
    whole.write_text(text, encoding="utf-8")
    with whole.open() as written:
        os.fsync(written.fileno())
    whole.replace(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk.

    Raises:
        OSError: it is no folder, or the disk fails.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
