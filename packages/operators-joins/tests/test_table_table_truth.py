"""Kafka Streams' table-table joins, input by input: what theirs say, and where ours differ and why.

The courses are those of the tables in Kafka's "Streams DSL" page (joining: KTable-KTable, and
KTable-KTable foreign-key join): each line is a batch with one change. `A`, `B` are left values, `a`, `b`
right ones; None deletes. Where nothing is told, that is an empty list. Ours differ in three ways:

- A change of a joined row is told with the row as it was, so where theirs emits one new value there are two
  images; the tests look at the new one and at deletes.
- Deleting what never was in the result is told by nobody, where theirs may send a tombstone.
- A change of the foreign key from one matched row to another is a delete and an insert in one batch, ordered
  by version; theirs sends one new value.
"""

from __future__ import annotations

from typing import Any

import pytest
from table_table_world import LEFT, RIGHT, EqualKeys, ForeignKey, change, values

#: Side and value of each change, and what comes of it in the inner, left and outer join.
COURSE: list[tuple[str, str | None, str, str, str]] = [
    (LEFT, None, "", "", ""),
    (RIGHT, None, "", "", ""),
    (LEFT, "A", "", "A-", "A-"),
    (RIGHT, "a", "Aa", "Aa", "Aa"),
    (LEFT, "B", "Ba", "Ba", "Ba"),
    (RIGHT, "b", "Bb", "Bb", "Bb"),
    (LEFT, None, "gone", "gone", "-b"),
    (RIGHT, None, "", "", "gone"),
    (LEFT, "C", "", "C-", "C-"),
    (RIGHT, "c", "Cc", "Cc", "Cc"),
    (RIGHT, None, "gone", "C-", "C-"),
    (LEFT, None, "", "gone", "gone"),
    (RIGHT, None, "", "", ""),
    (RIGHT, "d", "", "", "-d"),
    (LEFT, "D", "Dd", "Dd", "Dd"),
]


def told(changes: list[dict[str, Any]]) -> str:
    """Return what a batch's changes say, short: the new row, or that it is gone."""
    new = [c for c in changes if c["_change"] in ("insert", "update_postimage")]
    if new:
        (row,) = map(values, new)
        return f"{row['left_v'] or '-'}{row['right_v'] or '-'}"
    assert len(changes) <= 1
    return "gone" if changes else ""


@pytest.mark.parametrize(("how", "column"), [("inner", 2), ("left", 3), ("full", 4)])
def test_a_table_joined_with_a_table_of_its_key(how, column):
    """Pass: each change brings what Kafka's table says; tombstones only for rows that were there."""
    join = EqualKeys(how)
    for number, line in enumerate(COURSE):
        side, value = line[0], line[1]
        row = change(side, 1, number, v=value, deleted=value is None)
        came = join.batch([row] if side == LEFT else [], [row] if side == RIGHT else [])
        assert told(came) == line[column], f"line {number}: {line}"


#: Of the foreign-key join. Left changes are (key, value, reference), right ones (key, value); what comes
#: is by left key, in the inner and the left join. `~` before a row: it was deleted first, in the same batch.
FOREIGN: list[tuple[str, int, str | None, int | None, dict[int, str], dict[int, str]]] = [
    # the left row comes first, then what it refers to
    (LEFT, 1, "A", 10, {}, {1: "A-"}),
    (RIGHT, 10, "x", None, {1: "Ax"}, {1: "Ax"}),
    # a right change reaches every left row that refers to it
    (LEFT, 2, "B", 10, {2: "Bx"}, {2: "Bx"}),
    (RIGHT, 10, "y", None, {1: "Ay", 2: "By"}, {1: "Ay", 2: "By"}),
    # a left value changes, its reference stays
    (LEFT, 1, "C", 10, {1: "Cy"}, {1: "Cy"}),
    # the reference changes to what is not there: the old row goes
    (LEFT, 1, "C", 20, {1: "gone"}, {1: "~C-"}),
    (RIGHT, 20, "z", None, {1: "Cz"}, {1: "Cz"}),
    # from one that is there to another
    (LEFT, 1, "C", 10, {1: "~Cy"}, {1: "~Cy"}),
    (RIGHT, 20, "w", None, {}, {}),
    # to null: Kafka's left join keeps the row since 3.7 (KIP-962), so does ours
    (LEFT, 2, "B", None, {2: "gone"}, {2: "~B-"}),
    (LEFT, 2, "B", 20, {2: "Bw"}, {2: "~Bw"}),
    # deletes of both sides
    (RIGHT, 20, None, None, {2: "gone"}, {2: "B-"}),
    (LEFT, 2, None, None, {}, {2: "gone"}),
    (RIGHT, 20, "v", None, {}, {}),
    (LEFT, 1, None, None, {1: "gone"}, {1: "gone"}),
    (LEFT, 1, None, None, {}, {}),
    # what was deleted comes back
    (LEFT, 1, "E", 20, {1: "Ev"}, {1: "Ev"}),
]


