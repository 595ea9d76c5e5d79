"""What the document says of Pulsar. Nothing here imports the vendor's library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from mainstem import (
    Dataset,
    Hidden,
    HostTLSOptions,
    Options,
    PositiveDuration,
    Secret,
    Size,
    option,
)
from mainstem.positions import OnLoss, PositionOptions
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions
from pydantic import AfterValidator, model_validator

_HOST = r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?"
_URL = re.compile(rf"pulsar(\+ssl)?://{_HOST}(,{_HOST})*/?", re.ASCII)
_ADMIN = re.compile(rf"https?://{_HOST}(/[\w./-]*)?", re.ASCII)
_TOPIC = re.compile(r"(persistent://[^/\s]+/[^/\s]+/)?[^/\s]+")
SECURE = "pulsar+ssl://"


def _check_url(url: Secret) -> Secret:
    if not _URL.fullmatch(url.get_secret_value()):
        raise ValueError("expected pulsar://host:port, or pulsar+ssl:// for TLS, without a user")
    return url


def _check_admin(url: Secret) -> Secret:
    if not _ADMIN.fullmatch(url.get_secret_value()):
        raise ValueError("expected http://host:port, or https://, without a user")
    return url


def _topic(name: str) -> str:
    """Return a topic's full name."""
    if not _TOPIC.fullmatch(name):
        raise ValueError(
            "expected a topic such as `orders` or `persistent://tenant/namespace/orders`"
        )
    return name if "://" in name else f"persistent://public/default/{name}"


def _zoned(start: Any) -> Any:
    if isinstance(start, datetime) and start.tzinfo is None:
        raise ValueError("expected a time with its zone, such as 2026-01-31T12:00:00Z")
    return start


Topic = Annotated[str, AfterValidator(_topic)]
AdminURL = Annotated[Secret, Hidden(_check_admin)]


class ConnectionOptions(Options):
    """How a cluster is reached."""

    url: Annotated[Secret, Hidden(_check_url)] = option(
        description="The cluster, `pulsar://host:port`, or `pulsar+ssl://` for TLS; of several brokers "
        "`pulsar://one:6650,two:6650`.",
        example="${env:PULSAR_URL}",
    )
    token: Secret | None = option(
        None, description="A token (JWT) to log in with.", example="${env:PULSAR_TOKEN}"
    )
    user: str | None = option(
        None, min_length=1, description="A user to log in as, with `password`."
    )
    password: Secret | None = option(None, description="The password of `user`.")
    tls: HostTLSOptions | None = option(
        None,
        description="Certificates of `pulsar+ssl` URLs; one of this client's is what it logs in with. "
        "The files must be on every machine. Without `ca`, those that the library brings are trusted.",
    )
    listener: str | None = option(
        None,
        min_length=1,
        advanced=True,
        description="Which of the brokers' advertised listeners is used, by its name.",
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        ge=timedelta(seconds=1),
        advanced=True,
        description="How long making a connection may take, and the broker's answers then.",
    )

    @model_validator(mode="after")
    def _securely(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together")
        if self.token is not None and self.user is not None:
            raise ValueError("token and user are two ways to log in: expected one")
        if self.tls is not None and not self.url.get_secret_value().startswith(SECURE):
            raise ValueError(f"tls is there, but url does not begin with {SECURE}")
        return self

    def place(self) -> str:
        """Return where the cluster is, for people."""
        return self.url.get_secret_value().partition("://")[2].rstrip("/")

    def dataset(self, topic: str) -> Dataset:
        """Return a topic as catalogues of data know it."""
        url = self.url.get_secret_value()
        port = 6651 if url.startswith(SECURE) else 6650
        return Dataset.at_server("pulsar", url.rstrip("/"), port, topic)


class TopicSourceOptions(ConnectionOptions):
    """What both sources share."""

    topic: Topic = option(
        description="The topic, `persistent://tenant/namespace/name`, or its name alone in "
        "`public/default`. A partitioned topic is read whole.",
        example="orders",
    )


class PulsarSourceOptions(TopicSourceOptions, PositionOptions):
    """Options of the source `pulsar`."""

    admin_url: AdminURL = option(
        description="The brokers' administration, `http://host:port`: it tells where a topic begins and "
        "ends. The same login is used.",
        example="${env:PULSAR_ADMIN_URL}",
    )
    start: Annotated[Literal["earliest", "latest"] | datetime, AfterValidator(_zoned)] = option(
        "earliest",
        description="Where a new checkpoint begins: `earliest`, `latest`, or a time of publishing.",
    )
    on_loss: OnLoss = option(
        "fail",
        description="What to do when messages are gone that were not read yet: `fail`, or `report` them "
        "in the output `lost` and go on.",
    )
    compacted: bool = option(
        False,
        description="Read what compaction has left of the topic: the newest message of each key, and "
        "what came since. Older ones that are gone are then no loss.",
    )

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.topic)]


