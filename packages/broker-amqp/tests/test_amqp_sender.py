"""The sender against a real broker, and against one that answers as a test tells it.

What every sender is tested for is in test_sink_conformance.py.
"""

from __future__ import annotations

import random
import re
import threading
import time
import uuid

import mainstem_broker_amqp.sink.sender as module
import pytest
from mainstem import PermanentError
from mainstem_broker_amqp.sink.link import Message, encode_properties
from mainstem_broker_amqp.sink.options import AMQPSinkOptions
from mainstem_broker_amqp.sink.sender import AMQPSender
from mainstem_egress import Dispatcher
from mainstem_egress.sink import dispatcher_of
from pika import exceptions


def message(number, queue, *, key=None, body=None, message_id=None, **properties):
    name = message_id or f"{number:032x}"
    table = properties.pop("headers", {})
    made = encode_properties({"delivery_mode": 2, "message_id": name, **properties}, table)
    body = b"%d" % number if body is None else body
    return Message(key, len(body), number, body, queue, name, made)


class Refusals(list):
    def __call__(self, refused, reason):
        self.append((refused.identity, reason))


@pytest.fixture
def make(rabbitmq):
    """Makes dispatchers by senders, which are closed at the end."""
    made = []

    def sending(url=rabbitmq.url, refused=None, **more):
        given = {"url": url, "give_up": "60 seconds", **more}
        options = AMQPSinkOptions.model_validate(given)
        refused = Refusals() if refused is None else refused
        sender = AMQPSender(options, "test")
        made.append(dispatcher_of(sender, options, refused))
        made[-1].refusals, made[-1].sender = refused, sender
        return made[-1]

    yield sending
    for one in made:
        one.close()


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
@pytest.mark.in_turn
def test_what_is_flushed_is_in_the_queue_in_order(broker, make, kind):
    """Pass: a queue of each kind has all messages, in order, when `flush` returns."""
    queue, publisher = broker.queue(kind), make(in_flight=100)
    for number in range(3000):
        publisher.send(message(number, queue))
    publisher.flush()
    wanted = [b"%d" % number for number in range(3000)]
    assert (broker.stream(queue, 3000) if kind == "stream" else broker.bodies(queue)) == wanted
    assert not publisher.refusals


@pytest.mark.in_turn
def test_properties_and_bodies_of_all_sizes_arrive(broker, make):
    """Pass: an empty body, one over several frames, and every property, as they were sent."""
    queue, publisher = broker.queue(), make()
    sizes = (0, 1, 131_063, 131_064, 131_065, 400_000)
    for number, size in enumerate(sizes):
        publisher.send(message(number, queue, body=bytes(size)))
    publisher.send(message(9, queue, priority=3, type="t", headers={"a": "b", "c": b"\xff"}))
    publisher.flush()
    *first, (_, properties, _) = broker.read(queue)
    assert [len(body) for _, _, body in first] == list(sizes)
    assert first[0][1].message_id == f"{0:032x}"
    assert first[0][1].delivery_mode == 2
    assert (properties.priority, properties.type) == (3, "t")
    assert properties.headers == {"a": "b", "c": b"\xff"}


# -- refused ------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_unroutable_messages_are_refused_and_no_others(broker, make):
    """Pass: each message to a queue that is not there is refused once, by its own token."""
    queue, publisher = broker.queue(), make(in_flight=200)
    nowhere = f"gone-{queue}"
    for number in range(2000):
        publisher.send(message(number, nowhere if number % 7 == 0 else queue))
    publisher.flush()
    assert [token for token, _ in publisher.refusals] == list(range(0, 2000, 7))
    assert publisher.refusals[0][1] == f"312 NO_ROUTE: exchange '' routing key '{nowhere}'"
    assert broker.bodies(queue) == [b"%d" % n for n in range(2000) if n % 7]


