"""Sums of what the batches of a run told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.plan.model import Plan


class Totals:
    """Sums up a run, by query and node."""

    def __init__(self, plan: Plan) -> None:
        self.queries: dict[str, dict[str, Any]] = {
            query.name: {"batches": 0, "rows_in": 0, "seconds": 0.0, "late_rows": 0}
            for query in plan.queries
        }
        self.nodes: dict[str, dict[str, dict[str, int]]] = {q.name: {} for q in plan.queries}

    def add(self, facts: Mapping[str, Any]) -> None:
        """Add the facts of a batch."""
        query = self.queries[facts["query"]]
        query["batches"] += 1
        for key in ("rows_in", "seconds", "late_rows"):
            query[key] += facts[key]
        for name, counts in facts["nodes"].items():
            found = self.nodes[facts["query"]].setdefault(name, {})
            for key, count in counts.items():
                found[key] = found.get(key, 0) + count

    def summary(self, plan: Plan, seconds: float) -> dict[str, Any]:
        """Return the facts of the whole run."""
        return {
            "event": "summary",
            "pipeline": plan.pipeline,
            "seconds": round(seconds, 3),
            "queries": {
                name: {**query, "seconds": round(query["seconds"], 3), "nodes": self.nodes[name]}
                for name, query in self.queries.items()
            },
        }
