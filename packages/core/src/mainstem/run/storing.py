"""Small files that say where things stand: written whole, or left as they were."""

from __future__ import annotations

import os
from pathlib import Path


def put(file: Path, text: str) -> None:
    """Write a file whole, or leave it as it was; it is on disk afterwards."""
    whole = file.with_suffix(".new")
    whole.write_text(text)
    with whole.open() as written:
        os.fsync(written.fileno())
    whole.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
