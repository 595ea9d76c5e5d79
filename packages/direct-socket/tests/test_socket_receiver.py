"""The source `socket`: connections of all kinds, what they can't give, and who waits."""

from __future__ import annotations

import errno
import selectors
import socket
import ssl
import struct
import threading
import time
from contextlib import closing, contextmanager

import pytest
from mainstem import PermanentError, TransientError
from mainstem_direct_socket.options import SocketSourceOptions
from mainstem_ingress import connections
from mainstem_ingress.connections import StreamReceiver
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.server import free_port
from pydantic import ValidationError


@contextmanager
def receiver(number=0, **given):
    made = StreamReceiver(SocketSourceOptions.model_validate(given), number, "node")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def until_end(made):
    """Return what comes before the other side ends the connection."""
    found = []
    for _ in range(200):
        try:
            found += made.take(0.05)
        except TransientError:
            return found
    raise AssertionError("it has not ended")


def dial(place):
    return socket.create_connection(place, 5)


@pytest.fixture
def place():
    return "127.0.0.1", free_port()


def at(place):
    return f"{place[0]}:{place[1]}"


def test_lines_of_many_connections(place):
    """Pass: each once, those of one in order, with who sent them; an unfinished one is refused."""
    with receiver(listen=at(place)) as made:
        clients = [dial(place) for _ in range(20)]
        for number, client in enumerate(clients):
            client.sendall(b"".join(b"%d.%d\n" % (number, n) for n in range(50)))
        clients[0].sendall(b"half")
        clients[0].close()
        found = taken(made, 1001)
        assert made.facts()["connections"] == 19
        for client in clients:
            client.close()
    good = [m for m in found if m.refused is None]
    assert len(good) == 1000
    by_key = {}
    for message in good:
        by_key.setdefault(message.key, []).append(message.value)
    assert len(by_key) == 20
    for values in by_key.values():
        number = values[0].split(b".")[0]
        assert values == [b"%b.%d" % (number, n) for n in range(50)]
    (bad,) = [m for m in found if m.refused]
    assert (bad.value, bad.refused) == (b"half", "the stream ended within it")


def test_unix_sockets_and_a_stale_one(tmp_path):
    """Pass: a socket that a killed process has left is taken over; one that is in use, or no socket, is not."""
    path = str(tmp_path / "s")
    with closing(socket.socket(socket.AF_UNIX)) as stale:
        stale.bind(path)
    with receiver(listen=f"unix:{path}", framing="octets") as made:
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(path)
            client.sendall(b"5 ab\ncd0 ")
            assert [m.value for m in taken(made, 2)] == [b"ab\ncd", b""]
        with (
            pytest.raises(TransientError, match="somebody listens"),
            receiver(listen=f"unix:{path}"),
        ):
            pass
    (tmp_path / "file").write_text("")
    with pytest.raises(TransientError), receiver(listen=f"unix:{tmp_path}/file"):
        pass


def test_a_connection_that_is_made_is_made_again(place):
    """Pass: it reads from whom it connects to; when that one ends, what came is given first, and then an
    error that passes.
    """
    with closing(socket.create_server(place)) as server, receiver(connect=at(place)) as made:
        there, _ = server.accept()
        there.sendall(b"1\n2\n")
        there.close()
        assert [m.value for m in until_end(made)] == [b"1", b"2"]
        made.close()
        made.connect(None)
        there, _ = server.accept()
        there.sendall(b"3\n")
        assert [m.value for m in taken(made, 1)] == [b"3"]
        there.close()
    with pytest.raises(TransientError), receiver(connect=at(place)):
        pass


def test_who_sends_waits_during_a_pause(place):
    """Pass: a sender of 64 MB stands still, nothing is dropped, and all comes after it."""
    line = b"x" * 999 + b"\n"
    with receiver(listen=at(place)) as made:
        sent = threading.Event()
        with dial(place) as client:
            client.settimeout(60)  # it is to wait, however slow the machine is
            made.pause()
            sends = threading.Thread(target=lambda: (client.sendall(line * 64_000), sent.set()))
            sends.start()
            for _ in range(10):
                assert made.take(0.05) == []
            assert not sent.is_set()
            made.resume()
            assert len(taken(made, 64_000, seconds=60)) == 64_000
            sends.join(10)


