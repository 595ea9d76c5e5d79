"""The options of the source `webhook`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache
from typing import Literal

from mainstem import (
    Duration,
    LocalPath,
    Options,
    PositiveDuration,
    Secret,
    Size,
    option,
)
from mainstem_ingress import IngressOptions
from pydantic import field_validator, model_validator

from mainstem_direct_webhook.fields import TOKEN
from mainstem_direct_webhook.source.verify_options import (
    Handshake,
    HMACVerify,
    MTLSVerify,
    SlackVerify,
    StripeVerify,
    Verify,
)

#: The headers that are kept when the options say nothing: what a body is, and what vendors say of it.
KEPT = (
    "content-type",
    "user-agent",
    "webhook-id",
    "webhook-timestamp",
    "svix-id",
    "svix-timestamp",
    "idempotency-key",
    "ce-*",
    "x-github-*",
    "x-slack-retry-*",
)

#: How many names of headers are not looked at again.
_REMEMBERED = 1000

_SECRET = re.compile(
    r"authorization|authentication|cookie|signature|secret|token|credential|jwt|api-?key"
    r"|passphrase|passw(or)?d|pwd|(^|-)(auth|hmac|key|pass|sign|sig)(-|$)"
)
#: Keys that belong to data.
_DATA_KEY = re.compile(r"(^|-)(idempotency|message|ordering|partition|routing)-key(-|$)")


def is_secret(name: str) -> bool:
    """Whether a header, by its name in lower case, carries a secret or a signature."""
    return _SECRET.search(_DATA_KEY.sub("-", name)) is not None


class Keeper:
    """Picks the headers that are kept.

    Args:
        names: in any case, with `*` at the end for all that begin so.
        never: names in lower case that are left out whatever the names say.
    """

    def __init__(self, names: Iterable[str], never: Iterable[str] = ()) -> None:
        lower = [name.lower() for name in names]
        self._never = {name.encode() for name in never}
        self._exact = {
            name.encode(): name
            for name in lower
            if not name.endswith("*") and name.encode() not in self._never
        }
        self._begin = tuple(name[:-1].encode() for name in lower if name.endswith("*"))
        self._name = lru_cache(_REMEMBERED)(self._look)

    def kept(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, bytes]]:
        """Return names, in lower case, and values; of a name that comes twice, the last counts."""
        name = self._name
        return [(text, value) for each, value in headers if (text := name(each)) is not None]

    def _look(self, name: bytes) -> str | None:
        """Return the name of a header that is kept, else None."""
        if name in self._exact:
            return self._exact[name]
        if not name.startswith(self._begin) or name in self._never:
            return None
        text = name.decode("latin-1")
        return None if is_secret(text) else text


_SEGMENT = re.compile(r"\{([a-z][a-z0-9_]*)\}|[A-Za-z0-9._~!$&'()*+,;=:@-]*")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/(\*|(\*\+)?[A-Za-z0-9!#$&^_.+-]+)")


class Place(Options):
    """Where a value stands in a request: one of the three."""

    header: str | None = option(
        None,
        description="The name of a header; not of one that carries a secret or a signature.",
        example="X-Request-Id",
    )
    path: str | None = option(None, description="The name of a `{parameter}` of the path.")
    field: str | None = option(
        None,
        min_length=1,
        description="A field of the JSON body, with dots for those inside others; of each part, when "
        "the body is split. Text and whole numbers count.",
        example="event.id",
    )

    @model_validator(mode="after")
    def _one(self) -> Place:
        if sum(each is not None for each in (self.header, self.path, self.field)) != 1:
            raise ValueError("expected one of header, path and field")
        if self.header is not None and not TOKEN.fullmatch(self.header):
            raise ValueError(f"{self.header!r} is no name of a header")
        if self.header is not None and is_secret(self.header.lower()):
            raise ValueError(f"{self.header!r} carries a secret or a signature, and is never kept")
        return self


class PathOptions(Options):
    """How the requests to one path are read."""

    verify: Verify = option(
        description="How the sender is told from a forger; `{use: none}` lets everybody in."
    )
    handshake: Handshake | None = option(
        None,
        description="How a sender makes sure of the path before it sends, by requests that are no "
        "messages. Slack's is part of `verify: {use: slack}`.",
    )
    methods: list[Literal["POST", "PUT"]] = option(
        lambda: ["POST"], min_length=1, description="The methods that are answered."
    )
    content_types: list[str] | None = option(
        None,
        min_length=1,
        description="The media types that are taken, without parameters; `application/*` and "
        "`application/*+json` are patterns. Any, when left out.",
        example=["application/json"],
    )
    headers: list[str] = option(
        lambda: list(KEPT),
        description="The request's headers that are kept, with `*` at the end for all that begin so. "
        "Those whose names tell of secrets or signatures never are.",
    )
    key: Place | None = option(None, description="Where the message's key stands.")
    id: Place | None = option(
        None,
        description="Where the id stands by which a second delivery is known. When left out, where the "
        "verifier's senders put it; else in `webhook-id` or `Idempotency-Key`.",
    )
    split: Literal["ndjson", "json_array"] | None = option(
        None,
        description="Makes a message of each line, or of each element of an array, instead of one of "
        "the whole body. All of a request is stored, or nothing.",
    )
    cloudevents: bool = option(
        False,
        description="Whether requests are CloudEvents 1.0, binary, structured or batched: `value` is "
        "then the data, and the attributes are in `headers` as `ce-NAME`.",
    )
    most_parts: int = option(
        10_000,
        ge=1,
        le=100_000,
        advanced=True,
        description="The most messages that one request may hold.",
    )

    @field_validator("content_types")
    @classmethod
    def _media_types(cls, value: list[str] | None) -> list[str] | None:
        for each in value or ():
            if not _MEDIA_TYPE.fullmatch(each):
                raise ValueError(f"{each!r} is no media type, such as application/json")
        return value

    @field_validator("headers")
    @classmethod
    def _names(cls, value: list[str]) -> list[str]:
        for each in value:
            if not TOKEN.fullmatch(each) or "*" in each[:-1]:
                raise ValueError(f"{each!r} is no name of a header, or one with `*` at its end")
            if is_secret(each.lower()):
                raise ValueError(f"{each!r} carries a secret or a signature, and is never kept")
        return value

    @property
    def parses(self) -> bool:
        """Whether bodies are read as JSON."""
        fields = [place.field for place in (self.key, self.id) if place is not None]
        # Slack asks questions, and Stripe's ids are in the body.
        read = isinstance(self.verify, SlackVerify | StripeVerify)
        return bool(read or self.cloudevents or self.split or any(fields))

    @model_validator(mode="after")
    def _fits(self) -> PathOptions:
        if self.cloudevents and (self.split or self.id):
            raise ValueError("cloudevents have ids and batches of their own: no `split`, no `id`")
        return self


class ServerTLS(Options):
    """The server's certificates."""

    certificate: LocalPath = option(
        description="The server's certificate (PEM), with those between it and its authority."
    )
    key: LocalPath | None = option(
        None, description="Its key (PEM), when it is not in the same file."
    )
    password: Secret | None = option(None, description="What the key is encrypted with, if it is.")
    ca: LocalPath | None = option(
        None,
        description="Certificates (PEM) that those of clients must be signed by: for "
        "`verify: {use: mtls}`.",
    )


