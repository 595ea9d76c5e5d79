"""A small log behind a TCP port: what the zoo's source reads. Entries outlive the process.

A request is one line of JSON, an answer too: `{"append": [..]}`, `{"end": true}`,
`{"read": [start, end]}` (entries as `[position, entry]`, without those below the start of the log) and
`{"trim": position}`.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

from mainstem_testkit.server import Server


class LogServer(Server):
    """The log as a process of its own."""

    name = "log"

    @property
    def url(self):
        return f"log://127.0.0.1:{self.port}"

    def prepare(self):
        pass

    def command(self):
        return [sys.executable, __file__, str(self.port), str(self.folder / "entries")], {}

    def answers(self):
        return ask(self.port, {"end": True}) >= 0


def ask(port: int, request: dict[str, Any], seconds: float = 5.0) -> Any:
    """Return the answer to a request; raises OSError if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as lines:
            line = lines.readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("no answer")
    return json.loads(line)


def _serve(port: int, file: Path) -> None:
    lock = threading.Lock()
    entries: list[str] = file.read_text().split("\n")[:-1] if file.exists() else []
    trimmed = file.with_suffix(".trimmed")
    with file.open("a") as log:

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                request = json.loads(self.rfile.readline() or "{}")
                with lock:
                    self.wfile.write(json.dumps(self.answer(request)).encode() + b"\n")

            def answer(self, request):
                first = int(trimmed.read_text()) if trimmed.exists() else 0
                if new := request.get("append"):
                    log.write("".join(f"{entry}\n" for entry in new))
                    log.flush()
                    os.fsync(log.fileno())
                    entries.extend(map(str, new))
                if "trim" in request:
                    trimmed.write_text(str(request["trim"]))
                if "read" in request:
                    start, end = request["read"]
                    kept = range(max(start, first), min(end, len(entries)))
                    return [[number, entries[number]] for number in kept]
                return len(entries)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        with socketserver.ThreadingTCPServer(("127.0.0.1", port), Handler) as server:
            server.daemon_threads = True
            server.serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))
