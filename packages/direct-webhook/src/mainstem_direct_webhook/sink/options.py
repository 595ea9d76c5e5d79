"""The options of the sink `webhook`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from mainstem import (
    Options,
    PositiveDuration,
    Size,
    option,
)
from pydantic import field_validator, model_validator

from mainstem_direct_webhook.client.options import EndpointOptions, Statuses
from mainstem_direct_webhook.client.secret_options import SigningSecrets, allowed
from mainstem_direct_webhook.fields import VALUE


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


class WebhookSinkOptions(EndpointOptions):
    """Options of the sink `webhook`."""

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
    forward_headers: tuple[str, ...] = option(
        (),
        description="Names of entries of the column `headers` that go into the request, where it holds "
        "one message. `content-type` takes the place of the option `content_type`.",
        example=["content-type", "x-event"],
    )
    sign_with: SigningSecrets | None = option(
        None,
        description="Secrets of Standard Webhooks, `whsec_...` or `whsk_...`: each gives a signature. "
        "Several while they are changed.",
        example="${env:WEBHOOK_SECRET}",
    )
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
    reject: Statuses = option(
        (),
        description="Further statuses whose messages go to `rejected` at once, beside the 4xx that are "
        "about a message: such as 404 or 500.",
        example=[404],
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

    @model_validator(mode="after")
    def _fitting(self) -> WebhookSinkOptions:
        if (self.format == "cloudevents") != (self.cloudevents is not None):
            raise ValueError("`format: cloudevents` and `cloudevents` go together")
        if self.forward_headers and self.several:
            raise ValueError("forward_headers is there, but a request holds several messages")
        if {"content-type"} & self.headers.keys():
            raise ValueError("headers has content-type: write `content_type`")
        return self

    @property
    def several(self) -> bool:
        """Whether a request can hold more than one message."""
        batched = self.cloudevents is not None and self.cloudevents.mode == "batch"
        return batched or self.format in ("json_array", "ndjson")
