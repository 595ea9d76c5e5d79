"""Senders of datagrams: at once, or as soon as somebody listens."""

from __future__ import annotations

import socket
import threading
from collections import deque
from pathlib import Path


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def listened_to(port):
    """Whether a socket of this machine is bound to a port."""
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return any(int(line.split()[1].rpartition(":")[2], 16) == port for line in lines)


class Sender:
    """Sends from one socket, so from one address.

    Args:
        port: of this machine.
        group: a multicast group to send to, by the loopback interface.
    """

    def __init__(self, port, group=None):
        self.to = (group or "127.0.0.1", port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if group:
            loopback = socket.inet_aton("127.0.0.1")
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)
        self.socket.bind(("127.0.0.1", 0))
        self.name = "{}:{}".format(*self.socket.getsockname()).encode()
        self._waiting = deque()
        self._ended = threading.Event()
        self._thread = None

    def send(self, *datagrams):
        for each in datagrams:
            self.socket.sendto(each, self.to)

    def send_when_heard(self, datagrams):
        """Send as soon as somebody listens, from a thread."""
        self._waiting.extend(datagrams)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self):
        while not self._ended.wait(0.01):
            while self._waiting and listened_to(self.to[1]):
                self.send(self._waiting.popleft())

    def close(self):
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self.socket.close()
