"""Writes a batch by Spark's own Kafka writer: at least once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem import PipelineError, failpoint
from mainstem.sinks import write_by_relation

from mainstem_broker_kafka.connection import spark_options
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.rows import ID_HEADER, by_version, messages
from mainstem_broker_kafka.sink.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The memory of a client in Java, in bytes, if nobody says else.
_MEMORY = 32 * 2**20
_HASH = "CASE WHEN _reason IS NOT NULL THEN xxhash64(_id, key, value, _reason) END"
_REFUSED = ("count(_reason) AS rows", f"bit_xor({_HASH}) AS hash")


def write(
    frame: DataFrame, options: KafkaSinkOptions, topics: Mapping[str, Topic]
) -> DataFrame | None:
    """Write a batch; return the rows that were refused.

    Raises:
        PipelineError: the rows that were refused are others when the batch is evaluated once more.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    rows = by_version(messages(frame, options, topics, timed=False))
    columns = ["key", "value", f"{_headers(frame)} AS headers"]
    if options.topic_from is not None:
        columns.append("_topic AS topic")
    if options.partition_from is not None:
        columns.append("_partition AS partition")
    largest = max((topic.max_bytes for topic in topics.values()), default=0)
    settings = {
        # The checks above are stricter than the client's, which is to refuse nothing that they let pass.
        "kafka.max.request.size": str(max(largest + 1024, 1_048_576)),
        # A message that does not fit into the client's memory is refused too.
        "kafka.buffer.memory": str(max(_MEMORY, 2 * largest)),
        "kafka.compression.type": options.compression,
        **spark_options(options),
        "includeHeaders": "true",
    }
    if options.topic_from is None and options.topic is not None:
        settings["topic"] = options.topic
    refused = Observation()
    good = rows.observe(refused, *map(F.expr, _REFUSED)).where("_reason IS NULL")
    failpoint("kafka.before-write")
    write_by_relation(good.selectExpr(*columns), "kafka", settings)
    failpoint("kafka.after-write")
    found = refused.get
    if not found["rows"]:
        return None
    # Nearly no batch has any, so those are worth a second look, and not each batch a copy.
    bad = rows.where("_reason IS NOT NULL").localCheckpoint(eager=True)
    again = bad.selectExpr(*_REFUSED).first()
    if again is None or again.asDict() != found:
        raise PipelineError(
            f"{found['rows']} rows were refused, and others when the batch was evaluated once more: a "
            "step above gives other rows each time. Let it depend on the rows alone, not on chance or "
            "the time of day."
        )
    return bad.selectExpr("_reason AS reason", "value AS payload", "_id")


def _headers(frame: DataFrame) -> str:
    """Return SQL for a message's headers, its identity among them, as Spark's writer takes them."""
    mark = f"named_struct('key', '{ID_HEADER}', 'value', CAST(lower(hex(_id)) AS BINARY))"
    own = f"CASE WHEN _id IS NOT NULL THEN array({mark}) END"
    if "headers" not in (name.lower() for name in frame.columns):
        return own
    entries = "map_entries(headers)"
    others = f"filter({entries}, entry -> entry.key != '{ID_HEADER}')"
    others = f"IF(map_contains_key(headers, '{ID_HEADER}'), {others}, {entries})"
    given = f"coalesce(concat({others}, {own}), {entries})"
    return f"CASE WHEN headers IS NULL OR size(headers) = 0 THEN {own} ELSE {given} END"
