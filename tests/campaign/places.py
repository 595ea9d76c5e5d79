"""The servers of a campaign: started when a path first needs them, with a proxy before each."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from mainstem_broker_amqp.testing import RabbitMQ
from mainstem_broker_amqp1.testing import Artemis
from mainstem_broker_kafka.testing import Kafka
from mainstem_broker_kinesis.testing import Kinesalite
from mainstem_broker_mqtt.testing import Mosquitto
from mainstem_broker_nats.testing import NATS
from mainstem_broker_pubsub.testing import PubSub
from mainstem_broker_pulsar.testing import Pulsar
from mainstem_broker_sqs.testing import ElasticMQ
from mainstem_cache_redis.testing import Redis
from mainstem_cdc_mongodb.testing import MongoDB
from mainstem_cdc_mysql.testing import MySQL
from mainstem_database_sql.testing.mariadb import MariaDB
from mainstem_database_sql.testing.postgres import Postgres
from mainstem_registry.testing import Apicurio
from mainstem_search_opensearch.testing import OpenSearch
from mainstem_testkit.proxy import FaultProxy
from mainstem_testkit.server import Server, free_port

ROOT = Path(__file__).parents[2]
#: Spark's connector for Kafka.
JARS = ROOT / ".tools/kafka/connector"


class Place:
    """A server, and the proxy by which pipelines reach it; campaigns reach it directly."""

    def __init__(self, server: Server) -> None:
        self.server: Any = server
        server.start()
        self.proxy = FaultProxy(server.port, server.through)

    @property
    def url(self) -> str:
        """Where a pipeline goes: through the proxy."""
        return str(self.server.url).replace(f":{self.server.port}", f":{self.proxy.port}")

    def close(self) -> None:
        self.proxy.close()
        self.server.stop()


class KafkaPlace(Place):
    """A node that tells who comes through the proxy to go on through the proxy."""

    def __init__(self, folder: Path) -> None:
        inner = free_port()
        self.proxy = FaultProxy(inner)
        self.server = Kafka(folder)
        plain = f"PLAINTEXT://{self.server.url},OUTER://{self.url}"
        kinds = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTER:PLAINTEXT"
        self.server._properties |= {
            "listeners": f"{{plain}},OUTER://127.0.0.1:{inner}",
            "advertised.listeners": plain,
            "listener.security.protocol.map": kinds,
        }
        self.server.start()

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"


class Places:
    """All of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Places:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @cached_property
    def rabbitmq(self) -> Place:
        return self._made(Place(RabbitMQ(self._new("rabbitmq"))))

    @cached_property
    def kafka(self) -> Place:
        return self._made(KafkaPlace(self._new("kafka")))

    @cached_property
    def mosquitto(self) -> Place:
        return self._made(Place(Mosquitto(self._new("mosquitto"))))

    @cached_property
    def nats(self) -> Place:
        return self._made(Place(NATS(self._new("nats"))))

    @cached_property
    def pulsar(self) -> Place:
        return self._made(Place(Pulsar(self._new("pulsar"))))

    @cached_property
    def kinesis(self) -> Place:
        """An emulator, which forgets all that it holds when it ends: never killed."""
        return self._made(Place(Kinesalite(self._new("kinesis"))))

    @cached_property
    def artemis(self) -> Place:
        return self._made(Place(Artemis(self._new("artemis"))))

    @cached_property
    def elasticmq(self) -> Place:
        """An emulator of SQS, which forgets what it has seen when it ends: never killed."""
        return self._made(Place(ElasticMQ(self._new("elasticmq"))))

    @cached_property
    def pubsub(self) -> Place:
        """A fake, which forgets all that it holds when it ends: never killed."""
        return self._made(Place(PubSub(self._new("pubsub"))))

    @cached_property
    def postgres(self) -> Place:
        return self._made(Place(Postgres(self._new("postgres"))))

    @cached_property
    def mysql(self) -> Place:
        return self._made(Place(MySQL(self._new("mysql"))))

    @cached_property
    def mongodb(self) -> Place:
        """An emulation of its change streams."""
        return self._made(Place(MongoDB(self._new("mongodb"))))

    @cached_property
    def mariadb(self) -> Place:
        return self._made(Place(MariaDB(self._new("mariadb"))))

    @cached_property
    def opensearch(self) -> Place:
        return self._made(Place(OpenSearch(self._new("opensearch"))))

    @cached_property
    def apicurio(self) -> Place:
        """A registry in memory, which forgets what it has when it ends: never killed."""
        return self._made(Place(Apicurio(self._new("apicurio"))))

    @cached_property
    def redis(self) -> Place:
        return self._made(Place(Redis(self._new("redis"))))

    @cached_property
    def endpoint(self) -> Place:
        """An HTTP endpoint that notes what comes; it keeps nothing that it has not noted."""
        sys.path.insert(0, str(ROOT / "packages/direct-webhook/tests"))
        from webhook_far import FarEndpoint

        return self._made(Place(FarEndpoint(self._new("endpoint"))))

    def _new(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(parents=True)
        return folder

    def _made(self, place: Place) -> Place:
        self._stack.callback(place.close)
        return place
