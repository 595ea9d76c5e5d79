"""Messages as they go into a queue and come out of it; what no queue takes; what is hidden for how long."""

from __future__ import annotations

import json
import queue
import time
import uuid
from contextlib import contextmanager

import pytest
from mainstem import Level, PermanentError
from mainstem_broker_sqs.options import SQSOptions, SQSSourceOptions
from mainstem_broker_sqs.receiver import SQSReceiver, _Polling
from mainstem_broker_sqs.sink import SQSSink
from mainstem_broker_sqs.source import SQSSource
from mainstem_broker_sqs.testing import CREDENTIALS
from mainstem_testkit.certificates import make_certificates, server_context
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.conformance.sender import send_by
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.proxy import FaultProxy
from pydantic import ValidationError


@pytest.fixture(params=["", ".fifo"], ids=["standard", "fifo"])
def name(request):
    return f"q-{uuid.uuid4().hex}{request.param}"


def options(kind, server, name, **more):
    given = {"queue": name, "endpoint": server.url, "attempts": 1, **CREDENTIALS, **more}
    return kind.model_validate(given)


@contextmanager
def receiver(server, name, **more):
    made = SQSReceiver(options(SQSSourceOptions, server, name, wait="1 s", **more), 0, "node")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def row(number, **more):
    told = {
        "key": b"k%d" % (number % 3),
        "value": b"%d" % number,
        "_id": number.to_bytes(16, "big"),
    }
    return {**told, **more}


def send(server, name, rows, **more):
    return send_by(SQSSink(options(SQSOptions, server, name, **more)), rows)


def test_values_keys_and_headers_come_back(elasticmq, name):
    """Pass: bytes that are no text, texts of all alphabets, and their attributes; a key that is any bytes."""
    elasticmq.queue(name)
    values = [b"plain", "é 😀\n\t".encode(), b"\x00\x01", b"\xff\xfe", b"\x0b", "\ufffe".encode()]
    keys = [b"k", "é ö".encode(), b"\x00\xff", b"k", b"k", b"k"]
    rows = [
        row(n, value=value, key=key, headers=[("text", b"t"), ("bytes", b"\xff\x00")])
        for n, (value, key) in enumerate(zip(values, keys, strict=True))
    ]
    assert send(elasticmq, name, rows, key="key") == []
    with receiver(elasticmq, name, key="key") as made:
        found = taken(made, len(values))
        made.acknowledge(found)
    assert sorted((m.value, m.key) for m in found) == sorted(zip(values, keys, strict=True))
    assert all(dict(m.headers)["bytes"] == b"\xff\x00" for m in found)
    assert all(dict(m.headers)["text"] == b"t" for m in found)
    assert {m.refused for m in found} == {None}
    assert {m.extra for m in found} == {(1,)}
    assert len({m.id for m in found}) == len(values)


def test_a_fifo_queue_drops_copies_and_groups_by_key(elasticmq):
    """Pass: rows that are sent again are there once; each has its key as group; one without key the option's."""
    name = f"q-{uuid.uuid4().hex}.fifo"
    elasticmq.queue(name)
    rows = [*(row(n) for n in range(9)), row(9, key=None)]
    assert send(elasticmq, name, rows, group="rest") == []
    assert send(elasticmq, name, rows, group="rest") == []
    (refused,) = send(elasticmq, name, [row(10, key=None)])
    assert "no key" in refused["reason"]
    with receiver(elasticmq, name) as made:
        found = []
        while part := taken(made, 1, 2):
            made.acknowledge(part)
            found += part
    assert sorted(int(m.value) for m in found) == list(range(10))
    assert {m.key for m in found} == {b"k0", b"k1", b"k2", b"rest"}
    for key in (b"k0", b"k1", b"k2"):
        mine = [int(m.value) for m in found if m.key == key]
        assert mine == sorted(mine)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"value": b""}, "not empty"),
        ({"value": None}, "not empty"),
        ({"headers": [("aws.x", b"1")]}, "name of an attribute"),
        ({"headers": [("a b", b"1")]}, "name of an attribute"),
        ({"headers": [(f"h{n}", b"1") for n in range(11)]}, "more than 10 attributes"),
        ({"value": b"x" * 1_100_000}, "takes no more than"),
    ],
)
def test_what_no_queue_takes_is_refused(elasticmq, name, change, why):
    """Pass: by itself, with the reason; the rows beside it are there."""
    elasticmq.queue(name)
    (refused,) = send(elasticmq, name, [row(0), row(1, **change), row(2)])
    assert why in refused["reason"]
    with receiver(elasticmq, name) as made:
        assert sorted(m.value for m in taken(made, 2)) == [b"0", b"2"]


