"""Connects the nodes of a document by their references, and puts them in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mainstem.document.model import Document, From
from mainstem.document.reading import Path_
from mainstem.errors import nearest
from mainstem.plan.model import Node, Stream


def connect(
    nodes: Mapping[str, Node],
    document: Document,
    names: Mapping[str, Sequence[str]],
    problem: Callable[..., None],
) -> dict[str, tuple[Stream, ...]]:
    """Set the inputs of each node, by port; return what those read whose component could not be made.

    Args:
        nodes: those whose component could be made.
        document: what they are made of.
        names: the names of all nodes that are written down, by section.
        problem: is told what is wrong.
    """
    connections = _Connections(names, problem)
    others = {}
    for section, written in (("operators", document.operators), ("sinks", document.sinks)):
        for name, used in written.items():
            node = nodes.get(name)
            ports = list(node.operator.ports) if node and node.kind == "operator" else ["input"]
            inputs = connections.inputs(used.from_, ports, (section, name, "from"), known=node)
            if node is not None:
                node.inputs = inputs
            else:
                others[name] = tuple(stream for streams in inputs.values() for stream in streams)
    return others


class _Connections:
    def __init__(self, names: Mapping[str, Sequence[str]], problem: Callable[..., None]) -> None:
        self._names = {n for s in ("sources", "operators", "sinks") for n in names[s]}
        self._sinks = set(names["sinks"])
        self._problem = problem

    def inputs(
        self, given: From, ports: list[str], path: Path_, known: Node | None
    ) -> dict[str, tuple[Stream, ...]]:
        """Return what each port reads; `known` is the node, if its ports are known."""
        if not isinstance(given, dict):
            if len(ports) != 1 and known:
                wanted = ", ".join(f"{port}: NAME" for port in ports)
                self._problem(f"has {len(ports)} ports; expected {{{wanted}}}", *path)
                return {}
            given = {ports[0]: given}
            paths: dict[str, Path_] = {ports[0]: path}
        else:
            paths = {port: (*path, port) for port in given}
            for port in given if known else ():
                if port not in ports:
                    hint = nearest(port, ports) or f"Ports: {', '.join(ports)}."
                    self._problem(f"has no port {port!r}", *path, port, hint=hint, at_key=True)
            for port in ports if known else ():
                if port not in given:
                    self._problem(f"port {port!r} is not connected", *path)
        return {
            port: tuple(
                stream
                for index, text in enumerate(refs if isinstance(refs, list) else [refs])
                if (stream := self._stream(
                    text, (*paths[port], index) if isinstance(refs, list) else paths[port]
                ))
            )
            for port, refs in given.items()
        }  # fmt: skip

    def _stream(self, text: str, path: Path_) -> Stream | None:
        name, _, output = text.partition(".")
        readable = self._names if output else self._names - self._sinks
        if name not in readable:
            why = (
                "is a sink: only its output `rejected` can be read"
                if name in self._names
                else "is no node"
            )
            hint = nearest(name, readable) or f"Nodes: {', '.join(sorted(readable))}."
            self._problem(f"{name!r} {why}", *path, hint=hint)
            return None
        return Stream(name, output)


def order(nodes: Mapping[str, Node], problem: Callable[..., None]) -> tuple[list[str], set[str]]:
    """Return the nodes' names, sources first, and those whose inputs come back to them: problems."""
    found: list[str] = []
    done: set[str] = set()
    cyclic: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in done or name not in nodes:
            return
        if name in above:
            cycle = " -> ".join((*above[above.index(name) :], name))
            problem(f"a cycle: {cycle}", *nodes[name].path, "from")
            done.add(name)
            cyclic.add(name)
            return
        for stream in nodes[name].streams:
            visit(stream.node, (*above, name))
        if name not in done:
            done.add(name)
            found.append(name)

    for name in nodes:
        visit(name, ())
    return found, cyclic
