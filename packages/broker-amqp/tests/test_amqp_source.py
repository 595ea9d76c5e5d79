"""The source over a real broker, without Spark where Spark has no part in it: nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import pika
import pytest
from mainstem import PermanentError, TransientError
from mainstem_broker_amqp.source.options import AMQPSourceOptions
from mainstem_broker_amqp.source.receiver import AMQPReceiver
from mainstem_ingress.log import Log
from mainstem_ingress.process import Task
from mainstem_ingress.segments import file_of, open_segment
from mainstem_testkit import wait_for

RECEIVER = "mainstem_broker_amqp.source.receiver:AMQPReceiver"


class Taker:
    """A receiver's process, and what it says of itself."""

    def __init__(self, task, **env):
        self.states = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mainstem_ingress.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
        )
        self.process.stdin.write(task.encoded())
        self.process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.states.append(json.loads(line))

    def state(self, name, seconds=30):
        """Wait until it tells of a state, and return what it tells."""
        return wait_for(
            lambda: next((s for s in reversed(self.states) if s["state"] == name), None), seconds
        )

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)
        self._reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()


class Place:
    """A log in a folder, and the takers that fill it."""

    def __init__(self, folder, server):
        self.log = Log(folder)
        self.folder = folder
        self.server = server

    def options(self, queue, **more):
        given = {"url": self.server.url, "queue": queue, **more}
        return AMQPSourceOptions.model_validate(given)

    @contextmanager
    def taking(self, queue, number=0, env=None, **more):
        task = Task(RECEIVER, "orders", number, self.folder, self.options(queue, **more))
        taker = Taker(task, **(env or {}))
        try:
            yield taker
        finally:
            taker.end()

    def batches(self):
        """Return the segments in the log, by receiver and in order."""
        for name in self.log.receivers():
            for number in range(self.log.earliest(name), self.log.end(name)):
                yield open_segment(file_of(self.log.receiver(name), number))[1]

    def stored(self, reasons=False):
        """Return the bodies in the log, by receiver and in order; a refused one's reason with it."""
        found = []
        for batch in self.batches():
            for row in batch.to_pylist():
                if bool(row["_reason"]) == reasons:
                    found.append(row["_reason"] if reasons else row["value"].decode())
        return found


@pytest.fixture
def place(tmp_path, rabbitmq):
    return Place(tmp_path / "log", rabbitmq)


def publish(broker, queue, bodies, **properties):
    with broker.channel() as channel:
        channel.confirm_delivery()
        for body in bodies:
            given = pika.BasicProperties(delivery_mode=2, **properties)
            if "message_id" not in properties:
                given.message_id = str(body)
            channel.basic_publish("", queue, str(body).encode(), given, mandatory=True)


def unacknowledged(broker, queue):
    """How many messages the broker holds of a queue, given out or not."""
    lines = broker.server.control("list_queues", "name", "messages").splitlines()
    return next(int(line.split("\t")[1]) for line in lines if line.startswith(queue + "\t"))


