"""Topics: made as the options say, compared with them, and what each takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mainstem import OptionError

from mainstem_broker_kafka.client import Heard, admin, asking, code, failure, library
from mainstem_broker_kafka.connection import Properties, librdkafka
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.transaction import passes

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

#: Seconds for which what is known of topics is taken as it was.
_FRESH = 60.0
#: What librdkafka takes at most (message.max.bytes), less what the format puts around a message.
_LARGEST = 1_000_000_000 - 1024
_UNKNOWN = "UNKNOWN_TOPIC_OR_PART"


@dataclass(frozen=True)
class Topic:
    """A topic, and what it takes.

    `max_bytes` is the size of its largest message, and no more than the client can send. `before_ms` and
    `after_ms` are how far a message's timestamp may lie in the past and in the future; None if it need
    not matter. `settings` are all of its settings.
    """

    name: str
    partitions: int
    settings: Mapping[str, str]

    @property
    def max_bytes(self) -> int:
        return min(int(self.settings.get("max.message.bytes", 1_048_588)), _LARGEST)

    @property
    def compacted(self) -> bool:
        return "compact" in self.settings.get("cleanup.policy", "")

    @property
    def before_ms(self) -> int | None:
        return self._limit("message.timestamp.before.max.ms")

    @property
    def after_ms(self) -> int | None:
        return self._limit("message.timestamp.after.max.ms")

    def _limit(self, name: str) -> int | None:
        if self.settings.get("message.timestamp.type", "CreateTime") != "CreateTime":
            return None
        old = self.settings.get("message.timestamp.difference.max.ms")
        value = int(self.settings.get(name, old if old is not None else 2**63 - 1))
        return value if value < 2**62 else None


class Topics:
    """What the cluster says of the topics that a sink writes to; asked again every minute."""

    def __init__(self, options: KafkaSinkOptions) -> None:
        self._options = options
        self._settings: Properties | None = None
        self._heard = Heard()
        self._admin: AdminClient | None = None
        self._known: dict[str, Topic] = {}
        self._asked = 0.0

    def known(self) -> Mapping[str, Topic]:
        """Return the topics that rows may go to, by name.

        Raises:
            OptionError: one that the options name is not there.
            PipelineError: the brokers do not tell.
        """
        if not self._known or time.monotonic() - self._asked > _FRESH:
            names = self._options.named
            if self._options.topic_from is not None and not self._options.topics:
                names = (*names, *self._visible())
            found = self.describe(names)
            self._need(found)
            self._known, self._asked = found, time.monotonic()
        return self._known

    def prepare(self) -> None:
        """Make topics that are not there, if told so, and hold those that are against the options.

        Raises:
            OptionError: a topic is missing, or is not as `create` says.
            PipelineError: the brokers can't be reached, or forbid it.
        """
        options = self._options
        found = self.describe(options.named)
        missing = [name for name in options.named if name not in found]
        if missing and options.create is not None:
            create = options.create
            self.create(missing, create.partitions, create.replication, create.settings())
            found |= self.describe(missing)
        self._need(found)
        if options.create is not None:
            for name in options.named:
                _hold(found[name], options)

    def _need(self, found: Mapping[str, Topic]) -> None:
        for name in self._options.named:
            if name not in found:
                raise OptionError(
                    f"there is no topic {name!r} at {','.join(self._options.servers)}",
                    option="topic" if name == self._options.topic else "topics",
                    hint="Make it, or let the sink make it: `create: {partitions: 6}`.",
                )

    # -- asking the cluster -----------------------------------------------------------------

    @property
    def settings(self) -> Properties:
        """The settings of a client on librdkafka."""
        if self._settings is None:
            self._settings = librdkafka(self._options)
        return self._settings

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = admin(self.settings, self._heard)
        return self._admin

    def _visible(self) -> list[str]:
        with asking("listing the topics", self.settings, self._heard):
            listed = self._client().list_topics(timeout=self._options.seconds)
        return [n for n in listed.topics if not n.startswith("__") and n != self._options.ledger]

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return those of some topics that are there.

        Raises:
            PipelineError: the brokers do not tell.
        """
        names = list(dict.fromkeys(names))
        if not names:
            return {}
        doing = f"asking about {', '.join(names[:5])}"
        seconds = self._options.seconds
        partitions: dict[str, int] = {}
        asked = self._each(
            lambda: self._client().describe_topics(
                library().TopicCollection(names), request_timeout=seconds
            ),
            doing,
            forgiven=_UNKNOWN,
        )
        for name, topic in asked.items():
            if topic is not None:
                partitions[name] = len(topic.partitions)
        kinds = library().admin
        resources = [kinds.ConfigResource(kinds.ResourceType.TOPIC, name) for name in partitions]
        if not resources:
            return {}
        told = self._each(
            lambda: self._client().describe_configs(resources, request_timeout=seconds),
            doing,
            forgiven=_UNKNOWN,
        )
        return {
            resource.name: Topic(
                resource.name,
                partitions[resource.name],
                {n: e.value for n, e in settings.items() if e.value is not None},
            )
            for resource, settings in told.items()
            if settings is not None
        }

    def create(
        self,
        names: Iterable[str],
        partitions: int | None,
        replication: int | None,
        settings: Mapping[str, str],
    ) -> None:
        """Make topics; those that somebody else has made meanwhile are let be.

        Raises:
            PipelineError: the brokers do not.
        """
        names = list(names)
        new = [
            library().admin.NewTopic(
                name,
                num_partitions=partitions or -1,
                replication_factor=replication or -1,
                config=dict(settings),
            )
            for name in names
        ]
        seconds = self._options.seconds
        self._each(
            lambda: self._client().create_topics(new, request_timeout=seconds),
            f"making {', '.join(names)}",
            forgiven="TOPIC_ALREADY_EXISTS",
        )
        self._appear(names, 1)

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        seconds = self._options.seconds
        self._each(
            lambda: self._client().create_partitions(
                [library().admin.NewPartitions(name, partitions)], request_timeout=seconds
            ),
            f"giving {name} {partitions} partitions",
            forgiven="INVALID_PARTITIONS",  # somebody else has
        )
        self._appear([name], partitions)

    def _appear(self, names: list[str], partitions: int) -> None:
        """Wait until brokers tell of what was made."""
        until = time.monotonic() + self._options.seconds
        while time.monotonic() < until:
            found = self.describe(names)
            if all(n in found and found[n].partitions >= partitions for n in names):
                return
            time.sleep(0.05)

    def _each(
        self, ask: Callable[[], Mapping[Any, Any]], doing: str, forgiven: str
    ) -> dict[Any, Any]:
        """Return the results of a call by what it was about, None for those with a forgiven error."""
        until = time.monotonic() + self._options.seconds
        while True:
            results: dict[Any, Any] = {}
            try:
                for about, future in ask().items():
                    try:
                        results[about] = future.result(self._options.seconds + 5)
                    except library().KafkaException as error:
                        if code(error) != forgiven:
                            raise
                        results[about] = None
            except (library().KafkaException, TimeoutError) as error:
                if passes(error) and time.monotonic() < until:
                    time.sleep(0.1)
                    continue
                raise failure(error, doing, self.settings, self._heard) from None
            return results


def _hold(topic: Topic, options: KafkaSinkOptions) -> None:
    """Hold a topic against `create`.

    Raises:
        OptionError: it is otherwise.
    """
    create = options.create
    assert create is not None  # noqa: S101
    if create.partitions is not None and topic.partitions != create.partitions:
        raise OptionError(
            f"topic {topic.name!r} is there with {topic.partitions} partitions, not "
            f"{create.partitions}",
            option="create",
            hint="Write the number that is there, or leave it out. More partitions can be given to a "
            "topic by Kafka's own tools; keys then move to others.",
        )
    for name, value in create.settings().items():
        there = topic.settings.get(name)
        same = there is not None and sorted(there.split(",")) == sorted(value.split(","))
        if not same:
            raise OptionError(
                f"topic {topic.name!r} is there with {name}={there or 'nothing'}, not {value}",
                option="create",
                hint=f"Write what is there, or change the topic: kafka-configs --alter --topic "
                f"{topic.name} --add-config {name}=[{value}].",
            )
