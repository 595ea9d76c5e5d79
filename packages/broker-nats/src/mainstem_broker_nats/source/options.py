"""The options of the sources, and what they may look like."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from mainstem import Dataset, Duration, Size, option
from mainstem.positions import OnLoss, PositionOptions
from mainstem_ingress import IngressOptions
from pydantic import (
    AfterValidator,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
)

from mainstem_broker_nats.connection import ConnectionOptions


def check_name(name: str) -> str:
    """Let a name pass that JetStream takes for a stream, a consumer or a bucket.

    Raises:
        ValueError: it does not.
    """
    if not name or any(c in ".*>/\\" or c.isspace() or not c.isprintable() for c in name):
        raise ValueError("expected a name without blanks and none of . * > / \\")
    return name


def overlap(one: str, other: str) -> bool:
    """Whether there are subjects that two patterns both stand for."""
    first, second = one.split("."), other.split(".")
    for a, b in zip(first, second, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    if len(first) == len(second):
        return True
    longer, shorter = (first, second) if len(first) > len(second) else (second, first)
    return shorter[-1] == ">" and len(longer) >= len(shorter)


def _apart(subjects: list[str]) -> list[str]:
    """Refuse patterns that overlap: a message of both would come twice, or not at all."""
    for at, subject in enumerate(subjects):
        for other in subjects[:at]:
            if overlap(subject, other):
                raise ValueError(
                    f"{other} and {subject} overlap: a message of both would come twice"
                )
    return subjects


def check_subject(subject: str) -> str:
    """Let a subject pass that can be subscribed to.

    Raises:
        ValueError: it can't.
    """
    tokens = subject.split(".")
    if any(not token or any(c.isspace() or not c.isprintable() for c in token) for token in tokens):
        raise ValueError("expected a subject: words without blanks, with dots between")
    for token in tokens:
        if token not in ("*", ">") and ("*" in token or ">" in token):
            raise ValueError("expected `*` and `>` as words by themselves")
    if ">" in tokens[:-1]:
        raise ValueError("expected `>` as the last word of the subject")
    return subject


Name = Annotated[str, AfterValidator(check_name)]
Subject = Annotated[str, AfterValidator(check_subject)]
#: Patterns of subjects of which no two have a message in common.
Subjects = Annotated[list[Subject], AfterValidator(_apart)]


def _read_start(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(_START)
    if isinstance(value, int):
        if value < 1:
            raise ValueError("expected a sequence of 1 or more")
        return value
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if value in ("earliest", "latest"):
        return value
    try:
        return _read_start(datetime.fromisoformat(value))
    except (ValueError, TypeError):
        raise ValueError(_START) from None


_START = "expected earliest, latest, a stream sequence, or a time such as 2026-01-31T12:00:00Z"

Start = Annotated[
    Literal["earliest", "latest"] | int | datetime,
    PlainValidator(_read_start),
    PlainSerializer(lambda start: start.isoformat() if isinstance(start, datetime) else start),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["earliest"]}),
]


_DOMAIN = "The JetStream domain that the stream is in, when it is not the server's own."


class ReadingOptions(PositionOptions, ConnectionOptions):
    """What all sources on streams of JetStream share."""

    domain: Name | None = option(None, advanced=True, description=_DOMAIN)


class StreamOptions(ConnectionOptions):
    """Which messages are read."""

    stream: Name = option(description="The stream's name.", example="ORDERS")
    subjects: Subjects = option(
        list,
        description="Which subjects of the stream are read; all when left out.",
        example=["orders.eu.>"],
    )


class JetStreamSourceOptions(ReadingOptions, StreamOptions):
    """Options of the source `jetstream`."""

    start: Start = option(
        "earliest",
        description="Where a new checkpoint begins: `earliest`, `latest` (what comes from now on), a "
        "stream sequence (the first that is read), or a time. It is looked up once.",
    )
    on_loss: OnLoss = option(
        "fail",
        description="What happens when messages were deleted, purged or expired before they were read: "
        "the run fails, or goes on and tells what is gone in the output `lost`.",
    )

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.stream)]


class JetStreamQueueOptions(StreamOptions, IngressOptions):
    """Options of the source `jetstream_queue`."""

    domain: Name | None = option(None, advanced=True, description=_DOMAIN)
    consumer: Name = option(
        description="The durable consumer's name. If it is not there it is made, with explicit "
        "acknowledgements, unless messages of the stream were stored already: a new one would give them "
        "again.",
        example="mainstem",
    )
    ack_wait: Duration = option(
        timedelta(seconds=30),
        description="For a consumer that is made: how long a message may be in hand before it is given "
        "again; for one that is there it must be what that has, if it is given. One that waits for room "
        "on the disk is kept for as long as it takes.",
    )
    max_deliver: int = option(
        -1,
        ge=-1,
        description="For a consumer that is made: how often a message is given at most; -1 for as often "
        "as it takes. At the limit JetStream gives up on a message: it stays in the stream and is never "
        "read.",
    )
    prefetch: int = option(
        2000,
        ge=1,
        le=100_000,
        description="How many messages each receiver has in hand at most.",
    )

    @field_validator("ack_wait")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=1):
            raise ValueError("expected 1 second or more")
        return value

    @field_validator("max_deliver")
    @classmethod
    def _not_none(cls, value: int) -> int:
        if value == 0:
            raise ValueError("expected 1 or more, or -1")
        return value

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.stream)]


class BucketOptions(ReadingOptions):
    """Options of the source `nats_bucket`."""

    bucket: Name = option(description="The key-value bucket's name.", example="settings")
    keys: Subjects = option(
        list,
        description="Which keys are read, as patterns of subjects; all when left out.",
        example=["users.*"],
    )

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(f"KV_{self.bucket}")]  # the stream that it is


class NATSSourceOptions(ConnectionOptions, IngressOptions):
    """Options of the source `nats`."""

    subjects: Subjects = option(
        min_length=1,
        description="The subjects, with `*` for one word and `>` for all that follow.",
        example=["sensors.*.temperature"],
    )
    queue: Name | None = option(
        None,
        description="The queue group: each message goes to one of its members, on whatever machine.",
    )
    pending_messages: int = option(
        100_000,
        gt=0,
        description="How many messages wait at most for the disk; those beyond are dropped, counted, and "
        "told in the output `lost`.",
    )
    pending_bytes: Size = option(
        64 * 2**20, gt=0, description="How many bytes of messages wait at most for the disk."
    )

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(subject) for subject in self.subjects]
