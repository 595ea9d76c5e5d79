"""What the document says of Pub/Sub. Nothing here imports the vendor's library."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Self

from mainstem import LocalPath, Options, PositiveDuration, option
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions
from pydantic import AfterValidator, model_validator

#: Its id or its number; emulators take any.
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z0-9][a-z0-9-]{0,28}[a-z0-9]")
_NAME = re.compile(r"(?!goog)[A-Za-z][\w.~+%-]{2,254}", re.ASCII)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII)
#: The shortest lease that Google gives.
_SHORTEST = timedelta(seconds=10)
#: Where Google's own is.
_GOOGLE = "pubsub.googleapis.com"


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError("expected a host, or host:port")
    return value


def _project(value: str) -> str:
    if not _PROJECT.fullmatch(value):
        raise ValueError("expected a project's id: small letters, digits and -")
    return value


def _named(kind: str, value: str) -> str:
    """Check the name of a topic or a subscription, or its whole one."""
    *before, name = value.split("/")
    whole = len(before) == 3 and before[0] == "projects" and before[2] == f"{kind}s"
    if (before and not (whole and _PROJECT.fullmatch(before[1]))) or not _NAME.fullmatch(name):
        raise ValueError(f"expected a {kind}'s name, or projects/PROJECT/{kind}s/NAME")
    return value


def _topic(value: str) -> str:
    return _named("topic", value)


def _subscription(value: str) -> str:
    return _named("subscription", value)


Host = Annotated[str, AfterValidator(_host)]


class ConnectionOptions(Options):
    """How Pub/Sub is reached."""

    project: Annotated[str, AfterValidator(_project)] | None = option(
        None,
        description="The project of the topic or subscription, if its name does not say it.",
        example="my-project",
    )
    credentials: LocalPath | None = option(
        None,
        description="A file of credentials as Google's tools make them: a service account's key, or how "
        "to become one. When left out, what Google's libraries find: the file that "
        "`GOOGLE_APPLICATION_CREDENTIALS` names, or the machine's own account.",
    )
    endpoint: Host = option(
        _GOOGLE,
        description="The host that is asked; one of a region keeps messages in it, and in their order.",
        example="europe-west3-pubsub.googleapis.com",
    )
    emulator: Host | None = option(
        None, description="An emulator, `host:port`: without TLS and credentials."
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        description="How long making a connection may take, and how long it may be away before it is "
        "made anew.",
        advanced=True,
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30), description="How long an answer may take.", advanced=True
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.emulator is not None:
            for name in ("credentials", "endpoint"):
                if name in self.model_fields_set and getattr(self, name) is not None:
                    raise ValueError(f"emulator goes without {name}")
        return self

    def whole(self, kind: str, name: str) -> str:
        """Return the whole name of a topic or subscription."""
        return name if "/" in name else f"projects/{self.project}/{kind}s/{name}"

    def server(self) -> str:
        """Return the host, for people."""
        return self.emulator or self.endpoint


class PubSubSourceOptions(ConnectionOptions, IngressOptions):
    """Options of the source `pubsub`."""

    subscription: Annotated[str, AfterValidator(_subscription)] = option(
        description="The subscription that messages are pulled from; its name, or the whole one.",
        example="orders-mainstem",
    )
    key: str | None = option(
        None,
        min_length=1,
        description="The attribute that is a message's key; when left out, its ordering key.",
    )
    prefetch: int = option(
        1000,
        ge=1,
        le=100_000,
        description="About how many messages each receiver may have that are not stored yet.",
    )
    lease: PositiveDuration = option(
        timedelta(seconds=60),
        ge=timedelta(seconds=1),
        le=timedelta(seconds=600),
        description="For how long a message that was pulled is hidden from others. While it waits to be "
        "stored that is extended; when a process is killed it comes again after so long.",
    )

    @model_validator(mode="after")
    def _in_a_project(self) -> Self:
        if self.project is None and "/" not in self.subscription:
            raise ValueError("project is missing, and subscription does not say it")
        if self.emulator is None and self.lease < _SHORTEST:
            raise ValueError("lease is shorter than 10 seconds, which only an emulator may allow")
        return self

    @property
    def path(self) -> str:
        """The subscription's whole name."""
        return self.whole("subscription", self.subscription)

    def place(self) -> str:
        """Return what is read, for people: no secrets."""
        return f"{self.path} at {self.server()}"


class PubSubOptions(EgressOptions, ConnectionOptions):
    """Options of the sink `pubsub`."""

    topic: Annotated[str, AfterValidator(_topic)] = option(
        description="The topic that messages are published to; its name, or the whole one.",
        example="orders",
    )
    key: str | None = option(
        None,
        min_length=1,
        max_length=256,
        description="The attribute that a row's key goes into; when left out, a key is the ordering key.",
    )
    requests: int = option(
        8,
        ge=1,
        le=64,
        description="How many requests a connection has open at once. Messages of one ordering key are "
        "never in two.",
        advanced=True,
    )

    @model_validator(mode="after")
    def _in_a_project(self) -> Self:
        if self.project is None and "/" not in self.topic:
            raise ValueError("project is missing, and topic does not say it")
        return self

    @property
    def path(self) -> str:
        """The topic's whole name."""
        return self.whole("topic", self.topic)

    def place(self) -> str:
        """Return what is written to, for people: no secrets."""
        return f"{self.path} at {self.server()}"
