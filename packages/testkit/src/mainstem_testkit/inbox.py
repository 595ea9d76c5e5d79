"""An HTTP server of a test's own, for what posts to others."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Inbox:
    """What was posted to a server on this machine.

    Attributes:
        url: where it is, without a path.
        got: of each request, in order, the path, the headers and the body, decompressed.
        answer: the status that it answers with.
        open: while cleared, requests wait for their answers.
    """

    url: str = ""
    got: list[tuple[str, Message, bytes]] = field(default_factory=list)
    answer: int = 200
    open: threading.Event = field(default_factory=threading.Event)


@contextmanager
def inbox() -> Iterator[Inbox]:
    """Serve one."""
    made = Inbox()
    made.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            made.open.wait(60)
            made.got.append((self.path, self.headers, body))
            self.send_response(made.answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="inbox")
        thread.start()
        try:
            yield made
        finally:
            made.open.set()
            server.shutdown()
            thread.join()
