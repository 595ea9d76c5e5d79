"""What the document says of AMQP 1.0. Nothing here imports the vendor's library."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal, Self
from urllib.parse import unquote

from mainstem import (
    Dataset,
    Hidden,
    HostTLSOptions,
    Options,
    PositiveDuration,
    Secret,
    option,
    split_address,
)
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions
from pydantic import model_validator

PORTS = {"amqp": 5672, "amqps": 5671}


def _check(urls: tuple[Secret, ...]) -> tuple[Secret, ...]:
    if not urls:
        raise ValueError("expected at least one URL")
    for url in urls:
        parts = split_address(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("expected amqp://host:port or amqps:// for TLS")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("expected nothing after the port: there are options for all else")
        if bool(parts.username) != bool(parts.password):
            raise ValueError("the URL has a user without a password, or a password without a user")
    return urls


class ConnectionOptions(Options):
    """How a broker is reached."""

    url: Annotated[tuple[Secret, ...], Hidden(_check)] = option(
        description="The broker, `amqp://user:password@host:port`, or `amqps://` for TLS; or several, "
        "which are tried in turn. User, password and port (5672, 5671) can be left out.",
        example="${env:AMQP_URL}",
    )
    tls: HostTLSOptions | None = option(
        None, description="Certificates of `amqps` URLs. The files must be on every machine."
    )
    virtual_host: str | None = option(
        None,
        min_length=1,
        advanced=True,
        description="The host that is asked for, where a broker has several; the URL's when left out.",
    )
    idle_timeout: PositiveDuration = option(
        timedelta(seconds=60),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        advanced=True,
        description="After how long without anything from the broker a connection is given up.",
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long making a connection may take, and the broker's answers then.",
    )

    @model_validator(mode="after")
    def _securely(self) -> Self:
        if self.tls is not None and all(split_address(u).scheme == "amqp" for u in self.url):
            raise ValueError("tls is there, but no URL begins with amqps://")
        return self

    def place(self, turn: int) -> tuple[str, int, bool]:
        """Return host and port of the broker whose turn it is, and whether by TLS."""
        parts = split_address(self.url[turn % len(self.url)])
        secured = parts.scheme == "amqps"
        return str(parts.hostname), parts.port or PORTS[parts.scheme], secured

    def login(self, turn: int) -> tuple[str, str] | None:
        """Return user and password for the broker whose turn it is."""
        parts = split_address(self.url[turn % len(self.url)])
        if not parts.username:
            return None
        return unquote(parts.username), unquote(parts.password or "")

    def dataset(self, address: str) -> Dataset:
        """Return an address as catalogues of data know it."""
        parts = split_address(self.url[0])
        return Dataset.at_server("amqp", parts.geturl(), PORTS[parts.scheme], address)


class AMQP1SourceOptions(ConnectionOptions, IngressOptions):
    """Options of the source `amqp1`."""

    address: str = option(
        min_length=1,
        description="The queue or topic, as the broker names its addresses.",
        example="orders",
    )
    subscription: str | None = option(
        None,
        min_length=1,
        max_length=200,
        description="A topic's durable subscription: the broker keeps under this name what comes while "
        "nobody takes it. When left out, `address` is a queue.",
    )
    shared: bool = option(
        False,
        description="Whether others may take messages of the same subscription, each message one. "
        "Several `receivers` need it.",
    )
    client_id: str | None = option(
        None,
        min_length=1,
        description="The container id, JMS's client id, to which a subscription that is not shared "
        "belongs; made of node and checkpoint when left out.",
    )
    selector: str | None = option(
        None,
        min_length=1,
        description="Which messages are taken, as JMS selects them; the others stay.",
        example="colour = 'red' AND weight > 2500",
    )
    ids: Literal["when_given", "always", "never"] = option(
        "when_given",
        description="Which messages are told apart by their message id, so that second copies within "
        "`duplicates_within` are dropped. `always` refuses those without one, and makes this source "
        "exactly-once; `never` is for ids that are not unique.",
    )
    key: str | None = option(
        None,
        min_length=1,
        description="The application property or message annotation that is a message's key; the group "
        "(JMSXGroupID) when left out.",
        example="x-opt-partition-key",
    )
    prefetch: int = option(
        5000,
        ge=1,
        le=100_000,
        description="How many messages the broker gives each receiver ahead of acknowledgements: its "
        "credit. So many are in memory at most, of any size.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.subscription is None:
            for name in ("shared", "client_id"):
                if getattr(self, name):
                    raise ValueError(f"{name} goes with `subscription`")
        elif self.shared and self.client_id:
            raise ValueError("client_id goes with a subscription that is not shared")
        elif self.receivers > 1 and not self.shared:
            raise ValueError("several receivers of one subscription need `shared: true`")
        if self.ids == "always" and not self.duplicates_within:
            raise ValueError("duplicates_within is 0, so `ids: always` would not help")
        return self

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.address)]


class AMQP1Options(EgressOptions, ConnectionOptions):
    """Options of the sink `amqp1`."""

    address: str | None = option(
        None,
        min_length=1,
        description="The queue or topic that all messages are sent to, as the broker names it.",
        example="alarms",
    )
    address_from: str = option(
        "origin",
        min_length=1,
        description="The column that holds each message's address when `address` is left out.",
    )
    kind: Literal["queue", "topic"] = option(
        "queue",
        description="What addresses are, for brokers that make them as they are asked for, and for JMS.",
    )
    body: Literal["bytes", "text"] = option(
        "bytes",
        description="What `value` is for JMS: a BytesMessage, or a TextMessage, for which it must be "
        "UTF-8.",
    )
    durable: bool = option(
        True, description="Whether the broker is to keep messages over its own restart."
    )
    expiry: PositiveDuration | None = option(
        None,
        ge=timedelta(milliseconds=1),
        le=timedelta(days=49),
        description="After how long the broker drops a message that nobody has taken.",
    )

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.address is not None and "address_from" in self.model_fields_set:
            raise ValueError("address_from is there next to address, which goes first")
        return self

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.address)] if self.address else []
