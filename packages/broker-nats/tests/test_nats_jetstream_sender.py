"""The sender of the sink `jetstream` against a real server: what is acknowledged, refused, sent again."""

from __future__ import annotations

import json
import threading
import time
import uuid

import pytest
from mainstem import PermanentError
from mainstem_broker_nats.sink import jetstream_sender as module
from mainstem_broker_nats.sink.jetstream_sender import JetStreamSender
from mainstem_broker_nats.sink.messages import Message
from mainstem_broker_nats.sink.options import JetStreamSinkOptions
from mainstem_broker_nats.testing import NATS
from mainstem_egress.sink import dispatcher_of
from nsink_streams import at, bodies, info, make, read


class Publishing:
    """Makes dispatchers of numbered messages, and gathers what they refuse."""

    def __init__(self):
        self.refused = []
        self.made = []

    def publisher(self, url, stream, **more):
        given = {"answer_timeout": "10 seconds", "give_up": "30 seconds", "in_flight": 100, **more}
        options = JetStreamSinkOptions.model_validate(
            {"servers": url, "stream": stream, "subject": "x", **given}
        )
        sender = JetStreamSender(options, "test")
        made = dispatcher_of(sender, options, lambda m, why: self.refused.append((m.payload, why)))
        made.sender = sender
        self.made.append(made)
        return made


@pytest.fixture
def publishing():
    made = Publishing()
    yield made
    for publisher in made.made:
        publisher.close()


def message(stream, number, *, key="a", body=None, expected=None, header="subject", more=b""):
    name = f"{number:032x}"
    head = b"NATS/1.0\r\nNats-Expected-Stream: %b\r\nNats-Msg-Id: %b\r\n" % (
        stream.encode(),
        name.encode(),
    )
    if expected is not None:
        kind = b"-Subject" if header == "subject" else b""
        head += b"Nats-Expected-Last%b-Sequence: %d\r\n" % (kind, expected)
    body = b"%d" % number if body is None else body
    head += more + b"\r\n"
    size = len(head) + len(body)
    return Message(b"", f"{stream}.{key}", head, body, size, name, expected)


def expecting(header):
    """Return the option that says what expected sequences are of."""
    return {f"expect_{'subject_' if header == 'subject' else ''}sequence": "version"}


def numbered(count):
    return [b"%d" % number for number in range(count)]


@pytest.mark.in_turn
def test_all_messages_are_there_in_their_order(nats, publishing):
    """Pass: 5,000 messages over a window of 100, once each and in order, with ids and headers; what is sent
    again is known, and adds nothing."""
    stream = make(nats.url)
    publisher = publishing.publisher(nats.url, stream)
    for _ in range(2):
        for number in range(5000):
            publisher.send(message(stream, number, more=b"a: b\r\n"))
        publisher.flush()
    assert publisher.sender.known == 5000
    found = read(nats.url, stream)
    assert [m.data for m in found] == numbered(5000)
    assert found[7].subject == f"{stream}.a"
    assert found[7].headers["Nats-Msg-Id"] == f"{7:032x}"
    assert found[7].headers["a"] == "b"


def test_bodies_of_every_size_arrive_whole(nats, publishing):
    """Pass: empty, with line breaks, and as large as the server takes; one byte more is refused."""
    stream = make(nats.url)
    publisher = publishing.publisher(nats.url, stream)
    head = len(message(stream, 0).head)
    most = 1024 * 1024 - head
    sizes = [b"", b"\r\n", b"x" * 70_000, bytes(range(256)) * 100, b"y" * most, b"z" * (most + 1)]
    for number, body in enumerate(sizes):
        publisher.send(message(stream, number, body=body))
    publisher.flush()
    assert bodies(nats.url, stream) == sizes[:-1]
    ((body, why),) = publishing.refused
    assert body == sizes[-1]
    assert "1,048,577 bytes, and the server takes 1,048,576" in why


def test_what_the_stream_refuses_is_told_and_the_rest_goes_on(nats, publishing):
    """Pass: too large for the stream, a subject that it does not take, one of another stream's: refused with
    reasons; the others are there in order."""
    other = make(nats.url)
    stream = make(nats.url, max_msg_size=1000)
    publisher = publishing.publisher(nats.url, stream)
    for number in range(300):
        publisher.send(message(stream, number))
        if number == 100:
            publisher.send(message(stream, 1000, body=b"x" * 2000))
            publisher.send(message(stream, 1001)._replace(subject="nowhere.at.all"))
            publisher.send(message(stream, 1002)._replace(subject=f"{other}.a"))
    publisher.flush()
    assert bodies(nats.url, stream) == numbered(300)
    assert bodies(nats.url, other) == []
    reasons = {body[:4]: why for body, why in publishing.refused}
    assert sorted(reasons) == [b"1001", b"1002", b"xxxx"]
    assert "message size exceeds maximum allowed" in reasons[b"xxxx"]
    for body in (b"1001", b"1002"):
        assert f"does not take subject {'nowhere.at.all' if body == b'1001' else other}" in (
            reasons[body].replace("'", "").replace(f"{other}.a", other)
        )


