"""The sink `kafka` by `transactional` while brokers die and answers are lost: each row once."""

from __future__ import annotations

import threading

import pytest
from ksink_writing import Place, numbered, values_of
from mainstem import PipelineError
from mainstem_broker_kafka.testing import Kafka
from mainstem_testkit.plugin import serve

#: Kafka's numbers for requests, as they stand in their first bytes.
ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 25, 26, 28


@pytest.fixture
def own(request, tmp_path_factory):
    """A node of a test's own, to be killed."""
    yield from serve(Kafka, request, tmp_path_factory)


def behind_place(behind, spark):
    """Return a place that is written through the proxy and read past it."""
    place = Place(behind.node, spark)
    place.options = lambda **changes: Place.options(place, **{"servers": behind.url, **changes})
    return place


@pytest.mark.parametrize(
    "request_key",
    [END_TXN, *(pytest.param(k, marks=pytest.mark.slow) for k in (TXN_OFFSET_COMMIT, ADD_OFFSETS))],
)
@pytest.mark.in_turn
def test_the_answer_to_a_step_of_the_commit_is_lost(behind, spark, request_key):
    """Pass: the broker has done what was asked, and the connection is cut instead of its answer: the
    step is asked for again; the batch is in, each row once, and a retry adds nothing."""
    place = behind_place(behind, spark)
    sink = place.sink()
    place.write(numbered(1), sink=sink)
    behind.proxy.drop_answer_to(request_key)
    try:
        place.write(numbered(*range(10, 30)), number=1, sink=sink)
    finally:
        behind.proxy.drop_answer_to(None)
    assert behind.proxy.dropped, "no answer was dropped: the test shows nothing"
    assert place.values() == values_of(1, *range(10, 30))
    place.write(numbered(*range(10, 30)), number=1, epoch=2)
    assert place.values() == values_of(1, *range(10, 30))


@pytest.mark.slow
def test_a_broker_killed_in_the_middle_of_a_batch(own, spark):
    """Pass: the broker is killed while a writer's rows are with it and started again: the batch goes on,
    or fails and is whole after its retry; each row once."""
    place = Place(own, spark)
    rows = numbered(*range(200))
    share = place.share(rows, writer=0)
    share._transaction.flush()
    own.kill_for(4.0)
    try:
        list(share.finish())
    except PipelineError as error:
        assert "writer 0 of 2" in str(error)  # noqa: PT017
    own.started()
    for epoch in (2, 3):
        place.write(rows, epoch=epoch)
        assert place.values() == values_of(*range(200))


@pytest.mark.slow
def test_brokers_that_stay_away_end_the_batch_in_time(own, spark):
    """Pass: without a broker the batch fails by itself, with what was tried and where; no thread waits
    for ever; with the broker back the retry puts the rows in."""
    place = Place(own, spark)
    rows = numbered(*range(50))
    sink = place.sink(give_up="4 seconds")
    share = place.share(rows, writer=0, sink=sink)
    own.kill()
    ended = []

    def finish():
        try:
            list(share.finish())
        except PipelineError as error:
            ended.append(str(error))

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    thread.join(90)
    assert not thread.is_alive()
    assert ended
    assert own.url in ended[0]
    share.give_up()
    own.start()
    place.write(rows, epoch=2)
    assert place.values() == values_of(*range(50))
