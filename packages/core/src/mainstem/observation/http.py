"""HTTP for those who look at a run: on a port, or on a socket of this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    App = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]

#: This machine alone.
LOOPBACK = "127.0.0.1"
#: After so many seconds without a word of who has connected, it is let go.
_SILENCE = 10.0


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `PORT`, `HOST:PORT` or `[HOST]:PORT`; this machine alone without a host.

    Raises:
        ValueError: it is none of these.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is neither a port nor HOST:PORT")
    return host.strip("[]") or LOOPBACK, int(port)


class Server:
    """Answers requests side by side, in the background, until it is closed.

    Args:
        app: what answers, in terms of WSGI.
        host: the address, or its name.
        port: 0 takes a free one.

    Attributes:
        url: its root, without a path.

    Raises:
        OSError: the port is taken, or the host is none of this machine's.
    """

    def __init__(self, app: App, host: str, port: int) -> None:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        self._begin(app, family, (host, port))
        self.port = int(self._server.server_address[1])
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}"

    def _begin(self, app: App, family: int, address: Any) -> None:
        self._server = _server_class()(family, address, app)
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="http", daemon=True
        ).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


class LocalServer(Server):
    """The same on a socket of this machine, for who may write to its folder."""

    def __init__(self, app: App, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._begin(app, socket.AF_UNIX, str(path))

    def close(self) -> None:
        super().close()
        self._path.unlink(missing_ok=True)


class LocalConnection(HTTPConnection):
    """A connection to a server on such a socket."""

    def __init__(self, path: Path, timeout: float = 10.0) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _server_class() -> Any:
    """Return the class; the standard library's servers are imported where one is made."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    class Quiet(WSGIRequestHandler):
        timeout = _SILENCE

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def address_string(self) -> str:
            return str(self.client_address)

        def get_environ(self) -> Any:
            if not isinstance(self.client_address, tuple):  # on a socket of this machine
                self.client_address = (LOOPBACK, 0)
            return super().get_environ()

    class Threads(ThreadingMixIn, WSGIServer):
        daemon_threads = True

        def __init__(self, family: int, address: Any, app: App) -> None:
            self.address_family = family
            super().__init__(address, Quiet)
            self.set_app(app)

        def server_bind(self) -> None:
            """Bind without asking what the address is called, which may take seconds."""
            if self.allow_reuse_address and self.address_family != socket.AF_UNIX:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            bound: Any = self.socket.getsockname()
            self.server_address = bound
            self.server_name, self.server_port = (
                bound[:2] if isinstance(bound, tuple) else ("localhost", 0)
            )
            self.setup_environ()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Who asked has gone away."""

    return Threads
