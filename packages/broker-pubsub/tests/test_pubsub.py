"""What messages say, there and back; leases; keys in their order; refused rows; options and errors."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager

import pytest
from mainstem import Level, PermanentError, TransientError
from mainstem_broker_pubsub import pull
from mainstem_broker_pubsub.client import Client
from mainstem_broker_pubsub.options import PubSubOptions, PubSubSourceOptions
from mainstem_broker_pubsub.receiver import PubSubReceiver
from mainstem_broker_pubsub.sink import PubSubSink
from mainstem_broker_pubsub.source import PubSubSource
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.conformance.sender import send_by
from mainstem_testkit.proxy import FaultProxy
from pydantic import ValidationError


@pytest.fixture
def name():
    return f"orders-{uuid.uuid4().hex}"


@pytest.fixture
def topic(pubsub, name):
    return pubsub.topic(name)


@pytest.fixture
def subscription(pubsub, name, topic):
    return pubsub.subscription(name, topic, enable_message_ordering=True)


def source_options(server, subscription, **more):
    given = {"subscription": subscription, "emulator": server.url, "lease": "2 s", **more}
    return PubSubSourceOptions.model_validate(given)


@contextmanager
def receiver(server, subscription, number=0, **more):
    made = PubSubReceiver(source_options(server, subscription, **more), number, "orders")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def sink_options(server, topic, **more):
    given = {"topic": topic, "emulator": server.url, **more}
    return PubSubOptions.model_validate(given)


def row(number, **more):
    told = {"key": b"k", "value": b"%d" % number, "_id": number.to_bytes(16, "big")}
    return {**told, **more}


# -- messages -----------------------------------------------------------------------------------


def test_what_a_message_says(pubsub, topic, subscription):
    """Pass: data, ordering key, attributes, time, id; the key from an attribute, if one is named."""
    (its,) = pubsub.publish(
        topic, [{"data": b"v", "ordering_key": "k", "attributes": {"a": "1", "b": ""}}]
    )
    with receiver(pubsub, subscription) as made:
        (found,) = taken(made, 1)
        made.acknowledge([found])
        assert (found.value, found.key, sorted(found.headers)) == (
            b"v",
            b"k",
            [("a", b"1"), ("b", b"")],
        )
        assert found.origin == subscription.rpartition("/")[2]
        assert found.id.startswith(f"{its}@{found.timestamp // 1_000_000}.".encode())
        assert found.extra == (its, None)
        assert found.timestamp > (time.time() - 10) * 1e6
    pubsub.publish(topic, [{"data": b"w", "attributes": {"a": "1", "b": "2"}}])
    with receiver(pubsub, subscription, key="b") as made:
        (found,) = taken(made, 1)
        assert (found.key, found.headers) == (b"2", [("a", b"1")])


def test_rows_become_messages(pubsub, topic, subscription):
    """Pass: there and back: values of any bytes, keys as ordering keys, headers and the identity as attributes; in
    a key's order over many requests."""
    rows = [row(n, key=b"k%d" % (n % 7), headers=[("a", b"x")]) for n in range(300)]
    rows += [row(300, key=None, value=b"\x00\xff", headers=None), row(301, value=None)]
    assert not send_by(PubSubSink(sink_options(pubsub, topic)), rows)
    found = []
    with receiver(pubsub, subscription, prefetch=5000) as made:
        while len(found) < len(rows):
            came = taken(made, 1, 10.0)
            assert came, f"{len(found)} came"
            made.acknowledge(came)
            found += came
    by_id = {dict(each.headers)["mainstem-id"]: each for each in found}
    assert len(by_id) == len(found) == len(rows)
    last = by_id[row(300)["_id"].hex().encode()]
    assert (last.key, last.value) == (None, b"\x00\xff")
    assert by_id[row(301)["_id"].hex().encode()].value == b""
    assert dict(by_id[row(5)["_id"].hex().encode()].headers)["a"] == b"x"
    for key in range(7):
        numbers = [int(each.value) for each in found if each.key == b"k%d" % key]
        assert numbers == sorted(numbers), key


