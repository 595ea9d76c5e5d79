"""Where events come from: what a document says of each source, and how events are sent to it.

`send` returns when the far side has taken the events for good, and is called again with the same ones
when it fails: so a sender doubles only where its protocol leaves no other way.
"""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from mainstem_testkit.server import free_port

from campaign.events import Event
from campaign.places import JARS, Places

DECODED = {
    "n": "BIGINT NOT NULL",
    "k": "STRING NOT NULL",
    "at": "TIMESTAMP NOT NULL",
    "v": "INT NOT NULL",
}
#: A row of a table with the newest event of each key.
_ROW = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.int32())])


class Source(ABC):
    """One source of one path.

    Attributes:
        ordered: whether events come in the order in which they were sent.
        behind: whether those of one key may come long after later ones of others.
        lossy: whether events may be lost, so that nothing can be said of totals and tables.
        needs: the server that it speaks to.
        killable: whether that may be killed: not if a sender could not tell then what was taken.
        receives: whether a receiver takes its messages into the ingress log.
        changes: whether it tells changes of a table, that has the newest event of each key.
        keyed: whether it tells changes of keys, whose values are the events.
    """

    name: ClassVar[str]
    ordered: ClassVar[bool] = False
    behind: ClassVar[bool] = False
    lossy: ClassVar[bool] = False
    needs: ClassVar[str | None] = None
    killable: ClassVar[bool] = True
    receives: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    keyed: ClassVar[bool] = False

    def __init__(self, places: Places, folder: Path, path: str) -> None:
        self.folder, self.path = folder, path
        self.id = f"c{uuid.uuid4().hex[:12]}"
        self.place: Any = getattr(places, self.needs) if self.needs else None

    @abstractmethod
    def part(self) -> dict[str, Any]:
        """Return `use` and `with`."""

    def options_beside(self) -> dict[str, Any]:
        """Return what the document says of it beside these: nothing is to be refused."""
        return {"on_rejected": "fail"} if self.receives else {}

    @abstractmethod
    def send(self, events: Sequence[Event]) -> None:
        """Send events; raises if it is not known that all were taken."""

    def close(self) -> None:  # noqa: B027
        """Let go what a sender holds."""


class Files(Source):
    name = "files"
    ordered = True

    def part(self) -> dict[str, Any]:
        (self.folder / self.path).mkdir(exist_ok=True)
        return {"use": "files", "with": {"path": f"./{self.path}", "format": "message"}}

    def send(self, events: Sequence[Event]) -> None:
        name = f"{events[0].n:08}.json"
        hidden = self.folder / self.path / f".{name}"
        hidden.write_text("".join(e.as_json() + "\n" for e in events))
        os.utime(hidden, (events[0].at, events[0].at))
        hidden.rename(self.folder / self.path / name)


class Queue(Source):
    needs = "rabbitmq"
    kind = "classic"
    receives = True

    def part(self) -> dict[str, Any]:
        with self._channel() as channel:
            arguments = {"x-queue-type": self.kind}
            channel.queue_declare(self.id, durable=True, arguments=arguments)
        given = {"url": self.place.url, "queue": self.id, "type": self.kind}
        given |= {"connect_timeout": "2 s", "heartbeat": "5 s"}
        if self.kind != "stream":
            given["ids"] = "always"
        return {"use": "amqp", "with": given}

    def send(self, events: Sequence[Event]) -> None:
        import pika

        with self._channel() as channel:
            channel.confirm_delivery()
            for e in events:
                told = pika.BasicProperties(delivery_mode=2, message_id=str(e.n))
                channel.basic_publish("", self.id, e.as_json().encode(), told, mandatory=True)

    def _channel(self) -> Any:
        from contextlib import contextmanager

        import pika

        @contextmanager
        def opened() -> Any:
            connection = pika.BlockingConnection(pika.URLParameters(self.place.server.url))
            try:
                yield connection.channel()
            finally:
                if connection.is_open:
                    connection.close()

        return opened()