def test_a_stream_that_took_over_a_subject_is_not_written_to(nats, publishing):
    """Pass: the subject moves to another stream while the publisher runs: the message is refused, in neither."""
    stream, other = make(nats.url, subjects=["moved.a", "stays.a"]), f"s{uuid.uuid4().hex[:12]}"
    publisher = publishing.publisher(nats.url, stream)
    publisher.send(message(stream, 0)._replace(subject="moved.a"))
    publisher.flush()

    async def move(_, js):
        config = (await js.stream_info(stream)).config
        config.subjects = ["stays.a"]
        await js.update_stream(config)

    at(nats.url, move)
    make(nats.url, other, subjects=["moved.a"])
    publisher.send(message(stream, 1)._replace(subject="moved.a"))
    publisher.flush()
    assert (bodies(nats.url, stream), bodies(nats.url, other)) == ([b"0"], [])
    ((_, why),) = publishing.refused
    assert "expected stream does not match" in why


@pytest.mark.in_turn
def test_a_server_killed_and_restarted_loses_and_doubles_nothing(tmp_path, publishing):
    """Pass: kill -9 three times while messages are on their way: each is there once, in order."""
    with NATS(tmp_path) as server:
        stream = make(server.url)
        publisher = publishing.publisher(server.url, stream)
        for number in range(6000):
            publisher.send(message(stream, number))
            if number in (1000, 2500, 4000):
                server.kill_for(0.3)
        publisher.flush()
        assert bodies(server.url, stream) == numbered(6000)


@pytest.mark.parametrize("restarted", [False, True])
def test_ids_of_what_was_taken_last_as_long_as_the_server(tmp_path, publishing, restarted):
    """Pass: messages taken from a work queue and sent again are known, unless the server was restarted
    meanwhile: then they are there again, as the plan says."""
    with NATS(tmp_path) as server:
        stream = make(server.url, retention="workqueue")

        async def take(_, js):
            reading = await js.pull_subscribe(f"{stream}.>", durable="reader", stream=stream)
            for m in await reading.fetch(10, timeout=10):
                await m.ack_sync()

        for again in range(2):
            publisher = publishing.publisher(server.url, stream)
            for number in range(10):
                publisher.send(message(stream, number))
            publisher.flush()
            publisher.close()
            if not again:
                at(server.url, take)
                if restarted:
                    server.kill()
                    server.start()
        assert publisher.sender.known == (0 if restarted else 10)
        assert info(server.url, stream).state.messages == (10 if restarted else 0)


@pytest.mark.in_turn
def test_answers_that_are_lost_double_nothing(nats, publishing, fault_proxy):
    """Pass: the connection is cut in place of an answer, and in the middle, many times: once each, in order;
    some were known when they came again."""
    stream = make(nats.url)
    proxy = fault_proxy(nats.port)
    publisher = publishing.publisher(f"nats://127.0.0.1:{proxy.port}", stream)
    for number in range(4000):
        publisher.send(message(stream, number))
        if number % 400 == 100:
            proxy.drop_answer(1)
        if number % 400 == 300:
            proxy.cut()
    publisher.flush()
    assert bodies(nats.url, stream) == numbered(4000)
    assert publisher.sender.known > 0
    assert proxy.connections > 5


@pytest.mark.in_turn
def test_a_connection_that_goes_dead_is_given_up(nats, publishing, fault_proxy):
    """Pass: nothing passes for a while and no connection breaks: messages are sent again, once each there."""
    stream = make(nats.url)
    proxy = fault_proxy(nats.port)
    publisher = publishing.publisher(
        f"nats://127.0.0.1:{proxy.port}",
        stream,
        answer_timeout="0.5 seconds",
        heartbeat="0.5 seconds",
    )
    for number in range(300):
        publisher.send(message(stream, number))
        if number == 150:
            proxy.blackhole()
            threading.Timer(2.0, proxy.heal).start()
    publisher.flush()
    assert bodies(nats.url, stream) == numbered(300)