def take_for(receiver, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        receiver.take(0.1)


def texts(*ranges):
    return [str(n) for numbers in ranges for n in numbers]


# -- the protocol -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.in_turn
def test_a_message_whose_acknowledgement_was_lost_is_stored_once(broker, place, kind):
    """Pass: killed between storing and acknowledging, the same messages come again and are dropped,
    not rejected: one copy is in the log, the queue is empty, nothing went to a dead-letter queue."""
    dead = broker.queue()
    arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
    queue = broker.queue(kind, **arguments)
    publish(broker, queue, range(10))
    env = {"MAINSTEM_FAILPOINT": "ingress.before-acknowledge:1:kill"}
    with place.taking(queue, env=env, type=kind) as taker:
        taker.process.wait(30)
    assert taker.process.returncode == -signal.SIGKILL
    assert sorted(place.stored(), key=int) == texts(range(10))
    with place.taking(queue, type=kind) as taker:
        publish(broker, queue, [10])
        wait_for(lambda: "10" in place.stored())
        wait_for(lambda: unacknowledged(broker, queue) == 0)
        assert taker.state("running")
    assert sorted(place.stored(), key=int) == texts(range(11))
    assert broker.count(dead) == 0


@pytest.mark.in_turn
def test_two_receivers_share_a_queue_and_store_each_message_once(broker, place):
    """Pass: one of two is killed before it acknowledges; its messages go to the other, which knows
    them: each is in the log once, in one receiver's folder or the other's."""
    queue = broker.queue()
    env = {"MAINSTEM_FAILPOINT": "ingress.before-acknowledge:1:kill"}
    with place.taking(queue, 0, env=env, receivers=2) as first:
        first.state("running")
        publish(broker, queue, range(30))
        first.process.wait(30)
        assert place.stored()
        with place.taking(queue, 1, receivers=2) as second:
            wait_for(lambda: len(set(place.stored())) == 30)
            wait_for(lambda: unacknowledged(broker, queue) == 0)
            wait_for(lambda: second.states[-1].get("duplicates", 0) > 0)
    assert sorted(place.stored(), key=int) == texts(range(30))


@pytest.mark.in_turn
def test_a_prefetch_smaller_than_a_segment_does_not_stop_it(broker, place):
    """Pass: 50 messages come through a prefetch of 3, in order, though a segment would take 20,000."""
    queue = broker.queue()
    publish(broker, queue, range(50))
    with place.taking(queue, prefetch=3):
        wait_for(lambda: len(place.stored()) == 50)
    assert place.stored() == texts(range(50))


@pytest.mark.parametrize("ids", ["when_given", "never"])
@pytest.mark.in_turn
def test_messages_without_ids_are_all_stored(broker, place, ids):
    """Pass: equal messages without an id, or with equal ids that are not to count, are all kept."""
    queue = broker.queue()
    publish(broker, queue, ["a"] * 5, message_id=None if ids == "when_given" else "same")
    with place.taking(queue, ids=ids):
        wait_for(lambda: len(place.stored()) == 5)


@pytest.mark.in_turn
def test_a_message_without_the_id_that_is_asked_for_is_refused(broker, place):
    """Pass: with `ids: always` it is in the log with its reason, and acknowledged."""
    queue = broker.queue()
    publish(broker, queue, ["a"], message_id=None)
    publish(broker, queue, ["b"])
    with place.taking(queue, ids="always"):
        wait_for(lambda: place.stored() == ["b"])
        wait_for(lambda: unacknowledged(broker, queue) == 0)
    assert place.stored(reasons=True) == ["it has no message id, and `ids: always` asks for one"]


# -- a broker in trouble ----------------------------------------------------------------------


@pytest.mark.in_turn
def test_a_queue_that_is_deleted_and_made_anew_is_taken_up_again(broker, place):
    """Pass: the state says that the consumer was ended; messages of the new queue come, and those
    of the old one stay."""
    queue = broker.queue()
    with place.taking(queue) as taker:
        publish(broker, queue, range(3))
        wait_for(lambda: len(place.stored()) == 3)
        with broker.channel() as channel:
            channel.queue_delete(queue)
        assert queue in taker.state("waiting")["why"]
        broker.queue(name=queue)
        publish(broker, queue, range(3, 6))
        wait_for(lambda: len(place.stored()) == 6)
    assert place.stored() == texts(range(6))


def test_a_channel_that_the_broker_closes_is_opened_anew(broker, place):
    """Pass: after an acknowledgement with an unknown tag the receiver says so, and goes on."""
    queue = broker.queue()
    publish(broker, queue, range(5))
    receiver = AMQPReceiver(place.options(queue), 0, "orders")
    receiver.connect(None)
    try:
        taken = wait_for(lambda: list(receiver.take(1.0)))
        receiver._channel.basic_ack(4711)
        with pytest.raises(TransientError, match="unknown delivery tag"):
            take_for(receiver, 5.0)
    finally:
        receiver.close()
    receiver.connect(None)
    try:
        again = []
        wait_for(lambda: again.extend(receiver.take(0.2)) or len(again) >= len(taken))
        assert [m.value for m in again[:5]] == [m.value for m in taken[:5]]
        receiver.acknowledge(again)
        receiver.take(0.2)
    finally:
        receiver.close()
    wait_for(lambda: broker.count(queue) == 0)


@pytest.mark.in_turn
def test_a_broker_short_of_memory_still_gives_what_it_has(broker, place):
    """Pass: while publishers are blocked, and after, messages come and none is lost."""
    queue = broker.queue()
    publish(broker, queue, range(5))
    before = "0.4"
    broker.server.control("set_vm_memory_high_watermark", "0.0000001")
    try:
        with place.taking(queue):
            wait_for(lambda: len(place.stored()) == 5)
            broker.server.control("set_vm_memory_high_watermark", before)
            publish(broker, queue, range(5, 10))
            wait_for(lambda: len(place.stored()) == 10)
    finally:
        broker.server.control("set_vm_memory_high_watermark", before)
    assert place.stored() == texts(range(10))


@pytest.mark.in_turn
def test_a_broker_that_is_killed_is_waited_for(broker, place):
    """Pass: after `kill -9` of the broker the state is `waiting`, with the reason and without the
    password; when it is back, what was published before and after is there once."""
    queue = broker.queue()
    broker.server.sync()
    with place.taking(queue, connect_timeout="2 s") as taker:
        publish(broker, queue, range(5))
        wait_for(lambda: len(place.stored()) == 5)
        broker.server.kill()
        told = taker.state("waiting")
        assert str(broker.server.port) in told["why"]
        assert "guest" not in json.dumps(taker.states)
        broker.server.start()
        publish(broker, queue, range(5, 10))
        wait_for(lambda: len(place.stored()) == 10, 90)
    assert place.stored() == texts(range(10))


@pytest.mark.slow
def test_a_broker_that_is_gone_for_a_minute_is_waited_for(broker, place):
    """Pass: as above, with the longest pauses between tries in it."""
    queue = broker.queue()
    with place.taking(queue) as taker:
        taker.state("running")
        broker.server.stop()
        time.sleep(60)
        broker.server.start()
        publish(broker, queue, range(5))
        wait_for(lambda: len(place.stored()) == 5, 90)


@pytest.mark.in_turn
def test_a_connection_that_is_cut_is_made_anew(broker, place, fault_proxy):
    """Pass: through a proxy that cuts five times while messages flow, each is stored once."""
    queue = broker.queue()
    proxy = fault_proxy(broker.server.port)
    url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/"
    with place.taking(queue, url=url, prefetch=20):
        for step in range(5):
            publish(broker, queue, range(step * 20, step * 20 + 20))
            proxy.cut()
        wait_for(lambda: len(set(place.stored())) == 100, 90)
        wait_for(lambda: unacknowledged(broker, queue) == 0)
    assert sorted(place.stored(), key=int) == texts(range(100))


@pytest.mark.in_turn
def test_the_second_broker_is_tried_when_the_first_does_not_answer(broker, place):
    """Pass: the state says which one serves."""
    queue = broker.queue()
    publish(broker, queue, [1])
    dead = "amqp://guest:guest@127.0.0.1:1/"
    with place.taking(queue, url=[dead, broker.server.url]) as taker:
        wait_for(lambda: place.stored() == ["1"])
        assert taker.state("running")["server"] == f"127.0.0.1:{broker.server.port}/"


# -- faults that no retry mends ---------------------------------------------------------------


@pytest.mark.in_turn
def test_faults_that_no_retry_mends_end_it_with_their_cause(broker, place):
    """Pass: each is `failed` and exit 1, in words without the password."""
    queue = broker.queue()
    port = broker.server.port
    stream = broker.queue("stream")
    publish(broker, stream, [1])
    cases = [
        ({"url": f"amqp://guest:hunter2@127.0.0.1:{port}/"}, queue, "refuses the user"),
        ({"url": f"amqp://guest:guest@127.0.0.1:{port}/nowhere"}, queue, "vhost"),
        ({}, "no-such-queue", "no-such-queue"),
        ({"declare": {}, "type": "quorum"}, queue, "x-queue-type"),
        ({}, stream, "type: stream"),
    ]
    for options, name, words in cases:
        with place.taking(name, **options) as taker:
            told = taker.state("failed")
            taker.process.wait(10)
        assert taker.process.returncode == 1
        assert words in told["why"], told
        assert "hunter2" not in json.dumps(taker.states)


# -- streams ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "expected"),
    [("earliest", range(10)), (4, range(4, 10)), ("latest", range(10, 13))],
)
@pytest.mark.in_turn
def test_a_stream_begins_where_the_options_say_and_goes_on_where_it_was(
    broker, place, start, expected
):
    """Pass: a new log begins at `start`; a second run goes on after what is stored."""
    queue = broker.queue("stream")
    publish(broker, queue, range(10))
    with place.taking(queue, type="stream", start=start) as taker:
        taker.state("running")
        time.sleep(0.5)
        publish(broker, queue, range(10, 13))
        wait_for(lambda: "12" in place.stored())
    publish(broker, queue, range(13, 15))
    with place.taking(queue, type="stream", start=start):
        wait_for(lambda: "14" in place.stored())
    assert place.stored() == texts(sorted({*expected, *range(10, 15)}))


