"""One connection to an endpoint, on which requests go one after another.

A connection serves one thread, over HTTP/2 too; so no slow or broken answer touches the requests of
others.
"""

from __future__ import annotations

import html
import json
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, unquote_plus, urljoin, urlsplit

import h11
import httpcore
import httpx
from mainstem import PermanentError, RefusedRowError, Secret, TLSOptions, TransientError

from mainstem_direct_webhook.client.addresses import AddressRefusedError
from mainstem_direct_webhook.client.network import FAULTS, Network, Transport
from mainstem_direct_webhook.client.secret_options import PORTS, split, userinfo

if TYPE_CHECKING:
    from mainstem_direct_webhook.client.options import EndpointOptions

#: Bytes of an answer's body that are read; the connection of a longer one is closed.
MOST_BODY = 8 * 1024
_REDIRECTS = 5


class Reply(NamedTuple):
    """An answer."""

    status: int
    #: The start of the body.
    body: bytes
    retry_after: str | None
    #: Where a redirect leads to, as `scheme://host`.
    elsewhere: str
    #: Whether the body is there to its end.
    whole: bool = True


def told(reply: Reply, shown: Callable[[str], str]) -> str:
    """Return status and start of the body, in one line.

    Args:
        shown: makes of what the endpoint says what may be shown.
    """
    try:
        phrase = f" {HTTPStatus(reply.status).phrase}"
    except ValueError:
        phrase = ""
    text = shown(reply.body[:MOST_BODY].decode(errors="replace"))
    return f"{reply.status}{phrase}" + (f": {text}" if text else "")


