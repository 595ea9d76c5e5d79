"""Reads topics by clients that are not ours: kcat, and Kafka's own tools; and makes topics."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from mainstem_testkit import wait_for


@dataclass(frozen=True)
class Message:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    offset: int = 0
    timestamp: int = 0
    own_headers: dict = field(default_factory=dict)

    @property
    def mark(self):
        """What the header of the identity says."""
        return dict(self.headers).get("mainstem-id")


def make_topic(server, name, partitions=1, config=None):
    """Make a topic and return its name."""
    client = AdminClient({"bootstrap.servers": server.url})
    new = NewTopic(name, partitions, 1, config=config or {})
    client.create_topics([new])[name].result(30)
    # The controller has it now; the broker hears of it a moment later.
    wait_for(lambda: name in client.list_topics(timeout=30).topics, 30)
    return name


def topic_exists(server, name):
    client = AdminClient({"bootstrap.servers": server.url})
    return name in client.list_topics(timeout=30).topics


def kcat(server, *arguments):
    """Run kcat and return what it prints."""
    done = subprocess.run(
        ["kcat", "-b", server.url, "-q", *arguments], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def read_topic(server, name, *, committed=True):
    """Return all messages of a topic, by kcat; only committed ones unless told else.

    kcat tells lengths and raw bytes, so that no byte is mistaken for its own marks.
    """
    level = "read_committed" if committed else "read_uncommitted"
    if not topic_exists(server, name):
        return []
    out = kcat(
        server, "-C", "-t", name, "-o", "beginning", "-e", "-X", f"isolation.level={level}",
        "-X", "check.crcs=true", "-f", "%p %o %T %K %S\\n%k%s\\n%h\\n",
    )  # fmt: skip
    found, at = [], 0
    while at < len(out):
        end = out.index(b"\n", at)
        partition, offset, timestamp, keys, values = (int(n) for n in out[at:end].split())
        at = end + 1
        key = None if keys < 0 else out[at : at + keys]
        at += max(keys, 0)
        value = None if values < 0 else out[at : at + values]
        at += max(values, 0)
        assert out[at : at + 1] == b"\n"
        end = out.index(b"\n", at + 1)
        headers = tuple(_header(text) for text in out[at + 1 : end].split(b",") if text)
        at = end + 1
        own = {name: value for name, value in headers if name != "mainstem-id"}
        found.append(Message(key, value, headers, partition, offset, timestamp, own))
    return found


def _header(text):
    name, _, value = text.partition(b"=")
    return name.decode(), None if value == b"NULL" else value


def exists_group(server, group):
    out = server.tool("kafka-consumer-groups", "--list")
    return group in out.split()


__all__ = ["KafkaException", "Message", "json", "kcat", "make_topic", "read_topic", "topic_exists"]