@pytest.mark.in_turn
def test_a_stream_goes_on_with_a_prefetch_of_one(broker, place):
    """Pass: the last stored message, which is asked for again, leaves room for the next ones."""
    queue = broker.queue("stream")
    publish(broker, queue, range(3))
    options = {"type": "stream", "start": "earliest", "prefetch": 1}
    with place.taking(queue, **options):
        wait_for(lambda: len(place.stored()) == 3)
    publish(broker, queue, range(3, 6))
    with place.taking(queue, **options):
        wait_for(lambda: len(place.stored()) == 6)
    assert place.stored() == texts(range(6))


@pytest.mark.in_turn
def test_a_stream_that_is_made_anew_ends_it(broker, place):
    """Pass: of a stream of the same name that is shorter than what was read, nothing is passed over: the
    run ends and says why, also when it is still empty."""
    queue = broker.queue("stream")
    publish(broker, queue, range(10))
    with place.taking(queue, type="stream", start="earliest"):
        wait_for(lambda: len(place.stored()) == 10)
    with broker.channel() as channel:
        channel.queue_delete(queue)
    broker.queue("stream", queue)
    with place.taking(queue, type="stream", start="earliest") as taker:
        assert "no answer" in taker.state("waiting")["why"]
        publish(broker, queue, range(100, 105))
        why = taker.state("failed", 60)["why"]
    assert "ends with message 4, and 9 was read already" in why
    assert place.stored() == texts(range(10))