class Rate(Options):
    """How many requests a client may send."""

    requests: int = option(ge=1, description="So many requests,")
    per: PositiveDuration = option(timedelta(seconds=1), description="in so long, over time.")
    burst: int | None = option(
        None, ge=1, description="How many may come at once; as many as `requests` when left out."
    )
    clients: int = option(
        100_000,
        ge=1,
        advanced=True,
        description="How many clients are remembered; the one not seen for longest is forgotten.",
    )


class Limits(Options):
    """What a client may ask of the server."""

    head_bytes: Size = option(
        32 * 2**10, ge=1024, le=2**20, description="The most bytes of a request line and headers."
    )
    headers: int = option(100, ge=1, le=1000, description="The most headers of a request.")
    head_time: PositiveDuration = option(
        timedelta(seconds=10), description="How long the request line and headers may take."
    )
    body_time: PositiveDuration = option(
        timedelta(seconds=30), description="How long a body may take to come."
    )
    idle_time: PositiveDuration = option(
        timedelta(seconds=75),
        description="How long a connection may be idle between requests.",
    )
    connections: int = option(
        800, ge=1, le=100_000, description="The most connections of each receiver."
    )
    pending_bytes: Size = option(
        256 * 2**20,
        ge=1,
        description="The most bytes of bodies that are being read, or wait to be stored, in each "
        "receiver; above it, the answer is 503. Of what is split, each part counts with its headers.",
    )

    parsed_bytes: Size = option(
        8 * 2**20,
        ge=1,
        description="The most bytes of a body that is read as JSON: that is split, an event, or has its "
        "key or id in a field. Meanwhile the receiver answers nobody.",
    )


