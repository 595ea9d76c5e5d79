"""Decides where the reserved column `_id` is made: where an identity begins, if it is used below."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.plan.model import Node, SinkNode, Stream


def place(nodes: Mapping[str, Node], problem: Callable[..., None]) -> None:
    """Set `makes_id` on the nodes where an identity begins that a reader needs.

    Readers are sinks that need ids, and outputs `rejected`, whose rows carry the `_id` of the row
    that was refused (null if it has none).
    """
    for node in nodes.values():
        refused = any(Stream(node.name, "rejected") in reader.streams for reader in nodes.values())
        needs = isinstance(node, SinkNode) and node.needs_id
        if not (refused or needs):
            continue
        for stream in node.streams:
            for start in _starts(stream, nodes):
                if start.identity:
                    start.makes_id = True
                elif needs:
                    problem(
                        f"needs a row's identity, and the rows of {start.name!r} have none",
                        "sinks",
                        node.name,
                        "from",
                    )


def begins(stream: Stream, nodes: Mapping[str, Node]) -> bool:
    """Whether the rows of a stream have an identity."""
    return all(start.identity for start in _starts(stream, nodes))


def _starts(stream: Stream, nodes: Mapping[str, Node]) -> list[Node]:
    """Return the nodes in which the identity of a stream's rows begins."""
    node = nodes[stream.node]
    if stream.output and node.outputs[stream.output].column("_id"):
        return []  # the row brings its own
    if node.identity or not node.passes_ids:
        return [node]
    return [start for above in node.streams for start in _starts(above, nodes)]
