"""The receiver beside bare pyzmq peers: what it takes, what it refuses, whom it lets in."""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing, contextmanager, suppress
from itertools import count, islice
from pathlib import Path

import pytest
import zmq
from mainstem import PermanentError, TransientError
from mainstem.contracts.secrets import secrets_in
from mainstem_direct_zeromq.frames import SEQUENCE
from mainstem_ingress import loss_of
from mainstem_testkit import wait_for
from mainstem_testkit.processes import Resources
from mainstem_testkit.proxy import FaultProxy
from mainstem_testkit.server import free_port
from zeromq_peers import GREETING, address, greeting, source, taker

MIB = 2**20


def values(messages):
    return [message.value for message in messages]


def keys():
    """A key pair of CURVE, as text."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


# -- addresses and kinds of socket --------------------------------------------------------------


@pytest.mark.parametrize("transport", ["tcp", "ipv6", "ipc", "abstract"])
@pytest.mark.parametrize("binds", [True, False])
def test_push_to_pull_over_each_transport_whoever_binds(peers, tmp_path, transport, binds):
    """Pass: all messages, in their order."""
    where = {
        "tcp": address(),
        "ipv6": f"tcp://[::1]:{free_port()}",
        "ipc": f"ipc://{tmp_path}/socket",
        "abstract": f"ipc://@{tmp_path.name}-{binds}",
    }[transport]
    with taker(**{"bind" if binds else "connect": where}) as taking:
        taking.connect()
        push = peers.push(**{"connect" if binds else "bind": where}, ipv6=transport == "ipv6")
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
        wait_for(lambda: not taking.take(0.01) and taking.receiver.facts()["peers"] == 4)


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


def test_peers_are_those_whose_handshake_is_over(peers):
    """Pass: one of another kind, which comes and is sent away again and again, changes nothing."""
    where = address()
    with taker(bind=where) as taking:
        taking.connect()
        push = peers.push(where)
        push.send(b"here")
        taking.take_some(1)
        with closing(peers.socket(zmq.PUB, connect=where)):
            wait_for(lambda: not taking.take(0.05) and taking.receiver.facts()["trouble"])
            for _ in range(5):
                taking.take(0.05)
                assert taking.receiver.facts()["peers"] == 1
        push.close()
        wait_for(lambda: not taking.take(0.05) and taking.receiver.facts()["peers"] == 0)


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


def test_headers_that_would_break_the_receiver_are_refused(peers):
    """Pass: nested too deeply to be read, or to be written, and larger than 1 MB: each is refused, and what others
    sent before and after comes."""
    where = address()
    with taker(bind=where, frames=["headers", "value"]) as taking:
        taking.connect()
        push = peers.push(where)
        most = deepest()
        deep = [b'{"a":' + b"[" * n + b"]" * n + b"}" for n in range(most - 30, most + 100)]
        large = b'{"a":"' + b"x" * MIB + b'"}'
        for headers in (b"", *deep, large, b""):
            push.send_multipart([headers, b"v"])
        found = taking.take_some(len(deep) + 3)
        assert [found[0].refused, found[-1].refused] == [None, None]
        reasons = {(message.refused or "").partition(";")[0] for message in found[1:-1]}
        assert "its headers are no JSON object" in reasons
        assert "its headers have more than 1,048,576 bytes" in found[-2].refused


def deepest():
    """How deeply nested JSON may be that Python reads."""
    with suppress(RecursionError):
        for depth in count(100, 5):
            json.loads(b"[" * depth + b"]" * depth)
    return depth


def test_a_frame_that_is_too_large_cuts_its_peer_off(peers):
    """Pass: 100 MB never come into memory; the next message of the peer, and of others, is taken."""
    where = address()
    with taker(bind=where, max_frame="1 MB") as taking:
        taking.connect()
        bad, good = peers.push(where), peers.push(where)
        bad.send(b"first")
        good.send(b"beside")
        assert sorted(values(taking.take_some(2))) == [b"beside", b"first"]
        large = bytes(100_000_000)
        before = memory()
        bad.send(large, copy=False)
        bad.send(b"afterwards")
        good.send(b"beside again")
        found = values(taking.take_some(2))
        assert sorted(found) == [b"afterwards", b"beside again"]
        assert memory() - before < 50_000_000


def memory():
    """The most memory that this process had since this was asked last, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    most = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return most


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


