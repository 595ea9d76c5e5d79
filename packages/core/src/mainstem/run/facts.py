"""What is known of a run while it goes on: the same facts for the live table and as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from mainstem.event_time import from_micros
from mainstem.plan.model import Plan, Query
from mainstem.run.counting import LATEST, WITHOUT_TIME, counted, timed_node


def batch_facts(
    plan: Plan, query: Query, progress: Any, counts: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return the facts of one finished batch.

    Rows are counts, times ISO 8601 in UTC, durations seconds. `nodes` has `rows` (of the main
    output) and `rejected` for each node that counted, `latest` the latest event time of the batch's rows
    at each node with a watermark.
    """
    nodes: dict[str, dict[str, int]] = {}
    for name, row in (progress.observedMetrics or {}).items():
        found = nodes.setdefault(name.partition("__")[0], {})
        for key, value in row.asDict().items():
            if key != LATEST and (value or key != WITHOUT_TIME):
                found[key] = found.get(key, 0) + int(value or 0)
    nodes |= {name: dict(found) for name, found in counts.items() if name not in query.sinks}
    nodes = counted(plan, query).complete(nodes)
    for sink in query.sinks:  # what a sink was given is what came out of the nodes above it
        given = [nodes.get(s.node, {}).get(s.output or "rows", 0) for s in plan.nodes[sink].streams]
        nodes[sink] = {"rows": sum(given), **counts.get(sink, {})}
    latest: dict[str, datetime] = {}
    for _, node, at in timed(progress.observedMetrics or {}):
        if at is not None:
            latest[node] = max(at, latest.get(node, at))
    seconds = (progress.batchDuration or 0) / 1000
    rows_in = sum(nodes.get(name, {}).get("rows", 0) for name in query.reads)
    state = progress.stateOperators or []
    watermark = (progress.eventTime or {}).get("watermark")
    return {
        "event": "batch",
        "pipeline": plan.pipeline,
        "query": query.name,
        "batch": progress.batchId,
        "at": progress.timestamp,
        "seconds": seconds,
        "rows_in": rows_in,
        "rows_per_second": round(rows_in / seconds, 1) if seconds else 0.0,
        "watermark": None
        if watermark is None or watermark.startswith("1970-01-01T00:00:00")
        else watermark,
        "latest": {node: at.isoformat() for node, at in latest.items()},
        "state_rows": sum(s.numRowsTotal for s in state),
        "late_rows": sum(s.numRowsDroppedByWatermark for s in state),
        "nodes": {name: nodes[name] for name in plan.nodes if name in nodes},
    }


def timed(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, datetime | None]]:
    """Yield what a batch had at watermarks: metric, node, and the latest event time of its rows.

    Metrics without rows are left out; the time is None where no row had one.
    """
    for name, row in metrics.items():
        node = timed_node(name)
        told = row if isinstance(row, Mapping) else row.asDict()
        if node and any(value for key, value in told.items() if key != LATEST):
            micros = told[LATEST]
            yield name, node, None if micros is None else from_micros(micros)
