"""Each number of a session once, as a message or as lost, whatever sender, server and kills do."""

from __future__ import annotations

import random
import socket
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem_direct_moldudp64.numbers import Numbers
from mainstem_direct_moldudp64.options import MoldUDP64SourceOptions
from mainstem_direct_moldudp64.packets import Packet, PacketError, read, written
from mainstem_direct_moldudp64.receiver import MoldUDP64Receiver
from mainstem_ingress.losses import loss_of
from mainstem_testkit.server import free_port
from mold_peers import RequestServer, Sender, settle
from pydantic import ValidationError


@contextmanager
def receiver(ports, servers=(), cursor=None, **more):
    feeds = [{"listen": f"127.0.0.1:{port}"} for port in ports]
    fast = {"ask_every": "20 ms", "recover_within": "400 ms"}
    given_ = {"feeds": feeds, "servers": [each.address for each in servers], **fast, **more}
    made = MoldUDP64Receiver(MoldUDP64SourceOptions.model_validate(given_), 0, "node")
    made.connect(cursor)
    try:
        yield made
    finally:
        made.close()


def rows(found):
    """Return what came: by session, each message by its number, and the numbers that are lost."""
    messages, gone = {}, {}
    for each in found:
        if (loss := loss_of(each)) is not None:
            session = each.extra[0]
            first, last = int(loss["from"]), int(loss["to"] or loss["from"])
            assert loss["count"] in (None, last - first + 1)
            if loss["count"]:
                gone.setdefault(session, []).extend(range(first, last + 1))
        elif each.refused is None:
            session, position = each.extra
            messages.setdefault(session, []).append((int(position), each.value))
    return messages, gone


def numbers_of(found, session):
    messages, gone = rows(found)
    return [n for n, _ in messages.get(session, ())], gone.get(session, [])


def texts(count, begin=1):
    return [b"message %d" % n for n in range(begin, begin + count)]


@pytest.mark.parametrize("seed", range(4))
def test_each_number_comes_once_whatever_goes_wrong(seed):
    """Two feeds and two servers that drop, double, reorder and cut off, and have not all. Pass: messages and gaps
    together are each number once, messages in order and as they were sent.
    """
    ports = [free_port(), free_port()]
    sender = Sender("NOISE", ports, seed)
    noise = random.Random(seed)
    forgets = set(noise.sample(range(1, 2001), 20))
    servers = [RequestServer(sender, forgets=forgets, seed=seed + n) for n in range(2)]
    with servers[0], servers[1], receiver(ports, servers, start="earliest") as made:
        found = []
        for at in range(0, 2000, 100):
            sender.send(texts(100, at + 1), per_packet=noise.randrange(1, 9))
            found += made.take(0.01)
        sender.heartbeat(ends=True)

        def whole(more):
            came, gone = numbers_of(found + more, "NOISE")
            return len(came) + len(gone) >= 2000

        found += settle(made, whole)
        assert made.take(0.1) == []
    came, gone = numbers_of(found, "NOISE")
    assert sorted(came + gone) == list(range(1, 2001))
    assert came == sorted(came)
    assert set(gone) <= forgets
    messages, _ = rows(found)
    assert all(value == b"message %d" % n for n, value in messages["NOISE"])


def test_one_feed_has_what_the_other_lacks():
    """Pass: without a server, and nothing is told as lost."""
    ports = [free_port(), free_port()]
    a, b = Sender("AB", ports[:1]), Sender("AB", ports[1:])
    with receiver(ports, start="latest") as made:
        for at in range(1, 101):
            for feed, lacks in ((a, at % 3 == 0), (b, at % 3 == 1)):
                if lacks:
                    feed.sent += texts(1, at)
                else:
                    feed.send(texts(1, at))
        found = settle(made, lambda more: len(more) >= 100)
    assert numbers_of(found, "AB") == (list(range(1, 101)), [])


def test_a_gap_that_nobody_fills_is_told_once():
    """Pass: with its numbers, its session and the reason, and what comes after it goes on."""
    port = free_port()
    sender = Sender("GAP", [port])
    with receiver([port]) as made:
        sender.send(texts(3))
        sender.sent += texts(4, 4)  # which nobody sent
        sender.send(texts(2, 8))
        found = settle(made, lambda more: len(more) >= 6)
    (loss,) = filter(None, map(loss_of, found))
    assert (int(loss["from"]), int(loss["to"]), loss["count"]) == (4, 7, 4)
    assert "neither a feed nor a re-request server" in loss["reason"]
    assert [n for n, _ in rows(found)[0]["GAP"]] == [1, 2, 3, 8, 9]


def test_a_heartbeat_tells_what_is_missing_at_the_end():
    """Pass: the last messages are asked for, though nothing comes after them."""
    port = free_port()
    sender = Sender("END", [port])
    with RequestServer(sender) as server, receiver([port], [server]) as made:
        sender.send(texts(5))
        sender.sent += texts(5, 6)
        sender.heartbeat()
        found = settle(made, lambda more: len(more) >= 10)
    assert numbers_of(found, "END") == (list(range(1, 11)), [])
    assert server.requests