@pytest.mark.parametrize("frames", [["value"], ["key", "value"]])
def test_a_group_is_no_larger_than_a_segment_and_one_message(peers, frames):
    """Pass: small messages, then large ones, then some of two or three frames among them: no group has more bytes
    than a segment before its last message, whatever came before; all come in order."""
    where = address()
    with taker(bind=where, frames=frames, segment_bytes="100 KB") as taking:
        taking.connect()
        push = peers.push(where)
        sizes = [10] * 130 + [300_000] * 30 + [10] * 10 + [70_000] * 60
        for number, size in enumerate(sizes):
            value = b"%06d" % number + b"x" * size
            several = number % 7 == 0
            push.send_multipart([b"k"] * (len(frames) - 1) + [value] + [b"?", b"!"] * several)
        time.sleep(0.2)  # so that they wait here
        found = []
        while len(found) < len(sizes):
            group = taking.take()
            assert sum(len(message.value) for message in group[:-1]) <= 100_000
            taking.acknowledge(group)
            found += group
        for number, (message, size) in enumerate(zip(found, sizes, strict=True)):
            if number % 7:
                assert (message.value[:6], len(message.value)) == (b"%06d" % number, 6 + size)
                assert message.refused is None
            else:
                assert f"it has {len(frames) + 2} frames" in message.refused
                start = b"1:k," * (len(frames) - 1) + b"%d:%06d" % (6 + size, number)
                assert message.value.startswith(start)


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.in_turn
def test_a_pause_loses_nothing(peers, binds):
    """Pass: with peers that are held back for longer than the kernel waits before it asks for them: all come, in
    order, over the same connection."""
    where = address()
    ours, theirs = ("bind", "connect") if binds else ("connect", "bind")
    given = {ours: where, "keepalive": "1 s", "high_water_mark": 50, "socket_buffer": "16 KB"}
    with taker(**given) as taking:
        taking.connect()
        push = peers.push(**{theirs: where}, sndhwm=50, sndbuf=16_000)
        push.send(b"%06d" % 0)
        found = taking.take_some(1)
        taking.acknowledge(found)
        taking.pause()
        sent = 1
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            with suppress(zmq.Again):
                push.send(b"%06d" % sent + b"x" * 10_000, zmq.NOBLOCK)
                sent += 1
            assert taking.take(0.01) == []
            assert taking.receiver.facts()["peers"] == 1
        taking.resume()
        while len(found) < sent:
            group = taking.take()
            taking.acknowledge(group)
            found += group
        assert [int(value[:6]) for value in values(found)] == list(range(sent))
        assert 10 < sent < 300


@pytest.mark.parametrize(("keepalive", "timer"), [("1 s", "02"), ("0 s", "00")])
@pytest.mark.parametrize("binds", [True, False])
def test_the_kernel_asks_for_peers_that_are_silent(peers, binds, keepalive, timer):
    """Pass: its table of connections has a keepalive timer for ours, and none when told so."""
    where = address()
    port = f"{int(where.rpartition(':')[2]):04X}"
    ours, theirs = ("bind", "connect") if binds else ("connect", "bind")
    with taker(**{ours: where}, keepalive=keepalive) as taking:
        taking.connect()
        peers.push(**{theirs: where})
        wait_for(lambda: not taking.take(0.02) and taking.receiver.facts()["peers"] == 1)

        def timers():
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            side = 1 if binds else 2  # whose address has the port: ours, or the far side's
            return {row[5][:2] for row in rows if row[side].endswith(f":{port}") and row[3] == "01"}

        # While something is unconfirmed, the timer is another one.
        wait_for(lambda: timers() == {timer}, 10)


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
        gap = loss_of(found[3])
        assert (gap["from"], gap["to"], gap["count"]) == ("3", "4", 2)
        assert "of a go from 2 to 5" in gap["reason"]
        assert found[3].origin == "a"
        assert taking.receiver.facts()["lost"] == 2
        taking.close()
        # The cursor of what was stored last is where counting goes on.
        taking.connect(found[-1].cursor)
        push.send_multipart([b"b", (9).to_bytes(8, "big"), b"9"])
        lost, message = taking.take_some(2)
        assert loss_of(lost)["count"] == 6
        assert message.value == b"9"