def test_messages_that_never_end_do_not_take_all_memory(place, monkeypatch):
    """Pass: of several connections the one that has sent most of a message is ended, with why; the others go on."""
    monkeypatch.setattr(connections, "_HELD", 1000)
    with receiver(listen=at(place), max_message=1000) as made:

        def send(data):
            client = dial(place)
            client.sendall(data)
            return client

        def held(count):
            def is_held():
                assert not made.take(0.01)
                return sum(each.framer.held for each in made._open.values()) == count

            wait_for(is_held)

        clients = [send(b"x" * 500), *(send(b"o" * 700) for _ in range(3)), send(b"y" * 990)]
        held(3590)
        clients.append(send(b"z" * 900))
        found = taken(made, 2)
        assert any("have more than 4,000 bytes together" in each.refused for each in found)
        assert made.facts()["connections"] == 5
        clients[0].sendall(b"\n")
        assert taken(made, 1)[0].value == b"x" * 500
        for client in clients:
            client.close()


def test_a_connection_without_lengths_is_ended_alone(place):
    """Pass: with the reason, and the others go on; so do those beyond the most there may be, later."""
    with receiver(listen=at(place), framing="length", connections=2) as made:
        good, bad, third = dial(place), dial(place), dial(place)
        good.sendall(b"\0\0\0\2hi")
        bad.sendall(b"\xff" * 40)
        third.sendall(b"\0\0\0\1!")
        found = taken(made, 1)
        assert [m.value for m in found if not m.refused] == [b"hi"]
        bad.close()
        more = taken(made, 2)
        assert [m.value for m in more if not m.refused] == [b"!"]
        for each in (good, third):
            each.close()


def test_who_is_gone_before_the_handshake_harms_nobody(tmp_path, place):
    """Bytes and a reset, right after connecting. Pass: connections that are there go on."""
    folder = tmp_path / "certificates"
    make_certificates(folder, {"server": "DNS:localhost"})
    shown = {"certificate": f"{folder}/server.pem", "key": f"{folder}/server.key"}
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    with receiver(listen=at(place), certificates=shown) as made:
        got = []

        def send():
            client = context.wrap_socket(dial(place), server_hostname="localhost")
            client.sendall(b"one\n")
            got.append(client)

        sends = threading.Thread(target=send)
        sends.start()
        assert [m.value for m in taken(made, 1)] == [b"one"]
        sends.join(10)
        for _ in range(5):
            rude = dial(place)
            rude.sendall(b"abc")
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            rude.close()
        made.take(0.1)
        got[0].sendall(b"two\n")
        assert [m.value for m in taken(made, 1) if m.refused is None] == [b"two"]
        got[0].close()


def test_without_descriptors_nobody_is_let_in_and_it_does_not_spin(place, monkeypatch):
    """Pass: that is told, and looked at again after a while; then who waits is let in."""

    class Listening:
        def __init__(self, real):
            self.real, self.full, self.looks = real, True, 0

        def accept(self):
            self.looks += 1
            if self.full:
                raise OSError(errno.EMFILE, "Too many open files")
            return self.real.accept()

        def __getattr__(self, name):
            return getattr(self.real, name)

    monkeypatch.setattr(connections, "_FULL", 0.3)
    with receiver(listen=at(place)) as made, dial(place) as sender:
        made._selector.unregister(made._listening)
        made._listening = listening = Listening(made._listening)
        made._selector.register(listening, selectors.EVENT_READ, None)
        sender.sendall(b"1\n")
        for _ in range(8):
            made.take(0.01)
        assert listening.looks == 1
        assert made.facts()["trouble"] == "nobody is let in: Too many open files"
        listening.full = False
        (found,) = taken(made, 1)
        assert found.value == b"1"
        assert "trouble" not in made.facts()


def test_waiting_at_the_limit_costs_nothing(place):
    """Pass: who has to wait is let in later, and the thread rests meanwhile."""
    with receiver(listen=at(place), connections=1) as made:
        first, second = dial(place), dial(place)
        first.sendall(b"1\n")
        second.sendall(b"2\n")
        assert [m.value for m in taken(made, 1)] == [b"1"]
        spent = time.thread_time()
        for _ in range(10):
            made.take(0.05)
        assert time.thread_time() - spent < 0.1
        first.close()
        assert [m.value for m in taken(made, 1)] == [b"2"]
        second.close()