@pytest.mark.in_turn
def test_an_answer_that_is_lost_is_not_waited_for_while_others_come(nats, publishing, monkeypatch):
    """Pass: one answer of many is lost, and messages go on: the message is sent again while they do, and
    known; each is there once."""
    stream = make(nats.url)
    opened = module.Link.open

    def lossy(*given):
        link = opened(*given)
        poll = link.poll
        link.poll = lambda *how: [answer for answer in poll(*how) if answer[0] != 5]
        return link

    monkeypatch.setattr(module.Link, "open", lossy)
    publisher = publishing.publisher(nats.url, stream, in_flight=10, answer_timeout="1 second")
    sent, until = 0, time.monotonic() + 20
    while not publisher.sender.known and time.monotonic() < until:
        publisher.send(message(stream, sent))
        sent += 1
        time.sleep(0.01)
    assert publisher.sender.known, f"{sent} messages went by"
    publisher.flush()
    assert bodies(nats.url, stream) == numbered(sent)


def test_another_server_of_the_cluster_is_tried(nats, publishing, fault_proxy):
    """Pass: of two addresses one refuses and later the other: all is there once, over both."""
    stream = make(nats.url)
    one, two = fault_proxy(nats.port), fault_proxy(nats.port)
    urls = [f"nats://127.0.0.1:{proxy.port}" for proxy in (one, two)]
    one.refuse()
    publisher = publishing.publisher(urls, stream)
    for number in range(1000):
        publisher.send(message(stream, number))
        if number == 500:
            one.heal()
            two.refuse()
            two.cut()
    publisher.flush()
    assert bodies(nats.url, stream) == numbered(1000)
    assert one.connections
    assert two.connections


@pytest.mark.parametrize("order", ["none", "key"])
def test_a_full_stream_is_waited_for(nats, publishing, order):
    """Pass: a stream that refuses new messages while it is full is emptied bit by bit by a reader: the reader
    gets each message once, and with `order: key` in order."""
    stream = make(nats.url, max_msgs=50, discard="new", retention="workqueue")
    publisher = publishing.publisher(nats.url, stream, order=order)
    taken = []

    async def empty(_, js):
        reading = await js.pull_subscribe(f"{stream}.>", durable="reader", stream=stream)
        while len(taken) < 400:
            for m in await reading.fetch(20, timeout=20):
                taken.append(m.data)
                await m.ack_sync()

    reader = threading.Thread(target=lambda: at(nats.url, empty))
    reader.start()
    for number in range(400):
        publisher.send(message(stream, number))
    publisher.flush()
    reader.join(30)
    assert sorted(taken, key=int) == numbered(400)
    assert order == "none" or taken == numbered(400)


@pytest.mark.in_turn
def test_a_full_stream_that_stays_full_ends_with_the_reason(nats, publishing):
    """Pass: an error after `give_up` that says why, where, and how many; none was refused."""
    stream = make(nats.url, max_msgs=5, discard="new")
    publisher = publishing.publisher(nats.url, stream, give_up="1 second")
    for number in range(10):
        publisher.send(message(stream, number))
    with pytest.raises(PermanentError, match="5 messages were not accepted.*maximum messages"):
        publisher.flush()
    assert publishing.refused == []


def test_a_subject_that_has_all_it_may_have_refuses(nats, publishing):
    """Pass: a stream of one message for each subject refuses the second, and takes those of other subjects."""
    options = {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}
    stream = make(nats.url, **options)
    publisher = publishing.publisher(nats.url, stream)
    for number, key in enumerate("abac"):
        publisher.send(message(stream, number, key=key))
    publisher.flush()
    assert bodies(nats.url, stream) == [b"0", b"1", b"3"]
    ((body, why),) = publishing.refused
    assert body == b"2"
    assert "maximum messages per subject exceeded" in why


@pytest.mark.parametrize("header", ["subject", "stream"])
def test_an_expected_sequence_is_compared(nats, publishing, header):
    """Pass: right ones are taken; a wrong one is refused. All come again after the window: those that are there
    are known by themselves, and the wrong one is refused again."""
    stream = make(nats.url, duplicate_window=0.1)
    expectations = [0, 1, 1, 2]  # the third is wrong
    for again in range(2):
        if again:
            time.sleep(0.3)
        publisher = publishing.publisher(nats.url, stream, **expecting(header), in_flight=1)
        for number, expected in enumerate(expectations):
            publisher.send(message(stream, number, expected=expected, header=header))
        publisher.flush()
        assert publisher.sender.known == 3 * again
    assert bodies(nats.url, stream) == [b"0", b"1", b"3"]
    assert [body for body, _ in publishing.refused] == [b"2", b"2"]
    assert all("wrong last sequence" in why for _, why in publishing.refused)