def test_a_key_can_be_an_attribute(pubsub, topic, subscription):
    """Pass: no ordering key then."""
    assert not send_by(PubSubSink(sink_options(pubsub, topic, key="customer")), [row(1)])
    (found,) = pubsub.pull(subscription)
    assert (found.message.ordering_key, found.message.attributes["customer"]) == ("", "k")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"key": b"\xff"}, "its key is no text"),
        ({"key": b"k" * 1025}, "more than 1,024 bytes"),
        ({"headers": [("goog-a", b"")]}, "can't be the name"),
        ({"headers": [("", b"")]}, "can't be the name"),
        ({"headers": [("a" * 257, b"")]}, "can't be the name"),
        ({"headers": [("a", b"x" * 1025)]}, "more than 1,024 bytes"),
        ({"headers": [(f"a{n}", b"") for n in range(100)]}, "more than 100 attributes"),
    ],
)
def test_what_no_topic_takes_is_refused(pubsub, topic, subscription, more, told):
    """Pass: with the reason, before it is sent; what is beside it is sent."""
    (refused,) = send_by(PubSubSink(sink_options(pubsub, topic)), [row(1, **more), row(2)])
    assert told in refused["reason"]
    assert [each.message.data for each in pubsub.pull(subscription)] == [b"2"]


def test_what_is_larger_than_a_request_is_refused(pubsub, topic, subscription):
    """Pass: the others come."""
    rows = [row(1), row(2, value=b"x" * 10_000_000), row(3, value=b"x" * 3_000_000)]
    found = send_by(PubSubSink(sink_options(pubsub, topic)), rows)
    assert len(found) == 1
    came = []
    while part := pubsub.pull(subscription):
        came += [len(each.message.data) for each in part]
    assert sorted(came) == [1, 3_000_000]


# -- leases -------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_what_waits_to_be_stored_stays_hidden(pubsub, topic, subscription):
    """Pass: for longer than its lease nobody else gets a message that a receiver has; let go, it comes at once."""
    pubsub.publish(topic, [{"data": b"1"}])
    with receiver(pubsub, subscription) as first, receiver(pubsub, subscription, 1) as second:
        until = time.monotonic() + 5
        had = []
        while time.monotonic() < until:
            had += list(first.take(0.05))
            had += list(second.take(0.05))
        assert [each.value for each in had] == [b"1"]
    with receiver(pubsub, subscription) as third:
        assert [each.id for each in taken(third, 1, 2.0)] == [had[0].id]


def test_a_pause_keeps_what_has_come(pubsub, topic, subscription):
    """Pass: nothing comes in a pause that is longer than a lease, and all after it, once."""
    with receiver(pubsub, subscription) as made:
        made.pause()
        pubsub.publish(topic, [{"data": b"%d" % n} for n in range(20)])
        until = time.monotonic() + 4
        while time.monotonic() < until:
            assert list(made.take(0.1)) == []
        made.resume()
        assert sorted(int(each.value) for each in taken(made, 20)) == list(range(20))


# -- connections --------------------------------------------------------------------------------


def test_a_channel_that_does_not_come_about_is_told(pubsub, topic, subscription):
    """Pass: cut off for longer than `connect_timeout`, it is told where to, and that a retry may help."""
    with FaultProxy(pubsub.port) as proxy:
        given = {"emulator": f"127.0.0.1:{proxy.port}", "connect_timeout": "1 s"}
        with receiver(pubsub, subscription, **given) as made:
            proxy.refuse()
            proxy.cut()
            with pytest.raises(TransientError, match=f"{proxy.port}"):
                taken(made, 1, 15.0)


def test_a_line_that_has_died_without_a_word_is_told(pubsub, topic, subscription, monkeypatch):
    """Pass: where nothing comes any more, and nothing is sent, it is found out by asking."""
    monkeypatch.setattr(pull, "_IDLE", 0.5)
    with FaultProxy(pubsub.port) as proxy:
        given = {"emulator": f"127.0.0.1:{proxy.port}", "answer_timeout": "1 s"}
        with receiver(pubsub, subscription, **given) as made:
            until = time.monotonic() + 2
            while time.monotonic() < until:
                assert list(made.take(0.1)) == []
            proxy.blackhole()
            with pytest.raises(TransientError, match="deadline exceeded"):
                taken(made, 1, 10.0)