class Classic(Queue):
    name = "amqp-classic"


class Quorum(Queue):
    name, kind = "amqp-quorum", "quorum"


class Stream(Queue):
    name, kind, ordered, killable = "amqp-stream", "stream", True, False


class KafkaTopic(Source):
    name, needs, ordered = "kafka", "kafka", True

    def part(self) -> dict[str, Any]:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        server = self.place.server.url
        admin = AdminClient({"bootstrap.servers": server})
        admin.create_topics([NewTopic(self.id, 1, 1)])[self.id].result(30)
        told = {"bootstrap.servers": server, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer(told)
        given = {"servers": self.place.url, "topics": [self.id], "jars": str(JARS)}
        return {"use": "kafka", "with": {**given, "max_rows": 2000}}

    def send(self, events: Sequence[Event]) -> None:
        # The producer itself tries again, and doubles nothing: never given the same event twice.
        for e in events:
            self._producer.produce(self.id, e.as_json().encode(), e.k.encode())
        while self._producer.flush(10):
            pass


class ShareGroup(KafkaTopic):
    name, ordered, receives = "kafka-queue", False, True

    def part(self) -> dict[str, Any]:
        super().part()
        given = {"servers": self.place.url, "topics": [self.id], "group": self.id}
        return {"use": "kafka_queue", "with": {**given, "deliveries": 25, "connect_timeout": "2 s"}}


class Jetstream(Source):
    name, needs, ordered = "jetstream", "nats", True
    work = False

    def part(self) -> dict[str, Any]:
        from nats.js.api import RetentionPolicy, StreamConfig

        kept = RetentionPolicy.WORK_QUEUE if self.work else RetentionPolicy.LIMITS

        async def make(_: Any, js: Any) -> None:
            subjects = [f"{self.id}.>"]
            config = StreamConfig(self.id, subjects=subjects, duplicate_window=600, retention=kept)
            await js.add_stream(config)

        at(self.place.server.url, make)
        given = {"servers": self.place.url, "stream": self.id}
        if self.work:
            return {"use": "jetstream_queue", "with": {**given, "consumer": "campaign"}}
        return {"use": "jetstream", "with": given}

    def send(self, events: Sequence[Event]) -> None:
        async def put(_: Any, js: Any) -> None:
            for e in events:
                told = {"Nats-Msg-Id": str(e.n)}
                await js.publish(f"{self.id}.{e.k}", e.as_json().encode(), headers=told)

        at(self.place.server.url, put)


class WorkQueue(Jetstream):
    name, ordered, work = "jetstream-queue", False, True
    receives = True


class PulsarTopic(Source):
    """A topic; it knows by their numbers what a sender sends again."""

    name, needs, ordered = "pulsar", "pulsar", True

    def part(self) -> dict[str, Any]:
        self.place.server.ask(f"persistent/public/default/{self.id}", "PUT")
        given = pulsar(self.place, self.id)
        return {"use": "pulsar", "with": {**given, "admin_url": self.place.server.admin_url}}

    def send(self, events: Sequence[Event]) -> None:
        with pulsar_client(self.place) as client:
            producer = client.create_producer(self.id, "campaign", send_timeout_millis=10_000)
            for e in events:
                producer.send(e.as_json().encode(), partition_key=e.k, sequence_id=e.n + 1)


class Subscription(PulsarTopic):
    name, ordered, receives = "pulsar-queue", False, True

    def part(self) -> dict[str, Any]:
        given = pulsar(self.place, self.id)
        return {"use": "pulsar_queue", "with": {**given, "subscription": "campaign"}}


class Core(Source):
    name, needs, lossy = "nats", "nats", True
    receives = True

    def part(self) -> dict[str, Any]:
        return {"use": "nats", "with": {"servers": self.place.url, "subjects": [f"{self.id}.>"]}}

    def send(self, events: Sequence[Event]) -> None:
        async def put(client: Any, _: Any) -> None:
            for e in events:
                await client.publish(f"{self.id}.{e.k}", e.as_json().encode())
            await client.flush(10)

        at(self.place.server.url, put)


class Shards(Source):
    name, needs, killable = "kinesis", "kinesis", False
    receives = True

    def part(self) -> dict[str, Any]:
        self.place.server.create(self.id, 2)
        return {"use": "kinesis", "with": {"stream": self.id, **kinesis(self.place)}}

    def send(self, events: Sequence[Event]) -> None:
        for e in events:
            self.place.server.put(self.id, e.k, e.as_json().encode())


class Hook(Source):
    name = "webhook"
    receives = True

    def part(self) -> dict[str, Any]:
        import httpx

        self._port = free_port()
        self._client = httpx.Client(timeout=10, headers={"authorization": "Bearer open-sesame"})
        verify = {"use": "bearer", "token": "open-sesame"}
        given = {"port": self._port, "ids": "always", "paths": {"/in": {"verify": verify}}}
        return {"use": "webhook", "with": given}

    def send(self, events: Sequence[Event]) -> None:
        for e in events:
            told = {"idempotency-key": str(e.n), "content-type": "application/json"}
            where = f"http://127.0.0.1:{self._port}/in"
            self._client.post(where, content=e.as_json(), headers=told).raise_for_status()

    def close(self) -> None:
        self._client.close()


class Pull(Source):
    name, lossy = "zeromq", True
    receives = True

    def part(self) -> dict[str, Any]:
        import zmq

        where = f"tcp://127.0.0.1:{free_port()}"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.sndtimeo, self._socket.linger = 10_000, 0
        self._socket.connect(where)
        return {"use": "zeromq", "with": {"socket": "pull", "bind": where}}

    def send(self, events: Sequence[Event]) -> None:
        # What was handed over is not taken back: an event is sent once.
        for e in events:
            self._socket.send(e.as_json().encode())

    def close(self) -> None:
        self._context.destroy(linger=0)


class Datagrams(Source):
    name, lossy = "udp", True
    receives = True

    def part(self) -> dict[str, Any]:
        self._to = ("127.0.0.1", free_port())
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        return {"use": "udp", "with": {"listen": "{}:{}".format(*self._to)}}

    def send(self, events: Sequence[Event]) -> None:
        for e in events:
            self._socket.sendto(e.as_json().encode(), self._to)

    def close(self) -> None:
        self._socket.close()


class Poll(Source):
    """A table that grows; typed, so that nothing is decoded."""

    name, needs, ordered = "sql-poll", "postgres", True

    def part(self) -> dict[str, Any]:
        self._run(f"CREATE TABLE {self.id} (n BIGINT PRIMARY KEY, k TEXT, at TIMESTAMPTZ, v INT)")
        columns = "n BIGINT, k STRING, at TIMESTAMP, v INT"
        given = {"url": self.place.url, "table": self.id, "schema": columns, "key": ["n"]}
        given |= {"mode": "poll", "column": "n", "settle": "1 second", "every": "500 ms"}
        return {"use": "sql", "with": {**given, "give_up": "10 s"}}

    def send(self, events: Sequence[Event]) -> None:
        rows = ", ".join(f"({e.n}, '{e.k}', to_timestamp({e.at}), {e.v})" for e in events)
        self._run(f"INSERT INTO {self.id} VALUES {rows} ON CONFLICT DO NOTHING")

    def _run(self, text: str) -> None:
        postgres(self.place, text)


class Table(Source):
    """A table with the newest event of each key, and whatever else happens to its rows meanwhile."""

    ordered = receives = changes = True
    use: ClassVar[str]
    #: Inserts a row, or updates that of its key.
    upsert: ClassVar[str]

    def part(self) -> dict[str, Any]:
        self._run([f"CREATE TABLE {self.id} (k VARCHAR(40) PRIMARY KEY, n BIGINT, v INT)"])
        self._pieces = 0
        table = {"table": self.table, "key": ["k"], "schema": "k STRING, n BIGINT, v INT"}
        given = {"url": self.place.url, "tables": {"rows": table}, "chunk_rows": 7}
        given |= {"connect_timeout": "2 s", "answer_timeout": "3 s"}
        return {"use": self.use, "with": given | self.more()}

    @property
    def table(self) -> str:
        """The table's name, as the document has it."""
        return self.id

    def more(self) -> dict[str, Any]:
        """Return further options."""
        return {}

    def send(self, events: Sequence[Event]) -> None:
        # In one transaction, with rows that come, go, move and are taken back; then a new column.
        name, statements = self.id, ["BEGIN"]
        for e in events:
            row = f"('{e.k}', {e.n}, {e.v})"
            if e.n % 5 == 0:
                statements.append(f"DELETE FROM {name} WHERE k = '{e.k}'")
            if e.n % 7 == 0:
                statements.append(f"DELETE FROM {name} WHERE k = 'moved'")
                statements.append(f"UPDATE {name} SET k = 'moved' WHERE k = '{e.k}'")
                statements.append(f"UPDATE {name} SET k = '{e.k}' WHERE k = 'moved'")
            statements.append(f"INSERT INTO {name} (k, n, v) VALUES {row} {self.upsert}")
            if e.n % 11 == 0:
                statements.append("SAVEPOINT here")
                statements.append(f"UPDATE {name} SET v = -1")
                statements.append("ROLLBACK TO SAVEPOINT here")
        undone = ["BEGIN", f"UPDATE {name} SET v = -2", f"DELETE FROM {name}", "ROLLBACK"]
        self._run([*undone, *statements, "COMMIT"])
        self._pieces += 1
        if self._pieces % 5 == 0:
            self._run([f"ALTER TABLE {name} ADD COLUMN more{self._pieces} INT"])

    @abstractmethod
    def _run(self, statements: Sequence[str]) -> None:
        """Run statements in one session."""


class PostgreSQL(Table):
    name = use = "postgresql"
    needs = "postgres"
    upsert = "ON CONFLICT (k) DO UPDATE SET n = EXCLUDED.n, v = EXCLUDED.v"

    def more(self) -> dict[str, Any]:
        return {"slot": self.id}

    def _run(self, statements: Sequence[str]) -> None:
        import psycopg

        with psycopg.connect(
            self.place.server.url, connect_timeout=5, autocommit=True
        ) as connection:
            for statement in statements:
                connection.execute(statement)

    def close(self) -> None:
        slot = f"FROM pg_replication_slots WHERE slot_name = '{self.id}'"
        with suppress(Exception):
            self._run([f"SELECT pg_terminate_backend(active_pid) {slot}", "SELECT pg_sleep(0.5)"])
            self._run([f"SELECT pg_drop_replication_slot(slot_name) {slot}"])


class MySQL(Table):
    name = use = needs = "mysql"
    upsert = "ON DUPLICATE KEY UPDATE n = VALUES(n), v = VALUES(v)"

    def _run(self, statements: Sequence[str]) -> None:
        import pymysql

        server = self.place.server
        given = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": "test"}
        with pymysql.connect(**given, connect_timeout=5, autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)


class MariaDB(MySQL):
    name = needs = "mariadb"


class Entries(Source):
    """A stream, which is appended to as the sink does: with ids that tell copies apart."""

    name, needs, ordered, receives = "redis", "redis", True, True

    def part(self) -> dict[str, Any]:
        given = {"url": self.place.url, "streams": [self.id], "group": "campaign"}
        return {"use": "redis", "with": {**given, "format": "messages", "answer_timeout": "3 s"}}

    def send(self, events: Sequence[Event]) -> None:
        from redis import Redis

        with Redis("127.0.0.1", self.place.server.port, socket_timeout=5) as client:
            for e in events:
                client.xadd(self.id, {"id": str(e.n), "value": e.as_json()})


class Address(Source):
    """A queue of AMQP 1.0, whose messages have ids that tell copies apart."""

    name, needs, receives = "amqp1", "artemis", True

    def part(self) -> dict[str, Any]:
        given = {"url": self.place.url, "address": self.id, "ids": "always"}
        self.send([])  # the broker makes the queue
        return {"use": "amqp1", "with": {**given, "connect_timeout": "2 s", "idle_timeout": "5 s"}}

    def send(self, events: Sequence[Event]) -> None:
        from proton import Data, Message, symbol
        from proton.reactor import LinkOption
        from proton.utils import BlockingConnection

        class Queue(LinkOption):  # type: ignore[misc]
            def apply(self, link: Any) -> None:
                can = link.target.capabilities
                can.put_array(False, Data.SYMBOL)
                can.enter()
                can.put_symbol(symbol("queue"))
                can.exit()

        connection = BlockingConnection(self.place.server.url, timeout=10)
        try:
            sender = connection.create_sender(self.id, options=Queue())
            for e in events:
                body = e.as_json().encode()
                sender.send(Message(body, id=str(e.n), durable=True, inferred=True))
        finally:
            connection.close()


class Fifo(Source):
    """A queue of SQS that knows what is sent again; the emulator is never killed: it forgets that then.

    A group whose messages were given by an answer that was cut is held back until they are visible again.
    """

    name, needs, ordered, behind, receives, killable = "sqs", "elasticmq", True, True, True, False

    def part(self) -> dict[str, Any]:
        from mainstem_broker_sqs.testing import CREDENTIALS

        self._url = self.place.server.queue(f"{self.id}.fifo", VisibilityTimeout="10")
        given = {"queue": f"{self.id}.fifo", "endpoint": self.place.url, **CREDENTIALS}
        return {"use": "sqs", "with": {**given, "visibility": "10 s", "wait": "1 s"}}

    def send(self, events: Sequence[Event]) -> None:
        client = self.place.server.client()
        for e in events:
            client.send_message(
                QueueUrl=self._url,
                MessageBody=e.as_json(),
                MessageGroupId=e.k,
                MessageDeduplicationId=str(e.n),
            )


class PubSubscription(Source):
    """A subscription of Google's fake, which forgets all that it holds when it ends: never killed."""

    name, needs, receives, killable = "pubsub", "pubsub", True, False

    def part(self) -> dict[str, Any]:
        self._topic = self.place.server.topic(self.id)
        whole = self.place.server.subscription(self.id, self._topic)
        given = {"subscription": whole, "emulator": self.place.url}
        return {"use": "pubsub", "with": {**given, "lease": "2 s", "connect_timeout": "2 s"}}

    def send(self, events: Sequence[Event]) -> None:
        told = [{"data": e.as_json().encode()} for e in events]
        self.place.server.publish(self._topic, told)


class Session(Source):
    """A session of MQTT, which knows no copies: what was confirmed is not sent again. The server writes
    it down behind its answers, so it is never killed."""

    name, needs, ordered, receives, killable = "mqtt", "mosquitto", True, True, False

    def part(self) -> dict[str, Any]:
        with mqtt_client(self.place, self.id, subscribe=self.id):
            pass
        self._confirmed: set[int] = set()
        given = {"url": self.place.url, "topics": [self.id], "client_id": self.id}
        return {"use": "mqtt", "with": {**given, "connect_timeout": "2 s", "keep_alive": "2 s"}}

    def send(self, events: Sequence[Event]) -> None:
        with mqtt_client(self.place) as client:
            for e in events:
                if e.n not in self._confirmed:
                    sent = client.publish(self.id, e.as_json(), 1)
                    # Long enough for a server that stands still for a while.
                    sent.wait_for_publish(60)
                    assert sent.is_published()
                    self._confirmed.add(e.n)


class Bucket(Source):
    """A bucket of keys, one for each event: of one that is written again the older is forgotten."""

    name, needs, ordered, keyed = "nats-bucket", "nats", True, True

    def part(self) -> dict[str, Any]:
        from nats.js.api import KeyValueConfig

        async def make(_: Any, js: Any) -> None:
            await js.create_key_value(KeyValueConfig(bucket=self.id))

        at(self.place.server.url, make)
        return {"use": "nats_bucket", "with": {"servers": self.place.url, "bucket": self.id}}

    def send(self, events: Sequence[Event]) -> None:
        from nats.js.errors import KeyWrongLastSequenceError

        async def put(_: Any, js: Any) -> None:
            bucket = await js.key_value(self.id)
            for e in events:
                with suppress(KeyWrongLastSequenceError):  # it is there
                    await bucket.create(f"of.{e.n}", e.as_json().encode())

        at(self.place.server.url, put)


class Lines(Source):
    """Lines over TCP, which nobody acknowledges: an event is sent once, with the others of its piece."""

    name, lossy, receives = "socket", True, True

    def part(self) -> dict[str, Any]:
        self._to = ("127.0.0.1", free_port())
        self._sent = -1
        return {"use": "socket", "with": {"listen": "{}:{}".format(*self._to)}}

    def send(self, events: Sequence[Event]) -> None:
        with socket.create_connection(self._to, 10) as made:
            for e in events:
                if e.n > self._sent:
                    self._sent = e.n
                    made.sendall(e.as_json().encode() + b"\n")


class Lake(Source):
    """A table that is merged into, with the newest event of each key."""

    ordered = receives = changes = True
    use: ClassVar[str]

    @property
    def table(self) -> Path:
        return self.folder / f"{self.path}-lake"

    def part(self) -> dict[str, Any]:
        self._make()
        given = {
            "path": f"./{self.table.name}",
            "key": ["k"],
            "schema": "k STRING, n BIGINT, v INT",
        }
        return {"use": self.use, "with": {**given, "poll": "200 ms"} | self.more()}

    def more(self) -> dict[str, Any]:
        """Return further options."""
        return {}

    def send(self, events: Sequence[Event]) -> None:
        newest = {e.k: e for e in events}.values()
        columns = {name: [getattr(e, name) for e in newest] for name in ("k", "n", "v")}
        self._merge(pa.table(columns, _ROW))

    @abstractmethod
    def _make(self) -> None:
        """Make the table."""

    @abstractmethod
    def _merge(self, rows: pa.Table) -> None:
        """Update rows by their key, and insert those that are new."""


class DeltaRows(Lake):
    name = use = "delta"

    def _make(self) -> None:
        from deltalake import DeltaTable

        told = {"delta.enableChangeDataFeed": "true"}
        DeltaTable.create(str(self.table), schema=_ROW, configuration=told)

    def _merge(self, rows: pa.Table) -> None:
        from deltalake import DeltaTable

        (
            DeltaTable(str(self.table))
            .merge(rows, "held.k = new.k", source_alias="new", target_alias="held")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )


class IcebergRows(Lake):
    name = use = "iceberg"

    def more(self) -> dict[str, Any]:
        return {"table": "campaign.rows"}

    def _make(self) -> None:
        catalog = iceberg(self.table)
        catalog.create_namespace("campaign")
        catalog.create_table("campaign.rows", _ROW)

    def _merge(self, rows: pa.Table) -> None:
        iceberg(self.table).load_table("campaign.rows").upsert(rows, ["k"])


class Documents(Source):
    """A collection with the newest event of each key, of an emulation."""

    name = use = needs = "mongodb"
    ordered = receives = changes = True

    def part(self) -> dict[str, Any]:
        table = {"key": ["k"], "schema": "k STRING, n BIGINT, v INT"}
        url = self.place.url.replace("/test?", f"/{self.id}?")
        given = {"url": url, "tables": {"rows": table}, "chunk_rows": 7}
        return {"use": self.use, "with": {**given, "answer_timeout": "3 s"}}

    def send(self, events: Sequence[Event]) -> None:
        import pymongo

        with pymongo.MongoClient(self.place.server.url, retryWrites=False) as client:
            rows = client[self.id]["rows"]
            for e in events:
                row = {"n": e.n, "v": e.v}
                if not rows.replace_one({"_id": e.k}, row).matched_count:
                    rows.insert_one({"_id": e.k, **row})


SOURCES = {
    each.name: each
    for each in (
        Files, Classic, Quorum, Stream, KafkaTopic, ShareGroup, Jetstream, WorkQueue, PulsarTopic,
        Subscription, Core, Shards, Hook, Pull,
        Poll, Datagrams, PostgreSQL, MySQL, MariaDB, Entries, Address, Fifo, PubSubscription,
        Session, Bucket, Lines, DeltaRows, IcebergRows, Documents,
    )
}  # fmt: skip


def at(url: str, work: Any) -> Any:
    """Run `work(client, jetstream)` on a connection to NATS of its own."""
    import nats

    async def run() -> Any:
        client = await nats.connect(url, connect_timeout=5, allow_reconnect=False)
        try:
            return await work(client, client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def postgres(place: Any, text: str) -> list[Any]:
    """Run a statement and return its rows."""
    import psycopg

    with psycopg.connect(place.server.url, connect_timeout=5) as connection:
        done = connection.execute(text)
        return done.fetchall() if done.description else []


def pulsar(place: Any, topic: str) -> dict[str, Any]:
    """Return the options of a connection to a topic, through what breaks connections."""
    return {"url": place.url, "topic": topic, "listener": "through", "connect_timeout": "5 seconds"}


@contextmanager
def pulsar_client(place: Any) -> Iterator[Any]:
    """Yield a client of Pulsar that comes directly."""
    from pulsar import Client, FileLogger, LoggerLevel

    quiet = FileLogger(LoggerLevel.Error, "/dev/null")
    client = Client(place.server.url, operation_timeout_seconds=10, logger=quiet)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def mqtt_client(
    place: Any, name: str = "", *, subscribe: str = "", take: Any = None
) -> Iterator[Any]:
    """Yield a client of MQTT that comes directly.

    Args:
        name: of a session that outlives connections; one for this connection alone when left out.
        subscribe: a topic that the session is to have.
        take: is given each message.
    """
    import paho.mqtt.client as mqtt
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
    kept = Properties(PacketTypes.CONNECT)
    kept.SessionExpiryInterval = 86_400 if name else 0
    answers: queue.Queue[bool] = queue.Queue()
    client.on_connect = lambda *told: answers.put(not told[3].is_failure)
    client.on_subscribe = lambda *told: answers.put(not any(c.is_failure for c in told[3]))
    if take is not None:
        client.on_message = lambda _client, _data, message: take(bytes(message.payload))
    client.connect("127.0.0.1", place.server.port, 60, clean_start=not name, properties=kept)
    client.loop_start()
    try:
        assert answers.get(timeout=10), "the connection is refused"
        if subscribe:
            client.subscribe(subscribe, 1)
            assert answers.get(timeout=10), "the subscription is refused"
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def iceberg(folder: Path) -> Any:
    """Return the catalog that the option `path` makes in a folder."""
    from pyiceberg.catalog import load_catalog

    folder.mkdir(parents=True, exist_ok=True)
    where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    return load_catalog("mainstem", type="sql", **where)


def kinesis(place: Any) -> dict[str, str]:
    """Return the options of a connection to the emulator, which takes any credentials."""
    from mainstem_broker_kinesis.testing import CREDENTIALS, REGION

    return {
        "endpoint": place.url,
        "region": REGION,
        "access_key": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "secret_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
