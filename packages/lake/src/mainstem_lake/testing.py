"""What tests of all formats do alike, and an emulation of Amazon's object store."""

from __future__ import annotations

import http.client
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from mainstem_ingress import Columns
from mainstem_testkit.server import Server, ServerMissing

from mainstem_lake.receiver import LakeReceiver

#: How long one request may take, in seconds.
_PATIENCE = 5.0


class S3(Server):
    """An emulator of Amazon S3: objects in memory, made only where there is none if a request asks so.

    Nobody's signature is looked at.
    """

    name = "s3"

    @property
    def url(self) -> str:
        """The endpoint that a client is given."""
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        if any(importlib.util.find_spec(name) is None for name in ("moto", "flask")):
            raise ServerMissing("moto is not installed: pip install 'moto[s3]' flask flask-cors")

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        return argv, {}

    def answers(self) -> bool:
        return self._asked("GET", "/") == 200

    def bucket(self, name: str) -> str:
        """Make a bucket, and return its name."""
        assert self._asked("PUT", f"/{name}") == 200
        return name

    def _asked(self, method: str, path: str) -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)) as link:
            link.request(method, path, headers={"Content-Length": "0"})
            return link.getresponse().status


@dataclass
class LedgerBatch:
    """What a table's ledger looks at of a batch."""

    id: int = 0
    epoch: int = 1
    pipeline: str = "p"
    sink: str = "s"
    query_id: str = "q"


def rows_of(taken: Any) -> list[dict[str, Any]]:
    """Return the rows of what a receiver has given at once."""
    found: list[dict[str, Any]] = []
    for part in taken.parts if len(taken) else ():
        assert isinstance(part, Columns)
        rows: Any = part.rows
        found += rows.to_pylist()
    return found


def changes_of(receiver: LakeReceiver, quiet: int = 5) -> list[tuple[str, Any, Any, int, str]]:
    """Return what comes, until nothing has some times: change, `id`, `name`, version, and its rank."""
    found, silent = [], 0
    while silent < quiet:
        rows = rows_of(receiver.take(0.01))
        silent = 0 if rows else silent + 1
        for row in rows:
            version, rank = row["_commit_version"].split("-")
            change = row["_change_type"], row["id"], row["name"], int(version, 16), rank
            found.append(change)
    return found
