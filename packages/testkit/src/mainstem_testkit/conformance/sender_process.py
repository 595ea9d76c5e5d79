"""Sends the rows of a file by the sink of a document, as a task does: `DOCUMENT ROWS`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
from mainstem.plan.build import make_plan
from mainstem_egress import EgressSink
from mainstem_egress.sink import send


def main(file: str, rows: str) -> None:
    """Send them, and fail if some are refused."""
    sink = make_plan(Path(file)).nodes["subject"].component
    assert isinstance(sink, EgressSink)
    with pa.memory_map(rows) as source:
        batches = [pa.ipc.open_file(source).get_batch(0)]
        for refused in send(batches, sink.sender(), sink.options, "the standard tests"):
            raise SystemExit(f"refused: {refused.to_pylist()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
