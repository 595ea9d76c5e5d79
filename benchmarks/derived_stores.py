"""Sinks of derived data beside bare clients: Redis, OpenSearch, Delta, Iceberg.

The same rows from the same session's cache, by the sink and by a client in this process that has them in
memory. Redis: pipelines of 500 HSET; OpenSearch: bulk requests of 1,000; Delta and
Iceberg: their library's own writer of one Arrow table.
"""

from __future__ import annotations

import json
import logging
import tempfile
import uuid
from itertools import count
from pathlib import Path
from typing import Any

import opensearchpy
import redis as bare_redis
from beside import compare
from deltalake import write_deltalake
from job import Job
from mainstem import Batch, Changelog, Events
from mainstem.columns import read_columns
from mainstem_cache_redis.options import RedisTableOptions
from mainstem_cache_redis.table import RedisTable
from mainstem_cache_redis.testing import Redis
from mainstem_lake_delta.options import DeltaOptions
from mainstem_lake_delta.sink import DeltaSink
from mainstem_lake_iceberg.options import IcebergOptions
from mainstem_lake_iceberg.sink import IcebergSink
from mainstem_search_opensearch.options import OpenSearchOptions
from mainstem_search_opensearch.sink import OpenSearchSink
from mainstem_search_opensearch.testing import OpenSearch
from pyiceberg.catalog import load_catalog

ROWS, LAKE_ROWS, RUNS = 100_000, 2_000_000, 3
COLUMNS = "id BIGINT, name STRING, city STRING, cents BIGINT, at TIMESTAMP"
CHANGES = "_change_type STRING, _commit_version BIGINT, _commit_timestamp TIMESTAMP"
NUMBERS = count(1)


def frame(spark: Any, rows: int, *, changes: bool) -> Any:
    """Return rows, kept in memory."""
    made = spark.range(0, rows, 1, 4).selectExpr(
        "id",
        "concat('name ', id) AS name",
        "concat('city ', id % 1000) AS city",
        "id * 7 AS cents",
        "timestamp_seconds(1700000000 + id) AS at",
        *(
            ["'insert' AS _change_type", "id AS _commit_version", "now() AS _commit_timestamp"]
            if changes
            else []
        ),
    )
    made = made.persist()
    made.count()
    return made


def batch(spark: Any, shape: Any) -> Batch:
    """Return a batch of a checkpoint of its own."""
    own = str(uuid.uuid4())
    return Batch(0, "bench", "q", own, "sink", spark, shape, next(NUMBERS))


def main() -> None:
    """Run all in turn."""
    logging.disable(logging.WARNING)
    place = tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True)
    with place as name:
        spark = Job(Path(name, "in"), Path(name, "out"), max_files=1).session()
        changes = frame(spark, ROWS, changes=True)
        rows = changes.drop("_change_type", "_commit_version", "_commit_timestamp").toArrow()
        plain = [{k: str(v) for k, v in row.items()} for row in rows.to_pylist()]
        with Redis(Path(name, "redis"), "appendfsync everysec") as server:
            redis(spark, server, changes, plain)
        with OpenSearch(Path(name, "opensearch")) as node:
            opensearch(spark, node, changes, plain)
        lake(spark, Path(name, "lake"))


def redis(spark: Any, server: Redis, changes: Any, plain: list[Any]) -> None:
    """Hashes, compared and set, beside HSET."""
    shape = Changelog(COLUMNS, ["id"], sequence="id")

    def ours() -> None:
        key = f"{next(NUMBERS)}:{{id}}"
        RedisTable(RedisTableOptions(url=server.url, key=key)).write_keyed(
            changes, batch(spark, shape)
        )

    def bare() -> None:
        prefix = next(NUMBERS)
        with bare_redis.Redis("127.0.0.1", server.port) as client:
            for start in range(0, len(plain), 500):
                pipe = client.pipeline(transaction=False)
                for row in plain[start : start + 500]:
                    pipe.hset(f"{prefix}:{row['id']}", mapping=row)
                pipe.execute()

    ours()
    compare("redis_table", ROWS, "rows", ours, bare, RUNS)


def opensearch(spark: Any, node: OpenSearch, changes: Any, plain: list[Any]) -> None:
    """Documents by external versions, beside bulk requests of the vendor's client."""
    shape = Changelog(COLUMNS, ["id"], sequence="id")

    def ours() -> None:
        sink = OpenSearchSink(OpenSearchOptions(url=node.url, index=f"i{next(NUMBERS)}"))
        columns = read_columns(f"{COLUMNS}, {CHANGES}")
        sink.prepare(columns, shape)
        sink.write_keyed(changes, batch(spark, shape))

    def bare() -> None:
        index = f"i{next(NUMBERS)}"
        client = opensearchpy.OpenSearch(node.url)
        client.indices.create(index=index)
        for start in range(0, len(plain), 1_000):
            lines = []
            for row in plain[start : start + 1_000]:
                place = {"_id": row["id"], "version": int(row["id"]), "version_type": "external"}
                lines += [json.dumps({"index": place}), json.dumps(row)]
            found = client.bulk(body="\n".join(lines) + "\n", index=index)
            assert not found["errors"]
        client.close()

    ours()
    compare("opensearch", ROWS, "documents", ours, bare, RUNS)


def lake(spark: Any, folder: Path) -> None:
    """A batch as one commit, beside the library's own writer."""
    events = frame(spark, LAKE_ROWS, changes=False)
    table = events.toArrow()
    shape = Events(COLUMNS)

    def ours() -> None:
        sink = DeltaSink(DeltaOptions(path=str(folder / str(next(NUMBERS)))))
        sink.prepare(read_columns(COLUMNS), shape)
        sink.write_once(events, batch(spark, shape))

    def bare() -> None:
        write_deltalake(str(folder / str(next(NUMBERS))), table)

    ours()
    compare("delta", LAKE_ROWS, "rows", ours, bare, RUNS)

    def iceberg() -> None:
        given = {"path": str(folder / str(next(NUMBERS))), "table": "s.t"}
        sink = IcebergSink(IcebergOptions.model_validate(given))
        sink.prepare(read_columns(COLUMNS), shape)
        sink.write_once(events, batch(spark, shape))

    def bare_iceberg() -> None:
        place = folder / str(next(NUMBERS))
        place.mkdir()
        uri = f"sqlite:///{place}/catalog.db"
        catalog = load_catalog("bench", type="sql", uri=uri, warehouse=f"file://{place}")
        catalog.create_namespace("s")
        catalog.create_table("s.t", table.schema).append(table)

    compare("iceberg", LAKE_ROWS, "rows", iceberg, bare_iceberg, RUNS)


if __name__ == "__main__":
    main()
