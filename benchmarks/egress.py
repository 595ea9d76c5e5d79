"""Senders on egress next to a bare client's loop, without Spark: messages of 100 bytes in rows of Arrow.

`redis`: XADD, next to redis-py's pipelines of as many commands as are in flight. `nats`: core NATS, next
to nats-py's `publish` with a flush for as many. Both read the same record batches; ratios are of the
medians of runs in turn. Needs redis-server and nats-server.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pyarrow as pa
from beside import compare
from mainstem.sinks import Refused
from mainstem_broker_nats.sink.nats_sender import NATSSender
from mainstem_broker_nats.sink.options import NATSSinkOptions
from mainstem_broker_nats.testing import NATS
from mainstem_cache_redis.options import RedisOptions
from mainstem_cache_redis.sender import RedisSender
from mainstem_cache_redis.testing import Redis
from mainstem_egress import EgressOptions, Sender
from mainstem_egress.sink import dispatcher_of

_ROWS, _BATCH, _IN_FLIGHT, _RUNS = 100_000, 10_000, 1000, 9


def rows() -> list[pa.RecordBatch]:
    """Return the messages, in batches as Spark gives them."""
    made = []
    for start in range(0, _ROWS, _BATCH):
        numbers = range(start, start + _BATCH)
        columns = {
            "key": pa.array([b"key %d" % (n % 1000) for n in numbers], pa.binary()),
            "value": pa.array([b"%d" % n + b"." * 92 for n in numbers], pa.binary()),
            "_id": pa.array([n.to_bytes(16, "big") for n in numbers], pa.binary()),
        }
        made.append(pa.RecordBatch.from_pydict(columns))
    return made


def by_sender(kind: type[Sender], options: EgressOptions, given: list[pa.RecordBatch]) -> None:
    """Send all by a sender, as a task does."""
    refused = Refused()
    sender = kind(options, "benchmark")
    dispatcher = dispatcher_of(sender, options, lambda *_: None)
    for batch in given:
        for message in sender.messages(batch, refused):
            dispatcher.send(message)
    dispatcher.flush()
    dispatcher.close()
    assert dispatcher.counts.accepted == _ROWS


def by_redis(port: int, given: list[pa.RecordBatch]) -> None:
    """Send all by redis-py."""
    import redis

    with redis.Redis("127.0.0.1", port) as client:
        pipeline = client.pipeline(transaction=False)
        for batch in given:
            for row in batch.to_pylist():
                fields = {"id": row["_id"].hex(), "value": row["value"], "key": row["key"]}
                pipeline.xadd("bare", fields)
                if len(pipeline) >= _IN_FLIGHT:
                    pipeline.execute()
        pipeline.execute()


def by_nats(url: str, given: list[pa.RecordBatch]) -> None:
    """Send all by nats-py."""
    import nats

    async def run() -> None:
        client = await nats.connect(url)
        count = 0
        for batch in given:
            for row in batch.to_pylist():
                await client.publish("bare", row["value"])
                count += 1
                if count % _IN_FLIGHT == 0:
                    await client.flush()
        await client.flush()
        await client.close()

    asyncio.run(run())


def main() -> None:
    """Compare each."""
    given = rows()
    with tempfile.TemporaryDirectory() as place:
        with Redis(Path(place), "appendfsync no") as redis:
            options = RedisOptions(url=redis.url, stream="ours", in_flight=_IN_FLIGHT)  # type: ignore[arg-type]
            compare(
                "redis",
                _ROWS,
                "messages",
                lambda: by_sender(RedisSender, options, given),
                lambda: by_redis(redis.port, given),
                _RUNS,
            )
        with NATS(Path(place)) as nats:
            told = {"servers": nats.url, "subject": "ours", "in_flight": _IN_FLIGHT}
            made = NATSSinkOptions.model_validate(told)
            compare(
                "nats",
                _ROWS,
                "messages",
                lambda: by_sender(NATSSender, made, given),
                lambda: by_nats(nats.url, given),
                _RUNS,
            )


if __name__ == "__main__":
    main()
