"""Sends datagrams, paced if so wanted; nobody answers."""

from __future__ import annotations

import errno
import socket
import struct
import time

from mainstem import PermanentError, RefusedRowError, TransientError
from mainstem_egress import UnansweredSender
from mainstem_ingress.datagrams import address_of

from mainstem_direct_udp.options import UDPOptions

#: What the system says of a datagram that is larger than any may be.
_LARGE = (errno.EMSGSIZE,)
_ROUTES = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
#: How far behind its pace a sender may catch up, in seconds.
_BEHIND = 0.05


class UDPSender(UnansweredSender):
    """Sends from one socket."""

    options: UDPOptions

    def __init__(self, options: UDPOptions, name: str) -> None:
        super().__init__(options, name)
        self._socket: socket.socket | None = None

    def open(self) -> None:
        options = self.options
        host, port = address_of(options.to)
        family = socket.AF_INET if host.version == 4 else socket.AF_INET6
        made = self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            if host.is_multicast:
                self._by_multicast(made)
            made.connect((str(host), port))
        except OSError as error:
            # A route may come; an interface that is not there does not.
            kind = TransientError if error.errno in _ROUTES else PermanentError
            raise kind(f"{options.to}: {error.strerror}") from None
        #: When the next datagram may go.
        self._next = time.monotonic()

    def _by_multicast(self, made: socket.socket) -> None:
        where, hops = self.options.interface, self.options.hops
        named = where is not None and not where[0].isdigit()
        if made.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
            if where is not None:
                index = socket.if_nametoindex(where)
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            return
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops)
        if named:
            asked = bytes(8) + struct.pack("@i", socket.if_nametoindex(str(where)))
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, asked)
        elif where is not None:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(where))

    def put(self, value: bytes) -> None:
        assert self._socket is not None  # noqa: S101
        if self.options.pace is not None:
            now = time.monotonic()
            if self._next > now:
                time.sleep(self._next - now)
            self._next = max(self._next, now - _BEHIND) + 1 / self.options.pace
        try:
            self._socket.send(value)
        except ConnectionRefusedError:
            # Of an earlier one: nobody listens. That is how UDP is.
            self._again(value)
        except OSError as error:
            if error.errno in _LARGE:
                raise RefusedRowError("it is larger than a datagram may be") from None
            raise TransientError(error.strerror or str(error)) from None

    def _again(self, data: bytes) -> None:
        assert self._socket is not None  # noqa: S101
        try:
            self._socket.send(data)
        except OSError as error:
            raise TransientError(error.strerror or str(error)) from None

    def close(self) -> None:
        made, self._socket = self._socket, None
        if made is not None:
            made.close()

    def place(self) -> str:
        return self.options.to
