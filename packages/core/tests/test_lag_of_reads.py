"""A source that a query reads twice is asked about both reads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mainstem.contracts.abilities import Lag, Measurable, Rewindable
from mainstem.run import lag, rollback


class Log(Measurable, Rewindable):
    """As far behind as its reads are."""

    capabilities = SimpleNamespace(replayable=True)

    def end(self, home: Path) -> dict[str, str]:
        return {}

    def lag(self, reached: str) -> list[Lag]:
        return [Lag("0", {"orders": 0, "orders__2": 99}[reached], 0.0)]

    def starting_at(self, point: Any) -> Any:
        return self

    def gone(self, since: str) -> str:
        return "all of it" if since == "orders__2" else ""


class History:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reached(self, read: str, home: Path, batch: int | None = None) -> str:
        return read

    def committed(self) -> list[int]:
        return [0, 1]

    planned = committed


@pytest.fixture
def plan(monkeypatch, tmp_path):
    for module in (lag, rollback):
        monkeypatch.setattr(module, "History", History)
    node = SimpleNamespace(source=Log(), word="log", state=None)
    return SimpleNamespace(
        nodes={"orders": node},
        home=lambda _: tmp_path,
        checkpoint=tmp_path,
        query_folder=lambda name: tmp_path / "queries" / name,
    )


QUERY = SimpleNamespace(name="all", reads={"orders": 2}, streaming=["orders"], sinks=[])


def test_the_lag_is_that_of_both(plan, tmp_path):
    """Pass: one read has all, the other lacks 99 rows: 99."""
    assert lag.summed(lag.query_lags(plan, QUERY, tmp_path))["orders"]["rows"] == 99


def test_what_either_lacks_keeps_a_query_from_being_taken_back(plan):
    """Pass: the second read needs what is gone."""
    assert rollback.refusals(plan, QUERY, 0) == [
        "orders no longer has what was read since: all of it"
    ]
