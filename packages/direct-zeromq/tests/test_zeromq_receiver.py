"""The receiver beside bare pyzmq peers: what it takes, what it refuses, whom it lets in."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest
import zmq
from mainstem_direct_zeromq.frames import SEQUENCE
from mainstem_ingress import Unmendable, Unreachable
from mainstem_testkit import wait_for
from mainstem_testkit.conformance.taking import secrets_in
from mainstem_testkit.processes import Resources
from zeromq_peers import address, source, taker

MIB = 2**20


def values(messages):
    return [message.value for message in messages]


def keys():
    """A key pair of CURVE, as text."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


# -- addresses and kinds of socket --------------------------------------------------------------


@pytest.mark.parametrize("transport", ["tcp", "ipc", "abstract"])
@pytest.mark.parametrize("binds", [True, False])
def test_push_to_pull_over_each_transport_whoever_binds(peers, tmp_path, transport, binds):
    """Pass: all messages, in their order."""
    where = {
        "tcp": address(),
        "ipc": f"ipc://{tmp_path}/socket",
        "abstract": f"ipc://@{tmp_path.name}-{binds}",
    }[transport]
    with taker(**{"bind" if binds else "connect": where}) as taking:
        taking.connect()
        push = peers.push(**{"connect" if binds else "bind": where})
        for number in range(1000):
            push.send(b"%d" % number)
        found = taking.take_some(1000)
        assert values(found) == [b"%d" % number for number in range(1000)]
        assert {message.origin for message in found} == {where}


def test_several_peers_at_several_addresses(peers):
    """Pass: all of all; a socket may bind and connect at once."""
    bound, connected = [address(), address()], [address(), address()]
    pushes = [peers.push(bind=where) for where in connected]
    with taker(bind=bound, connect=connected) as taking:
        taking.connect()
        pushes += [peers.push(where) for where in bound]
        for number, push in enumerate(pushes):
            push.send(b"%d" % number)
        assert sorted(values(taking.take_some(4))) == [b"0", b"1", b"2", b"3"]
        assert taking.receiver.facts()["peers"] == 4


def test_subscriptions_choose_by_how_topics_begin(peers):
    """Pass: of many topics those come whose beginning was asked for; the topic is the origin."""
    where = address()
    with taker(socket="sub", bind=where, topics=["weather.", "x"]) as taking:
        taking.connect()
        publisher = peers.publisher(where)
        wait_for(lambda: taking.take() or publisher.subscribed == 2)
        for topic in ("weather.oslo", "weather", "traffic.oslo", "x", "xy", "end"):
            publisher.send(topic.encode(), b"!")
        publisher.send(b"xend", b"")
        found = taking.take_some(4)
        assert [message.origin for message in found] == ["weather.oslo", "x", "xy", "xend"]


def test_a_peer_that_comes_back_is_taken_from_again(peers):
    """Pass: connected to an address where nobody is, then somebody, then somebody else."""
    where = address()
    with taker(connect=where, reconnect="10 ms", reconnect_most="50 ms") as taking:
        taking.connect()
        assert taking.take_rest(0.3) == []
        for number in range(2):
            push = peers.push(bind=where)
            push.send(b"%d" % number)
            assert values(taking.take_some(1)) == [b"%d" % number]
            push.close()
            wait_for(lambda: not taking.take(0.01) and taking.receiver.facts()["peers"] == 0)


# -- frames -------------------------------------------------------------------------------------


def test_every_frame_goes_where_the_layout_says(peers):
    """Pass: key, topic, headers, a header, a sequence and an id, beside the value."""
    where = address()
    frames = ["topic", "key", "headers", "header.raw", "sequence", "id", "skip", "value"]
    with taker(bind=where, frames=frames) as taking:
        taking.connect()
        number = (7).to_bytes(8, "big")
        sent = [b"t/\xc3\xa4", b"k\xff", b'{"a":"1"}', b"\x00\xff", number, b"i", b"?", b"v"]
        peers.push(where).send_multipart(sent)
        (message,) = taking.take_some(1)
        assert (message.value, message.key, message.origin) == (b"v", b"k\xff", "t/ä")
        assert message.id == b"i"
        assert dict(message.headers) == {
            "a": b"1", "raw": b"\x00\xff", "zmq.id": b"i", SEQUENCE: number,
        }  # fmt: skip


