"""The sink `udp`: to an address and to a group, paced; what is too large is refused."""

from __future__ import annotations

import socket
import time

import pytest
from mainstem_direct_udp.options import UDPOptions
from mainstem_direct_udp.sink import UDPSink
from mainstem_testkit.conformance.sender import send_by
from pydantic import ValidationError


@pytest.fixture
def listening():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**21)
        made.settimeout(5)
        yield made


def rows(count):
    return [{"value": b"%d" % n, "_id": n.to_bytes(16, "big")} for n in range(count)]


def taken(made, count):
    return [made.recv(65_535) for _ in range(count)]


def test_datagrams_arrive_and_large_ones_are_refused(listening):
    """Pass: a value is a datagram, an empty one too; one of 70,000 bytes is none."""
    listening.bind(("127.0.0.1", 0))
    sink = UDPSink(UDPOptions(to=f"127.0.0.1:{listening.getsockname()[1]}"))
    given = [*rows(100), {"value": None}, {"value": b"x" * 70_000}, {"value": b"last"}]
    (refused,) = send_by(sink, given)
    assert "larger than a datagram" in refused["reason"]
    assert taken(listening, 102) == [*(b"%d" % n for n in range(100)), b"", b"last"]


def test_a_group_is_sent_to_by_an_interface(listening):
    """Pass: who has joined it there gets it."""
    listening.bind(("239.77.8.9", 0))
    where = socket.inet_aton("239.77.8.9") + socket.inet_aton("127.0.0.1")
    listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, where)
    to = f"239.77.8.9:{listening.getsockname()[1]}"
    assert not send_by(UDPSink(UDPOptions(to=to, interface="127.0.0.1")), rows(3))
    assert taken(listening, 3) == [b"0", b"1", b"2"]


def test_a_pace_is_kept(listening):
    """Pass: 200 datagrams at 1,000 a second take as long as that, and not much longer."""
    listening.bind(("127.0.0.1", 0))
    to = f"127.0.0.1:{listening.getsockname()[1]}"
    began = time.monotonic()
    send_by(UDPSink(UDPOptions(to=to, pace=1000)), rows(200))
    assert time.monotonic() - began > 0.12
    assert len(taken(listening, 200)) == 200


def test_nobody_there_is_no_error():
    """Pass: as UDP is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    assert not send_by(UDPSink(UDPOptions(to=f"127.0.0.1:{port}")), rows(10))


@pytest.mark.parametrize("to", ["there:1", "127.0.0.1", "127.0.0.1:0"])
def test_wrong_addresses_are_told(to):
    """Pass: when the document is read."""
    with pytest.raises(ValidationError):
        UDPOptions(to=to)
