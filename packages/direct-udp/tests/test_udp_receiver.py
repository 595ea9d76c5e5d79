"""The receiver: what comes, by whom and when; what the kernel dropped; what is missing; what can't be taken."""

from __future__ import annotations

import random
import socket
import struct
import time
from contextlib import closing

import pytest
from mainstem import PermanentError, TransientError
from mainstem_direct_udp.options import UDPSourceOptions
from mainstem_direct_udp.receiver import UDPReceiver
from mainstem_ingress import loss_of
from pydantic import ValidationError
from udp_peers import free_port

GROUP, OTHER = "239.77.1.2", "239.77.1.3"


@pytest.fixture
def receivers():
    """Makes receivers that listen on the loopback interface."""
    made = []

    def make(port, host="127.0.0.1", cursor=None, **options):
        given = UDPSourceOptions.model_validate({"listen": f"{host}:{port}", **options})
        made.append(UDPReceiver(given, 0, "node"))
        made[-1].connect(cursor)
        return made[-1]

    yield make
    for each in made:
        each.close()


def take(receiver, count, seconds=5.0):
    """Return messages until there are so many, or time is up."""
    found = []
    until = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < until:
        found += receiver.take(0.05)
    return found


def numbered(number, text=b""):
    return struct.pack(">I", number) + text


def test_datagrams_have_their_sender_and_their_time(receivers, senders):
    """Pass: bytes as they were, empty ones too; key, origin, and the kernel's time."""
    port = free_port()
    receiver = receivers(port)
    one, two = senders(port), senders(port)
    before = time.time_ns() // 1000
    one.send(b"a", b"")
    two.send(b"\x00\xff" * 500)
    found = take(receiver, 3)
    assert [(m.key, m.value) for m in found] == [
        (one.name, b"a"),
        (one.name, b""),
        (two.name, b"\x00\xff" * 500),
    ]
    assert {m.origin for m in found} == {f"127.0.0.1:{port}"}
    assert all(before <= m.timestamp <= time.time_ns() // 1000 for m in found)
    assert receiver.facts()["lost"] == 0


def test_groups_are_joined_and_others_are_not(receivers, senders):
    """Pass: what is sent to the group comes, what is sent to another that this machine has joined does not."""
    port = free_port()
    receiver = receivers(port, "0.0.0.0", groups=[GROUP], interface="127.0.0.1")
    elsewhere = receivers(free_port(), "0.0.0.0", groups=[OTHER], interface="lo")
    assert list(elsewhere.take(0.0)) == []
    senders(port, OTHER).send(b"other")
    senders(port, GROUP).send(b"ours")
    assert [m.value for m in take(receiver, 2, 0.5)] == [b"ours"]


def test_two_programs_take_one_group(receivers, senders):
    """Pass: each gets all."""
    port = free_port()
    both = [receivers(port, "0.0.0.0", groups=[GROUP], interface="127.0.0.1") for _ in range(2)]
    senders(port, GROUP).send(b"1", b"2")
    assert [[m.value for m in take(each, 2)] for each in both] == [[b"1", b"2"]] * 2


def test_sources_are_the_only_senders(receivers, senders):
    """Pass: of a group with sources nothing of another sender comes."""
    port = free_port()
    given = {"groups": [GROUP], "interface": "127.0.0.1"}
    theirs = receivers(port, "0.0.0.0", **given, sources=["127.0.0.1"])
    senders(port, GROUP).send(b"a")
    assert [m.value for m in take(theirs, 1)] == [b"a"]
    theirs.close()
    others = receivers(port, "0.0.0.0", **given, sources=["127.0.0.9"])
    senders(port, GROUP).send(b"b")
    assert take(others, 1, 0.5) == []


def test_ipv6(receivers):
    """Pass: a datagram over IPv6 comes; skipped where the machine has none."""
    try:
        sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sender.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"no IPv6: {error}")
    port = free_port()
    receiver = receivers(port, "[::1]")
    with sender:
        sender.sendto(b"six", ("::1", port))
        assert [m.value for m in take(receiver, 1)] == [b"six"]


@pytest.mark.parametrize("told", ["by the next datagram", "while nothing comes"])
def test_what_the_kernel_drops_is_counted_to_the_last_one(receivers, senders, told):
    """Pass: with a small buffer and a reader that waits, what came and what is reported as lost is what was
    sent."""
    port = free_port()
    receiver = receivers(port, receive_buffer="8 KiB")
    sender = senders(port)
    sender.send(*(b"%0500d" % n for n in range(200)))
    sent = 200
    found = take(receiver, 10**9, 0.3) if told == "while nothing comes" else take(receiver, 5)
    if told == "by the next datagram":
        sender.send(b"last")
        sent += 1
    found += take(receiver, 10**9, 0.3)
    losses = [loss for m in found if (loss := loss_of(m))]
    came = [m for m in found if loss_of(m) is None]
    assert 0 < len(came) < sent
    assert sum(loss["count"] for loss in losses) == sent - len(came) == receiver.facts()["lost"]
    assert all(loss["from"] is None and "buffer was full" in loss["reason"] for loss in losses)