@pytest.mark.parametrize("frames", [["value"], ["topic", "value"]])
def test_hostile_messages_are_refused_and_the_others_come(peers, frames):
    """Pass: too few frames, 1,000 of them, empty ones, a topic of no text: each is refused with its reason
    where it does not fit, in order, and the good ones around them come."""
    where = address()
    good = [b"t", b"good"][2 - len(frames) :]
    hostile = [[b"x"] * (3 - len(frames)), [b"y"] * 1000, [b""] * 3, [b"z" * MIB] * 3]
    if len(frames) == 2:
        hostile.append([b"\xff", b"v"])
    with taker(bind=where, frames=frames) as taking:
        taking.connect()
        push = peers.push(where)
        for message in hostile:
            push.send_multipart(good)
            push.send_multipart(message)
        push.send_multipart([b""] * len(frames))
        push.send_multipart(good)
        found = taking.take_some(2 * len(hostile) + 2)
        refused = found[1 : 2 * len(hostile) : 2]
        assert [m.value for m in found[0 : 2 * len(hostile) : 2]] == [b"good"] * len(hostile)
        assert found[-2].value == b""
        assert found[-2].refused is None
        assert found[-1].value == b"good"
        expected = [f"it has {3 - len(frames)} frame", "it has 1,000 frames", "it has 3 frames"]
        expected += ["it has 3 frames", "its topic is not UTF-8"]
        for message, reason in zip(refused, expected, strict=False):
            assert reason in message.refused
            assert len(message.value) <= 64 * 1024
        assert refused[1].value.startswith(b"1:y,1:y,")


def test_a_frame_that_is_too_large_cuts_its_peer_off(peers):
    """Pass: 100 MB never come into memory; the next message of the peer, and of others, is taken."""
    where = address()
    with taker(bind=where, max_frame="1 MB") as taking:
        taking.connect()
        bad, good = peers.push(where), peers.push(where)
        bad.send(b"first")
        good.send(b"beside")
        assert sorted(values(taking.take_some(2))) == [b"beside", b"first"]
        before = peak()
        bad.send(b"x" * 100_000_000)
        bad.send(b"afterwards")
        good.send(b"beside again")
        found = values(taking.take_some(2))
        assert sorted(found) == [b"afterwards", b"beside again"]
        # The sender's own copies are in this process: two of them, and none of the receiver's.
        assert peak() - before < 250_000_000