def test_numbers_in_a_lone_value_are_counted(peers):
    """Pass: frames of one value that carries the number: 1 2 7 8 give one row for 3 to 6, before the 7."""
    where = address()
    sequence = {"frame": "value", "format": "digits", "per": []}
    with taker(bind=where, frames=["value"], sequence=sequence) as taking:
        taking.connect()
        push = peers.push(where)
        for number in (1, 2, 7, 8):
            push.send(b"%d" % number)
        found = taking.take_some(5)
        assert values(found) == [b"1", b"2", None, b"7", b"8"]
        gap = loss_of(found[2])
        assert (gap["from"], gap["to"], gap["count"]) == ("3", "6", 4)
        assert taking.receiver.facts()["lost"] == 4
        assert json.loads(found[-1].cursor)


@contextmanager
def counting():
    """A receiver that looks for numbers, connected, behind a network that can be broken."""
    with (
        FaultProxy(free_port()) as proxy,
        taker(
            bind=f"tcp://127.0.0.1:{proxy._target}",
            frames=["sequence", "value"],
            sequence={"per": []},
        ) as taking,
    ):
        taking.connect()
        yield proxy, taking


@pytest.mark.in_turn
def test_a_peer_that_comes_again_while_its_messages_wait(peers):
    """Pass: 300 messages wait here when the connection breaks, 300 more come over the next one and mix with them: all
    come, one row tells what was missing when the second half began, and in the end nothing is."""
    with counting() as (proxy, taking):
        push = peers.push(f"tcp://127.0.0.1:{proxy.port}", sndhwm=1000)
        numbers = iter(range(10_000))

        def send(count):
            for number in islice(numbers, count):
                push.send_multipart([number.to_bytes(8, "big"), b"%d" % number])

        send(1)
        found = taking.take_some(1)
        taking.acknowledge(found)
        taking.pause()
        send(300)
        time.sleep(0.3)  # on their way, and here
        proxy.cut()
        wait_for(lambda: not taking.take(0.02) and proxy.connections == 2)
        send(300)
        time.sleep(0.3)
        taking.resume()
        found += taking.take_rest(0.5)
        came = [int(message.value) for message in found if message.value is not None]
        assert came != sorted(came)
        assert sorted(came) == list(range(601))
        assert len(found) - len(came) == 1
        assert taking.receiver.facts()["lost"] == 0


def test_a_connection_that_breaks_loses_what_is_on_its_way_and_it_is_told(peers):
    """Pass: the network swallows 20 messages and the connection breaks: those are missing, and the gap that is told
    is they; what was stored and what is sent later comes."""
    with counting() as (proxy, taking):
        push = peers.push(f"tcp://127.0.0.1:{proxy.port}")

        def send(first, last):
            for number in range(first, last):
                push.send_multipart([number.to_bytes(8, "big"), b"%d" % number])

        send(0, 10)
        assert len(taking.take_some(10)) == 10
        proxy.blackhole()
        send(10, 30)
        assert taking.take_rest(0.5) == []
        proxy.heal()
        proxy.cut()
        wait_for(lambda: not taking.take(0.02) and proxy.connections == 2)
        send(30, 40)
        gap, *found = taking.take_some(11)
        assert [int(value) for value in values(found)] == list(range(30, 40))
        told = loss_of(gap)
        assert (told["from"], told["to"], told["count"]) == ("10", "29", 20)
        assert taking.receiver.facts()["lost"] == 20


