"""A sender and a re-request server, by the specification, that fail at random."""

from __future__ import annotations

import random
import socket
import threading
import time

from mainstem_direct_moldudp64.packets import Packet, read_request, written

#: A datagram has no more.
_ROOM = 1200


class Sender:
    """Sends a session's messages to feeds.

    Args:
        ports: of this machine, one for each feed.
        seed: what goes wrong is drawn by it; None: nothing does.
    """

    def __init__(self, session, ports, seed=None):
        self.session, self.ports = session.ljust(10).encode(), ports
        self.noise = random.Random(seed) if seed is not None else None
        self.sent = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._late = []

    def send(self, messages, per_packet=5):
        """Send messages in packets, and what was late before."""
        for at in range(0, len(messages), per_packet):
            part = messages[at : at + per_packet]
            self._put(written(Packet(self.session, len(self.sent) + 1, part)))
            self.sent += part

    def heartbeat(self, *, ends=False):
        """Tell the next number; three times, as one may be lost."""
        for _ in range(3):
            self._put(written(Packet(self.session, len(self.sent) + 1, [], ends=ends)))

    def _put(self, data):
        for port in self.ports:
            for each in self._spoilt(data):
                self.socket.sendto(each, ("127.0.0.1", port))

    def _spoilt(self, data):
        if self.noise is None:
            return [data]
        chance = self.noise.random()
        late, self._late = self._late, []
        if chance < 0.15:
            return late
        if chance < 0.25:
            return [data, *late, data]
        if chance < 0.35:
            self._late = [data]
            return late
        if chance < 0.40:
            return [data[: self.noise.randrange(len(data))], *late]
        return [data, *late]


class RequestServer:
    """Sends again what is asked for; use it in a `with`.

    Args:
        sender: whose messages it has.
        forgets: numbers that it has not.
        seed: which requests it does not answer is drawn by it; None: it answers all.
    """

    def __init__(self, *senders, forgets=(), seed=None):
        self.senders, self.forgets = {each.session: each for each in senders}, set(forgets)
        self.noise = random.Random(seed) if seed is not None else None
        self.requests = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self._ended = threading.Event()

    def __enter__(self):
        self.socket.settimeout(0.05)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(5)
        self.socket.close()

    def _serve(self):
        while not self._ended.is_set():
            try:
                data, who = self.socket.recvfrom(2048)
            except OSError:
                continue
            session, first, count = read_request(data)
            self.requests.append((session, first, count))
            if self.noise is None or self.noise.random() > 0.3:
                self._answer(session, first, count, who)

    def _answer(self, session, first, count, who):
        """Answer with one packet, as far as it has room."""
        sender = self.senders.get(session)
        if sender is None:
            return
        found, size = [], 20
        for number in range(first, min(first + count, len(sender.sent) + 1)):
            message = sender.sent[number - 1]
            if number in self.forgets or size + len(message) + 2 > _ROOM:
                break
            found.append(message)
            size += len(message) + 2
        if found:
            self.socket.sendto(written(Packet(session, first, found)), who)


def settle(receiver, done, seconds=20):
    """Take until something holds; return what came."""
    found, until = [], time.monotonic() + seconds
    while not done(found):
        assert time.monotonic() < until, f"{len(found)} came: {receiver.facts()}"
        found += receiver.take(0.02)
    return found
