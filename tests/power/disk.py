"""What a disk has after a loss of power, made of what `recorder.c` has written down.

A file's content is safe when the file was synced, a name when its folder was. Of what was not, anything may
be there: nothing, names of files that are empty, or some of both.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

_HEAD = struct.Struct("<IB3xQQQ")

#: What a loss of power leaves of that which was not synced: nothing; all names, of files whose content
#: is as it was synced; or the names up to some moment, and some of each file.
Left = Literal["nothing", "names", "some"]


@dataclass(frozen=True)
class Step:
    """One thing that a process did: `what` is one of the letters of `Disk.do`; `time` is monotonic, in ns."""

    what: str
    time: int
    inode: int
    offset: int
    data: bytes

    def paths(self) -> tuple[str, str]:
        if self.what in "CFS":
            return self.data.decode(), ""
        return self.data[: self.offset].decode(), self.data[self.offset :].decode()


class Recorder:
    """Records what processes that are started with `env` do below a folder.

    Args:
        root: an empty folder.
        folder: where the recorder's own files are made; elsewhere.

    Raises:
        FileNotFoundError: there is no C compiler.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise FileNotFoundError("no C compiler (cc)")
        self.trace, library = folder / "trace", folder / "recorder.so"
        given = [f'-DROOT="{root}"', f'-DTRACE="{self.trace}"']
        source = str(Path(__file__).with_name("recorder.c"))
        made = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(library)]
        subprocess.run([compiler, *made, *given, source, "-ldl"], check=True)
        self.env: Mapping[str, str] = {"LD_PRELOAD": str(library)}

    def steps(self) -> list[Step]:
        """Return what was recorded so far, in order."""
        return list(_steps(self.trace.read_bytes()))


def _steps(data: bytes) -> Iterator[Step]:
    at = 0
    while at + _HEAD.size <= len(data):
        size, what, time, inode, offset = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield Step(chr(what), time, inode, offset, data[at : at + size])
        at += size


@dataclass(eq=False)
class _File:
    """A file's content: as it was synced, and what was done to it since."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Step] = field(default_factory=list)

    def content(self, some: int | None = None) -> bytearray:
        """Return the content with the first `some` of what is pending; with all when left out."""
        found = bytearray(self.synced)
        for step in self.pending[:some]:
            if step.what == "T":
                del found[step.offset :]
                found.extend(bytes(step.offset - len(found)))
            else:
                end = step.offset + len(step.data)
                found.extend(bytes(max(0, end - len(found))))
                found[step.offset : end] = step.data
        return found

    def sync(self) -> None:
        self.synced = self.content()
        self.pending.clear()


@dataclass(eq=False)
class _Folder:
    """A folder: what stands under each name now, and on disk."""

    now: dict[str, _File | _Folder] = field(default_factory=dict)
    safe: dict[str, _File | _Folder] = field(default_factory=dict)


@dataclass(frozen=True)
class _Change:
    """What one step did to names, which is on disk whole or not at all."""

    entries: tuple[tuple[_Folder, str, _File | _Folder | None], ...]

    def touches(self, folder: _Folder) -> bool:
        return any(each is folder for each, _, _ in self.entries)

    def places(self) -> set[tuple[int, str]]:
        return {(id(folder), name) for folder, name, _ in self.entries}

    def put(self, names: Mapping[int, dict[str, _File | _Folder]] | None = None) -> None:
        """Do it to the names of now, or to those that are given by the folders' ids."""
        for folder, name, node in self.entries:
            found = folder.now if names is None else names[id(folder)]
            if node is None:
                found.pop(name, None)
            else:
                found[name] = node


