"""A socket of ZeroMQ with all that belongs to it: context, doorkeeper, and what its peers do."""

from __future__ import annotations

import errno
import math
import os
import socket
import stat
import time
from contextlib import suppress
from typing import Any

import zmq
from mainstem import PermanentError, TransientError
from zmq.utils.monitor import recv_monitor_message

from mainstem_direct_zeromq.connection import LinkOptions
from mainstem_direct_zeromq.doorkeeper import DOMAIN, Doorkeeper

_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CONNECT_RETRIED
)
_OPENED = (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED)
_TELLS = "inproc://events"
_NOT_LET_IN = 400
#: TCP keepalive: how often the kernel asks, in seconds, and how many questions may go unanswered.
_ASK_EVERY, _UNANSWERED = 10, 6
#: How much too early libzmq may end its wait for what has not gone out, in seconds.
_EARLY = 0.005
#: What binding fails with that can end by itself: somebody else has the address.
_TAKEN = (errno.EADDRINUSE,)


class Link:
    """A socket, used in one thread alone.

    `trouble` is the last that went wrong with a connection since one was made, `locked_out` the refusal
    of a server that does not let us in.

    Args:
        kind: of socket, such as `zmq.PULL`.
        settings: options of the socket beside those that `options` give.

    Raises:
        TransientError: an address that is to be bound is in use.
        PermanentError: it can't be bound or connected to.
    """

    def __init__(self, options: LinkOptions, kind: int, settings: dict[int, Any]) -> None:
        self.trouble = ""
        self.locked_out = ""
        #: The open connections, oldest first, and whether the handshake of each is over.
        self._connections: dict[int, bool] = {}
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
    def peers(self) -> int:
        """How many are connected, their handshakes over."""
        return sum(self._connections.values())

    @property
    def refused(self) -> int:
        """How often a key or a password was refused here."""
        return self._doorkeeper.refused if self._doorkeeper is not None else 0

    def _set(self, options: LinkOptions, settings: dict[int, Any]) -> None:
        beat = round(options.heartbeat.total_seconds() * 1000)
        idle = round(options.keepalive.total_seconds())
        every = {
            zmq.LINGER: 0,
            zmq.IPV6: any("[" in address for address in options.addresses()),
            zmq.RECONNECT_IVL: round(options.reconnect.total_seconds() * 1000),
            zmq.RECONNECT_IVL_MAX: round(options.reconnect_most.total_seconds() * 1000),
            zmq.HEARTBEAT_IVL: beat,
            **({zmq.HEARTBEAT_TIMEOUT: beat} if beat else {}),
            zmq.TCP_KEEPALIVE: int(idle > 0),
        }
        if idle:
            every |= {
                zmq.TCP_KEEPALIVE_IDLE: idle,
                zmq.TCP_KEEPALIVE_INTVL: _ASK_EVERY,
                zmq.TCP_KEEPALIVE_CNT: _UNANSWERED,
            }
        if options.socket_buffer is not None:
            every |= {zmq.SNDBUF: options.socket_buffer, zmq.RCVBUF: options.socket_buffer}
        for name, value in (every | settings).items():
            self.socket.setsockopt(name, value)
        self._secure(options)

    def _secure(self, options: LinkOptions) -> None:
        curve, plain, made = options.curve, options.plain, self.socket
        if curve is not None:
            if curve.secret_key is not None:
                secret = curve.secret_key.get_secret_value().encode()
                public = zmq.curve_public(secret)
            else:
                public, secret = zmq.curve_keypair()
            made.curve_secretkey, made.curve_publickey = secret, public
            if curve.server_key is not None:
                made.curve_serverkey = curve.server_key.encode()
            else:
                made.curve_server = True
        if plain is not None:
            if plain.user is not None and plain.password is not None:
                made.plain_username = plain.user.encode()
                made.plain_password = plain.password.get_secret_value().encode()
            else:
                made.plain_server = True
        if (curve and curve.clients) or (plain and plain.users):
            made.zap_domain = DOMAIN
            made.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
            self._doorkeeper = Doorkeeper(self._context, curve, plain)

    def _open(self, options: LinkOptions) -> None:
        # Not `get_monitor_socket`: when its queue is full, libzmq stands still, and can't be closed.
        self.socket.monitor(_TELLS, _EVENTS)
        self._monitor = self._context.socket(zmq.PAIR)
        self._monitor.rcvhwm = 0
        self._monitor.connect(_TELLS)
        self._poller.register(self.socket, zmq.POLLIN)
        others = [self._monitor, *([self._doorkeeper.socket] if self._doorkeeper else [])]
        for other in others:
            self._poller.register(other, zmq.POLLIN)
            self._others.register(other, zmq.POLLIN)
        for verb, addresses in (("bind", options.bind), ("connect", options.connect)):
            for address in addresses:
                if verb == "bind" and address.startswith("ipc:///"):
                    _check_free(address)
                try:
                    getattr(self.socket, verb)(address)
                except zmq.ZMQError as error:
                    text = f"can't {verb} {address}: {error.strerror}"
                    raise (TransientError if error.errno in _TAKEN else PermanentError)(
                        text
                    ) from error

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
        if event in _OPENED:
            self._connections[value] = False
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.trouble = ""
            # libzmq does not say whose it was: most likely that of the newest in its handshake.
            for fd in reversed(self._connections):
                if not self._connections[fd]:
                    self._connections[fd] = True
                    break
        elif event == zmq.EVENT_DISCONNECTED:
            if self._connections.pop(value, False):
                self.trouble = f"{where}: the connection ended"
            else:
                self.trouble = self.trouble or f"{where}: the connection ended in its handshake"
        elif event == zmq.EVENT_CONNECT_RETRIED:
            self.trouble = self.trouble or f"{where}: nobody answers"
        else:
            self.trouble = f"{where}: {self._failure(event)}"
            # Whoever comes to an address of ours can claim not to let us in: that must end nothing.
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and value == _NOT_LET_IN and self._called:
                self.locked_out = self.locked_out or self.trouble

    def _failure(self, event: int) -> str:
        """Return why a handshake failed."""
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            if self._doorkeeper is not None:
                return "a peer was not let in"
            return "the peer does not let us in"
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return "the peer is secured otherwise, or has another key"
        return (
            "the peer ended the handshake: is its socket of another kind, is it secured otherwise, or "
            "has it another key?"
        )

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
        return time.monotonic() - began < linger - _EARLY if linger else True


def _check_free(address: str) -> None:
    """Check that nobody has the path of an IPC address; libzmq would remove whatever is there.

    Raises:
        TransientError: somebody listens there.
        PermanentError: there is a file that is no socket.
    """
    path = address.removeprefix("ipc://")
    try:
        kind = os.lstat(path).st_mode
    except OSError:
        return  # nothing is there, or binding will say what is the matter
    if not stat.S_ISSOCK(kind):
        text = f"can't bind {address}: there is a file that is no socket"
        raise PermanentError(text)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return  # its process has ended
        except OSError:
            pass  # somebody's whose queue is full, or to whom we may not speak
    raise TransientError(f"can't bind {address}: Address already in use")
