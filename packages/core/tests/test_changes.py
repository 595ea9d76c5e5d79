"""Changes of a table on Arrow data: which counts, and what a target is given of them."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest
from mainstem.changes import ChangeTarget, _write, newest, split, without_preimages

SCHEMA = pa.schema(
    [("k", pa.string()), ("v", pa.string()), ("at", pa.int64()), ("_change_type", pa.string())]
)
POST, PRE, GONE = "update_postimage", "update_preimage", "delete"


def table(*rows):
    """Return changes, given as (key, value, sequence, kind)."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


class Kept(ChangeTarget):
    """A table in memory that compares versions, and notes how it was called."""

    def __init__(self):
        self.rows, self.versions, self.calls, self.closed = {}, {}, [], 0

    def write(self, sets, deletes, refused):
        self.calls.append((sets.num_rows, deletes.num_rows))
        for row, gone in [
            *((r, False) for r in sets.to_pylist()),
            *((r, True) for r in deletes.to_pylist()),
        ]:
            if row["v"] == "bad":
                refused.add(None, b"bad", "it is bad")
            elif self.versions.get(row["k"], -1) < row["at"]:
                self.versions[row["k"]] = row["at"]
                self.rows[row["k"]] = None if gone else row["v"]

    def close(self):
        self.closed += 1


def written(*tables, sequence="at"):
    """Return a target that got batches of changes, and what was refused."""
    target = Kept()
    batches = [batch for each in tables for batch in each.to_batches()]
    refused = [
        row
        for rows in _write(("k",), sequence, lambda: target, batches)
        for row in rows.to_pylist()
    ]
    return target, refused


def test_the_newest_change_of_a_key_counts_the_later_of_equals():
    """Pass: whatever the order, the highest sequence; of equal ones the one that came last."""
    rows = [("a", "1", 1, POST), ("a", "2", 2, POST), ("a", "3", 3, GONE), ("b", "1", 5, POST)]
    for order in itertools.permutations(rows):
        found = newest(table(*order), ["k"], "at").to_pylist()
        assert [(row["k"], row["v"]) for row in found] == [("a", "3"), ("b", "1")]
    same = table(("a", "1", 1, POST), ("a", "2", 1, POST))
    assert newest(same, ["k"], "at").column("v").to_pylist() == ["2"]
    assert newest(same, ["k"], None).column("v").to_pylist() == ["2"]
    assert newest(table(), ["k"], "at").num_rows == 0


def test_preimages_say_nothing_and_deletions_stand_apart():
    """Pass: without what was before; sets and deletes, each whole."""
    rows = table(
        ("a", "0", 1, PRE), ("a", "1", 1, POST), ("b", None, 2, GONE), ("c", "2", 3, "insert")
    )
    sets, deletes = split(without_preimages(rows))
    assert sets.column("k").to_pylist() == ["a", "c"]
    assert deletes.column("k").to_pylist() == ["b"]


@pytest.mark.parametrize("seed", range(5))
def test_batches_in_any_order_and_twice_leave_the_newest_of_each_key(seed):
    """Pass: random changes, cut and shuffled, some again: the table is that of the highest sequences."""
    chance = random.Random(seed)
    rows = [
        (chance.choice("abcd"), str(at), at, chance.choice([POST, "insert", GONE]))
        for at in range(60)
    ]
    wanted = {k: None if kind == GONE else v for k, v, _, kind in rows}
    mixed = rows + chance.sample(rows, 20)
    chance.shuffle(mixed)
    target, _ = written(*(table(*mixed[n : n + 7]) for n in range(0, len(mixed), 7)))
    assert target.rows == wanted
    assert target.closed == 1


def test_what_can_not_be_compared_or_is_refused_comes_back():
    """Pass: a null key, a null sequence, and what the target refuses; the others are written."""
    rows = table(
        (None, "1", 1, POST), ("a", "2", None, POST), ("b", "bad", 3, POST), ("c", "4", 4, POST)
    )
    target, refused = written(rows)
    assert target.rows == {"c": "4"}
    reasons = sorted(row["reason"] for row in refused)
    assert reasons == [
        "column at, by which rows are compared, is null",
        "column k, by which rows are compared, is null",
        "it is bad",
    ]


def test_nothing_is_opened_for_nothing():
    """Pass: a batch without changes calls no target."""
    target, _ = written(table(), table(("a", "0", 1, PRE)))
    assert target.calls == []
    assert target.closed == 0


def test_a_target_is_closed_when_it_fails():
    """Pass: the error comes through, and what was opened is ended."""

    class Broken(Kept):
        def write(self, sets, deletes, refused):
            raise OSError("away")

    target = Broken()
    with pytest.raises(OSError, match="away"):
        list(_write(("k",), "at", lambda: target, table(("a", "1", 1, POST)).to_batches()))
    assert target.closed == 1
