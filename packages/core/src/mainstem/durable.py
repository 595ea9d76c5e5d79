"""Files that outlive a crash: written whole or left as they were, and their names on disk too."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from mainstem.errors import PipelineError


class DamagedError(PipelineError, ValueError):
    """A file is not what was written into it."""


def write_whole(file: Path, text: str, *, checked: bool = True) -> None:
    """Write a small file whole, in UTF-8, or leave it as it was; it is on disk afterwards.

    Nobody but its owner can read it. With `checked` a line with its checksum (CRC-32) follows the text,
    which `read_whole` looks at.

    Its suffix is `.new` until then, so `x.a` and `x.b` of one folder must not be written at a time.

    Raises:
        OSError: it can't be written.
    """
    whole = file.with_suffix(".new")
    with open_private(whole) as written:
        written.write(text.encode() + (_end(text.encode()) if checked else b""))
        written.flush()
        os.fsync(written.fileno())
    whole.replace(file)
    sync_folder(file.parent)


def read_whole(file: Path) -> str:
    """Return the text that `write_whole` has written.

    Raises:
        OSError: it can't be read.
        DamagedError: it was changed since.
    """
    data = file.read_bytes()
    text, end = data[:-_END], data[-_END:]
    if end != _end(text):
        raise DamagedError(
            f"{file} was changed after it was written: bring it back from a copy, or start over"
        )
    return text.decode()


def _end(text: bytes) -> bytes:
    return b"\n#%08x\n" % zlib.crc32(text)


_END = len(_end(b""))


def open_private(file: Path) -> BinaryIO:
    """Open a file to write it anew; one that was not there is its owner's alone (0600).

    Raises:
        OSError: it can't be written.
    """
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def private_folder(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for its owner alone (0700); return it.

    Their names are on disk afterwards. One that is there is left as it is.

    Raises:
        OSError: it can't be made.
    """
    if not folder.is_dir():
        made_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    return folder


def made_folder(folder: Path) -> Path:
    """Make a folder, and those above it that are missing; return it. Their names are on disk afterwards.

    Raises:
        OSError: it can't be made.
    """
    if not folder.is_dir():
        made_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
    return folder


def sync_file(file: Path) -> None:
    """Make what a file holds safe on disk; one that is gone needs nothing.

    Raises:
        OSError: the disk fails.
    """
    _sync(file, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk; one that is gone needs nothing.

    Raises:
        OSError: it is no folder, or the disk fails.
    """
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_tree(folder: Path) -> None:
    """Make a folder safe on disk with all that lies below it, its own name excepted.

    Raises:
        OSError: the disk fails.
    """
    begin_sync(
        found
        for path, _, names in os.walk(folder)
        for found in (*(Path(path, name) for name in names), Path(path))
    )()


def begin_sync(paths: Iterable[Path]) -> Callable[[], None]:
    """Begin to make files, and the names in folders, safe on disk; those that are gone need nothing.

    They are synced at the same time, in no order: a file system has one journal, and brings what many
    wait for to the disk in little more time than what one waits for.

    Returns:
        What waits until all are safe; it raises OSError if the disk fails.
    """
    threads = _threads(os.getpid())
    begun = [threads.submit(_sync, path, os.O_RDONLY) for path in paths]

    def wait() -> None:
        failures = [failure for each in begun if (failure := each.exception()) is not None]
        if failures:
            raise failures[0]

    return wait


#: How many files are synced at a time.
_AT_A_TIME = 16


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads that sync; a process that was forked has none of those before it."""
    return ThreadPoolExecutor(_AT_A_TIME, f"sync-{process}")


def _sync(path: Path, flags: int) -> None:
    try:
        opened = os.open(path, flags)
    except FileNotFoundError:
        return
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
