"""What a receiver shows beside the rows."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from mainstem_aws.client import Calls

from mainstem_broker_kinesis.source.reading import ShardReading
from mainstem_broker_kinesis.source.records import Seen


@dataclass
class Counts:
    """What has happened since the process began."""

    throttled: int = 0
    failed: int = 0
    lost: int = 0
    seen: Seen = field(default_factory=Seen)
    calls: Calls = field(default_factory=Calls)
    #: When the rate was reckoned last, after how many reads, and what it was.
    _rate: tuple[float, int, float] = field(default_factory=lambda: (time.monotonic(), 0, 0.0))

    def facts(self, readings: Collection[ShardReading]) -> dict[str, Any]:
        """Return all of it, and how far the shards are that are being read."""
        calls = self.calls.counts
        behind = [each.behind for each in readings if each.behind is not None]
        at, before, rate = self._rate
        now = time.monotonic()
        if now - at >= 1:
            rate = (calls["GetRecords"] - before) / (now - at) / max(1, len(readings))
            self._rate = (now, calls["GetRecords"], rate)
        return {
            "shards": len(readings),
            "behind_seconds": round(max(behind, default=0.0), 1),
            "reads_per_shard_and_second": round(rate, 2),
            "calls": dict(sorted(calls.items())),
            "throttled": self.throttled,
            "failed": self.failed,
            "aggregates": self.seen.aggregates,
            "outside": self.seen.outside,
            "lost": self.lost,
        }
