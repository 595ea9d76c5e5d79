"""Whatever comes, however it is cut: the changes of a join make the table that a plain join makes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joins_fuzz import fuzz
from table_table_world import (
    LEFT,
    RIGHT,
    EqualKeys,
    ForeignKey,
    Paged,
    Reader,
    change,
    compare_and_set,
    current,
    joined,
)

#: How many courses each test tries.
CASES = 200
KEYS, REFS, SEQUENCES = range(3), (None, 0, 1, 2), range(6)

LEFT_NAMES = ("left_id", "left_ref", "left_v")
RIGHT_NAMES = ("right_id", "right_v")


@st.composite
def courses(draw: st.DrawFn) -> dict[str, Any]:
    """Draw changes of both sides in any order, late ones and copies among them, cut into batches.

    Two changes of one key with one sequence are copies.
    """
    chosen = draw(
        st.lists(
            st.tuples(
                st.sampled_from((LEFT, RIGHT)),
                st.sampled_from(KEYS),
                st.sampled_from(SEQUENCES),
                st.sampled_from(REFS),
                st.sampled_from((False, False, True)),
            ),
            min_size=1,
            max_size=12,
        )
    )
    known: dict[Any, dict[str, Any]] = {}
    changes = []
    for side, key, sequence, ref, deleted in chosen:
        value = f"{side[0]}{key}.{sequence}"
        made = change(side, key, sequence, ref=ref, v=value, deleted=deleted)
        changes.append(known.setdefault((side, key, sequence), made))
    batches: list[list[dict[str, Any]]] = [[]]
    for each in changes:
        if draw(st.booleans()):
            batches.append([])
        batches[-1].append(each)
    return {
        "batches": batches,
        "restarts": draw(st.sets(st.integers(0, len(batches)), max_size=2)),
        "pages": draw(st.sampled_from((1, 3))),
        "seed": draw(st.integers(0, 1000)),
    }


def of(batch: Sequence[dict[str, Any]], side: str) -> list[dict[str, Any]]:
    return [each for each in batch if f"{side}_id" in each]


def same(found: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> None:
    ordered = [
        sorted(map(repr, (dict(sorted(r.items())) for r in rows))) for rows in (found, expected)
    ]
    assert ordered[0] == ordered[1], f"the table is\n{ordered[0]}\nand should be\n{ordered[1]}"


def follow(join: Any, course: dict[str, Any], how: str, on: tuple[str, str], *key: str) -> None:
    """Run a course, and hold what readers of the changes have against the oracle after each batch."""
    reader, told = Reader(*key), []
    read: dict[str, list[dict[str, Any]]] = {LEFT: [], RIGHT: []}
    for number, batch in enumerate(course["batches"]):
        if number in course["restarts"]:
            join.restart()
        for side in read:
            read[side] += of(batch, side)
        came = join.batch(of(batch, LEFT), of(batch, RIGHT))
        told += came
        reader.follow(came)
        expected = joined(
            current(read[LEFT], "left_id", LEFT_NAMES),
            current(read[RIGHT], "right_id", RIGHT_NAMES),
            *on,
            how,
        )
        same(list(reader.table.values()), expected)
    random.Random(course["seed"]).shuffle(told)
    same(list(compare_and_set(told, reader).values()), expected)
    for side in read:
        assert len(join.told(f"{side}_late")) == late(course["batches"], side)


def late(batches: Sequence[Sequence[dict[str, Any]]], side: str) -> int:
    """Return how many changes of a side are older than what is known, or are copies of the newest."""
    known: dict[Any, int] = {}
    count = 0
    for batch in batches:
        by_key: dict[Any, list[int]] = {}
        for row in of(batch, side):
            by_key.setdefault(row[f"{side}_id"], []).append(row["_sequence"])
        for key, sequences in by_key.items():
            fresh = [s for s in sequences if s > known.get(key, -1)]
            count += len(sequences) - len(fresh)
            if fresh:
                known[key] = max(fresh)
                count += fresh.count(max(fresh)) - 1
    return count


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@fuzz(CASES)
@given(course=courses())
def test_tables_of_one_key_joined_are_what_pandas_makes_of_them(how, course):
    """Pass: at each batch's end, and in any order by version, the table is pandas' join; pre-images fit."""
    join = EqualKeys(how, pages=course["pages"], seed=course["seed"])
    follow(join, course, how, ("left_id", "right_id"), "left_id", "right_id")


@pytest.mark.parametrize("how", ["inner", "left"])
@fuzz(CASES)
@given(course=courses())
def test_a_table_joined_by_its_reference_is_what_pandas_makes_of_it(how, course):
    """Pass: at each batch's end, and in any order by version, the table is pandas' join; pre-images fit."""
    join = ForeignKey(how, pages=course["pages"], seed=course["seed"])
    follow(join, course, how, ("left_ref", "right_id"), "left_id")


@fuzz(60)
@given(course=courses())
def test_pages_of_the_library_make_no_difference(course):
    """Pass: the same over many small pages and portions as the library cuts them, for both kinds of join."""
    keys = EqualKeys("full", by=Paged)
    follow(keys, course, "full", ("left_id", "right_id"), "left_id", "right_id")
    reference = ForeignKey("left", by=Paged)
    follow(reference, course, "left", ("left_ref", "right_id"), "left_id")
