"""Windows over real batches: totals, order of arrival, the end of a bounded run, restarts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from mainstem.plan.build import make_plan
from mainstem.run.runner import run

CONF = {
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


class Case:
    """One aggregate over JSON lines, in a folder of its own."""

    def __init__(self, folder: Path, flush: bool = True, **options: Any) -> None:
        self.folder = folder
        (folder / "in").mkdir(exist_ok=True)
        self.fed = 1_700_000_000
        self.document = {
            "pipeline": "test",
            "checkpoint": str(folder / "checkpoints"),
            "trigger": {"available_now": True, "flush": flush},
            "spark": {"master": "local[2]", "conf": CONF},
            "sources": {
                "rows": {
                    "use": "files",
                    "with": {
                        "path": str(folder / "in"),
                        "format": "jsonlines",
                        "schema": "k STRING, at TIMESTAMP, v INT",
                        "max_files": 1,
                    },
                    "watermark": {"column": "at", "delay": "10 minutes"},
                }
            },
            "operators": {"total": {"use": "aggregate", "from": "rows", "with": options}},
            "sinks": {
                "out": {
                    "use": "files",
                    "from": "total",
                    "with": {"path": str(folder / "out"), "format": "jsonlines"},
                }
            },
        }

    def feed(self, name: str, *rows: tuple[str, str | None, int]) -> None:
        lines = [
            json.dumps({"k": k, "at": at and f"2024-05-01T{at}:00Z", "v": v}) for k, at, v in rows
        ]
        hidden = self.folder / f".{name}"
        hidden.write_text("\n".join(lines) + "\n")
        # Spark takes the files in the order of their times, which ties leave open.
        self.fed += 1
        os.utime(hidden, (self.fed, self.fed))
        hidden.rename(self.folder / "in" / name)

    def run(self) -> dict[str, Any]:
        return run(make_plan(self.document))

    def rows(self) -> list[dict[str, Any]]:
        files = (self.folder / "out").glob("*/*.json")
        return [
            json.loads(line) for file in sorted(files) for line in file.read_text().splitlines()
        ]

    def totals(self) -> dict[tuple[str, str], int]:
        rows = self.rows()
        found = {(row["k"], row["window_start"][11:16]): row["n"] for row in rows}
        assert len(found) == len(rows), "a window came out twice"
        return found


HOUR = {"on": "at", "tumbling": "1 hour"}
TOTAL = {"by": ["k"], "columns": {"n": "sum(v)"}}


@pytest.mark.in_turn
def test_tumbling_windows_add_up_and_flush_closes_the_last(tmp_path):
    """Pass: each key and hour once, the last one too."""
    case = Case(tmp_path, window=HOUR, **TOTAL)
    case.feed("1", ("a", "01:10", 1), ("a", "01:50", 2), ("b", "01:00", 5))
    case.feed("2", ("a", "02:10", 7), ("a", "01:59", 4))
    case.run()
    assert case.totals() == {("a", "01:00"): 7, ("b", "01:00"): 5, ("a", "02:00"): 7}


@pytest.mark.in_turn
def test_names_in_options_may_be_written_in_another_case(tmp_path):
    """Pass: the columns have the names that the input's have."""
    window = {"on": "AT", "tumbling": "1 hour"}
    case = Case(tmp_path, window=window, by=["K"], columns={"n": "sum(V)"})
    case.feed("1", ("a", "01:10", 1), ("a", "01:50", 2))
    case.run()
    assert case.totals() == {("a", "01:00"): 3}


@pytest.mark.in_turn
def test_without_flush_windows_that_the_watermark_has_not_passed_stay_open(tmp_path):
    """Pass: only the hour that is over by the watermark comes out; a later run completes the rest."""
    case = Case(tmp_path, flush=False, window=HOUR, **TOTAL)
    case.feed("1", ("a", "01:10", 1))
    case.feed("2", ("a", "02:30", 2))
    case.run()
    assert case.totals() == {("a", "01:00"): 1}
    case.feed("3", ("a", "02:40", 3), ("a", "03:30", 4))
    case.run()
    assert case.totals() == {("a", "01:00"): 1, ("a", "02:00"): 5}


@pytest.mark.in_turn
def test_a_flushed_run_is_followed_by_another_day_that_is_not_late(tmp_path):
    """Pass: after a flush, an idle run moves nothing, and the next hours are counted in full."""
    case = Case(tmp_path, window=HOUR, **TOTAL)
    case.feed("1", ("a", "01:10", 1))
    case.run()
    first = case.totals()
    for _ in range(3):
        case.run()
    assert case.totals() == first == {("a", "01:00"): 1}
    case.feed("2", ("a", "03:00", 2), ("a", "03:20", 3))
    case.run()
    assert case.totals() == {**first, ("a", "03:00"): 5}


