"""Lets peers in, or not: answers libzmq's questions by ZAP (RFC 27 of ZeroMQ)."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import zmq
from zmq.utils import z85

from mainstem_direct_zeromq.connection import CurveOptions, PlainOptions

#: Where libzmq asks, within a context.
_ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"mainstem"
_VERSION = b"1.0"
_LET_IN, _REFUSED = (b"200", b"OK"), (b"400", b"no access")


class Doorkeeper:
    """Says of each peer that connects whether it is let in; asked in the thread that owns it.

    Without an answer libzmq lets nobody in: it is told to by `ZMQ_ZAP_ENFORCE_DOMAIN`.

    Args:
        context: of the sockets that peers connect to; made before those are bound.
    """

    def __init__(
        self, context: Any, curve: CurveOptions | None, plain: PlainOptions | None
    ) -> None:
        #: How many peers were not let in.
        self.refused = 0
        self._keys: frozenset[bytes] | None = None
        if curve is not None and curve.clients not in (None, "any"):
            self._keys = frozenset(z85.decode(key) for key in curve.clients or ())
        self._users = {
            name.encode(): password.get_secret_value().encode()
            for name, password in ((plain.users if plain else None) or {}).items()
        }
        self._mechanism = b"CURVE" if curve is not None else b"PLAIN"
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(_ENDPOINT)

    def answer(self) -> None:
        """Answer all who wait."""
        with suppress(zmq.Again):
            while True:
                self._answer(self.socket.recv_multipart(zmq.NOBLOCK))

    def close(self) -> None:
        """Answer nobody any more."""
        self.socket.close()

    def _answer(self, frames: Sequence[bytes]) -> None:
        # Whoever asks, an empty frame, then: version, request, domain, address, identity, mechanism,
        # credentials.
        whose, _, _, request, domain, _, _, mechanism, *credentials = frames
        welcome = domain == DOMAIN and mechanism == self._mechanism and self._knows(credentials)
        self.refused += not welcome
        status, text = _LET_IN if welcome else _REFUSED
        self.socket.send_multipart([whose, b"", _VERSION, request, status, text, b"", b""])

    def _knows(self, credentials: Sequence[bytes]) -> bool:
        if self._mechanism == b"CURVE":
            return self._keys is None or credentials[0] in self._keys
        user, password = credentials
        # Compared for unknown users too, so that the time says nothing.
        expected = self._users.get(user)
        same = hmac.compare_digest(b"" if expected is None else expected, password)
        return same and expected is not None
