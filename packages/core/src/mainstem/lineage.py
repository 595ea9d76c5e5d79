"""For observers: what a pipeline reads and writes, and which columns become which.

A column of an operator is made of what the operator says (`Deriving`), of the columns that its SQL
names, or else of those of its name. One that has none of these is taken to be made of all that comes in:
what is told may be too much, and is never too little, as far as operators keep names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mainstem.contracts.abilities import Checked, Dataset, Deriving, Located
from mainstem.contracts.columns import words_in
from mainstem.contracts.ddl import Column, unquoted
from mainstem.contracts.shapes import Shape
from mainstem.plan.model import Node, Plan, SinkNode, Stream, shape_of

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
        wanted = {stream for node in self._plan.written.values() for stream in node.streams}
        found = []
        for stream in sorted(wanted, key=str):
            node = self._plan.written[stream.node]
            if node.kind == "source":
                columns = _shown(shape_of(stream, self._plan.written))
                found.append(Read(stream, self._datasets(node, stream.output), columns))
        return found

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
            told = {(set_, name) for stream, name in origins for set_ in read[stream]}
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
            if node.kind == "source":
                known = frozenset({(stream, column)})
            else:
                known = frozenset(
                    origin
                    for port, name in _made_of(node, stream.output, column)
                    for above in node.inputs[port]
                    if shape_of(above, self._plan.written).column(name) is not None
                    for origin in self._origins(above, name)
                )
            self._known[stream, column] = known
        return known


def _shown(shape: Shape) -> list[Column]:
    return [column for column in shape.columns if not column.name.startswith("_")]


def _made_of(node: Node, output: str, column: str) -> Iterable[tuple[str, str]]:
    """Return the ports and columns that a column of an operator's output is made of."""
    component, inputs = node.component, node.shapes
    everything = [(port, each.name) for port, given in inputs.items() for each in _shown(given)]
    if not output:
        if isinstance(component, Deriving):
            told = {name.lower(): made for name, made in component.made_of(inputs).items()}
            if column.lower() in told:
                return told[column.lower()]
        if isinstance(component, Checked):
            named = list(_named(component, node, column))
            if named:
                words = {unquoted(word).lower() for text in named for word in words_in(text)}
                return [each for each in everything if each[1].lower() in words]
    same = [each for each in everything if each[1].lower() == column.lower()]
    return same or everything


def _named(component: Checked, node: Node, column: str) -> Iterator[str]:
    """Yield the SQL that gives a column."""
    for statement in component.statements(node.shapes):
        given = statement.column or ""
        if statement.form == "query" or given.lower() == column.lower():
            yield statement.text