def test_a_stream_that_the_server_ends_is_begun_anew(pubsub, topic, subscription, monkeypatch):
    """Pass: as servers do from time to time; nobody is told, and messages go on coming, each once."""
    monkeypatch.setattr(pull, "_LASTED", 0.2)
    with FaultProxy(pubsub.port) as proxy:
        given = {"emulator": f"127.0.0.1:{proxy.port}"}
        with receiver(pubsub, subscription, **given) as made:
            found = []
            for number in range(3):
                time.sleep(0.5)
                proxy.cut()
                pubsub.publish(topic, [{"data": b"%d" % number}])
                found += taken(made, 1, 10.0)
                made.acknowledge(found[-1:])
            assert [each.value for each in found] == [b"0", b"1", b"2"]
            assert proxy.connections >= 4


def test_nobody_there_is_told(pubsub, subscription):
    """Pass: a call to where nobody is ends, and may be retried."""
    made = Client(
        source_options(pubsub, subscription, emulator="127.0.0.1:9", answer_timeout="2 s")
    )
    with pytest.raises(TransientError, match="127.0.0.1:9"):
        made.call("GetSubscription", subscription=subscription)
    made.close()


def test_credentials_that_are_not_there_are_told(tmp_path, pubsub, subscription):
    """Pass: what the file has is not."""
    (tmp_path / "key.json").write_text('{"type": "service_account", "private_key": "hunter2"}')
    given = {"subscription": subscription, "credentials": str(tmp_path / "key.json")}
    with pytest.raises(PermanentError, match="no credentials in") as failed:
        Client(PubSubSourceOptions.model_validate(given))
    assert "hunter2" not in str(failed.value)


def test_dead_letters_are_told(pubsub, topic, name):
    """Pass: where they go, and after how many times; and how often a message has come."""
    dead = pubsub.topic(f"{name}-dead")
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
    held = pubsub.subscription(f"{name}-2", topic, dead_letter_policy=policy)
    pubsub.publish(topic, [{"data": b"1"}])
    with receiver(pubsub, held) as made:
        assert made.facts()["dead_letters"] == f"{name}-dead, after 5"
        (found,) = taken(made, 1)
        assert found.extra[1] == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "project is missing"),
        ({"project": "P"}, "expected a project's id"),
        ({"project": "mine-1", "subscription": "goog-x"}, "expected a subscription's name"),
        ({"subscription": "projects/mine-1/topics/x-y"}, "expected a subscription's name"),
        ({"project": "mine-1", "emulator": "a b"}, "expected a host"),
        (
            {"project": "mine-1", "emulator": "a:1", "endpoint": "b"},
            "emulator goes without endpoint",
        ),
        ({"project": "mine-1", "lease": "5 s"}, "shorter than 10 seconds"),
    ],
)
def test_wrong_options_are_refused(given, told):
    """Pass: each with what is wrong."""
    with pytest.raises(ValidationError, match=told):
        PubSubSourceOptions.model_validate({"subscription": "orders", **given})


def test_whole_names_say_the_project():
    """Pass: of a subscription and a topic."""
    whole = "projects/mine-1/subscriptions/orders"
    assert PubSubSourceOptions.model_validate({"subscription": whole}).path == whole
    given = {"topic": "orders", "project": "mine-1"}
    assert PubSubOptions.model_validate(given).path == "projects/mine-1/topics/orders"


def test_copies_are_claimed_to_be_known_only_where_ids_are_kept():
    """Pass: with `duplicates_within: 0 s` no id is, so a copy can come out, and the source says so."""
    for horizon, may in (("1 hour", False), ("0 s", True)):
        options = PubSubSourceOptions(
            subscription="projects/shop/subscriptions/jobs", duplicates_within=horizon
        )
        facts = PubSubSource(options).capabilities
        assert facts.may_duplicate is may
        assert (facts.shown.level is Level.EXACTLY_ONCE) is not may
