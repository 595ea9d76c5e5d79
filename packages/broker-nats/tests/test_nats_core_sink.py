"""The sender of the sink `nats` against a real server: what a reader gets, what is refused."""

from __future__ import annotations

import uuid
from base64 import b64encode

import pytest
from mainstem import PermanentError
from mainstem_broker_nats.sink.messages import Message
from mainstem_broker_nats.sink.nats import NATSSink
from mainstem_broker_nats.sink.nats_sender import NATSSender
from mainstem_broker_nats.sink.options import NATSSinkOptions
from mainstem_broker_nats.testing import NATS
from mainstem_egress import Dispatcher
from nsink_streams import Listener


@pytest.fixture
def subject():
    return f"c{uuid.uuid4().hex[:12]}"


@pytest.fixture
def listen():
    made = []

    def listen(url, subject):
        made.append(Listener(url, subject))
        return made[-1]

    yield listen
    for listener in made:
        listener.close()


@pytest.fixture
def publisher_at():
    made = []

    def publisher_at(url, refused=None, **more):
        options = {"answer_timeout": "1 second", "servers": url, "subject": "x"}
        found = refused if refused is not None else []
        given = {"in_flight": 100, "give_up": 20.0, **more}
        sender = NATSSender(NATSSinkOptions.model_validate(options), "test")
        made.append(Dispatcher(sender, lambda m, why: found.append((m.payload, why)), **given))
        return made[-1]

    yield publisher_at
    for publisher in made:
        publisher.close()


def message(subject, number, body=None, head=b""):
    body = b"%d" % number if body is None else body
    return Message(b"", subject, head, body, len(head) + len(body))


def test_a_reader_gets_each_message_in_its_order(nats, subject, listen, publisher_at):
    """Pass: 2,000 messages once each in order when nothing breaks, with headers where there are some."""
    listener = listen(nats.url, subject)
    publisher = publisher_at(nats.url)
    for number in range(2000):
        publisher.send(
            message(subject, number, head=b"NATS/1.0\r\na: b\r\n\r\n" if number else b"")
        )
    publisher.flush()
    found = listener.quiet()
    assert [m.data for m in found] == [b"%d" % number for number in range(2000)]
    assert (found[0].headers, found[1].headers) == (None, {"a": "b"})


@pytest.mark.in_turn
def test_what_the_server_may_not_have_got_is_sent_again(
    nats, subject, listen, publisher_at, fault_proxy
):
    """Pass: connections are cut and answers lost: a reader beside the proxy gets each at least once."""
    listener = listen(nats.url, subject)
    proxy = fault_proxy(nats.port)
    publisher = publisher_at(f"nats://127.0.0.1:{proxy.port}")
    for number in range(2000):
        publisher.send(message(subject, number))
        if number % 400 == 150:
            proxy.drop_answer(1)
        if number % 400 == 350:
            proxy.cut()
    publisher.flush()
    found = [int(m.data) for m in listener.quiet()]
    assert set(found) == set(range(2000))
    assert proxy.connections > 2


@pytest.mark.in_turn
def test_a_server_that_restarts_is_waited_for(tmp_path, subject, publisher_at):
    """Pass: the batch ends well, and the server was killed meanwhile; what it had is not promised to anyone."""
    with NATS(tmp_path) as server:
        publisher = publisher_at(server.url)
        for number in range(1000):
            publisher.send(message(subject, number))
            if number == 500:
                server.kill_for(0.5)
        publisher.flush()
        assert publisher.counts.accepted == 1000


def test_messages_that_are_too_large_are_refused(nats, subject, listen, publisher_at):
    """Pass: refused with both sizes, headers counted; the others arrive."""
    listener = listen(nats.url, subject)
    refused = []
    publisher = publisher_at(nats.url, refused)
    publisher.send(message(subject, 0))
    publisher.send(message(subject, 1, b"x" * (1024 * 1024 + 1)))
    publisher.send(message(subject, 2, b"y" * 1024 * 1024, b"NATS/1.0\r\n\r\n"))
    publisher.send(message(subject, 3))
    publisher.flush()
    assert [m.data for m in listener.quiet()] == [b"0", b"3"]
    assert [body[:1] for body, _ in refused] == [b"x", b"y"]
    assert "1,048,577 bytes, and the server takes 1,048,576" in refused[0][1]


def test_what_the_user_may_not_publish_is_refused(tmp_path, subject, publisher_at):
    """Pass: messages of that subject alone, not of one that differs by case, and again after the next question
    to the server."""
    rights = (
        'authorization { users: [ { user: "anna", password: "PASSW0RD", permissions: { publish: '
        '{ deny: ["Secret.>"] } } } ] }'
    )
    with NATS(tmp_path, rights) as server:
        refused = []
        publisher = publisher_at(
            server.url.replace("//", "//anna:PASSW0RD@"), refused, in_flight=10
        )
        for number in range(40):
            publisher.send(message("Secret.x" if number in (5, 25) else "secret.X", number))
        publisher.flush()
        assert [body for body, _ in refused] == [b"5", b"25"]
        assert "may not publish to subject 'Secret.x'" in refused[0][1]


def test_a_server_that_is_not_there_ends_it(publisher_at, subject):
    """Pass: an error with the address, after `give_up`."""
    publisher = publisher_at("nats://127.0.0.1:1", give_up=0.5)
    with pytest.raises(PermanentError, match=r"127\.0\.0\.1:1: could not connect, .*give_up"):
        publisher.send(message(subject, 0))


def test_the_plan_says_that_it_loses_and_doubles(pipeline):
    """Pass: level none, with both reasons, and `require: at-most-once` is refused."""
    sink = {"use": "nats", "from": "lines", "with": {"servers": "nats://host", "subject": "a"}}
    pipeline.document(sinks={"out": sink})
    (made,) = pipeline.plan().sinks()
    assert made.promise.level == "none"
    told = " ".join(made.promise.reasons)
    assert "keeps nothing" in told
    assert "written again" in told
    assert NATSSink.capabilities.shown["microbatch"].level == "none"


@pytest.mark.in_turn
def test_the_order_of_the_log_is_that_of_each_subject(nats, subject, listen, pipeline):
    """Pass: with `order: log` a subject's messages come in the order of their positions, whatever their keys."""
    listener = listen(nats.url, f"{subject}.>")
    schema = (
        "key STRING, value BINARY, origin STRING, partition STRING, position STRING, kind STRING"
    )
    place = {"origin": "o", "partition": "0"}
    numbers = [*range(0, 60, 2), *range(59, 0, -2)]
    lines = [
        {"key": f"k{n}", "value": b64encode(b"%d" % n).decode(), "position": f"{n:04}", "kind": f"s{n % 3}"}
        for n in numbers
    ]  # fmt: skip
    for part in range(3):
        pipeline.feed(f"{part}.json", [{**line, **place} for line in lines[part::3]])
    source = {"path": "./in", "format": "jsonlines", "schema": schema}
    options = {
        "servers": nats.url,
        "subject": f"{subject}.{{kind}}",
        "order": "log",
        "partitions": 2,
    }
    pipeline.document(
        sources={"rows": {"use": "files", "with": source}},
        sinks={"out": {"use": "nats", "from": "rows", "with": options}},
    )
    pipeline.run()
    found = [int(message.data) for message in listener.quiet()]
    assert sorted(found) == list(range(60))
    for kind in range(3):
        mine = [n for n in found if n % 3 == kind]
        assert mine == sorted(mine)
