"""The sink's tasks, without Spark, beside bare pyzmq peers: what goes out, what waits, what fails."""

from __future__ import annotations

import socket as sockets
import threading
import time
from contextlib import suppress
from itertools import cycle
from types import SimpleNamespace

import pyarrow as pa
import pytest
import zmq
from mainstem import PermanentError, TransientError
from mainstem.sinks import Refused
from mainstem_direct_zeromq.link import Link
from mainstem_direct_zeromq.sink import sender
from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions
from mainstem_direct_zeromq.sink.sender import Sender, messages, publish
from mainstem_direct_zeromq.sink.sink import ZeroMQSink
from mainstem_testkit import wait_for
from mainstem_testkit.processes import Resources
from zeromq_peers import address, greeting, taker


def options(**given):
    return ZeroMQSinkOptions.model_validate({"give_up": "20 s", **given})


def rows(numbers, size=0, **more):
    count = len(numbers)
    columns = {name: [value] * count for name, value in more.items()}
    return pa.record_batch({"value": [b"%06d" % n + b"x" * size for n in numbers], **columns})


def send(batch, **given):
    """Send rows as a task does; return the refused ones."""
    found = list(publish([batch], options(**given)))
    return [row for part in found for row in part.to_pylist()]


def bodies(found):
    return [frames[-1] for frames in found]


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.parametrize(("socket", "kind"), [("push", zmq.PULL), ("pub", zmq.SUB)])
def test_rows_go_out_in_order_whoever_binds(peers, socket, kind, binds):
    """Pass: all of them, also of 20,000 that are more than the mark, and the peer is waited for."""
    where = address()
    collector = peers.collector(kind, **{"connect" if binds else "bind": where})
    batch = rows(range(20_000), origin="t")
    assert send(batch, socket=socket, **{"bind" if binds else "connect": where}) == []
    found = collector.wait_for(20_000)
    assert bodies(found) == batch.column("value").to_pylist()
    assert len(found[0]) == (1 if socket == "push" else 2)


def test_a_second_batch_binds_the_address_anew(peers):
    """Pass: three batches one right after the other; the peer comes back each time."""
    where = address()
    collector = peers.collector(connect=where)
    for number in range(3):
        assert send(rows(range(10 * number, 10 * number + 10)), bind=where) == []
    assert bodies(collector.wait_for(30)) == [b"%06d" % n for n in range(30)]


@pytest.mark.in_turn
def test_without_a_peer_the_batch_fails_in_the_end():
    """Pass: an error that names the address and what was the matter; not before `give_up`, and nothing hangs."""
    where = address()
    began = time.monotonic()
    with pytest.raises(PermanentError, match=f"{where}: no peer took a message for 0.5 s"):
        send(rows(range(10)), connect=where, give_up="500 ms")
    assert time.monotonic() - began >= 0.5
    with pytest.raises(PermanentError, match="no peer took a message for 0.5 s"):
        send(rows(range(10)), bind=where, give_up="500 ms")
    with pytest.raises(PermanentError, match="no peer took a message for 0.5 s"):
        send(rows(range(5000)), connect=where, give_up="500 ms")
    with pytest.raises(PermanentError, match="no subscriber is there for 0.5 s"):
        send(rows(range(10), origin="t"), socket="pub", bind=where, give_up="500 ms")


@pytest.mark.in_turn
def test_a_peer_that_stands_still_blocks_the_task_and_no_memory_grows(peers):
    """Pass: a PULL peer that does not read: no more than marks and buffers hold is read from the rows, and after
    `give_up` the batch fails."""
    where = address()
    peers.socket(zmq.PULL, bind=where, rcvhwm=10, rcvbuf=16_000)
    read = []

    def endless():
        while len(read) < 1000:
            read.append(1)
            yield rows(range(10), size=10_000)

    given = {"connect": where, "high_water_mark": 10, "socket_buffer": 16_000, "give_up": "1 s"}
    with pytest.raises(PermanentError, match="no peer took a message for 1 s"):
        list(publish(endless(), options(**given)))
    assert 10 * len(read) < 10 + 10 + 40


def test_what_has_not_gone_out_at_the_end_fails_the_batch(peers):
    """Pass: a PULL peer that does not read, and rows below the mark and above what the kernel holds."""
    where = address()
    peers.socket(zmq.PULL, bind=where, rcvhwm=5, rcvbuf=16_000)
    given = {"connect": where, "socket_buffer": 16_000, "give_up": "500 ms"}
    with pytest.raises(PermanentError, match=f"{where}: not all messages could be handed to peers"):
        send(rows(range(100), size=20_000), **given)


