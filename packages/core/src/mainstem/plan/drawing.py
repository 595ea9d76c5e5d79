"""Draws a plan for a notebook: HTML that needs nothing else, light or dark as its surroundings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from mainstem.plan.model import Node, Plan, SinkNode

#: In pixels: a node's box, the space between, and a letter's width.
_HEIGHT, _ACROSS, _DOWN, _LETTER = 44, 56, 18, 7.2
_CELL = "text-align: left; vertical-align: top"


def as_html(plan: Plan) -> str:
    """Return the graph as SVG, what the sinks guarantee as a table, and the warnings."""
    parts = [f"<h4>{escape(plan.pipeline)}</h4>", _graph(plan), _guarantees(plan)]
    if plan.warnings:
        parts.append(f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in plan.warnings)}</ul>")
    return "\n".join(parts)


def _guarantees(plan: Plan) -> str:
    head = ("sink", "guarantee", "because", "as long as")
    rows = [
        (
            sink.name,
            str(sink.promise.level),
            "; ".join(sink.promise.reasons),
            "; ".join(sink.promise.assumptions),
        )
        for sink in plan.sinks()
        if not sink.shadow
    ]
    lines = [
        "".join(f'<{cell} style="{_CELL}">{escape(text)}</{cell}>' for text in row)
        for row, cell in ((head, "th"), *((row, "td") for row in rows))
    ]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _graph(plan: Plan) -> str:
    edges = list(_edges(plan))
    columns = _columns(plan.nodes, edges)
    width = max(_wide(node) for node in plan.nodes.values())
    places = {
        name: (column * (width + _ACROSS), row * (_HEIGHT + _DOWN))
        for column, names in enumerate(columns)
        for row, name in enumerate(names)
    }
    across = len(columns) * (width + _ACROSS) - _ACROSS + 2
    down = max(map(len, columns)) * (_HEIGHT + _DOWN) - _DOWN + 2
    head = (
        f'<svg viewBox="-1 -1 {across} {down}" width="{across}" height="{down}" role="img" '
        f'aria-label="the graph of {escape(plan.pipeline)}" font-family="sans-serif" font-size="12" '
        'fill="none" stroke="currentColor" style="max-width: 100%; height: auto">'
    )
    lines = [head]
    for above, output, below, dashed in edges:
        (x, y), (x2, y2) = places[above], places[below]
        start, end, middle = x + width, x2, _HEIGHT / 2
        bend = (end - start) / 2
        told = escape(f"{above}.{output} to {below}" if output else f"{above} to {below}")
        dash = ' stroke-dasharray="4 3"' if dashed or output else ""
        lines.append(
            f'<path d="M{start} {y + middle} C{start + bend} {y + middle} {end - bend} {y2 + middle} '
            f'{end} {y2 + middle}" opacity="0.5"{dash}><title>{told}</title></path>'
        )
    lines += [_box(plan.nodes[name], *place, width) for name, place in places.items()]
    return "".join([*lines, "</svg>"])


def _edges(plan: Plan) -> Iterator[tuple[str, str, str, bool]]:
    """Yield who reads what: node, output, reader, and whether by a relay."""
    for node in plan.nodes.values():
        for stream in node.streams:
            yield stream.node, stream.output, node.name, False
    for relay in plan.relays:
        yield relay.sink, "", relay.source, True


def _columns(
    nodes: Mapping[str, Node], edges: Sequence[tuple[str, str, str, bool]]
) -> list[list[str]]:
    """Return the nodes by how far they are from the sources, each near what it reads."""
    above: dict[str, list[str]] = {name: [] for name in nodes}
    for first, _, second, _ in edges:
        above[second].append(first)
    depth: dict[str, int] = {}

    def depth_of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max(map(depth_of, above[name]), default=-1)
        return depth[name]

    columns: list[list[str]] = [[] for _ in range(1 + max(map(depth_of, nodes)))]
    for name in nodes:
        columns[depth[name]].append(name)
    for before, column in pairwise(columns):
        rows = {name: row for row, name in enumerate(before)}

        def place(name: str, rows: Mapping[str, int] = rows) -> float:
            found = [rows[each] for each in above[name] if each in rows]
            return sum(found) / len(found) if found else len(rows)

        column.sort(key=place)
    return columns


def _wide(node: Node) -> float:
    return 24 + _LETTER * max(len(node.name), len(_told(node)))


def _told(node: Node) -> str:
    return f"{node.word}: {node.promise.level}" if isinstance(node, SinkNode) else node.word


def _box(node: Node, x: float, y: float, width: float) -> str:
    """Return a node: sources and sinks are round, a second line is a state that it keeps."""
    round_ = 6 if node.kind == "operator" else _HEIGHT / 2
    title = "\n".join(
        part
        for part in (
            f"{node.kind} {node.name}: {node.word}",
            str(node.shape or ""),
            "keeps state" if node.state else "",
        )
        if part
    )
    box = f'x="{x}" y="{y}" width="{width}" height="{_HEIGHT}" rx="{round_}"'
    middle = x + width / 2
    state = (
        f'<rect x="{x + 3}" y="{y + 3}" width="{width - 6}" height="{_HEIGHT - 6}" rx="4" opacity="0.5"/>'
        if node.state
        else ""
    )
    return (
        f"<g><title>{escape(title)}</title><rect {box}/>{state}"
        f'<g stroke="none" fill="currentColor" text-anchor="middle">'
        f'<text x="{middle}" y="{y + 19}" font-weight="bold">{escape(node.name)}</text>'
        f'<text x="{middle}" y="{y + 35}" opacity="0.75">{escape(_told(node))}</text></g></g>'
    )
