"""Where results go: what a document says of each sink, and how what is there is read by others."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError

from campaign.places import JARS, Places
from campaign.sources import (
    at,
    iceberg,
    kinesis,
    mqtt_client,
    postgres,
    pulsar,
    pulsar_client,
)

Rows = Sequence[Mapping[str, Any]]


class Sink(ABC):
    """One sink of one path.

    Attributes:
        deliver: the strategy; none where the sink takes the strongest.
        tables: whether it takes changelogs,
        keeps: and holds the table that they make, in place of the changes,
        only_tables: and takes nothing else.
        messages: whether it takes messages, so that rows are encoded before.
        ordered: whether a key's messages stay in order, copies aside.
    """

    name: ClassVar[str]
    use: ClassVar[str]
    deliver: ClassVar[str | None] = None
    tables: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    only_tables: ClassVar[bool] = False
    messages: ClassVar[bool] = True
    ordered: ClassVar[bool] = False
    needs: ClassVar[str | None] = None
    killable: ClassVar[bool] = True
    #: What a document says beside `use`, `deliver` and `with`.
    more: ClassVar[Mapping[str, Any]] = {"on_rejected": "fail"}

    def __init__(self, places: Places, folder: Path, path: str) -> None:
        self.folder, self.path = folder, path
        self.id = f"c{uuid.uuid4().hex[:12]}"
        self.place: Any = getattr(places, self.needs) if self.needs else None

    def part(self) -> dict[str, Any]:
        """Return `use`, `deliver` and `with`."""
        told = {"use": self.use, "with": self.options()}
        return told | ({"deliver": self.deliver} if self.deliver else {})

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Make what the sink writes to; return its options."""

    @abstractmethod
    def rows(self) -> Rows:
        """Return what is there, in its order."""

    def close(self) -> None:  # noqa: B027
        """Let go what a reader holds."""


class Files(Sink):
    name, use, tables, messages = "files", "files", True, False
    more: ClassVar[Mapping[str, Any]] = {}

    def options(self) -> dict[str, Any]:
        return {"path": f"./{self.path}", "format": "jsonlines"}

    def rows(self) -> Rows:
        found = []
        for file in sorted((self.folder / self.path).glob("*/**/*.json")):
            found += [json.loads(line) for line in file.read_text().splitlines()]
        return found


class Sql(Sink):
    use, tables, keeps, messages, needs = "sql", True, True, False, "postgres"

    def options(self) -> dict[str, Any]:
        return {"url": self.place.url, "table": self.id, "give_up": "10 s"}

    def rows(self) -> Rows:
        known = postgres(self.place, f"SELECT to_regclass('{self.id}') IS NOT NULL")
        if not known[0][0]:
            return []
        return [row for (row,) in postgres(self.place, f"SELECT to_jsonb(t) FROM {self.id} t")]


class SqlTransactional(Sql):
    name, deliver = "sql, transactional", "transactional"


class SqlStaged(Sql):
    name, deliver = "sql, staged", "staged"


class SqlIdempotent(Sql):
    name, deliver = "sql, idempotent", "idempotent"


class SqlPlain(Sql):
    name, deliver = "sql, microbatch", "microbatch"


class Index(Sink):
    name, use, deliver, tables, messages = "opensearch", "opensearch", "idempotent", True, False
    needs, keeps = "opensearch", True

    def options(self) -> dict[str, Any]:
        return {"url": self.place.url, "index": self.id, "give_up": "10 s"}

    def rows(self) -> Rows:
        with suppress(HTTPError):
            return list(self.place.server.documents(self.id).values())
        return []


class Lake(Sink):
    name, use, deliver, tables, messages = "delta", "delta", "transactional", True, False
    keeps = True

    def options(self) -> dict[str, Any]:
        return {"path": f"./{self.path}-lake", "give_up": "10 s"}

    def rows(self) -> Rows:
        from deltalake import DeltaTable

        folder = self.folder / f"{self.path}-lake"
        if not DeltaTable.is_deltatable(str(folder)):
            return []
        found = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
        return [json.loads(json.dumps(row, default=str)) for row in found]


