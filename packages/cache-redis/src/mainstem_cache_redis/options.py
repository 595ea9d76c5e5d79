"""What the document says of Redis. Nothing here imports the vendor's library."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self
from urllib.parse import SplitResult, urlsplit

from mainstem import Hidden, Options, PositiveDuration, Secret, TLSOptions, option
from mainstem.columns import Template, TemplateText
from mainstem_egress import EgressOptions
from pydantic import field_validator, model_validator

_SCHEMES = ("redis", "rediss")


def _check(url: Secret) -> Secret:
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("expected redis://host:port/database or rediss:// for TLS")
    database = parts.path.strip("/")
    if database and not database.isdecimal():
        raise ValueError("expected a number as the database, after the host")
    if parts.query or parts.fragment:
        raise ValueError("expected no parameters: there are options for what they say")
    parts.port  # noqa: B018  # raises ValueError if it is no number
    return url


class ConnectionOptions(Options):
    """How Redis is reached."""

    url: Annotated[Secret, Hidden(_check)] = option(
        description="The server, `redis://user:password@host:port/database`, or `rediss://` for TLS. "
        "User, password, port (6379) and database (0) can be left out.",
        example="${env:REDIS_URL}",
    )
    tls: TLSOptions | None = option(
        None, description="Certificates of TLS. The files must be on every machine."
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10), advanced=True, description="How long making a connection may take."
    )

    @model_validator(mode="after")
    def _securely(self) -> Self:
        if self.tls is not None and self.address().scheme != "rediss":
            raise ValueError("tls is there, and url is not rediss://")
        return self

    def address(self) -> SplitResult:
        """Return the parts of the URL, of which user and password are never shown."""
        return urlsplit(self.url.get_secret_value())


class RedisOptions(EgressOptions, ConnectionOptions):
    """Options of the sink `redis`."""

    stream: str | None = option(
        None, min_length=1, description="The stream that all messages go to.", example="orders"
    )
    stream_from: str = option(
        "origin",
        min_length=1,
        description="The column that holds the name of each message's stream, text or bytes, when "
        "`stream` is left out.",
    )
    max_length: int | None = option(
        None,
        gt=0,
        description="About how many entries a stream keeps: older ones are trimmed as new ones come "
        "(`MAXLEN ~`). Left out, all stay.",
        example=1_000_000,
    )

    @model_validator(mode="after")
    def _fitting(self) -> RedisOptions:
        if self.stream is not None and "stream_from" in self.model_fields_set:
            raise ValueError("stream_from is there next to stream, which goes first")
        return self


class RedisTableOptions(ConnectionOptions):
    """Options of the sink `redis_table`."""

    key: TemplateText = option(
        min_length=1,
        description="The name of a row's hash, with the columns of the table's key in braces: all of "
        "them. A brace is written twice.",
        example="customer:{id}",
    )
    ttl: PositiveDuration | None = option(
        None,
        description="How long a row is kept after its last change; for ever when left out.",
        example="30 days",
    )
    deletes_within: PositiveDuration = option(
        timedelta(days=1),
        description="How long a deletion is remembered, so that an older change that comes late does not "
        "bring its row back.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How long Redis may take to answer a call, which sets up to 500 rows.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to retry without any progress before the batch fails.",
    )

    @field_validator("key")
    @classmethod
    def _named(cls, value: str) -> str:
        if not Template(value).columns:
            raise ValueError("expected the key's columns in braces, such as customer:{id}")
        return value