def test_numbers_that_do_not_come_are_reported(receivers, senders):
    """Pass: gaps of each sender's own count; what comes late is not reported again; after a restart it goes on
    from what was stored; a datagram without a number is refused."""
    port = free_port()
    given = {"sequence": {"format": "uint32"}}
    receiver = receivers(port, **given)
    one, two = senders(port), senders(port)
    one.send(numbered(1), numbered(2), numbered(5), numbered(4))
    two.send(numbered(70))
    one.send(b"x", numbered(6))
    found = take(receiver, 8)
    (gap,) = [loss for m in found if (loss := loss_of(m))]
    assert (gap["from"], gap["to"], gap["count"]) == ("3", "4", 2)
    (refused,) = [m for m in found if m.refused and not loss_of(m)]
    assert "cut off" in refused.refused
    cursor = next(m.cursor for m in reversed(found) if m.cursor)
    receiver.close()
    receiver = receivers(port, cursor=cursor, **given)
    one.send(numbered(9))
    (loss, message) = take(receiver, 2)
    assert (loss_of(loss)["from"], loss_of(loss)["to"]) == ("7", "8")
    assert message.value == numbered(9)


def test_a_feed_has_one_count_of_all_senders(receivers, senders):
    """Pass: numbers of two senders that follow each other have no gap."""
    port = free_port()
    receiver = receivers(port, sequence={"format": "uint32", "per": "feed"})
    one, two = senders(port), senders(port)
    for number in range(6):
        (one, two)[number % 2].send(numbered(number))
        assert len(take(receiver, 1)) == 1
    assert receiver.facts()["lost"] == 0


def test_a_datagram_that_is_too_large_is_refused(receivers, senders):
    """Pass: with its beginning and the reason; one that just fits is a message."""
    port = free_port()
    receiver = receivers(port, max_datagram=100)
    senders(port).send(b"x" * 100, b"y" * 101, b"z")
    fits, large, last = take(receiver, 3)
    assert (fits.value, fits.refused) == (b"x" * 100, None)
    assert (large.value, "max_datagram" in large.refused) == (b"y" * 100, True)
    assert last.value == b"z"


@pytest.mark.in_turn
def test_any_bytes_are_taken_or_refused(receivers, senders):
    """Pass: 100,000 random datagrams, numbered or not: each is a message, refused, or counted as dropped."""
    port = free_port()
    receiver = receivers(port, receive_buffer="1 MiB", sequence={"format": "uint16", "at": 3})
    dice, sender = random.Random(3), senders(port)
    came = 0
    for _ in range(1000):
        sender.send(*(dice.randbytes(dice.randrange(40)) for _ in range(100)))
        found = take(receiver, 100, 1.0)
        came += sum(loss_of(m) is None for m in found)
    came += sum(loss_of(m) is None for m in take(receiver, 10**9, 0.2))
    assert came == 100_000


def test_nothing_is_taken_while_the_log_has_no_room(receivers, senders):
    """Pass: what comes waits in the kernel."""
    port = free_port()
    receiver = receivers(port)
    receiver.pause()
    senders(port).send(b"a")
    assert list(receiver.take(0.05)) == []
    receiver.resume()
    assert [m.value for m in take(receiver, 1)] == [b"a"]


def test_a_port_that_is_taken_is_waited_for(receivers):
    """Pass: a transient error that says where; so is an address that is not ours."""
    port = free_port()
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as other:
        other.bind(("127.0.0.1", port))
        with pytest.raises(TransientError, match=f"127.0.0.1:{port}"):
            receivers(port)


def test_a_buffer_that_the_kernel_does_not_give_is_an_error(receivers, monkeypatch):
    """Pass: it says what is given and how to raise it."""
    monkeypatch.setattr("mainstem_ingress.datagrams.buffer_of", lambda _: 1000)
    with pytest.raises(PermanentError, match=r"gives 1,000: sysctl -w net\.core\.rmem_max="):
        receivers(free_port(), receive_buffer="1 MiB")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listen": "host:1"}, "expected address and port"),
        ({"listen": "0.0.0.0"}, "expected address and port"),
        ({"groups": ["10.0.0.1"]}, "no multicast group"),
        ({"groups": ["ff15::1"]}, "one version of IP"),
        ({"sources": ["10.0.0.1"]}, "the senders of `groups`"),
        ({"interface": "lo"}, "where `groups` are joined"),
        ({"groups": [GROUP], "sources": ["10.0.0.1"], "interface": "lo"}, "not a name"),
        ({"groups": [GROUP], "receivers": 2}, "given every datagram"),
        ({"sequence": {}, "receivers": 2}, "counts would have gaps"),
        ({"max_datagram": 0}, "greater than 0"),
    ],
)
def test_options_that_can_not_be(given, said):
    """Pass: refused with the reason."""
    with pytest.raises(ValidationError, match=said):
        UDPSourceOptions.model_validate({"listen": "0.0.0.0:1", **given})
