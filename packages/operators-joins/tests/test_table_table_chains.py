"""Joins of joins: the version of one is the sequence of the next."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from joins_fuzz import fuzz
from table_table_world import (
    LEFT,
    RIGHT,
    EqualKeys,
    ForeignKey,
    Reader,
    change,
    current,
    joined,
    text,
    values,
)
from test_table_table_fuzz import LEFT_NAMES, RIGHT_NAMES, courses, of, same

SECOND = pl.Schema({"left_id": pl.Int64(), "left_v": pl.String(), "left_found": pl.String()})


def as_input(row: dict[str, Any]) -> dict[str, Any]:
    """Return a joined row's change as a change of the next join's left table."""
    return {
        "left_id": row["left_id"],
        "left_v": row["left_v"],
        "left_found": row["right_v"],
        "_sequence": row["_version"],
        "_deleted": row["_change"] == "delete",
    }


@fuzz(100)
@given(course=courses(), other=courses())
def test_a_join_of_a_join_is_what_pandas_makes_of_the_three_tables(course, other):
    """Pass: a foreign-key join joined once more, by key: right at each batch's end, with a growing version."""
    first = ForeignKey("left", pages=course["pages"], seed=course["seed"])
    second = EqualKeys("inner", left=SECOND, sequence=pl.String(), pages=course["pages"])
    reader = Reader("left_id")
    read: dict[str, list[dict[str, Any]]] = {LEFT: [], RIGHT: [], "third": []}
    length = max(len(course["batches"]), len(other["batches"]))
    for number in range(length):
        batch, more = (c["batches"][number : number + 1] for c in (course, other))
        batch, third = batch[0] if batch else [], of(more[0], RIGHT) if more else []
        if number in course["restarts"]:
            first.restart()
            second.restart()
        came = first.batch(of(batch, LEFT), of(batch, RIGHT))
        told = [as_input(c) for c in came if c["_change"] != "update_preimage"]
        reader.follow(second.batch(told, third))
        for side in (LEFT, RIGHT):
            read[side] += of(batch, side)
        read["third"] += third
        tables = [current(read[s], f"{s}_id", n) for s, n in _SIDES]
        between = joined(*tables, "left_ref", "right_id", "left")
        left = pl.DataFrame(
            [(r["left_id"], r["left_v"], r["right_v"]) for r in between],
            schema=SECOND,
            orient="row",
        ).to_pandas()
        last = current(read["third"], "right_id", RIGHT_NAMES)
        expected = joined(left, last, "left_id", "right_id", "inner")
        expected = [{n: v for n, v in r.items() if n != "right_id"} for r in expected]
        same([_shown(row) for row in reader.table.values()], expected)


_SIDES = ((LEFT, LEFT_NAMES), (RIGHT, RIGHT_NAMES))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values(row).items() if name != "right_id"}


def test_versions_of_a_chain_sort_as_their_sequences_do():
    """Pass: of joins three deep, versions as text are in the order of the sequences as numbers."""
    some = (None, -(2**63), -1, 0, 1, 2**62)
    numbered = [(a, b, c) for a in some[1:] for b in some for c in some]

    def version(left: str, right: int | None) -> str:
        return f"{text(left)}.{'' if right is None else text(right)}"

    made = [version(version(text(a) + ".", b), c) for a, b, c in numbered]
    ranks = [tuple(-(2**64) if s is None else s for s in each) for each in numbered]
    by_rank = [made[n] for n in sorted(range(len(made)), key=lambda n: ranks[n])]
    assert by_rank == sorted(made)
    assert len(set(made)) == len(made)


def test_a_moved_row_is_told_once_by_a_chain():
    """Pass: delete and insert of a move become one update of the second join, with both images."""
    first = ForeignKey("inner")
    second = EqualKeys("inner", left=SECOND, sequence=pl.String())
    rows = [change(RIGHT, 1, 1, v="a"), change(RIGHT, 2, 1, v="b")]
    told = first.batch([change(LEFT, 1, 1, v="A", ref=1)], rows)
    second.batch([as_input(c) for c in told], [change(RIGHT, 1, 1, v="z")])
    moved = first.batch([change(LEFT, 1, 2, v="A", ref=2)], [])
    assert sorted(c["_change"] for c in moved) == ["delete", "insert"]
    came = second.batch([as_input(c) for c in moved], [])
    found = {c["_change"]: c["left_found"] for c in came}
    assert found == {"update_preimage": "a", "update_postimage": "b"}
