"""Files that outlive a crash: written whole or left as they were, and their names on disk too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def write_whole(file: Path, text: str) -> None:
    """Write a small file whole, in UTF-8, or leave it as it was; it is on disk afterwards.

    Nobody but its owner can read it.

    Its suffix is `.new` until then, so `x.a` and `x.b` of one folder must not be written at a time.

    Raises:
        OSError: it can't be written.
    """
    whole = file.with_suffix(".new")
    with open_private(whole) as written:
        written.write(text.encode())
        written.flush()
        os.fsync(written.fileno())
    whole.replace(file)
    sync_folder(file.parent)


def open_private(file: Path) -> BinaryIO:
    """Open a file to write it anew; one that was not there is its owner's alone (0600).

    Raises:
        OSError: it can't be written.
    """
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def private_folder(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for its owner alone (0700); return it.

    One that is there is left as it is.

    Raises:
        OSError: it can't be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


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