def test_what_has_not_gone_out_is_told_whenever_the_wait_ends():
    """Pass: libzmq ends its wait by whole milliseconds, perhaps a little early: never taken for a message that went
    out."""
    for _ in range(60):
        link = Link(options(connect=address()), zmq.PUSH, {})
        link.socket.send(b"to nobody")
        assert not link.close(0.0104)


@pytest.mark.in_turn
def test_a_slow_peer_slows_the_task(peers):
    """Pass: `give_up` counts from the last message that went out: a batch that takes longer ends well."""
    where = address()
    pull = peers.socket(zmq.PULL, bind=where, rcvhwm=5, rcvbuf=16_000)
    found = []

    def read():
        while len(found) < 120:
            found.append(pull.recv())
            time.sleep(0.02)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    given = {"connect": where, "high_water_mark": 5, "socket_buffer": 16_000, "give_up": "1.5 s"}
    given["keepalive"] = "1 s"
    began = time.monotonic()
    assert send(rows(range(120), size=20_000), **given) == []
    assert time.monotonic() - began > 1.5
    reader.join(20)
    assert [int(value[:6]) for value in found] == list(range(120))


@pytest.mark.parametrize("when_full", ["wait", "drop"])
@pytest.mark.in_turn
def test_a_slow_subscriber_is_waited_for_or_loses_messages(peers, when_full):
    """Pass: `wait` gives it all of them; `drop` gives it some, in order, and does not wait."""
    where = address()
    sub = peers.socket(zmq.SUB, connect=where, rcvhwm=10, rcvbuf=16_000, rcvtimeo=1000)
    sub.subscribe(b"")
    found = []

    def read():
        time.sleep(0.5)
        try:
            while True:
                found.append(sub.recv_multipart()[1])
        except zmq.Again:
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    given = {"high_water_mark": 10, "socket_buffer": 16_000, "when_full": when_full}
    batch = rows(range(300), size=10_000, origin="t")
    assert send(batch, socket="pub", bind=where, **given) == []
    reader.join(30)
    numbers = [int(value[:6]) for value in found]
    if when_full == "wait":
        assert numbers == list(range(300))
    else:
        assert 0 < len(numbers) < 300
        assert numbers == sorted(numbers)


def test_it_waits_for_as_many_subscriptions_as_asked(peers):
    """Pass: with one of two there nothing goes out; with the second both get all."""
    where = address()
    first = peers.collector(zmq.SUB, connect=where)
    ended = []
    given = {"socket": "pub", "bind": where, "subscriptions": 2}
    batch = rows(range(50), origin="t")
    thread = threading.Thread(target=lambda: ended.append(send(batch, **given)), daemon=True)
    thread.start()
    assert first.quiet() == []
    second = peers.collector(zmq.SUB, connect=where)
    assert len(second.wait_for(50)) == len(first.wait_for(50)) == 50
    wait_for(lambda: ended == [[]])


def test_a_reader_that_crashes_loses_what_it_had_and_the_rest_goes_on(peers):
    """Pass: of two peers one ends in the middle: the other gets the rest, the batch ends well, and what is
    missing was sent to the one that ended: the sink does not know of it, as its plan says."""
    where = address()
    stays = peers.collector(connect=where)
    goes = peers.socket(zmq.PULL, connect=where, rcvhwm=5)
    ended = []

    def trickle():
        for number in range(100):
            if number == 50:
                goes.recv()
                goes.close()
            time.sleep(0.005)
            yield rows([number])

    def work():
        ended.append(list(publish(trickle(), options(bind=where))))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    wait_for(lambda: ended)
    found = [int(value) for value in bodies(stays.quiet())]
    assert ended == [[]]
    assert len(found) == len(set(found)) < 100
    assert set(range(60, 100)) <= set(found)


def test_a_worker_that_is_away_gets_nothing_to_keep(peers):
    """Pass: of two addresses one has nobody: the batch ends well, and the other gets each row once."""
    collector = peers.collector()
    given = {"connect": [address(), collector.bind], "give_up": "3 s"}
    assert send(rows(range(10)), **given) == []
    assert bodies(collector.wait_for(10)) == [b"%06d" % n for n in range(10)]
    assert len(collector.quiet()) == 10


