"""The standard tests of senders and sinks, over a real Redis."""

from __future__ import annotations

import uuid

import pytest
import redis
from mainstem_cache_redis.testing import Redis
from mainstem_testkit import SenderSuite, SinkSuite, serve


@pytest.fixture(scope="session")
def secured_redis(request, tmp_path_factory):
    """A server that asks for a password."""

    class SecuredRedis(Redis):
        name = "secured_redis"

        def __init__(self, folder):
            super().__init__(folder, "requirepass letmein")

    yield from serve(SecuredRedis, request, tmp_path_factory)


def entries(server, stream, password=None):
    """Return the fields of a stream's entries, in order."""
    with redis.Redis("127.0.0.1", server.port, password=password) as client:
        return [fields for _, fields in client.xrange(stream)]


class TestSender(SenderSuite):
    use = "redis"
    server_fixture = "redis"
    secrets = ("hunter2",)

    def prepare(self):
        self.stream = f"numbers-{uuid.uuid4()}"

    def options(self):
        return {"url": f"redis://127.0.0.1:{self.port}", "stream": self.stream}

    def received(self):
        return [int(fields[b"value"] or 0) for fields in entries(self.server, self.stream)]

    def permanent(self):
        with redis.Redis("127.0.0.1", self.server.port) as client:
            client.set("text", "no stream")
        there = f"127.0.0.1:{self.port}"
        return {
            "a password where there is none": {"url": f"redis://:hunter2@{there}"},
            "no such user": {"url": f"redis://nobody:hunter2@{there}"},
            "a key that is no stream": {"stream": "text"},
            "no such database": {"url": f"redis://{there}/99"},
        }


class TestSenderByRow(TestSender):
    """The stream is named by a column; a row can name what is no stream."""

    refused = {"origin": "text"}

    def prepare(self):
        super().prepare()
        with redis.Redis("127.0.0.1", self.server.port) as client:
            client.set("text", "no stream")

    def options(self):
        return {"url": f"redis://127.0.0.1:{self.port}"}

    def row(self, number):
        return {**super().row(number), "origin": self.stream}

    def permanent(self):
        return {"no such database": {"url": f"redis://127.0.0.1:{self.port}/99"}}


class TestSecured(TestSender):
    server_fixture = "secured_redis"

    def options(self):
        return {"url": f"redis://:letmein@127.0.0.1:{self.port}", "stream": self.stream}

    def received(self):
        found = entries(self.server, self.stream, "letmein")
        return [int(fields[b"value"] or 0) for fields in found]

    def permanent(self):
        there = f"127.0.0.1:{self.port}"
        return {
            "another password": {"url": f"redis://:hunter2@{there}"},
            "no password": {"url": f"redis://{there}"},
        }


class TestSink(SinkSuite):
    """These stand for all sinks on egress."""

    use = "redis"
    stands_for = "egress"
    server_fixture = "redis"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"

    def prepare(self):
        self.stream = f"rows-{uuid.uuid4()}"

    def options(self):
        return {"url": self.server.url, "stream": self.stream, "give_up": "5 seconds"}

    def rows(self, schema):
        found = []
        for fields in entries(self.server, self.stream):
            headers = {
                name.removeprefix(b"header:").decode(): held
                for name, held in fields.items()
                if name.startswith(b"header:")
            }
            found.append(
                {
                    "key": fields.get(b"key"),
                    "value": fields.get(b"value"),
                    "headers": headers or None,
                }
            )
        return found