class Topic(Sink):
    use, needs = "kafka", "kafka"

    def options(self) -> dict[str, Any]:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.place.server.url})
        admin.create_topics([NewTopic(self.id, 2, 1)])[self.id].result(30)
        return {"servers": self.place.url, "topic": self.id, "jars": str(JARS)}

    def rows(self) -> Rows:
        from confluent_kafka import Consumer, TopicPartition

        found: list[Any] = []
        consumer = Consumer(
            {
                "bootstrap.servers": self.place.server.url,
                "group.id": self.id,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(self.id, p, 0) for p in (0, 1)])
            ended: set[int] = set()
            while len(ended) < 2:
                message = consumer.poll(30)
                if message is None:
                    raise AssertionError(f"{self.id}: transactions are open, readers wait")
                if message.error():
                    ended.add(message.partition())
                else:
                    ended.discard(message.partition())
                    found.append(json.loads(message.value()))
        finally:
            consumer.close()
        return found


class TopicTransactional(Topic):
    name, deliver, ordered = "kafka, transactional", "transactional", True


class TopicPlain(Topic):
    name, deliver = "kafka, microbatch", "microbatch"


class Subject(Sink):
    use, needs = "jetstream", "nats"

    def options(self) -> dict[str, Any]:
        from nats.js.api import StreamConfig

        async def make(_: Any, js: Any) -> None:
            config = StreamConfig(self.id, subjects=[f"{self.id}.>"], duplicate_window=3600)
            await js.add_stream(config)

        at(self.place.server.url, make)
        told = {"servers": self.place.url, "stream": self.id, "subject": f"{self.id}.rows"}
        return {**told, "duplicates_within": "1 hour"}

    def rows(self) -> Rows:
        from nats.js.api import ConsumerConfig

        async def read(_: Any, js: Any) -> list[Any]:
            count = (await js.stream_info(self.id)).state.messages
            config = ConsumerConfig(ack_policy="none")
            reading = await js.pull_subscribe("", stream=self.id, config=config)
            found: list[Any] = []
            while len(found) < count:
                found += await reading.fetch(min(500, count - len(found)), timeout=10)
            return [json.loads(message.data) for message in found]

        return at(self.place.server.url, read)  # type: ignore[no-any-return]


class SubjectIdempotent(Subject):
    name, deliver = "jetstream, idempotent", "idempotent"


class SubjectPlain(Subject):
    name, deliver = "jetstream, microbatch", "microbatch"


class PulsarNumbered(Sink):
    """By numbers, which follow the columns of a message's log, and our rows have none of these."""

    name, use, needs, deliver = "pulsar, numbered", "pulsar", "pulsar", "numbered"

    def options(self) -> dict[str, Any]:
        return pulsar(self.place, self.id)

    def rows(self) -> Rows:
        from pulsar import MessageId

        found = []
        with pulsar_client(self.place) as client:
            reader = client.create_reader(self.id, MessageId.earliest)
            while reader.has_message_available():
                found.append(json.loads(reader.read_next(10_000).data()))
        return found


class PulsarPlain(PulsarNumbered):
    name, deliver = "pulsar, microbatch", "microbatch"


class CoreSubject(Sink):
    """A subject of core NATS, which keeps nothing: it is listened to as long as the path lasts."""

    name, use, needs = "nats", "nats", "nats"

    def options(self) -> dict[str, Any]:
        self._found: list[Any] = []
        self._listening, self._enough = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._listen()), daemon=True)
        self._thread.start()
        assert self._listening.wait(10), "nobody listens to the subject"
        return {"servers": self.place.url, "subject": f"{self.id}.rows"}

    async def _listen(self) -> None:
        import nats

        async def take(message: Any) -> None:
            self._found.append(json.loads(message.data))

        url, forever = self.place.server.url, -1
        client = await nats.connect(url, max_reconnect_attempts=forever, reconnect_time_wait=0.2)
        await client.subscribe(f"{self.id}.rows", cb=take)
        await client.flush(10)
        self._listening.set()
        while not self._enough.is_set():
            await asyncio.sleep(0.1)
        await client.close()

    def rows(self) -> Rows:
        return list(self._found)

    def close(self) -> None:
        self._enough.set()
        self._thread.join(10)


class Queue(Sink):
    name, use, needs = "amqp", "amqp", "rabbitmq"

    def options(self) -> dict[str, Any]:
        import pika

        connection = pika.BlockingConnection(pika.URLParameters(self.place.server.url))
        connection.channel().queue_declare(self.id, durable=True)
        connection.close()
        told = {"url": self.place.url, "routing_key": self.id}
        return {**told, "connect_timeout": "2 s", "heartbeat": "5 s"}

    def rows(self) -> Rows:
        import pika

        found = []
        connection = pika.BlockingConnection(pika.URLParameters(self.place.server.url))
        channel = connection.channel()
        while (got := channel.basic_get(self.id, auto_ack=True))[0] is not None:
            found.append(json.loads(got[2]))
        connection.close()
        return found


