"""Apache Kafka in KRaft mode: one node that is broker and controller."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainstem import MachineError
from mainstem_testkit.java import find_java
from mainstem_testkit.server import (
    PATIENCE,
    Server,
    ServerFailed,
    ServerMissing,
    free_port,
    receive,
)

#: Names the folder that holds the jars of the broker and its tools.
LIBS = "MAINSTEM_KAFKA_LIBS"
_METADATA = 3
#: The archive of Spark's classes is not for Kafka (see `java`).
_PLAIN_JAVA = {"JDK_JAVA_OPTIONS": ""}
#: One broker can hold one copy; what a test does once should not wait for what a cluster might do.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "250",
    "group.share.min.heartbeat.interval.ms": "250",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.delivery.count.limit": "25",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "3000",  # a broker that was killed can come back after that
    "broker.heartbeat.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "500",
}


class Kafka(Server):
    """A Kafka node without accounts, on a plain listener.

    Args:
        folder: for data, settings and the log.
        properties: settings beside, or instead of, those that are made here. A further listener is
            named in `listeners` as `{plain},NAME://127.0.0.1:PORT`, where `{plain}` stands for the
            listeners made here.
    """

    name = "kafka"

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self._controller_port = free_port()
        self._properties = dict(properties or {})

    @property
    def url(self) -> str:
        """The bootstrap server, `host:port`."""
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        libs()
        made = f"PLAINTEXT://{self.url},CONTROLLER://127.0.0.1:{self._controller_port}"
        settings = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.folder / "data"),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": "{plain}",
            **self._properties,
        }
        settings["listeners"] = settings["listeners"].replace("{plain}", made)
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._settings.write_text(text)
        identity = self._java("kafka.tools.StorageTool", "random-uuid").strip().splitlines()[-1]
        self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings))

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        heap = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return [*self._command(heap), "kafka.Kafka", str(self._settings)], _PLAIN_JAVA

    def answers(self) -> bool:
        """Ask for the cluster's brokers (Metadata, version 1); the node must be among them."""
        client = b"mainstem-testkit"
        request = struct.pack("!hhih", _METADATA, 1, 7, len(client)) + client + struct.pack("!i", 0)
        with self.connect() as connection:
            connection.sendall(struct.pack("!i", len(request)) + request)
            (length,) = struct.unpack("!i", receive(connection, 4))
            _, brokers = struct.unpack("!ii", receive(connection, length)[:8])
            return bool(brokers)

    def tool(self, name: str, *arguments: str, stdin: str = "") -> str:
        """Run one of Kafka's own command line tools and return what it prints.

        Args:
            name: as the scripts are called, without `.sh`: `kafka-consumer-groups`.
            arguments: beside `--bootstrap-server`, which is added.

        Raises:
            ServerFailed: it ended with an error.
        """
        return self._java(TOOLS[name], "--bootstrap-server", self.url, *arguments, stdin=stdin)

    def create(self, topic: str, partitions: int = 1, **settings: str) -> str:
        """Create a topic and return its name; `cleanup_policy="compact"` is `cleanup.policy=compact`."""
        made = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        options = [part for setting in made for part in ("--config", setting)]
        self.tool(
            "kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions), *options
        )
        return topic

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    def _command(self, options: Sequence[str]) -> list[str]:
        try:
            java = find_java()
        except MachineError as error:
            raise ServerMissing(f"kafka needs Java: {error}") from None
        return [str(java), *options, "-cp", f"{libs()}/*"]

    def _java(self, main: str, *arguments: str, stdin: str = "") -> str:
        quick = [
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        ]
        try:
            done = subprocess.run(
                [*self._command(quick), main, *arguments],
                env={key: value for key, value in os.environ.items() if key not in _PLAIN_JAVA},
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired as error:
            text = f"{main} {' '.join(arguments)}: no end after {PATIENCE:.0f} s: {error.output}"
            raise ServerFailed(text) from None
        if done.returncode:
            raise ServerFailed(f"{main} {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout


#: Kafka's tools by the names of their scripts.
TOOLS: Mapping[str, str] = {
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


def libs() -> Path:
    """Return the folder of Kafka's jars: `MAINSTEM_KAFKA_LIBS`, or `.tools/kafka/broker` here or above.

    Raises:
        ServerMissing: there is none.
    """
    named = os.environ.get(LIBS)
    here = Path.cwd()
    places = (
        [Path(named)] if named else [up / ".tools/kafka/broker" for up in (here, *here.parents)]
    )
    for place in places:
        if any(re.match(r"kafka_2\.\d+-.*\.jar", jar.name) for jar in place.glob("*.jar")):
            return place
    raise ServerMissing(f"kafka's jars are in none of: {', '.join(map(str, places))} ({LIBS})")
