"""Counts the rows of each node as they pass.

Counting costs each row something, and each batch some planning; so a node whose rows all pass through
one step that keeps every row is not counted: its count is that of the step's outputs together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mainstem.plan.model import Plan, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OUTPUT = "_output"
#: Names what Spark counts of a node's rows at its watermark.
TIMED = "watermark"


def counts(frame: DataFrame, outputs: Iterable[str]) -> list[Any]:
    """Return the aggregates that count a frame's rows: `rows` of the main output, and each other."""
    from pyspark.sql import functions as F  # noqa: N812

    if OUTPUT not in frame.columns:
        return [F.count(F.lit(1)).alias("rows")]
    return [
        F.count(F.when(F.col(OUTPUT).isNull(), 1)).alias("rows"),
        *(F.count(F.when(F.col(OUTPUT) == name, 1)).alias(name) for name in outputs),
    ]


def counted_by(plan: Plan, query: Query) -> dict[str, str]:
    """Return, for each node of a query that need not be counted, the step that counts for it."""
    found = {}
    nodes = (*query.streaming, *query.per_batch, *query.sinks)
    for name in (*query.streaming, *query.per_batch):
        node = plan.nodes[name]
        if node.kind != "operator" or not node.operator.capabilities.keeps_rows:
            continue
        if len(node.streams) != 1:
            continue
        above = plan.nodes[node.streams[0].node]
        readers = [n for n in plan.readers(above.name) if n in nodes]
        if readers == [name] and not above.outputs:
            found[above.name] = name
    return found


def complete(
    found: dict[str, dict[str, int]], counted: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Return the counts with those of the nodes that were not counted, from the steps below them."""
    whole = dict(found)
    for above, below in reversed(list(counted.items())):
        if below in whole:
            # What an operator counts itself stays.
            whole[above] = {**found.get(above, {}), "rows": sum(whole[below].values())}
    return whole


def timed_node(metric: str) -> str:
    """Return the node whose rows at the watermark a metric counts; empty if it counts other ones."""
    node, _, rest = metric.partition("__")
    return node if rest.startswith(TIMED) else ""
