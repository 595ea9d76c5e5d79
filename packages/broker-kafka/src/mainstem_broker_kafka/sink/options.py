"""Options of the sink `kafka`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from mainstem import Duration, Options, PositiveDuration, option
from pydantic import BeforeValidator, WithJsonSchema, field_validator, model_validator

from mainstem_broker_kafka.connection import SparkOptions, Texts, as_text, topic_name

#: How many writers there may be: the ledger's topic has a partition for each.
MAX_WRITERS = 64


#: A topic's setting, in Kafka's own words.
TopicSetting = Annotated[
    str,
    BeforeValidator(as_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


class CreateOptions(Options):
    """Options of `create`: how topics are made, and what those that are there must be like."""

    partitions: int | None = option(
        None, gt=0, le=100_000, description="How many partitions; the broker's default if left out."
    )
    replication: int | None = option(
        None,
        gt=0,
        le=1000,
        description="How many brokers hold each partition; the broker's default if left out.",
    )
    cleanup_policy: Literal["delete", "compact", "compact,delete"] | None = option(
        None,
        description="What becomes of old messages: `delete` by age or size, `compact` to the newest of "
        "each key; the broker's default if left out.",
    )
    config: dict[str, TopicSetting] = option(
        dict,
        description="Further settings of topics, in Kafka's own words.",
        example={"retention.ms": 604800000},
    )

    @model_validator(mode="after")
    def _says_the_policy_once(self) -> CreateOptions:
        if "cleanup.policy" in self.config:
            raise ValueError("config: `cleanup.policy` can't be given here: write `cleanup_policy`")
        return self

    def settings(self) -> dict[str, str]:
        """Return the settings that topics are to have."""
        policy = {"cleanup.policy": self.cleanup_policy} if self.cleanup_policy else {}
        return {**self.config, **policy}


class KafkaSinkOptions(SparkOptions):
    """Options of the sink `kafka`."""

    owned: ClassVar[Mapping[str, str]] = {
        **SparkOptions.owned,
        "acks": "the sink always waits for all replicas in sync",
        "enable.idempotence": "it is always on",
        "transactional.id": "the sink makes one for each writer",
        "transaction.timeout.ms": "write `transaction_timeout`",
        "compression.type": "write `compression`",
        "group.id": "the sink makes one for its ledger",
        "isolation.level": "the ledger is read committed",
    }

    topic: str | None = option(
        None,
        min_length=1,
        description="The topic of all messages; with `topic_from`, of those that name none.",
        example="orders",
    )
    topic_from: str | None = option(
        None,
        min_length=1,
        description="The column that names each message's topic.",
        example="origin",
    )
    topics: Texts = option(
        (),
        description="The topics that `topic_from` may name. Left out, those that are there and that the "
        "user may see. A message that names another is refused.",
    )
    partition_from: str | None = option(
        None,
        min_length=1,
        description="The column, of whole numbers, that gives each message's partition. Left out or "
        "null, it follows from the key as Java's clients have it (murmur2), and without a key it is any.",
    )
    create: CreateOptions | None = option(
        None,
        description="Make topics that are not there. Those that are there must be as this says. Left "
        "out, they must be there before the first batch.",
        example={"partitions": 6, "cleanup_policy": "compact"},
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = option(
        "none", description="How batches of messages are compressed."
    )
    writers: int = option(
        2,
        gt=0,
        le=MAX_WRITERS,
        description="`transactional`: how many transactions a batch is written by, in parallel. A key "
        "always goes to the same. It can be changed between batches, not in the middle of one.",
    )
    transaction_timeout: Duration = option(
        timedelta(minutes=10),
        advanced=True,
        description="`transactional`: how long writing a batch may take before the broker aborts it; so "
        "long may a run that was killed hold up readers, unless it is started again before. No "
        "longer than the broker's transaction.max.timeout.ms, which is 15 minutes if left alone.",
    )
    ledger: str = option(
        "mainstem-ledger",
        min_length=1,
        advanced=True,
        description="`transactional`: the topic, made when it is not there, that the ledger's offsets "
        "belong to. Sinks and pipelines can share it.",
    )
    missing_ledger: Literal["fail", "begin"] = option(
        "fail",
        advanced=True,
        description="`transactional`: what to do when the ledger does not tell whether a batch is in "
        "that an earlier run has begun. `begin` takes it not to be, so it may be doubled.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to retry while brokers do not answer, before the batch fails.",
    )

    @field_validator("topic", "ledger")
    @classmethod
    def _one_topic(cls, value: str | None) -> str | None:
        return value if value is None else topic_name(value)

    @field_validator("topics")
    @classmethod
    def _several_topics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(topic_name, value))

    @field_validator("give_up", "transaction_timeout")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=1):
            raise ValueError("expected 1 second or more")
        return value

    @model_validator(mode="after")
    def _names_topics(self) -> KafkaSinkOptions:
        if self.topic is None and self.topic_from is None:
            raise ValueError("give `topic`, or `topic_from` with the column that names topics")
        if self.topics and self.topic_from is None:
            raise ValueError("topics: of no use without `topic_from`")
        if self.ledger in (self.topic, *self.topics):
            raise ValueError(f"ledger: {self.ledger!r} is a topic of messages")
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that the options name."""
        own = () if self.topic is None else (self.topic,)
        return tuple(dict.fromkeys((*own, *self.topics)))

    @property
    def patience(self) -> float:
        """`give_up`, in seconds."""
        return self.give_up.total_seconds()
