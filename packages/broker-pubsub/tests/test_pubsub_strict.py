"""What Google's fake lets pass and Google does not; streams that end; what becomes of single messages."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager

import pytest
from mainstem import PermanentError, TransientError
from mainstem_broker_pubsub import pull
from mainstem_broker_pubsub.options import PubSubOptions, PubSubSourceOptions
from mainstem_broker_pubsub.receiver import PubSubReceiver
from mainstem_broker_pubsub.sink import PubSubSink
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.conformance.sender import send_by
from mainstem_testkit.pipelines import wait_for
from pubsub_strict import Strict


@pytest.fixture
def strict():
    with Strict() as server:
        yield server


@contextmanager
def receiver(server, **more):
    given = {"project": "tests", "subscription": "orders", "emulator": server.address, **more}
    made = PubSubReceiver(PubSubSourceOptions.model_validate(given), 0, "orders")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def send(server, rows, **more):
    given = {"project": "tests", "topic": "orders", "emulator": server.address, **more}
    return send_by(PubSubSink(PubSubOptions.model_validate(given)), rows)


def row(number, key=None, **more):
    return {"key": key, "value": b"%d" % number, "_id": number.to_bytes(16, "big"), **more}


# -- the sink -----------------------------------------------------------------------------------


def test_a_request_has_one_ordering_key(strict):
    """Pass: of 60 keys, and rows without one among them, each is there once, in the order of its key."""
    rows = [row(n, None if n % 7 == 0 else b"k%d" % (n % 60)) for n in range(3000)]
    assert send(strict, rows) == []
    assert len(strict.published) == 3000
    found, wanted = defaultdict(list), defaultdict(list)
    for key, value in strict.published:
        found[key].append(value)
    for each in rows:
        wanted[(each["key"] or b"").decode()].append(each["value"])
    assert sorted(found.pop("")) == sorted(wanted.pop(""))
    assert found == wanted


@pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL"])
def test_what_passes_has_its_own_messages_sent_again(strict, code):
    """Pass: those of one request alone, over the same line, and an order is kept."""
    strict.faults["Publish"].extend([None, (code, "later")])
    rows = [row(n, b"k%d" % (n % 3)) for n in range(300)]
    assert send(strict, rows) == []
    for key in ("k0", "k1", "k2"):
        mine = [value for each, value in strict.published if each == key]
        assert mine == [each["value"] for each in rows if each["key"] == key.encode()]


def test_a_message_that_is_refused_alone_goes_to_rejected(strict):
    """Pass: one in a request of its own at once; one among others is found among them."""
    strict.faults["Publish"].append(("INVALID_ARGUMENT", "it breaks the schema"))
    (found,) = send(strict, [row(1, b"k")])
    assert "it breaks the schema" in found["reason"]
    assert strict.requests == 1


# -- the source ---------------------------------------------------------------------------------


def test_no_more_comes_than_is_wanted_also_over_streams_that_end(strict, monkeypatch):
    """Pass: while nothing is stored `prefetch` messages are out, however often a stream is begun anew."""
    strict.put(500)
    with receiver(strict, prefetch=100) as made:
        first = taken(made, 100)
        assert made.held()
        for _ in range(3):
            strict.end_streams()
            time.sleep(0.3)
        assert list(made.take(0.2)) == []
        assert strict.most == 100
        made.acknowledge(first[:60])
        rest = taken(made, 60)
        assert strict.wanted[-1].max_outstanding_messages == 60
        assert {each.client_id for each in strict.wanted} == {strict.wanted[0].client_id}
        made.acknowledge([*first[60:], *rest])
        found = taken(made, 40)  # as many as the last stream has room for
        made.acknowledge(found)


def test_acknowledgements_that_fail_for_now_are_retried(strict):
    """Pass: those alone; one that has failed for good is passed over, however many are told of."""
    strict.put(900)
    strict.unacknowledged = {
        number: ["PERMANENT_FAILURE_INVALID_ACK_ID"] * 9 for number in range(1, 900)
    }
    strict.unacknowledged[900] = ["TRANSIENT_FAILURE_OTHER"]
    with receiver(strict) as made:
        made.acknowledge(taken(made, 900))
        assert sorted(set(strict.acknowledged.values())) == [1, 2]
        (again,) = (each for each, times in strict.acknowledged.items() if times == 2)
        assert again.startswith("900-")
        assert not [each for each in strict.out if each.startswith("900-")]


@pytest.mark.parametrize(
    ("code", "error"), [("INVALID_ARGUMENT", PermanentError), ("UNAVAILABLE", TransientError)]
)
def test_acknowledgements_that_are_refused_as_a_whole_are_told(strict, code, error):
    """Pass: what is not about single messages is an error; what passes is retried before."""
    strict.put(2)
    with receiver(strict) as made:
        first, second = taken(made, 2)
        strict.faults["Acknowledge"].extend([(code, "too large")] * 3)
        with pytest.raises(error, match="too large"):
            made.acknowledge([first])
        strict.faults["Acknowledge"].clear()
        strict.faults["Acknowledge"].append(("UNAVAILABLE", "for a moment"))
        made.acknowledge([second])


def test_a_stream_that_is_silent_for_long_is_begun_anew(strict, monkeypatch):
    """Pass: where the server answers all else, and something is sent on the stream meanwhile."""
    monkeypatch.setattr(pull, "_IDLE", 0.2)
    monkeypatch.setattr(pull, "_SILENT", 1.0)
    monkeypatch.setattr(pull, "_HEARTBEAT", 0.1)
    strict.silent = True
    with receiver(strict) as made:
        wait_for(lambda: strict.beats > 3, 10)
        strict.silent = False
        strict.put(1)
        assert [each.value for each in taken(made, 1, 10.0)] == [b"1"]
        assert strict.streams >= 2


def test_who_reads_the_stream_is_missed(strict, monkeypatch):
    """Pass: whatever ends that thread is told, and not passed over as silence."""

    def fail(*_):
        raise RuntimeError("can't start new thread")

    with receiver(strict) as made:
        wait_for(lambda: strict.streams, 10)
        monkeypatch.setattr(pull, "_Stream", fail)
        strict.end_streams()
        with pytest.raises(TransientError, match="can't start new thread"):
            taken(made, 1, 5.0)


def test_a_fault_shows_in_a_pause(strict):
    """Pass: what has ended is told, though nothing is wanted."""
    with receiver(strict, connect_timeout="1 s") as made:
        made.pause()
        strict.down = True
        with pytest.raises(TransientError, match="127.0.0.1"):
            taken(made, 1, 10.0)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"push_config": {"push_endpoint": "https://there"}}, "pushes to an endpoint"),
        ({"bigquery_config": {"table": "a.b.c"}}, "BigQuery"),
        ({"cloud_storage_config": {"bucket": "b"}}, "Cloud Storage"),
        ({"detached": True}, "topic is gone"),
    ],
)
def test_a_subscription_that_cannot_be_pulled_is_told(strict, said, told):
    """Pass: for good, with why."""
    strict.subscription = said
    with pytest.raises(PermanentError, match=told), receiver(strict):
        pass