@pytest.mark.in_turn
def test_flush_can_be_added_to_a_checkpoint_that_was_made_without(tmp_path):
    """Pass: the open window of the first run is closed by the second, with its state."""
    case = Case(tmp_path, flush=False, window=HOUR, **TOTAL)
    case.feed("1", ("a", "01:10", 1))
    case.run()
    assert case.totals() == {}
    case.document["trigger"]["flush"] = True
    case.feed("2", ("a", "01:20", 2))
    case.run()
    assert case.totals() == {("a", "01:00"): 3}


@pytest.mark.in_turn
def test_late_rows_are_dropped_and_counted(tmp_path):
    """Pass: a row behind the watermark changes no total and is in the summary's late count."""
    case = Case(tmp_path, window=HOUR, **TOTAL)
    case.feed("1", ("a", "01:10", 1))
    case.feed("2", ("a", "05:00", 2))
    case.feed("3", ("a", "05:10", 3))  # Spark drops by the watermark of the batch before the last
    case.feed("4", ("a", "01:20", 100))
    summary = case.run()
    assert case.totals() == {("a", "01:00"): 1, ("a", "05:00"): 5}
    assert summary["queries"]["total"]["late_rows"] == 1


@pytest.mark.in_turn
def test_rows_without_a_time_are_counted(tmp_path):
    """Pass: the totals are those of the others, and the summary tells how many had no time."""
    case = Case(tmp_path, window=HOUR, **TOTAL)
    case.feed("1", ("a", "01:10", 1), ("a", None, 10), ("b", None, 20))
    case.feed("2", ("a", "01:20", 2), ("a", None, 30))
    summary = case.run()
    assert case.totals() == {("a", "01:00"): 3}
    nodes = summary["queries"]["total"]["nodes"]
    (rows,) = set(nodes) - {"total", "out"}
    assert nodes[rows] == {"rows": 5, "rejected": 0, "without_time": 3}
    assert nodes["total"] == {"rows": 1}


@pytest.mark.in_turn
def test_hopping_windows_overlap(tmp_path):
    """Pass: a row counts in each window that holds it."""
    window = {"on": "at", "hopping": "1 hour", "every": "30 minutes"}
    case = Case(tmp_path, window=window, **TOTAL)
    case.feed("1", ("a", "01:10", 1), ("a", "01:40", 2))
    case.run()
    assert case.totals() == {("a", "00:30"): 1, ("a", "01:00"): 3, ("a", "01:30"): 2}


@pytest.mark.in_turn
def test_a_session_lasts_as_long_as_rows_follow(tmp_path):
    """Pass: a gap ends a session; its end is the last row plus the gap."""
    case = Case(tmp_path, window={"on": "at", "session": "20 minutes"}, **TOTAL)
    case.feed("1", ("a", "01:00", 1), ("a", "01:15", 2), ("a", "02:00", 4))
    case.run()
    assert case.totals() == {("a", "01:00"): 3, ("a", "02:00"): 4}
    assert {row["window_end"][11:16] for row in case.rows()} == {"01:35", "02:20"}


@pytest.mark.in_turn
def test_changes_without_a_window_carry_the_batch_as_sequence(tmp_path):
    """Pass: each batch's new totals, of the keys that changed, with a sequence that grows."""
    case = Case(tmp_path, flush=False, emit="changes", **TOTAL)
    case.feed("1", ("a", "01:00", 1), ("b", "01:00", 1))
    case.feed("2", ("a", "01:00", 2))
    case.run()
    found = {(r["k"], r["_commit_version"]): r["n"] for r in case.rows()}
    assert found == {("a", 0): 1, ("b", 0): 1, ("a", 1): 3}
    assert {row["_change_type"] for row in case.rows()} == {"update_postimage"}


@pytest.mark.parametrize("max_files", [1, 3])
@pytest.mark.in_turn
def test_totals_do_not_depend_on_batches_or_restarts(tmp_path, max_files):
    """Pass: the same totals however the files fall into batches and runs."""
    case = Case(tmp_path, window=HOUR, **TOTAL)
    case.document["sources"]["rows"]["with"]["max_files"] = max_files
    case.document["trigger"]["flush"] = False
    for number in range(6):
        case.feed(str(number), ("a", f"0{number}:10", number), ("b", f"0{number}:50", 1))
        if number % 2:
            case.run()
    case.document["trigger"]["flush"] = True
    case.run()
    expected = {("a", f"0{n}:00"): n for n in range(6)} | {("b", f"0{n}:00"): 1 for n in range(6)}
    assert case.totals() == expected


@pytest.mark.in_turn
def test_a_changed_window_over_an_old_checkpoint_is_refused_in_words(tmp_path):
    """Pass: the error names the option with both values, before any query starts."""
    case = Case(tmp_path, window=HOUR, **TOTAL)
    case.feed("1", ("a", "01:00", 1))
    case.run()
    case.document["operators"]["total"]["with"]["window"] = {"on": "at", "tumbling": "2 hours"}
    with pytest.raises(Exception, match=r"'total' had window .*1 hour.*2 hours"):
        case.run()
