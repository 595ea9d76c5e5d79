"""Rows per second into Kafka: the sink `kafka` by `transactional` against Spark's own writer.

Goal, by the median of rounds in turn: >= 0.6 of Spark's writer, which is at-least-once, on the same
frame of 200,000 rows of 100 bytes. Below that stand what an empty batch and a batch of ten rows cost, by
both of the sink's strategies and by Spark's writer; and Spark's writer with the header that the sink
gives each message.
"""

from __future__ import annotations

import itertools
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from mainstem import Batch, Events
from mainstem.plan.build import make_plan
from mainstem.run.session import start
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.sink import KafkaSink
from mainstem_broker_kafka.testing import Kafka
from rich.console import Console
from rich.table import Table

ROWS = 200_000
ROUNDS = 5
SMALL_ROUNDS = 7
JARS = Path(__file__).parents[1] / ".tools/kafka/connector"
WAYS = ("spark", "spark, same header", "transactional", "microbatch")
#: What both strategies of the sink add to each message, as one would add it by hand.
HEADER = "named_struct('key', 'mainstem-id', 'value', CAST(lower(hex(_id)) AS BINARY))"
SHAPE = Events("key BINARY, value BINARY, headers MAP<STRING, BINARY>")


def session() -> Any:
    """Return a session with the jars of Spark's connector."""
    conf = {
        "spark.ui.enabled": False,
        "spark.jars": ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))),
    }
    document = {
        "pipeline": "bench",
        "trigger": {"available_now": True},
        "spark": {"master": "local[2]", "conf": conf},
        "sources": {"rows": {"use": "rate"}},
        "sinks": {"out": {"use": "console", "from": "rows"}},
    }
    return start(make_plan(document))


def frame_of(spark: Any, count: int) -> Any:
    """Return rows, computed: 5,000 keys, 100 bytes each, in four partitions as of four of a topic."""
    return (
        spark.range(0, count, 1, 4)
        .selectExpr(
            "CAST(concat('key', id % 5000) AS BINARY) AS key",
            "CAST(rpad(CAST(id AS STRING), 100, 'x') AS BINARY) AS value",
            "CAST(NULL AS MAP<STRING, BINARY>) AS headers",
            "unhex(md5(CAST(id AS STRING))) AS _id",
        )
        .localCheckpoint(eager=True)
    )


class Times:
    """Seconds by name."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def time(self, name: str, work: Callable[[], object]) -> None:
        """Time some work; the first time is a warm-up, and left out."""
        began = time.perf_counter()
        work()
        self._seconds.setdefault(name, []).append(time.perf_counter() - began)

    def median(self, name: str) -> float:
        """Return the median, in seconds."""
        return median(self._seconds[name][1:])


def main() -> None:
    """Run all in turn and print two tables."""
    logging.disable(logging.WARNING)
    times = Times()
    with (
        tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as place,
        Kafka(Path(place, "kafka")) as kafka,
    ):
        spark = session()
        numbers = itertools.count()
        given = {"servers": kafka.url, "topic": "bench", "create": {"partitions": 4}}
        sink = KafkaSink(KafkaSinkOptions.model_validate(given))
        sink.prepare(SHAPE.columns, SHAPE)

        def batch() -> Batch:
            number = next(numbers)
            return Batch(number, "bench", "bench", "bench", "out", spark, SHAPE, 1, retried=False)

        def by_spark(frame: Any, *more: str) -> None:
            options = {"kafka.bootstrap.servers": kafka.url, "topic": "bench"}
            options |= {"includeHeaders": "true"} if more else {}
            frame.select("key", "value", *more).write.format("kafka").options(**options).save()

        def with_header(frame: Any) -> None:
            by_spark(frame.selectExpr("key", "value", f"array({HEADER}) AS headers"), "headers")

        def by_all(name: str, frame: Any) -> None:
            times.time(f"{name} spark", lambda: by_spark(frame))
            times.time(f"{name} spark, same header", lambda: with_header(frame))
            times.time(f"{name} transactional", lambda: sink.write_once(frame, batch()))
            times.time(f"{name} microbatch", lambda: sink.write(frame, batch()))

        many, ten, none = (frame_of(spark, count) for count in (ROWS, 10, 0))
        for _ in range(ROUNDS + 1):
            by_all("many", many)
        for _ in range(SMALL_ROUNDS + 1):
            by_all("ten", ten)
            by_all("none", none)
    show(times)


def show(times: Times) -> None:
    """Print what was measured."""
    bare = times.median("many spark")
    table = Table(title=f"{ROWS:,} rows of 100 bytes a batch, 2 writers; medians of {ROUNDS}")
    for column in ("what", "rows/s", "of Spark's writer", "goal"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for way in WAYS:
        goal = ">= 0.6" if way == "transactional" else ""
        seconds = times.median(f"many {way}")
        table.add_row(way, f"{ROWS / seconds:,.0f}", f"{bare / seconds:.2f}", goal)
    Console().print(table)
    small = Table(title=f"small batches, ms; medians of {SMALL_ROUNDS}")
    for column in ("what", "no rows", "ten rows"):
        small.add_column(column, justify="left" if column == "what" else "right")
    for way in WAYS:
        none, ten = (times.median(f"{size} {way}") * 1000 for size in ("none", "ten"))
        small.add_row(way, f"{none:,.0f}", f"{ten:,.0f}")
    Console().print(small)


if __name__ == "__main__":
    main()
