"""For observers: what a pipeline reads and writes, and which columns become which.

A column of an operator is made of what the operator says (`Deriving`), of the columns that its SQL
names, or else of those of its name, if the operator keeps names. One that has none of these is taken to
be made of all that comes in: what is told may be too much.

What a source refuses, has lost, or takes to be too early, is of what its main output is of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mainstem.contracts.abilities import Checked, Dataset, Deriving, Located
from mainstem.contracts.columns import names_all, words_in
from mainstem.contracts.components import Operator
from mainstem.contracts.ddl import Column, unquoted
from mainstem.contracts.shapes import LOST, REJECTED, Inputs, Shape
from mainstem.plan.model import EARLY, Node, Plan, SinkNode, Stream, ancestors, shape_of

#: A column of what a source reads: its stream, and its name.
Origin = tuple[Stream, str]


@dataclass(frozen=True)
class Read:
    """A stream that a source gives."""

    stream: Stream
    datasets: Sequence[Dataset]
    columns: Sequence[Column]


@dataclass(frozen=True)
class Write:
    """What a sink is given.

    Attributes:
        made_of: for each of its columns the columns of what is read that it is made of.
    """

    sink: str
    datasets: Sequence[Dataset]
    columns: Sequence[Column]
    made_of: Mapping[str, Sequence[tuple[Dataset, str]]]


class Lineage:
    """The lineage of a plan, of the document as it is written: relays are none of it.

    Args:
        plan: of which.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[tuple[Stream, str], frozenset[Origin]] = {}

    @cached_property
    def reads(self) -> Sequence[Read]:
        """The streams of sources that somebody reads."""
        live = [sink.name for sink in self._plan.sinks() if not sink.shadow]
        nodes = {name for sink in live for name in (sink, *ancestors(sink, self._plan.written))}
        streams = {self._main(each) for name in nodes for each in self._plan.written[name].streams}
        found = []
        for stream in sorted(streams, key=str):
            node = self._plan.written[stream.node]
            if node.kind == "source":
                columns = _shown(shape_of(stream, self._plan.written))
                found.append(Read(stream, self._datasets(node, stream.output), columns))
        return found

    def _main(self, stream: Stream) -> Stream:
        """Return a source's main stream for an output that is of the same thing."""
        node = self._plan.written[stream.node]
        if node.kind == "source" and stream.output and node.shape is not None:
            names = shape_of(stream, self._plan.written).names
            if stream.output == EARLY or names in (REJECTED.names, LOST.names):
                return Stream(stream.node)
        return stream

    @cached_property
    def writes(self) -> Sequence[Write]:
        """What the sinks are given that the pipeline itself writes."""
        return [self._write(sink) for sink in self._plan.sinks() if not sink.shadow]

    def _write(self, sink: SinkNode) -> Write:
        streams = sink.streams
        columns = _shown(shape_of(streams[0], self._plan.written))
        read = {each.stream: each.datasets for each in self.reads}
        made_of = {}
        for column in columns:
            origins = {
                origin for stream in streams for origin in self._origins(stream, column.name)
            }
            told = {(each, name) for stream, name in origins for each in read[stream]}
            made_of[column.name] = sorted(told)
        return Write(sink.name, self._datasets(sink, ""), columns, made_of)

    def _datasets(self, node: Node, output: str) -> Sequence[Dataset]:
        """Return what a node says that it reads or writes; else the node itself, by its name."""
        if isinstance(node.component, Located) and (found := node.component.datasets(output)):
            return found
        name = ".".join(part for part in (self._plan.pipeline, node.name, output) if part)
        return [Dataset(f"mainstem.{node.word}", name)]

    def _origins(self, stream: Stream, column: str) -> frozenset[Origin]:
        known = self._known.get((stream, column))
        if known is None:
            node = self._plan.written[stream.node]
            inputs = self._inputs(node)
            if node.kind == "source":
                main = self._main(stream)
                columns = _shown(shape_of(main, self._plan.written))
                same = [each.name for each in columns if each.name.lower() == column.lower()]
                if main != stream and stream.output != EARLY:
                    same = [each.name for each in columns]
                known = frozenset((main, name) for name in same)
            else:
                known = frozenset(
                    origin
                    for port, name in _made_of(node, inputs, stream.output, column)
                    for above in node.inputs[port]
                    if shape_of(above, self._plan.written).column(name) is not None
                    for origin in self._origins(above, name)
                )
            self._known[stream, column] = known
        return known

    def _inputs(self, node: Node) -> Inputs[Shape]:
        """Return the shapes at a node's ports; a sink has one."""
        first = {
            port: shape_of(streams[0], self._plan.written) for port, streams in node.inputs.items()
        }
        return node.shapes or Inputs(first)


def _shown(shape: Shape) -> list[Column]:
    return [column for column in shape.columns if not column.name.startswith("_")]


def _made_of(
    node: Node, inputs: Inputs[Shape], output: str, column: str
) -> Iterable[tuple[str, str]]:
    """Return the ports and columns that a column of an output is made of."""
    component, keeps = node.component, True
    everything = [(port, each.name) for port, given in inputs.items() for each in _shown(given)]
    if output and not node.splits(output):
        keeps = node.outputs[output].names != REJECTED.names
    else:
        if isinstance(component, Deriving):
            told = {name.lower(): made for name, made in component.made_of(inputs).items()}
            if column.lower() in told:
                return told[column.lower()]
        if isinstance(component, Checked):
            named = [
                each.text
                for each in component.statements(inputs)
                if each.form == "query" or (each.column or "").lower() == column.lower()
            ]
            if any(map(names_all, named)):
                return everything
            if named:
                words = {unquoted(word).lower() for text in named for word in words_in(text)}
                return [each for each in everything if each[1].lower() in words]
        keeps = isinstance(component, Operator) and component.capabilities.keeps_names
    same = [each for each in everything if each[1].lower() == column.lower()]
    return (same if keeps else []) or everything
