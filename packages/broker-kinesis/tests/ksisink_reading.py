"""What a reader of a stream finds: its records taken apart, in the order of their shards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mainstem_broker_kinesis.aggregation import from_tags, is_aggregated, unpacked
from mainstem_broker_kinesis.testing import CREDENTIALS, Kinesis, home, node

#: Options of a connection to an emulator, which takes any credentials.
KEYS = {
    "region": CREDENTIALS["AWS_DEFAULT_REGION"],
    "access_key": CREDENTIALS["AWS_ACCESS_KEY_ID"],
    "secret_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
}


class Found(NamedTuple):
    """A message as a reader finds it."""

    shard: str
    key: str
    value: bytes
    identity: bytes | None = None
    headers: dict[str, bytes | None] | None = None


def found(server: Kinesis, stream: str) -> list[Found]:
    """Return all messages of a stream, by shard, packed ones taken apart."""
    return list(_found(server, stream))


def _found(server: Kinesis, stream: str) -> Iterator[Found]:
    for shard, records in server.records(stream).items():
        for record in records:
            data: bytes = record["Data"]
            if not is_aggregated(data):
                yield Found(shard, record["PartitionKey"], data)
                continue
            for message in unpacked(data):
                identity, headers = from_tags(message.tags)
                yield Found(shard, message.key, message.data, identity, dict(headers))


def read_by_aws(server: Kinesis, stream: str) -> list[dict[str, Any]]:
    """Return all messages as AWS's own library for Node takes them apart, without anything of ours.

    Each has `shard`, `key`, `hashKey` (or None), `value` in bytes and `tags` (name to text).
    """
    script = Path(__file__).with_name("ksisink_reader.js")
    done = subprocess.run(
        [node(), str(script), server.url, stream, str(home() / "node_modules")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    messages: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    for message in messages:
        message["value"] = bytes.fromhex(message["value"])
    return messages
