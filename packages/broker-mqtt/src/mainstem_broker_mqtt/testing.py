"""Mosquitto, for tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainstem_testkit.server import Server, ServerMissing

_PATIENCE = 2.0
#: CONNECT of version 3.1.1 without an id.
_HELLO = bytes.fromhex("100c00044d5154540402003c0000")


class Mosquitto(Server):
    """A Mosquitto that writes each change of its sessions to disk.

    Args:
        folder: for its data, settings and log.
        settings: lines of its own configuration next to those that are made here.
        anonymous: whether anybody may come.
    """

    name = "mosquitto"

    def __init__(self, folder: Path, settings: str = "", *, anonymous: bool = True) -> None:
        super().__init__(folder)
        self._extra, self._anonymous = settings, anonymous

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        if self._program() is None:
            raise ServerMissing("mosquitto is not installed: apt-get install mosquitto")
        user = "user root\n" if os.getuid() == 0 else ""
        (self.folder / "mosquitto.conf").write_text(
            f"{user}listener {self.port} 127.0.0.1\nallow_anonymous {str(self._anonymous).lower()}\n"
            f"persistence true\npersistence_location {self.folder}/\nautosave_on_changes true\n"
            f"autosave_interval 1\nmax_queued_messages 0\nmax_inflight_messages 0\n{self._extra}\n"
        )

    @staticmethod
    def _program() -> str | None:
        return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return [str(self._program()), "-c", str(self.folder / "mosquitto.conf")], {}

    def answers(self) -> bool:
        """Say hello: it answers, be it that it wants a password."""
        with self.connect(_PATIENCE) as connection:
            connection.sendall(_HELLO)
            return connection.recv(100).startswith(b"\x20")