@pytest.mark.in_turn
def test_what_waits_to_be_stored_stays_hidden(elasticmq):
    """Pass: for longer than `visibility`; once the receiver is closed others see it at once."""
    name = f"q-{uuid.uuid4().hex}"
    elasticmq.queue(name)
    send(elasticmq, name, [row(n) for n in range(3)])
    with receiver(elasticmq, name, visibility="6 s") as first:  # much: tests share the processor
        held = taken(first, 3)
        with receiver(elasticmq, name, visibility="1 minute") as second:
            until = time.monotonic() + 8
            while time.monotonic() < until:
                assert list(first.take(0.05)) == []
                assert list(second.take(0.05)) == []
        first.acknowledge(held[:1])
    with receiver(elasticmq, name, visibility="1 minute") as third:
        again = taken(third, 2)
    assert {m.id for m in again} == {m.id for m in held[1:]}
    assert all(m.extra[0] > 1 for m in again)
    with receiver(elasticmq, name) as fourth:  # long before the minute is over
        assert {m.id for m in taken(fourth, 2)} == {m.id for m in held[1:]}


def test_a_text_that_is_no_character_ends_nothing():
    """Pass: its bytes come."""
    made = SQSReceiver(SQSSourceOptions(queue="q"), 0, "node")
    given = {"Body": "a\ud800", "MessageId": "m", "ReceiptHandle": "r"}
    given["MessageAttributes"] = {"h": {"StringValue": "\udfff"}}
    found = made._message(given)
    assert (found.value, found.headers) == (b"a\xed\xa0\x80", [("h", b"\xed\xbf\xbf")])


class Answers:
    """A queue whose answers are given one by one."""

    url = "http://queue"

    def __init__(self):
        self.client = self
        #: For the first thread, whose requests wait, and for others.
        self._given = {True: queue.SimpleQueue(), False: queue.SimpleQueue()}

    def give(self, *numbers, first=True):
        found = [{"MessageId": f"m{n}", "ReceiptHandle": uuid.uuid4().hex} for n in numbers]
        self._given[first].put({"Messages": found})

    def receive_message(self, **asked):
        return self._given[asked["WaitTimeSeconds"] > 0].get()

    def change_message_visibility_batch(self, **asked):
        pass

    def failure(self, error):
        return error


def test_an_empty_queue_is_not_all_while_a_request_is_out():
    """It was asked before. Pass: what it brings is waited for."""
    answers = Answers()
    given = {"queue": answers.url + "/1/q", "requests": 2, "wait": "1 s", **CREDENTIALS}
    polling = _Polling(answers, SQSSourceOptions.model_validate(given), there=20)
    try:
        answers.give(*range(10))
        wait_for(lambda: polling._asking == {0, 1}, 8)
        answers.give()
        found = polling.take(8) + polling.take(0.3)
        assert len(found) == 10
        assert not polling.caught_up()
        answers.give(10, first=False)
        wait_for(lambda: polling.take(0.05), 8)
        assert polling.caught_up()
    finally:
        answers.give()
        answers.give(first=False)
        polling.end()


@pytest.mark.parametrize("last", [[3], []], ids=["what is missing", "nothing more"])
def test_copies_are_not_what_was_waiting(last):
    """Three came, two of them twice, of four: it is not all until the fourth comes, or there is none."""
    answers = Answers()
    given = {"queue": answers.url + "/1/q", "requests": 1, "wait": "1 s", **CREDENTIALS}
    polling = _Polling(answers, SQSSourceOptions.model_validate(given), there=4)
    try:
        answers.give(0, 1, 2)
        answers.give(0, 1)
        found, until = [], time.monotonic() + 8
        while len(found) < 5 and time.monotonic() < until:
            found += polling.take(0.05)
        assert len(found) == 5
        assert not polling.caught_up()
        answers.give(*last)
        until = time.monotonic() + 8
        while not polling.caught_up() and time.monotonic() < until:
            last = [] if polling.take(0.05) else last
        assert polling.caught_up()
        assert not last
    finally:
        answers.give()
        polling.end()


