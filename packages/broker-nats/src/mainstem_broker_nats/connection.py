"""How every component reaches NATS: the options they share, and the errors that are told of it.

Nothing here imports the vendor's library: `vendor` does.
"""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import SplitResult, unquote, urlsplit

from mainstem import (
    Dataset,
    ExternalError,
    Hidden,
    LocalPath,
    Options,
    PermanentError,
    PositiveDuration,
    Secret,
    TLSOptions,
    TransientError,
    option,
)
from pydantic import model_validator

_PORT = 4222
_SCHEMES = ("nats", "tls")
#: How the two parts of a credentials file begin.
_SEED, _JWT = "-----BEGIN USER NKEY SEED-----", "-----BEGIN NATS USER JWT-----"


class APIError(ExternalError):
    """JetStream says no; made by `api_error`.

    Attributes:
        code: like one of HTTP.
        err_code: JetStream's own number for the reason.
    """

    code = 0
    err_code = 0


class _PermanentAPIError(APIError, PermanentError):
    pass


class _TransientAPIError(APIError, TransientError):
    pass


def api_error(message: str, code: int, err_code: int) -> APIError:
    """Return what JetStream says as an error; a retry may help unless it is about what was asked."""
    about_it = 400 <= code < 500 and code != 408
    made: APIError = (_PermanentAPIError if about_it else _TransientAPIError)(message)
    made.code, made.err_code = code, err_code
    return made


def _check(urls: tuple[Secret, ...]) -> tuple[Secret, ...]:
    if not urls:
        raise ValueError("expected at least one URL")
    if len({(parts.username, parts.password) for parts in map(_split, urls)}) > 1:
        raise ValueError("expected the same user and password, or none, in all URLs")
    return urls


#: One URL of a server, or several of one cluster; none is ever printed.
Servers = Annotated[tuple[Secret, ...], Hidden(_check)]


class NATSTLSOptions(TLSOptions):
    """Options of `tls`."""

    server_name: str | None = option(
        None,
        min_length=1,
        description="The name that the server's certificate carries, when it is not the URL's host.",
    )
    first: bool = option(
        False,
        description="Whether the connection begins with TLS, as servers with `handshake_first` want; "
        "else the server greets in the clear and TLS begins before anything is said to it.",
    )


class ConnectionOptions(Options):
    """Options of a connection to NATS."""

    servers: Servers = option(
        description="The server, `nats://host:port` or `tls://host:port`, with `user:password@` or "
        "`token@` before the host where that is wanted; or several of one cluster, which are tried in "
        "turn.",
        example="${env:NATS_URL}",
    )
    token: Secret | None = option(None, description="The token that the server asks for.")
    user: str | None = option(None, min_length=1, description="The user's name.")
    password: Secret | None = option(None, description="The password of `user`.")
    nkey: Secret | None = option(
        None, description="The seed of the user's nkey: what begins with `SU`."
    )
    credentials: LocalPath | None = option(
        None,
        description="A credentials file (`.creds`: the user's JWT and seed). It must be on every "
        "machine.",
        example="user.creds",
    )
    tls: NATSTLSOptions | None = option(
        None,
        description="Certificates of TLS, which is spoken when this is there or a URL begins with "
        "tls://; with a server that can't, the run ends. The files must be on every machine.",
    )
    name: str | None = option(
        None,
        min_length=1,
        advanced=True,
        description="What the server's monitoring shows as the name of the connection.",
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long making a connection to one server may take.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long the server may take to answer a request.",
    )
    heartbeat: PositiveDuration = option(
        timedelta(seconds=20),
        advanced=True,
        description="How often the client asks whether the server is still there; a connection that "
        "has been silent for three times as long is given up.",
    )
    inbox: str = option(
        "_INBOX",
        pattern=r"^[^\s.*>]+(\.[^\s.*>]+)*$",
        advanced=True,
        description="How the subjects begin on which answers come, for users who may not subscribe to "
        "`_INBOX.>`.",
    )

    @model_validator(mode="after")
    def _one_identity(self) -> ConnectionOptions:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password belong together")
        given = {
            "user": self.user,
            "token": self.token,
            "nkey": self.nkey,
            "credentials": self.credentials,
            "a user or token in the URL": _split(self.servers[0]).username,
        }
        several = [name for name, value in given.items() if value is not None]
        if len(several) > 1:
            raise ValueError(f"expected one way to log in, not {' and '.join(several)}")
        return self

    def secured(self) -> bool:
        """Whether TLS must be spoken."""
        return self.tls is not None or any(_split(url).scheme == "tls" for url in self.servers)

    def context(self) -> ssl.SSLContext:
        """Return what TLS is spoken with.

        Raises:
            OSError: a file of `tls` can't be read, or holds no certificate or key.
        """
        return (self.tls or NATSTLSOptions()).context()

    def dataset(self, name: str) -> Dataset:
        """Return a stream, a bucket or a subject as catalogues of data know it."""
        return Dataset.at_server("nats", _split(self.servers[0]).geturl(), _PORT, name)


def _split(url: Secret) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        ValueError: it is no URL of a server; the text has nothing of it.
    """
    try:
        parts = urlsplit(url.get_secret_value().strip())
        port = parts.port
    except ValueError:
        raise ValueError("no valid URL (is a character of the password not encoded?)") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError("expected a URL that begins with nats:// or tls://")
    if not parts.hostname or port == 0:
        raise ValueError("the URL has no host, or port 0")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("the URL has something after host and port; settings are options")
    return parts


def api_of(domain: str | None) -> str:
    """Return how the subjects of JetStream's API begin; the server's own domain is not named."""
    return f"$JS.{domain}.API" if domain else "$JS.API"


def places(options: ConnectionOptions) -> list[str]:
    """Return the servers as `host:port`, without user and password."""
    return [_place(_split(url)) for url in options.servers]


def _place(parts: SplitResult) -> str:
    host = parts.hostname or ""  # never empty: `_split` has seen to that
    return f"[{host}]:{parts.port or _PORT}" if ":" in host else f"{host}:{parts.port or _PORT}"


def login(options: ConnectionOptions) -> dict[str, Any]:
    """Return how to log in, as arguments of nats-py's `connect`; empty where nothing is given."""
    if options.credentials is not None:
        return {"user_credentials": str(options.credentials)}
    if options.nkey is not None:
        return {"nkeys_seed_str": options.nkey.get_secret_value().strip()}
    if options.token is not None:
        return {"token": options.token.get_secret_value()}
    if options.user is not None and options.password is not None:
        return {"user": options.user, "password": options.password.get_secret_value()}
    parts = _split(options.servers[0])
    if parts.username is None:
        return {}
    if parts.password is None:
        return {"token": unquote(parts.username)}
    return {"user": unquote(parts.username), "password": unquote(parts.password)}


def check_credentials(file: Path | None) -> None:
    """Look whether a file holds what nats-py looks for: without that it looks for ever.

    Raises:
        ExternalError: it can't be read, or holds none; says nothing of what it holds.
    """
    if file is None:
        return
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        told = f"can't read the credentials file {file}: {error.strerror}"
        raise PermanentError(told) from None
    if _SEED not in text or _JWT not in text:
        told = f"{file} is no credentials file: it must hold a user's JWT and the seed of an nkey"
        raise PermanentError(told)
