"""The options of a connection to a broker."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from urllib.parse import SplitResult, unquote, urlsplit

from mainstem import (
    Dataset,
    Duration,
    Hidden,
    HostTLSOptions,
    Options,
    PositiveDuration,
    Secret,
    option,
)
from pydantic import field_validator, model_validator

PORTS = {"amqp": 5672, "amqps": 5671}


def _check(urls: tuple[Secret, ...]) -> tuple[Secret, ...]:
    if not urls:
        raise ValueError("expected at least one URL")
    for url in urls:
        split(url)
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
        if self.tls is not None and all(split(url).scheme == "amqp" for url in self.url):
            raise ValueError("tls is there, but no URL begins with amqps://")
        return self

    def dataset(self, name: str) -> Dataset:
        """Return a queue or an exchange as catalogues of data know it: with its vhost, but for `/`."""
        parts = split(self.url[0])
        path = [*filter(None, [unquote(parts.path[1:]).strip("/")]), name]
        return Dataset.at_server("amqp", parts.geturl(), PORTS[parts.scheme], "/".join(path))


def split(url: Secret) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        ValueError: it is no URL of a broker; the text has nothing of it.
    """
    try:
        parts = urlsplit(url.get_secret_value().strip())
        port = parts.port
    except ValueError:
        raise ValueError("no valid URL (is a character of the password not encoded?)") from None
    if parts.scheme not in PORTS:
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