def peak():
    """The most memory that this process had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_100_mb_are_taken_when_allowed(peers):
    """Pass: by default a frame of 100 MB comes whole, for the log to refuse by `max_message`."""
    where = address()
    with taker(bind=where) as taking:
        taking.connect()
        peers.push(where).send(b"x" * 100_000_000)
        (message,) = taking.take_some(1)
        assert len(message.value) == 100_000_000


# -- back-pressure ------------------------------------------------------------------------------


def test_no_more_is_taken_than_may_be_lost(peers):
    """Pass: without acknowledgement the receiver takes as many as its mark says, then none; a peer that goes on
    sending is blocked; with each acknowledgement it goes on, and all come in order."""
    where = address()
    with taker(bind=where, high_water_mark=50, socket_buffer="16 KB") as taking:
        taking.connect()
        push = peers.push(where, sndhwm=50, sndbuf=16_000, sndtimeo=500)
        sent = 0
        with suppress(zmq.Again):
            while sent < 1000:
                push.send(b"%06d" % sent + b"x" * 10_000)
                sent += 1
        found = taking.take_rest(0.3)
        assert len(found) == 50
        # In libzmq on both sides, in the kernel, and taken.
        assert sent < 50 + 50 + 50 + 40
        group = found
        while len(found) < sent:
            taking.acknowledge(group)
            group = taking.take_some(1)
            found += group
            assert len(group) <= 50
        assert [int(value[:6]) for value in values(found)] == list(range(sent))


def test_a_group_is_no_larger_than_the_mark():
    """Pass: the log writes a segment when so many messages were taken, whatever `segment_rows` says."""
    assert source(bind=address(), high_water_mark=50).options.segment_rows == 50
    assert source(bind=address(), segment_rows=7).options.segment_rows == 7


# -- sequence numbers ---------------------------------------------------------------------------


def test_gaps_are_given_before_the_message_that_shows_them(peers):
    """Pass: 1 2 5 of one topic and 1 2 of another: one row for 3 and 4, counted, before the 5."""
    where = address()
    frames = ["topic", "sequence", "value"]
    with taker(bind=where, frames=frames) as taking:
        taking.connect()
        push = peers.push(where)
        for topic, number in ((b"a", 1), (b"b", 1), (b"a", 2), (b"a", 5), (b"b", 2)):
            push.send_multipart([topic, number.to_bytes(8, "big"), b"%d" % number])
        found = taking.take_some(6)
        assert values(found) == [b"1", b"1", b"2", None, b"5", b"2"]
        gap = json.loads(dict(found[3].headers)["zmq.lost"])
        assert (gap["from"], gap["to"], gap["count"]) == ("3", "4", 2)
        assert "of a go from 2 to 5" in gap["reason"]
        assert found[3].origin == "a"
        assert taking.receiver.facts()["lost"] == 2
        taking.close()
        # The cursor of what was stored last is where counting goes on.
        taking.connect(found[-1].cursor)
        push.send_multipart([b"b", (9).to_bytes(8, "big"), b"9"])
        lost, message = taking.take_some(2)
        assert json.loads(dict(lost.headers)["zmq.lost"])["count"] == 6
        assert message.value == b"9"


def test_a_message_without_a_number_is_refused(peers):
    """Pass: with the reason; the count goes on as if it had not come."""
    where = address()
    with taker(bind=where, frames=["sequence", "value"]) as taking:
        taking.connect()
        push = peers.push(where)
        for number in (b"\0\0\0\0\0\0\0\1", b"short", b"\0\0\0\0\0\0\0\2"):
            push.send_multipart([number, b"v"])
        found = taking.take_some(3)
        assert [m.refused is None for m in found] == [True, False, True]
        assert "cut off: 5 bytes" in found[1].refused


# -- who may connect ----------------------------------------------------------------------------


def curve_client(server_key, public="", secret=""):
    """The settings of a pyzmq socket that is a client of CURVE."""
    if not secret:
        public, secret = keys()
    return {
        "curve_serverkey": server_key.encode(),
        "curve_publickey": public.encode(),
        "curve_secretkey": secret.encode(),
    }


def sends(peers, where, taking, **settings):
    """Whether a peer of these settings gets a message in."""
    push = peers.push(where, immediate=True, sndtimeo=700, **settings)
    try:
        waited = time.monotonic() + 20
        while time.monotonic() < waited:
            taking.take(0.02)
            try:
                push.send(b"let in", zmq.NOBLOCK)
                break
            except zmq.Again:
                facts = taking.receiver.facts()
                if facts["not_let_in"] or "secured" in facts["trouble"]:
                    return False
        return bool(taking.take_some(1))
    finally:
        push.close()


def test_curve_lets_in_the_keys_that_it_knows_and_nobody_else(peers):
    """Pass: a known key gets in; an unknown one, one that has another server's key, PLAIN and nothing do not,
    and are counted; what was let in before goes on."""
    server, server_secret = keys()
    known, known_secret = keys()
    where = address()
    curve = {"secret_key": server_secret, "clients": [known]}
    with taker(bind=where, curve=curve) as taking:
        taking.connect()
        assert sends(peers, where, taking, **curve_client(server, known, known_secret))
        wait_for(lambda: not taking.take(0.01) and taking.receiver.facts()["peers"] == 0)
        assert not sends(peers, where, taking, **curve_client(server))
        assert taking.receiver.facts()["not_let_in"] == 1
    for settings in (
        curve_client(keys()[0], known, known_secret),
        {"plain_username": b"u", "plain_password": b"p"},
        {},
    ):
        with taker(bind=where, curve=curve) as taking:
            taking.connect()
            assert not sends(peers, where, taking, **settings)
            assert taking.take_rest(0.3) == []
            assert taking.receiver.facts()["peers"] == 0


def test_curve_can_let_in_anybody_who_knows_the_server(peers):
    """Pass: a key made up gets in with the server's public key, and not with another one."""
    server, server_secret = keys()
    where = address()
    with taker(bind=where, curve={"secret_key": server_secret, "clients": "any"}) as taking:
        taking.connect()
        assert sends(peers, where, taking, **curve_client(server))
        assert not sends(peers, where, taking, **curve_client(keys()[0]))


