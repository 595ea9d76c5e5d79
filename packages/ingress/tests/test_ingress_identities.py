"""What is remembered of ids: for one horizon at least, in so much memory at most."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem_ingress import dedup as identities_module
from mainstem_ingress.dedup import Identities, as_words, hash_of, words_of


def words(*numbers: int) -> np.ndarray:
    return words_of([hash_of(b"%d" % number) for number in numbers])


def random_words(count: int, seed: int = 0) -> np.ndarray:
    return as_words(np.random.default_rng(seed).bytes(16 * count))


def remember(identities: Identities, pairs: np.ndarray, at: float) -> list[bool]:
    identities.forget(at)
    new = identities.new(pairs)
    identities.add(pairs[new], at)
    return new.tolist()


def test_a_hash_is_the_same_on_every_machine() -> None:
    assert hash_of(b"order-1").hex() == "56eea00bbcad2f0a2ca2cc13492405d7"
    assert len({hash_of(b"%d" % n) for n in range(1000)}) == 1000


def test_of_equal_ones_the_first_is_new() -> None:
    identities = Identities(10, 1000)
    assert remember(identities, words(1, 2, 1, 3, 2, 1), 0) == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert remember(identities, words(3, 4), 1) == [False, True]
    assert len(identities) == 4


def test_hashes_that_share_their_first_half_are_told_apart() -> None:
    pairs = np.array([[7, 1], [7, 2], [7, 1], [7, 0]], dtype=np.uint64)
    identities = Identities(10, 1000)
    assert remember(identities, pairs, 0) == [True, True, False, True]
    assert identities.new(pairs).tolist() == [False] * 4
    assert identities.new(np.array([[7, 3]], dtype=np.uint64)).tolist() == [True]


@pytest.mark.in_turn
def test_many_hashes_that_want_one_slot_all_find_room() -> None:
    """Probing goes on around the table's end; what few at once put in, many at once find, and the other
    way round."""
    pairs = np.array([[(n << 40) | 4095, n] for n in range(3000)], dtype=np.uint64)
    identities = Identities(10, 10_000)
    ends = [143, 286, 429, 1000, 2000, 2005, 3000]
    for start, end in pairwise([0, *ends]):
        assert identities.new(pairs[start:end]).all()
        identities.add(pairs[start:end], 0)
        # Some of each part in a group of few, and all parts in one of many.
        assert not identities.new(pairs[max(0, end - 100) : end]).any()
        known = np.resize(pairs[:end], (max(end, 400), 2))
        assert identities._younger.has(known).all()
    assert not identities.new(pairs).any()
    assert identities.new(pairs + np.array([0, 1 << 20], dtype=np.uint64)).all()


def test_hashes_that_begin_with_nothing_are_remembered_too() -> None:
    zeros = as_words(bytes(16) + bytes(8) + b"12345678")
    identities = Identities(10, 1000)
    assert identities.new(zeros).all()
    identities.add(zeros, 0)
    assert not identities.new(zeros).any()


def test_nothing_of_nothing() -> None:
    identities = Identities(10, 1000)
    assert remember(identities, words_of([]), 0) == []
    assert len(identities) == 0


def test_what_is_older_than_two_horizons_is_forgotten() -> None:
    identities = Identities(10, 1000)
    for at, number in ((0, 1), (11, 2), (22, 3), (33, 4)):
        assert remember(identities, words(number), at) == [True]
    assert identities.new(words(1, 2, 3, 4)).tolist() == [True, True, True, False]
    identities.forget(53)
    assert identities.new(words(4)).tolist() == [True], "also when nothing came meanwhile"
    assert len(identities) == 0


@pytest.mark.parametrize(("most", "figure"), [(2_000_000, 70), (1_300_000, 110)])
@pytest.mark.in_turn
def test_memory_is_bounded(most: int, figure: int) -> None:
    """The figures of the option `duplicates_most`, however many ids come: its default, the worst."""
    identities = Identities(1e9, most)
    largest = 0
    for step in range(17):
        identities.add(random_words(most // 8, step), step)
        largest = max(largest, identities.bytes)
    assert len(identities) >= most
    assert len(identities) <= 2 * most
    print(f"{largest / most * 1e6:,.0f} bytes per million ids that are surely remembered")
    assert largest <= figure * most
    assert not identities.new(random_words(most // 8, 16)).any()


STEPS = st.lists(
    st.tuples(
        st.integers(0, 6),  # seconds since the step before
        st.lists(st.integers(0, 60), min_size=1, max_size=25),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, horizon=st.integers(0, 12), few=st.sampled_from([0, 12, 300]))
@pytest.mark.in_turn
def test_nothing_is_forgotten_within_the_horizon_and_nothing_invented(
    steps: list[tuple[int, list[int]]], horizon: int, few: int
) -> None:
    """Pass: a model says the same, with small groups looked up one by one, all at once, and by turns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identities_module, "_FEW", few)
        _compare(steps, horizon)


def _compare(steps: list[tuple[int, list[int]]], horizon: int) -> None:
    identities = Identities(horizon, 10_000)
    stored: dict[int, float] = {}
    at = 0.0
    for seconds, numbers in steps:
        at += seconds
        for number, new in zip(numbers, remember(identities, words(*numbers), at), strict=True):
            if new:
                assert number not in stored or at - stored[number] > horizon, "forgotten"
                stored[number] = at
            else:
                assert number in stored, "invented"
                assert at - stored[number] <= 2 * horizon, "remembered for too long"


@settings(max_examples=100, deadline=None)
@given(
    groups=st.lists(
        st.lists(st.integers(0, 400), min_size=1, max_size=30, unique=True), max_size=60
    ),
    most=st.integers(30, 90),
)
@pytest.mark.in_turn
def test_the_last_are_remembered_when_the_horizon_holds_more(
    groups: list[list[int]], most: int
) -> None:
    identities = Identities(1e9, most)
    order: list[int] = []
    for numbers in groups:
        for number, new in zip(numbers, remember(identities, words(*numbers), 0), strict=True):
            if new:
                assert number not in order[-most:], "forgotten"
                order.append(number)
            else:
                assert number in order, "invented"
        assert len(identities) <= 2 * most + max(map(len, groups))