class WebhookSourceOptions(IngressOptions):
    """Options of the source `webhook`."""

    host: str = option(
        "127.0.0.1",
        min_length=1,
        description="The address that is listened on; `0.0.0.0` or `::` for all of this machine.",
    )
    port: int = option(ge=1, le=65535, description="The port that is listened on.")
    paths: dict[str, PathOptions] = option(
        min_length=1,
        description="What comes in where: options by path. A path may have parameters that stand for "
        "one segment, such as `/shops/{shop}/orders`.",
        example={"/github": {"verify": {"use": "github", "secret": "${env:GITHUB_SECRET}"}}},
    )
    ids: Literal["when_given", "always", "never"] = option(
        "when_given",
        description="Which messages are told apart by ids, so that second deliveries within "
        "`duplicates_within` are answered and not stored. `always` refuses those without one (400), "
        "and makes this source exactly-once; it needs `duplicates_within` of twice each `tolerance`. "
        "`never` is for ids that are not unique.",
    )
    status: Literal[200, 201, 202, 204] = option(
        200, description="The status of the answer when the message is on disk."
    )
    tls: ServerTLS | None = option(None, description="Serve HTTPS.")
    rate: Rate | None = option(
        None,
        description="How many requests a client (an IPv4 address, or 64 bits of an IPv6 address) may "
        "send to each receiver; above it, the answer is 429. No limit when left out.",
    )
    trusted_proxies: list[str] = option(
        list,
        description="Addresses or networks of proxies whose `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are believed.",
        example=["10.0.0.0/8"],
    )
    health: str | None = option(
        "/healthz", description="The path that answers 200 while the server lives; null for none."
    )
    readiness: str | None = option(
        "/readyz",
        description="The path that answers 200 while messages are taken, else 503; null for none.",
    )
    limits: Limits = option(
        Limits, advanced=True, description="What a client may ask of the server."
    )
    max_message: Size = option(
        32 * 2**20,
        gt=0,
        le=512 * 2**20,
        description="A request with a larger body is answered with 413, and not stored.",
    )
    linger: Duration = option(
        timedelta(0),
        description="or when its first message has waited so long, beside the 5 ms in which requests "
        "gather unless all connections wait. More makes fewer and larger segments, and later answers.",
        advanced=True,
    )

    @field_validator("paths")
    @classmethod
    def _paths(cls, value: dict[str, PathOptions]) -> dict[str, PathOptions]:
        shapes: dict[str, str] = {}
        for path, options in value.items():
            names = _parameters(path)
            for what, place in (("key", options.key), ("id", options.id)):
                if place is not None and place.path is not None and place.path not in names:
                    raise ValueError(f"{path}: {what} names {place.path!r}, no parameter of it")
            shape = re.sub(r"\{[^}]*\}", "{}", path)
            if shape in shapes:
                raise ValueError(f"{shapes[shape]!r} and {path!r} are one path")
            shapes[shape] = path
        return value

    @field_validator("health", "readiness")
    @classmethod
    def _plain_path(cls, value: str | None) -> str | None:
        if value is not None and _parameters(value):
            raise ValueError("expected a path without parameters")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: list[str]) -> list[str]:
        for each in value:
            try:
                ipaddress.ip_network(each)
            except ValueError:
                raise ValueError(f"{each!r} is no address or network") from None
        return value

    @model_validator(mode="after")
    def _whole(self) -> WebhookSourceOptions:
        for name in ("health", "readiness"):
            if getattr(self, name) in self.paths:
                raise ValueError(f"{getattr(self, name)!r} is in `paths`, and is also `{name}`")
        if self.health is not None and self.health == self.readiness:
            raise ValueError("`health` and `readiness` are one path")
        needs = [p for p, o in self.paths.items() if isinstance(o.verify, MTLSVerify)]
        if needs and (self.tls is None or self.tls.ca is None):
            raise ValueError(f"{needs[0]!r} verifies by mtls, which needs `tls` with `ca`")
        for path, options in self.paths.items():
            verify = options.verify
            places = [each.header or "" for each in (options.key, options.id) if each is not None]
            if isinstance(verify, HMACVerify) and verify.header.lower() in {
                name.lower() for name in (*options.headers, *places)
            }:
                raise ValueError(f"{path!r}: {verify.header!r} is a signature, and is never kept")
        if self.limits.pending_bytes < self.max_message:
            raise ValueError("`limits.pending_bytes` is less than `max_message`")
        return self


def _parameters(path: str) -> list[str]:
    """Return the names of a path's parameters.

    Raises:
        ValueError: it is no path.
    """
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is no path: it does not begin with `/`")
    names = []
    for segment in path[1:].split("/"):
        match = _SEGMENT.fullmatch(segment)
        if match is None:
            raise ValueError(
                f"{path!r} is no path: {segment!r} is neither text nor a {{parameter}}"
            )
        if match[1]:
            names.append(match[1])
    if len(set(names)) < len(names):
        raise ValueError(f"{path!r} has a parameter twice")
    return names