def test_a_returned_message_is_told_from_others_with_its_id(broker, make):
    """Pass: of messages with one id, body or key each, exactly the unroutable ones are refused."""
    queue, publisher = broker.queue(), make()
    nowhere = f"gone-{queue}"
    for number in range(0, 100, 5):
        publisher.send(message(number, queue, message_id="same", body=b"same"))
        publisher.send(message(number + 1, nowhere, message_id="same", body=b"same"))
        publisher.send(message(number + 2, nowhere, message_id="same"))
        publisher.send(message(number + 3, nowhere, body=b"same"))
        publisher.send(message(number + 4, queue, body=b"same"))
    publisher.flush()
    tokens = sorted(token for token, _ in publisher.refusals)
    assert tokens == [n for n in range(100) if n % 5 in (1, 2, 3)]
    assert broker.count(queue) == 40


def test_without_mandatory_an_unroutable_message_vanishes(broker, make):
    """Pass: nothing is refused: the user asked for it."""
    publisher = make(mandatory=False)
    publisher.send(message(1, "nobody-has-this"))
    publisher.flush()
    assert not publisher.refusals


def test_a_message_that_closes_the_channel_is_found_and_refused(broker, make):
    """Pass: of 50 messages on their way, those with another user's name are refused, in the end alone."""
    queue, publisher = broker.queue(), make()
    for number in range(50):
        publisher.send(
            message(number, queue, **({"user_id": "eve"} if number in (20, 21, 49) else {}))
        )
    publisher.flush()
    assert [token for token, _ in publisher.refusals] == [20, 21, 49]
    assert "406 PRECONDITION_FAILED - user_id property set to 'eve'" in publisher.refusals[0][1]
    seen = list(dict.fromkeys(int(body) for body in broker.bodies(queue)))
    assert seen == [n for n in range(50) if n not in (20, 21, 49)]


@pytest.mark.in_turn
def test_a_message_larger_than_the_broker_takes_is_refused(secured, secured_broker, make):
    """Pass: the reason has the broker's words; the messages before and after it are there."""
    broker = secured_broker
    queue, publisher = broker.queue(), make(secured.url)
    publisher.send(message(0, queue))
    publisher.send(message(1, queue, body=bytes(65_537)))
    publisher.send(message(2, queue, body=bytes(65_536)))
    publisher.flush()
    ((token, reason),) = publisher.refusals
    assert token == 1
    assert "message size 65537 is larger than configured max size 65536" in reason
    assert sorted({len(body) for body in broker.bodies(queue)}) == [1, 65_536]


def test_what_can_not_be_framed_is_refused(broker, make):
    """Pass: headers larger than a frame, and a routing key of 256 bytes, each with the limit."""
    queue, publisher = broker.queue(), make()
    publisher.send(message(0, queue, headers={"big": "x" * 140_000}))
    publisher.send(message(1, "k" * 256))
    publisher.send(message(2, queue))
    publisher.flush()
    assert [token for token, _ in publisher.refusals] == [0, 1]
    assert "131052" in publisher.refusals[0][1]
    assert "255 bytes" in publisher.refusals[1][1]
    assert broker.bodies(queue) == [b"2"]


# -- the broker goes away -----------------------------------------------------------------------


def publish_through(publisher, queue, act, count=20_000, at=3000):
    """Publish keyed messages and let `act` happen beside it."""
    beside = None
    for number in range(count):
        if number == at:
            beside = threading.Thread(target=act)
            beside.start()
        publisher.send(message(number, queue, key=b"%d" % (number % 10)))
        if number >= at and number % 100 == 0 and beside.is_alive():
            time.sleep(0.01)  # so that there is something left to send when it comes
    publisher.flush()
    beside.join()


def nothing_lost(bodies, count=20_000):
    """Hold what arrived: all of it, and the last of each key last."""
    numbers = [int(body) for body in bodies]
    assert set(numbers) == set(range(count))
    last = {number % 10: number for number in numbers}
    assert last == {key: count - 10 + key for key in range(10)}


