"""Messages as they come and go; programs of JMS; what brokers refuse, hold back and give again."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from amqp1_clients import Says, give_back, put, send, take
from mainstem import PermanentError, TransientError
from mainstem.sinks import Refused
from mainstem_broker_amqp.testing import RabbitMQ
from mainstem_broker_amqp1.connection import Connection
from mainstem_broker_amqp1.content import row
from mainstem_broker_amqp1.options import AMQP1Options, AMQP1SourceOptions
from mainstem_broker_amqp1.receiver import AMQP1Receiver
from mainstem_broker_amqp1.sink import AMQP1Sink
from mainstem_broker_amqp1.source import AMQP1Source
from mainstem_broker_amqp1.testing import Artemis, jars
from mainstem_egress import Answer, Fate
from mainstem_egress.sink import dispatcher_of
from mainstem_testkit import serve
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.conformance.sender import batch_of, send_by
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.server import free_port
from proton import Delivery, Message
from proton.utils import BlockingConnection
from pydantic import ValidationError

LOGIN = "us:let me/in"


@pytest.fixture
def address():
    return f"q-{uuid.uuid4().hex}"


def source_options(server, address, **more):
    given = {"url": server.url, "address": address, "connect_timeout": "5 s", **more}
    return AMQP1SourceOptions.model_validate(given)


@contextmanager
def receiver(server, address, number=0, **more):
    made = AMQP1Receiver(source_options(server, address, **more), number, "node")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def sink_row(number, **more):
    told = {"value": b"%d" % number, "key": None, "_id": number.to_bytes(16, "big")}
    return {**told, **more}


def send_rows(server, rows, **more):
    given = {"url": server.url, "give_up": "8 s", "connect_timeout": "5 s", **more}
    return send_by(AMQP1Sink(AMQP1Options.model_validate(given)), rows)


def jms(*words):
    """Run the JMS program, and return the lines that it prints."""
    program = Path(__file__).with_name("Client.java")
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(program)]
    done = subprocess.run([*java, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


COLUMNS = ("id", "correlation", "subject", "reply", "type", "group", "priority", "count", "expires")


def facts(message):
    return dict(zip(COLUMNS, message.extra, strict=True))


# -- programs of JMS --------------------------------------------------------------------------------


def test_each_kind_of_jms_message_is_a_row(artemis, address):
    """Text, bytes, a map, a stream, nothing; an object is refused; headers are columns."""
    jms("send", artemis.url, address)
    with receiver(artemis, address) as made:
        found = taken(made, 6)
        made.acknowledge(found)
    text, octets, table, stream, nothing, java = found
    assert text.value == "grün".encode()
    assert text.key == b"g1"
    assert dict(text.headers) == {"name": b"value", "number": b"7", "yes": b"true"}
    told = facts(text)
    assert told["id"].startswith("ID:")
    assert text.id == told["id"].encode()
    assert (told["correlation"], told["subject"], told["reply"]) == ("c-1", "colour", address)
    assert (told["priority"], told["count"]) == (7, 0)
    assert told["expires"] - text.timestamp == 3_600_000_000
    assert abs(text.timestamp / 1e6 - time.time()) < 120
    assert octets.value == b"\x00\x01\xff"
    assert facts(octets)["expires"] is None
    assert json.loads(table.value) == {"text": "a", "number": 9007199254740993, "bytes": "AQI="}
    assert json.loads(stream.value) == ["a", 1.5]
    assert nothing.value is None
    assert [m.refused for m in found[:5]] == [None] * 5
    assert "Java" in java.refused
    assert take(artemis.url, address) == []


def test_jms_programs_take_what_the_sink_sends(artemis, address):
    """As bytes and as text, with key, headers, and the identity as the message id."""
    rows = [sink_row(1, value=b"\x00\xff", key=b"g", headers=[("name", b"v")]), sink_row(2)]
    assert send_rows(artemis, rows, address=address) == []
    assert send_rows(artemis, [sink_row(3, value="ü".encode())], address=address, body="text") == []
    lines = [line.split("|") for line in jms("take", artemis.url, address, "3")]
    assert [line[0] for line in lines] == ["bytes AP8=", "bytes Mg==", "text ü"]
    assert [line[1].removeprefix("ID:AMQP_NO_PREFIX:") for line in lines] == [
        n.to_bytes(16, "big").hex() for n in (1, 2, 3)
    ]
    assert [line[3] for line in lines] == ["g", "null", "null"]
    assert {line[4] for line in lines} == {"2"}  # durable
    assert lines[0][5:] == ["name=v"]


# -- what comes -------------------------------------------------------------------------------------


def test_what_was_not_settled_comes_again_and_says_how_often(artemis, address):
    """Given back unread it is as new; given back as failed, it is counted."""
    put(artemis.url, address, [1])
    with receiver(artemis, address) as made:
        assert [facts(m)["count"] for m in taken(made, 1)] == [0]
        (held,) = made._open.values()
    assert held.local_state == Delivery.RELEASED
    with receiver(artemis, address) as made:
        assert [facts(m)["count"] for m in taken(made, 1)] == [0], "leaving is no failure"
    give_back(artemis.url, address)
    with receiver(artemis, address) as made:
        found = taken(made, 1)
        assert [facts(m)["count"] for m in found] == [1]
        made.acknowledge(found)


def test_a_selector_leaves_the_others(artemis, address):
    send(
        artemis.url,
        address,
        [Message(b"%d" % n, properties={"n": n}, inferred=True) for n in range(6)],
    )
    with receiver(artemis, address, selector="n >= 4") as made:
        found = taken(made, 2)
        made.acknowledge(found)
        assert [m.value for m in found] == [b"4", b"5"]
        assert taken(made, 1, 0.5) == []
    assert sorted(bytes(m.body) for m in take(artemis.url, address)) == [b"0", b"1", b"2", b"3"]


def test_no_more_than_prefetch_are_here(artemis, address):
    """Until some are settled; then more come."""
    put(artemis.url, address, range(50))
    with receiver(artemis, address, prefetch=10) as made:
        found = taken(made, 50, 1.0)
        assert len(found) == 10
        while len(found) < 50:
            made.acknowledge(found[-10:])
            found += taken(made, 10)
        made.acknowledge(found[-10:])
        assert [m.value for m in found] == [b"%d" % n for n in range(50)]


def test_a_shared_subscription_keeps_what_comes_while_nobody_is_there(artemis, address):
    """Two receivers share it. Pass: each message comes to one of them, and both have some."""
    mine = {"subscription": f"s-{address}", "shared": True, "receivers": 2, "prefetch": 5}
    with receiver(artemis, address, 1, **mine):
        pass
    put(artemis.url, address, range(100), kind="topic")
    with (
        receiver(artemis, address, 0, **mine) as one,
        receiver(artemis, address, 1, **mine) as two,
    ):
        found = {one: [], two: []}
        until = time.monotonic() + 10
        while sum(map(len, found.values())) < 100 and time.monotonic() < until:
            for made, own in found.items():
                if came := list(made.take(0.02)):
                    made.acknowledge(came)
                    own += came
    assert all(found.values())
    assert sorted(int(m.value) for own in found.values() for m in own) == list(range(100))


def test_ids_and_keys():
    """Which message ids tell copies; a key by a property or an annotation."""
    found = [(0x72, {"x-key": "a"}), (0x73, [7]), (0x74, {"p": 1.5, "key": b"\xff"}), (0x75, b"v")]
    assert row(found, "o", None, "when_given", 1).id == b"AMQP_INT:7"
    assert row(found, "o", None, "never", 1).id is None
    assert row(found, "o", "x-key", "never", 1).key == b"a"
    made = row(found, "o", "key", "never", 1)
    assert (made.key, dict(made.headers)) == (b"\xff", {"x-key": b"a", "p": b"1.5"})
    assert "ids: always" in row([(0x75, b"v")], "o", None, "always", 1).refused


@pytest.mark.parametrize(
    ("found", "value"),
    [
        ([(0x75, b"a"), (0x75, b"b")], b"ab"),
        ([(0x76, [1, "x"]), (0x76, [None])], b'[1, "x", null]'),
        ([(0x77, {"a": [1.0, float("inf")], 2: True})], b'{"a": [1.0, "inf"], "2": true}'),
        ([(0x77, False)], b"false"),
        ([(0x77, uuid.UUID(int=5))], b"00000000-0000-0000-0000-000000000005"),
        ([(0x77, "\ud800")], b"\xed\xa0\x80"),
        ([], None),
    ],
)
def test_bodies_of_all_kinds(found, value):
    assert row(found, "o", None, "never", 1).value == value


@pytest.mark.parametrize("at", [0, 2**61, -(2**61), -1_000, 253_402_300_800_000])
def test_times_of_any_size(at):
    made = row([(0x73, [None] * 9 + [at]), (0x75, b"")], "o", None, "never", 1)
    assert made.timestamp == (at * 1000 if at == -1_000 else None)


def test_what_is_no_message_is_refused_with_its_bytes(artemis, address):
    """Sent as it is by another client. Pass: the rows that are good come, the others are refused."""
    put(artemis.url, address, [1])
    two = bytes.fromhex("005375a00161005375a00162")
    bad = [
        b"\x00\x53\x77\xa1\x02\xff\xfe",  # a text that is no UTF-8
        bytes.fromhex("005374c0020141" + "005375a00161"),  # properties that are a list
        bytes.fromhex("005377" + "7400000001"),  # a decimal
    ]
    connection = BlockingConnection(artemis.url, timeout=10)
    sender = connection.create_sender(address, options=Says("queue")).link
    for number, each in enumerate([two, *bad]):
        sender.delivery(f"t{number}")
        sender.send(each)
        sender.advance()
    connection.wait(lambda: not sender.queued, 5)
    connection.close()
    with receiver(artemis, address) as made:
        found = taken(made, 2 + len(bad))
        made.acknowledge(found)
    assert [m.value for m in found] == [b"1", b"ab", *bad]
    assert [m.refused is not None for m in found] == [False, False, *[True] * len(bad)]


# -- what goes --------------------------------------------------------------------------------------


def test_credit_that_is_taken_back_late_is_given_again(artemis, address):
    """Paused, and gone on with before the broker has said that it gave credit back. Pass: all comes."""
    with receiver(artemis, address, prefetch=10) as made:
        made.take(0.05)
        made.pause()
        made.resume()
        assert made.take(0.5) == []
        put(artemis.url, address, range(5))
        found = taken(made, 5)
        made.acknowledge(found)
    assert [m.value for m in found] == [b"%d" % n for n in range(5)]


@pytest.mark.parametrize("count", [2**31, 2**32 - 1])
def test_numbers_beyond_their_column_are_refused(count):
    with pytest.raises(ValueError, match="too large"):
        row([(0x70, [True, 4, None, None, count]), (0x75, b"")], "o", None, "never", 1)


def test_ids_of_different_types_are_different():
    def made(value):
        return row([(0x73, [value]), (0x75, b"")], "o", None, "when_given", 1).id

    assert len({made(7), made("7"), made(b"7"), made(uuid.UUID(int=7))}) == 4


def test_names_with_a_nul_are_refused(artemis, address):
    """The library would end them there, and send to somebody else."""
    rows = [sink_row(1, origin=f"{address}\0x"), sink_row(2, origin=address, key=b"\0a")]
    assert [each["reason"] for each in send_rows(artemis, rows)] == [
        "its address has a NUL in it", "its key has a NUL in it",
    ]  # fmt: skip
    assert take(artemis.url, address) == []


def test_each_row_goes_to_its_address(artemis, address):
    """Pass: what has none is refused, and the others arrive."""
    rows = [sink_row(n, origin=f"{address}-{n % 2}" if n else None) for n in range(5)]
    (refused,) = send_rows(artemis, rows)
    assert "address" in refused["reason"]
    assert [int(bytes(m.body)) for m in take(artemis.url, f"{address}-0")] == [2, 4]
    assert [int(bytes(m.body)) for m in take(artemis.url, f"{address}-1")] == [1, 3]


def test_a_topic_reaches_all_subscriptions(artemis, address):
    names = [f"{address}-{n}" for n in range(2)]
    for name in names:
        with receiver(artemis, address, subscription=name, client_id=name):
            pass
    assert send_rows(artemis, [sink_row(1)], address=address, kind="topic") == []
    for name in names:
        with receiver(artemis, address, subscription=name, client_id=name) as made:
            assert [m.value for m in taken(made, 1)] == [b"1"]


def test_a_full_address_holds_back(artemis):
    """It gives no credit. Pass: what is sent waits until there is room, and no message is lost."""
    address = f"full.{uuid.uuid4().hex}"
    options = AMQP1Options.model_validate(
        {"url": artemis.url, "address": address, "give_up": "30 s"}
    )
    made = AMQP1Sink(options)
    sender = made.sender()(options, "test")
    dispatcher = dispatcher_of(sender, options, lambda *_: None)
    rows = [sink_row(n, value=b"%d" % n + b" " * 1_000) for n in range(1_500)]
    batch = batch_of(rows)

    def work():
        for message in sender.messages(batch, Refused()):
            dispatcher.send(message)
        dispatcher.flush()

    working = threading.Thread(target=work)
    working.start()
    try:
        wait_for(lambda: bool(sender.blocked()), 20)
        assert "credit" in sender.blocked()
        found = []
        until = time.monotonic() + 30
        while len(found) < 1_500 and time.monotonic() < until:
            found += take(artemis.url, address, 0.3)
    finally:
        working.join(40)
        dispatcher.close()
    assert not working.is_alive()
    assert sorted(int(bytes(m.body)) for m in found) == list(range(1_500))


def test_an_address_that_rejects_is_retried_until_given_up(artemis):
    """Artemis rejects what has no room. Pass: the batch fails with its words."""
    address = f"failing.{uuid.uuid4().hex}"
    rows = [sink_row(n, value=b" " * 20_000) for n in range(100)]
    with pytest.raises(PermanentError, match="the broker says"):
        send_rows(artemis, rows, address=address, give_up="3 s")


@pytest.mark.parametrize(
    ("said", "fate"),
    [
        ("amqp:resource-limit-exceeded", Fate.RETRY),
        ("failed", Fate.RETRY),
        ("amqp:decode-error", Fate.REFUSED),
        ("amqp:unauthorized-access", None),
    ],
)
def test_why_a_message_is_rejected_decides_what_becomes_of_it(said, fate):
    """None: it is so for all messages, and ends the batch."""
    options = AMQP1Options.model_validate({"url": "amqp://there", "address": "a"})
    sender = AMQP1Sink(options).sender()(options, "test")
    sender._connection = SimpleNamespace(work=lambda _: None, fault="")
    condition = SimpleNamespace(name=said, description="its words")
    remote = SimpleNamespace(condition=condition)
    sender._answered(
        SimpleNamespace(
            remote_state=Delivery.REJECTED,
            settled=True,
            tag="7",
            settle=lambda: None,
            remote=remote,
        )
    )
    if fate is None:
        with pytest.raises(PermanentError, match="its words"):
            sender.answers(0)
    else:
        assert list(sender.answers(0)) == [Answer(7, 7, fate, "the broker says: its words")]


@pytest.mark.parametrize(
    ("name", "info", "given", "kind"),
    [
        ("amqp:unauthorized-access", None, {}, PermanentError),
        ("amqp:unauthorized-access", None, {"passing": True}, TransientError),
        ("amqp:invalid-field", {"invalid-field": "container-id"}, {}, TransientError),
        ("amqp:invalid-field", {"invalid-field": "filter"}, {}, PermanentError),
        ("amqp:resource-locked", None, {}, TransientError),
    ],
)
def test_what_a_broker_says_lasts_or_passes(name, info, given, kind):
    made = object.__new__(Connection)
    made.place, made.fault, made._served, made._error = "there", "", False, None
    made._refused(SimpleNamespace(name=name, description="words", info=info), **given)
    assert type(made._error) is kind
    assert "words" in str(made._error)


# -- who may come -----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def secured_artemis(request, tmp_path_factory):
    """A broker that asks for a password."""

    class SecuredArtemis(Artemis):
        name = "secured_artemis"

        def __init__(self, folder):
            super().__init__(folder, LOGIN)

        @property
        def url(self):
            return f"amqp://us:let%20me%2Fin@127.0.0.1:{self.port}"

    yield from serve(SecuredArtemis, request, tmp_path_factory)


def test_a_password_is_asked_for(secured_artemis, address, caplog):
    """The right one is let in; another one, and nobody, are not, for good, and it is not shown."""
    assert send_rows(secured_artemis, [sink_row(1)], address=address) == []
    with receiver(secured_artemis, address) as made:
        assert [m.value for m in taken(made, 1)] == [b"1"]
    there = f"127.0.0.1:{secured_artemis.port}"
    for url in (f"amqp://us:hunter2@{there}", f"amqp://{there}"):
        with pytest.raises(PermanentError) as told, receiver(secured_artemis, address, url=url):
            pass
        assert "hunter2" not in f"{told.value}{caplog.text}"


@pytest.mark.in_turn
def test_tls_by_certificates_of_both_sides(tmp_path):
    """Pass: with the right ones; not where the name is another, the authority, or none is shown."""
    made = tmp_path / "certificates"
    make_certificates(made, {"server": "DNS:localhost", "me": "DNS:me"})
    port = free_port()
    both = tmp_path / "server.pem"
    both.write_text((made / "server.key").read_text() + (made / "server.pem").read_text())
    mine = {"ca": f"{made}/ca.pem", "certificate": f"{made}/me.pem", "key": f"{made}/me.key"}
    with Artemis(tmp_path / "broker", tls=(port, both, made / "ca.pem")) as server:
        good = {"url": f"amqps://localhost:{port}", "tls": mine}
        assert send_rows(server, [sink_row(1)], address="secured", **good) == []
        with receiver(server, "secured", **good) as found:
            assert [m.value for m in taken(found, 1)] == [b"1"]
        for wrong, told in (
            ({"tls": {**mine, "ca": f"{made}/other.pem"}}, PermanentError),
            ({"url": f"amqps://127.0.0.1:{port}"}, PermanentError),
            ({"tls": {"ca": mine["ca"]}}, (PermanentError, TransientError)),
            ({"tls": {**mine, "certificate": f"{made}/none.pem"}}, PermanentError),
        ):
            with pytest.raises(told), receiver(server, "secured", **{**good, **wrong}):
                pass


class SpeakingRabbitMQ(RabbitMQ):
    name = "speaking_rabbitmq"
    plugins = ("rabbitmq_amqp1_0",)


@pytest.mark.in_turn
def test_rabbitmq_s_plugin_is_understood(tmp_path):
    """Sent, taken, given again, settled; it can't be asked for credit that is out."""
    with SpeakingRabbitMQ(tmp_path / "broker") as server:
        rows = [sink_row(n, key=b"k", headers=[("name", b"v")]) for n in range(500)]
        assert send_rows(server, rows, address="/queue/ours") == []
        with receiver(server, "/queue/ours") as made:
            assert len(taken(made, 500)) == 500
        with receiver(server, "/queue/ours") as made:
            found = taken(made, 500)
            assert sorted(int(m.value) for m in found) == list(range(500))
            assert {(m.key, m.id is None, dict(m.headers)["name"]) for m in found} == {
                (b"k", False, b"v")
            }
            made.acknowledge(found)
        with receiver(server, "/queue/ours") as made:
            assert taken(made, 1, 0.5) == []
        for wrong, told in (
            ({"selector": "n > 1"}, "selectors"),
            ({"subscription": "s", "shared": True}, "shared"),
        ):
            with (
                pytest.raises(PermanentError, match=told),
                receiver(server, "/queue/ours", **wrong),
            ):
                pass


