"""Serves the page of a checkpoint: of the run on it, or of the one that ended last."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from mainstem.errors import MachineError
from mainstem.observation.http import Server
from mainstem.observation.meeting import NotRunningError, last, look

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

#: The variable with the token that a browser must show where others can reach the page.
TOKEN = "MAINSTEM_PAGE_TOKEN"  # noqa: S105  # its name
_COOKIE = "mainstem-page"
#: A browser asks each second; one that has not for so many seconds does not look any more.
_PATIENCE = 3.0
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js", "/icon.svg": "icon.svg"}
_HEADERS = [
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; form-action 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
]
_LOCAL = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)


class Page:
    """The page of a checkpoint, until it is closed.

    On this machine alone it answers whoever asks for it by a name of this machine's; on another address,
    or where MAINSTEM_PAGE_TOKEN is set, a browser must show the token: a part of `url`, then a cookie.

    Args:
        checkpoint: the pipeline's folder, which need not be there yet.
        host: the address to serve at.
        port: 0 takes a free one.

    Attributes:
        url: what to open.

    Raises:
        MachineError: the port is taken, or the host is none of this machine's.
    """

    def __init__(self, checkpoint: Path, host: str, port: int) -> None:
        self._checkpoint = checkpoint
        self._asked = float("-inf")
        made = "" if _is_loopback(host) else secrets.token_urlsafe()
        self._token = os.environ.get(TOKEN) or made
        try:
            self._server = Server(self._answer, host, port)
        except OSError as error:
            raise MachineError(
                f"can't serve the page on {host}:{port}: {error.strerror or error}"
            ) from None
        self.port = self._server.port
        # Of an address that stands for all, nobody can open a page.
        place = f"http://{gethostname()}:{self.port}" if _is_any(host) else self._server.url
        self.url = place + (f"/?token={quote(self._token)}" if self._token else "/")

    def close(self) -> None:
        """Answer nobody any more, once a browser that looks at it has seen how things stand now."""
        began = time.monotonic()
        while began - _PATIENCE < self._asked <= began and time.monotonic() < began + _PATIENCE:
            time.sleep(0.05)
        time.sleep(min(_PATIENCE, 0.2))  # what is being answered
        self._server.close()

    def facts(self) -> dict[str, Any]:
        """Return what is known: of the run that goes on, or else of the one that ended last."""
        try:
            return {"running": True, "run": look(self._checkpoint)}
        except NotRunningError:
            return {"running": False, "run": last(self._checkpoint)}

    def _answer(self, environ: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        def answer(status: str, kind: str, content: bytes, *more: tuple[str, str]) -> list[bytes]:
            told = ("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(content)))
            respond(status, [*told, *_HEADERS, *more])
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]

        def refused(status: str, why: str) -> list[bytes]:
            return answer(status, "text/plain", f"{why}\n".encode())

        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return refused("405 Method Not Allowed", "the page is read only")
        more: list[tuple[str, str]] = []
        if self._token:
            given = parse_qs(environ.get("QUERY_STRING", "")).get("token", [""])[0]
            name, wanted = f"{_COOKIE}-{self.port}", _print_of(self._token)
            if not any(
                hmac.compare_digest(wanted.encode(), each.encode())
                for each in (_print_of(given), _cookie(environ, name))
            ):
                return refused("403 Forbidden", "open the address with its token")
            cookie = f"{name}={wanted}"
            more = [("Set-Cookie", f"{cookie}; HttpOnly; SameSite=Strict; Path=/")]
        elif not _LOCAL.fullmatch(environ.get("HTTP_HOST", "")):
            return refused("403 Forbidden", "the page is for this machine alone")
        path = environ["PATH_INFO"]
        if path == "/run":
            content = json.dumps(self.facts()).encode()
            self._asked = time.monotonic()
            return answer("200 OK", "application/json", content, *more)
        if path not in _FILES:
            return refused("404 Not Found", "not found")
        name = _FILES[path]
        kind = _TYPES[name.rpartition(".")[2]]
        return answer("200 OK", kind, files(__package__).joinpath(name).read_bytes(), *more)


def _print_of(token: str) -> str:
    """Return what a cookie holds instead of a token: of any text, what a cookie can hold."""
    return hashlib.sha256(b"mainstem page\0" + token.encode()).hexdigest()


def _cookie(environ: WSGIEnvironment, name: str) -> str:
    try:
        found = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