class Disk:
    """A disk on which some steps were done.

    Args:
        root: the folder that was recorded.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._top = _Folder()
        self._folders = [self._top]
        self._pending: list[_Change] = []
        self._files: dict[int, _File] = {}

    def do(self, step: Step) -> None:
        """Do a step: C a file is made, W written, T cut, S synced; F a folder is synced; R and X names
        are changed and exchanged, L one is added, U and D a file's and a folder's removed, M one made.
        """
        if step.what in "WT":
            self._files[step.inode].pending.append(step)
        elif step.what == "S":
            if step.inode in self._files:
                self._files[step.inode].sync()
        elif step.what == "F":
            folder = self._find(step.paths()[0])
            if isinstance(folder, _Folder):  # else it was removed meanwhile
                self._sync_names(folder)
        else:
            change = self._change(step)
            change.put()
            self._pending.append(change)

    def _change(self, step: Step) -> _Change:
        one, other = (self._place(path) if path else None for path in step.paths())
        assert one is not None
        folder, name = one
        there = folder.now.get(name)
        if step.what == "C":
            made = self._files[step.inode] = _File()
            return _Change(((folder, name, made),))
        if step.what == "M":
            self._folders.append(_Folder())
            return _Change(((folder, name, self._folders[-1]),))
        if step.what in "UD":
            return _Change(((folder, name, None),))
        assert other is not None
        gone = {"L": there, "R": None, "X": other[0].now.get(other[1])}[step.what]
        return _Change(((folder, name, gone), (*other, there)))

    def _place(self, path: str) -> tuple[_Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self._find(above)
        assert isinstance(folder, _Folder), path
        return folder, name

    def _find(self, path: str) -> _File | _Folder | None:
        node: _File | _Folder | None = self._top
        for name in path[len(self._root) :].strip("/").split("/"):
            if name and isinstance(node, _Folder):
                node = node.now.get(name)
        return node

    def _sync_names(self, folder: _Folder) -> None:
        """Put what was done to the names in a folder on disk, and what was done to them elsewhere before."""
        wanted: set[tuple[int, str]] = set()
        taken, kept = [], []
        for change in reversed(self._pending):
            if change.touches(folder) or change.places() & wanted:
                wanted |= change.places()
                taken.append(change)
            else:
                kept.append(change)
        safe = {id(each): each.safe for each in self._folders}
        for change in reversed(taken):
            change.put(safe)
        self._pending = kept[::-1]

    def whole(self) -> dict[str, bytes | None]:
        """Return all names and contents, None for a folder, as processes see them."""
        names = {id(each): each.now for each in self._folders}
        return dict(_listed(self._root, self._top, names, lambda file: file.content()))

    def left(self, left: Left, seed: int = 0) -> dict[str, bytes | None]:
        """Return what is there after a loss of power."""
        chance = random.Random(seed)
        count = {"nothing": 0, "names": len(self._pending)}.get(
            left, chance.randint(0, len(self._pending))
        )
        names = {id(each): dict(each.safe) for each in self._folders}
        for change in self._pending[:count]:
            change.put(names)

        def content(file: _File) -> bytearray:
            return file.content(chance.randint(0, len(file.pending)) if left == "some" else 0)

        return dict(_listed(self._root, self._top, names, content))


def _listed(
    path: str,
    folder: _Folder,
    names: Mapping[int, dict[str, _File | _Folder]],
    content: Callable[[_File], bytearray],
) -> Iterator[tuple[str, bytes | None]]:
    for name, node in sorted(names[id(folder)].items()):
        below = f"{path}/{name}"
        if isinstance(node, _File):
            yield below, bytes(content(node))
        else:
            yield below, None
            yield from _listed(below, node, names, content)


def on_disk(root: Path) -> dict[str, bytes | None]:
    """Return all names and contents below a folder, None for a folder."""
    return {
        str(path): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }


def put(root: Path, content: Mapping[str, bytes | None]) -> None:
    """Let a folder have just this."""
    shutil.rmtree(root)
    root.mkdir()
    for path, data in sorted(content.items()):
        if data is None:
            Path(path).mkdir(parents=True, exist_ok=True)
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(data)
