"""The crash campaign plays a few rounds of fixed seeds, and what judges them can tell right from wrong."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from campaign.chains import CHAINS
from campaign.judging import Verdict, judge, last_table
from campaign.paths import PATHS
from campaign.report import BEGIN, END, into_docs, table
from campaign.sinks import SINKS
from campaign.sources import SOURCES
from mainstem_testkit.plugin import check_installed


def test_every_source_meets_every_chain_and_every_sink_is_written():
    """Pass: at least 40 paths; none of a lossy source has totals; each sink and chain has its turn."""
    assert len({path.name for path in PATHS}) == len(PATHS) >= 40
    met = {(path.source, path.chain) for path in PATHS}
    assert met == {
        (source, chain)
        for source, kind in SOURCES.items()
        for chain, steps in CHAINS.items()
        if (steps.row_by_row or not kind.lossy) and kind.changes == steps.changes
    }
    assert {path.sink for path in PATHS} == set(SINKS)
    for path in PATHS:
        sink, chain = SINKS[path.sink], CHAINS[path.chain]
        assert sink.tables or not chain.table
        assert chain.table or not sink.only_tables


#: The fixtures of servers that a campaign calls otherwise; empty for what is in the tests themselves.
FIXTURES = {"kinesis": "kinesalite", "endpoint": ""}
ROWS = [{"n": 1, "k": "a", "w": 2}, {"n": 2, "k": "a", "w": 4}, {"n": 3, "k": "b", "w": 6}]


@pytest.mark.parametrize(
    ("rows", "verdict", "seen"),
    [
        (ROWS, Verdict(3, 0, 0, 0, 0), "exactly-once"),
        (ROWS[1:], Verdict(3, 1, 0, 0, 0), "at-most-once"),
        ([*ROWS, ROWS[0], ROWS[0]], Verdict(3, 0, 2, 0, 0), "at-least-once"),
        ([*ROWS[:2], ROWS[0]], Verdict(3, 1, 1, 0, 0), "none"),
        ([*ROWS, {"n": 3, "k": "b", "w": 7}], Verdict(3, 0, 0, 1, 0), "none"),
        ([ROWS[1], ROWS[0], ROWS[2]], Verdict(3, 0, 0, 0, 1), "exactly-once"),
    ],
)
def test_what_is_lost_doubled_wrong_or_out_of_order_is_counted(rows, verdict, seen):
    """Pass: each kind of harm is counted as what it is, and breaks the claims that exclude it."""
    expected = Counter((row["n"], row["k"], row["w"]) for row in ROWS)
    found = judge(CHAINS["stateless"], expected, rows, ordered=True)
    assert found == verdict
    assert found.seen == seen
    assert bool(found.broken("exactly-once")) == (rows != ROWS)
    assert bool(found.broken("at-least-once")) == bool(
        found.lost or found.wrong or found.disordered
    )


def test_a_changelog_is_judged_by_its_table():
    """Pass: the newest version of a key counts, deletions remove it, in whatever order changes come."""
    changes = [
        {"k": "a", "n": 2, "_change_type": "update_postimage", "_commit_version": 2},
        {"k": "a", "n": 1, "_change_type": "update_preimage", "_commit_version": 2},
        {"k": "a", "n": 1, "_change_type": "insert", "_commit_version": 1},
        {"k": "b", "n": 3, "_change_type": "insert", "_commit_version": 3},
        {"k": "b", "n": 3, "_change_type": "delete", "_commit_version": 4},
    ]
    assert [row["n"] for row in last_table(changes)] == [2]
    assert [row["n"] for row in last_table(changes[::-1])] == [2]


def test_the_table_of_a_campaign_stands_between_its_marks(tmp_path):
    """Pass: rounds of a path are summed up, and the page keeps what is around its table."""
    verdict = {"expected": 5, "lost": 0, "doubled": 1, "wrong": 0, "disordered": 0}
    each = {"path": "a -> b -> c", "claimed": "at-least-once", "faults": ["x"], "verdict": verdict}
    each["seed"] = 1
    (row,) = table([each, each])
    assert row == ("a -> b -> c", 2, 2, 10, 0, 2, 0, "at-least-once", "at-least-once")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    into_docs(page, [each])
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "| a -> b -> c | 1 | 1 | 5 | 0 | 1 | 0 |" in text


@pytest.mark.in_turn
@pytest.mark.timeout(900)
def test_a_round_of_a_fixed_seed_holds_what_is_claimed(tmp_path, turn):
    """Pass: a path that the commit draws; with all turns three rounds of four: no claim broken."""
    file = tmp_path / "outcomes.jsonl"
    rounds, together, seed = (3, 4, 7) if turn.number is None else (1, 1, 7 + turn.draw % 10**6)
    argv = [sys.executable, "-m", "campaign", "--rounds", f"{rounds}", "--seed", f"{seed}"]
    argv += ["--together", f"{together}"]
    ways = PATHS
    if together == 1:
        ways = [random.Random(seed).choice(PATHS)]
        argv += ["--path", ways[0].name]
    check_installed({FIXTURES.get(n, n) for way in ways for n in way.servers} - {""}, tmp_path)
    argv += ["--seconds", "12", "--load", "600", "--json", str(file)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(outcomes) == together * rounds
    assert any(each["faults"] for each in outcomes)
    assert [each["path"] for each in outcomes if each["broken"]] == []
