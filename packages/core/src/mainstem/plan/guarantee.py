"""Chooses how each sink is written to, and judges what that guarantees end to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from mainstem.catalogue import CATALOGUE
from mainstem.contracts.abilities import Recorded, Typed
from mainstem.contracts.capabilities import Shown
from mainstem.contracts.components import Component, Delivery, Sink, Source
from mainstem.contracts.guarantee import Level, Promise
from mainstem.contracts.options import write_duration
from mainstem.contracts.shapes import Events, Shape
from mainstem.document.model import Document
from mainstem.errors import PluginError
from mainstem.plan import identity
from mainstem.plan.model import Node, SinkNode, ancestors, shape_of
from mainstem.registry import Registry


def choose(
    nodes: Mapping[str, Node],
    document: Document,
    registry: Registry,
    component: Callable[..., Component | None],
    asked: Callable[[Callable[[], Promise], tuple[str, ...], str], Promise | None],
) -> None:
    """Set each sink's delivery: the one it names, else the strongest that the sink offers.

    Only strategies that can be made without options, and whose plugins work, are tried for a sink
    that names none; see `strongest`.
    """
    for sink in nodes.values():
        if not isinstance(sink, SinkNode):
            continue
        written = document.sinks[sink.name].deliver
        shape = shape_of(sink.streams[0], nodes)
        if written is not None:
            made = component(written, "delivery", ("sinks", sink.name, "deliver"))
            if not isinstance(made, Delivery):
                continue
            brings = registry.find("delivery", written.use).distribution
            promise = partial(made.promise, sink.sink, shape)
            if asked(promise, ("sinks", sink.name, "deliver"), brings) is None:
                continue
            sink.delivery, sink.delivery_word = made, written.use
        else:
            sink.delivery_word, sink.delivery = strongest(sink, shape, registry, nodes)
        sink.needs_id = sink.sink.capabilities.needs_id or _needs_id(sink.delivery, shape)


def hold(
    nodes: Mapping[str, Node], asked: Callable[[Callable[[], None], tuple[str, str], str], None]
) -> None:
    """Report sinks that can't hold what they would be given, as far as that is known without Spark."""
    for sink in nodes.values():
        if isinstance(sink, SinkNode) and isinstance(sink.sink, Typed):
            shape = shape_of(sink.streams[0], nodes)
            check = partial(sink.sink.check_types, sink.given(shape), shape)
            asked(check, ("sinks", sink.name), sink.distribution)


def _needs_id(delivery: Delivery, shape: Shape) -> bool:
    return delivery.capabilities.needs_id and isinstance(shape, Events)


def strongest(
    sink: SinkNode, shape: Shape, registry: Registry, nodes: Mapping[str, Node]
) -> tuple[str, Delivery]:
    """Return the strategy, of those that need no options, that promises most for a sink.

    Of those that promise the same, the one that assumes least wins, then `microbatch`, the plainest.
    """
    best: tuple[tuple[bool, bool, int, bool], str, Delivery] | None = None
    identified = all(identity.begins(stream, nodes) for stream in sink.streams)
    for word in registry.named("delivery"):
        try:
            found = registry.component("delivery", word)
            made = found(found.options_model().model_validate({}))
            assert isinstance(made, Delivery)  # noqa: S101
            promise = promised(word, made, sink.sink, shape)
        except Exception:  # noqa: S112
            continue  # not for this sink; one that nobody named and that fails breaks nothing
        if _needs_id(made, shape) and not identified:
            continue
        least = len(promise.assumptions), word != "microbatch"
        rank = (promise.may_lose, promise.may_double, *least)
        if best is None or rank < best[0]:
            best = (rank, word, made)
    if best is None:
        raise PluginError("no delivery strategy is installed; reinstall: pip install mainstem")
    return best[1], best[2]


