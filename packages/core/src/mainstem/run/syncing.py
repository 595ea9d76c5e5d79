"""Puts Spark's records of a query on disk before what relies on them.

Spark renames its files into place, and leaves it to the system when they reach the disk. After a loss
of power a batch that a sink has could then be planned anew with other rows, or what a source has let go
of be wanted once more. So the runner syncs, each with its folder, and beside its other work:

- what was planned (`offsets/N`, and what Spark's sources note of it) before a sink is given batch N
- the state that a batch leaves before Spark calls the batch done
- `commits/N` before a source of ours hears that batch N is done, and before the next is begun

What was not synced may be there in part, which Spark could not go on from; `mend` removes it.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from mainstem.durable import begin_sync
from mainstem.history import History

#: Of Hadoop's files of checksums: the bytes before them, of each, and for how many bytes each is.
_CRC_HEADER, _CRC, _CRC_OF = 8, 4, 512


class Syncing:
    """Syncs the records of one query while it runs.

    Args:
        folder: Spark's checkpoint folder of the query, on a disk or a file system that all share.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, set[Path]] = {}
        self._waits: list[Callable[[], None]] = []

    def planned(self, batch: int) -> None:
        """Begin to sync what batch `batch` was planned with, and that the one before is done."""
        paths = []
        if not self._known:
            paths += [self._folder, *self._folder.parents[:3]]
            # Made when the first batch is planned: Spark does not go on without it.
            paths += self._new("state")
        paths += [
            *_record(self._folder / "commits" / str(batch - 1)),
            *self._new("sources"),
            *_record(self._folder / "offsets" / str(batch)),
        ]
        self._waits.append(begin_sync(paths))

    def written(self) -> None:
        """Begin to sync the state that a batch leaves; all its rows are written."""
        self._waits.append(begin_sync(self._new("state")))

    def settle(self) -> None:
        """Wait until all that was begun is on disk.

        Raises:
            OSError: the disk fails.
        """
        waits, self._waits = self._waits, []
        for wait in waits:
            wait()

    def _new(self, part: str) -> list[Path]:
        """Return what came below a folder since the last time, with the folders that it is in."""
        found: list[Path] = []
        present: set[Path] = set()
        known = self._known.get(part, set())
        for path, folders, names in os.walk(self._folder / part):
            files = {Path(path, name) for name in names if not name.endswith(".tmp")}
            here = files | {Path(path, name) for name in folders}
            if here - known:
                found += [*(files - known), Path(path)]
            present |= here
        self._known[part] = present
        return found


def sync_done(folder: Path) -> None:
    """Sync what says that a query's last batch is done.

    Raises:
        OSError: the disk fails.
    """
    last = History(folder).last()
    if last is not None:
        begin_sync(_record(folder / "commits" / str(last)))()


def _record(file: Path) -> tuple[Path, ...]:
    """Return what has to be synced of a record of Spark's: its checksums and its name too."""
    return file, _checksums(file), file.parent


def mend(folder: Path, *, stateful: bool) -> None:
    """Remove what a loss of power, or a kill, has left in part, of what nothing relied on yet.

    Those are the newest record of a batch that is done, which then is done once more; the newest of one
    that is planned, if it is after that; that of the first, if what is made of the state with it is not
    whole; what Spark's sources have noted for a batch that is planned next; the state that batches have
    left which are not done; and snapshots of other state, which is read from the changes instead.
    """
    history = History(folder)
    for batch in history.committed()[-1:]:
        if _torn(history, folder / "commits" / str(batch)):
            _remove(folder / "commits" / str(batch))
    done = history.committed()
    torn = [file for log in (folder / "sources").glob("*") for file in _torn_notes(history, log)]
    for batch in history.planned()[-1:]:
        begun = not torn and (bool(done) or not stateful or _state_begun(folder / "state"))
        if batch not in done and (not begun or _torn(history, folder / "offsets" / str(batch))):
            _remove(folder / "offsets" / str(batch))
    for file in torn:
        _remove(file)
    remove_state(folder, after=max(done, default=-1))
    for snapshot in (folder / "state").glob("[0-9]*/[0-9]*/**/*.zip"):
        if not zipfile.is_zipfile(snapshot):
            _remove(snapshot)


