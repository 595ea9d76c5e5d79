"""What the document says of MQTT. Nothing here imports the vendor's library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal, Self
from urllib.parse import SplitResult, unquote, urlsplit

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
from pydantic import Field, field_validator, model_validator

PORTS = {"mqtt": 1883, "mqtts": 8883}
#: Control characters, and those that are none.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
#: A name and what is asked for have 16 bits for their length.
_LONGEST = 65_535


def _check(url: Secret) -> Secret:
    parts = split_address(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("expected mqtt://host:port or mqtts:// for TLS")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("expected nothing after the port: there are options for all else")
    return url


def _is_filter(value: str) -> str:
    levels = value.split("/")
    wild = [level for level in levels if "+" in level or "#" in level]
    if any(level not in ("+", "#") for level in wild) or "#" in levels[:-1] or "\0" in value:
        raise ValueError("expected a topic: `+` stands for a level, `#` at the end for all below")
    if value.startswith("$share/"):
        raise ValueError("there is an option for that: `share`")
    return value


class ConnectionOptions(Options):
    """How a server is reached."""

    url: Annotated[Secret, Hidden(_check)] = option(
        description="The server, `mqtt://user:password@host:port`, or `mqtts://` for TLS. User, password "
        "and port (1883, 8883) can be left out.",
        example="${env:MQTT_URL}",
    )
    version: Literal["5", "3.1.1"] = option("5", description="The protocol's version.")
    tls: HostTLSOptions | None = option(
        None, description="Certificates of TLS. The files must be on every machine."
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long making a connection may take, and the server's answers then.",
    )
    keep_alive: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How often at least something is sent, so that each side knows of the other.",
    )

    @model_validator(mode="after")
    def _securely(self) -> Self:
        if self.tls is not None and self.address().scheme != "mqtts":
            raise ValueError("tls is there, and url is not mqtts://")
        return self

    def address(self) -> SplitResult:
        """Return the parts of the URL, of which user and password are never shown."""
        return urlsplit(self.url.get_secret_value())

    def place(self) -> tuple[str, int]:
        """Return host and port."""
        address = self.address()
        return str(address.hostname), address.port or PORTS[address.scheme]

    def login(self) -> tuple[str, str | None] | None:
        """Return user and password."""
        address = self.address()
        if not address.username:
            return None
        return unquote(address.username), unquote(address.password) if address.password else None

    def dataset(self, topic: str) -> Dataset:
        """Return a topic as catalogues of data know it."""
        parts = self.address()
        return Dataset.at_server("mqtt", parts.geturl(), PORTS[parts.scheme], topic)


class WillOptions(Options):
    """Options of `will`."""

    topic: str = option(min_length=1, description="Where it is published.")
    payload: str = option("", description="What it says.")
    qos: Literal[0, 1, 2] = option(1, description="Its quality of service.")
    retain: bool = option(
        False, description="Whether the server keeps it for who subscribes later."
    )


class MQTTSourceOptions(ConnectionOptions, IngressOptions):
    """Options of the source `mqtt`."""

    topics: list[Annotated[str, Field(min_length=1, max_length=_LONGEST)]] = option(
        min_length=1,
        description="The topics, as the protocol has filters: `+` stands for a level, `#` at the end for "
        "all below.",
        example=["plant/+/temperature"],
    )
    qos: Literal[0, 1] = option(
        1,
        description="Quality of service: 1, what the server has taken comes, also what came while this "
        "was away; 0, it may be lost. (With 1 a message that comes again is known, so that 2 would add "
        "nothing.)",
    )
    client_id: str | None = option(
        None,
        min_length=1,
        description="What the server knows the session by; made of the checkpoint when left out. Several "
        "receivers add their numbers.",
    )
    session_expiry: PositiveDuration = option(
        timedelta(days=7),
        description="How long the server is to keep the session, and what comes, while this is away (of "
        "version 5; with 3.1.1 the server decides).",
    )
    share: str | None = option(
        None,
        min_length=1,
        pattern=r"^[^/+#]+$",
        description="The name of a shared subscription: each message comes to one of those who share it. "
        "Several `receivers` need one.",
    )
    retained: Literal["new", "always", "never"] = option(
        "new",
        description="Whether the messages that the server has retained come: when a topic is subscribed "
        "to for the first time, with every connection, or not (of version 5; with 3.1.1 `new`).",
    )
    key: str | None = option(
        None, description="The user property that is a message's key (of version 5)."
    )
    will: WillOptions | None = option(
        None, description="What the server publishes when this is gone without taking leave."
    )
    prefetch: int = option(
        1000,
        ge=1,
        le=10_000,
        description="How many messages the server may have in flight to each receiver.",
        advanced=True,
    )

    @field_validator("topics")
    @classmethod
    def _are_filters(cls, value: list[str]) -> list[str]:
        for each in value:
            _is_filter(each)
        if len(set(value)) < len(value):
            raise ValueError("one is there twice")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.receivers > 1 and self.share is None:
            raise ValueError("several receivers need `share`: each would be given every message")
        if self.version == "3.1.1":
            for name in ("share", "key"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} goes with version 5")
            if self.retained != "new":
                raise ValueError("retained goes with version 5")
        return self

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(topic) for topic in self.topics]


class MQTTOptions(EgressOptions, ConnectionOptions):
    """Options of the sink `mqtt`."""

    topic: str | None = option(
        None,
        min_length=1,
        description="The topic that all messages are published to.",
        example="plant/alarms",
    )
    topic_from: str = option(
        "origin",
        min_length=1,
        description="The column that holds each message's topic when `topic` is left out.",
    )
    qos: Literal[0, 1, 2] = option(
        1,
        description="Quality of service: with 0 nobody says that a message arrived; 1 and 2 are "
        "acknowledged by the server. Between server and readers theirs counts.",
    )
    retain: bool = option(
        False,
        description="Whether the server keeps the last message of a topic for who subscribes later; an "
        "empty one removes it.",
    )
    expiry: PositiveDuration | None = option(
        None,
        description="After how long the server drops a message that was not delivered (of version 5).",
    )

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.topic is not None and "topic_from" in self.model_fields_set:
            raise ValueError("topic_from is there next to topic, which goes first")
        if self.topic is not None and (why := unfit(self.topic)):
            raise ValueError(f"topic: {why}")
        if self.expiry is not None and self.version != "5":
            raise ValueError("expiry goes with version 5")
        return self

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.topic)] if self.topic else []


def unfit(topic: str) -> str:
    """Return why messages can't be published to a topic; empty if they can."""
    if not topic:
        return "it is empty"
    if set("+#") & set(topic):
        return "it has + or # in it"
    return "it is too long, or has control characters" if unfit_text(topic) else ""


def unfit_text(text: str) -> bool:
    """Whether servers end a connection for a text: it is too long, or has control characters."""
    return _CONTROL.search(text) is not None or len(text.encode()) > _LONGEST