@pytest.mark.parametrize("how", ["kill", pytest.param("restart", marks=pytest.mark.slow)])
@pytest.mark.in_turn
def test_a_broker_that_starts_anew_gets_what_it_did_not_confirm(broker, make, rabbitmq, how):
    """Pass: after a restart or kill -9 in the middle, no message is missing; each key's last is last."""
    queue, publisher = broker.queue(), make()
    rabbitmq.sync()

    def act():
        if how == "kill":
            rabbitmq.kill()
            rabbitmq.start()
        else:
            rabbitmq.restart()

    publish_through(publisher, queue, act)
    nothing_lost(broker.bodies(queue))


@pytest.mark.in_turn
def test_a_broker_that_answers_no_more_is_given_up(broker, make, rabbitmq, fault_proxy):
    """Pass: behind a black hole, an error that names the place and the time, not the password."""
    proxy = fault_proxy(rabbitmq.port)
    publisher = make(f"amqp://guest:guest@127.0.0.1:{proxy.port}/", give_up="1 second")
    publisher.connect()
    proxy.blackhole()
    publisher.send(message(0, "any"))
    with pytest.raises(PermanentError, match=f"{proxy.port}/: 1 messages were not accepted.* 1 s"):
        publisher.flush()


def test_the_next_broker_is_tried(broker, make, rabbitmq):
    """Pass: the first URL leads nowhere, the second is used, at once and after a cut."""
    queue = broker.queue()
    publisher = make(["amqp://guest:guest@127.0.0.1:1/", rabbitmq.url])
    publisher.send(message(0, queue))
    publisher.flush()
    publisher.sender._link.abandon()
    publisher.send(message(1, queue))
    publisher.flush()
    assert broker.bodies(queue) == [b"0", b"1"]


# -- the broker can't take more -----------------------------------------------------------------


@pytest.mark.in_turn
def test_a_blocked_publisher_waits_and_goes_on(broker, make, rabbitmq):
    """Pass: with a memory alarm on, nothing is confirmed; when it is off, all is there."""
    queue, publisher = broker.queue(), make()
    publisher.connect()
    rabbitmq.control("set_vm_memory_high_watermark", "0.0000001")
    later = threading.Timer(2.0, rabbitmq.control, ("set_vm_memory_high_watermark", "0.4"))
    try:
        later.start()
        for number in range(3000):
            publisher.send(message(number, queue))
            if publisher.sender.blocked():
                assert later.is_alive()
        publisher.flush()
    finally:
        later.join()
    assert broker.bodies(queue) == [b"%d" % number for number in range(3000)]


@pytest.mark.in_turn
def test_a_publisher_that_stays_blocked_gives_up_and_says_why(broker, make, rabbitmq):
    """Pass: the error has the broker's reason; some may get through until the broker has seen it."""
    queue, publisher = broker.queue(), make(give_up="1500 ms")
    publisher.connect()
    rabbitmq.control("set_vm_memory_high_watermark", "0.0000001")

    def publish():
        until = time.monotonic() + 30
        while time.monotonic() < until:
            publisher.send(message(0, queue))
            publisher.flush()

    try:
        with pytest.raises(PermanentError, match="the broker blocks publishers: low on memory"):
            publish()
    finally:
        rabbitmq.control("set_vm_memory_high_watermark", "0.4")


@pytest.mark.in_turn
def test_a_full_queue_is_tried_again_until_somebody_reads_it(broker, make):
    """Pass: a queue of 50 that rejects more gets 1,000, read meanwhile; each key's last comes last."""
    queue = broker.queue(max_length=50, overflow="reject-publish")
    publisher = make(in_flight=100)
    seen, done = [], threading.Event()

    def read():
        while not done.is_set():
            seen.extend(broker.bodies(queue))
            time.sleep(0.02)
        seen.extend(broker.bodies(queue))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1000):
            publisher.send(message(number, queue, key=b"%d" % (number % 10)))
        publisher.flush()
    finally:
        done.set()
        reader.join()
    nothing_lost(seen, 1000)