def test_a_silent_connection_is_ended_for_another(place):
    """Pass: the silent one is ended, with what was left of a message; one that talks stays, and so does one that was silent
    while nothing was read."""
    with (
        receiver(listen=at(place), connections=2, idle_timeout="1 second") as made,
        closing(dial(place)) as silent,
        closing(dial(place)) as talking,
    ):
        silent.sendall(b"one\ntw")
        found = taken(made, 1)
        with closing(dial(place)) as third:
            third.sendall(b"three\n")
            until = time.monotonic() + 30
            while len(found) < 3:
                assert time.monotonic() < until
                talking.sendall(b"x\n")
                found += [m for m in made.take(0.05) if m.value != b"x"]
            told = [(message.value, message.refused) for message in found]
            assert told[0] == (b"one", None)
            assert told[1][0] == b"tw"
            assert told[1][1] == "the stream ended within it"
            assert told[2] == (b"three", None)
            assert silent.recv(1) == b""
            assert len(made._open) == 2
            talking.sendall(b"y\n")
            wait_for(lambda: any(m.value == b"y" for m in made.take(0.05)))
            made.pause()
            third.sendall(b"four\n")
            time.sleep(1.2)
            made.resume()
            assert [m.value for m in taken(made, 1) if m.value != b"x"] == [b"four"]
    with receiver(listen=at(place)) as made, closing(dial(place)) as waiting:
        assert made.take(0.05) == []
        assert [each.until for each in made._open.values()] == [float("inf")]
        waiting.sendall(b"last\n")
        assert [message.value for message in taken(made, 1)] == [b"last"]


@pytest.mark.in_turn
def test_tls_of_both_kinds(tmp_path, place):
    """Pass: who listens shows its certificate and asks for the client's; a client without, or one that says
    nothing, holds up nobody; who connects looks at the name.
    """
    folder = tmp_path / "certificates"
    make_certificates(folder, {"server": "DNS:localhost", "me": "DNS:me"})
    shown = {"certificate": f"{folder}/server.pem", "key": f"{folder}/server.key"}
    asks = {"client_ca": f"{folder}/ca.pem"}
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "me.pem", folder / "me.key")
    given = {"listen": at(place), "certificates": {**shown, **asks}, "connect_timeout": "1 s"}
    with receiver(**given) as made:
        silent, plain = dial(place), dial(place)
        plain.sendall(b"no tls\n")
        found = []

        def send():
            with context.wrap_socket(dial(place), server_hostname="localhost") as client:
                client.sendall(b"secret\n")
                found.append(client.version())

        sends = threading.Thread(target=send)
        sends.start()
        assert [m.value for m in taken(made, 1)] == [b"secret"]
        sends.join(10)
        assert found
        wait_for(lambda: made.take(0.05) == [] and made.facts()["connections"] == 0, 10)
        for each in (silent, plain):
            each.close()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    with closing(socket.create_server(place)) as listening:

        def serve():
            for _ in range(2):
                there, _ = listening.accept()
                try:
                    with server.wrap_socket(there, server_side=True) as secure:
                        secure.sendall(b"from afar\n")
                except OSError:
                    pass

        threading.Thread(target=serve, daemon=True).start()
        tls = {"ca": f"{folder}/ca.pem"}
        with receiver(connect=f"localhost:{place[1]}", tls=tls) as made:
            assert [m.value for m in until_end(made)] == [b"from afar"]
        wrong = pytest.raises(PermanentError, match="certificate")
        with wrong, receiver(connect=at(place), tls=tls):
            pass


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "either listen or connect"),
        ({"listen": "h:1", "connect": "h:1"}, "either listen or connect"),
        ({"listen": "h"}, "expected host:port"),
        ({"listen": "h:99999"}, "expected host:port"),
        ({"listen": "h:1", "tls": {}}, "certificates"),
        ({"connect": "h:1", "certificates": {"certificate": "x"}}, "tls"),
        ({"connect": "h:1", "receivers": 2}, "only a port"),
    ],
)
def test_wrong_options_are_told(given, told):
    """Pass: when the document is read."""
    with pytest.raises(ValidationError, match=told):
        SocketSourceOptions.model_validate(given)


@pytest.mark.in_turn
def test_many_messages_at_once_are_taken_in_parts(place):
    """Pass: of connections full of line ends no more is taken at once than one more read beyond what is stored
    together, each has its turn, and all comes."""
    with receiver(listen=at(place), segment_rows=1000) as made, closing(dial(place)) as first:
        others = [dial(place) for _ in range(3)]
        threads = [
            threading.Thread(
                target=each.sendall, args=(b"%d\n" % n + b"\n" * 500_000,), daemon=True
            )
            for n, each in enumerate([first, *others])
        ]
        for thread in threads:
            thread.start()
        sizes, seen, until = [], set(), time.monotonic() + 60
        while sum(sizes) < 4 * 500_001 and time.monotonic() < until:
            found = made.take(0.05)
            sizes.append(len(found))
            seen |= {message.value for message in found if message.value}
        assert sum(sizes) == 4 * 500_001
        assert seen == {b"0", b"1", b"2", b"3"}
        assert max(sizes) <= 1000 + connections._READ
        for each in others:
            each.close()
