"""What Spark's checkpoint of a query tells, read without Spark.

- `offsets/N`: planned before batch N began; its last lines are `source:offset`, of PySpark before 4.3 the
  offsets alone, in the order of `source-order`, which is ours
- `commits/N`: written when batch N was done, with the watermark of the next
- `sources/NAME/`: what a source itself keeps; `state/OPERATOR/PARTITION/VERSION.*`: state after the
  batch VERSION - 1
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from mainstem.contracts.abilities import Reached
from mainstem.durable import read_whole
from mainstem.event_time import from_millis

#: A version of a partition's state: whole, or what changed since the one before.
_STATE_FILE = re.compile(r"(\d+)(?:_[0-9a-fA-F-]+)?\.(changelog|delta|zip|snapshot)")


@dataclass(frozen=True)
class Offsets:
    """What was planned for a batch.

    `ends` holds, by source, the offset up to which the batch reads; `watermark` is the one that the
    batch works under, or None; `partitions` is into how many the state is cut.
    """

    ends: Mapping[str, Any]
    watermark: datetime | None
    partitions: int


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
        if version == "v2":
            told = [line.partition(":")[::2] for line in lines]
        elif version == "v1":
            order = self.source_order()
            if len(order) != len(lines):
                raise ValueError(f"offsets/{batch} has {len(lines)} sources, and not {len(order)}")
            told = list(zip(order, lines, strict=True))
        else:
            raise ValueError(f"offsets/{batch} has the unknown version {version!r}")
        ends = {name: None if end in ("-", "") else json.loads(end) for name, end in told}
        facts = json.loads(settings)
        partitions = int(facts.get("conf", {}).get("spark.sql.shuffle.partitions", 0))
        return Offsets(ends, _time(facts.get("batchWatermarkMs")), partitions)

    @property
    def order_file(self) -> Path:
        """Where the order of the sources is kept, if Spark's records do not name them."""
        return self.folder / "source-order"

    def source_order(self) -> list[str]:
        """Return the names of the sources, in the order of Spark's records that do not name them.

        Raises:
            ValueError: it is not on record.
        """
        try:
            found = json.loads(read_whole(self.order_file))
        except FileNotFoundError:
            raise ValueError("it names no sources, and their order is not on record") from None
        return [str(name) for name in found]

    def planned_at(self, batch: int) -> int:
        """Return when a batch was planned, its clock however often it is run: milliseconds since 1970.

        Raises:
            OSError, ValueError: the record can't be read.
        """
        facts = json.loads(_lines(self.folder / "offsets" / str(batch))[1])
        return int(facts["batchTimestampMs"])

    def watermark(self) -> datetime | None:
        """Return the watermark that the next batch works under, or None."""
        last = self.last()
        if last is None:
            return None
        text = _lines(self.folder / "commits" / str(last))[-1]
        return _time(json.loads(text).get("nextBatchWatermarkMs"))

    def reached(self, source: str, home: Path, batch: int | None = None) -> Reached:
        """Return how far a source has been read by a batch that is done, the last when left out.

        `home` is the source's durable folder.
        """
        batch = self.last() if batch is None else batch
        end = None if batch is None else self.offsets(batch).ends.get(source)
        return replace(self.beginning(source, home), offset=end)

    def beginning(self, source: str, home: Path) -> Reached:
        """Return the point before all that a source was read for."""
        return Reached(None, self.folder / "sources" / source, home)

    def missing_state(self, batch: int) -> list[str]:
        """Return which partitions of the state after a batch can't be put together.

        Each needs a snapshot, and every change since. Only for a query that keeps state.
        """
        operators = sorted((self.folder / "state").glob("[0-9]*"))
        if not operators:
            return ["the state is gone"]
        partitions = self.offsets(batch).partitions
        return [
            f"state {operator.name}/{number} of batch {batch} is incomplete"
            for operator in operators
            for number in range(partitions)
            if not _has_version(operator / str(number), batch + 1)
        ]

    def problems(self, *, stateful: bool) -> list[str]:
        """Return what is wrong with the records; empty if a run can go on from them."""
        found = []
        done, planned = self.committed(), self.planned()
        for batch in planned:
            try:
                self.offsets(batch)
            except (ValueError, OSError, IndexError) as error:
                found.append(f"offsets/{batch} can't be read: {error}")
        if done:
            first = min(planned, default=done[-1])  # Spark removes old offsets before old commits
            found += [f"offsets/{b} is missing" for b in done if b >= first and b not in planned]
            between = range(done[0], done[-1])
            found += [f"commits/{b} is missing" for b in between if b not in done]
        last = self.last()
        if last is not None:
            try:
                self.watermark()
            except (ValueError, OSError, IndexError) as error:
                found.append(f"commits/{last} can't be read: {error}")
            if stateful and last in planned and not found:
                found += self.missing_state(last)
        return found


@dataclass(frozen=True)
class ReadProgress:
    """One read of a source in a query; see `Progress`.

    Attributes:
        folder: Spark's checkpoint of the query.
        read: the read's name there.
    """

    folder: Path
    read: str

    def planned(self) -> tuple[int, Any] | None:
        return self._last(History(self.folder).planned())

    def committed(self) -> tuple[int, Any] | None:
        return self._last(History(self.folder).committed())

    def _last(self, batches: list[int]) -> tuple[int, Any] | None:
        if not batches:
            return None
        return batches[-1], History(self.folder).offsets(batches[-1]).ends.get(self.read)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.glob("[0-9]*") if file.name.isdigit())


def _has_version(partition: Path, wanted: int) -> bool:
    found: dict[int, set[str]] = {}
    for file in partition.glob("[0-9]*"):
        match = _STATE_FILE.fullmatch(file.name)
        if match:
            found.setdefault(int(match[1]), set()).add(match[2])
    for version in range(wanted, 0, -1):
        kinds = found.get(version, set())
        if kinds & {"zip", "snapshot"}:
            return True
        if not kinds:
            return False
    return True


def _lines(file: Path) -> list[str]:
    return file.read_text().strip().splitlines()


def _time(millis: int | None) -> datetime | None:
    return from_millis(millis) if millis else None
