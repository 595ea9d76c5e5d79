"""Makes a plan from a document: the one way in for every command."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mainstem.analysis.requests import Analyse
from mainstem.contracts.abilities import Branching, Punctuated, Recorded, Stateful
from mainstem.contracts.columns import check_names, find_column
from mainstem.contracts.components import Component, Operator, Sink, Source, StateStore
from mainstem.contracts.guarantee import Level
from mainstem.contracts.options import Options
from mainstem.contracts.secrets import secrets_in
from mainstem.contracts.shapes import (
    REJECTED,
    Accepts,
    Events,
    EventTime,
    Inputs,
    Shape,
    messages,
)
from mainstem.document import checking
from mainstem.document.model import SECTIONS, Document, RelayOptions, Watermark
from mainstem.document.model import Component as Used
from mainstem.document.model import SinkNode as WrittenSink
from mainstem.document.overriding import override
from mainstem.document.reading import Path_, Written, from_values, read_file, read_text
from mainstem.document.references import resolve
from mainstem.document.scrubber import Scrubber
from mainstem.errors import DocumentError, MainstemError, OptionError, PluginError, nearest
from mainstem.observation.observers import Observer
from mainstem.plan import advice, graph, guarantee, identity, queries, relays, statements, steps
from mainstem.plan.model import EARLY, Node, Partitions, Plan, SinkNode, Stream, ancestors
from mainstem.registry import Registry
from mainstem.relays.components import below_relay

T = TypeVar("T")


def make_plan(
    document: str | Path | Mapping[str, Any],
    registry: Registry | None = None,
    *,
    changes: Iterable[str] = (),
    scrubber: Scrubber | None = None,
    analyse: Analyse | None = None,
) -> Plan:
    """Check a document and return its plan.

    Args:
        document: the path of a YAML file, YAML text (with a line break), or plain values.
        registry: the words to use; what is installed when left out.
        changes: `key.path=value`, each a change to the document before it is checked; variables
            `MAINSTEM_KEY__PATH` are changes too.
        scrubber: learns the document's secrets, also of one that is wrong.
        analyse: asks Spark's analyser about the document's SQL, which is not looked at when left out.

    Raises:
        DocumentError: with every problem found. Its `exit_code` is 3 if all that is wrong is that
            plugins are missing or broken.
    """
    if isinstance(document, Mapping):
        written = from_values(copy.deepcopy(dict(document)))
    elif isinstance(document, str) and "\n" in document:
        written = read_text(document)
    else:
        written = read_file(Path(document))
    override(written, changes)
    scrubber = scrubber or Scrubber()
    registry = registry or Registry()

    def make(analyse: Analyse | None) -> Plan:
        own = replace(written, problems=list(written.problems))
        try:
            made = _Maker(own, registry, scrubber, analyse).make()
        except MainstemError as error:
            scrubber.clean_error(error)
            raise
        return replace(made, remade=make)

    return make(analyse)


def _made(component: type[Component], options: Options) -> Component:
    """Return a component that has told what it simply is: facts can be properties, which can fail."""
    made = component(options)
    for facts in ("capabilities", "accepts", "ports"):
        getattr(made, facts, None)
    return made


def _where(error: Exception, packages: Set[str]) -> str | None:
    """Return the last line of some packages that an error came through; None if it came through none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if packages & set(Path(f.filename).with_suffix("").parts)]
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else None


