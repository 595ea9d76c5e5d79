"""What each query gives, computed by DuckDB from all events at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

_ON_AUCTION = (
    "auction JOIN bid ON bid.auction = auction.id AND bid.ts BETWEEN auction.ts AND expires"
)
_WINNING = f"""
    SELECT id, seller, expires, price, bid.ts FROM {_ON_AUCTION}
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bid.ts) = 1
"""
_COUNTED = """
    count(*) AS bids,
    count(*) FILTER (WHERE price < 10000) AS small,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
    count(*) FILTER (WHERE price >= 1000000) AS large
"""
_DISTINCT = ", ".join(
    f"count(DISTINCT {of}) FILTER (WHERE {where}) AS {prefix}{of}s"
    for of in ("bidder", "auction")
    for prefix, where in (
        ("", "true"),
        ("small_", "price < 10000"),
        ("middle_", "price >= 10000 AND price < 1000000"),
        ("large_", "price >= 1000000"),
    )
)
_CHANNEL = r"regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_KNOWN = "CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'"


def _window(length: int, time: str = "ts") -> str:
    return f"make_timestamptz((epoch_us({time}) // {length}000000) * {length}000000)"


@dataclass(frozen=True)
class Answer:
    """What a query gives.

    Attributes:
        sql: the rows, over `person`, `auction`, `bid` and `side`.
        key: of a changelog its key, whose last rows are compared; empty for events.
    """

    sql: str
    key: Sequence[str] = ()


ANSWERS = {
    "q0": Answer("SELECT * FROM bid"),
    "q1": Answer("SELECT auction, bidder, 0.908 * price AS price, ts, extra FROM bid"),
    "q2": Answer("SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": Answer(
        "SELECT auction.id, seller, name, city, state FROM auction JOIN person ON seller = person.id "
        "WHERE category = 10 AND state IN ('OR', 'ID', 'CA')",
        ["id"],
    ),
    "q4": Answer(
        "SELECT category, avg(price) AS mean FROM (SELECT auction.id, category, max(price) AS price FROM "
        f"{_ON_AUCTION} GROUP BY ALL) GROUP BY category",
        ["category"],
    ),
    "q5": Answer(
        f"""
        WITH begun AS (SELECT auction, {_window(2)} - to_seconds(2 * n) AS since FROM bid, range(5) AS r(n)),
        counted AS (SELECT auction, since + INTERVAL 10 SECONDS AS window_end, count(*) AS bids FROM begun GROUP BY ALL)
        SELECT auction, window_end, bids FROM counted
        QUALIFY rank() OVER (PARTITION BY window_end ORDER BY bids DESC) = 1
        """
    ),
    "q6": Answer(
        f"""
        SELECT seller, avg(price) OVER last_ten AS mean FROM ({_WINNING})
        WINDOW last_ten AS (PARTITION BY seller ORDER BY expires, id ROWS 9 PRECEDING)
        QUALIFY count(*) OVER last_ten = 10
        """
    ),
    "q7": Answer(
        f"SELECT auction, bidder, price, ts, extra FROM bid "
        f"QUALIFY price = max(price) OVER (PARTITION BY {_window(10)})"
    ),
    "q8": Answer(
        f"SELECT id, name, {_window(10)} AS since FROM person WHERE EXISTS (FROM auction WHERE seller = "
        f"person.id AND {_window(10, 'auction.ts')} = {_window(10, 'person.ts')})"
    ),
    "q9": Answer(
        f"SELECT id, item, bidder, price, bid.ts AS bid_at FROM {_ON_AUCTION} "
        "QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bid.ts) = 1",
        ["id"],
    ),
    "q10": Answer(
        "SELECT auction, bidder, price, ts, extra, strftime(ts, '%H-%M') AS minute FROM bid"
    ),
    "q11": Answer(
        """
        WITH apart AS (SELECT bidder, ts, coalesce(ts > lag(ts) OVER w + INTERVAL 1 SECOND, true) AS first
                       FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY ts)),
        visits AS (SELECT bidder, ts, sum(first::INT) OVER (PARTITION BY bidder ORDER BY ts) AS visit FROM apart)
        SELECT bidder, min(ts) AS window_start, max(ts) + INTERVAL 1 SECOND AS window_end, count(*) AS bids
        FROM visits GROUP BY bidder, visit
        """
    ),
    # Whose windows hang on when it runs; all of them together do not.
    "q12": Answer(
        "SELECT bidder, count(*) AS bids FROM bid GROUP BY bidder", ["bidder", "window_start"]
    ),
    "q13": Answer(
        "SELECT auction, bidder, price, ts, value FROM bid JOIN side ON auction % 10000 = key"
    ),
    "q14": Answer(
        """
        SELECT auction, bidder, 0.908 * price AS price,
          CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night'
          ELSE 'other' END AS time_of_day, ts, extra, len(extra) - len(replace(extra, 'c', '')) AS cs
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
        """
    ),
    "q15": Answer(
        f"SELECT date_trunc('day', ts) AS window_start, {_COUNTED}, {_DISTINCT} FROM bid GROUP BY ALL",
        ["window_start"],
    ),
    "q16": Answer(
        f"SELECT channel, date_trunc('day', ts) AS window_start, {_COUNTED}, {_DISTINCT} FROM bid GROUP BY ALL",
        ["channel", "window_start"],
    ),
    "q17": Answer(
        f"SELECT auction, date_trunc('day', ts) AS window_start, {_COUNTED}, min(price) AS least, "
        "max(price) AS most, avg(price) AS mean, sum(price)::BIGINT AS total FROM bid GROUP BY ALL",
        ["auction", "window_start"],
    ),
    "q18": Answer(
        "FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) = 1",
        ["bidder", "auction"],
    ),
    "q19": Answer(
        "SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, ts) AS rank "
        "FROM (SELECT auction, bidder, price, ts, extra FROM bid) QUALIFY rank <= 10",
        ["auction", "rank"],
    ),
    "q20": Answer(
        "SELECT bid.* EXCLUDE extra, auction.* EXCLUDE (id, ts, extra), auction.ts AS auction_at "
        "FROM bid JOIN auction ON auction = id WHERE category = 10"
    ),
    "q21": Answer(
        f"SELECT auction, bidder, price, channel, {_KNOWN} ELSE {_CHANNEL} END AS channel_id FROM bid "
        f"WHERE {_CHANNEL} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')"
    ),
    "q22": Answer(
        "SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS first, "
        "split_part(url, '/', 5) AS second, split_part(url, '/', 6) AS third FROM bid"
    ),
}


def difference(name: str, events: Path, out: Path) -> list[str]:
    """Return what is wrong with the result of a query: some rows that lack, some that are too many.

    Args:
        events: the folder of the events.
        out: that of the result, Parquet files in folders by batch.
    """
    database = duckdb.connect()
    database.sql("SET TimeZone = 'UTC'")
    for table in ("person", "auction", "bid", "side"):
        database.sql(f"CREATE VIEW {table} AS FROM '{events}/{table}/*.parquet'")
    answer = ANSWERS[name]
    files = [str(file) for file in out.rglob("*.parquet")]
    if not files:
        return ["there is no result"]
    found = f"read_parquet({files}, hive_partitioning = true, hive_types_autocast = false, union_by_name = true)"
    if answer.key:
        last = f"PARTITION BY {', '.join(answer.key)} ORDER BY _commit_version DESC"
        found = (
            f"(SELECT * FROM (FROM {found} WHERE _change_type <> 'update_preimage' "
            f"QUALIFY row_number() OVER ({last}) = 1) WHERE _change_type <> 'delete')"
        )
    if name == "q12":
        found = f"(SELECT bidder, sum(bids)::BIGINT AS bids FROM {found} GROUP BY bidder)"
    expected = database.sql(answer.sql)
    columns = ", ".join(
        _comparable(column, str(kind))
        for column, kind in zip(expected.columns, expected.types, strict=True)
    )
    expected.create_view("expected")
    wrong = []
    for one, other, what in (("expected", found, "lacks"), (found, "expected", "has too many")):
        left = f"SELECT {columns} FROM {one} EXCEPT ALL SELECT {columns} FROM {other}"
        rows = database.sql(left).fetchall()
        if rows:
            wrong.append(f"{what} {len(rows)} rows, such as {rows[0]}")
    return wrong


def _comparable(column: str, kind: str) -> str:
    """Return a column so that what is equal compares equal."""
    if kind.startswith("TIMESTAMP"):
        return f"epoch_us({column})"
    if kind in ("DOUBLE", "FLOAT"):
        return f"round({column}::DOUBLE, 3)"
    return f"{column}::{kind}" if kind.startswith(("DECIMAL", "BIGINT", "HUGEINT")) else column
