"""A broker to publish to, seen from its other side; one with TLS that takes small messages alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest
from mainstem_broker_amqp.connection import parameters
from mainstem_broker_amqp.options import ConnectionOptions
from mainstem_broker_amqp.testing import RabbitMQ
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.plugin import serve
from mainstem_testkit.server import free_port


@dataclass
class Broker:
    """What tests do at a broker themselves; each call has a connection of its own."""

    server: Any

    def options(self, url: Any = None, **more: Any) -> ConnectionOptions:
        return ConnectionOptions.model_validate({"url": url or self.server.url, **more})

    def parameters(self, *urls: str, **more: Any) -> list[pika.ConnectionParameters]:
        return parameters(self.options(list(urls) or None, **more), "test")

    @contextmanager
    def channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(self.parameters()[0])
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def queue(self, kind: str = "classic", name: str = "", **arguments: Any) -> str:
        """Make a durable queue and return its name."""
        name = name or f"q-{uuid.uuid4().hex[:12]}"
        given = {
            "x-queue-type": kind,
            **{f"x-{k.replace('_', '-')}": v for k, v in arguments.items()},
        }
        with self.channel() as channel:
            channel.queue_declare(name, durable=True, arguments=given)
        return name

    def count(self, queue: str) -> int:
        with self.channel() as channel:
            return channel.queue_declare(queue, passive=True).method.message_count

    def read(self, queue: str, *, leave: bool = False) -> list[tuple[Any, Any, bytes]]:
        """Take all messages: method, properties, body."""
        found = []
        with self.channel() as channel:
            while True:
                method, properties, body = channel.basic_get(queue)
                if method is None:
                    break
                found.append((method, properties, body))
            if found and not leave:
                channel.basic_ack(found[-1][0].delivery_tag, multiple=True)
        return found

    def bodies(self, queue: str) -> list[bytes]:
        return [body for _, _, body in self.read(queue)]

    def stream(self, queue: str, count: int) -> list[bytes]:
        """Return the first messages of a stream."""
        found: list[bytes] = []
        with self.channel() as channel:
            channel.basic_qos(prefetch_count=100)
            offset = {"x-stream-offset": "first"}
            for method, _, body in channel.consume(queue, arguments=offset, inactivity_timeout=10):
                if method is None:
                    break
                channel.basic_ack(method.delivery_tag)
                found.append(body)
                if len(found) == count:
                    break
            channel.cancel()
        return found


@pytest.fixture
def broker(rabbitmq: Any) -> Broker:
    return Broker(rabbitmq)


class SecuredRabbitMQ(RabbitMQ):
    """Speaks TLS, asks clients for certificates, and takes messages of 64 KiB at most."""

    name = "rabbitmq_tls"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tls_port = free_port()
        self.certificates = folder / "certificates"

    @property
    def tls_url(self) -> str:
        return f"amqps://guest:guest@127.0.0.1:{self.tls_port}/"

    def prepare(self) -> None:
        super().prepare()
        made = self.certificates
        make_certificates(made, {"server": "DNS:broker.test", "client": "DNS:broker.test"})
        for name in ("server", "client"):
            (made / f"{name}.key").chmod(0o644)
        lines = (
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
            f"ssl_options.cacertfile = {made}/ca.pem",
            f"ssl_options.certfile = {made}/server.pem",
            f"ssl_options.keyfile = {made}/server.key",
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = true",
            "max_message_size = 65536",
        )
        conf = self.folder / "rabbitmq.conf"
        conf.write_text(conf.read_text() + "\n".join(lines) + "\n")

    def tls(self, **changes: Any) -> dict[str, Any]:
        """Return the options `tls` of a client that the server lets in."""
        made = self.certificates
        right = {"ca": f"{made}/ca.pem", "certificate": f"{made}/client.pem"}
        right |= {"key": f"{made}/client.key", "server_name": "broker.test"}
        return {k: v for k, v in {**right, **changes}.items() if v is not None}


@pytest.fixture(scope="session")
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    yield from serve(SecuredRabbitMQ, request, tmp_path_factory)


@pytest.fixture
def secured_broker(secured: Any) -> Broker:
    return Broker(secured)
