"""Counts the rows of each node as they pass.

Counting costs each row something, and each batch some planning; so rows that pass through steps which
keep every row are counted once. What is counted at a watermark need not be counted again below; another
node whose rows all pass through such a step has the count of the step's outputs together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mainstem.contracts.ddl import quoted
from mainstem.plan.model import Plan, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OUTPUT = "_output"
#: Names what Spark counts of a node's rows at its watermark.
TIMED = "watermark"
#: The count of rows of the main output without an event time; told where there are any.
WITHOUT_TIME = "without_time"
#: Beside the counts at a watermark: the latest event time, in microseconds.
LATEST = "latest"


def counts(frame: DataFrame, outputs: Iterable[str]) -> list[Any]:
    """Return the aggregates that count a frame's rows: `rows` of the main output, and each other."""
    from pyspark.sql import functions as F  # noqa: N812

    if OUTPUT not in frame.columns:
        return [F.count(F.lit(1)).alias("rows")]
    return [
        F.count(F.when(F.col(OUTPUT).isNull(), 1)).alias("rows"),
        *(F.count(F.when(F.col(OUTPUT) == name, 1)).alias(name) for name in outputs),
    ]


def timed_counts(frame: DataFrame, outputs: Iterable[str], time: str) -> list[Any]:
    """Return the aggregates that count a frame's rows at its watermark, as `counts` does and more.

    One observation for all: each of them costs every row a tenth of a microsecond.

    Args:
        time: the column of the event time.
    """
    from pyspark.sql import functions as F  # noqa: N812

    main = f"{OUTPUT} IS NULL AND " if OUTPUT in frame.columns else ""
    return [
        *counts(frame, outputs),
        F.expr(f"count_if({main}{quoted(time)} IS NULL)").alias(WITHOUT_TIME),
        F.expr(f"unix_micros(max({quoted(time)}))").alias(LATEST),
    ]


def timed(plan: Plan, query: Query) -> set[str]:
    """Return the nodes of a query whose rows are counted at their watermark: if anything goes by it.

    That is a step with state, or one below a relay, which carries watermarks.
    """
    used = any(plan.nodes[name].state for name in query.streaming) or any(
        relay.sink in query.sinks and plan.nodes[relay.source].watermark is not None
        for relay in plan.relays
    )
    return {name for name in query.streaming if used and plan.nodes[name].watermark is not None}


@dataclass(frozen=True)
class Counted:
    """Which nodes of a query need not be counted, for others are.

    Attributes:
        by_above: the node above that has the same rows, by node.
        by_below: the step below whose outputs are the node's rows, by node.
    """

    by_above: Mapping[str, str]
    by_below: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        return name in self.by_above or name in self.by_below

    def complete(self, found: Mapping[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """Return counts with those of the nodes that were not counted; what a node adds itself stays."""
        whole = dict(found)
        for above, below in reversed(list(self.by_below.items())):
            if below in whole:
                rows = sum(count for name, count in whole[below].items() if name != WITHOUT_TIME)
                whole[above] = {**found.get(above, {}), "rows": rows}
        for below, above in self.by_above.items():
            if above in whole:
                whole[below] = {**found.get(below, {}), "rows": whole[above]["rows"]}
        return whole


def counted(plan: Plan, query: Query) -> Counted:
    """Return which nodes of a query need not be counted."""
    by_above: dict[str, str] = {}
    by_below: dict[str, str] = {}
    nodes = (*query.streaming, *query.per_batch, *query.sinks)
    known = timed(plan, query)
    for name in (*query.streaming, *query.per_batch):
        node = plan.nodes[name]
        if node.kind != "operator" or not node.operator.capabilities.keeps_rows:
            continue
        if len(node.streams) != 1:
            continue
        above = plan.nodes[node.streams[0].node]
        readers = [n for n in plan.readers(above.name) if n in nodes]
        if readers != [name]:
            continue
        if above.name not in known:
            if not above.outputs:
                by_below[above.name] = name
        elif name not in known and not node.outputs and not node.streams[0].output:
            by_above[name] = above.name
            known.add(name)
    return Counted(by_above, by_below)


def timed_node(metric: str) -> str:
    """Return the node whose rows a metric counts at the watermark; empty if it counts elsewhere."""
    node, _, rest = metric.partition("__")
    return node if rest.startswith(TIMED) else ""