def test_curve_as_a_client(peers):
    """Pass: against a peer that is the server, with its key and no other; also with a pair made on the way."""
    server, server_secret = keys()
    _, own_secret = keys()
    where = address()
    push = peers.push(
        bind=where, curve_server=True, curve_secretkey=server_secret.encode(), sndtimeo=700
    )
    with taker(connect=where, curve={"server_key": keys()[0], "secret_key": own_secret}) as taking:
        taking.connect()
        with pytest.raises(zmq.Again):
            push.send(b"not for you")
        assert taking.take_rest(0.2) == []
        facts = taking.receiver.facts()
        assert facts["peers"] == 0
        assert facts["trouble"]
    push.sndtimeo = 20_000
    for options in ({"secret_key": own_secret}, {}):
        with taker(connect=where, curve={"server_key": server, **options}) as taking:
            taking.connect()
            push.send(b"for you")
            assert values(taking.take_some(1)) == [b"for you"]


def test_plain_lets_in_who_knows_the_password(peers):
    """Pass: each user with its own password, and no other."""
    where = address()
    users = {"anna": "open sesame", "otto": "geheim"}
    for user, password, good in (
        ("anna", "open sesame", True),
        ("otto", "geheim", True),
        ("anna", "geheim", False),
        ("anna", "open sesame ", False),
        ("emma", "geheim", False),
    ):
        with taker(bind=where, plain={"users": users}) as taking:
            taking.connect()
            settings = {"plain_username": user.encode(), "plain_password": password.encode()}
            assert sends(peers, where, taking, **settings) == good, user
            assert taking.receiver.facts()["not_let_in"] == (not good)


def test_plain_as_a_client(peers):
    """Pass: with the right password messages come; with another the run is told to end, without the password."""
    where, inner = address(), address()
    users = {"anna": "open sesame"}
    # A door of ours, whose source is only there to let in: what comes through it goes the other way.
    from mainstem_direct_zeromq.link import Link
    from mainstem_direct_zeromq.sink import ZeroMQSinkOptions

    given = {"bind": [where, inner], "plain": {"users": users}}
    link = Link(ZeroMQSinkOptions.model_validate(given), zmq.PUSH, {})
    try:
        right = {"username": "anna", "password": "open sesame"}
        with taker(connect=where, plain=right) as taking:
            taking.connect()
            wait_for(lambda: link.wait(0.01, zmq.POLLOUT) or taking.take(0) is None)
            link.socket.send(b"hello")
            assert values(taking.take_some(1)) == [b"hello"]
        wrong = {"username": "anna", "password": "hunter2"}
        with taker(connect=inner, plain=wrong) as taking:
            taking.connect()

            def refused():
                link.wait(0.01, 0)
                try:
                    taking.take(0.01)
                except Unmendable as error:
                    return str(error)
                return ""

            told = wait_for(refused)
            assert inner in told
            assert "does not let us in" in told
            assert "hunter2" not in told
    finally:
        link.close()


def test_nothing_is_left_behind_after_closing(peers):
    """Pass: connections with all that belongs to one, good and failed, leave no thread, file or socket."""
    where = address()
    plain = {"users": {"anna": "open sesame"}}
    push = peers.push(where, plain_username=b"anna", plain_password=b"open sesame")

    def once():
        with taker(bind=where, plain=plain) as taking:
            taking.connect()
            push.send(b"one")
            taking.take_some(1)
        for wrong in ("tcp://192.0.2.1:5555", "ipc:///no/such/folder/socket"):
            with taker(bind=[where, wrong], plain=plain) as taking, pytest.raises(Unmendable):
                taking.connect()

    once()
    before = Resources.now()
    for _ in range(6):
        once()
    wait_for(lambda: not Resources.now().grown(before, by=3), 10)