def test_what_pub_drops_for_a_slow_subscriber_is_told(peers):
    """Pass: a PUB peer, which does not wait, drops messages for us while we stand still; the numbers that the gaps
    name are those that did not come, all of them and no others."""
    where = address()
    given = {"socket": "sub", "high_water_mark": 20, "socket_buffer": "16 KB"}
    with taker(bind=where, frames=["topic", "sequence", "value"], **given) as taking:
        taking.connect()
        pub = peers.socket(zmq.XPUB, connect=where, sndhwm=20, sndbuf=16_000)
        wait_for(lambda: not taking.take(0.02) and pub.poll(0))
        assert pub.recv() == b"\x01"
        found = []

        def send(first, last):
            for number in range(first, last):
                pub.send_multipart([b"t", number.to_bytes(8, "big"), b"x" * 10_000])

        def take():
            group = taking.take(0.05)
            taking.acknowledge([m for m in group if m.value is not None])
            found.extend(group)
            return group

        number = 0
        for _ in range(3):
            taking.pause()
            send(number, number + 500)
            number += 500
            taking.resume()
            while take():
                pass
        # One that is not dropped shows what was dropped before it.
        while not came(found) or came(found)[-1] < 1500:
            send(number, number + 1)
            number += 1
            take()
        told = set()
        for message in found:
            if message.value is None:
                gap = loss_of(message)
                told |= set(range(int(gap["from"]), int(gap["to"]) + 1))
        assert told == set(range(came(found)[-1])) - set(came(found))
        assert len(told) > 500
        assert taking.receiver.facts()["lost"] == len(told)


def came(found):
    """The numbers of messages."""
    return [int.from_bytes(dict(message.headers)[SEQUENCE]) for message in found if message.value]


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


@pytest.mark.in_turn
def test_curve_lets_in_the_keys_that_it_knows_and_nobody_else(peers):
    """Pass: a known key gets in; an unknown one does not, and is counted; one that has another server's key, PLAIN
    and nothing do not."""
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
        wait_for(lambda: not taking.take(0.05) and taking.receiver.facts()["trouble"])
        assert taking.receiver.facts()["peers"] == 0
    push.sndtimeo = 20_000
    for options in ({"secret_key": own_secret}, {}):
        with taker(connect=where, curve={"server_key": server, **options}) as taking:
            taking.connect()
            taken = []

            def came(taking=taking, taken=taken):
                push.send(b"for you")  # perhaps to the one before, who has just gone
                taken += taking.take(0.2)
                return taken

            wait_for(came)
            assert set(values(taken)) == {b"for you"}


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
    from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions

    given = {"bind": [where, inner], "plain": {"users": users}}
    link = Link(ZeroMQSinkOptions.model_validate(given), zmq.PUSH, {})
    try:
        right = {"user": "anna", "password": "open sesame"}
        with taker(connect=where, plain=right) as taking:
            taking.connect()
            wait_for(lambda: link.wait(0.01, zmq.POLLOUT) or taking.take(0) is None)
            link.socket.send(b"hello")
            assert values(taking.take_some(1)) == [b"hello"]
        wrong = {"user": "anna", "password": "hunter2"}
        with taker(connect=inner, plain=wrong) as taking:
            taking.connect()

            def refused():
                link.wait(0.01, 0)
                try:
                    taking.take(0.01)
                except PermanentError as error:
                    return str(error)
                return ""

            told = wait_for(refused)
            assert inner in told
            assert "does not let us in" in told
            assert "hunter2" not in told
    finally:
        link.close()


def test_what_was_taken_is_stored_before_the_run_ends(peers):
    """Pass: one of two peers sends, the other refuses us: the run is told to end when what was taken is stored, not
    before, and nothing is taken meanwhile."""
    from mainstem_direct_zeromq.link import Link
    from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions

    good, bad = address(), address()
    given = {"bind": bad, "plain": {"users": {"anna": "open sesame"}}}
    door = Link(ZeroMQSinkOptions.model_validate(given), zmq.PUSH, {})
    try:
        wrong = {"user": "anna", "password": "hunter2"}
        with taker(connect=[good, bad], plain=wrong) as taking:
            taking.connect()
            given = {"bind": good, "plain": {"users": {"anna": "hunter2"}}}
            sender = Link(ZeroMQSinkOptions.model_validate(given), zmq.PUSH, {})
            try:
                wait_for(lambda: sender.wait(0.01, zmq.POLLOUT) or taking.take(0) is None)
                sender.socket.send(b"taken")
                found = taking.take_some(1)
                link = taking.receiver._link
                wait_for(lambda: door.wait(0.01, 0) or taking.take(0.01) or link.locked_out)
                sender.socket.send(b"too late")
                assert taking.take_rest(0.3) == []
                taking.acknowledge(found)
                with pytest.raises(PermanentError, match="does not let us in"):
                    taking.take()
            finally:
                sender.close()
    finally:
        door.close()