@pytest.mark.in_turn
def test_what_a_stream_has_removed_is_told(broker, place):
    """Pass: messages that went by the stream's own limit, unread, leave a refused row in their place."""
    limits = {"max_length_bytes": 2_000_000, "stream_max_segment_size_bytes": 500_000}
    queue = broker.queue("stream", **limits)
    publish(broker, queue, range(3))
    with place.taking(queue, type="stream", start="earliest"):
        wait_for(lambda: len(place.stored()) == 3)
    for _ in range(20):  # more than the limit, segment by segment
        publish(broker, queue, ["x" * 50_000] * 10, message_id=None)
    with place.taking(queue, type="stream", start="earliest"):
        wait_for(lambda: place.stored(reasons=True))
        assert not [text for text in place.stored()[:3] if text.startswith("x")]
    (reason,) = place.stored(reasons=True)
    assert "messages between 2 and" in reason


# -- what comes with a message ----------------------------------------------------------------


@pytest.mark.in_turn
def test_properties_and_headers_come_under_their_names(broker, place):
    """Pass: key, time, origin, properties and application headers are where the docs say."""
    queue = broker.queue()
    with broker.channel() as channel:
        channel.exchange_declare("ex", "topic")
        channel.queue_bind(queue, "ex", "a.*")
        properties = pika.BasicProperties(
            content_type="text/plain",
            priority=3,
            message_id="m1",
            timestamp=1_700_000_000,
            headers={"shop": "nord", "count": 7},
        )
        channel.basic_publish("ex", "a.b", b"hello", properties)
    with place.taking(queue):
        wait_for(place.stored)
    row = open_segment(file_of(place.log.receiver(0), 0))[1].to_pylist()[0]
    assert row["key"] == b"a.b"
    assert row["origin"] == queue
    assert row["timestamp"].timestamp() == 1_700_000_000
    assert dict(row["headers"]) == {
        "amqp.content_type": b"text/plain",
        "amqp.priority": b"3",
        "amqp.message_id": b"m1",
        "amqp.exchange": b"ex",
        "shop": b"nord",
        "count": b"7",
    }


class Beyond(datetime):
    """A time that a publisher gives in milliseconds where AMQP asks for seconds."""

    def utctimetuple(self):
        return 1970, 1, 1, 0, 0, 1_800_000_000_000


