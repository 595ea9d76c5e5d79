"""How both components reach a broker: their common options, and which errors retrying can't mend."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import SplitResult, unquote, urlsplit

from mainstem import (
    Duration,
    Hidden,
    HostTLSOptions,
    Options,
    PositiveDuration,
    Secret,
    option,
)
from pydantic import field_validator, model_validator

if TYPE_CHECKING:
    import pika

_PORTS = {"amqp": 5672, "amqps": 5671}


def _check(urls: tuple[Secret, ...]) -> tuple[Secret, ...]:
    if not urls:
        raise ValueError("expected at least one URL")
    for url in urls:
        _split(url)
    return urls


#: One URL of a broker, or several of one cluster; none is ever printed.
Brokers = Annotated[tuple[Secret, ...], Hidden(_check)]


class BrokerTLSOptions(HostTLSOptions):
    """Options of `tls`."""

    server_name: str | None = option(
        None,
        min_length=1,
        description="The name that the broker's certificate carries, when it is not the URL's host.",
    )


class ConnectionOptions(Options):
    """Options of a connection to a broker."""

    url: Brokers = option(
        description="The broker, `amqp://user:password@host:port/vhost` or `amqps://...`; or several, "
        "of one cluster, which are tried in turn. `/` in a vhost's name is written `%2f`; without a "
        "vhost it is `/`.",
        example="${env:AMQP_URL}",
    )
    tls: BrokerTLSOptions | None = option(
        None, description="Certificates of `amqps` URLs. The files must be on every machine."
    )
    heartbeat: Duration = option(
        timedelta(seconds=60),
        advanced=True,
        description="How often both sides show that they are alive; a connection that is silent for "
        "longer is given up. `0 seconds` for never.",
    )
    connection_name: str | None = option(
        None,
        min_length=1,
        advanced=True,
        description="What the broker's management shows as the name of the connection.",
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long making a connection to one address may take.",
    )
    blocked_timeout: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long a broker short of memory or disk may hold back a connection before it is "
        "made anew.",
    )

    @field_validator("heartbeat")
    @classmethod
    def _whole_seconds(cls, value: timedelta) -> timedelta:
        if value.total_seconds() % 1 or value.total_seconds() > 65535:
            raise ValueError("expected whole seconds, 65535 at most")
        return value

    @model_validator(mode="after")
    def _tls_has_urls(self) -> ConnectionOptions:
        if self.tls is not None and all(_split(url).scheme == "amqp" for url in self.url):
            raise ValueError("tls is there, but no URL begins with amqps://")
        return self


def _split(url: Secret) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        ValueError: it is no URL of a broker; the text has nothing of it.
    """
    try:
        parts = urlsplit(url.get_secret_value().strip())
        port = parts.port
    except ValueError:
        raise ValueError("no valid URL (is a character of the password not encoded?)") from None
    if parts.scheme not in _PORTS:
        raise ValueError("expected a URL that begins with amqp:// or amqps://")
    if not parts.hostname or port == 0:
        raise ValueError("the URL has no host, or port 0")
    if parts.query or parts.fragment:
        raise ValueError(
            "the URL has something after `?` or `#`: settings of the connection are options "
            "(heartbeat, connect_timeout, tls); in a password write %3F and %23"
        )
    if "/" in parts.path[1:]:
        raise ValueError(
            "the URL has a second path segment; write a `/` of the vhost's name as %2f"
        )
    if parts.username is not None and parts.password is None:
        raise ValueError("the URL has a user without a password")
    return parts


def places(options: ConnectionOptions) -> list[str]:
    """Return the brokers as `host:port/vhost`, without user and password."""
    return [place(url) for url in options.url]


def place(url: Secret) -> str:
    """Return a broker as `host:port/vhost`, without user and password."""
    parts = _split(url)
    vhost = unquote(parts.path[1:]) or "/"
    return (
        f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}{'' if vhost == '/' else '/'}{vhost}"
    )


