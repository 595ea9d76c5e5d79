"""Cuts the graph into queries at its anchors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mainstem.contracts.shapes import sequenced_by_batch
from mainstem.plan import bootstrap
from mainstem.plan.model import Node, Query, SinkNode, Stream, ancestors, shape_of
from mainstem.relays.components import RelaySink
from mainstem.relays.marking import Marking


def cut(nodes: Mapping[str, Node], problem: Callable[..., None]) -> tuple[Query, ...]:
    """Return the queries, and set each sink's `query`.

    A node's anchor is itself if it is a source, keeps state, or brings streams of different
    anchors together; else it is that of its inputs. All sinks of one anchor share a query. What a
    sink refuses exists only in the batches of its query; so those that read it are part of that one.
    """
    anchors: dict[str, str] = {}
    #: The query of each sink, and of all that reads what one refused; empty for a shadow's.
    bound: dict[str, str] = {}
    groups: dict[str, list[SinkNode]] = {}
    misfits = False
    for name, node in nodes.items():  # sources first
        above = {anchors[stream.node] for stream in node.streams}
        refused = next((stream for stream in node.streams if stream.node in bound), None)
        alone = node.kind == "source" or node.state is not None or len(above) != 1
        anchors[name] = name if alone else above.pop()
        if refused and (misfit := _misfit(node, refused, bound, anchors)):
            problem(misfit[0], *node.path, "from", hint=misfit[1])
            misfits = True
        elif refused:
            bound[name] = bound[refused.node]
        if isinstance(node, SinkNode) and not node.shadow:
            own = node.own_query or anchors[name] == name
            node.query = bound.setdefault(name, name if own else anchors[name])
            groups.setdefault(node.query, []).append(node)
        elif isinstance(node, SinkNode):
            bound[name] = ""
    if misfits:
        return ()
    queries = _in_order(
        tuple(_query(name, anchors[sinks[0].name], sinks, nodes) for name, sinks in groups.items()),
        nodes,
    )
    queries = _loading(queries, nodes)
    _tell_readers(queries, nodes)
    _mark_by_rows(queries, nodes)
    for query in queries:
        _check_modes(query, nodes, problem)
        _check_waiting(query, nodes, problem)
        bootstrap.check(query, nodes, problem)
    _check_repeats(queries, nodes, problem)
    return queries


def _in_order(queries: tuple[Query, ...], nodes: Mapping[str, Node]) -> tuple[Query, ...]:
    """Return queries so that each comes after those whose relays it reads, with the names of these."""
    writes = _writers(queries, nodes)
    above = {
        query.name: frozenset(
            writes[stream]
            for name in query.reads
            if (stream := nodes[name].relayed) is not None and stream in writes
        )
        for query in queries
    }

    def depth(name: str) -> int:
        return max((depth(other) + 1 for other in above[name]), default=0)

    known = sorted(queries, key=lambda query: depth(query.name))
    return tuple(replace(query, above=above[query.name]) for query in known)


def _writers(queries: Iterable[Query], nodes: Mapping[str, Node]) -> dict[Stream, str]:
    """Return the query that writes each relay, by the stream that it takes."""
    return {
        stream: query.name
        for query in queries
        for sink in query.sinks
        if (stream := nodes[sink].relayed) is not None
    }


def _tell_readers(queries: Iterable[Query], nodes: Mapping[str, Node]) -> None:
    """Tell each relay which queries read it: what all of them have read is removed."""
    for node in nodes.values():
        if isinstance(node.component, RelaySink):
            ends = [n.name for n in nodes.values() if n.relayed == node.relayed and not n.inputs]
            node.component.readers = {
                query.name: [read for end in ends for read in bootstrap.reads_of(query, end)]
                for query in queries
                if set(ends) & query.reads.keys()
            }


def _mark_by_rows(queries: Iterable[Query], nodes: Mapping[str, Node]) -> None:
    """Let relays make the watermark of their rows where it is put on a step of batches.

    Spark keeps one only for what it computes as a stream.
    """
    for query in queries:
        for name in query.sinks:
            relay, stream = nodes[name].component, nodes[name].relayed
            if not isinstance(relay, RelaySink) or relay.marking is not None or stream is None:
                continue
            shape = shape_of(stream, nodes)
            time, above = shape.event_time, nodes.get(shape.watermarked)
            if time is not None and above is not None and above.name in query.per_batch:
                relay.marking = Marking(time.column, time.delay, ())


def _loading(queries: Sequence[Query], nodes: Mapping[str, Node]) -> tuple[Query, ...]:
    """Return queries, in order, of which those load all first whose relays feed what is loaded first."""
    writes = _writers(queries, nodes)
    made = {query.name: query for query in queries}
    for query in reversed(queries):
        first = {name for phase in made[query.name].loads for name in phase}
        for stream, name in writes.items():
            ends = [end for end in query.reads if nodes[end].relayed == stream]
            if first & {read for end in ends for read in bootstrap.reads_of(query, end)}:
                made[name] = bootstrap.loading_all(made[name])
    return tuple(made.values())


def _misfit(
    node: Node, refused: Stream, bound: Mapping[str, str], anchors: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return why a node can't read what a sink refused, and what to do; None if it can."""
    query = bound[refused.node]
    if not query:
        return (
            f"{refused} is known to a replay alone, which writes into that sink and no other",
            "Write `on_rejected: drop` for that sink, or let a refused row end the replay.",
        )
    inside = f"{refused} exists only inside the batches of query {query!r}"
    if isinstance(node, SinkNode) and node.shadow:
        return f"{inside}, and a replay does not write what that one writes", "Read another stream."
    for stream in node.streams:
        here = bound.get(stream.node, query) == query
        if not here or anchors[stream.node] != anchors[refused.node]:
            return f"{inside}, and {stream} is not there", f"Give {refused} a sink of its own."
    if node.state is not None:
        return f"{inside}, and state is kept between them", f"Give {refused} a sink of its own."
    return None