class _Maker:
    def __init__(
        self,
        written: Written,
        registry: Registry,
        scrubber: Scrubber,
        analyse: Analyse | None = None,
    ) -> None:
        self.written = written
        self.analyse = analyse
        self.registry = registry
        self.scrubber = scrubber
        self.nodes: dict[str, Node] = {}
        self.broken: set[str] = set()
        self.referring: set[Path_] = set()
        #: By what stands in the document, whose components its options name: a format's.
        self._named: dict[Path_, list[str]] = {}

    def make(self) -> Plan:
        values, self.referring = resolve(self.written, self.scrubber)
        document = checking.check(Document, values, self.written, (), self.referring)
        if document is None:
            # Its own keys are wrong somewhere: what is wrong elsewhere is told with it.
            document = checking.salvaged(values, self.written)
        self._name_clashes(document)
        for section, kind in SECTIONS.items():
            for name, used in getattr(document, section).items():
                self._add(section, kind, name, used)
        store = self._component(document.state, "state store", ("state",))
        observers = {
            name: found
            for name, used in document.observers.items()
            if isinstance(found := self._component(used, "observer", ("observers", name)), Observer)
        }
        names = {
            section: list(found)
            if isinstance(found := self.written.values.get(section), dict)
            else []
            for section in SECTIONS
        }
        others = graph.connect(self.nodes, document, names, self._problem)
        taken = {name for section in SECTIONS for name in names[section]}
        steps.place(self.nodes, taken, self._first_step, self._problem)
        order, cyclic = graph.order(self.nodes, self._problem)
        self.broken |= cyclic
        self._shapes(order, document)
        for (
            name,
            streams,
        ) in others.items():  # which of its plugin's options are wrong changes nothing
            for stream in streams:
                section = "sinks" if name in document.sinks else "operators"
                self._output(stream, (section, name))
        if isinstance(store, StateStore):
            self._hold(store, document.state.use)
        self._stop()
        written = {name: self.nodes[name] for name in order}
        guarantee.choose(written, document, self.registry, self._component, self._asked)
        identity.place(written, self._problem)
        guarantee.hold(written, self._asked)
        guarantee.judge(written, document, self.registry, self._problem)
        checkpoint = Path(document.checkpoint, document.pipeline)
        nodes, placed = relays.place(written, checkpoint, self._problem)
        cuts = queries.cut(nodes, self._problem)
        self._stop()
        assert isinstance(store, StateStore)  # noqa: S101
        plan = Plan(
            document.pipeline, self.written.file, document, nodes, written, placed, cuts,
            document.state.use, store, (), observers, self.scrubber,
        )  # fmt: skip
        object.__setattr__(plan, "warnings", tuple(advice.warnings(plan, self.registry)))
        return plan

    def _hold(self, store: StateStore, word: str) -> None:
        """Report a state store that can't hold what operators keep."""
        keyed = [name for name, node in self.nodes.items() if node.state and node.state.keyed]
        if keyed and not store.capabilities.keyed:
            self._problem(
                f"{word!r} can't hold the state of {', '.join(keyed)}, which is kept by key",
                "state",
                hint="Use `rocksdb`, which is also what is used when `state` is left out.",
            )

    # -- problems ---------------------------------------------------------------------------

    def _problem(
        self,
        message: str,
        *path: str | int,
        hint: str = "",
        at_key: bool = False,
        code: int = 2,
        start: int | None = None,
    ) -> None:
        if path in self.written.unresolved:
            return  # a problem already
        text = self.scrubber.clean(message)
        problem = self.written.problem(text, path, hint=hint, at_key=at_key, exit_code=code)
        if start is not None:
            problem = self.written.within(problem, path, start)
        self.written.problems.append(problem)

    def _stop(self) -> None:
        if self.written.problems:
            raise DocumentError(dict.fromkeys(self.written.problems))

    def _name_clashes(self, document: Document) -> None:
        seen: dict[str, str] = {}
        for section in SECTIONS:
            for name in getattr(document, section):
                if name in seen:
                    message = f"the name {name!r} is already that of a node in `{seen[name]}`"
                    self._problem(message, section, name, at_key=True)
                seen.setdefault(name, section)

    # -- components -------------------------------------------------------------------------

    def _component(self, used: Used, kind: str, path: Path_) -> Component | None:
        try:
            found = self.registry.component(kind, used.use)
        except PluginError as error:
            self._problem(str(error), *path, "use", code=3)
            return None
        problems = len(self.written.problems)
        distribution = self.registry.find(kind, used.use).distribution
        where = (*path, "with")
        find = self.registry.component
        self._named[path] = [
            self.registry.find(of, word).distribution
            for name, of in found.option_kinds.items()
            if isinstance(word := used.with_.get(name), str) and word in self.registry.named(of)
        ]
        model = self._asked(lambda: found.options_for(used.with_, find), path, distribution)
        if model is None:
            return None
        options = self._asked(
            lambda: checking.check(model, used.with_, self.written, where, self.referring),
            path,
            distribution,
            quotes=False,
        )
        if options is None or len(self.written.problems) > problems:
            return None
        for text in secrets_in(options):
            self.scrubber.hide(text)
        return self._asked(lambda: _made(found, options), path, distribution)

    def _asked(
        self, ask: Callable[[], T], path: Path_, distribution: str, *, quotes: bool = True
    ) -> T | None:
        """Return what a component answers; None, with a problem, if it refuses or fails.

        With `quotes` off, what a failure says is left out: it may hold a secret that is not known yet.
        """
        try:
            return ask()
        except OptionError as error:
            at: Path_ = (*path, "with", error.option) if error.option else path
            code = 3 if isinstance(error.__cause__, PluginError) else 2
            self._problem(error.message, *at, hint=error.hint, code=code)
        except MainstemError:
            raise
        except Exception as error:
            said = f": {error}" if quotes else ""
            whose, where = distribution, ""
            for whose in (*self._named.get(path, ()), distribution):
                where = _where(error, self.registry.packages(whose)) or ""
                if where:
                    break
            what = f"{type(error).__name__}{said}{f' ({where})' if where else ''}"
            self._problem(f"{what}. This is a bug of {whose}.", *path, at_key=True, code=3)
        return None

    def _add(self, section: str, kind: str, name: str, used: Used) -> None:
        component = self._component(used, kind, (section, name))
        if component is None:
            self.broken.add(name)
            return
        word = self.registry.find(kind, used.use)
        make = SinkNode if kind == "sink" else Node
        node = make(name, kind, word.name, word.distribution, component)
        node.drops_rejected = getattr(used, "on_rejected", "fail") == "drop"
        relay = getattr(used, "relay", None)
        if isinstance(relay, RelayOptions):
            node.relay_keep = relay.keep
            relay = True
        node.relay = relay
        node.says_rejected = "on_rejected" in used.model_fields_set
        if isinstance(node, SinkNode) and isinstance(used, WrittenSink):
            node.own_query = used.query == "own"
            node.shadow = used.query == "replay"
            node.required = Level(used.require) if used.require else None
        self.nodes.setdefault(name, node)

    def _first_step(self, component: Recorded, node: Node) -> Operator | None:
        return self._asked(component.recorded, node.path, node.distribution)

    # -- shapes -----------------------------------------------------------------------------

    def _shapes(self, order: list[str], document: Document) -> None:
        for name in order:
            node = self.nodes[name]
            inputs = self._input_shapes(node)
            if inputs is None or name in self.broken:
                self.broken.add(name)
                continue
            shape = partial(self._shape, node, inputs)
            if not self._asked(shape, self.nodes[name].path, node.distribution):
                self.broken.add(name)
                continue
            if self.analyse is not None and node.kind == "operator":
                self._look(node, inputs, document, self.analyse)
            section: Mapping[str, Any] = (
                document.sources if node.kind == "source" else document.operators
            )
            written = section.get(name)
            if node.drops_rejected and node.kind != "sink" and "rejected" not in node.outputs:
                can = "on_error" in type(node.component.options).model_fields
                hint = "With `with: {on_error: reject}` it would." if can else "Leave it out."
                self._problem(
                    "does nothing: the node refuses no rows", *node.path, "on_rejected", hint=hint
                )
            if written is not None and written.watermark is not None:
                self._watermark(node, written.watermark)

    def _look(
        self, node: Node, inputs: Inputs[Shape], document: Document, analyse: Analyse
    ) -> None:
        """Have the node's SQL looked at by Spark's analyser."""

        def tell(option: str, message: str, hint: str, start: int | None) -> None:
            path = (*node.path, "with", *option.split(".", 1))
            self._problem(message, *path, hint=hint, start=start)

        conf = {name: str(value) for name, value in document.spark.conf.items()}
        look = partial(statements.look, node, inputs, analyse, conf, tell)
        self._asked(look, node.path, node.distribution)

    def _input_shapes(self, node: Node) -> Inputs[Shape] | None:
        shapes: Inputs[Shape] = Inputs()
        whole = True
        accepts: Mapping[str, Accepts] = {}
        if isinstance(node.component, Operator):
            accepts = node.component.ports
        elif isinstance(node.component, Sink):
            accepts = {"input": node.component.accepts}
        for port, streams in node.inputs.items():
            found = [
                self._below(stream, shape, node)
                for stream in streams
                if (shape := self._output(stream, node.path)) is not None
            ]
            if len(found) < len(streams) or not found or port not in accepts:
                whole = False
                if not found and port in accepts and accepts[port].columns:
                    shapes[port] = self._assumed(accepts[port])
                continue
            first = found[0]
            for stream, shape in zip(streams[1:], found[1:], strict=True):
                reason = first.unlike(shape)
                if reason:
                    message = f"{stream} and {streams[0]} are not of one shape: {reason}"
                    self._problem(message, *node.path, "from")
                    whole = False
            if len(found) > 1:
                times = [s.event_time for s in found]
                event_time = first.event_time
                if event_time is not None:
                    known = [time for time in times if time is not None]
                    event_time = replace(
                        event_time,
                        punctual=len(known) == len(times) and all(time.punctual for time in known),
                        passed=any(time.passed for time in known),
                        behind=max(time.behind for time in known),
                    )
                if any(time != event_time for time in times):
                    event_time = None
                first = replace(first, event_time=event_time)
            refusal = accepts[port].refusal(first)
            if refusal:
                where = f"port {port!r} " if len(accepts) > 1 else ""
                message = f"{where}{refusal} (from {', '.join(map(str, streams))})"
                self._problem(message, *node.path, "from")
                whole = False
                if not isinstance(first, accepts[port].shapes):
                    continue  # nothing of the kind that the component goes on with
            shapes[port] = first
        # A port that is not connected has its own problem already, as has one that reads a wrong name.
        # Where what it reads is known all the same, what is wrong below shows too.
        assert whole or self.written.problems  # noqa: S101
        return shapes if shapes.keys() == accepts.keys() else None

    def _below(self, stream: Stream, shape: Shape, node: Node) -> Shape:
        """Return what a node sees of a stream: below a relay, if there is to be one."""
        cut = isinstance(node.component, Stateful) and self.nodes[stream.node].relay is not False
        return below_relay(shape) if cut else shape

    def _assumed(self, accepts: Accepts) -> Shape:
        """Return what a port reads that is connected to nothing: messages, or the columns it needs."""
        plain = Events(accepts.columns)
        return messages() if accepts.refusal(messages()) is None else plain

    def _output(self, stream: Stream, reader: tuple[str, str]) -> Shape | None:
        node = self.nodes.get(stream.node)
        if node is not None and stream.output and not isinstance(node.component, Branching | Sink):
            hint = nearest(stream.output, node.outputs) or "Its named outputs: none."
            message = f"{stream.node!r} has no output {stream.output!r}"
            self._problem(message, *reader, "from", hint=hint)
            return None
        if node is None or node.name in self.broken:
            return None
        if not stream.output:
            return node.shape
        if stream.output not in node.outputs:
            have = ", ".join(sorted(node.outputs)) or "none"
            hint = nearest(stream.output, node.outputs) or f"Its named outputs: {have}."
            message = f"{stream.node!r} has no output {stream.output!r}"
            self._problem(message, *reader, "from", hint=hint)
            return None
        return node.outputs[stream.output]

    def _shape(self, node: Node, inputs: Inputs[Shape]) -> bool:
        """Ask a component what it gives; returns True."""
        component = node.component
        if isinstance(component, Source):
            node.shape = component.shape()
            if isinstance(component, Punctuated) and component.punctuates():
                node.watermark = node.shape.event_time
                node.shape = replace(node.shape, watermarked=node.name)
            if isinstance(component, Branching):
                node.outputs = dict(component.outputs(inputs))
        elif isinstance(component, Operator):
            shape = component.shape(inputs)
            node.shapes = inputs
            above = next(filter(None, (given.watermarked for given in inputs.values())), "")
            node.shape = replace(shape, watermarked=above)
            if isinstance(component, Branching):
                node.outputs = dict(component.outputs(inputs))
            if isinstance(component, Stateful):
                node.state = component.state(inputs)
        else:
            node.outputs = {"rejected": REJECTED}
        return True

    def _watermark(self, node: Node, wanted: Watermark) -> None:
        assert node.shape is not None  # noqa: S101
        path = (*node.path, "watermark")
        try:
            column = find_column(node.shape.columns, wanted.column, "column")
        except OptionError as error:
            self._problem(error.message, *path, "column", hint=error.hint)
            return
        if column.type not in (None, "timestamp"):
            self._problem(f"{column.ddl} is no TIMESTAMP", *path, "column")
            return
        if problem := self._watermarked(node):
            message, hint = problem
            self._problem(message, *path, hint=hint)  # what is below finds it in its place
        node.watermark = EventTime(column.name, wanted.delay)
        if wanted.by:
            node.partitions = self._partitions(node.shape, wanted, path)
        else:
            node.idle_after = wanted.idle_after
        if wanted.ahead is not None and EARLY in node.outputs:
            self._problem(f"the node has an output {EARLY!r} of its own", *path, "ahead")
        elif wanted.ahead is not None:
            node.ahead = wanted.ahead
            # Their time is nothing to go by.
            node.outputs = {**node.outputs, EARLY: node.shape.with_columns(node.shape.columns)}
        node.shape = replace(node.shape, event_time=node.watermark, watermarked=node.name)

    def _partitions(self, shape: Shape, wanted: Watermark, path: Path_) -> Partitions | None:
        """Return what a watermark goes by; None, with a problem, if it can't."""
        try:
            columns = [find_column(shape.columns, name, "by") for name in wanted.by]
            names = [column.name for column in columns]
            check_names(names, "by")
            for column in columns:
                if (column.type or "").startswith(("struct", "array", "map", "variant")):
                    raise OptionError(f"{column.ddl} tells no partitions apart", option="by")
        except OptionError as error:
            self._problem(error.message, *path, "by", hint=error.hint)
            return None
        return Partitions(tuple(names), wanted.idle_after)

    def _watermarked(self, node: Node) -> tuple[str, str] | None:
        """Return why a node can't have a watermark, and a way that works; None if it can."""
        above = node.shape.watermarked if node.shape else ""
        if node.state is not None:
            return (
                (
                    f"a watermark can't be put on what a step with state gives: {node.name} gives its "
                    "rows as the watermark above it moves"
                ),
                "Put it on the step's input, or, for what the step gives, on one below it (`select`).",
            )
        if not above:
            return None
        kept = [
            name
            for name in ancestors(node.name, self.nodes)
            if self.nodes[name].state and above in ancestors(name, self.nodes)
        ]
        if not kept:
            return (
                f"a watermark can't be put here: a stream has one watermark, and {above} above has it",
                f"Take away that of {above}; this one then serves the steps below.",
            )
        if any(self.nodes[stream.node].relay is False for stream in node.streams):
            return (
                (
                    f"a watermark can't be put here: {kept[0]} keeps state and gives its rows as the "
                    "watermark above it moves, so one that waits for those rows would wait for ever"
                ),
                "Take away `relay: false`: below a relay a stream has a watermark of its own.",
            )
        return None
