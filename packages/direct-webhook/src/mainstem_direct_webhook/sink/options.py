"""The options of the sink `webhook`."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address
from typing import Literal

from mainstem import (
    Options,
    PositiveDuration,
    Size,
    TLSOptions,
    option,
)
from pydantic import field_validator, model_validator

from mainstem_direct_webhook.fields import VALUE
from mainstem_direct_webhook.sink.addresses import refusal
from mainstem_direct_webhook.sink.secret_options import (
    EndpointURL,
    SecretHeaders,
    SecretText,
    SigningSecrets,
    allowed,
    split,
    userinfo,
)


class AuthOptions(Options):
    """Options of `auth`: a bearer token, or a user with a password."""

    bearer: SecretText | None = option(
        None, description="A token, sent as `Authorization: Bearer ...`.", example="${env:TOKEN}"
    )
    user: str | None = option(
        None, min_length=1, pattern="^[^:]*$", description="The user of basic authentication."
    )
    password: SecretText | None = option(
        None, description="The password of `user`.", example="${env:PASSWORD}"
    )

    @model_validator(mode="after")
    def _one(self) -> AuthOptions:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together")
        if (self.bearer is None) == (self.user is None):
            raise ValueError("expected either bearer, or user and password")
        return self


class CloudEventsOptions(Options):
    """Options of `cloudevents`: how messages become events of CloudEvents 1.0."""

    mode: Literal["binary", "structured", "batch"] = option(
        "binary",
        description="`binary`: the value is the body, the attributes are headers `ce-...`. "
        "`structured`: one JSON object. `batch`: a JSON array of those.",
    )
    source: str | None = option(
        None,
        min_length=1,
        description="The attribute `source` of messages whose headers have no `ce-source`.",
        example="/orders",
    )
    type: str | None = option(
        None,
        min_length=1,
        description="The attribute `type` of messages whose headers have no `ce-type`.",
        example="com.example.order.placed",
    )


class WebhookSinkOptions(Options):
    """Options of the sink `webhook`."""

    url: EndpointURL = option(
        description="Where to send: `https://host/path`. It is never printed; errors name the host "
        "alone, for paths and queries often hold tokens. `user:password@` is sent as basic "
        "authentication.",
        example="${env:WEBHOOK_URL}",
    )
    method: Literal["POST", "PUT"] = option("POST", description="The method of the requests.")
    format: Literal["message", "json_array", "ndjson", "cloudevents"] = option(
        "message",
        description="What a request holds. `message`: one message, its value as it is. `json_array`, "
        "`ndjson`: several, whose values are JSON, in an array or on lines. `cloudevents`: as "
        "`cloudevents` says.",
    )
    cloudevents: CloudEventsOptions | None = option(
        None, description="How messages become CloudEvents, with `format: cloudevents`."
    )
    max_messages: int = option(
        100,
        gt=0,
        le=100_000,
        description="How many messages a request holds at most, where it can hold several.",
    )
    max_bytes: Size = option(
        1024 * 1024,
        gt=0,
        description="A request is given no more messages when it holds so many bytes.",
    )
    content_type: str | None = option(
        None,
        min_length=1,
        description="The header `content-type`; when left out `application/octet-stream`, or the type "
        "of `format`. With CloudEvents it is the type of the data, `application/json` when left out.",
        example="application/json",
    )
    headers: SecretHeaders = option(
        dict,
        description="Headers of all requests. Their values are never printed.",
        example={"x-tenant": "a"},
    )
    forward_headers: tuple[str, ...] = option(
        (),
        description="Names of entries of the column `headers` that go into the request, where it holds "
        "one message. `content-type` takes the place of the option `content_type`.",
        example=["content-type", "x-event"],
    )
    auth: AuthOptions | None = option(
        None, description="How to log in at the endpoint, beside what `tls` and `headers` say."
    )
    sign_with: SigningSecrets | None = option(
        None,
        description="Secrets of Standard Webhooks, `whsec_...` or `whsk_...`: each gives a signature. "
        "Several while they are changed.",
        example="${env:WEBHOOK_SECRET}",
    )
    tls: TLSOptions | None = option(
        None, description="Certificates. The files must be on every machine."
    )
    http2: bool = option(True, description="Whether to speak HTTP/2 with endpoints that offer it.")
    requests: int = option(
        8,
        gt=0,
        le=1000,
        description="How many requests of a task may be without an answer at a time.",
    )
    order: Literal["none", "key", "log"] = option(
        "key",
        description="`key`: a request is sent when those before it in the task that hold one of its "
        "keys are answered. `log`: also bring each key's messages together first, in the order of "
        "their log (columns origin, partition, position), which costs a shuffle. `none`: as fast as "
        "`requests` allows. Messages without a key have no order.",
    )
    partitions: int | None = option(
        None,
        gt=0,
        description="How many tasks send in parallel at most; as many as the batch has partitions when "
        "left out.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How long one try may take, from the connection to the end of the answer.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to retry with one request before the batch fails.",
    )
    batch_timeout: PositiveDuration | None = option(
        None,
        advanced=True,
        description="How long a task may take for its part of a batch before the batch fails, also when "
        "requests are answered; for as long as it takes when left out.",
    )
    longest_wait: PositiveDuration = option(
        timedelta(minutes=1),
        advanced=True,
        description="How long to wait between two tries at most, whatever `Retry-After` says.",
    )
    reject: tuple[int, ...] = option(
        (),
        description="Further statuses whose messages go to `rejected` at once, beside the 4xx that are "
        "about a message: such as 404 or 500.",
        example=[404],
    )
    redirects: Literal["never", "same_host"] = option(
        "never",
        description="Whether to follow redirects (307, 308) to the same scheme, host and port. One to "
        "elsewhere is never followed.",
    )
    allow_private: bool = option(
        False,
        description="Whether to connect to addresses that are not public: private, loopback, "
        "link-local, reserved.",
    )

    @field_validator("content_type")
    @classmethod
    def _is_value(cls, value: str | None) -> str | None:
        if value is not None and (not VALUE.fullmatch(value) or "/" not in value):
            raise ValueError("expected a media type such as application/json")
        return value

    @field_validator("forward_headers")
    @classmethod
    def _may_be_forwarded(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(map(allowed, value))
        if "authorization" in names or "cookie" in names:
            raise ValueError("authorization and cookie are not taken from messages: write `auth`")
        return names

    @field_validator("reject")
    @classmethod
    def _is_status(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not all(300 <= status <= 599 for status in value):
            raise ValueError("expected statuses from 300 to 599")
        return value

    @model_validator(mode="after")
    def _fitting(self) -> WebhookSinkOptions:
        parts = split(self.url)
        if (self.format == "cloudevents") != (self.cloudevents is not None):
            raise ValueError("`format: cloudevents` and `cloudevents` go together")
        if self.forward_headers and self.several:
            raise ValueError("forward_headers is there, but a request holds several messages")
        if self.tls is not None and parts.scheme != "https":
            raise ValueError("tls is there, but the URL does not begin with https://")
        if self.auth is not None and (userinfo(self.url) or "authorization" in self.headers):
            raise ValueError("auth is there, and the URL or `headers` say how to log in too")
        if userinfo(self.url) and "authorization" in self.headers:
            raise ValueError("the URL has a user, and `headers` has authorization too")
        if {"content-type"} & self.headers.keys():
            raise ValueError("headers has content-type: write `content_type`")
        if not self.allow_private and (why := _literal(parts.hostname or "")):
            raise ValueError(f"the URL's host {why}; `allow_private: true` lets it be")
        return self

    @property
    def several(self) -> bool:
        """Whether a request can hold more than one message."""
        batched = self.cloudevents is not None and self.cloudevents.mode == "batch"
        return batched or self.format in ("json_array", "ndjson")


def _literal(host: str) -> str | None:
    """Return why a host that is an address is refused."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return refusal(address)
