"""Makes payments of fifty cards over a day: python payments.py. Two cards are tried out, then emptied."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, tzinfo=UTC)


def payments() -> list[tuple[datetime, str, float]]:
    """Return them in the order of their time: when, which card, how much."""
    dice = random.Random(7)
    found = []
    for card in range(50):
        for _ in range(20):
            at = START + timedelta(seconds=dice.randrange(86_400))
            found.append((at, f"card-{card:02}", dice.choice([4.5, 19.9, 35, 60, 80, 120, 1_500])))
    # Small ones until one goes through, then as much as can be had.
    for card, hour, smalls in (("card-07", 3, [0.99, 0.99, 1.49]), ("card-31", 14, [2, 1, 3, 2.5])):
        at = START + timedelta(hours=hour)
        for number, amount in enumerate([*smalls, 2_499]):
            found.append((at + number * timedelta(minutes=1), card, amount))
    return sorted(found)


def main() -> None:
    """Write them into payments/, a file for each hour."""
    folder = Path("payments")
    folder.mkdir(exist_ok=True)
    hours: dict[int, list[str]] = {}
    for at, card, amount in payments():
        line = json.dumps({"card": card, "at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "amount": amount})
        hours.setdefault(at.hour, []).append(line)
    for hour, lines in hours.items():
        (folder / f"{hour:02}.json").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
