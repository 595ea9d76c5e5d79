"""What a receiver makes of messages, and what it says of those that it can't have: over a real Mosquitto."""

from __future__ import annotations

import json
import socket
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
from mainstem import PermanentError, TransientError
from mainstem.sinks import Refused
from mainstem_broker_mqtt.connection import Connection
from mainstem_broker_mqtt.options import MQTTOptions, MQTTSourceOptions
from mainstem_broker_mqtt.receiver import MQTTReceiver
from mainstem_broker_mqtt.sender import MQTTSender
from mainstem_broker_mqtt.sink import MQTTSink
from mainstem_broker_mqtt.testing import Mosquitto
from mainstem_ingress.losses import loss_of
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.conformance.sender import batch_of, send_by
from mainstem_testkit.pipelines import wait_for
from mqtt_clients import Listener, client, publish
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pydantic import ValidationError


@pytest.fixture
def topic():
    return f"t/{uuid.uuid4()}"


@contextmanager
def receiver(server, topic, cursor=None, number=0, **more):
    given = {"url": server.url, "topics": [topic], "client_id": f"c-{topic}", **more}
    made = MQTTReceiver(MQTTSourceOptions.model_validate(given), number, "node")
    made.connect(cursor)
    try:
        yield made
    finally:
        made.close()


def test_what_a_message_says_beside_its_payload(mosquitto, topic):
    """Pass: user properties as headers, one as the key; the topic; what it was retained for, once."""
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = [("a", "1"), ("device", "d7"), ("é", "ü")]
    properties.ContentType, properties.CorrelationData = "text/plain", b"\x00\xff"
    publish(mosquitto, topic, ["kept"], retain=True)
    with receiver(mosquitto, topic, key="device") as made:
        publish(mosquitto, topic, ["new"], properties=properties)
        kept, new = taken(made, 2)
        made.acknowledge([kept, new])
        cursor = made.cursor()
    assert (kept.value, kept.extra, kept.headers) == (b"kept", (True,), None)
    assert (new.value, new.key, new.origin, new.extra) == (b"new", b"d7", topic, (False,))
    assert dict(new.headers) == {
        "a": b"1",
        "é": "ü".encode(),
        "content-type": b"text/plain",
        "correlation-data": b"\x00\xff",
    }
    with receiver(mosquitto, topic, cursor) as made:
        assert taken(made, 1, seconds=0.3) == []
    with receiver(mosquitto, topic, cursor, retained="always") as made:
        assert [m.value for m in taken(made, 1)] == [b"kept"]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_what_is_stored_and_was_not_acknowledged_is_known(mosquitto, topic, version):
    """Pass: of what the server sends again what the cursor knows is acknowledged and not given; equal
    messages are told apart.
    """
    begin = {"version": version, "client_id": f"v{version}-{topic}"}
    with receiver(mosquitto, topic, **begin) as made:
        publish(mosquitto, topic, ["same"] * 5)
        first = taken(made, 5)
        stored = made.cursor()
    publish(mosquitto, topic, ["same"] * 2)
    with receiver(mosquitto, topic, stored, **begin) as made:
        again = taken(made, 2)
        made.acknowledge(again)
    assert (len(first), len(again)) == (5, 2)
    with receiver(mosquitto, topic, made.cursor(), **begin) as made:
        assert taken(made, 1, seconds=0.3) == []


class Given:
    """A message as the library gives it."""

    def __init__(self, mid, dup):
        self.mid, self.dup, self.qos, self.topic, self.payload = mid, dup, 1, "t", b"same"
        self.retain, self.properties = False, None


def test_packet_ids_that_come_round_are_new_messages():
    """Equal messages, whose ids are those of what was stored before. Pass: one that is sent again is known; one with the
    same id that is not, or that comes after as many others as may be in flight, is new.
    """
    options = MQTTSourceOptions(url="mqtt://h", topics=["t"], prefetch=3)
    made = MQTTReceiver(options, 0, "node")
    for mid in (1, 2, 3):
        made._came(Given(mid, dup=False))
    made._note()
    again = MQTTReceiver(options, 0, "node")
    again._begin(json.loads(made.cursor()))
    again._came(Given(1, dup=True))
    again._came(Given(2, dup=False))
    assert (again._again, len(again._taken)) == ([1], 1)
    for mid in (4, 5, 6):
        again._came(Given(mid, dup=False))
    again._came(Given(3, dup=True))
    assert (again._again, len(again._taken)) == ([1], 5)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_session_that_was_begun_and_not_subscribed_is(mosquitto, topic, version):
    """A process is killed between the two, when it first connects and when the session was gone. Pass: the next one
    subscribes; that the session was gone is told, once.
    """
    begin = {"version": version, "client_id": f"k{version}-{topic}"}
    with client(mosquitto, begin["client_id"], keep=True):
        pass  # a session without a subscription
    with receiver(mosquitto, topic, **begin) as made:
        publish(mosquitto, topic, ["1"])
        (first,) = taken(made, 1)
        made.acknowledge([first])
        cursor = made.cursor()
    with client(mosquitto, begin["client_id"]):  # which ends the session
        pass
    with receiver(mosquitto, topic, cursor, **begin) as made:
        (gone,) = made.take(0.1)
        assert "had no session" in loss_of(gone)["reason"]
        stored = made.cursor()  # and killed before it has subscribed
    with receiver(mosquitto, topic, stored, **begin) as made:
        publish(mosquitto, topic, ["2"])
        assert [m.value for m in taken(made, 1)] == [b"2"]