@pytest.mark.in_turn
def test_an_expected_sequence_survives_lost_answers(nats, publishing, fault_proxy):
    """Pass: chains of expected sequences over a connection that is cut: none is refused, each is there once."""
    stream = make(nats.url)
    proxy = fault_proxy(nats.port)
    publisher = publishing.publisher(
        f"nats://127.0.0.1:{proxy.port}", stream, **expecting("stream")
    )
    for number in range(1000):
        publisher.send(message(stream, number, expected=number, header="stream"))
        if number % 200 == 100:
            proxy.drop_answer(1)
    publisher.flush()
    assert bodies(nats.url, stream) == numbered(1000)
    assert publishing.refused == []


@pytest.mark.parametrize("in_flight", [1, 100])
def test_what_was_written_and_superseded_is_known(nats, publishing, in_flight):
    """Pass: a stream that keeps one message of a subject is given versions 0, 1, 2 of each of ten subjects, and all
    again: each is known though two of three are gone, with one and many in flight. One by somebody else is
    refused both times, and asking for it has stored nothing."""
    stream = make(nats.url, max_msgs_per_subject=1)
    for again in range(2):
        publisher = publishing.publisher(
            nats.url, stream, **expecting("subject"), in_flight=in_flight
        )
        for number in range(30):
            expected = max(0, number - 9)  # what the subject's message before this one has
            key = f"k{number % 10}"
            publisher.send(message(stream, number, key=key, expected=expected))
        publisher.send(message(stream, 99, key="k0", expected=5))
        publisher.flush()
        assert publisher.sender.known == 30 * again
        assert bodies(nats.url, stream) == [b"%d" % number for number in range(20, 30)]
        assert info(nats.url, stream).state.last_seq == 30
    assert [body for body, _ in publishing.refused] == [b"99", b"99"]


@pytest.mark.in_turn
def test_what_is_neither_there_nor_known_any_more_is_refused(nats, publishing):
    """Pass: after the window, of versions of which the stream keeps the last, those that are gone are refused, as
    the plan says; the last one is known by its place."""
    stream = make(nats.url, max_msgs_per_subject=1, duplicate_window=0.1)
    for again in range(2):
        publisher = publishing.publisher(nats.url, stream, **expecting("subject"))
        for number in range(3):
            publisher.send(message(stream, number, expected=number))
        publisher.flush()
        assert publisher.sender.known == again
        time.sleep(0.5)
    assert bodies(nats.url, stream) == [b"2"]
    assert [body for body, _ in publishing.refused] == [b"0", b"1"]


