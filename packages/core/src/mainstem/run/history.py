"""What Spark's checkpoint of a query tells, read without Spark.

- `offsets/N`: planned before batch N began; its last lines are `source:offset`
- `commits/N`: written when batch N was done, with the watermark of the next
- `sources/NAME/`: what a source itself keeps; `state/OPERATOR/PARTITION/VERSION.*`: state after the
  batch VERSION - 1
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mainstem.contracts.abilities import Reached


@dataclass(frozen=True)
class Offsets:
    """What was planned for a batch.

    `ends` holds, by source, the offset up to which the batch reads; `watermark` is the one that the
    batch works under, or None.
    """

    ends: Mapping[str, Any]
    watermark: datetime | None


class History:
    """The batches of one query.

    Args:
        folder: Spark's checkpoint folder of the query.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def planned(self) -> list[int]:
        """Return the ids of the batches that were planned and are still on record, in order."""
        return _numbers(self.folder / "offsets")

    def committed(self) -> list[int]:
        """Return the ids of the batches that are done and still on record, in order."""
        return _numbers(self.folder / "commits")

    def last(self) -> int | None:
        """Return the id of the last batch that is done, or None."""
        return max(self.committed(), default=None)

    def offsets(self, batch: int) -> Offsets:
        """Return what was planned for a batch.

        Raises:
            ValueError: the record can't be read.
        """
        version, settings, *lines = _lines(self.folder / "offsets" / str(batch))
        if version != "v2":
            raise ValueError(f"offsets/{batch} has the unknown version {version!r}")
        ends = {}
        for line in lines:
            name, _, offset = line.partition(":")
            ends[name] = None if offset in ("-", "") else json.loads(offset)
        return Offsets(ends, _time(json.loads(settings).get("batchWatermarkMs")))

    def watermark(self) -> datetime | None:
        """Return the watermark that the next batch works under, or None."""
        last = self.last()
        if last is None:
            return None
        text = _lines(self.folder / "commits" / str(last))[-1]
        return _time(json.loads(text).get("nextBatchWatermarkMs"))

    def reached(self, source: str, batch: int | None = None) -> Reached:
        """Return how far a source has been read by a batch that is done, the last when left out."""
        batch = self.last() if batch is None else batch
        end = None if batch is None else self.offsets(batch).ends.get(source)
        return Reached(end, self.folder / "sources" / source)

    def state_versions(self) -> dict[str, list[int]]:
        """Return, by `operator/partition`, the versions of state that files are there for."""
        found = {}
        for partition in sorted((self.folder / "state").glob("[0-9]*/[0-9]*")):
            if partition.is_dir():
                versions = {
                    int(f.name.split(".")[0].split("_")[0]) for f in _state_files(partition)
                }
                name = f"{partition.parent.name}/{partition.name}"
                found[name] = sorted(versions)
        return found

    def has_state(self, name: str, versions: list[int], wanted: int) -> bool:
        """Whether a version of a partition's state can be loaded: a snapshot, and each change since."""
        files = {f.name for f in _state_files(self.folder / "state" / name)}
        for version in range(wanted, 0, -1):
            if f"{version}.zip" in files or f"{version}.snapshot" in files:
                return True
            if version not in versions:
                return False
        return True

    def problems(self) -> list[str]:
        """Return what is wrong with the records; empty if a run can go on from them."""
        found = []
        planned, done = self.planned(), self.committed()
        for batch in planned:
            try:
                self.offsets(batch)
            except (ValueError, OSError, IndexError) as error:
                found.append(f"offsets/{batch} can't be read: {error}")
        if done:
            found += [f"offsets/{b} is missing" for b in done if b not in planned]
            between = range(done[0], done[-1])
            found += [f"commits/{b} is missing" for b in between if b not in done]
        last = self.last()
        if last is not None:
            try:
                self.watermark()
            except (ValueError, OSError, IndexError) as error:
                found.append(f"commits/{last} can't be read: {error}")
            found += [
                f"state {name} of batch {last} is incomplete"
                for name, versions in self.state_versions().items()
                if not self.has_state(name, versions, last + 1)
            ]
        return found


def _numbers(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.glob("[0-9]*") if file.name.isdigit())


def _state_files(partition: Path) -> list[Path]:
    return [f for f in partition.rglob("[0-9]*.*") if f.is_file() and not f.name.endswith(".crc")]


def _lines(file: Path) -> list[str]:
    return file.read_text().strip().splitlines()


def _time(millis: int | None) -> datetime | None:
    return datetime.fromtimestamp(millis / 1000, UTC) if millis else None