def test_what_no_server_takes_is_refused(mosquitto, topic, tmp_path):
    """Pass: control characters in a header, a key or a topic, and what is larger than the server takes; the rest
    arrives.
    """
    with Mosquitto(tmp_path, "max_packet_size 2000") as server:
        heard = Listener(server, topic)
        sink = MQTTSink(MQTTOptions(url=server.url, give_up="10 s"))
        good = {"value": b"good", "origin": topic}
        rows = [
            good,
            {**good, "headers": [("a", b"two\nlines")]},
            {**good, "key": b"\x00"},
            {**good, "headers": [("long", b"x" * 70_000)]},
            {**good, "value": b"x" * 3000},
            {**good, "origin": f"{topic}/\x01"},
            good,
        ]
        numbered = [{**row, "_id": n.to_bytes(16, "big")} for n, row in enumerate(rows)]
        refused = send_by(sink, numbered)
        assert sorted(row["_id"][-1] for row in refused) == [1, 2, 3, 4, 5]
        assert heard.values() == [b"good", b"good"]


def test_a_session_that_is_gone_is_told(mosquitto, topic):
    """Pass: once, as a row of `lost`, for the first connection after it; and topics are subscribed to anew."""
    with receiver(mosquitto, topic) as made:
        publish(mosquitto, topic, ["1"])
        made.acknowledge(taken(made, 1))
        cursor = made.cursor()
    with client(mosquitto, f"c-{topic}"):  # a clean start: the session is another one
        pass
    with receiver(mosquitto, topic, cursor) as made:
        (gone,) = taken(made, 1)
        made.acknowledge([gone])
        publish(mosquitto, topic, ["2"])
        (new,) = taken(made, 1)
        cursor = made.cursor()
    assert "had no session of this client" in loss_of(gone)["reason"]
    assert new.value == b"2"
    with receiver(mosquitto, topic, cursor) as made:
        assert taken(made, 1, seconds=0.3) == []


def test_topics_that_are_changed_are_given_up_and_added(mosquitto, topic):
    """Pass: in the session that there is."""
    one, other = f"{topic}/one", f"{topic}/other"
    with receiver(mosquitto, one, client_id=f"x-{topic}") as made:
        cursor = made.cursor()
    with receiver(mosquitto, other, cursor, client_id=f"x-{topic}") as made:
        publish(mosquitto, one, ["1"])
        publish(mosquitto, other, ["2"])
        assert [message.value for message in taken(made, 1)] == [b"2"]


def test_receivers_share_what_comes(mosquitto, topic):
    """Pass: each message comes to one of them."""
    shared = {"share": "us", "receivers": 2}
    with (
        receiver(mosquitto, topic, **shared) as one,
        receiver(mosquitto, topic, number=1, **shared) as other,
    ):
        publish(mosquitto, topic, [str(n) for n in range(20)])
        found, until = ([], []), time.monotonic() + 10
        while sum(map(len, found)) < 20 and time.monotonic() < until:
            for into, made in zip(found, (one, other), strict=True):
                into += made.take(0.05)
    assert all(found)
    assert sorted(int(m.value) for part in found for m in part) == list(range(20))


def test_what_comes_without_room_is_counted_where_nobody_sends_again(mosquitto, topic):
    """Pass: with `qos: 0` it is dropped, and told when there is room again."""
    with receiver(mosquitto, topic, qos=0) as made:
        made.pause()
        publish(mosquitto, topic, ["1", "2", "3"])
        assert taken(made, 1, seconds=0.5) == []
        made.resume()
        (gone,) = taken(made, 1)
    assert loss_of(gone)["count"] == 3


