"""The fault proxy: each fault seen by a client, with a server that echoes lines."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.server.seen.append(line)  # type: ignore[attr-defined]
            self.wfile.write(line)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture
def echo() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Echo)
    server.seen = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(echo, fault_proxy):
    return fault_proxy(echo.server_address[1])


def connect(proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=2)


def say(connection: socket.socket, line: bytes = b"hello\n") -> bytes:
    """Say a line and return the answer; the end of the connection is a ConnectionError."""
    connection.sendall(line)
    answer = connection.makefile("rb").readline()
    if not answer:
        raise ConnectionResetError
    return answer


def test_all_passes_until_told_else(proxy):
    """Pass: what is said comes back, on two connections, of any size."""
    with connect(proxy) as one, connect(proxy) as other:
        assert (say(one), say(other)) == (b"hello\n", b"hello\n")
        long = b"x" * 1_000_000 + b"\n"
        assert say(one, long) == long
    assert proxy.connections == 2


def test_a_delay_holds_back_both_directions(proxy):
    """Pass: an answer takes twice the delay; without it no more."""
    with connect(proxy) as client:
        proxy.delay(0.2)
        began = time.monotonic()
        assert say(client) == b"hello\n"
        assert time.monotonic() - began >= 0.4
        proxy.heal()
        assert say(client) == b"hello\n"


@pytest.mark.in_turn
def test_a_throttle_limits_bytes_per_second(proxy):
    """Pass: 50,000 bytes at 100,000 a second take half a second at least."""
    with connect(proxy) as client:
        proxy.throttle(100_000)
        began = time.monotonic()
        say(client, b"x" * 49_999 + b"\n")
        assert time.monotonic() - began >= 0.5


def test_a_cut_ends_open_connections_and_lets_new_ones_in(proxy):
    """Pass: the client sees its connection end; the next one works."""
    with connect(proxy) as client:
        assert say(client) == b"hello\n"
        proxy.cut()
        with pytest.raises(ConnectionError):
            say(client)
    with connect(proxy) as client:
        assert say(client) == b"hello\n"


def test_a_black_hole_takes_all_and_gives_nothing(proxy, echo):
    """Pass: no answer and no end; the server has seen nothing."""
    with connect(proxy) as client:
        assert say(client) == b"hello\n"
        proxy.blackhole()
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            say(client, b"lost\n")
        assert b"lost\n" not in echo.seen


def test_a_dropped_answer_leaves_the_deed_done(proxy, echo):
    """Pass: the second answer never comes, though the server has done what was asked."""
    with connect(proxy) as client:
        proxy.drop_answer(2)
        assert say(client, b"one\n") == b"one\n"
        with pytest.raises(ConnectionError):
            say(client, b"two\n")
    assert echo.seen == [b"one\n", b"two\n"]
    with connect(proxy) as client:
        assert say(client) == b"hello\n"


def test_an_answer_is_noise_once(proxy, echo):
    """Pass: the second one, as long as it was; then the connection is cut, and others are as ever."""
    with connect(proxy) as client:
        proxy.garble(2)
        assert say(client, b"one\n") == b"one\n"
        client.sendall(b"x" * 1000 + b"\n")
        noise = client.recv(2000)
        assert len(noise) == 1001
        assert noise != b"x" * 1000 + b"\n"
        with pytest.raises(ConnectionError):
            say(client)
    with connect(proxy) as client:
        assert (say(client), say(client)) == (b"hello\n",) * 2


def test_refused_connections_end_at_once(proxy):
    """Pass: no word gets through while it refuses, and all do after."""
    proxy.refuse()
    with connect(proxy) as client, pytest.raises(ConnectionError):
        say(client)
    proxy.heal()
    with connect(proxy) as client:
        assert say(client) == b"hello\n"
