"""Warnings: what is allowed and will hurt later."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.contracts.abilities import Recorded
from mainstem.contracts.guarantee import Promise
from mainstem.plan import bootstrap
from mainstem.plan.guarantee import promised, strongest
from mainstem.plan.model import Plan, Query, SinkNode
from mainstem.plan.queries import repeated
from mainstem.registry import Registry


def warnings(plan: Plan, registry: Registry) -> Iterator[str]:
    """Yield the warnings of a plan, each a sentence that names the node and the way out."""
    for node in plan.written.values():
        for caution in node.component.options.cautions():
            yield f"{node.name}: {plan.scrubber.clean(caution)}"
        if (
            plan.wants(node, "rejected")
            and not node.says_rejected
            and not isinstance(node, SinkNode)
            and not plan.readers(node.name, "rejected")
        ):
            yield (
                f"{node.name}: nobody reads {node.name}.rejected, so the first row it refuses ends "
                "the run. Give it a sink, or write `on_rejected: drop` (or `fail`, if that is meant)."
            )
        if node.state and node.state.grows:
            yield f"{node.name}: its state grows without bound: {node.state.grows}"
        if node.watermark and not node.watermark.delay:
            yield (
                f"{node.name}: a watermark delay of 0 makes every event late that is not the newest; "
                "give the longest disorder you expect."
            )
        if node.watermark and node.ahead is None:
            yield (
                f"{node.name}: event times may be however far ahead, and one wrong one makes all later "
                "rows late for good; give the watermark `ahead`, such as 1 hour."
            )
        if isinstance(node, SinkNode):
            yield from _lower_than_possible(plan, node, registry)
        if node.kind != "sink" and not plan.readers(node.name):
            yield f"{node.name}: nobody reads it, so it does not run."
    for name, queries in repeated(plan.queries, plan.nodes).items():
        if plan.nodes[name].kind == "source" and not plan.nodes[name].relayed:
            yield (
                f"{name}: read once for each of the queries {', '.join(queries)}, each at its own "
                "pace."
            )
        elif isinstance(asks := plan.nodes[name].component, Recorded) and not asks.recorded():
            yield (
                f"{name}: asks in each of the queries {', '.join(queries)}, and can be answered "
                "otherwise: a row can be refused in one and not in the other. With `record: true` it "
                "asks once."
            )
        elif plan.nodes[name].state:
            yield f"{name}: computed, and its state kept, in each of the queries {', '.join(queries)}."
    for query in plan.queries:
        yield from _stalling(plan, query)
        for name, count in query.reads.items():
            if count > 1:
                yield f"{name}: read {count} times in the query {query.name}."


def _stalling(plan: Plan, query: Query) -> Iterator[str]:
    """Yield what may hold back a query's watermark, which is the lowest of all its nodes'."""
    timed = [plan.nodes[name] for name in query.streaming if plan.nodes[name].watermark]
    for node in timed:
        if node.idle_after is not None:
            if len(timed) == 1:
                yield (
                    f"{node.name}: `idle_after` does nothing, for no other node of the query "
                    f"{query.name} has a watermark to go on with."
                )
        elif len(timed) > 1 and plan.document.trigger.every and bootstrap.before(node, query, plan):
            yield (
                f"{node.name}: after each start the query {query.name} waits for its next row, since "
                "no watermark is known of it; give its watermark `idle_after`."
            )


def _lower_than_possible(plan: Plan, sink: SinkNode, registry: Registry) -> Iterator[str]:
    if sink.delivery is None:
        return
    shape = plan.shape(sink.streams[0])
    given = promised(sink.delivery_word, sink.delivery, sink.sink, shape)
    word, best = strongest(sink, shape, registry, plan.nodes)
    offered = promised(word, best, sink.sink, shape)
    if _rank(offered) < _rank(given):
        yield (
            f"{sink.name}: delivered by {sink.delivery_word} ({given.level}), while the sink offers "
            f"{offered.level} by `deliver: {word}`."
        )


def _rank(promise: Promise) -> tuple[bool, bool]:
    return promise.may_lose, promise.may_double
