"""The threads that read shards ahead."""

from __future__ import annotations

import threading

import pytest
from mainstem_broker_kinesis.source.fetching import Answer, Fetchers, Read
from mainstem_broker_kinesis.source.places import at_horizon


@pytest.mark.parametrize("seconds", [1e-9, 2e-6])
@pytest.mark.in_turn
def test_a_wait_that_is_over_as_it_begins_ends(seconds):
    """Pass: no wait for an answer that does not come goes on for ever, however short it is."""

    def wait():
        for _ in range(60_000):
            assert Fetchers(lambda asked: Answer(asked, 0.0), 1).answer(seconds) is None

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(30)
    assert not waiting.is_alive()


def test_an_answer_comes_though_it_is_hardly_waited_for():
    """Pass: one that is there comes without any wait."""
    fetchers = Fetchers(lambda asked: Answer(asked, 1.0), 1)
    fetchers.ask(Read("shard", at_horizon()))
    found = fetchers.answer(30)
    assert found is not None
    fetchers.ask(Read("other", at_horizon()))
    while (found := fetchers.answer(-1)) is None:
        pass
    assert found.read.shard == "other"
    fetchers.end()
