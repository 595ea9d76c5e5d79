"""What the options of a share group are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import ClassVar, Literal, Self

from mainstem import Dataset, PositiveDuration, option
from mainstem_ingress import IngressOptions
from pydantic import field_validator, model_validator

from mainstem_broker_kafka.connection import ConnectionOptions, Settings, Texts, topic_name


class KafkaQueueOptions(ConnectionOptions, IngressOptions):
    """Options of the source `kafka_queue`."""

    owned: ClassVar[Mapping[str, str]] = {
        **ConnectionOptions.owned,
        "group.id": "write `group`",
        "max.poll.records": "write `prefetch`",
        "isolation.level": "write `isolation`",
        "auto.offset.reset": "write `start`",
        "share.acknowledgement.mode": "a message is acknowledged when it is stored",
        "statistics.interval.ms": "it is watched by them that the group gives partitions",
    }

    topics: Texts = option(
        description="The topics that the group reads, all partitions of each.", example=["jobs"]
    )
    group: str = option(
        min_length=1,
        description="The share group. Other programs may be in it: each message goes to one of all.",
        example="mainstem",
    )
    start: Literal["earliest", "latest"] = option(
        "earliest",
        description="Where a group begins that has read nothing yet (`share.auto.offset.reset`).",
    )
    isolation: Literal["read_committed", "read_uncommitted"] = option(
        "read_committed",
        description="Whether messages of transactions are read when these are committed, or at once, "
        "also if they are aborted later (`share.isolation.level`, which is the group's).",
    )
    deliveries: int | None = option(
        None,
        ge=2,
        description="How often brokers give a message at most before they drop it for good "
        "(`share.delivery.count.limit`, of the group since Kafka 4.3); left as it is when left out.",
        advanced=True,
    )
    prefetch: int = option(
        2000,
        ge=1,
        le=100_000,
        description="About how many messages are taken at a time. None come before these are stored.",
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        description="How long brokers may be away before the connection is made anew.",
        advanced=True,
    )
    kafka: Settings = option(
        dict,
        advanced=True,
        description="Anything else, in Kafka's own words, as far as librdkafka knows them.",
        example={"fetch.max.bytes": 10485760},
    )
    librdkafka: Settings = option(
        dict,
        advanced=True,
        description="Settings in librdkafka's words, where these differ.",
        example={"sasl.kerberos.keytab": "/etc/kafka.keytab"},
    )

    #: Of all sources of topics: a group takes none by a pattern, and no single partitions.
    pattern: ClassVar[None] = None
    assignment: ClassVar[None] = None

    @field_validator("topics")
    @classmethod
    def _are_topics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("expected at least one topic")
        return tuple(dict.fromkeys(map(topic_name, value)))

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if not self.known_to_both:
            told = ", ".join(sorted(self.java_alone))
            raise ValueError(
                f"`kafka` has {told}, which is for Java: say it under `librdkafka`, in its words"
            )
        return self

    def names(self, topic: str) -> bool:
        """Whether a topic is among those that are read."""
        return topic in self.topics

    @property
    def told(self) -> str:
        """What is read, for errors."""
        return f"topic {', '.join(self.topics)}"

    def place(self) -> str:
        """Return what is read and where, for people: no secrets."""
        return f"share group {self.group} at {', '.join(self.servers)}"

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(topic) for topic in self.topics]
