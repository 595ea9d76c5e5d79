"""The graph of shards, and cursors: who may be read when. Pure: nothing is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem_broker_kinesis.source.places import Cursor, Place, at_end, at_horizon, at_time, merged
from mainstem_broker_kinesis.source.shards import Lineage, Shard, owner

READ = Place("7")


def shard(name, *parents):
    return Shard(name, parents, 0, 2**128 - 1)


def lineage(*shards):
    made = Lineage()
    made.listed(shards)
    return made


def ready(made, places):
    return [s.id for s in made.ready(places, lambda _: True)]


def test_a_child_waits_for_its_parent_and_a_merge_for_both():
    """Pass: a, b -> c -> d: each is ready when all before it are drained, and not a moment earlier."""
    made = lineage(shard("a"), shard("b"), shard("c", "a", "b"), shard("d", "c"))
    places = {}
    assert ready(made, places) == ["a", "b"]
    places = {"a": at_end(1), "b": READ}
    assert ready(made, places) == ["b"]
    places["b"] = at_end(1)
    assert ready(made, places) == ["c"]
    places["c"] = READ
    assert ready(made, places) == ["c"]
    places["c"] = at_end(1)
    assert ready(made, places) == ["d"]


def test_a_parent_that_nobody_knows_is_not_waited_for():
    """Pass: one that expired before anybody read of it; but one that was begun and is gone is."""
    made = lineage(shard("b", "a"))
    assert ready(made, {}) == ["b"]
    assert ready(made, {"a": READ}) == []
    assert made.expired({"a": READ}) == ["a"]
    assert ready(made, {"a": at_end(1)}) == ["b"]


def test_what_was_begun_goes_on_whatever_its_parents_are():
    """Pass: a child of which something is read is ready though its parent looks unread."""
    assert ready(lineage(shard("a"), shard("b", "a")), {"b": READ}) == ["a", "b"]


def test_children_that_a_parent_told_of_stay_until_a_listing_has_them():
    """Pass: a listing that lags behind does not take them away; one that had them and has not, does."""
    made = lineage(shard("a"))
    made.learn([shard("b", "a")])
    made.listed([shard("a")])
    assert set(made.shards) == {"a", "b"}
    made.listed([shard("a"), shard("b", "a")])
    made.listed([shard("a")])
    assert set(made.shards) == {"a"}


def test_a_drained_shard_without_known_children_is_told():
    """Pass: until one child is known."""
    made = lineage(shard("a"))
    assert made.childless({}) == set()
    assert made.childless({"a": at_end(1)}) == {"a"}
    made.learn([shard("b", "a")])
    assert made.childless({"a": at_end(1)}) == set()


def test_drained_shards_are_forgotten_an_hour_after_they_were_drained_and_gone():
    """Pass: not while they are listed, and not sooner: a listing may lag behind."""
    places = {"a": at_end(100), "b": READ}
    assert lineage(shard("a")).forgettable(places, 10_000) == []
    assert lineage().forgettable(places, 150) == []
    assert lineage().forgettable(places, 161) == ["a"]


@given(st.data())
@pytest.mark.in_turn
def test_in_any_history_each_shard_comes_once_and_after_its_parents(data):
    """Pass: shards that split and merge at random, drained in any order that is allowed, by any number of
    receivers, all come, each once, none before a parent."""
    shards, leaves = [shard("s-0")], ["s-0"]
    for number in range(1, data.draw(st.integers(1, 12))):
        if len(leaves) > 1 and data.draw(st.booleans()):
            parents = [leaves.pop(data.draw(st.integers(0, len(leaves) - 1))) for _ in range(2)]
        else:
            parents = [leaves.pop(data.draw(st.integers(0, len(leaves) - 1)))]
            shards.append(shard(f"s-{number}b", *parents))
            leaves.append(f"s-{number}b")
        shards.append(shard(f"s-{number}", *parents))
        leaves.append(f"s-{number}")
    made = lineage(*shards)
    receivers = data.draw(st.integers(1, 3))
    places, order = {}, []
    while len(order) < len(shards):
        now = [
            s
            for n in range(receivers)
            for s in made.ready(places, lambda name, n=n: owner(name, receivers) == n)
        ]
        assert now, "nothing is ready, and not all was read"
        one = data.draw(st.sampled_from(now))
        assert all(places[parent].drained for parent in one.parents)
        places[one.id] = at_end(1)
        order.append(one.id)
    assert len(set(order)) == len(shards)


@given(st.text(), st.integers(1, 9))
def test_every_shard_has_one_owner(name, receivers):
    """Pass: always the same, one of those that there are."""
    assert owner(name, receivers) == owner(name, receivers)
    assert 0 <= owner(name, receivers) < receivers


def test_the_shards_of_one_split_have_different_owners():
    """Pass: two receivers share two shards, and the two that come of a split."""
    assert {owner(f"shardId-{n:012d}", 2) for n in (0, 1)} == {0, 1}
    assert {owner(f"shardId-{n:012d}", 2) for n in (6, 7)} == {0, 1}


# -- cursors ----------------------------------------------------------------------------------


def test_a_cursor_comes_back_as_it_was():
    """Pass: of each kind of place."""
    places = {
        "a": at_horizon(5),
        "b": at_time(1_000_001, 6),
        "c": Place("49" * 28, 7),
        "d": at_end(8),
    }
    made = Cursor("clicks", "1.000", 2, places)
    assert Cursor.decoded(made.encoded()) == made


@pytest.mark.parametrize("text", ["", "{}", "7", '{"format": 2}', '{"format": 1, "places": []}'])
def test_another_text_is_no_cursor(text):
    """Pass: an error in words."""
    with pytest.raises(ValueError, match="cursor is none of a Kinesis source"):
        Cursor.decoded(text)


def test_of_several_cursors_the_furthest_place_counts():
    """Pass: the end before any number, a greater number before a smaller, a number before a start."""
    orders = [at_horizon(9), Place("9", 1), Place("10", 1), Place("10", 2), at_end(0)]
    for at, less in enumerate(orders):
        for more in orders[at:]:
            for pair in ((less, more), (more, less)):
                cursors = [Cursor("s", "", 1, {"a": place}) for place in pair]
                assert merged(cursors) == {"a": more}


def test_what_asks_for_an_iterator():
    """Pass: never at the newest record."""
    assert at_horizon().begins() == {"ShardIteratorType": "TRIM_HORIZON"}
    assert at_time(1_500_000).begins() == {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1.5}
    assert READ.begins() == {
        "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
        "StartingSequenceNumber": "7",
    }
    with pytest.raises(ValueError, match="drained"):
        at_end(1).begins()
