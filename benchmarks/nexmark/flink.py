"""The queries in Flink's SQL, and how long Flink takes for them.

This file is run by an interpreter that has PyFlink, with a folder of jars: Flink's reader of Parquet
(`flink-sql-parquet`), and Hadoop's client, which that needs (PySpark brings it).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

_DAY = "DATE_FORMAT(ts, 'yyyy-MM-dd')"
_COUNTED = """
    COUNT(*) AS bids,
    COUNT(*) FILTER (WHERE price < 10000) AS `small`,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS `middle`,
    COUNT(*) FILTER (WHERE price >= 1000000) AS `large`
"""
_DISTINCT = ", ".join(
    f"COUNT(DISTINCT {of}) FILTER (WHERE {where}) AS {prefix}{of}s"
    for of in ("bidder", "auction")
    for prefix, where in (
        ("", "TRUE"),
        ("small_", "price < 10000"),
        ("middle_", "price >= 10000 AND price < 1000000"),
        ("large_", "price >= 1000000"),
    )
)
_CHANNEL = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_OPEN = "auction A JOIN bid B ON A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires"


def _ranked(columns: str, table: str, by: str, order: str, n: int) -> str:
    ranked = f"SELECT {columns}, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS r FROM {table}"
    return f"SELECT * FROM ({ranked}) WHERE r <= {n}"


FLINK = {
    "q0": "SELECT * FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, ts, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": "SELECT A.id, seller, name, city, state FROM auction A JOIN person P ON A.seller = P.id "
    "WHERE category = 10 AND state IN ('OR', 'ID', 'CA')",
    "q4": "SELECT category, AVG(best) FROM (SELECT A.id, category, MAX(price) AS best "
    f"FROM {_OPEN} GROUP BY A.id, category) GROUP BY category",
    "q5": """
        SELECT C.auction, C.bids, C.window_end FROM (
          SELECT auction, COUNT(*) AS bids, window_start, window_end FROM TABLE(
            HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
          GROUP BY auction, window_start, window_end) C
        JOIN (
          SELECT MAX(bids) AS most, window_start, window_end FROM (
            SELECT auction, COUNT(*) AS bids, window_start, window_end FROM TABLE(
              HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end)
          GROUP BY window_start, window_end) M
        ON C.window_start = M.window_start AND C.window_end = M.window_end AND C.bids = M.most
        """,
    "q7": """
        SELECT B.auction, B.price, B.bidder, B.ts, B.extra FROM bid B
        JOIN (SELECT MAX(price) AS most, window_end FROM TABLE(
          TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) M
        ON B.price = M.most AND B.ts >= M.window_end - INTERVAL '10' SECOND AND B.ts < M.window_end
        """,
    "q8": """
        SELECT P.id, P.name, P.window_start FROM (
          SELECT id, name, window_start, window_end FROM TABLE(
            TUMBLE(TABLE person, DESCRIPTOR(ts), INTERVAL '10' SECOND))
          GROUP BY id, name, window_start, window_end) P
        JOIN (SELECT seller, window_start, window_end FROM TABLE(
            TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' SECOND))
          GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end
        """,
    "q9": _ranked(
        "A.id, item, bidder, price, B.ts AS bid_at", _OPEN, "A.id", "price DESC, B.ts ASC", 1
    ),
    "q10": f"SELECT auction, bidder, price, ts, extra, {_DAY} AS `day`, DATE_FORMAT(ts, 'HH-mm') FROM bid",
    "q11": "SELECT bidder, COUNT(*), window_start, window_end FROM TABLE(SESSION(TABLE bid PARTITION BY "
    "bidder, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY bidder, window_start, window_end",
    "q14": """
        SELECT auction, bidder, 0.908 * price AS price,
          CASE WHEN HOUR(ts) BETWEEN 8 AND 18 THEN 'day' WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'night'
          ELSE 'other' END AS time_of_day, ts, extra,
          CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS cs
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
        """,
    "q15": f"SELECT {_DAY} AS `day`, {_COUNTED}, {_DISTINCT} FROM bid GROUP BY {_DAY}",
    "q16": f"SELECT channel, {_DAY} AS `day`, {_COUNTED}, {_DISTINCT} FROM bid GROUP BY channel, {_DAY}",
    "q17": f"SELECT auction, {_DAY} AS `day`, {_COUNTED}, MIN(price), MAX(price), AVG(price), SUM(price) "
    f"FROM bid GROUP BY auction, {_DAY}",
    "q18": _ranked("*", "bid", "bidder, auction", "ts DESC", 1),
    "q19": _ranked("auction, bidder, price, ts, extra", "bid", "auction", "price DESC", 10),
    "q20": "SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.ts, item, description, `initial`, "
    "reserve, A.ts AS auction_at, expires, seller, category FROM bid B JOIN auction A ON B.auction = A.id "
    "WHERE category = 10",
    "q21": f"SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN "
    f"'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL} END FROM bid "
    f"WHERE {_CHANNEL} IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')",
    "q22": "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), "
    "SPLIT_INDEX(url, '/', 5) FROM bid",
}
_TABLES = {
    "person": "id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP(3), extra STRING",
    "auction": "id BIGINT, item STRING, description STRING, `initial` BIGINT, reserve BIGINT, "
    "ts TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP(3), "
    "extra STRING",
}


def seconds_by_flink(python: str, jars: Path, name: str, events: Path) -> float:
    """Return how long Flink takes for a query, less what it takes to start.

    Args:
        python: an interpreter that has PyFlink.
        jars: a folder.
    """
    command = [python, __file__, name, str(events), str(jars)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    told = (line for line in done.stdout.splitlines() if line.startswith("took"))
    return float(next(told).split()[1])


def _main(name: str, events: Path, jars: Path) -> None:
    from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": Path(tempfile.mkdtemp()).as_uri(),
        "state.backend.type": "rocksdb",
        "taskmanager.memory.managed.size": "512m",
        "table.local-time-zone": "UTC",
        "pipeline.jars": ";".join(jar.as_uri() for jar in sorted(jars.glob("*.jar"))),
    }
    for key, value in settings.items():
        env.get_config().set(key, value)
    for table, columns in _TABLES.items():
        env.execute_sql(
            f"CREATE TABLE {table} ({columns}, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH "
            f"('connector' = 'filesystem', 'path' = '{events}/{table}', 'format' = 'parquet', "
            "'parquet.utc-timezone' = 'true')"
        )

    def took(sql: str) -> float:
        began = time.perf_counter()
        env.sql_query(sql).execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
        return time.perf_counter() - began

    nothing = "SELECT id FROM (VALUES (1), (2)) AS t(id)"
    took(nothing)  # which loads classes
    start = took(nothing)
    print("took", took(FLINK[name]) - start, flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