def parameters(options: ConnectionOptions, name: str) -> list[pika.ConnectionParameters]:
    """Return what pika needs to connect to each URL, in the order in which they are tried.

    Args:
        options: the component's.
        name: the connection's name for the broker's management, unless `connection_name` gives one.

    Raises:
        OSError: a file of `tls` can't be read, or holds no certificate or key.
    """
    import pika

    made = []
    context = None
    for url in options.url:
        parts = _split(url)
        secured = None
        if parts.scheme == "amqps":
            context = context or (options.tls or BrokerTLSOptions()).context()
            named = options.tls.server_name if options.tls else None
            secured = pika.SSLOptions(context, named or parts.hostname)
        user = unquote(parts.username or "guest")
        password = unquote(parts.password or ("" if parts.username else "guest"))
        made.append(
            pika.ConnectionParameters(
                host=parts.hostname or "",  # never empty: `_split` has seen to that
                port=parts.port or _PORTS[parts.scheme],
                virtual_host=unquote(parts.path[1:]) or "/",
                credentials=pika.PlainCredentials(user, password),
                heartbeat=int(options.heartbeat.total_seconds()),
                # Both: pika counts the second from the start of name resolution.
                socket_timeout=options.connect_timeout.total_seconds(),
                stack_timeout=options.connect_timeout.total_seconds(),
                blocked_connection_timeout=options.blocked_timeout.total_seconds(),
                connection_attempts=1,
                client_properties={"connection_name": options.connection_name or name},
                ssl_options=secured,
            )
        )
    return made


# -- errors -----------------------------------------------------------------------------------

_REPLY = re.compile(r"\((\d{3})\) (['\"])(.*)\2", re.DOTALL)

#: Replies that begin like the permanent ones and pass with time: (code, part of the text).
_PASSING = (
    (404, "is down or inaccessible"),  # a queue's node
    (406, "timed out"),  # a delivery that was not acknowledged in time
    (406, "unknown delivery tag"),  # of a channel before
    (530, "limit"),  # connections of a user or a vhost
)


def permanent(error: BaseException) -> str | None:
    """Return why no retry can mend an error of pika's, in words without secrets; None if one may.

    Wrong credentials, a vhost or exchange or queue that is not there or must not be touched, a
    declaration that differs from what is there, a certificate that is not trusted. Errors that pika
    wraps (`AMQPConnectionWorkflowFailed`) are looked into.
    """
    return next((found for e in _unwrapped(error) if (found := _permanent(e))), None)


def _permanent(error: BaseException) -> str | None:
    from pika import exceptions

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted: {error.verify_message or error.reason}"
    if isinstance(error, exceptions.AuthenticationError):
        return "the broker offers no way to log in by user and password"
    reply = _reply(error)
    if reply is None:
        return None
    code, text = reply
    if any(code == passing and part in text for passing, part in _PASSING):
        return None
    if isinstance(error, exceptions.ProbableAuthenticationError) and code == 403:
        return f"the broker refuses the user or the password: {code} {text}"
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return f"the broker refuses the vhost: {code} {text}"
    meaning = {
        402: "the broker refuses a path",
        403: "the user lacks a permission",
        404: "it is not there",
        406: "it is otherwise on the broker",
        530: "the broker does not allow it",
        540: "the broker can't do it",
    }.get(code)
    return f"{meaning}: {code} {text}" if meaning else None


def words(error: BaseException) -> str:
    """Return what is wrong in one line, without secrets; pika's own texts are nested reprs."""
    texts = []
    for inner in _unwrapped(error):
        reply = _reply(inner)
        if reply is not None:
            texts.append(f"{reply[0]} {reply[1]}")
        elif isinstance(inner, socket.gaierror):
            texts.append(f"name not known: {inner.strerror}")
        elif isinstance(inner, OSError):
            texts.append(inner.strerror or str(inner) or type(inner).__name__)
        else:
            texts.append(": ".join([type(inner).__name__, *map(str, inner.args)]))
    return " ".join("; ".join(dict.fromkeys(texts)).split()) or type(error).__name__


def _unwrapped(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that one of pika's stands for, none of them a wrapper."""
    from pika.adapters.utils import connection_workflow as workflow

    if isinstance(error, workflow.AMQPConnectionWorkflowFailed):
        inside: tuple[object, ...] = error.exceptions
    elif isinstance(error, workflow.AMQPConnectorPhaseErrorBase):
        inside = (error.exception,)
    else:
        inside = error.args
    inner = [e for e in inside if isinstance(e, BaseException)]
    for one in inner:
        yield from _unwrapped(one)
    if not inner:
        yield error


def _reply(error: BaseException) -> tuple[int, str] | None:
    """Return code and text of the broker's farewell, also where pika has only its repr.

    A stream that ended during the log in is `ProbableAuthenticationError` too, but without a reply:
    RabbitMQ says 403 when it means it.
    """
    code: Any = getattr(error, "reply_code", None)
    if isinstance(code, int):
        return code, str(getattr(error, "reply_text", ""))
    from pika import exceptions

    if isinstance(
        error, exceptions.ProbableAuthenticationError | exceptions.ProbableAccessDeniedError
    ):
        found = _REPLY.search(str(error.args[0]) if error.args else "")
        if found:
            return int(found[1]), found[3]
    return None