class PulsarQueueOptions(TopicSourceOptions, IngressOptions):
    """Options of the source `pulsar_queue`."""

    subscription: str = option(
        min_length=1,
        description="The durable subscription that messages are taken of; it is made if it is not there.",
        example="mainstem",
    )
    mode: Literal["shared", "key_shared", "failover", "exclusive"] = option(
        "shared",
        description="How receivers, and others, share the subscription. `shared`: each message goes to "
        "one of them; `key_shared`: those of a key to the same one, in their order; `failover`: one at "
        "a time takes a partition; `exclusive`: nobody else is there.",
    )
    start: Literal["earliest", "latest"] = option(
        "earliest", description="Where a subscription begins that is not there yet."
    )
    prefetch: int = option(
        5000,
        ge=1,
        le=100_000,
        description="How many messages of a partition each receiver has ahead at most.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.receivers > 1 and self.mode == "exclusive":
            raise ValueError("several receivers can't be there with `mode: exclusive`")
        return self

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.topic)]


class PulsarOptions(EgressOptions, ConnectionOptions):
    """Options of the sink `pulsar`."""

    topic: Topic = option(
        description="The topic that messages are sent to, `persistent://tenant/namespace/name`, or its "
        "name alone in `public/default`.",
        example="alarms",
    )
    in_flight: int = option(
        5000,
        gt=0,
        le=100_000,
        advanced=True,
        description="How many messages of a connection may be without an answer at a time.",
    )
    producers: int = option(
        4,
        ge=1,
        le=256,
        description="With `deliver: numbered`, how many producers share a batch, each of some keys. "
        "Change it when no batch was cut, for another number makes it another batch.",
    )
    batching: Literal["default", "by_key", "none"] = option(
        "default",
        description="Whether messages go in batches, which share an entry of the topic. Subscriptions of "
        "the type key_shared need `by_key`. With `deliver: numbered` none do.",
    )
    compression: Literal["none", "lz4", "zlib", "zstd", "snappy"] = option(
        "none", description="How entries are compressed."
    )
    chunks: bool = option(
        False,
        description="Whether a message that is larger than the brokers take goes in parts, which clients "
        "put together again; there are no batches then.",
    )
    ledger: Topic | None = option(
        None,
        advanced=True,
        description="The topic in which `deliver: numbered` notes which run writes, so that one that was "
        "replaced writes nothing more; `mainstem-ledger` beside `topic` when left out. It is without "
        "partitions, and made if brokers may make topics.",
    )
    max_message: Size = option(
        5 * 2**20,
        gt=0,
        advanced=True,
        description="The largest message that the brokers take (their `maxMessageSize`).",
    )

    def ledger_topic(self) -> str:
        """Return the topic of the ledger."""
        return self.ledger or f"{self.topic.rpartition('/')[0]}/mainstem-ledger"

    @model_validator(mode="after")
    def _alone(self) -> Self:
        if self.ledger_topic().rpartition("/")[0] != self.topic.rpartition("/")[0]:
            raise ValueError(
                "ledger is in another namespace than topic, where deduplication is another"
            )
        if self.chunks and self.batching != "none" and "batching" in self.model_fields_set:
            raise ValueError("chunks does not go with batching")
        return self

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.topic)]
