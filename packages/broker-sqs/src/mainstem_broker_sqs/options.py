"""What the document says of SQS, without the vendor's library."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Self
from urllib.parse import urlsplit

from mainstem import PositiveDuration, option
from mainstem_aws.options import AWSOptions
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions
from pydantic import field_validator, model_validator

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,80}|[a-zA-Z0-9_-]{1,75}\.fifo")
_HOST = re.compile(r"(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com(?:\.cn)?")
#: What ends the name of a queue that keeps an order.
_FIFO = ".fifo"


class QueueOptions(AWSOptions):
    """Options of a connection to a queue."""

    queue: str = option(
        description="The queue, by its URL, or by its name among those of the account.",
        example="https://sqs.eu-central-1.amazonaws.com/123456789012/orders",
    )

    @field_validator("queue")
    @classmethod
    def _a_queue(cls, value: str) -> str:
        name = value
        if "://" in value:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
                raise ValueError("expected a queue's name or its URL, without a user")
            name = parts.path.rpartition("/")[2]
        if not _NAME.fullmatch(name):
            raise ValueError("expected a queue's name or its URL: letters, digits, - and _")
        return value

    @model_validator(mode="after")
    def _of_one_region(self) -> Self:
        told = self._told
        if told and self.region is not None and self.region != told:
            raise ValueError(f"region is {self.region}, and the queue's URL says {told}")
        return self

    @property
    def url(self) -> str | None:
        """The queue's URL, if the options say it."""
        return self.queue if "://" in self.queue else None

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.queue.rpartition("/")[2]

    @property
    def fifo(self) -> bool:
        """Whether the queue keeps an order."""
        return self.queue.endswith(_FIFO)

    @property
    def _told(self) -> str | None:
        found = _HOST.fullmatch(urlsplit(self.queue).hostname or "") if self.url else None
        return (found[1] or found[2]) if found else None

    @property
    def where(self) -> str | None:
        """The region, if the options say it."""
        return self.region or self._told

    def place(self) -> str:
        """Return where the queue is, for people: no secrets."""
        at = self.endpoint or (f"SQS in {self.where}" if self.where else "SQS")
        return f"queue {self.name} at {at}"


class SQSSourceOptions(QueueOptions, IngressOptions):
    """Options of the source `sqs`."""

    visibility: PositiveDuration = option(
        timedelta(minutes=2),
        ge=timedelta(seconds=1),
        le=timedelta(hours=12),
        description="For how long a message that was taken is hidden from others. While it waits to be "
        "stored that is extended; when a process is killed it comes again after so long.",
    )
    wait: PositiveDuration = option(
        timedelta(seconds=2),
        ge=timedelta(seconds=1),
        le=timedelta(seconds=20),
        description="For how long a request waits for a message. AWS counts requests; ending takes so "
        "long.",
        advanced=True,
    )
    requests: int = option(
        8,
        ge=1,
        le=64,
        description="How many requests each receiver has open at once while many messages are there.",
        advanced=True,
    )
    prefetch: int = option(
        1000,
        ge=10,
        le=20_000,
        description="How many messages each receiver may have taken that are not stored yet.",
        advanced=True,
    )
    key: str | None = option(
        None,
        min_length=1,
        description="The message attribute that is a message's key; when left out, the message group of "
        "a FIFO queue.",
    )


class SQSOptions(EgressOptions, QueueOptions):
    """Options of the sink `sqs`."""

    requests: int = option(
        8,
        ge=1,
        le=64,
        description="How many requests a connection has open at once.",
        advanced=True,
    )
    group: str | None = option(
        None,
        min_length=1,
        max_length=128,
        description="The message group of rows without a key, in a FIFO queue; without it they are "
        "refused.",
    )
    key: str | None = option(
        None,
        min_length=1,
        description="The message attribute that a row's key goes into; a key of a FIFO queue is its "
        "message group.",
    )

    @model_validator(mode="after")
    def _groups_are_fifo_s(self) -> Self:
        if self.group is not None and not self.fifo:
            raise ValueError("group goes with a FIFO queue, whose name ends with .fifo")
        return self
