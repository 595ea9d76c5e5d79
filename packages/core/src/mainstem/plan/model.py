"""What a plan consists of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from mainstem.analysis.requests import Analyse
from mainstem.contracts.abilities import StateFacts
from mainstem.contracts.components import Component, Delivery, Operator, Sink, Source, StateStore
from mainstem.contracts.ddl import Column
from mainstem.contracts.guarantee import Level, Promise
from mainstem.contracts.shapes import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    Changelog,
    EventTime,
    Inputs,
    Shape,
)
from mainstem.document.model import Document
from mainstem.document.scrubber import Scrubber
from mainstem.errors import PipelineError, nearest

#: The output of a node with a watermark for rows whose time is too far ahead.
EARLY = "early"


@dataclass(frozen=True, order=True)
class Stream:
    """A node's output: the main one when `output` is empty."""

    node: str
    output: str = ""

    def __str__(self) -> str:
        return f"{self.node}.{self.output}" if self.output else self.node


@dataclass(frozen=True)
class Partitions:
    """That a node's watermark is the lowest of those of its partitions.

    Attributes:
        by: the columns that tell partitions apart.
        idle_after: after how long without a row a partition no longer holds back the others.
    """

    by: tuple[str, ...]
    idle_after: timedelta | None = None


@dataclass
class Node:
    """One node of the graph, with all that is known of it before Spark starts."""

    name: str
    kind: str
    word: str
    distribution: str
    component: Component
    inputs: Mapping[str, tuple[Stream, ...]] = field(default_factory=dict)
    #: What stands at an operator's ports.
    shapes: Inputs[Shape] = field(default_factory=Inputs)
    shape: Shape | None = None
    outputs: Mapping[str, Shape] = field(default_factory=dict)
    watermark: EventTime | None = None
    #: After how long without a row the watermark goes on with those of other nodes; None for never.
    idle_after: timedelta | None = None
    #: What its watermark goes by, if not by all rows alike.
    partitions: Partitions | None = None
    #: How far ahead of the clock a row's event time may be; None for however far.
    ahead: timedelta | None = None
    state: StateFacts | None = None
    drops_rejected: bool = False
    #: Whether the document says itself what becomes of refused rows that nobody reads.
    says_rejected: bool = False
    #: Whether `_id` is made here: the identity begins in this node and somebody below uses it.
    makes_id: bool = False
    #: The named outputs in which it is made for the same reason.
    makes_ids: set[str] = field(default_factory=set)
    #: Whether a relay is to take its rows to those that read them; None where need be.
    relay: bool | None = None
    #: How long it keeps what all have read.
    relay_keep: timedelta | None = None
    #: Of the ends of a relay, the stream whose rows it takes.
    relayed: Stream | None = None
    #: Of a node that is the first step of another (see `Recorded`), that one's name.
    step_of: str = ""

    @property
    def path(self) -> tuple[str, str]:
        """Where the node is in the document."""
        return (f"{self.kind}s", self.step_of or self.name)

    @property
    def source(self) -> Source:
        """The component of a source node."""
        assert isinstance(self.component, Source)  # noqa: S101
        return self.component

    @property
    def operator(self) -> Operator:
        """The component of an operator node."""
        assert isinstance(self.component, Operator)  # noqa: S101
        return self.component

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Every stream that comes in, port by port."""
        return tuple(stream for streams in self.inputs.values() for stream in streams)

    @property
    def row_wise(self) -> bool:
        """Whether rows keep their identity in this node."""
        return self.kind == "operator" and self.operator.capabilities.row_wise

    def splits(self, output: str) -> bool:
        """Whether the rows of a named output have the reserved columns of those they come from."""
        return (
            self.kind == "operator" and self.operator.capabilities.splits and output != "rejected"
        )

    @property
    def passes_ids(self) -> bool:
        """Whether the `_id` of rows is made of that of the rows that come in."""
        return self.row_wise or (self.kind == "operator" and self.operator.capabilities.passes_ids)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of the identity that begins in this node; empty when none does."""
        return identity_of(self.shape)


def identity_of(shape: Shape | None) -> tuple[str, ...]:
    """Return the columns that tell rows of a shape apart; empty when none do."""
    if isinstance(shape, Changelog) and shape.key:
        return (*shape.key, COMMIT_VERSION, CHANGE_TYPE)
    return shape.identity if shape else ()


def ancestors(name: str, nodes: Mapping[str, Node]) -> set[str]:
    """Return every node above a node."""
    found: set[str] = set()
    for stream in nodes[name].streams:
        found |= {stream.node} | ancestors(stream.node, nodes)
    return found


def shape_of(stream: Stream, nodes: Mapping[str, Node]) -> Shape:
    """Return the shape of a stream between nodes."""
    node = nodes[stream.node]
    found = node.outputs[stream.output] if stream.output else node.shape
    assert found is not None  # noqa: S101
    return found


@dataclass
class SinkNode(Node):
    """A sink: how it is written to, and what that guarantees."""

    delivery_word: str = ""
    delivery: Delivery | None = None
    promise: Promise = field(default_factory=Promise)
    required: Level | None = None
    own_query: bool = False
    #: Written by a replay alone, so no part of the queries.
    shadow: bool = False
    query: str = ""
    needs_id: bool = False

    @property
    def sink(self) -> Sink:
        """The component."""
        assert isinstance(self.component, Sink)  # noqa: S101
        return self.component

    def given(self, shape: Shape) -> list[Column]:
        """Return the columns that the sink is given of rows of a shape.

        Of those that it uses where they are there, each that could be.
        """
        columns = list(shape.columns)
        if isinstance(shape, Changelog):
            columns += shape.change_columns
        more = [Column("_id", "binary")] if self.needs_id else []
        more += [Column(name) for name in self.sink.capabilities.uses]
        for column in more:
            if column.name not in {each.name for each in columns}:
                columns.append(column)
        return columns