def _query(name: str, anchor: str, sinks: list[SinkNode], nodes: Mapping[str, Node]) -> Query:
    above = ancestors(anchor, nodes) | {anchor}
    wanted: set[str] = set()
    for sink in sinks:
        wanted |= ancestors(sink.name, nodes)
    state = nodes[anchor].state
    per_batch = tuple(n for n, node in nodes.items() if n in wanted - above and node.kind != "sink")
    return Query(
        name=name,
        anchor=anchor,
        sinks=tuple(sink.name for sink in sinks),
        streaming=tuple(n for n in nodes if n in above),
        per_batch=per_batch,
        tail=_tail(anchor, per_batch, [sink.name for sink in sinks], nodes),
        reads=reads(anchor, nodes),
        output_mode=state.output_mode if state else "append",
        loads=bootstrap.phases(anchor, nodes),
    )


def _tail(
    anchor: str, per_batch: Collection[str], sinks: Collection[str], nodes: Mapping[str, Node]
) -> str:
    """Return the last node from the anchor down to which nothing branches, and all is row by row.

    What is not may work on batches alone: nobody asks a stateless step to work on streams.
    """
    here = nodes[anchor]
    while here.kind != "sink":  # what a sink refused comes out of each batch
        readers = [
            nodes[name]
            for name in (*per_batch, *sinks)
            if any(stream.node == here.name for stream in nodes[name].streams)
        ]
        if len(readers) != 1 or not readers[0].row_wise or len(readers[0].streams) != 1:
            break
        # A watermark down there is none that state goes by.
        if readers[0].watermark or any(sequenced_by_batch(n.shape) for n in (here, readers[0])):
            break
        here = readers[0]
    return here.name


def reads(name: str, nodes: Mapping[str, Node]) -> dict[str, int]:
    """Return how often each source is read for a node and all that is above it."""
    found: Counter[str] = Counter()

    def count(name: str) -> None:
        if nodes[name].kind == "source":
            found[name] += 1
        for stream in nodes[name].streams:
            count(stream.node)

    count(name)
    return dict(sorted(found.items()))


def _check_modes(query: Query, nodes: Mapping[str, Node], problem: Callable[..., None]) -> None:
    for name in query.streaming:
        state = nodes[name].state
        if state and state.output_mode != "append" and name != query.anchor:
            problem(
                f"emits changes, which {query.anchor!r} can't take in one query: Spark's stateful "
                "steps and unions follow only on final results",
                "operators",
                name,
                hint="Take away `relay: false`, or use `emit: final`.",
            )


def _check_waiting(query: Query, nodes: Mapping[str, Node], problem: Callable[..., None]) -> None:
    """Report steps that wait for the watermark above one that emits changes with each batch."""
    for name in query.streaming:
        state = nodes[name].state
        if state and state.waits and query.output_mode != "append" and name != query.anchor:
            problem(
                f"emits changes with each batch, and {name!r} above gives rows only when the watermark "
                "has passed them: Spark can't tell then which are late",
                "operators",
                query.anchor,
                hint="Take away `relay: false`, so that this is a query of its own; or compute it from "
                f"what {name} reads.",
            )


def _check_repeats(
    queries: tuple[Query, ...], nodes: Mapping[str, Node], problem: Callable[..., None]
) -> None:
    for name, names in repeated(queries, nodes).items():
        node = nodes[name]
        if node.state and not node.operator.capabilities.batch_invariant:
            partial(problem, at_key=True)(
                f"would run in the queries {', '.join(names)}, and its output depends on how the "
                "input falls into batches: the two would disagree",
                "operators",
                name,
                hint="Take away `relay: false`, so that it runs once.",
            )


def repeated(queries: tuple[Query, ...], nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    """Return the nodes that run in more than one query, sources among them, with the queries."""
    where: dict[str, list[str]] = {}
    for query in queries:
        for name in (*query.streaming, *query.per_batch):
            where.setdefault(name, []).append(query.name)
    return {name: where[name] for name in nodes if len(where.get(name, ())) > 1}
