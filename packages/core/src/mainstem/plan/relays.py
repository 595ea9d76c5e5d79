"""Puts relays where one query can't hold the graph: the query above ends there, and others go on.

What Spark refuses in one query: a step with state below one that gives totals as they change; totals
that change below any step with state; a window over the times of what a window gives; a second
watermark. And a step with state that stands above several queries would run in each of them.

A relay is cut into the edges from the last step before, so that what it takes is as little as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from mainstem.contracts.shapes import EventTime, sequenced_by_batch
from mainstem.plan.model import Node, Relay, SinkNode, Stream, ancestors, shape_of
from mainstem.relays.components import Relaying, RelaySink, RelaySource, below_relay
from mainstem.relays.marking import Marking


@dataclass(frozen=True, order=True)
class Edge:
    """That a node reads a stream."""

    reader: str
    stream: Stream


def place(
    written: Mapping[str, Node],
    checkpoint: Path,
    problem: Callable[..., None],
) -> tuple[dict[str, Node], tuple[Relay, ...]]:
    """Return the nodes with the ends of relays among them, and the relays.

    Args:
        written: as the document connects them, in order.
        checkpoint: the pipeline's folder.
        problem: is told of names that are taken, and of a relay that is needed and forbidden.
    """
    found = _Cuts(written)
    cuts = found.found
    nodes = {name: copy(node) for name, node in written.items()}
    made: dict[tuple[Stream, bool], Relay] = {}
    refused = False
    for node in written.values():
        if node.state is not None and node.state.tells_late and (above := found.holders(node)):
            refused = True
            problem(
                "can't tell late rows by the watermark of its query, in which "
                f"{', '.join(sorted(above))} holds rows back",
                *node.path,
                hint="Take away `relay: false`: below a relay it can.",
            )
        if node.partitions is not None and node.relay is False:
            refused = True
            problem(
                "the partitions of a watermark are kept by a relay",
                *node.path,
                "watermark",
                "by",
                hint="Take away `relay: false`.",
            )
    for edge, why in cuts.items():
        shape = below_relay(shape_of(edge.stream, written))
        time, reader = shape.event_time, nodes[edge.reader]
        timed = time is not None and reader.watermark is None
        key = (edge.stream, timed)
        if key not in made:
            base = f"{edge.stream.node}_{edge.stream.output}".rstrip("_")
            other = "_untimed" if time is not None and not timed else ""
            keep = written[edge.stream.node].relay_keep
            relay = Relay(edge.stream, why, f"{base}_relay", f"{base}{other}_relayed", keep)
            made[key] = relay
            taken = nodes.get(relay.sink)
            if taken is not None and taken.relayed not in (None, edge.stream):
                refused = True
                problem(
                    f"the relays of {taken.relayed} and {edge.stream} would both be {relay.sink!r}: give "
                    "one of these nodes another name",
                    *written[edge.stream.node].path,
                    at_key=True,
                )
            for name in {relay.sink, relay.source} & written.keys():
                refused = True
                problem(
                    f"the relay of {edge.stream} has the name {name!r} too: give this node another",
                    *written[name].path,
                    at_key=True,
                )
            name = relay.sink
            if name not in nodes:
                end = RelaySink(checkpoint, name, keep, _marking(written[edge.stream.node]))
                sink = SinkNode(name, "sink", "relay", "mainstem", end)
                sink.inputs, sink.relayed = {"input": (edge.stream,)}, edge.stream
                sink.delivery, sink.delivery_word = Relaying(), "relay"
                nodes[name] = sink
            mark = _carried(time) if timed else None
            shape = replace(shape, event_time=mark, watermarked=relay.source if timed else "")
            behind = time.behind if time is not None else timedelta()
            begin = RelaySource(checkpoint, name, shape, timed=timed, behind=behind)
            source = Node(relay.source, "source", "relay", "mainstem", begin, relayed=edge.stream)
            source.shape, source.watermark = shape, mark
            nodes[relay.source] = source
        reader.inputs = {
            port: tuple(
                Stream(made[key].source) if stream == edge.stream else stream for stream in streams
            )
            for port, streams in reader.inputs.items()
        }
    if refused:
        return dict(written), ()
    return _in_order(nodes), tuple(made.values())


def _marking(node: Node) -> Marking | None:
    """Return how a relay makes a node's watermark of the rows; None if it takes the query's."""
    if node.partitions is None or node.watermark is None:
        return None
    time, parts = node.watermark, node.partitions
    return Marking(time.column, time.delay, parts.by, parts.idle_after)


def _carried(time: EventTime | None) -> EventTime:
    """Return the event time of a relay: the watermark comes with the rows, which are ahead of it."""
    assert time is not None  # noqa: S101
    return EventTime(time.column, time.delay * 0, punctual=False, passed=False, ends=time.ends)


def _in_order(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Return nodes in such an order that each comes after those that it reads, and after its relay."""
    ends = {node.relayed: name for name, node in nodes.items() if node.relayed and node.inputs}
    found: dict[str, Node] = {}

    def visit(name: str) -> None:
        node = nodes[name]
        above = [stream.node for stream in node.streams]
        if node.relayed is not None and not node.inputs:
            above.append(ends[node.relayed])
        for other in above:
            if other not in found:
                visit(other)
        found.setdefault(name, node)

    for name in nodes:
        visit(name)
    return found