class Shards(Sink):
    name, use, needs, killable = "kinesis", "kinesis", "kinesis", False

    def options(self) -> dict[str, Any]:
        self.place.server.create(self.id, 2)
        return {"stream": self.id, "format": "raw", **kinesis(self.place)}

    def rows(self) -> Rows:
        found = self.place.server.records(self.id).values()
        return [json.loads(record["Data"]) for records in found for record in records]


class Hook(Sink):
    name, use, needs = "webhook", "webhook", "endpoint"

    def options(self) -> dict[str, Any]:
        self._seen = self.place.server.place(self.id)
        url = self._seen.url.replace(f":{self.place.server.port}", f":{self.place.proxy.port}")
        return {"url": url, "allow_private": True, "answer_timeout": "5 s"}

    def rows(self) -> Rows:
        return [json.loads(row["body"]) for row in self._seen.came() if row["status"] < 300]


class Push(Sink):
    """A socket that reads as long as the path lasts."""

    name, use = "zeromq", "zeromq"

    def options(self) -> dict[str, Any]:
        import zmq

        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self._found: list[Any] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return {"socket": "push", "connect": f"tcp://127.0.0.1:{port}"}

    def _read(self) -> None:
        while not self._enough.is_set():
            if self._socket.poll(100):
                self._found.append(json.loads(self._socket.recv()))

    def rows(self) -> Rows:
        return list(self._found)

    def close(self) -> None:
        self._enough.set()
        self._thread.join(10)
        self._context.destroy(linger=0)


class Entries(Sink):
    name, use, needs = "redis", "redis", "redis"

    def options(self) -> dict[str, Any]:
        return {"url": self.place.url, "stream": self.id}

    def rows(self) -> Rows:
        from redis import Redis

        with Redis("127.0.0.1", self.place.server.port) as client:
            return [json.loads(fields[b"value"]) for _, fields in client.xrange(self.id)]


class Hashes(Sink):
    """A hash for each row of a table."""

    name, use, deliver, tables, messages = "redis_table", "redis_table", "idempotent", True, False
    needs, keeps, only_tables = "redis", True, True

    def options(self) -> dict[str, Any]:
        return {"url": self.place.url, "key": f"{self.id}:{{k}}", "give_up": "10 s"}

    def rows(self) -> Rows:
        from redis import Redis

        with Redis("127.0.0.1", self.place.server.port) as client:
            held = [client.hgetall(name) for name in client.keys(f"{self.id}:*")]
        # Each has a field more, for the version of its last change.
        names = ("n", "v", "level")
        return [
            {"k": row[b"k"].decode()} | {n: int(v) for n in names if (v := row.get(n.encode()))}
            for row in held
        ]


class Snapshots(Sink):
    name, use, deliver, tables, messages = "iceberg", "iceberg", "transactional", True, False
    keeps = True

    def options(self) -> dict[str, Any]:
        self._path = self.folder / f"{self.path}-lake"
        return {"path": f"./{self._path.name}", "table": "campaign.rows", "give_up": "10 s"}

    def rows(self) -> Rows:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            found = iceberg(self._path).load_table("campaign.rows").scan().to_arrow().to_pylist()
        except (NoSuchNamespaceError, NoSuchTableError):
            return []
        return [json.loads(json.dumps(row, default=str)) for row in found]


class Address(Sink):
    name, use, needs = "amqp1", "amqp1", "artemis"

    def options(self) -> dict[str, Any]:
        given = {"url": self.place.url, "address": self.id}
        return {**given, "connect_timeout": "2 s", "idle_timeout": "5 s"}

    def rows(self) -> Rows:
        from proton import Timeout
        from proton.utils import BlockingConnection

        found = []
        connection = BlockingConnection(self.place.server.url, timeout=10)
        try:
            receiver = connection.create_receiver(self.id, credit=500)
            with suppress(Timeout):
                while True:
                    message = receiver.receive(timeout=2)  # which its body is a view of
                    found.append(json.loads(bytes(message.body)))
                    receiver.accept()
        finally:
            connection.close()
        return found