def told_by_key(changes: list[dict[str, Any]]) -> dict[int, str]:
    """Return what a batch's changes say of each left key."""
    said: dict[int, str] = {}
    for row in sorted(changes, key=lambda c: (c["_version"], c["_change"] != "update_preimage")):
        key = row["left_id"]
        if row["_change"] == "delete":
            said[key] = "gone"
        elif row["_change"] != "update_preimage":
            moved = "~" if said.get(key) == "gone" else ""
            said[key] = f"{moved}{row['left_v']}{row['right_v'] or '-'}"
    return said


@pytest.mark.parametrize(("how", "column"), [("inner", 4), ("left", 5)])
def test_a_table_joined_by_a_foreign_key(how, column):
    """Pass: each change brings what Kafka's table says, a move as a delete and an insert."""
    join = ForeignKey(how)
    for number, line in enumerate(FOREIGN):
        side, key, value, ref = line[:4]
        row = change(side, key, number, v=value, ref=ref, deleted=value is None)
        came = join.batch([row] if side == LEFT else [], [row] if side == RIGHT else [])
        assert told_by_key(came) == line[column], f"line {number}: {line}"


def test_an_older_change_of_a_deleted_key_brings_nothing_back():
    """Pass: a late insert after a delete is told as late, on both sides (KAFKA-14834)."""
    for join in (EqualKeys("inner"), ForeignKey("inner")):
        join.batch([change(LEFT, 1, 1, v="A", ref=1)], [change(RIGHT, 1, 1, v="a")])
        join.batch([change(LEFT, 1, 5, deleted=True)], [change(RIGHT, 1, 5, deleted=True)])
        came = join.batch([change(LEFT, 1, 3, v="B", ref=1)], [change(RIGHT, 1, 4, v="b")])
        assert came == []
        assert [row["left_v"] for row in join.told("left_late")] == ["B"]
        assert [row["right_v"] for row in join.told("right_late")] == ["b"]


def test_a_reference_that_moves_there_and_back_leaves_the_last_row():
    """Pass: the last value of a left join stands after each move, also within a batch (KAFKA-18713)."""
    join = ForeignKey("left")
    join.batch([change(LEFT, 1, 1, v="A", ref=1)], [change(RIGHT, 1, 1, v="a")])
    there_and_back = [change(LEFT, 1, 2, v="A", ref=2), change(LEFT, 1, 3, v="A", ref=1)]
    came = join.batch(there_and_back, [change(RIGHT, 2, 1, v="b")])
    assert told_by_key(came) == {1: "Aa"}
    assert told_by_key(join.batch([change(LEFT, 1, 4, v="A", ref=2)], [])) == {1: "~Ab"}
    assert told_by_key(join.batch([change(LEFT, 1, 5, v="A", ref=3)], [])) == {1: "~A-"}


def test_changes_without_key_or_sequence_are_refused():
    """Pass: they come out of `rejected`, from either side and through both steps, and change nothing."""
    for join in (EqualKeys("full"), ForeignKey("left")):
        came = join.batch(
            [change(LEFT, None, 1, v="A", ref=1), change(LEFT, 1, None, v="B", ref=1)],
            [change(RIGHT, None, 1, v="a"), change(RIGHT, 1, None, v="b")],
        )
        assert came == []
        assert sorted(row["left_v"] for row in join.told("left_rejected")) == ["A", "B"]
        assert sorted(row["right_v"] for row in join.told("right_rejected")) == ["a", "b"]
        assert join.size() == 0


def test_a_copy_of_a_change_is_late_in_its_own_batch_too():
    """Pass: of two copies one takes effect and one is told as late."""
    join = ForeignKey("left")
    came = join.batch([change(LEFT, 1, 1, v="A")] * 2, [change(RIGHT, 1, 1, v="a")] * 2)
    assert told_by_key(came) == {1: "A-"}
    assert len(join.told("left_late")) == len(join.told("right_late")) == 1
