"""Messages per second into an emulator of Kinesis: the sink's putter, and the whole sink, against boto3.

Goal: the putter at >= 0.9 of a bare loop of PutRecords, 500 records a call, one call at a time, both with
a message a record (`format: raw`) and as many keys as messages. What packing gives (`format: kpl`, few
keys) is shown beside it, in messages. The emulator is kinesalite; it and its clients share the machine.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from job import Job
from mainstem import Batch, messages
from mainstem_aws.client import connect
from mainstem_broker_kinesis.aggregation import packed, to_tags
from mainstem_broker_kinesis.sink.options import KinesisSinkOptions
from mainstem_broker_kinesis.sink.putting import Putter
from mainstem_broker_kinesis.sink.records import Message
from mainstem_broker_kinesis.sink.sink import KinesisSink
from mainstem_broker_kinesis.testing import CREDENTIALS, Kinesalite
from rich.console import Console
from rich.table import Table

MESSAGES = 10_000
KEYS = 100
BODY = bytes(200)
ROUNDS = 5
GOAL = 0.9
STREAM = "bench"
_CALL = 500


def main() -> None:
    """Run the sides in turn and print a table."""
    logging.disable(logging.WARNING)
    place = tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True)
    with place as name, Kinesalite(Path(name, "kinesalite")) as server:
        _compare(server, Path(name))


def _compare(server: Kinesalite, folder: Path) -> None:
    raw, kpl = (_options(server.url, format_) for format_ in ("raw", "kpl"))
    spark = Job(folder / "in", folder / "out", max_files=1).session()
    frame = spark.range(0, MESSAGES, 1, 1).selectExpr(
        "CAST(CAST(id AS STRING) AS BINARY) AS key",
        f"CAST(repeat('x', {len(BODY)}) AS BINARY) AS value",
        "unhex(md5(CAST(id AS STRING))) AS _id",
    )
    frame = frame.localCheckpoint(eager=True)
    sink = KinesisSink(raw)

    def whole() -> None:
        batch = Batch(0, "bench", "bench", "bench", "out", spark, messages(), 1)
        assert sink.write(frame, batch) is None

    sides: dict[str, Callable[[], None]] = {
        "bare loop": lambda: _bare(raw),
        "putter, raw": lambda: _put(raw, MESSAGES),
        "sink, raw": whole,
        f"putter, kpl, {KEYS} keys": lambda: _put(kpl, KEYS),
    }
    table = Table(
        title=f"Putting: {MESSAGES:,} messages of {len(BODY)} bytes, messages/s, and the ratio to bare",
        title_justify="left",
    )
    for column in ("round", *sides, *list(sides)[1:]):
        table.add_column(column, justify="right")
    found = []
    for number in range(ROUNDS + 1):
        rates = [MESSAGES / _timed(side, server) for side in sides.values()]
        if number:  # the first warms up
            found.append((*rates, *(rate / rates[0] for rate in rates[1:])))
            table.add_row(str(number), *_texts(found[-1], len(sides)))
    table.add_section()
    middle = tuple(median(column) for column in zip(*found, strict=True))
    table.add_row("median", *_texts(middle, len(sides)), style="bold")
    console = Console(width=140)
    console.print(table)
    console.print(
        f"goal: putter >= {GOAL} of the bare loop; its median is {middle[len(sides)]:.2f}"
    )
    spark.stop()


def _options(url: str, format_: str) -> KinesisSinkOptions:
    given = {"stream": STREAM, "endpoint": url, "format": format_}
    keys = {
        "region": CREDENTIALS["AWS_DEFAULT_REGION"],
        "access_key": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "secret_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    return KinesisSinkOptions.model_validate({**given, **keys})


def _timed(side: Callable[[], None], server: Kinesalite) -> float:
    """Return how long a side took; all it put must be there, in a stream that was empty."""
    server.create(STREAM, 2)
    began = time.perf_counter()
    side()
    seconds = time.perf_counter() - began
    size = sum(len(r["Data"]) for records in server.records(STREAM).values() for r in records)
    assert size >= MESSAGES * len(BODY), f"{size} bytes came"
    server.call("DeleteStream", StreamName=STREAM)
    while STREAM in server.call("ListStreams")["StreamNames"]:
        time.sleep(0.02)
    return seconds


def _bare(options: KinesisSinkOptions) -> None:
    """Put as one does by hand; nothing fails here, so nothing is retried."""
    client: Any = connect("kinesis", options)
    for start in range(0, MESSAGES, _CALL):
        records = [{"PartitionKey": str(n), "Data": BODY} for n in range(start, start + _CALL)]
        assert not client.put_records(StreamName=STREAM, Records=records)["FailedRecordCount"]


def _put(options: KinesisSinkOptions, keys: int) -> None:
    refused: list[Any] = []
    pack = options.format == "kpl"
    putter = Putter(
        connect("kinesis", options), options, lambda *row: refused.append(row), pack=pack
    )
    for number in range(MESSAGES):
        identity = number.to_bytes(16)
        data = packed(BODY, to_tags(identity, ())) if pack else BODY
        putter.put(Message(identity, BODY, str(number % keys), None, data))
    putter.flush()
    putter.close()
    assert not refused


def _texts(values: tuple[float, ...], sides: int) -> tuple[str, ...]:
    return (*(f"{v:,.0f}" for v in values[:sides]), *(f"{v:.2f}" for v in values[sides:]))


if __name__ == "__main__":
    main()