def test_a_will_is_published_when_it_is_gone(mosquitto, topic):
    """Pass: after a connection that broke, and not after a leave."""
    heard = []
    will = {"topic": f"{topic}/will", "payload": "gone", "qos": 1}
    with client(mosquitto, into=heard) as listens:
        listens.subscribe(f"{topic}/will", 1)
        with receiver(mosquitto, topic, will=will):
            pass
        time.sleep(0.3)
        assert not heard
        with receiver(mosquitto, topic, will=will) as made:
            made._connection._client.socket().close()
            wait_for(lambda: heard)
    assert heard[0].payload == b"gone"


def test_the_limit_of_the_server_is_kept(mosquitto, topic):
    """A server that takes two messages without an answer. Pass: a hundred arrive, though 1,000 may be in flight, at the
    one topic, which is sent once (an alias).
    """
    heard, most = Listener(mosquitto, topic), []
    sender = MQTTSender(MQTTOptions(url=mosquitto.url, topic=topic), "test")
    sender.connect()
    sender._connection.most = 2  # as a server says that takes no more
    rows = [{"value": b"%d" % n, "_id": n.to_bytes(16, "big")} for n in range(100)]
    for number, message in enumerate(sender.messages(batch_of(rows), Refused()), 1):
        sender.send(number, message)
        most.append(len(sender._waiting))
    sender.close()
    assert max(most) == 2
    assert sorted(map(int, heard.values())) == list(range(100))


@pytest.mark.in_turn
def test_tls_by_certificates_of_both_sides(tmp_path, mosquitto, topic):
    """Pass: with the right ones; not where the name is another, the authority, or none is shown."""
    made = tmp_path / "certificates"
    make_certificates(made, {"server": "DNS:localhost", "me": "DNS:me"})
    tmp_path.chmod(0o755)
    settings = (
        f"cafile {made}/ca.pem\ncertfile {made}/server.pem\nkeyfile {made}/server.key\n"
        "require_certificate true"
    )
    server = SecureMosquitto(tmp_path / "server", settings)
    mine = {"ca": f"{made}/ca.pem", "certificate": f"{made}/me.pem", "key": f"{made}/me.key"}
    with server:
        good = {"url": f"mqtts://localhost:{server.port}", "topic": topic, "tls": mine}
        Connection(MQTTOptions.model_validate(good)).close()
        for wrong, told in (
            ({"tls": {**mine, "ca": f"{made}/other.pem"}}, PermanentError),
            ({"url": f"mqtts://127.0.0.1:{server.port}"}, PermanentError),
            ({"tls": {"ca": mine["ca"]}}, (PermanentError, TransientError)),
            ({"tls": {**mine, "certificate": f"{made}/none.pem"}}, PermanentError),
        ):
            with pytest.raises(told):
                Connection(MQTTOptions.model_validate({**good, **wrong}))


class SecureMosquitto(Mosquitto):
    """One that speaks TLS."""

    def answers(self):
        with self.connect(2):
            return True


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"topics": ["a/#/b"]}, "`#` at the end"),
        ({"topics": ["a+"]}, "expected a topic"),
        ({"topics": ["$share/g/a"]}, "share"),
        ({"topics": ["a", "a"]}, "twice"),
        ({"receivers": 2}, "need `share`"),
        ({"version": "3.1.1", "share": "g"}, "version 5"),
        ({"version": "3.1.1", "retained": "never"}, "version 5"),
        ({"url": "mqtt://h/topic"}, "nothing after the port"),
        ({"tls": {}}, "not mqtts"),
        ({"url": "mqtt://us:hunter2"}, "is the port a number"),
    ],
)
def test_wrong_options_are_told(given, told):
    """Pass: when the document is read."""
    with pytest.raises(ValidationError, match=told):
        MQTTSourceOptions.model_validate({"url": "mqtt://h", "topics": ["a"], **given})


def test_a_server_that_is_not_there_is_waited_for(tmp_path):
    """Pass: an error that passes, without the password."""
    options = MQTTOptions(url="mqtt://us:hunter2@127.0.0.1:1", topic="t")
    with pytest.raises(TransientError) as told:
        Connection(options)
    assert "hunter2" not in str(told.value)


def test_a_server_that_does_not_answer_costs_no_socket(topic):
    """Pass: after ten tries at one that lets in and says nothing, as many files are open as before."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mqtt://127.0.0.1:{silent.getsockname()[1]}"
        given = {"url": url, "topics": [topic], "connect_timeout": "50 ms"}
        made = MQTTReceiver(MQTTSourceOptions.model_validate(given), 0, "node")
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(10):
            with pytest.raises(TransientError, match="has not answered the connection in time"):
                made.connect(None)
            made.close()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
