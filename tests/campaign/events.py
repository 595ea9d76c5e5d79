"""What is sent: numbered events."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

#: Event times begin here, in seconds since 1970: 2026-01-01.
START = 1_767_225_600
KEYS = 20


@dataclass(frozen=True)
class Event:
    """One event: its number, a key, its time in seconds since 1970, and a value from 0 to 99."""

    n: int
    k: str
    at: int
    v: int

    def as_json(self) -> str:
        return json.dumps({**asdict(self), "at": iso(self.at)})


def iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def events(chance: random.Random, count: int) -> Sequence[Event]:
    """Return events whose times grow by 20 s on the average, none more than a minute behind."""
    return [
        Event(
            n,
            f"k{chance.randrange(KEYS)}",
            START + 20 * n - chance.randrange(60),
            chance.randrange(100),
        )
        for n in range(count)
    ]
