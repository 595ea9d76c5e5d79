"""The sink `socket`: messages framed, in order, over TCP and Unix sockets; what can't be sent is refused."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest
from mainstem import PermanentError
from mainstem_direct_socket.options import SocketOptions
from mainstem_direct_socket.sink import SocketSink
from mainstem_ingress.framing import Framer, FramingOptions
from mainstem_testkit.conformance.sender import send_by
from mainstem_testkit.server import free_port


class Peer:
    """Reads all that comes, by connection; can end some early."""

    def __init__(self, server, framing, end_after=None):
        self.server, self.options, self.end_after = (
            server,
            FramingOptions(framing=framing),
            end_after,
        )
        self.found = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                there, _ = self.server.accept()
            except OSError:
                return
            framer, mine = Framer(self.options, 10**7), []
            self.found.append(mine)
            with there:
                while data := there.recv(65_536):
                    mine += [frame.data for frame in framer.feed(data)]
                    if self.end_after and len(self.found) == 1 and len(mine) >= self.end_after:
                        break


def rows(count):
    return [{"value": b"%d" % n, "key": b"k", "_id": n.to_bytes(16, "big")} for n in range(count)]


def sink(place, **more):
    return SocketSink(SocketOptions(connect=place, give_up="5 s", **more))


@pytest.mark.parametrize("framing", ["lines", "length", "octets"])
def test_messages_arrive_in_order(framing, tmp_path):
    """Pass: over a Unix socket, large and empty ones too."""
    path = str(tmp_path / "s")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(path)
        server.listen()
        peer = Peer(server, framing)
        sent = [*rows(1000), {"value": b"x" * 10**6}, {"value": None}]
        assert not send_by(sink(f"unix:{path}", framing=framing), sent)
        peer.server.close()
        deadline = threading.Event()
        for _ in range(100):
            if len(peer.found[0]) == 1002:
                break
            deadline.wait(0.05)
    assert peer.found[0] == [*(b"%d" % n for n in range(1000)), b"x" * 10**6, b""]


def test_what_ends_before_it_does_is_refused(tmp_path):
    """Pass: with the reason; the others arrive."""
    place = ("127.0.0.1", free_port())
    with closing(socket.create_server(place)) as server:
        peer = Peer(server, "lines")
        given = [{"value": b"a"}, {"value": b"b\nc"}, {"value": b"d"}]
        (refused,) = send_by(sink(f"127.0.0.1:{place[1]}"), given)
        assert "what a message ends at" in refused["reason"]
        for _ in range(100):
            if peer.found and len(peer.found[0]) == 2:
                break
            threading.Event().wait(0.05)
        assert peer.found == [[b"a", b"d"]]


def test_who_goes_away_is_connected_to_again():
    """Pass: what comes after that arrives; when nobody is there, it is given up."""
    place = ("127.0.0.1", free_port())
    with closing(socket.create_server(place)) as server:
        peer = Peer(server, "lines", end_after=1)
        for _ in range(3):
            send_by(sink(f"127.0.0.1:{place[1]}"), rows(3))
        for _ in range(100):
            if len(peer.found) == 3 and len(peer.found[2]) == 3:
                break
            threading.Event().wait(0.05)
        assert peer.found[1:] == [[b"0", b"1", b"2"]] * 2
        server.shutdown(socket.SHUT_RDWR)
    with pytest.raises(PermanentError, match="give_up"):
        send_by(SocketSink(SocketOptions(connect=f"127.0.0.1:{place[1]}", give_up="1 s")), rows(1))
