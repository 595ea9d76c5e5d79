"""Writes a batch by Spark's own Kafka writer: at least once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mainstem import Batch, failpoint

from mainstem_broker_kafka.connecting import spark_options
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.patience import bounded
from mainstem_broker_kafka.sink.rows import ID_HEADER, messages
from mainstem_broker_kafka.sink.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_OLDER = "spark.sql.sources.useV1SourceList"
#: Seconds for Spark to tell what it has observed, once a batch is written.
_TOLD_WITHIN = 120.0
_REFUSED = "reason STRING, payload BINARY, _id BINARY"


def write(
    frame: DataFrame, batch: Batch, options: KafkaSinkOptions, topics: Mapping[str, Topic]
) -> DataFrame | None:
    """Write a batch; return the rows that were refused.

    The rows are evaluated once, so those that are refused come out of the same job: as a metric that is
    observed on the way, and so by way of the driver.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    rows = messages(frame, options, topics, timed=False)
    refused = F.struct(F.col("_reason").alias("reason"), F.col("value").alias("payload"), "_id")
    bad = F.collect_list(F.when(F.col("_reason").isNotNull(), refused))
    seen = Observation(f"kafka {batch.sink} {batch.id}")
    columns = [F.col("key"), F.col("value"), _headers(frame).alias("headers")]
    if options.topic_from is not None:
        columns.append(F.col("_topic").alias("topic"))
    if options.partition_from is not None:
        columns.append(F.col("_partition").alias("partition"))
    good = rows.observe(seen, bad.alias("refused")).where("_reason IS NULL").select(*columns)
    largest = max(topic.max_bytes for topic in topics.values())
    settings = {
        # The checks above are stricter than the client's, which is to refuse nothing that they let pass.
        "kafka.max.request.size": str(max(largest + 1024, 1_048_576)),
        "kafka.compression.type": options.compression,
        **spark_options(options),
        "includeHeaders": "true",
    }
    if options.topic_from is None and options.topic is not None:
        settings["topic"] = options.topic
    failpoint("kafka.before-write")
    with _observable(frame.sparkSession):
        good.write.format("kafka").options(**settings).mode("append").save()
    failpoint("kafka.after-write")
    found = bounded(lambda: seen.get, _TOLD_WITHIN).get("refused")
    return batch.spark.createDataFrame(found, _REFUSED) if found else None


@contextmanager
def _observable(spark: SparkSession) -> Iterator[None]:
    """Let Spark write to Kafka through its newer interface: what is observed on the way of the older one
    is told to nobody (Spark 4.3).
    """
    before = str(spark.conf.get(_OLDER))
    spark.conf.set(_OLDER, ",".join(n for n in before.split(",") if n.strip() != "kafka"))
    try:
        yield
    finally:
        spark.conf.set(_OLDER, before)


def _headers(frame: DataFrame) -> Expression:
    """Return a message's headers, its identity among them, as Spark's writer takes them."""
    from pyspark.sql import functions as F  # noqa: N812

    mark = F.struct(F.lit(ID_HEADER).alias("key"), F.col("_mark").cast("binary").alias("value"))
    own = F.when(F.col("_mark").isNotNull(), F.array(mark))
    if "headers" not in (name.lower() for name in frame.columns):
        return own
    entries = F.filter(F.map_entries("headers"), lambda entry: entry["key"] != ID_HEADER)
    return F.coalesce(F.concat(entries, own), own, F.map_entries("headers"))