class Fifo(Sink):
    """A queue that drops copies; the emulator is never killed: it forgets all then."""

    name, use, needs, killable = "sqs", "sqs", "elasticmq", False

    def options(self) -> dict[str, Any]:
        from mainstem_broker_sqs.testing import CREDENTIALS

        self._url = self.place.server.queue(f"{self.id}.fifo")
        given = {"queue": f"{self.id}.fifo", "endpoint": self.place.url, **CREDENTIALS}
        return {**given, "connect_timeout": "2 s", "answer_timeout": "4 s"}

    def rows(self) -> Rows:
        client, found = self.place.server.client(), []
        told = {"QueueUrl": self._url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600}
        while came := client.receive_message(**told).get("Messages"):
            for message in came:
                found.append(json.loads(message["Body"]))
                client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return found


class Published(Sink):
    """A topic of Google's fake, which forgets all that it holds when it ends: never killed."""

    name, use, needs, killable = "pubsub", "pubsub", "pubsub", False

    def options(self) -> dict[str, Any]:
        from mainstem_broker_pubsub.testing import PROJECT

        topic = self.place.server.topic(self.id)
        self._subscription = self.place.server.subscription(self.id, topic, seconds=600)
        given = {"project": PROJECT, "topic": self.id, "emulator": self.place.url}
        return {**given, "connect_timeout": "2 s", "answer_timeout": "4 s"}

    def rows(self) -> Rows:
        found: list[Any] = []
        while came := self.place.server.pull(self._subscription):
            found += [json.loads(each.message.data) for each in came]
        return found


class Publisher(Sink):
    """A topic of MQTT, listened to in a session that outlives connections. The server writes it down behind its
    answers, so it is never killed."""

    name, use, needs, killable = "mqtt", "mqtt", "mosquitto", False

    def options(self) -> dict[str, Any]:
        with mqtt_client(self.place, f"of-{self.id}", subscribe=self.id):
            pass
        given = {"url": self.place.url, "topic": self.id, "qos": 1}
        return {**given, "keep_alive": "2 s", "connect_timeout": "2 s"}

    def rows(self) -> Rows:
        found: list[bytes] = []
        mark = uuid.uuid4().hex.encode()
        with mqtt_client(self.place) as client:
            client.publish(self.id, mark, 1).wait_for_publish(30)
        with mqtt_client(self.place, f"of-{self.id}", take=found.append):
            until = time.monotonic() + 60
            while mark not in found:
                assert time.monotonic() < until, "what was published last has not come"
                time.sleep(0.05)
        return [json.loads(value) for value in found if value != mark]


class Listened(Sink):
    """What is sent to a port, which is listened to as long as the path lasts.

    Attributes:
        to: the option that names the port.
    """

    to: ClassVar[str]

    def options(self) -> dict[str, Any]:
        self._found: list[Any] = []
        self._enough = threading.Event()
        self._socket = self._bound()
        self._socket.settimeout(0.1)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return {self.to: f"127.0.0.1:{self._socket.getsockname()[1]}"}

    def _listen(self) -> None:
        while not self._enough.is_set():
            with suppress(TimeoutError):
                self._take()

    @abstractmethod
    def _bound(self) -> socket.socket:
        """Return a socket on a port."""

    @abstractmethod
    def _take(self) -> None:
        """Take what comes next, or nothing."""

    def rows(self) -> Rows:
        time.sleep(0.5)
        return [json.loads(line) for line in self._found]

    def close(self) -> None:
        self._enough.set()
        self._thread.join(10)
        self._socket.close()


class Stream(Listened):
    """Lines over TCP, of which the last may be cut off where a process has ended."""

    name = use = "socket"
    to = "connect"

    def _bound(self) -> socket.socket:
        return socket.create_server(("127.0.0.1", 0))

    def _take(self) -> None:
        there, _ = self._socket.accept()
        threading.Thread(target=self._read, args=(there,), daemon=True).start()

    def _read(self, there: socket.socket) -> None:
        with there, there.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                if line.endswith(b"\n"):
                    self._found.append(line)


class Datagrams(Listened):
    name = use = "udp"
    to = "to"

    def _bound(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
        return made

    def _take(self) -> None:
        self._found.append(self._socket.recv(65_536))


SINKS = {
    each.name: each
    for each in (
        Files, SqlTransactional, SqlStaged, SqlIdempotent, TopicTransactional, TopicPlain,
        SubjectIdempotent, SubjectPlain, PulsarNumbered, PulsarPlain, Queue, Shards, Hook, Push, SqlPlain,
        CoreSubject, Index, Lake, Entries, Snapshots, Hashes, Address, Fifo, Published, Publisher, Stream,
        Datagrams,
    )
}  # fmt: skip
