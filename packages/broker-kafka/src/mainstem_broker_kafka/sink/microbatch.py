"""Writes a batch by Spark's own Kafka writer: at least once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem import failpoint

from mainstem_broker_kafka.connecting import spark_options
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.rows import ID_HEADER, messages
from mainstem_broker_kafka.sink.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_OLDER = "spark.sql.sources.useV1SourceList"
_REDACTED = "spark.sql.redaction.options.regex"
#: Those of the writer's options that are settings of Kafka's: passwords and keys are among them.
_OURS = r"^kafka\."


def write(
    frame: DataFrame, options: KafkaSinkOptions, topics: Mapping[str, Topic]
) -> DataFrame | None:
    """Write a batch; return the rows that were refused.

    The rows are kept while they are written, so that they are evaluated once, and those that are refused
    are of the same evaluation.
    """
    from pyspark.sql import functions as F  # noqa: N812

    rows = messages(frame, options, topics, timed=False)
    columns = [F.col("key"), F.col("value"), _headers(frame).alias("headers")]
    if options.topic_from is not None:
        columns.append(F.col("_topic").alias("topic"))
    if options.partition_from is not None:
        columns.append(F.col("_partition").alias("partition"))
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
    _conceal(frame.sparkSession)
    rows = rows.persist()
    try:
        good = rows.where("_reason IS NULL").select(*columns)
        failpoint("kafka.before-write")
        good.write.format("kafka").options(**settings).mode("append").save()
        failpoint("kafka.after-write")
        bad = rows.where("_reason IS NOT NULL")
        told = bad.select(F.col("_reason").alias("reason"), F.col("value").alias("payload"), "_id")
        refused = told.localCheckpoint(eager=True)
        return None if refused.isEmpty() else refused
    finally:
        rows.unpersist()


def _conceal(spark: SparkSession) -> None:
    """Keep Kafka's settings out of plans, and so out of Spark's UI and event log.

    Spark's newer interface prints all options of its Kafka writer into the plan. The older one prints
    them too, but hides those whose names or values match this setting. It is not set back: others who
    write by the same session may be at it.
    """
    hidden = str(spark.conf.get(_REDACTED))
    if _OURS not in hidden:
        spark.conf.set(_REDACTED, f"{hidden}|{_OURS}" if hidden else _OURS)
    older = str(spark.conf.get(_OLDER))
    if "kafka" not in (name.strip() for name in older.split(",")):
        spark.conf.set(_OLDER, f"{older},kafka" if older else "kafka")


def _headers(frame: DataFrame) -> Expression:
    """Return a message's headers, its identity among them, as Spark's writer takes them."""
    from pyspark.sql import functions as F  # noqa: N812

    mark = F.struct(F.lit(ID_HEADER).alias("key"), F.col("_mark").cast("binary").alias("value"))
    own = F.when(F.col("_mark").isNotNull(), F.array(mark))
    if "headers" not in (name.lower() for name in frame.columns):
        return own
    entries = F.filter(F.map_entries("headers"), lambda entry: entry["key"] != ID_HEADER)
    return F.coalesce(F.concat(entries, own), own, F.map_entries("headers"))