class Client:
    """Sends requests to the endpoint of some options.

    Args:
        method: of all requests.
        most_body: bytes of an answer's body that are read; the connection of a longer one is closed.

    Raises:
        OSError: a file of `tls` can't be read.
    """

    def __init__(
        self,
        options: EndpointOptions,
        context: ssl.SSLContext | None = None,
        *,
        method: str = "POST",
        most_body: int = MOST_BODY,
    ) -> None:
        self._method = method
        self._most_body = most_body
        self._url = split(options.url)
        self._follow = options.redirects == "same_host"
        self._common = list(common_headers(options))
        self._network = Network(options.allow_private)
        context = context or (options.tls or TLSOptions()).context()
        self._transport = Transport(self._network, context, http2=options.http2)

    def send(
        self,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        deadline: float,
        target: str | None = None,
    ) -> Reply:
        """Send a request and return its answer.

        Args:
            headers: beside those of all requests.
            body: the raw body.
            deadline: by `time.monotonic`, when the whole answer must be there.
            target: path and query, as they are to be written; those of the URL when left out.

        Raises:
            TransientError: no whole answer came in time.
            PermanentError: no try will get one.
            RefusedRowError: a header has a name or a value that no header can have.
        """
        own = {name.encode(): text.encode("latin-1") for name, text in headers}
        given = [(name, text) for name, text in self._common if name not in own]
        given += own.items()
        if body or self._method != "GET":
            given.append((b"content-length", str(len(body)).encode()))
        self._network.deadline = deadline
        url = self._url
        if target is not None:
            path, _, query = target.partition("?")
            url = url._replace(path=path, query=query)
        for _ in range(_REDIRECTS):
            reply, location = self._try(url, given, body)
            if not self._follow or reply.status not in (307, 308) or location is None:
                break
            if not _same(location, self._url):
                break
            url = location
        return reply

    def abort(self) -> None:
        """Let a request that waits in another thread fail at once."""
        self._network.abort()

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    def _try(
        self, url: SplitResult, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[Reply, SplitResult | None]:
        try:
            asked = httpx.URL(scheme=url.scheme, host=url.hostname or "", port=url.port)
        except httpx.InvalidURL as error:
            raise PermanentError(str(error)) from None
        request = httpx.Request(
            self._method,
            asked,
            headers=headers,
            content=body,
            extensions={"target": _target(url)},
        )
        try:
            # Not through httpx's client: it looks at where a redirect leads, and trips over odd ones.
            response = self._transport.handle_request(request)
            try:
                start, whole = self._start(response)
            finally:
                response.close()
        except AddressRefusedError as error:
            raise PermanentError(str(error)) from None
        except FAULTS as error:
            self._transport.renew()
            if _unsendable(error):
                raise RefusedRowError(_words(error)) from None
            if why := _permanent(error):
                raise PermanentError(why) from None
            raise TransientError(_words(error)) from None
        except Exception as error:  # of an answer that nobody thought of
            self._transport.renew()
            raise TransientError(f"{type(error).__name__}: {_words(error)}") from None
        if not whole:
            self._transport.renew()
        found = {name.lower(): value.decode("latin-1") for name, value in response.headers.raw}
        status, location = response.status_code, None
        if 300 <= status < 400 and b"location" in found:
            location = _location(url, found[b"location"])
        elsewhere = f"{location.scheme}://{location.hostname}" if location else ""
        return Reply(status, start, found.get(b"retry-after"), elsewhere, whole), location

    def _start(self, response: httpx.Response) -> tuple[bytes, bool]:
        """Return the start of the body, and whether it is all of it."""
        start = bytearray()
        for part in response.iter_raw():
            start += part
            if len(start) > self._most_body:
                return bytes(start[: self._most_body]), False
        return bytes(start), True


def common_headers(options: EndpointOptions) -> Iterable[tuple[bytes, bytes]]:
    """Yield the headers of all requests."""
    yield b"host", split(options.url).netloc.rpartition("@")[2].encode()
    given = {name: value.get_secret_value() for name, value in options.headers.items()}
    given = {"user-agent": "mainstem-direct-webhook", "accept": "*/*", **given}
    login = userinfo(options.url)
    if options.auth is not None and options.auth.password is not None:
        login = options.auth.user or "", options.auth.password.get_secret_value()
    if login is not None:
        given["authorization"] = "Basic " + b64encode(":".join(login).encode()).decode()
    elif options.auth is not None and options.auth.bearer is not None:
        given["authorization"] = f"Bearer {options.auth.bearer.get_secret_value()}"
    for name, text in given.items():
        yield name.encode(), text.encode("latin-1")


def _target(url: SplitResult) -> bytes:
    """Return what a request asks for: path and query, as they are written."""
    return ((url.path or "/") + (f"?{url.query}" if url.query else "")).encode()


def _location(url: SplitResult, text: str) -> SplitResult | None:
    """Return where a redirect leads to; None if it is no URL."""
    try:
        found = urlsplit(urljoin(url.geturl(), text.strip()))
        found.port  # noqa: B018  # raises ValueError if it is no number
    except ValueError:
        return None
    whole = found.geturl()
    visible = whole.isascii() and whole.isprintable() and " " not in whole
    return found if found.hostname and visible else None


def _same(location: SplitResult, url: SplitResult) -> bool:
    """Whether a redirect stays where it is: scheme, host and port."""
    here, there = ((u.scheme, u.hostname, u.port or PORTS.get(u.scheme)) for u in (url, location))
    return here == there


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    # httpcore's pool raises what it caught anew, `from None`: only the context still has the cause.
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _unsendable(error: BaseException) -> bool:
    # Over HTTP/2 such an error can also be of a stream that the external system has just ended.
    found = any(isinstance(each, h11.LocalProtocolError) for each in _chain(error))
    return found and isinstance(error, httpcore.LocalProtocolError)


def _permanent(error: BaseException) -> str | None:
    for each in _chain(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return (
                f"the endpoint's certificate is not trusted: {each.verify_message or each.reason}"
            )
    return None


def _words(error: BaseException) -> str:
    """Return what is wrong in one line."""
    if isinstance(error, httpcore.TimeoutException):
        step = {httpcore.ConnectTimeout: "connecting", httpcore.WriteTimeout: "sending"}
        return f"timed out while {step.get(type(error), 'waiting for the answer')}"
    *_, first = _chain(error)
    if isinstance(first, socket.gaierror):
        return f"name not known: {first.strerror}"
    if isinstance(first, OSError) and first.strerror:
        return first.strerror
    return " ".join(str(error).split())[:200] or type(error).__name__


#: Characters of an answer's body that are shown.
_SHOWN = 300
#: Shorter texts are in every other word.
_LEAST = 4


class Blanking:
    """Shows what an endpoint says without the secrets of the options, should it repeat them.

    A secret is known as it is written, percent-decoded, and with any of its characters escaped as URLs,
    JSON or HTML do; in upper and lower case.

    Args:
        more: secrets beside those that all requests have.
    """

    def __init__(self, options: EndpointOptions, more: Sequence[Secret] = ()) -> None:
        self._options = options
        self._more = more

    def shown(self, text: str) -> str:
        """Return the start of a text, in one line and without secrets."""
        blanked = self._secret.sub("**********", " ".join(text.split()))
        return "".join(char if char.isprintable() else "?" for char in blanked)[:_SHOWN]

    @cached_property
    def _secret(self) -> re.Pattern[str]:  # takes some 20 ms to make, and few tasks need it
        forms = {form for text in self._secrets() for form in _forms(text)}
        longest_first = sorted((f for f in forms if len(f) >= _LEAST), key=len, reverse=True)
        written = ("".join(map(_escaped, form)) for form in longest_first)
        return re.compile("|".join(written) or "(?!)", re.IGNORECASE)

    def _secrets(self) -> Iterable[str]:
        options = self._options
        parts = split(options.url)
        yield options.url.get_secret_value()
        for each in options.headers.values():
            yield each.get_secret_value()
        for each in self._more:
            yield from (each.get_secret_value(), each.get_secret_value().partition("_")[2])
        if options.auth is not None and options.auth.password is not None:
            yield options.auth.password.get_secret_value()
        for name, value in common_headers(options):
            if name == b"authorization":
                yield value.decode("latin-1").partition(" ")[2]
        yield from (userinfo(options.url) or ("", ""))[1:]
        yield parts.query
        for pair in parts.query.split("&"):
            yield pair.partition("=")[2] or pair
        yield from parts.path.split("/")


def _forms(text: str) -> Iterable[str]:
    """Yield a text as it is and decoded, with one space for any white space."""
    for form in (text, unquote(text), unquote_plus(text)):
        yield " ".join(form.split())


def _escaped(char: str) -> str:
    """Return what matches a character, be it escaped or not."""
    code = ord(char)
    percent = "".join(f"%{byte:02x}" for byte in char.encode(errors="replace"))
    texts = {char, percent, json.dumps(char)[1:-1], f"\\{char}", html.escape(char)}
    if char == " ":
        texts.add("+")
    if code > 0x7F:
        texts.add("\ufffd")  # of what is not UTF-8
    patterns = [
        *map(re.escape, sorted(texts)),
        rf"\\u{code:04x}",
        rf"&#0*{code};",
        rf"&#x0*{code:x};",
    ]
    return f"(?:{'|'.join(patterns)})"