def test_a_queue_that_stays_full_is_given_up(broker, make):
    """Pass: the error says that the broker takes no more."""
    queue = broker.queue(max_length=1, overflow="reject-publish")
    publisher = make(give_up="500 ms")
    for number in range(3):
        publisher.send(message(number, queue))
    with pytest.raises(PermanentError, match=r"2 messages were not accepted.*basic.nack"):
        publisher.flush()


# -- what no retry can mend ---------------------------------------------------------------------


def test_a_wrong_password_is_told_at_once(broker, make, rabbitmq):
    """Pass: an error with the broker's words and without the password, though there is time left."""
    publisher = make(rabbitmq.url.replace("guest:guest", "guest:SECRET"))
    with pytest.raises(
        PermanentError, match="refuses the user or the password.*ACCESS_REFUSED"
    ) as error:
        publisher.connect()
    assert "SECRET" not in repr(error.value)


def test_an_unknown_vhost_is_told_at_once(make, rabbitmq):
    """Pass: the error names the vhost."""
    publisher = make(rabbitmq.url + "nothere")
    with pytest.raises(PermanentError, match="vhost nothere not found"):
        publisher.connect()


def test_a_missing_exchange_is_told_at_once(make):
    """Pass: 404 in plain words."""
    publisher = make(exchange="no-such-exchange")
    with pytest.raises(PermanentError, match="not there.*no exchange 'no-such-exchange'"):
        publisher.connect()


def test_an_exchange_that_goes_away_ends_publishing(broker, make):
    """Pass: an error that says which; messages are not refused one by one."""
    name = f"x-{uuid.uuid4()}"
    declared = {"type": "fanout"}
    publisher = make(exchange=name, declare=declared)
    publisher.connect()
    with broker.channel() as channel:
        channel.exchange_delete(name)
    publisher.send(message(0, "k"))
    with pytest.raises(PermanentError, match=f"exchange '{name}' at .*NOT_FOUND"):
        publisher.flush()
    assert not publisher.refusals


def test_an_exchange_of_another_type_is_told_at_once(broker, make):
    """Pass: what is declared and what is there differ: 406 in plain words."""
    declared = {"type": "fanout"}
    publisher = make(exchange="amq.direct", declare=declared)
    with pytest.raises(PermanentError, match="406|403"):
        publisher.connect()


# -- TLS ----------------------------------------------------------------------------------------


def tls_publisher(secured, make, **changes):
    return make(secured.tls_url, tls=secured.tls(**changes), give_up="1 second")


@pytest.mark.in_turn
def test_a_client_with_its_certificate_publishes(secured, make):
    """Pass: over TLS, with a name to check that is not the address."""
    publisher = tls_publisher(secured, make)
    publisher.send(message(0, "nobody-has-this"))
    publisher.flush()
    assert [token for token, _ in publisher.refusals] == [0]


@pytest.mark.in_turn
def test_a_broker_signed_by_another_is_not_trusted(secured, make):
    """Pass: told at once."""
    publisher = tls_publisher(secured, make, ca=f"{secured.certificates}/other.pem")
    with pytest.raises(PermanentError, match="certificate is not trusted"):
        publisher.connect()


def test_a_broker_of_another_name_is_not_trusted(secured, make):
    """Pass: told at once; with verify_host off it goes through."""
    publisher = tls_publisher(secured, make, server_name="other.test")
    with pytest.raises(PermanentError, match="certificate is not trusted"):
        publisher.connect()
    tls_publisher(secured, make, server_name="other.test", verify_host=False).connect()


@pytest.mark.in_turn
def test_a_client_without_a_certificate_stays_out(secured, make):
    """Pass: an error in the end, with what TLS says."""
    publisher = tls_publisher(secured, make, certificate=None, key=None)
    with pytest.raises(PermanentError, match="certificate required|EOF occurred"):
        publisher.connect()


# -- a broker that answers as it is told --------------------------------------------------------


