"""A putter over a proxy before an emulator, and what must hold of what it put."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
from kinesis_proxy import KinesisProxy
from ksisink_reading import KEYS, Found, found
from mainstem.sinks import Refused
from mainstem_aws.client import connect
from mainstem_broker_kinesis.sink.options import KinesisSinkOptions
from mainstem_broker_kinesis.sink.putting import Putter
from mainstem_broker_kinesis.sink.records import Message, messages
from mainstem_broker_kinesis.testing import Kinesis

#: A row: its key, and its number among all.
Row = tuple[str | None, int]


def identity(number: int) -> bytes:
    return hashlib.md5(b"%d" % number).digest()


class Bench:
    """A stream of a test's own behind a proxy, and what was refused by whoever put into it.

    Args:
        server: the emulator.
        shards: how many the stream begins with.
    """

    def __init__(self, server: Kinesis, shards: int = 2) -> None:
        self.server = server
        self.stream = server.create(f"put-{uuid.uuid4().hex[:10]}", shards)
        self.proxy = KinesisProxy(server.port)
        self.refused: list[tuple[bytes | None, str]] = []

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.close()

    def options(self, **more: Any) -> KinesisSinkOptions:
        given = {"stream": self.stream, "endpoint": self.proxy.url, "attempts": 1, **KEYS}
        return KinesisSinkOptions.model_validate({**given, "format": "raw", **more})

    def putter(self, *, largest: int = 2**20, **more: Any) -> Putter:
        options = self.options(**{"give_up": "20 seconds", **more})
        return Putter(
            connect("kinesis", options, connections=options.requests),
            options,
            lambda message, why: self.refused.append((message.value, why)),
            pack=options.format == "kpl",
            ordered=options.order != "none",
            largest=largest,
            requests=options.requests,
            give_up=options.give_up.total_seconds(),
        )

    def put(self, rows: Iterable[Row], *, pad: int = 0, largest: int = 2**20, **more: Any) -> None:
        """Put rows, whose values are their numbers, to the end."""
        options = self.options(**more)
        putter = self.putter(largest=largest, **more)
        try:
            for message in made(rows, options, pad):
                putter.put(message)
            putter.flush()
        finally:
            putter.close()

    def found(self) -> list[Found]:
        return found(self.server, self.stream)

    def check(self, rows: Sequence[Row]) -> list[Found]:
        """Hold what is in the stream against the rows: each at least once, each key's in their order.

        Of raw records a copy may only come right after its original, of its key; of packed ones copies of
        a whole pack come after it, and without them the order is right.
        """
        there = self.found()
        by_key: dict[str, list[int]] = defaultdict(list)
        for message in there:
            by_key[message.key].append(number(message.value))
        wanted: dict[str, list[int]] = defaultdict(list)
        for key, n in rows:
            wanted[key or identity(n).hex()].append(n)
        assert by_key.keys() == wanted.keys()
        for key, numbers in by_key.items():
            packed = there[0].identity is not None
            seen = list(dict.fromkeys(numbers)) if packed else once(numbers)
            assert seen == wanted[key], f"key {key}: {numbers}"
        return there


def once(numbers: Iterable[int]) -> list[int]:
    """Return numbers with each run of the same one as one."""
    return [n for n, _ in groupby(numbers)]


def number(value: bytes) -> int:
    return int(json.loads(value)["n"])


def value(n: int, pad: int = 0) -> bytes:
    return json.dumps({"n": n, "pad": "x" * pad}).encode()


def made(rows: Iterable[Row], options: KinesisSinkOptions, pad: int = 0) -> list[Message]:
    """Return rows as the sink makes messages of them."""
    given = list(rows)
    batch = pa.record_batch(
        {
            "key": pa.array([None if k is None else k.encode() for k, _ in given], pa.binary()),
            "value": pa.array([value(n, pad) for _, n in given], pa.binary()),
            "_id": pa.array([identity(n) for _, n in given], pa.binary()),
        }
    )
    refused = Refused()
    out = list(messages(batch, options, refused))
    assert not list(refused.take())
    return out