def remove_state(folder: Path, *, after: int) -> None:
    """Remove the state that batches after one have left: Spark does not write over what is there.

    Args:
        folder: Spark's checkpoint folder of the query.
        after: the batch; -1 for the state of all.
    """
    for file in (folder / "state").glob("[0-9]*/[0-9]*/**/*"):
        # The state that a batch leaves has the number after the batch's.
        if (number := _version(file.name)) is not None and number > after + 1 and file.is_file():
            _remove(file)


def _version(name: str) -> int | None:
    """Return the number of a file of Spark's, of a version of state or of a note; None if it has none."""
    digits = name.partition(".")[0].partition("_")[0]
    return int(digits) if digits.isdigit() else None


def _torn_notes(history: History, log: Path) -> list[Path]:
    """Return what a source of Spark's has noted that ends too early, and all that it has noted since.

    Of a batch that is done nothing can: it was synced before the batch was written.
    """
    last = history.last()
    try:
        end = None if last is None else history.offsets(last).ends.get(log.name)
    except ValueError:  # told when the run reads it
        return []
    relied = -1 if end is None else end.get("logOffset", 0) if isinstance(end, dict) else 0
    notes = {n: file for file in log.glob("[0-9]*") if (n := _version(file.name)) is not None}
    numbers = sorted(n for n in notes if n > relied)
    first = next((n for n in numbers if _torn(history, notes[n])), None)
    return [notes[n] for n in numbers if first is not None and n >= first]


def _state_begun(state: Path) -> bool:
    """Whether there is any, and what describes it is whole: made when the first batch is planned."""
    files = [file for file in state.rglob("*") if file.is_file()]
    described = [file for file in files if file.parent.name.startswith("_")]
    return bool(files) and not any(_short(file, file.stat().st_size) for file in described)


def _remove(file: Path) -> None:
    _checksums(file).unlink(missing_ok=True)
    file.unlink()


def _torn(history: History, file: Path) -> bool:
    """Whether a record of Spark's, or that of its checksums, ends too early."""
    data = file.read_bytes()
    if _short(file, len(data)):
        return True
    # Whole, also where it has fewer sources than the one before: documents change.
    if _sums_fit(file, data):
        return False
    lines = data.strip(b"\0\n ").split(b"\n")
    if file.parent.name == "offsets":  # the version, the settings, each source's offset
        before = max((n for n in history.planned() if n < int(file.name)), default=None)
        known = [] if before is None else file.with_name(str(before)).read_bytes().split(b"\n")
        if len(lines) < max(3, len(known)):
            return True
        if lines[0] != b"v1":  # which names no sources
            lines[-1] = lines[-1].partition(b":")[2]
    elif len(lines) < 2:  # the version, and what is noted
        return True
    try:
        json.loads(lines[-1])
    except UnicodeDecodeError:
        return False
    except json.JSONDecodeError as error:
        return error.pos >= len(lines[-1]) - 1 or error.msg.startswith("Unterminated string")
    return False


def _short(file: Path, size: int) -> bool:
    """Whether a file of Spark's is empty, or its checksums are not of a file of its size."""
    sums = _checksums(file)
    wanted = _CRC_HEADER + _CRC * -(-size // _CRC_OF)
    return not size or (sums.exists() and sums.stat().st_size != wanted)


def _sums_fit(file: Path, data: bytes) -> bool:
    """Whether a file of Spark's has checksums, and they are those of what is in it."""
    try:
        sums = _checksums(file).read_bytes()[_CRC_HEADER:]
    except FileNotFoundError:
        return False
    made = [zlib.crc32(data[n : n + _CRC_OF]) for n in range(0, len(data), _CRC_OF)]
    return sums == struct.pack(f">{len(made)}I", *made)


def _checksums(file: Path) -> Path:
    """Return where Hadoop keeps the checksums of a file."""
    return file.with_name(f".{file.name}.crc")