@pytest.mark.parametrize("how", ["curve", "plain"])
def test_this_side_can_connect_and_let_in(peers, how):
    """Pass: the server of CURVE, or of PLAIN, connects to a reader that binds: a small batch comes whole, for the
    door is attended to until the reader is let in."""
    server, server_secret = zmq.curve_keypair()
    public, secret = zmq.curve_keypair()
    if how == "curve":
        theirs = {
            "curve_serverkey": server, "curve_publickey": public, "curve_secretkey": secret,
        }  # fmt: skip
        ours = {"secret_key": server_secret.decode(), "clients": [public.decode()]}
    else:
        theirs = {"plain_username": b"anna", "plain_password": b"open sesame"}
        ours = {"users": {"anna": "open sesame"}}
    collector = peers.collector(**theirs)
    assert send(rows(range(10)), connect=collector.bind, **{how: ours}) == []
    assert bodies(collector.wait_for(10)) == [b"%06d" % n for n in range(10)]


@pytest.mark.parametrize(("count", "mark"), [(10, 1000), (2000, 5)])
@pytest.mark.parametrize("how", ["curve", "plain"])
def test_a_reader_that_does_not_let_us_in_fails_the_batch_at_once(peers, how, count, mark):
    """Pass: refused by the far side's door, for a batch below the mark and one above: an error that says so, long
    before `give_up`, without the secret; nothing came."""
    where = address()
    server, server_secret = (key.decode() for key in zmq.curve_keypair())
    _, ours = (key.decode() for key in zmq.curve_keypair())
    known = zmq.curve_keypair()[0].decode()
    if how == "curve":
        theirs = {"curve": {"secret_key": server_secret, "clients": [known]}}
        given = {"curve": {"server_key": server, "secret_key": ours}}
    else:
        theirs = {"plain": {"users": {"anna": "open sesame"}}}
        given = {"plain": {"user": "anna", "password": "hunter2"}}
    with taker(bind=where, **theirs) as taking:
        taking.connect()
        told = []

        def work():
            try:
                send(
                    rows(range(count)), connect=where, high_water_mark=mark, give_up="60 s", **given
                )
                told.append("written")
            except PermanentError as error:
                told.append(str(error))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        wait_for(lambda: not taking.take(0.05) and told, 20)
        assert taking.take_rest(0.2) == []
    assert "does not let us in" in told[0]
    assert where in told[0]
    assert "hunter2" not in told[0]
    assert ours not in told[0]


def test_a_stranger_puts_nothing_large_into_a_sink(peers):
    """Pass: a reader has nothing to send but subscriptions: one that sends a frame of 1 MB is cut off; the rows go
    to the other."""
    where = address()
    collector = peers.collector(connect=where)
    cut_off = threading.Event()

    def batches():
        yield rows([0])
        cut_off.wait(20)
        yield rows([1])

    ended = []
    thread = threading.Thread(
        target=lambda: ended.append(list(publish(batches(), options(bind=where)))), daemon=True
    )
    thread.start()
    collector.wait_for(1)
    with sockets.create_connection(("127.0.0.1", int(where.rpartition(":")[2]))) as stranger:
        stranger.settimeout(5)
        with suppress(ConnectionError):
            stranger.sendall(
                greeting(b"PULL") + b"\x02" + (10**6).to_bytes(8, "big") + bytes(10**6)
            )
            while stranger.recv(1000):
                pass
    cut_off.set()
    wait_for(lambda: ended)
    assert bodies(collector.wait_for(2)) == [b"%06d" % n for n in range(2)]


class Balancer:
    """A PUSH socket whose peer goes before the n-th frame, as libzmq's `lb_t::sendpipe` goes on then.

    That frame is refused. If more were to follow it, all is dropped up to the end of a message.
    """

    def __init__(self, number):
        self.came, self._message = [], []
        self._number, self._dropping = number, False

    def send(self, frame, flags):
        more = bool(flags & zmq.SNDMORE)
        if self._dropping:
            self._dropping = more
            return
        self._number -= 1
        if self._number == 0:
            self._message, self._dropping = [], more and bool(self._message)
            raise zmq.Again
        self._message.append(frame)
        if not more:
            self.came.append(self._message)
            self._message = []

    def send_multipart(self, frames, flags):
        for frame in frames[:-1]:
            self.send(frame, flags | zmq.SNDMORE)
        self.send(frames[-1], flags)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_message_whose_peer_goes_in_the_middle_is_sent_whole_to_the_next(number):
    """Pass: whichever frame it goes before, both messages come once and whole; libzmq takes none for the rest of what
    it drops. (When its own thread tells of it sooner, the message counts as on its way: nobody can know.)"""
    sender = Sender(options(bind=address()))
    balancer = Balancer(number)
    sender._link = SimpleNamespace(
        socket=balancer, locked_out="", wait=lambda *_: True, close=lambda *_: True
    )
    two = [[b"a", b"b", b"c", b"first"], [b"a", b"b", b"c", b"second"]]
    for message in two:
        sender.send(message)
    assert balancer.came == two


