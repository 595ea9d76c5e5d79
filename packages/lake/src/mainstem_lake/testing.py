"""What tests of all formats do alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainstem_ingress import Columns

from mainstem_lake.receiver import LakeReceiver


@dataclass
class LedgerBatch:
    """What a table's ledger looks at of a batch."""

    id: int = 0
    epoch: int = 1
    pipeline: str = "p"
    sink: str = "s"
    query_id: str = "q"


def rows_of(taken: Any) -> list[dict[str, Any]]:
    """Return the rows of what a receiver has given at once."""
    found: list[dict[str, Any]] = []
    for part in taken.parts if len(taken) else ():
        assert isinstance(part, Columns)
        rows: Any = part.rows
        found += rows.to_pylist()
    return found


def changes_of(receiver: LakeReceiver, quiet: int = 5) -> list[tuple[str, Any, Any, int, str]]:
    """Return what comes, until nothing has some times: change, `id`, `name`, version, and its rank."""
    found, silent = [], 0
    while silent < quiet:
        rows = rows_of(receiver.take(0.01))
        silent = 0 if rows else silent + 1
        for row in rows:
            version, rank = row["_commit_version"].split("-")
            change = row["_change_type"], row["id"], row["name"], int(version, 16), rank
            found.append(change)
    return found
