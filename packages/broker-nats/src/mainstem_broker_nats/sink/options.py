"""The options of the sinks `nats` and `jetstream`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mainstem import Dataset, PositiveDuration, option
from mainstem_egress import EgressOptions
from pydantic import field_validator, model_validator

from mainstem_broker_nats.connection import ConnectionOptions
from mainstem_broker_nats.sink.messages import OWN, SubjectTemplate
from mainstem_broker_nats.sink.stream import CreateOptions


class NATSSinkOptions(ConnectionOptions, EgressOptions):
    """Options of the sink `nats`."""

    subject: str = option(
        min_length=1,
        description="Each message's subject. Names of columns in braces stand for what the columns "
        "hold, text or UTF-8 in bytes.",
        example="prices.{key}",
    )

    @field_validator("subject")
    @classmethod
    def _is_template(cls, value: str) -> str:
        SubjectTemplate(value)
        return value

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.subject)]


class JetStreamSinkOptions(ConnectionOptions, EgressOptions):
    """Options of the sink `jetstream`."""

    stream: str = option(
        pattern=r"^[^\s.*>/\\\x00-\x1f]+$",
        description="The stream that takes the messages. It must be there, unless `create` is.",
        example="ORDERS",
    )
    subject: str = option(
        min_length=1,
        description="Each message's subject. Names of columns in braces stand for what the columns "
        "hold, text or UTF-8 in bytes.",
        example="orders.{key}",
    )
    create: CreateOptions | None = option(
        None,
        description="Make the stream if it is not there; one that is there must be as this says.",
    )
    duplicates_within: PositiveDuration | None = option(
        None,
        description="For how long the stream must know the ids of its messages (its duplicate window), "
        "so that a batch that is retried within that time doubles nothing. A stream whose window is "
        "shorter is refused; one that is made gets it. Left out, the window is as it is: 2 minutes "
        "unless somebody said otherwise.",
        example="1 hour",
    )
    order: Literal["none", "key", "log"] = option(
        "none",
        description="`none`: a task's messages are published in their order, but one that the stream "
        "can't take for a while comes after later ones. `key`: each message is published only when the "
        "one before it of its subject is acknowledged, which costs a round trip for each message of a "
        "subject. `log`: also bring each subject's messages together first, in the order of their log "
        "(columns origin, partition, position), which costs a shuffle.",
    )
    expect_sequence: str | None = option(
        None,
        min_length=1,
        description="The column with the sequence that must be the stream's last when the message "
        "comes; else the message is refused. Null expects nothing.",
    )
    expect_subject_sequence: str | None = option(
        None,
        min_length=1,
        description="The column with the sequence that must be the last of the message's subject (0: "
        "there is none); else the message is refused. Null expects nothing.",
        example="version",
    )
    directives: tuple[str, ...] = option(
        (),
        advanced=True,
        description="Which of a row's headers that begin with `Nats-` are sent on. They tell the server "
        "what to do (`Nats-TTL`, `Nats-Rollup`); those that are not named here are left out.",
        example=["Nats-TTL"],
    )
    ledger: str = option(
        "mainstem",
        pattern=r"^[-_A-Za-z0-9]+$",
        advanced=True,
        description="The key-value bucket in which `deliver: idempotent` notes which run writes, so "
        "that one that was replaced writes nothing more. It is made when it is not there.",
    )

    @field_validator("subject")
    @classmethod
    def _is_template(cls, value: str) -> str:
        SubjectTemplate(value)
        return value

    @field_validator("directives")
    @classmethod
    def _are_directives(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not name.lower().startswith("nats-"):
                raise ValueError(f"{name} is no directive: those begin with Nats-")
            if OWN.fullmatch(name):
                raise ValueError(f"{name} is the sink's own")
        return value

    @model_validator(mode="after")
    def _fitting(self) -> JetStreamSinkOptions:
        if self.expect_sequence and self.expect_subject_sequence:
            raise ValueError("expected one of expect_sequence and expect_subject_sequence")
        create, within = self.create, self.duplicates_within
        if create and within and create.max_age is not None and create.max_age < within:
            raise ValueError("duplicates_within is longer than create.max_age keeps messages")
        return self

    def expectation(self) -> tuple[str, str] | None:
        """Return the option that names a column of expected sequences, and that column."""
        for name in ("expect_sequence", "expect_subject_sequence"):
            if column := getattr(self, name):
                return name, column
        return None

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.stream)]