@dataclass(frozen=True)
class Query:
    """One streaming query: what is above its anchor is streaming, the rest happens batch by batch."""

    name: str
    anchor: str
    sinks: tuple[str, ...]
    #: The nodes from the sources down to the anchor, in order.
    streaming: tuple[str, ...]
    #: The stateless nodes between anchor and sinks, in order.
    per_batch: tuple[str, ...]
    #: The last of the row-wise nodes, from the anchor down, that one node alone reads each: Spark gets
    #: these once, and what is below anew with each batch. The anchor itself where there are none.
    tail: str
    #: How often each source is read.
    reads: Mapping[str, int]
    output_mode: str
    #: The queries that write the relays which this one reads.
    above: frozenset[str] = frozenset()
    #: The reads that are loaded before the others begin, phase by phase; empty where all begin at
    #: once. A source's first read has its name, its second one `NAME__2`.
    loads: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Relay:
    """A stream that is taken from one query to others.

    Attributes:
        why: why one query can't hold what is above and below.
        sink: the name of the end in the query above.
        source: that of the end in those below.
        keep: how long rows stay after all have read them; None for not at all.
    """

    stream: Stream
    why: str
    sink: str
    source: str
    keep: timedelta | None = None


@dataclass(frozen=True)
class Plan:
    """A checked pipeline, ready to run."""

    pipeline: str
    file: str
    document: Document
    #: All nodes, the ends of relays among them.
    nodes: Mapping[str, Node]
    #: The nodes as the document connects them, before relays were put between.
    written: Mapping[str, Node]
    relays: tuple[Relay, ...]
    queries: tuple[Query, ...]
    state_word: str
    state_store: StateStore
    warnings: tuple[str, ...]
    #: What is told of a run, by name.
    observers: Mapping[str, Component]
    scrubber: Scrubber
    #: Whether something moves the watermarks from outside, through control streams.
    scripted: bool = False
    #: What the plan was derived for, if its checkpoint must serve nothing else: a replay's terms.
    origin: str = ""
    #: Makes it once more, with Spark's analyser to look at its SQL; None if it was derived from another.
    remade: Callable[[Analyse], Plan] | None = field(default=None, compare=False, repr=False)
    #: The checkpoint folder of the plan that this one was derived from.
    derived_from: Path | None = None

    @property
    def checkpoint(self) -> Path:
        """The pipeline's checkpoint folder."""
        return Path(self.document.checkpoint, self.pipeline)

    def query_folder(self, query: str) -> Path:
        """Return the folder of Spark's checkpoint of a query."""
        return self.checkpoint / "queries" / query

    def home(self, name: str) -> Path:
        """Return a source's durable folder: that of the plan which this one was derived from."""
        return Path(self.derived_from or self.checkpoint, "nodes", name)

    @property
    def local(self) -> bool:
        """Whether all runs in one process on this machine."""
        return bool(re.match(r"local(\[|$)", self.document.spark.master))

    def shared(self) -> dict[str, Path]:
        """Return the paths that every machine of a cluster must see; empty on a local master."""
        if self.local:
            return {}
        found = {"checkpoint": self.checkpoint}
        for node in self.written.values():
            if node.kind == "operator":
                continue  # computes; what it reads of the driver's disk goes out with its plan
            options = node.component.options
            for name in type(options).model_fields:
                if isinstance(value := getattr(options, name), Path):
                    found[f"{node.name}.{name}"] = value
        return found

    def sinks(self) -> list[SinkNode]:
        """The document's sinks, in its order."""
        return [node for node in self.written.values() if isinstance(node, SinkNode)]

    def shape(self, stream: Stream) -> Shape:
        """Return the shape of a stream."""
        return shape_of(stream, self.nodes)

    def query(self, name: str) -> Query:
        """Return the query of that name.

        Raises:
            PipelineError: there is none.
        """
        known = {query.name: query for query in self.queries}
        if name not in known:
            hint = nearest(name, known) or f"Queries: {', '.join(known)}."
            raise PipelineError(f"there is no query {name!r}. {hint}")
        return known[name]

    def readers(self, name: str, output: str | None = None) -> list[str]:
        """Return the nodes that read from a node, or from one of its outputs; no shadow sinks."""
        return [
            node.name
            for node in self.nodes.values()
            if not (isinstance(node, SinkNode) and node.shadow)
            for stream in node.streams
            if stream.node == name and output in (None, stream.output)
        ]

    def wants(self, node: Node, output: str) -> bool:
        """Whether the rows of a named output matter: somebody reads them, or one ends the run."""
        if output not in node.outputs:
            return False
        if self.readers(node.name, output):
            return True
        return output == "rejected" and not node.drops_rejected

    @property
    def flush(self) -> bool:
        """Whether the run closes all windows at its end."""
        return self.document.trigger.flush

    def controlled(self, node: Node) -> bool:
        """Whether a node with a watermark gets a control stream."""
        return self.flush or self.scripted or node.idle_after is not None