def test_it_goes_on_where_it_was():
    """Pass: after a restart it asks for what was not stored, and for what came meanwhile; nothing comes twice."""
    port = free_port()
    sender = Sender("RESTART", [port])
    with RequestServer(sender) as server:
        with receiver([port], [server]) as made:
            sender.send(texts(20))
            first = settle(made, lambda more: len(more) >= 20)
            cursor = made.cursor()
            sender.send(texts(10, 21))
            settle(made, lambda more: len(more) >= 10)  # taken, and not stored
        sender.sent += texts(10, 31)  # sent while it was down
        with receiver([port], [server], cursor) as made:
            sender.send(texts(5, 41))
            second = settle(made, lambda more: len(more) >= 25)
    assert numbers_of(first + second, "RESTART") == (list(range(1, 46)), [])


def test_sessions_follow_each_other():
    """Pass: the new one waits for what is missing of the old one, and begins with its first message; late packets of
    the old one are none; an end that did not come is told.
    """
    port = free_port()
    old, new, third = (Sender(name, [port]) for name in ("OLD", "NEW", "THIRD"))
    with RequestServer(old, new, third) as server, receiver([port], [server]) as made:
        old.send(texts(3))
        old.sent += texts(2, 4)
        old.heartbeat(ends=True)
        new.sent += texts(2)
        new.send(texts(3, 3))
        found = settle(made, lambda more: len(more) >= 10)
        old.send(texts(1, 6))
        third.send(texts(2))
        found += settle(made, lambda more: len(more) >= 3)
        cursor = made.cursor()
    messages, _ = rows(found)
    assert {name: [n for n, _ in each] for name, each in messages.items()} == {
        "OLD": [1, 2, 3, 4, 5], "NEW": [1, 2, 3, 4, 5], "THIRD": [1, 2],
    }  # fmt: skip
    assert [each.extra[0] for each in found[:10]] == ["OLD"] * 5 + ["NEW"] * 5
    (loss,) = filter(None, map(loss_of, found))
    assert "the end of this one did not come" in loss["reason"]
    with receiver([port], (), cursor) as made:
        new.send(texts(1, 6))
        third.send(texts(1, 3))
        assert [m.extra[0] for m in settle(made, bool)] == ["THIRD"]


def test_an_end_that_came_is_known_after_a_restart():
    """Pass: the next session begins without a row for what nobody knows."""
    port = free_port()
    old, new = Sender("OLD", [port]), Sender("NEW", [port])
    with receiver([port]) as made:
        old.send(texts(2))
        old.heartbeat(ends=True)
        settle(made, lambda more: len(more) >= 2)
        made.take(0.05)
        cursor = made.cursor()
    with receiver([port], (), cursor) as made:
        new.send(texts(2))
        found = settle(made, lambda more: len(more) >= 2)
    assert [loss_of(m) for m in found] == [None, None]


def test_many_gaps_are_waited_for_at_once():
    """Five of them. Pass: all are told by one look, and a pause is no part of the time that is waited."""
    port = free_port()
    sender = Sender("MANY", [port])
    with RequestServer(sender) as server, receiver([port], [server]) as made:
        server.forgets |= {3, 6, 9, 12, 15}
        for n in range(1, 17):
            if n % 3:
                sender.send(texts(1, n))
            else:
                sender.sent += texts(1, n)
        looks, count, until = [], 0, time.monotonic() + 10
        while count < 16 and time.monotonic() < until:
            looks.append(list(made.take(0.02)))
            count += len(looks[-1])
        (told,) = [look for look in looks if any(map(loss_of, look))]
        assert numbers_of(told, "MANY")[1] == [3, 6, 9, 12, 15]
        server.forgets |= {17, 18}
        sender.sent += texts(2, 17)
        sender.send(texts(1, 19))
        settle(made, lambda _: made.facts()["held"], seconds=5)
        made.pause()
        time.sleep(0.6)
        assert made.take(0.01) == []
        server.forgets.clear()
        made.resume()
        found = settle(made, lambda more: len(more) >= 3)
    assert numbers_of(found, "MANY") == ([17, 18, 19], [])


@pytest.mark.in_turn
def test_what_is_behind_a_lost_message_is_not_lost_with_it():
    """Five thousand are missing, two of them nobody has, and one of two servers says nothing. Pass: these two are told."""
    port = free_port()
    sender = Sender("LONG", [port])
    sender.sent += texts(5000, 1)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
        RequestServer(sender) as server,
    ):
        silent.bind(("127.0.0.1", 0))
        server.forgets |= {3, 2000}
        host, number = silent.getsockname()
        both = [SimpleNamespace(address=f"{host}:{number}"), server]
        patient = {"ask_every": "100 ms", "recover_within": "12 s"}
        with receiver([port], both, start="earliest", **patient) as made:
            sender.send(texts(1, 5001))
            found = settle(made, lambda found: len(found) >= 5001, seconds=60)
    assert numbers_of(found, "LONG") == (
        [n for n in range(1, 5002) if n not in (3, 2000)], [3, 2000],
    )  # fmt: skip
    assert len(server.requests) < 2000