# -- errors -------------------------------------------------------------------------------------


def test_an_address_that_somebody_has_is_waited_for(peers):
    """Pass: `Unreachable` with the address while it is taken, and none afterwards."""
    where = address()
    other = peers.socket(zmq.PULL, bind=where)
    with taker(bind=where) as taking:
        with pytest.raises(Unreachable, match=f"can't bind {where}: Address already in use"):
            taking.connect()
        taking.close()
        other.close()
        taking.reconnect()


@pytest.mark.parametrize(
    "where",
    ["tcp://192.0.2.1:5555", "tcp://no-such-interface:5555", "ipc:///no/such/folder/socket"],
)
def test_an_address_that_can_never_be_bound_ends_the_run(where):
    """Pass: `Unmendable`, with the address."""
    with taker(bind=where) as taking, pytest.raises(Unmendable, match=f"can't bind {where}"):
        taking.connect()


def test_no_secret_is_in_what_is_told():
    """Pass: options print without keys and passwords; the suites look for the same texts."""
    _, secret = keys()
    for options in (
        {"curve": {"secret_key": secret, "clients": "any"}},
        {"plain": {"username": "u", "password": "hunter2"}},
        {"plain": {"users": {"u": "hunter2"}}},
    ):
        made = source(bind=address(), **options)
        shown = f"{made.options!r} {made.options} {made.capabilities} {made.options.model_dump()}"
        assert "hunter2" not in shown
        assert secret not in shown
        if "users" not in options.get("plain", {}):
            assert secrets_in(made.options)


#: What a peer that speaks ZMTP 3.1 without security says first.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


@pytest.mark.parametrize(
    "words",
    [
        GREETING + b"\x04\x0a\x05ERROR\x03400",
        GREETING + b"\x04\x07\x05ERROR\xff",
        GREETING + b"\x06" + b"\xff" * 8,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10,
        bytes(range(256)) * 100,
        GREETING[:20],
    ],
    ids=["not let in", "cut off", "endless command", "http", "noise", "nothing more"],
)
@pytest.mark.parametrize("secured", [False, True], ids=["open", "secured"])
def test_whoever_speaks_otherwise_harms_nobody(peers, words, secured):
    """Pass: a peer that claims not to let us in, cuts its words off, or speaks something else is dropped or waited
    for; what others send is taken, also of one that was there before. With a password nothing of it comes in (open,
    libzmq takes it for a peer of ZMTP 1.0, which has no handshake)."""
    where = address()
    settings = {"plain_username": b"anna", "plain_password": b"x"} if secured else {}
    with taker(bind=where, **({"plain": {"users": {"anna": "x"}}} if secured else {})) as taking:
        taking.connect()
        before = peers.push(where, **settings)
        before.send(b"before")
        assert values(taking.take_some(1)) == [b"before"]
        with socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2]))) as stranger:
            with suppress(OSError):
                stranger.sendall(words)
            found = taking.take_rest(0.3)
            assert not (secured and found)
            after = peers.push(where, **settings)
            after.send(b"after")
            wait_for(lambda: b"after" in values(taking.take()))
        before.send(b"again")
        wait_for(lambda: b"again" in values(taking.take()))


def test_heartbeats_give_up_a_peer_that_stands_still(peers):
    """Pass: a peer that has greeted and then says nothing is dropped, with a heartbeat of 0.2 s; one of libzmq's
    that is merely idle stays."""
    where = address()
    with taker(bind=where, heartbeat="200 ms") as taking:
        taking.connect()
        idle = peers.push(where)
        wait_for(lambda: not taking.take(0.02) and taking.receiver.facts()["peers"] == 1)
        with socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2]))) as silent:
            ready = b"\x05READY\x0bSocket-Type" + (4).to_bytes(4, "big") + b"PUSH"
            silent.sendall(GREETING + b"\x04" + bytes([len(ready)]) + ready)
            wait_for(lambda: not taking.take(0.02) and taking.receiver.facts()["peers"] == 2)
            wait_for(lambda: not taking.take(0.02) and taking.receiver.facts()["peers"] == 1)
        idle.send(b"still here")
        assert values(taking.take_some(1)) == [b"still here"]
