"""Shows a plan: as text, as a Mermaid graph, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from mainstem.contracts.options import write_duration
from mainstem.contracts.shapes import Changelog, Shape
from mainstem.plan import bootstrap
from mainstem.plan.guarantee import shown
from mainstem.plan.model import Node, Plan, Query, SinkNode, identity_of

#: Raised when a key changes its meaning or goes; new keys leave it as it is.
JSON_VERSION = 1


def as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain values, of a stable form (`version`)."""
    return {
        "version": JSON_VERSION,
        "pipeline": plan.pipeline,
        "nodes": [_node(node) for node in plan.nodes.values()],
        "queries": [
            {
                "name": query.name,
                "anchor": query.anchor,
                "streaming": list(query.streaming),
                "per_batch": list(query.per_batch),
                "sinks": list(query.sinks),
                "reads": dict(query.reads),
                "output_mode": query.output_mode,
                "loads": [list(reads) for reads in query.loads],
            }
            for query in plan.queries
        ],
        "relays": [
            {
                "stream": str(relay.stream),
                "sink": relay.sink,
                "source": relay.source,
                "why": relay.why,
                "keep": None if relay.keep is None else write_duration(relay.keep),
            }
            for relay in plan.relays
        ],
        "guarantees": [
            {
                "sink": sink.name,
                "level": sink.promise.level.value,
                "deliver": sink.delivery_word,
                "reasons": list(sink.promise.reasons),
                "grounds": list(sink.promise.grounds),
                "assumptions": list(sink.promise.assumptions),
                "shown": [
                    {"what": what, "level": found.level.value, "by": found.by}
                    for what, found in shown(sink, plan.written)
                ],
            }
            for sink in _live(plan)
        ],
        "observers": [
            {"name": name, "use": plan.document.observers[name].use} for name in plan.observers
        ],
        "warnings": list(plan.warnings),
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "kind": node.kind,
        "use": node.word,
        "distribution": node.distribution,
        "from": {port: [str(s) for s in streams] for port, streams in node.inputs.items()},
        "shape": _shape(node.shape) if node.shape else None,
        "outputs": {name: _shape(shape) for name, shape in node.outputs.items()},
        "watermark": {
            "column": node.watermark.column,
            "delay": write_duration(node.watermark.delay),
            "idle_after": write_duration(idle) if (idle := _idle_after(node)) else None,
            "ahead": write_duration(node.ahead) if node.ahead is not None else None,
            "by": list(node.partitions.by) if node.partitions else [],
        }
        if node.watermark
        else None,
        "state": {
            "version": node.state.version,
            "grows": node.state.grows,
            "holds": write_duration(node.state.holds),
            "kept": node.state.kept,
        }
        if node.state
        else None,
        "identity": list(node.identity),
        "makes_id": node.makes_id,
    }


def _shape(shape: Shape) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": shape.kind,
        "columns": [
            {"name": c.name, "type": c.type, "nullable": c.nullable} for c in shape.columns
        ],
    }
    if isinstance(shape, Changelog):
        found |= {
            "key": list(shape.key),
            "sequence": shape.sequence or "batch id",
            "preimages": shape.preimages,
        }
    return found


def as_text(plan: Plan) -> str:
    """Return the plan as text for people."""
    return "\n".join(_text(plan)) + "\n"


def _text(plan: Plan) -> Iterator[str]:
    yield f"pipeline {plan.pipeline}"
    for query in plan.queries:
        yield ""
        yield f"query {query.name} (anchor {query.anchor}, {query.output_mode})"
        yield from (f"  {line}" for line in _phases(query))
        yield from (
            f"  {line}" for name in query.streaming for line in _node_lines(plan.nodes[name])
        )
        if query.per_batch or query.sinks != (query.anchor,):
            yield "  in each batch:"
        below = [n for n in (*query.per_batch, *query.sinks) if n != query.anchor]
        yield from (f"    {line}" for name in below for line in _node_lines(plan.nodes[name]))
    if plan.relays:
        yield ""
        yield "relays: what reads them has its rows a trigger later"
        for relay in plan.relays:
            kept = f"; kept for {write_duration(relay.keep)}" if relay.keep is not None else ""
            yield f"  {relay.stream} by {relay.sink} to {relay.source}: {relay.why}{kept}"
    yield ""
    yield "guarantees"
    for sink in _live(plan):
        yield f"  {sink.name}: {sink.promise.level} (deliver: {sink.delivery_word})"
        yield from (f"    because {reason}" for reason in sink.promise.reasons)
        yield from (f"    since {ground}" for ground in sink.promise.grounds)
        yield from (f"    as long as {text}" for text in sink.promise.assumptions)
        for what, found in shown(sink, plan.written):
            yield f"    {what} is shown to be {found.level} by {found.by}"
    shadows = [sink.name for sink in plan.sinks() if sink.shadow]
    if shadows:
        yield ""
        yield f"written by replay alone: {', '.join(shadows)}"
    if plan.observers:
        yield ""
        yield "observers: told of each run"
        yield from (f"  {name}: {plan.document.observers[name].use}" for name in plan.observers)
    shared = plan.shared()
    if shared:
        yield ""
        yield "must lie where the driver and every worker see it (checked when a run starts)"
        yield from (f"  {name}: {path}" for name, path in shared.items())
    if plan.warnings:
        yield ""
        yield "warnings"
        yield from (f"  {warning}" for warning in plan.warnings)


