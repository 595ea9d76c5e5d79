"""A socket of ZeroMQ with all that belongs to it: context, doorkeeper, and what its peers do."""

from __future__ import annotations

import errno
import math
import time
from contextlib import suppress
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from mainstem_direct_zeromq.connecting import LinkOptions
from mainstem_direct_zeromq.doorkeeper import DOMAIN, Doorkeeper

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CONNECT_RETRIED
)
_NOT_LET_IN = 400
#: What binding fails with that can end by itself: somebody else has the address.
_TAKEN = (errno.EADDRINUSE,)


class LinkError(Exception):
    """The socket can't be made as the options say.

    Args:
        mendable: whether trying again may help.
    """

    def __init__(self, text: str, *, mendable: bool) -> None:
        super().__init__(text)
        self.mendable = mendable


class Link:
    """A socket, used in one thread alone.

    `peers` is how many are connected, `refused` how many were not let in, `trouble` the last that went
    wrong with a connection since one was made, `locked_out` whether a server refused who we are.

    Args:
        kind: of socket, such as `zmq.PULL`.
        settings: options of the socket beside those that `options` give.

    Raises:
        LinkError: an address can't be bound or connected to.
    """

    def __init__(self, options: LinkOptions, kind: int, settings: dict[int, Any]) -> None:
        self.peers = 0
        self.trouble = ""
        self.locked_out = False
        self._failed = 0
        # Whoever comes to an address of ours can claim not to let us in: that must end nothing.
        self._called = not options.bind
        self._context = zmq.Context()
        self._monitor: Any = None
        self._doorkeeper: Doorkeeper | None = None
        self.socket: Any = self._context.socket(kind)
        self._poller = zmq.Poller()
        self._others = zmq.Poller()
        try:
            self._set(options, settings)
            self._open(options)
        except BaseException:
            self.close()
            raise

    @property
    def refused(self) -> int:
        """How many peers were not let in."""
        return self._doorkeeper.refused if self._doorkeeper is not None else 0

    def _set(self, options: LinkOptions, settings: dict[int, Any]) -> None:
        beat = round(options.heartbeat.total_seconds() * 1000)
        every = {
            zmq.LINGER: 0,
            zmq.IPV6: any("[" in address for address in options.addresses()),
            zmq.RECONNECT_IVL: round(options.reconnect.total_seconds() * 1000),
            zmq.RECONNECT_IVL_MAX: round(options.reconnect_most.total_seconds() * 1000),
            zmq.HEARTBEAT_IVL: beat,
            **({zmq.HEARTBEAT_TIMEOUT: beat} if beat else {}),
        }
        if options.socket_buffer is not None:
            every |= {zmq.SNDBUF: options.socket_buffer, zmq.RCVBUF: options.socket_buffer}
        for name, value in (every | settings).items():
            self.socket.setsockopt(name, value)
        self._secure(options)

    def _secure(self, options: LinkOptions) -> None:
        curve, plain, socket = options.curve, options.plain, self.socket
        if curve is not None:
            if curve.secret_key is not None:
                secret = curve.secret_key.get_secret_value().encode()
                public = zmq.curve_public(secret)
            else:
                public, secret = zmq.curve_keypair()
            socket.curve_secretkey, socket.curve_publickey = secret, public
            if curve.server_key is not None:
                socket.curve_serverkey = curve.server_key.encode()
            else:
                socket.curve_server = True
        if plain is not None:
            if plain.username is not None and plain.password is not None:
                socket.plain_username = plain.username.encode()
                socket.plain_password = plain.password.get_secret_value().encode()
            else:
                socket.plain_server = True
        if (curve and curve.clients) or (plain and plain.users):
            socket.zap_domain = DOMAIN
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
            self._doorkeeper = Doorkeeper(self._context, curve, plain)

    def _open(self, options: LinkOptions) -> None:
        self._monitor = self.socket.get_monitor_socket(_EVENTS)
        self._poller.register(self.socket, zmq.POLLIN)
        others = [self._monitor, *([self._doorkeeper.socket] if self._doorkeeper else [])]
        for other in others:
            self._poller.register(other, zmq.POLLIN)
            self._others.register(other, zmq.POLLIN)
        for verb, addresses in (("bind", options.bind), ("connect", options.connect)):
            for address in addresses:
                try:
                    getattr(self.socket, verb)(address)
                except zmq.ZMQError as error:
                    text = f"can't {verb} {address}: {error.strerror}"
                    raise LinkError(text, mendable=error.errno in _TAKEN) from error

    def wait(self, seconds: float, events: int = zmq.POLLIN) -> bool:
        """Wait until the socket is ready, for so long at most; meanwhile attend to peers.

        Args:
            events: what it is to be ready for; 0 to attend to peers alone.
        """
        until = time.monotonic() + seconds
        poller = self._poller if events else self._others
        if events:
            self._poller.modify(self.socket, events)
        while True:
            left = max(0.0, until - time.monotonic())
            ready = dict(poller.poll(math.ceil(left * 1000)))
            mine = ready.pop(self.socket, 0)
            if ready:
                self._attend()
            if mine or not left:
                return bool(mine)

    def attend(self) -> None:
        """Let in who waits at the door, and note who came and went."""
        if self._others.poll(0):
            self._attend()

    def _attend(self) -> None:
        if self._doorkeeper is not None:
            self._doorkeeper.answer()
        with suppress(zmq.Again):
            while True:
                self._note(recv_monitor_message(self._monitor, zmq.NOBLOCK))

    def _note(self, told: Any) -> None:
        event, value, where = told["event"], told["value"], told["endpoint"].decode()
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.peers += 1
            self.trouble = ""
        elif event == zmq.EVENT_DISCONNECTED:
            if self._failed:  # libzmq tells of the end of a failed handshake too
                self._failed -= 1
            else:
                self.peers = max(0, self.peers - 1)
                self.trouble = f"{where}: the connection ended"
        elif event == zmq.EVENT_CONNECT_RETRIED:
            self.trouble = self.trouble or f"{where}: nobody answers"
        else:
            self._failed += 1
            self.trouble = f"{where}: {self._failure(event, value)}"

    def _failure(self, event: int, value: int) -> str:
        """Return why a handshake failed."""
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            theirs = self._called and value == _NOT_LET_IN
            self.locked_out = self.locked_out or theirs
            if self._doorkeeper is not None:
                return "a peer was not let in"
            return "the peer does not let us in"
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return "the peer is secured otherwise, or has another key"
        return "the peer ended the handshake: is it secured otherwise, or has it another key?"

    def close(self, linger: float = 0.0) -> bool:
        """Close everything; whether all that was sent had gone out by then.

        Args:
            linger: how long what was sent may take to go out to the network, in seconds.
        """
        began = time.monotonic()
        if self.socket.closed and self._context.closed:
            return True
        with suppress(zmq.ZMQError):
            self.socket.disable_monitor()
        if self._monitor is not None:
            self._monitor.close()
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        self.socket.close(round(linger * 1000))
        self._context.term()  # waits until addresses are free again
        return time.monotonic() - began < linger if linger else True