def test_strangers_do_not_keep_it_from_closing(peers):
    """Pass: 1,500 come and go while nobody attends, as in a sink that waits for its rows; it then takes what is there,
    and closes."""
    where = address()
    with taker(bind=where) as taking:
        taking.connect()
        push = peers.push(where)
        push.send(b"before")
        assert values(taking.take_some(1)) == [b"before"]
        wrong = GREETING[:12] + b"WRONG".ljust(20, b"\0") + GREETING[32:]
        for _ in range(1500):
            with socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2]))) as stranger:
                stranger.settimeout(5)
                with suppress(OSError):
                    stranger.sendall(wrong)
                    while stranger.recv(100):
                        pass
        push.send(b"after")
        wait_for(lambda: taking.receiver._link.socket.poll(0))
        taking.close()


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
            with taker(bind=[where, wrong], plain=plain) as taking, pytest.raises(PermanentError):
                taking.connect()

    once()
    before = Resources.now()
    for _ in range(6):
        once()
    wait_for(lambda: not Resources.now().grown(before, by=3), 10)


# -- errors -------------------------------------------------------------------------------------


def test_an_address_that_somebody_has_is_waited_for(peers):
    """Pass: `TransientError` with the address while it is taken, and none afterwards."""
    where = address()
    other = peers.socket(zmq.PULL, bind=where)
    with taker(bind=where) as taking:
        with pytest.raises(TransientError, match=f"can't bind {where}: Address already in use"):
            taking.connect()
        taking.close()
        other.close()
        taking.reconnect()


def test_a_path_that_somebody_has_is_waited_for(peers, tmp_path):
    """Pass: one at which somebody listens is left to him; one that a killed process left is taken over; a file that
    is no socket is kept, and ends the run."""
    path = tmp_path / "socket"
    where = f"ipc://{path}"
    with taker(bind=where) as first, taker(bind=where) as second:
        first.connect()
        with pytest.raises(TransientError, match=f"can't bind {where}: Address already in use"):
            second.connect()
        peers.push(where).send(b"still mine")
        assert values(first.take_some(1)) == [b"still mine"]
        first.close()
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        assert path.exists()
        second.reconnect()
        peers.push(where).send(b"now mine")
        assert values(second.take_some(1)) == [b"now mine"]
        second.close()
    path.unlink(missing_ok=True)
    path.write_text("precious")
    with (
        taker(bind=where) as taking,
        pytest.raises(PermanentError, match="a file that is no socket"),
    ):
        taking.connect()
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    "where",
    ["tcp://192.0.2.1:5555", "tcp://no-such-interface:5555", "ipc:///no/such/folder/socket"],
)
def test_an_address_that_can_never_be_bound_ends_the_run(where):
    """Pass: `PermanentError`, with the address."""
    with taker(bind=where) as taking, pytest.raises(PermanentError, match=f"can't bind {where}"):
        taking.connect()


def test_no_secret_is_in_what_is_told():
    """Pass: options print without keys and passwords; the suites look for the same texts."""
    _, secret = keys()
    for options in (
        {"curve": {"secret_key": secret, "clients": "any"}},
        {"plain": {"user": "u", "password": "hunter2"}},
        {"plain": {"users": {"u": "hunter2"}}},
    ):
        made = source(bind=address(), **options)
        shown = f"{made.options!r} {made.options} {made.capabilities} {made.options.model_dump()}"
        assert "hunter2" not in shown
        assert secret not in shown
        assert {"hunter2", secret} & set(secrets_in(made.options))


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
            silent.sendall(greeting(b"PUSH"))
            wait_for(lambda: not taking.take(0.02) and taking.receiver.facts()["peers"] == 2)
            wait_for(lambda: not taking.take(0.02) and taking.receiver.facts()["peers"] == 1)
        idle.send(b"still here")
        assert values(taking.take_some(1)) == [b"still here"]