def test_a_stray_packet_ends_no_session():
    """Pass: of another session, while one goes on; what comes of that one is given, and nothing is told as lost."""
    port = free_port()
    sender, stray = Sender("LIVE", [port]), Sender("STRAY", [port])
    with receiver([port]) as made:
        found = []
        for n in range(1, 31):
            sender.send(texts(1, n))
            if n == 5:
                stray.heartbeat()
            found += settle(made, bool)
            time.sleep(0.02)
    assert numbers_of(found, "LIVE") == (list(range(1, 31)), [])


def test_stray_sessions_neither_hold_up_the_next_one_nor_take_memory():
    """Pass: heartbeats of sessions that are none begin nothing, and of others there are so many at most; the next
    session comes at once, with nothing told as lost."""
    port = free_port()
    day, after = Sender("DAY1", [port]), Sender("DAY2", [port])
    with receiver([port], recover_within="1 minute") as made:
        day.send(texts(2))
        found = settle(made, lambda more: len(more) >= 2)
        for n in range(40):
            Sender(f"STRAY{n}", [port]).heartbeat()
        for _ in range(20):
            assert len(made.take(0.02)) == 0
        assert len(made._sessions) == 1
        day.heartbeat(ends=True)
        after.send(texts(2))
        found += settle(made, lambda more: len(more) >= 2)
        for n in range(40):
            Sender(f"OTHER{n}", [port]).send(texts(1))
        for _ in range(20):
            made.take(0.02)
        assert len(made._sessions) <= 16
    assert [m.extra[0] for m in found] == ["DAY1", "DAY1", "DAY2", "DAY2"]


def test_what_waits_is_bounded():
    """Pass: a gap is given up when too many messages wait for it."""
    port = free_port()
    sender = Sender("FULL", [port])
    with receiver([port], hold=50, recover_within="1 minute") as made:
        sender.send(texts(1))
        sender.sent += texts(1, 2)
        sender.send(texts(60, 3))
        found = settle(made, lambda more: len(more) >= 62)
    assert any("hold" in loss["reason"] for loss in filter(None, map(loss_of, found)))


def test_random_bytes_are_refused():
    """A hundred thousand of them, and packets that are cut off. Pass: no error, and what is one comes."""
    noise = random.Random(3)
    whole = written(Packet(b"S         ", 1, [b"a", b"bc"]))
    for _ in range(100_000):
        data = noise.randbytes(noise.randrange(60))
        with suppress(PacketError):
            assert written(read(data)) == data
    for size in range(len(whole)):
        with pytest.raises(PacketError):
            read(whole[:size])
    port = free_port()
    with receiver([port]) as made:
        sender = Sender("S", [port])
        sender.socket.sendto(b"noise", ("127.0.0.1", port))
        sender.send(texts(1))
        found = settle(made, lambda more: len(more) >= 2)
        bad, good = sorted(found, key=lambda message: message.refused is None)
    assert "no packet of MoldUDP64" in bad.refused
    assert good.value == b"message 1"


@given(
    packets=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 6)), max_size=30),
    give_ups=st.sets(st.integers(0, 30)),
)
def test_numbers_are_each_given_once(packets, give_ups):
    """Any packets in any order, with gaps that are given up. Pass: each number once, in order, none but known ones."""
    made, given_, known = Numbers(1), [], 1
    for turn, (first, count) in enumerate(packets):
        begin = made.next
        found = made.see(first, [b"%d" % n for n in range(first, first + count)])
        given_ += [(begin + at, value) for at, value in enumerate(found)]
        known = max(known, first + count)
        if turn in give_ups and made.incomplete:
            gap, found = made.give_up()
            given_ += [(n, None) for n in range(*gap)]
            given_ += [(gap.end + at, value) for at, value in enumerate(found)]
    while made.incomplete:
        gap, found = made.give_up()
        given_ += [(n, None) for n in range(*gap)]
        given_ += [(gap.end + at, value) for at, value in enumerate(found)]
    assert [n for n, _ in given_] == list(range(1, known))
    assert all(value in (None, b"%d" % n) for n, value in given_)
    assert made.held == 0


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"feeds": []}, "at least 1"),
        ({"servers": ["there"]}, "expected address and port"),
        ({"start": "earliest"}, "needs `servers`"),
        ({"receivers": 2}, "expected one of"),
        ({"feeds": [{"listen": "0.0.0.0:1", "groups": ["10.0.0.1"]}]}, "no multicast group"),
    ],
)
def test_wrong_options_are_told(given_, told):
    """Pass: when the document is read."""
    with pytest.raises(ValidationError, match=told):
        MoldUDP64SourceOptions.model_validate({"feeds": [{"listen": "0.0.0.0:1"}], **given_})