def judge(
    nodes: Mapping[str, Node],
    document: Document,
    registry: Registry,
    problem: Callable[..., None],
) -> None:
    """Set each sink's promise, and hold it against what the document requires."""
    for sink in nodes.values():
        if not isinstance(sink, SinkNode) or sink.delivery is None:
            continue
        promise = Promise()
        above = ancestors(sink.name, nodes)
        windowed = any(nodes[name].state for name in above)
        for node in nodes.values():
            if node.name in above:
                promise = promise.then(_promise(node, windowed=windowed))
        shape = shape_of(sink.streams[0], nodes)
        delivered = promised(sink.delivery_word, sink.delivery, sink.sink, shape)
        sink.promise = promise.then(_named(sink.name, delivered))
        gates: list[tuple[Level | None, tuple[str, ...]]] = [
            (sink.required, ("sinks", sink.name, "require"))
        ]
        gates += [(Level(document.require) if document.require else None, ("require",))]
        for required, path in gates:
            if required and not sink.promise.meets(required):
                reasons = "; ".join(sink.promise.reasons)
                message = f"sink {sink.name!r} is {sink.promise.level}, not {required}: {reasons}"
                named = document.sinks[sink.name].deliver is not None
                problem(message, *path, hint="" if named else _more(registry))
                break


def _more(registry: Registry) -> str:
    """Return what brings strategies that are not installed; nothing if all are."""
    known = registry.named("delivery")
    brings = {d for (kind, w), d in CATALOGUE.items() if kind == "delivery" and w not in known}
    return (
        f"With another strategy it may be: pip install {' '.join(sorted(brings))}" if brings else ""
    )


def promised(word: str, delivery: Delivery, sink: Sink, shape: Shape) -> Promise:
    """Return what a strategy and a sink promise together.

    Raises:
        OptionError: the strategy is not for this sink.
    """
    promise = delivery.promise(sink, shape)
    facts = sink.capabilities
    promise = promise.then(
        Promise(assumptions=facts.assumptions_by.get(word.rpartition(":")[2], ()))
    )
    if not facts.lossy:
        return promise
    return promise.then(Promise(may_lose=True, reasons=(f"can lose rows: {facts.why}",)))


def shown(sink: SinkNode, nodes: Mapping[str, Node]) -> list[tuple[str, Shown]]:
    """Return what tests have shown of a sink's path: of the sources above it, and of itself."""
    above = ancestors(sink.name, nodes)
    sources = [n for n in nodes.values() if n.name in above and isinstance(n.component, Source)]
    found = [(f"source {node.word}", node.source.capabilities.shown) for node in sources]
    by = sink.sink.capabilities.shown.get(sink.delivery_word.rpartition(":")[2])
    found.append((f"sink {sink.word} by {sink.delivery_word}", by))
    return [(what, shown) for what, shown in dict.fromkeys(found) if shown is not None]


def _promise(node: Node, *, windowed: bool) -> Promise:
    """Return what a node above a sink does to the guarantee."""
    assumptions: list[str] = []
    if node.drops_rejected and "rejected" in node.outputs:
        assumptions.append(f"{node.name} counts and drops the rows it refuses (on_rejected: drop)")
    if node.watermark and windowed:
        delay = write_duration(node.watermark.delay)
        assumptions.append(
            f"no event of {node.name} is more than {delay} late: steps that go by time drop and count "
            "later ones, or give them to their output `late`"
        )
    if isinstance(node.component, Recorded) and node.component.recorded() is None:
        assumptions.append(f"{node.name} is answered alike whenever it asks again (record: false)")
    if not isinstance(node.component, Source):
        return Promise(assumptions=tuple(assumptions))
    facts = node.component.capabilities
    reasons = []
    if facts.lossy:
        reasons.append(f"{node.name} can lose events: {facts.why}")
    if not facts.replayable:
        reasons.append(f"{node.name} can't be read again after a crash: {facts.why}")
    if facts.may_duplicate:
        reasons.append(f"{node.name} can give an event twice: {facts.why}")
    return Promise(
        may_lose=facts.lossy or not facts.replayable,
        may_double=facts.may_duplicate,
        reasons=tuple(reasons),
        assumptions=(*(f"{node.name}: {text}" for text in facts.assumptions), *assumptions),
    )


def _named(name: str, promise: Promise) -> Promise:
    def named(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{name}: {text}" for text in texts)

    return replace(
        promise,
        reasons=named(promise.reasons),
        assumptions=named(promise.assumptions),
        grounds=named(promise.grounds),
    )
