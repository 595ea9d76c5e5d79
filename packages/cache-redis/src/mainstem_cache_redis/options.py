"""What the document says of Redis. Nothing here imports the vendor's library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal, Self
from urllib.parse import SplitResult, urlsplit

from mainstem import (
    Dataset,
    Hidden,
    Options,
    PositiveDuration,
    Secret,
    TLSOptions,
    option,
    split_address,
)
from mainstem.columns import Template, TemplateText
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions
from pydantic import Field, field_validator, model_validator

from mainstem_cache_redis.slots import slot_of

_PLACE = re.compile(r"(?P<host>[\w.-]+|\[[\da-fA-F:.]+\])(?::(?P<port>\d{1,5}))?")
_SCHEMES = ("redis", "rediss")


def _check(url: Secret) -> Secret:
    parts = split_address(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("expected redis://host:port/database or rediss:// for TLS")
    database = parts.path.strip("/")
    if database and not database.isdecimal():
        raise ValueError("expected a number as the database, after the host")
    if parts.query or parts.fragment:
        raise ValueError("expected no parameters: there are options for what they say")
    return url


def place(text: str, port: int) -> tuple[str, int]:
    """Return host and port of `host:port`, the port one of its own where it is left out.

    Raises:
        ValueError: it is no such text.
    """
    found = _PLACE.fullmatch(text)
    if found is None or (found["port"] and not 0 < int(found["port"]) < 2**16):
        raise ValueError(f"expected host:port, not {text!r}")
    return found["host"].strip("[]"), int(found["port"] or port)


class ConnectionOptions(Options):
    """How Redis is reached."""

    url: Annotated[Secret, Hidden(_check)] = option(
        description="The server, `redis://user:password@host:port/database`, or `rediss://` for TLS. "
        "User, password, port (6379) and database (0) can be left out.",
        example="${env:REDIS_URL}",
    )
    sentinels: list[str] = option(
        list,
        description="Sentinels, `host:port` (26379), that know which server is the master of a service; "
        "the host in `url` is then the service's name. After a failover the new master is asked for.",
        example=["sentinel-1:26379", "sentinel-2:26379"],
    )
    sentinel_password: Secret | None = option(None, description="The password of the sentinels.")
    cluster: bool = option(
        False,
        description="Whether the server is one of a Redis Cluster, which says where the others are.",
    )
    nodes: list[str] = option(
        list,
        description="Further servers of the cluster, `host:port` (6379), that are asked when the one in "
        "`url` is away.",
        example=["redis-2:6379", "redis-3:6379"],
    )
    tls: TLSOptions | None = option(
        None, description="Certificates of TLS. The files must be on every machine."
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10), advanced=True, description="How long making a connection may take."
    )

    @model_validator(mode="after")
    def _securely(self) -> Self:
        if self.sentinel_password is not None and not self.sentinels:
            raise ValueError("sentinel_password is there, and sentinels are not")
        if self.cluster and (self.sentinels or self.address().path.strip("/") not in ("", "0")):
            raise ValueError("a cluster has no sentinels, and the database 0 alone")
        if self.nodes and not self.cluster:
            raise ValueError("nodes are there, and cluster is not true")
        if self.tls is not None and self.address().scheme != "rediss":
            raise ValueError("tls is there, and url is not rediss://")
        return self

    @field_validator("sentinels", "nodes")
    @classmethod
    def _are_places(cls, value: list[str]) -> list[str]:
        for each in value:
            place(each, 0)
        return value

    @property
    def service(self) -> str:
        """The host as it is written: the name of a service, in which case counts."""
        return self.address().netloc.rpartition("@")[2].partition(":")[0]

    def address(self) -> SplitResult:
        """Return the parts of the URL, of which user and password are never shown."""
        return urlsplit(self.url.get_secret_value())

    def dataset(self, name: str) -> Dataset:
        """Return a stream, or a pattern of keys, as catalogues of data know it: with its database."""
        parts = self.address()
        database = parts.path.strip("/") or "0"
        return Dataset.at_server("redis", parts.geturl(), 6379, f"{database}/{name}")


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
        if self.cluster and self.stream is None:
            raise ValueError("cluster: name one stream, which is on one of the servers: stream")
        return self

    @property
    def name(self) -> bytes:
        """A name of which the server is that is written to."""
        return (self.stream or "").encode()

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.stream)] if self.stream else []


class RedisSourceOptions(ConnectionOptions, IngressOptions):
    """Options of the source `redis`."""

    streams: list[Annotated[str, Field(min_length=1)]] = option(
        min_length=1, description="The streams that are read.", example=["orders"]
    )
    group: str = option(
        min_length=1,
        description="The consumer group; made where it is not there.",
        example="mainstem",
    )
    start: Literal["earliest", "latest"] = option(
        "earliest",
        description="Where a group that is made begins: with what the stream holds (`earliest`), or with "
        "what comes after (`latest`).",
    )
    format: Literal["fields", "messages"] = option(
        "fields",
        description="What an entry is. `fields`: a message whose value is a JSON object of its fields, "
        "as texts, or the one that `value` names; `messages`: as the sink `redis` writes it, whose field "
        "`id` tells copies apart.",
    )
    value: str | None = option(
        None,
        description="The field that is a message's value; the other ones are its headers. Without it an "
        "entry whose fields are no text is refused.",
    )
    key: str | None = option(None, description="The field that is a message's key.")
    delete: bool = option(
        False,
        description="Whether entries are deleted once they are safe on disk, also for other groups.",
    )
    claim_after: PositiveDuration = option(
        timedelta(minutes=1),
        description="How long another consumer of the group may hold an entry before it is taken over. "
        "Receivers say more often that they are at work.",
    )
    prefetch: int = option(
        10_000,
        ge=1,
        description="How many entries each receiver takes ahead of acknowledgements.",
        advanced=True,
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30), advanced=True, description="How long Redis may take to answer."
    )

    @field_validator("streams")
    @classmethod
    def _different(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("one is there twice")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.cluster and len({slot_of(name.encode()) for name in self.streams}) > 1:
            raise ValueError(
                "cluster: expected streams of one slot: one stream, or names with the same in braces"
            )
        return self

    @property
    def name(self) -> bytes:
        """A name of which the server is that is read."""
        return self.streams[0].encode()

    @field_validator("claim_after")
    @classmethod
    def _patient(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=10):
            raise ValueError("expected 10 seconds or more")
        return value

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(stream) for stream in self.streams]


class RedisTableOptions(ConnectionOptions):
    """Options of the sink `redis_table`."""

    key: TemplateText = option(
        min_length=1,
        description="The name of a row's hash, or string, with the columns of the table's key in "
        "braces: all of them. A brace is written twice.",
        example="customer:{id}",
    )
    format: Literal["hash", "json", "value"] = option(
        "hash",
        description="What a row becomes: a `hash` with a field for each column, a string with a `json` "
        "object of them, or a string with the `value` of one column.",
    )
    value: str | None = option(
        None, description="The column whose value a string has, for `format: value`."
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

    @model_validator(mode="after")
    def _of_the_format(self) -> RedisTableOptions:
        if (self.value is not None) != (self.format == "value"):
            raise ValueError("value: give it with `format: value`, and only then")
        return self

    @field_validator("key")
    @classmethod
    def _named(cls, value: str) -> str:
        if not Template(value).columns:
            raise ValueError("expected the key's columns in braces, such as customer:{id}")
        if value.startswith("mainstem:"):
            raise ValueError("names that begin with mainstem: are kept for what is known of rows")
        Template(value).apart()
        return value
