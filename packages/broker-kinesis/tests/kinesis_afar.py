"""Emulators behind a way that can be shut: one that is stopped loses what it holds, unlike AWS."""

from __future__ import annotations

import time
from typing import Any

from mainstem_testkit.proxy import FaultProxy

#: How long a restart keeps clients away, in seconds.
_AWAY = 0.5


class Afar:
    """An emulator that nobody can reach while it is "stopped", and that keeps its streams.

    Args:
        server: the emulator, which does all else.
        proxy: the way to it.
    """

    def __init__(self, server: Any, proxy: FaultProxy) -> None:
        self._server, self._proxy = server, proxy
        self.url = f"http://127.0.0.1:{proxy.port}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def stop(self) -> None:
        """Let nobody reach it."""
        self._proxy.refuse()
        self._proxy.cut()

    def start(self) -> None:
        """Let it be reached again."""
        self._proxy.heal()

    def restart(self) -> None:
        """Break all connections, and let new ones be made after a moment."""
        self.stop()
        time.sleep(_AWAY)
        self.start()
