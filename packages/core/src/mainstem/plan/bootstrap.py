"""Which reads of a query are loaded before the others begin.

An operator says which of its ports must be known first (`LoadedFirst`). Each path from a source to the
anchor is a read of its own, so a source that feeds both sides is read twice: one read is loaded first,
the other begins later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from mainstem.contracts.abilities import LoadedFirst
from mainstem.errors import PluginError
from mainstem.plan.model import Node, Plan, Query, ancestors


def phases(anchor: str, nodes: Mapping[str, Node]) -> tuple[tuple[str, ...], ...]:
    """Return the reads that are loaded before the others begin, phase by phase.

    A read that one operator needs first may have to wait for what another one needs: then there are
    more phases than one. Reads that nobody needs first are in none.
    """
    before: dict[str, set[str]] = {}
    _walk(anchor, nodes, Counter(), before)
    first = set().union(*before.values()) if before else set()

    def level(read: str) -> int:
        return max((level(other) + 1 for other in before.get(read, ())), default=0)

    levels: dict[int, list[str]] = {}
    for read in sorted(first):
        levels.setdefault(level(read), []).append(read)
    return tuple(tuple(levels[number]) for number in sorted(levels))


def loading_all(query: Query) -> Query:
    """Return a query that loads all that there is before others begin that need it first."""
    rest = tuple(read for read in reads(query) if read not in sum(query.loads, ()))
    return replace(query, loads=(*query.loads, rest)) if rest else query


def reads(query: Query) -> list[str]:
    """Return the names of all reads of a query."""
    return [read for name in query.reads for read in reads_of(query, name)]


def reads_of(query: Query, source: str) -> list[str]:
    """Return the names of a query's reads of one source."""
    return [read_name(source, number + 1) for number in range(query.reads.get(source, 0))]


def read_name(source: str, number: int) -> str:
    """Return the name of a source's first, second, ... read in a query."""
    return source if number == 1 else f"{source}__{number}"


def before(node: Node, query: Query, plan: Plan) -> bool:
    """Whether all that a node of a query is made of is loaded before other reads begin."""
    above = ancestors(node.name, plan.nodes) | {node.name}
    sources = {name for name in above if plan.nodes[name].kind == "source"}
    first = {read for phase in query.loads for read in phase}
    return bool(first) and all(read in first for name in sources for read in reads_of(query, name))


def check(query: Query, nodes: Mapping[str, Node], problem: Callable[..., None]) -> None:
    """Report what can't be loaded first: ports of a step whose inputs come out of one batch."""
    for name in query.per_batch:
        component = nodes[name].component
        if isinstance(component, LoadedFirst) and _first_ports(nodes[name]):
            problem(
                f"wants {', '.join(sorted(_first_ports(nodes[name])))} loaded before its other inputs, "
                f"and all of them come out of the batches of {query.anchor!r}",
                "operators",
                name,
                "from",
                hint="Only a step that keeps state can have inputs loaded first; give it inputs from "
                "different nodes.",
            )


def _walk(
    name: str, nodes: Mapping[str, Node], seen: Counter[str], before: dict[str, set[str]]
) -> tuple[list[str], list[str]]:
    """Return the reads above a node, and those of them whose rows can make it give a row.

    Notes in `before` which reads wait for which. Reads are numbered in the order in which the runner
    comes to them.
    """
    node = nodes[name]
    if node.kind == "source":
        seen[name] += 1
        read = read_name(name, seen[name])
        return [read], [read]
    ports = _first_ports(node)
    whole: list[str] = []
    first: list[str] = []
    giving: list[str] = []
    for port, streams in node.inputs.items():
        for stream in streams:
            above, told = _walk(stream.node, nodes, seen, before)
            whole += above
            if port in ports:
                first += above
            else:
                giving += told
    for read in giving if first else ():
        before.setdefault(read, set()).update(first)
    return whole, giving


def _first_ports(node: Node) -> frozenset[str]:
    """Return the ports of a node that must be loaded first.

    Raises:
        PluginError: the operator names a port that it does not have.
    """
    if node.kind != "operator" or not isinstance(node.component, LoadedFirst):
        return frozenset()
    ports = node.component.loaded_first()
    unknown = ports - node.operator.ports.keys()
    if unknown:
        raise PluginError(
            f"{node.name}: {node.distribution} wants {', '.join(sorted(unknown))} loaded first, and "
            f"{node.word!r} has no such port. This is a bug of {node.distribution}."
        )
    return ports