def test_an_encrypted_way_is_taken_by_whom_it_is_trusted(elasticmq, tmp_path, monkeypatch):
    """Pass: with the certificate that AWS's library is told to trust messages come; another one ends it."""
    make_certificates(tmp_path, {"server": "DNS:localhost"})
    name = f"q-{uuid.uuid4().hex}"
    elasticmq.queue(name)
    assert send(elasticmq, name, [row(1)]) == []
    with FaultProxy(elasticmq.port, tls=server_context(tmp_path, "server")) as front:
        given = {"endpoint": f"https://localhost:{front.port}"}
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "other.pem"))
        with (
            pytest.raises(PermanentError, match="certificate is not trusted"),
            receiver(elasticmq, name, **given),
        ):
            pass
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        with receiver(elasticmq, name, **given) as made:
            (found,) = taken(made, 1)
            made.acknowledge([found])
        assert found.value == b"1"
        assert front.connections >= 2


def test_dead_letters_are_told(elasticmq):
    """Pass: where they go and after how often, in the receiver's facts."""
    name = f"q-{uuid.uuid4().hex}"
    elasticmq.queue(f"{name}-dead")
    target = f"arn:aws:sqs:us-east-1:123456789012:{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": "5"})
    elasticmq.queue(name, RedrivePolicy=policy)
    with receiver(elasticmq, name) as made:
        assert made.facts()["dead_letters"] == f"{name}-dead, after 5"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"queue": "a b"}, "a queue's name or its URL"),
        ({"queue": "ftp://h/1/q"}, "a queue's name or its URL"),
        ({"queue": "https://u:p@h/1/q"}, "without a user"),
        ({"queue": "https://sqs.eu-west-1.amazonaws.com/1/q", "region": "us-east-1"}, "eu-west-1"),
        ({"queue": "q", "visibility": "13 hours"}, "12 hours"),
        ({"queue": "q", "wait": "30 s"}, "20 seconds"),
        ({"queue": "q", "session_token": "t"}, "session_token"),
    ],
)
def test_what_can_t_be_is_told(given, told):
    """Pass: before anything is reached."""
    with pytest.raises(ValidationError, match=told):
        SQSSourceOptions.model_validate(given)


def test_regions_and_queues_are_read_from_urls():
    """Pass: AWS's own URLs of both kinds, and others."""
    made = SQSOptions.model_validate
    new = made({"queue": "https://sqs.eu-west-1.amazonaws.com/123456789012/a.fifo", "group": "g"})
    assert (new.where, new.name, new.fifo) == ("eu-west-1", "a.fifo", True)
    old = made({"queue": "https://us-east-2.queue.amazonaws.com/123456789012/a"})
    assert (old.where, old.fifo) == ("us-east-2", False)
    assert made({"queue": "http://127.0.0.1:9/1/a"}).where is None
    with pytest.raises(ValidationError, match="FIFO queue"):
        made({"queue": "a", "group": "g"})


def test_copies_are_claimed_to_be_known_only_where_ids_are_kept():
    """Pass: with `duplicates_within: 0 s` no id is, so a copy can come out, and the source says so."""
    for horizon, may in (("1 hour", False), ("0 s", True)):
        options = SQSSourceOptions(queue="jobs", duplicates_within=horizon)
        facts = SQSSource(options).capabilities
        assert facts.may_duplicate is may
        assert (facts.shown.level is Level.EXACTLY_ONCE) is not may


def test_a_header_replaces_nothing_of_the_sinks_own(elasticmq, name):
    """Pass: neither identity nor key nor the mark of bytes, whatever a message upstream has left as a header."""
    elasticmq.queue(name)
    said = {
        "mainstem-id": b"upstream",
        "mainstem-encoding": b"gzip",
        "customer": b"other",
        "more": b"x",
    }
    rows = [
        row(n, value=value, headers=[*said.items()]) for n, value in enumerate((b"text", b"\xff\0"))
    ]
    assert send(elasticmq, name, rows, key="customer") == []
    with receiver(elasticmq, name, key="customer") as made:
        found = taken(made, 2)
    assert {message.value for message in found} == {b"text", b"\xff\0"}
    assert {message.key for message in found} == {b"k0", b"k1"}
    ids = {dict(message.headers).get("mainstem-id") for message in found}
    assert len(ids) == (1 if name.endswith(".fifo") else 2)
    assert b"upstream" not in ids
    assert all(dict(message.headers)["more"] == b"x" for message in found)