class _Cuts:
    """Finds the edges that relays are cut into.

    Attributes:
        found: the edges, each with the reason.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        # What a replay alone writes is no part of the queries.
        self._live = [n for n in nodes.values() if not (isinstance(n, SinkNode) and n.shadow)]
        self.found: dict[Edge, str] = {}
        for node in self._live:
            for stream in node.streams:
                above = self._nodes[stream.node]
                if above.relay and not stream.output:
                    why = f"{stream} asks for it (`relay: true`)"
                    if above.step_of:
                        why = f"{above.step_of} might be answered otherwise if it asked again"
                    self.found[Edge(node.name, stream)] = why
                elif above.partitions and not stream.output and self._goes_by_time(node):
                    by = ", ".join(above.partitions.by)
                    why = f"the watermark of {stream} is the lowest by {by}, which is counted there"
                    self.found[Edge(node.name, stream)] = why
        for node in self._live:
            self._needed(node)
        while self._shared():
            pass

    def _goes_by_time(self, node: Node) -> bool:
        """Whether a node keeps state, or one below it does."""
        return any(
            node is each or node.name in ancestors(each.name, self._nodes)
            for each in self._live
            if each.state is not None
        )

    def _cut(self, reader: Node, streams: Collection[Stream], why: str) -> bool:
        """Cut a node's edges, if they may be; whether any was."""
        edges = [Edge(reader.name, stream) for stream in streams]
        new = [
            edge
            for edge in edges
            if edge not in self.found and self._nodes[edge.stream.node].relay is not False
        ]
        self.found |= dict.fromkeys(new, why)
        return bool(new)

    def _needed(self, node: Node) -> None:
        """Cut what Spark can't do in one query."""
        above = {stream: self._holders(node, stream) for stream in node.streams}
        for stream in node.streams if node.state is not None else ():
            if sequenced_by_batch(shape_of(stream, self._nodes)):
                why = f"the changes of {stream} go by their batch's number, which is known below alone"
                self._cut(node, [stream], why)
        held = [stream for stream, names in above.items() if names]
        if not held:
            return
        names = sorted(set().union(*above.values()))
        if node.state is not None and node.state.tells_late:
            why = (
                f"{node.name} tells late rows by the watermark of its query, in which "
                f"{', '.join(names)} would hold rows back"
            )
            self._cut(node, held, why)
        if node.state is not None and node.state.output_mode != "append":
            why = f"{node.name} gives changes, which Spark can't do below {', '.join(names)}"
            self._cut(node, held, why)
        if node.state is None and node.watermark is not None:
            why = f"{node.name} has a watermark of its own, below the state of {', '.join(names)}"
            self._cut(node, held, why)
        for stream, holders in above.items():
            changing = [n for n in sorted(holders) if self._mode(n) != "append"]
            if changing and (node.state is not None or len(self._anchors(node)) > 1):
                why = f"{', '.join(changing)} gives changes, and {node.name} stands below"
                self._cut(node, [stream], why)
            time = shape_of(stream, self._nodes).event_time
            if node.state is not None and node.state.by_time and time is not None and time.passed:
                self._cut(
                    node,
                    [stream],
                    f"{node.name} goes by the time of what {', '.join(sorted(holders))} gives, which "
                    "the watermark has passed",
                )

    def _shared(self) -> bool:
        """Cut where a step with state would run in several queries; whether anything was cut."""
        where: dict[str, set[str]] = {}
        for root, anchor in self._roots():
            for name in self._above(anchor) | {anchor}:
                where.setdefault(name, set()).add(root)
        for name, node in self._nodes.items():
            if node.state is None or len(where.get(name, ())) < 2:
                continue
            why = (
                f"{name} keeps state, and would run in the queries {', '.join(sorted(where[name]))}"
            )
            cut = False
            for reader in self._live:
                own = isinstance(reader, SinkNode) and reader.own_query
                anchored = reader.state is not None or own or len(self._anchors(reader)) > 1
                streams = [s for s in reader.streams if name in self._holders(reader, s)]
                if anchored and streams and self._nodes[streams[0].node].kind != "sink":
                    cut |= self._cut(reader, streams, why)
            if cut:
                return True
        return False

    def _mode(self, name: str) -> str:
        state = self._nodes[name].state
        return state.output_mode if state is not None else "append"

    def holders(self, node: Node) -> set[str]:
        """Return the nearest nodes with state above a node in its query."""
        return set().union(*(self._holders(node, stream) for stream in node.streams))

    def _holders(self, reader: Node, stream: Stream) -> set[str]:
        """Return the nearest nodes with state above an edge, up to where relays are."""
        if Edge(reader.name, stream) in self.found:
            return set()
        node = self._nodes[stream.node]
        if node.state is not None:
            return {node.name}
        return set().union(*(self._holders(node, each) for each in node.streams))

    def _anchors(self, node: Node) -> set[str | Edge]:
        """Return what a node's inputs hang on: nodes, or relays."""
        return {self._anchor(node, stream) for stream in node.streams}

    def _anchor(self, reader: Node, stream: Stream) -> str | Edge:
        edge = Edge(reader.name, stream)
        if edge in self.found:
            return Edge("", stream)
        node = self._nodes[stream.node]
        return self._anchor_of(node)

    def _anchor_of(self, node: Node) -> str | Edge:
        if node.kind == "source" or node.state is not None:
            return node.name
        above = self._anchors(node)
        return above.pop() if len(above) == 1 else node.name

    def _roots(self) -> Iterator[tuple[str, str]]:
        """Yield the queries that there would be: name and anchor; those that hang on relays alone not."""
        for node in self._live:
            if not isinstance(node, SinkNode):
                continue
            anchor = self._anchor_of(node)
            if isinstance(anchor, str):
                yield (node.name if node.own_query else anchor), anchor
        for edge in self.found:
            anchor = self._anchor_of(self._nodes[edge.stream.node])
            if isinstance(anchor, str):
                yield anchor, anchor

    def _above(self, name: str) -> set[str]:
        found: set[str] = set()
        node = self._nodes[name]
        for stream in node.streams:
            if Edge(name, stream) not in self.found:
                found |= {stream.node} | self._above(stream.node)
        return found