def test_brokers_are_tried_in_turn(artemis, address):
    """The first one is not there. Pass: the second one is, and is asked first from then on."""
    put(artemis.url, address, [1])
    made = AMQP1Receiver(
        source_options(artemis, address, url=["amqp://127.0.0.1:1", artemis.url]), 0, "node"
    )
    with pytest.raises(TransientError):
        made.connect(None)
    made.close()
    for _ in range(2):
        made.connect(None)
        assert made.facts()["server"] == f"127.0.0.1:{artemis.port}"
        made.close()


# -- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": []}, "at least one"),
        ({"url": "amqp://there/vhost"}, "nothing after"),
        ({"url": "amqp://me@there"}, "without a password"),
        ({"url": "amqp://:word@there"}, "without a user"),
        ({"tls": {}}, "amqps"),
        ({"shared": True}, "goes with"),
        ({"client_id": "x"}, "goes with"),
        ({"client_id": "x", "subscription": "s", "shared": True}, "not shared"),
        ({"subscription": "s", "receivers": 2}, "shared: true"),
        ({"ids": "always", "duplicates_within": "0 s"}, "would not help"),
    ],
)
def test_what_does_not_fit_is_told(given, told):
    with pytest.raises(ValidationError, match=told):
        AMQP1SourceOptions.model_validate({"url": "amqp://there", "address": "a", **given})


def test_guarantees_follow_ids():
    def made(**more):
        given = {"url": "amqp://there", "address": "a", **more}
        return AMQP1Source(AMQP1SourceOptions.model_validate(given)).capabilities

    assert not made(ids="always").may_duplicate
    assert made().may_duplicate
    assert "ids: always" in made().why
    assert "ids: always" not in made(ids="never").why
    assert not made(receivers=2).ordered