def test_a_subscriber_that_comes_and_goes_does_not_hold_the_task(monkeypatch):
    """Pass: one of two subscriptions, made and taken back without a pause: the batch fails after `give_up`."""
    told = cycle([b"\x01", None, b"\x00", None])
    patience = time.monotonic() + 5

    def wait(*_):
        assert time.monotonic() < patience, "it still waits"
        return True

    def recv(*_):
        if (words := next(told)) is None:
            raise zmq.Again
        return words

    link = SimpleNamespace(
        wait=wait,
        socket=SimpleNamespace(recv=recv),
        locked_out="",
        trouble="",
        close=lambda *_: True,
    )
    monkeypatch.setattr(sender, "Link", lambda *_: link)
    given = {"socket": "pub", "bind": address(), "subscriptions": 2, "give_up": "100 ms"}
    with pytest.raises(PermanentError, match=r"there for 0\.1 s"):
        send(rows(range(3), origin="t"), **given)


def test_an_address_that_somebody_has_fails_the_batch(peers):
    """Pass: with the address."""
    where = address()
    peers.socket(zmq.PULL, bind=where)
    with pytest.raises(TransientError, match=f"can't bind {where}: Address already in use"):
        send(rows(range(3)), bind=where)


def test_nothing_is_left_behind(peers):
    """Pass: batches, good and failed, leave no thread, file or socket; one without rows opens nothing."""
    collector = peers.collector()

    def once():
        send(rows(range(10)), connect=collector.bind)
        with pytest.raises(PermanentError):
            send(rows(range(10)), bind=address(), give_up="50 ms")
        assert send(rows([]), connect=address(), give_up="50 ms") == []

    once()
    before = Resources.now()
    for _ in range(6):
        once()
    wait_for(lambda: not Resources.now().grown(before, by=3), 10)


# -- rows ---------------------------------------------------------------------------------------


def test_rows_become_frames_as_the_layout_says():
    """Pass: columns by name whatever their case, a constant topic, `_id` in hex, and the refused with reasons."""
    frames = ["topic", "key", "headers", "header.raw", "id", "value"]
    headers = pa.array(
        [[("a", b"1"), ("raw", b"\xff")], None, [("a", b"\xff")]],
        pa.map_(pa.string(), pa.binary()),
    )
    batch = pa.record_batch(
        {
            "VALUE": [b"v", None, b"refused"],
            "key": [b"k", None, None],
            "headers": headers,
            "_id": [bytes(16), b"\x01" * 16, b"\x02" * 16],
        }
    )
    refused = Refused()
    made = list(messages(batch, options(bind=address(), frames=frames, topic="t"), refused))
    assert made == [
        [b"t", b"k", b'{"a":"1"}', b"\xff", b"0" * 32, b"v"],
        [b"t", b"", b"", b"", b"01" * 16, b""],
    ]
    (rejected,) = next(refused.take()).to_pylist()
    assert rejected["_id"] == b"\x02" * 16
    assert rejected["payload"] == b"refused"
    assert "'a' is not UTF-8" in rejected["reason"]


def test_a_row_without_a_topic_is_refused(peers):
    """Pass: the others go out."""
    collector = peers.collector(zmq.SUB)
    batch = pa.record_batch({"value": [b"1", b"2"], "place": ["oslo", None]})
    given = {"socket": "pub", "connect": collector.bind, "topic_from": "place"}
    (rejected,) = send(batch, **given)
    assert rejected["reason"] == "it has no topic"
    assert collector.wait_for(1) == [[b"oslo", b"1"]]


def test_what_it_says_of_itself_depends_on_its_options():
    """Pass: the reason names what can be lost; `_id` is asked for where a frame holds it."""
    push = ZeroMQSink(options(bind=address())).capabilities
    assert "no acknowledgements" in push.why
    assert "up to 1,000 messages that wait for it" in push.why
    assert not push.needs_id
    pub = ZeroMQSink(
        options(bind=address(), socket="pub", frames=["id", "value"], when_full="drop")
    ).capabilities
    assert pub.needs_id
    assert "waits for 1 subscriptions" in pub.why
    assert "too slow" in pub.why
