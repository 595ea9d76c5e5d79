"""The queries by hand in PySpark: those that one streaming query of Spark's can hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMAS = {
    "person": "id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item STRING, description STRING, initial BIGINT, reserve BIGINT, ts TIMESTAMP, "
    "expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING",
}
Read = Callable[[str], "DataFrame"]
_CHANNEL = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_SMALL, _MIDDLE, _LARGE = "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"


def _on_auction(read: Read) -> DataFrame:
    auction = read("auction").withColumnRenamed("ts", "auction_at").drop("extra").alias("a")
    auction = auction.where("category = 10")
    bid = read("bid").drop("extra").alias("b")
    within = (
        "b.auction = a.id AND b.ts >= a.auction_at AND b.ts <= a.auction_at + INTERVAL 10 SECONDS"
    )
    return bid.join(auction, F.expr(within))


def _q3(read: Read) -> DataFrame:
    auction = read("auction").where("category = 10").select("id", "seller")
    person = read("person").where("state IN ('OR', 'ID', 'CA')")
    person = person.selectExpr("id AS person", "name", "city", "state")
    return auction.join(person, F.expr("seller = person"))


def _q5(read: Read) -> DataFrame:
    counted = read("bid").groupBy("auction", F.window("ts", "10 seconds", "2 seconds")).count()
    best = counted.groupBy(F.window(F.window_time("window"), "2 seconds")).agg(
        F.max("count").alias("bids"), F.collect_list(F.struct("auction", "count")).alias("all")
    )
    each = best.selectExpr(
        "window.end AS window_end", "bids", "explode(filter(all, x -> x.count = bids)) AS one"
    )
    return each.selectExpr("window_end", "bids", "one.auction")


def _q7(read: Read) -> DataFrame:
    row = F.struct("auction", "bidder", "price", "ts", "extra")
    best = (
        read("bid")
        .groupBy(F.window("ts", "10 seconds"))
        .agg(F.max("price").alias("most"), F.collect_list(row).alias("all"))
    )
    return best.selectExpr("inline(filter(all, x -> x.price = most))")


def _q8(read: Read) -> DataFrame:
    since = "timestamp_seconds(unix_seconds(ts) div 10 * 10)"
    person = read("person").selectExpr("id", "name", "ts AS came", f"{since} AS since")
    auction = read("auction").selectExpr("seller", "ts AS sold", f"{since} AS begun")
    within = (
        "id = seller AND since = begun AND sold >= came - INTERVAL 10 SECONDS "
        "AND sold <= came + INTERVAL 10 SECONDS"
    )
    return person.join(auction, F.expr(within), "left_semi")


def _q17(read: Read) -> DataFrame:
    counted = {"bids": "count(*)"} | {
        name: f"count(*) FILTER (WHERE {where})"
        for name, where in (("small", _SMALL), ("middle", _MIDDLE), ("large", _LARGE))
    }
    totals = {
        "least": "min(price)",
        "most": "max(price)",
        "mean": "avg(price)",
        "total": "sum(price)",
    }
    columns = [F.expr(text).alias(name) for name, text in (counted | totals).items()]
    return read("bid").groupBy("auction", F.window("ts", "1 day")).agg(*columns)


#: By query its frame; those with False give all totals that a batch has changed.
BY_HAND: dict[str, tuple[Callable[[Read], DataFrame], bool]] = {
    "q0": (lambda read: read("bid"), True),
    "q1": (
        lambda read: read("bid").selectExpr(
            "auction", "bidder", "0.908 * price AS price", "ts", "extra"
        ),
        True,
    ),
    "q2": (lambda read: read("bid").where("auction % 123 = 0").select("auction", "price"), True),
    "q3": (_q3, True),
    "q5": (_q5, True),
    "q7": (_q7, True),
    "q8": (_q8, True),
    "q10": (
        lambda read: read("bid").selectExpr(
            "auction",
            "bidder",
            "price",
            "ts",
            "extra",
            "date_format(ts, 'yyyy-MM-dd') AS day",
            "date_format(ts, 'HH-mm') AS minute",
        ),
        True,
    ),
    "q11": (
        lambda read: read("bid").groupBy("bidder", F.session_window("ts", "1 second")).count(),
        True,
    ),
    "q12": (
        lambda read: (
            read("bid")
            .select("bidder", F.current_timestamp().alias("processed"))
            .groupBy("bidder", F.window("processed", "10 seconds"))
            .count()
        ),
        False,
    ),
    "q13": (
        lambda read: (
            read("bid")
            .select("auction", "bidder", "price", "ts")
            .join(read("side"), F.expr("auction % 10000 = key"))
            .drop("key")
        ),
        True,
    ),
    "q14": (
        lambda read: (
            read("bid")
            .where("0.908 * price > 1000000 AND 0.908 * price < 50000000")
            .selectExpr(
                "auction",
                "bidder",
                "0.908 * price AS price",
                "CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night' "
                "ELSE 'other' END AS time_of_day",
                "ts",
                "extra",
                "length(extra) - length(replace(extra, 'c', '')) AS cs",
            )
        ),
        True,
    ),
    "q17": (_q17, False),
    "q18": (
        lambda read: (
            read("bid")
            .groupBy("bidder", "auction")
            .agg(F.max_by(F.struct("price", "channel", "url", "ts", "extra"), "ts").alias("last"))
            .select("bidder", "auction", "last.*")
        ),
        False,
    ),
    "q20": (_on_auction, True),
    "q21": (
        lambda read: (
            read("bid")
            .where(
                f"{_CHANNEL} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')"
            )
            .selectExpr(
                "auction",
                "bidder",
                "price",
                "channel",
                "CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' "
                f"WHEN 'baidu' THEN '3' ELSE {_CHANNEL} END AS channel_id",
            )
        ),
        True,
    ),
    "q22": (
        lambda read: read("bid").selectExpr(
            "auction",
            "bidder",
            "price",
            "channel",
            "split(url, '/')[3] AS first",
            "split(url, '/')[4] AS second",
            "split(url, '/')[5] AS third",
        ),
        True,
    ),
}
_TIMED = frozenset(("q5", "q7", "q8", "q11", "q17", "q20"))


def run_by_hand(spark: SparkSession, name: str, events: Path, folder: Path, at_once: int) -> None:
    """Run a query over all events, with Parquet files as its result.

    Args:
        folder: for the result and the checkpoint.
        at_once: files of each kind in a batch.
    """
    make, final = BY_HAND[name]

    def read(table: str) -> DataFrame:
        place = (events / table).as_uri()
        if table == "side":
            return spark.read.parquet(place)
        reader = spark.readStream.name(table).schema(SCHEMAS[table])
        frame = reader.option("maxFilesPerTrigger", at_once).parquet(place)
        return frame.withWatermark("ts", "3 seconds") if name in _TIMED else frame

    frame, out = make(read), folder / "out"
    if final:
        writer = frame.writeStream.format("parquet").outputMode("append")
        if name == "q10":
            writer = writer.partitionBy("day", "minute")
        writer = writer.option("path", out.as_uri())
    else:
        writer = frame.writeStream.outputMode("update").foreachBatch(
            lambda rows, batch: rows.write.parquet((out / str(batch)).as_uri())
        )
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
