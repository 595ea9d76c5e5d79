"""Redis, for tests."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainstem_testkit.server import Server, ServerMissing

_PATIENCE = 2.0


class Redis(Server):
    """A Redis server that syncs each command to disk.

    Args:
        folder: for its data, settings and log.
        settings: lines of Redis' own configuration next to those that are made here.
    """

    name = "redis"

    def __init__(self, folder: Path, settings: str = "") -> None:
        super().__init__(folder)
        self._extra = settings

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        if shutil.which("redis-server") is None:
            raise ServerMissing("redis is not installed: apt-get install redis-server")
        (self.folder / "redis.conf").write_text(
            f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\nappendonly yes\n"
            f'appendfsync always\nsave ""\n{self._extra}\n'
        )

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return ["redis-server", str(self.folder / "redis.conf")], {}

    def answers(self) -> bool:
        """Ping it: it answers when it has loaded its data, be it that it wants a password."""
        with self.connect(_PATIENCE) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100).startswith((b"+PONG", b"-NOAUTH"))


class Sentinel(Redis):
    """A sentinel that alone decides over the service `orders`.

    Args:
        folder: for its settings and log.
        port: the master's.
        password: of master and replicas.
    """

    name = "redis_sentinel"

    def __init__(self, folder: Path, port: int, password: str) -> None:
        super().__init__(folder)
        self._watched = port, password

    def prepare(self) -> None:
        super().prepare()
        port, password = self._watched
        (self.folder / "redis.conf").write_text(
            f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\n"
            f"sentinel monitor orders 127.0.0.1 {port} 1\n"
            f"sentinel auth-pass orders {password}\nsentinel down-after-milliseconds orders 1000\n"
            "sentinel failover-timeout orders 5000\n"
        )

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return ["redis-server", str(self.folder / "redis.conf"), "--sentinel"], {}
