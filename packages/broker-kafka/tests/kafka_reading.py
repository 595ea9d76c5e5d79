"""Pipelines that read Kafka into a folder."""

from __future__ import annotations

from contextlib import contextmanager, suppress

from mainstem import MainstemError
from mainstem.pipeline import Running


def document(pipeline, source, **parts):
    """Write a document that reads messages into the folder `out`."""
    columns = {name: name for name in ("headers", "timestamp", "origin", "partition", "position")}
    columns |= {name: f"CAST({name} AS STRING)" for name in ("key", "value")}
    return pipeline.document(
        sources={"messages": source},
        operators={
            "plain": {
                "use": "select",
                "from": "messages",
                "with": {"columns": columns},
            }
        },
        **{"sinks": {"out": pipeline.sink("out", "plain")}, **parts},
    )


def values(pipeline):
    return [row.get("value") for row in pipeline.rows("out")]


@contextmanager
def running(pipeline):
    """Run a pipeline while the block runs; then finish the batch in hand."""
    run = Running(pipeline.plan(), show_rows=True, fresh=())
    try:
        yield run
    except BaseException:
        with suppress(MainstemError):
            run.stop()
        raise
    run.stop()