@pytest.mark.parametrize("name", ["error", "duplicate"])
def test_a_stream_may_have_the_name_of_a_field(nats, publishing, name):
    """Pass: what is acknowledged counts as that, and what is new does not count as known."""
    make(nats.url, name)
    publisher = publishing.publisher(nats.url, name, give_up="3 seconds")
    for number in range(10):
        publisher.send(message(name, number))
    publisher.flush()
    assert publisher.sender.known == 0
    assert bodies(nats.url, name) == numbered(10)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A server whose streams answer 429 when ten messages wait for them."""
    folder = tmp_path_factory.mktemp("narrow")
    store = json.dumps(str(folder / "data"))
    with NATS(folder, f"jetstream {{ store_dir: {store}, max_buffered_msgs: 10 }}") as server:
        yield server


@pytest.mark.in_turn
def test_a_stream_that_can_not_keep_up_is_waited_for(narrow, publishing):
    """Pass: 3,000 messages, a thousand at a time, of which the stream puts most off: none is refused, each is
    there once."""
    stream = make(narrow.url)
    publisher = publishing.publisher(narrow.url, stream, in_flight=1000)
    for number in range(3000):
        publisher.send(message(stream, number))
    publisher.flush()
    assert publishing.refused == []
    assert sorted(bodies(narrow.url, stream), key=int) == numbered(3000)
    assert "too many requests" in publisher._trouble


@pytest.mark.parametrize("header", ["subject", "stream"])
@pytest.mark.in_turn
def test_what_came_before_the_one_it_follows_is_sent_again(narrow, publishing, header):
    """Pass: a chain of expected sequences, of which the stream puts many off: no later one is refused because the
    earlier one was not there yet."""
    stream = make(narrow.url)
    publisher = publishing.publisher(narrow.url, stream, in_flight=300, **expecting(header))
    for number in range(300):
        publisher.send(message(stream, number, expected=number, header=header))
    publisher.flush()
    assert publishing.refused == []
    assert bodies(narrow.url, stream) == numbered(300)
    assert "wrong last sequence" in publisher._trouble or "too many" in publisher._trouble


@pytest.mark.parametrize(("window", "times"), [(600.0, 1), (0.3, 2)])
@pytest.mark.in_turn
def test_what_is_sent_again_after_the_window_is_told(
    nats, publishing, fault_proxy, monkeypatch, caplog, window, times
):
    """Pass: answers are lost and the server is away for longer than the stream knows its messages: they are there
    twice, and one line of the log says how many. A stream that knows them for longer has them once, and the log
    says nothing of it."""
    stream = make(nats.url, duplicate_window=window)
    proxy = fault_proxy(nats.port)
    publisher = publishing.publisher(f"nats://127.0.0.1:{proxy.port}", stream)
    publisher.connect()

    opened = module.Link.open

    def open_later(*given):
        time.sleep(1.0)
        return opened(*given)

    monkeypatch.setattr(module.Link, "open", open_later)
    proxy.drop_answer(1)
    for number in range(10):
        publisher.send(message(stream, number))
    publisher.flush()
    assert sorted(bodies(nats.url, stream), key=int) == sorted(numbered(10) * times, key=int)
    told = [r.getMessage() for r in caplog.records if "may be there twice" in r.getMessage()]
    assert len(told) == times - 1
    assert all(text.startswith("10 messages") and stream in text for text in told)


def test_a_stream_that_is_gone_ends_it(nats, publishing):
    """Pass: an error that names the stream, at the start and in the middle."""
    with pytest.raises(PermanentError, match="no stream nowhere"):
        publishing.publisher(nats.url, "nowhere").connect()
    stream = make(nats.url)
    publisher = publishing.publisher(nats.url, stream)
    publisher.send(message(stream, 0))
    publisher.flush()

    async def delete(_, js):
        await js.delete_stream(stream)

    at(nats.url, delete)
    publisher.send(message(stream, 1))
    with pytest.raises(PermanentError, match=f"no stream {stream}"):
        publisher.flush()


def test_a_sealed_stream_ends_it(nats, publishing):
    """Pass: an error that says so; nothing is refused row by row."""
    stream = make(nats.url)
    publisher = publishing.publisher(nats.url, stream)
    publisher.connect()

    async def seal(_, js):
        config = (await js.stream_info(stream)).config
        config.sealed = True
        await js.update_stream(config)

    at(nats.url, seal)
    publisher.send(message(stream, 0))
    with pytest.raises(PermanentError, match="sealed"):
        publisher.flush()
    assert publishing.refused == []


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a user who may publish to some subjects only."""
    rights = (
        'authorization { users: [ { user: "anna", password: "PASSW0RD", permissions: { publish: '
        '{ deny: ["*.Secret.>"] } } }, { user: "root", password: "root" } ] }'
    )
    with NATS(tmp_path_factory.mktemp("guarded"), rights) as server:
        yield server


def as_user(server, user):
    return server.url.replace("//", f"//{user}@")


def test_what_the_user_may_not_publish_is_refused(guarded, publishing):
    """Pass: those messages, with their subject, and no others, also not of one that differs by case."""
    stream = make(as_user(guarded, "root:root"))
    publisher = publishing.publisher(as_user(guarded, "anna:PASSW0RD"), stream)
    for number in range(200):
        key = "Secret.x" if number in (5, 100) else "secret.x"
        publisher.send(message(stream, number, key=key))
    publisher.flush()
    found = bodies(as_user(guarded, "root:root"), stream)
    assert found == [body for body in numbered(200) if body not in (b"5", b"100")]
    assert [body for body, _ in publishing.refused] == [b"5", b"100"]
    assert all(
        f"may not publish to subject '{stream}.Secret.x'" in w for _, w in publishing.refused
    )


def test_the_password_is_in_no_error_and_no_log(guarded, publishing, caplog, fault_proxy):
    """Pass: neither when the server refuses the user nor when connections are lost."""
    caplog.set_level("DEBUG")
    publisher = publishing.publisher(as_user(guarded, "anna:WR0NG"), "s")
    with pytest.raises(PermanentError, match="[Aa]uthorization") as error:
        publisher.connect()
    assert "WR0NG" not in str(error.value) + repr(error.value) + caplog.text
    stream = make(as_user(guarded, "root:root"))
    proxy = fault_proxy(guarded.port)
    url = f"nats://anna:PASSW0RD@127.0.0.1:{proxy.port}"
    publisher = publishing.publisher(url, stream)
    publisher.send(message(stream, 0))
    publisher.flush()
    proxy.cut()
    publisher.send(message(stream, 1))
    publisher.flush()
    assert "the connection was lost" in caplog.text
    assert "PASSW0RD" not in caplog.text
    assert info(as_user(guarded, "root:root"), stream).state.messages == 2
