"""What came out against what was sent, and against what the plan claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from campaign.chains import Chain


@dataclass(frozen=True)
class Verdict:
    """What was found on one path in one round.

    Attributes:
        expected: how many rows had to come out.
        lost: how many of them did not.
        doubled: how many came again.
        wrong: how many came that nobody sent.
        disordered: keys whose rows came in another order, copies aside; none where no order is claimed.
    """

    expected: int
    lost: int
    doubled: int
    wrong: int
    disordered: int

    def broken(self, claimed: str) -> list[str]:
        """Return what contradicts a claim."""
        found = []
        if self.lost and claimed in ("at-least-once", "exactly-once"):
            found.append(f"{self.lost} lost")
        if self.doubled and claimed in ("at-most-once", "exactly-once"):
            found.append(f"{self.doubled} doubled")
        if self.wrong and claimed != "none":
            found.append(f"{self.wrong} wrong")
        if self.disordered:
            found.append(f"{self.disordered} keys out of order")
        return found

    @property
    def seen(self) -> str:
        """The strongest level that this could be."""
        if self.lost or self.wrong:
            return "none" if self.doubled or self.wrong else "at-most-once"
        return "at-least-once" if self.doubled else "exactly-once"


def judge(
    chain: Chain,
    expected: Counter[tuple[Any, ...]],
    rows: Sequence[Mapping[str, Any]],
    *,
    table: bool = False,
    ordered: bool = False,
) -> Verdict:
    """Compare.

    Args:
        rows: what the sink has, in its order.
        table: whether the sink keeps the last table itself.
        ordered: whether a key's rows must come in order.
    """
    if chain.table and not table:
        rows = last_table(rows)
    found = Counter(tuple(row.get(name) for name in chain.columns) for row in rows)
    lost = sum((expected - found).values())
    doubled = sum(n - expected[row] for row, n in found.items() if n > expected[row] > 0)
    wrong = sum(n for row, n in found.items() if not expected[row])
    disordered = _disordered(rows) if ordered else 0
    return Verdict(sum(expected.values()), lost, doubled, wrong, disordered)


def last_table(changes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the table that a changelog keyed by `k` makes."""
    last: dict[Any, Mapping[str, Any]] = {}
    for row in sorted(changes, key=lambda row: row["_commit_version"]):
        if row["_change_type"] != "update_preimage":
            last[row["k"]] = row
    return [row for row in last.values() if row["_change_type"] != "delete"]


def _disordered(rows: Sequence[Mapping[str, Any]]) -> int:
    numbers: dict[Any, dict[int, None]] = defaultdict(dict)  # in the order in which each first came
    for row in rows:
        numbers[row["k"]].setdefault(row["n"])
    return sum(list(mine) != sorted(mine) for mine in numbers.values())