def _live(plan: Plan) -> list[SinkNode]:
    return [sink for sink in plan.sinks() if not sink.shadow]


def _phases(query: Query) -> Iterator[str]:
    """Yield what is loaded before the rest begins; nothing where all begins at once."""
    for number, reads in enumerate(query.loads, 1):
        then = "then loads" if number > 1 else "loads"
        yield f"{number}. {then} {', '.join(reads)}, to the end as of the start"
    if query.loads:
        late = [read for read in bootstrap.reads(query) if read not in sum(query.loads, ())]
        yield f"{len(query.loads) + 1}. then {', '.join(late)} begins, and all go on"


def _node_lines(node: Node) -> Iterator[str]:
    origin = f" <- {', '.join(map(str, node.streams))}" if node.inputs else ""
    yield f"{node.name}: {node.word}{origin}"
    if node.shape is not None:
        yield f"  {node.shape}"
    if isinstance(node.shape, Changelog):
        yield f"  key {', '.join(node.shape.key)}; sequence {node.shape.sequence or 'batch id'}"
    if node.watermark and node.relayed:
        yield f"  watermark of the query above, on {node.watermark.column}"
    elif node.watermark:
        idle = f", idle after {write_duration(after)}" if (after := _idle_after(node)) else ""
        by = f", the lowest by {', '.join(node.partitions.by)}" if node.partitions else ""
        ahead = f", at most {write_duration(node.ahead)} ahead" if node.ahead is not None else ""
        delay = write_duration(node.watermark.delay)
        yield f"  watermark {node.watermark.column} - {delay}{by}{ahead}{idle}"
    if node.state:
        grows = f"grows: {node.state.grows}" if node.state.grows else "bounded"
        yield f"  keeps state ({grows})"
        if node.state.kept:
            yield f"  kept {node.state.kept}"
    if node.makes_id:
        yield f"  makes _id of {', '.join(node.identity)}"
    for name in sorted(node.makes_ids):
        yield f"  makes _id of {', '.join(identity_of(node.outputs[name]))} in {name}"


def _idle_after(node: Node) -> timedelta | None:
    return node.partitions.idle_after if node.partitions else node.idle_after


def as_mermaid(plan: Plan) -> str:
    """Return the plan as a Mermaid flowchart, one box for each query."""
    lines = ["flowchart LR"]
    shown: set[str] = set()
    for query in plan.queries:
        lines.append(f"  subgraph query_{query.name} [query {query.name}]")
        for name in (*query.streaming, *query.per_batch, *query.sinks):
            if name not in shown:
                shown.add(name)
                lines.append(f"    {_box(plan.nodes[name])}")
        lines.append("  end")
    for relay in plan.relays:
        lines.append(f"  {relay.sink} -.-> {relay.source}")
    for node in plan.nodes.values():
        if node.name not in shown:
            continue
        for stream in node.streams:
            label = f"|{stream.output}|" if stream.output else ""
            lines.append(f"  {stream.node} -->{label} {node.name}")
    return "\n".join(lines) + "\n"


def _box(node: Node) -> str:
    if isinstance(node, SinkNode):
        return f'{node.name}[/"{node.name}: {node.word}<br/>{node.promise.level}"/]'
    if node.kind == "source":
        return f'{node.name}(["{node.name}: {node.word}"])'
    if node.state:
        return f'{node.name}[("{node.name}: {node.word}")]'
    return f'{node.name}["{node.name}: {node.word}"]'