@pytest.mark.in_turn
def test_what_is_not_as_amqp_says_does_not_hold_up_the_queue(broker, place):
    """Pass: a routing key that is not UTF-8, and a header's time beyond the year 9999, arrive with the
    messages before and after; an empty message id is none."""
    queue = broker.queue()
    with broker.channel() as channel:
        channel.exchange_declare("all", "fanout")
        channel.queue_bind(queue, "all")
        for key, headers in (
            ("a", None),
            (b"\xff", {"at": [Beyond(2000, 1, 1), 1]}),
            ("b", None),
        ):
            properties = pika.BasicProperties(message_id="", headers=headers)
            channel.basic_publish("all", key, b"x", properties)
    with place.taking(queue) as taker:
        wait_for(lambda: len(place.stored()) == 3)
        wait_for(lambda: unacknowledged(broker, queue) == 0)
        assert not [state for state in taker.states if state["state"] == "waiting"]
    rows = [row for batch in place.batches() for row in batch.to_pylist()]
    assert [row["key"] for row in rows] == [b"a", b"\xff", b"b"]
    assert dict(rows[1]["headers"])["at"] == b"[1800000000000,1]"


@pytest.mark.in_turn
def test_a_queue_is_declared_with_all_that_the_options_say(broker, place):
    """Pass: type, arguments, bindings, priority and connection name are as the broker lists them."""
    with broker.channel() as channel:
        channel.exchange_declare("bound", "fanout")
    declare = {
        "single_active_consumer": True,
        "arguments": {"x-max-length": 1000},
        "bindings": [{"exchange": "bound", "routing_key": "x"}],
    }
    name = broker.queue() + "-new"
    with place.taking(name, declare=declare, priority=7, connection_name="ours", type="quorum"):
        wait_for(lambda: name in broker.server.control("list_consumers", "queue_name"))
        shown = broker.server.control("list_queues", "name", "type", "arguments", "durable")
        line = next(line for line in shown.splitlines() if line.startswith(name))
        assert "quorum" in line
        assert "x-single-active-consumer" in line
        assert "1000" in line
        bindings = broker.server.control("list_bindings", "source_name", "destination_name")
        assert f"bound\t{name}" in bindings
        consumers = broker.server.control("list_consumers", "queue_name", "arguments")
        assert "x-priority" in next(x for x in consumers.splitlines() if x.startswith(name))
        assert "ours" in broker.server.control("list_connections", "client_properties")
        with broker.channel() as channel:
            channel.basic_publish("bound", "", b"1")
        wait_for(lambda: place.stored() == ["1"])


@pytest.mark.in_turn
def test_tls_with_a_client_certificate(broker, secured, tmp_path):
    """Pass: messages come over TLS; an unknown authority, or no certificate, ends it."""
    broker = replace(broker, server=secured)
    queue = broker.queue()
    publish(broker, queue, [1])
    place = Place(tmp_path / "log", secured)
    with place.taking(queue, url=secured.tls_url, tls=secured.tls()):
        wait_for(lambda: place.stored() == ["1"])
    wrong = secured.tls(ca=str(secured.certificates / "other.pem"))
    with place.taking(queue, url=secured.tls_url, tls=wrong) as taker:
        assert "not trusted" in taker.state("failed")["why"]


# -- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "stream", "receivers": 2}, "a stream has one receiver"),
        ({"type": "stream", "ids": "always"}, "need no ids"),
        ({"start": "latest"}, "for streams"),
        ({"ids": "always", "duplicates_within": "0 s"}, "would not help"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    """Pass: the source says which option, before anything runs."""
    from mainstem import OptionError
    from mainstem_broker_amqp.source.source import AMQPSource

    given = {"url": "amqp://h/", "queue": "q", **options}
    with pytest.raises(OptionError, match=words):
        AMQPSource(AMQPSourceOptions.model_validate(given))


def test_a_receiver_refuses_what_is_no_stream(broker, place):
    """Pass: a classic queue said to be a stream ends it, and its message stays."""
    queue = broker.queue()
    publish(broker, queue, [1])
    receiver = AMQPReceiver(place.options(queue, type="stream"), 0, "orders")
    try:
        with pytest.raises(PermanentError, match="x-stream-offset"):
            receiver.connect(None)
    finally:
        receiver.close()
    wait_for(lambda: broker.count(queue) == 1)