class Scripted:
    """Stands in for a link; its broker takes messages, refuses some, and goes away at random.

    `queue` is what a queue would hold, over all connections.
    """

    chance: random.Random
    queue: list
    returned_for_good: set

    def __init__(self, parameters, exchange):
        self.blocked, self.error = "", None
        self._next, self._open = 1, {}

    def open(self, *, mandatory):
        if self.chance.random() < 0.2:
            raise exceptions.AMQPConnectionError("no")

    def fits(self, message):
        return ""

    def put(self, message):
        self._open[self._next] = message
        self._next += 1

    def abandon(self):
        self.error = self.error or exceptions.StreamLostError("gone")

    close = abandon

    def poll(self, seconds):
        chance, waiting = self.chance, list(self._open)
        if not waiting or self.error:
            return
        if chance.random() < 0.05:
            for tag in waiting[: chance.randrange(len(waiting) + 1)]:
                self._take(tag)  # it arrives, and nobody here learns of it
            self.error = exceptions.StreamLostError("gone")
            return
        upto = chance.randrange(len(waiting)) + 1
        fates = {}
        for tag in waiting[:upto]:
            fates[tag] = "nack" if chance.random() < 0.15 else "ack"
            if fates[tag] == "ack":
                self._take(tag)
            del self._open[tag]
        if set(fates.values()) == {"ack"} and chance.random() < 0.5:
            self.acked(max(fates), True)
            return
        order = list(fates)
        chance.shuffle(order)
        for tag in order:
            (self.acked if fates[tag] == "ack" else self.nacked)(tag, False)

    def _take(self, tag):
        message = self._open[tag]
        if message.identity in self.returned_for_good:
            self.returned(312, "NO_ROUTE", message.routing_key, message.message_id, message.payload)
        else:
            self.queue.append(message.identity)


@pytest.mark.parametrize("seed", range(60))
def test_any_answers_leave_nothing_out_and_the_last_of_a_key_last(make, monkeypatch, seed):
    """Pass: under random confirms, refusals, returns and losses, all is there, each key's last is last."""
    chance = random.Random(seed)
    keys, count = chance.choice([1, 3, 20]), 400
    unroutable = {n for n in range(count) if chance.random() < chance.choice([0, 0.1])}

    class Link(Scripted):
        queue: list = []
        returned_for_good = unroutable

    Link.chance = chance
    monkeypatch.setattr(module, "Link", Link)
    monkeypatch.setattr(Dispatcher, "_pause", lambda self, why: None)
    refused = Refusals()
    publisher = make("amqp://there", refused, in_flight=chance.choice([1, 5, 50]))
    for number in range(count):
        alike = {"message_id": "same", "body": b"same"} if number in unroutable else {}
        publisher.send(message(number, "q", key=b"%d" % (number % keys), **alike))
    publisher.flush()
    assert sorted(token for token, _ in refused) == sorted(unroutable)
    assert set(Link.queue) == set(range(count)) - unroutable
    last, wanted = {}, {}
    for number in Link.queue:
        last[number % keys] = number
    for number in sorted(set(range(count)) - unroutable):
        wanted[number % keys] = number
    assert last == wanted
    assert (publisher.counts.accepted, publisher.counts.refused) == (
        count - len(refused),
        len(refused),
    )


@pytest.mark.in_turn
def test_no_message_of_the_publisher_has_a_password(broker, make, caplog, fault_proxy, rabbitmq):
    """Pass: neither ours nor pika's log has it, whatever happens to the connection."""
    caplog.set_level("DEBUG")
    broker_user = f"u{uuid.uuid4().hex[:8]}"
    rabbitmq.control("add_user", broker_user, "PASSW0RD")
    rabbitmq.control("set_permissions", broker_user, ".*", ".*", ".*")
    proxy = fault_proxy(rabbitmq.port)
    publisher = make(f"amqp://{broker_user}:PASSW0RD@127.0.0.1:{proxy.port}/")
    queue = broker.queue()
    publisher.send(message(0, queue))
    publisher.flush()
    proxy.cut()
    publisher.send(message(1, queue))
    publisher.flush()
    assert caplog.text
    assert not re.search("PASSW0RD", caplog.text)
