"""Decides where the reserved column `_id` is made: where an identity begins, if it is used below."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.plan.model import Node, SinkNode, Stream, identity_of


def place(nodes: Mapping[str, Node], problem: Callable[..., None]) -> None:
    """Set `makes_id` on the nodes where an identity begins that a reader needs.

    Readers are sinks that need ids, and outputs `rejected`, whose rows carry the `_id` of the row
    that was refused (null if it has none).
    """
    for node in nodes.values():
        refused = Stream(node.name, "rejected")
        if any(refused in reader.streams for reader in nodes.values()):
            for start in _starts(refused, nodes):
                if _begins(start, nodes):
                    _make(start, nodes)
        if not (isinstance(node, SinkNode) and node.needs_id):
            continue
        for stream in node.streams:
            for start in _starts(stream, nodes):
                if _begins(start, nodes):
                    _make(start, nodes)
                else:
                    problem(
                        f"needs a row's identity, and the rows of {str(start)!r} have none",
                        "sinks",
                        node.name,
                        "from",
                    )


def begins(stream: Stream, nodes: Mapping[str, Node]) -> bool:
    """Whether the rows of a stream have an identity."""
    return all(_begins(start, nodes) for start in _starts(stream, nodes))


def _begins(start: Stream, nodes: Mapping[str, Node]) -> bool:
    """Whether an identity begins there."""
    node = nodes[start.node]
    return bool(identity_of(node.outputs[start.output]) if start.output else node.identity)


def _make(start: Stream, nodes: Mapping[str, Node]) -> None:
    """Have `_id` made where it begins."""
    node = nodes[start.node]
    if start.output:
        node.makes_ids.add(start.output)
    else:
        node.makes_id = True


def _starts(stream: Stream, nodes: Mapping[str, Node]) -> list[Stream]:
    """Return where the identity of a stream's rows begins, or would if there were one.

    A named output with `_id` has that of the rows that came in, or that a source itself gave; one
    without has none.
    """
    node = nodes[stream.node]
    if stream.output:
        carried = node.splits(stream.output) or node.outputs[stream.output].column("_id")
        if not carried or not _given_id(node, nodes):
            return [stream]
        above = node.streams or (Stream(node.name),)
    elif node.identity or not node.passes_ids:
        return [stream]
    else:
        above = node.streams
    return [start for each in above for start in _starts(each, nodes)]


def _given_id(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether a node has its rows with their `_id`; a sink only where it uses it."""
    if not isinstance(node, SinkNode) or node.needs_id:
        return True
    first = node.streams[0]
    return bool(first.output and nodes[first.node].outputs[first.output].column("_id"))
