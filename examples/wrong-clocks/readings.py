"""Writes a part of a morning's readings into `arrived/`, as a gateway has received them.

`readings.py PART`: part 1 ends at 9:30, part 2 at 11:20. What is true is in `truth.json`.

Six sensors in two rooms measure once a minute and send at once. Their clocks are wrong by up to two
hours, and `b3` loses a second each minute. From 9:00 to 9:30 the radio of `a2` is out: it sends what it
has measured then afterwards. `b2` has been found in a drawer at 11:00, with readings from 8:00 on.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)
#: When each part ends, in minutes.
PARTS = (90, 200)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
#: How far each clock is ahead of the gateway's.
AHEAD = {
    "a1": 0 * MINUTE,
    "a2": 7 * MINUTE,
    "a3": -37 * MINUTE,
    "b1": 120 * MINUTE,
    "b2": -3 * MINUTE,
    "b3": 1 * MINUTE,
}


def sent_at(sensor: str, minute: int) -> int:
    """Return in which minute a reading is sent."""
    if sensor == "a2" and 60 <= minute < 90:
        return 90
    if sensor == "b2" and minute < 180:
        return 180
    return minute


def main(part: int) -> None:
    draw = random.Random(7)
    arrived: dict[int, list[str]] = defaultdict(list)
    truth: dict[str, list[float]] = defaultdict(list)
    for minute in range(PARTS[-1]):
        for sensor in AHEAD:
            at, ahead = BEGIN + minute * MINUTE + 30 * SECOND, AHEAD[sensor]
            sent = BEGIN + sent_at(sensor, minute) * MINUTE + 40 * SECOND
            # What a clock says by then is what it is off by when it sends.
            if sensor == "b3":
                ahead -= sent_at(sensor, minute) * SECOND
            celsius = round(18 + minute / 60 + draw.uniform(-1, 1), 2)
            reading = {
                "sensor": sensor,
                "room": sensor[0],
                "measured": (at + ahead).isoformat(),
                "sent": (sent + ahead).isoformat(),
                "received": (sent + draw.uniform(0.1, 2) * SECOND).isoformat(),
                "celsius": celsius,
            }
            number = next(n for n, end in enumerate(PARTS, 1) if sent_at(sensor, minute) < end)
            arrived[number].append(json.dumps(reading))
            window = BEGIN + minute // 10 * 10 * MINUTE
            truth[f"{sensor[0]} {window:%H:%M}"].append(celsius)
    folder = Path("arrived")
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{part}"
    hidden.write_text("".join(line + "\n" for line in arrived[part]))
    hidden.rename(folder / f"{part}.jsonl")
    means = {name: [len(each), round(sum(each) / len(each), 2)] for name, each in truth.items()}
    Path("truth.json").write_text(json.dumps(means, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
