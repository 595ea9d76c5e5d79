"""The kinds of component, but formats (`contracts.formats`). Each base has one or two methods that an
author writes.

A component is made anew for each use in a document, with its validated options, and says what it
gives (`shape`) before Spark starts. It must not import pyspark, or its vendor's library, before
`load`, `apply` or `write` is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from mainstem.contracts.ability import unnamed
from mainstem.contracts.capabilities import (
    DeliveryCapabilities,
    OperatorCapabilities,
    SinkCapabilities,
    SourceCapabilities,
    StateStoreCapabilities,
)
from mainstem.contracts.guarantee import Promise
from mainstem.contracts.options import Options
from mainstem.contracts.shapes import ANYTHING, Accepts, Inputs, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.contracts.contexts import Batch, OperatorContext, SourceContext


@dataclass(frozen=True)
class Needs:
    """What a component needs of the Spark session it runs in.

    `conf` are Spark settings (a document's own win), `packages` Maven coordinates, `jars` paths.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()


#: Gives the component of a kind and word.
Find = Callable[[str, str], "type[Component]"]


def model_of(cls: type) -> type[Options]:
    """Return the model that a class's `options` is annotated with."""
    model = get_type_hints(cls)["options"]
    if not (isinstance(model, type) and issubclass(model, Options)):
        raise TypeError(f"{cls.__qualname__}.options is not annotated with an Options model")
    return model


class Component(ABC):
    """What all kinds share.

    A subclass annotates `options` with its own model; the core reads the model from there. The
    first line of the class's docstring is what `mainstem plugins` lists.
    """

    kind: ClassVar[str]
    options: Options
    #: Options that name a component of another kind, whose options then stand beside: by name, the kind.
    option_kinds: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if found := unnamed(cls):
            raise TypeError(
                f"{cls.__qualname__} has the methods of {' and '.join(found)}: name it among the bases, "
                "or the methods otherwise"
            )

    def __init__(self, options: Options) -> None:
        self.options = options

    @classmethod
    def options_model(cls) -> type[Options]:
        """Return the model that `options` is annotated with."""
        return model_of(cls)

    @classmethod
    def options_for(cls, given: Mapping[str, Any], find: Find) -> type[Options]:
        """Return the model of one use, which has more options where one of `option_kinds` is given.

        Args:
            given: what a document says of the options, not checked yet.
            find: gives the component of a kind and word; raises PluginError.

        Raises:
            OptionError: what is given names no such component.
        """
        del given, find
        return cls.options_model()

    def needs(self) -> Needs:
        """Return what the Spark session must have for this component; asked once, before Spark."""
        return Needs()


class Source(Component):
    """Gives a stream of events or changes."""

    kind = "source"
    capabilities: SourceCapabilities = SourceCapabilities()

    @abstractmethod
    def shape(self) -> Shape:
        """Return what the stream is. Called without Spark, perhaps more than once.

        Raises:
            OptionError: the options do not fit each other.
        """

    @abstractmethod
    def load(self, ctx: SourceContext) -> DataFrame:
        """Return the streaming frame, through `ctx.read_stream` or `ctx.reader`.

        Called once for each query that reads the source (the plan says how often), in the
        driver. It may have reserved columns beyond the shape's, for the identity.
        """


class Operator(Component):
    """Turns streams into a stream."""

    kind = "operator"
    capabilities: OperatorCapabilities = OperatorCapabilities()
    #: The input ports and what each takes. `from: name` connects the only port; several ports are
    #: connected by a map.
    ports: Mapping[str, Accepts] = {"input": ANYTHING}

    @abstractmethod
    def shape(self, inputs: Inputs[Shape]) -> Shape:
        """Return what the main output is, given the shapes at the ports. Called without Spark.

        Raises:
            OptionError: the options do not fit the inputs.
        """

    @abstractmethod
    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        """Return the output for the inputs.

        The frames are streaming ones above an anchor and batches below it, so this only builds a
        plan: no action, no look at the data. Inputs may have reserved columns beyond their shapes;
        a row-wise operator leaves them in.
        """


class Sink(Component):
    """Writes a stream somewhere."""

    kind = "sink"
    capabilities: SinkCapabilities = SinkCapabilities()
    accepts: Accepts = ANYTHING

    @abstractmethod
    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write one micro-batch: its rows are evaluated once.

        A second time is allowed for those alone that the first has found to be refused, if they are
        compared with the first: a step above that gives others must not go unseen.

        Called again with the same `batch.id` after a crash or a failure, then with the same rows,
        perhaps partitioned otherwise. Returns the rows that the external system refuses for good, with
        the columns `reason STRING, payload BINARY` (and `_id` where there is one), or None.

        Raises:
            Exception: the batch could not be written; the query fails and the batch is not
                committed.
        """


class StateStore(Component):
    """Says where the state of stateful operators is kept."""

    kind = "state store"
    capabilities: StateStoreCapabilities = StateStoreCapabilities()

    @abstractmethod
    def conf(self) -> Mapping[str, str]:
        """Return the Spark settings that choose and tune the store."""


class Delivery(Component):
    """Decides how a batch is handed to a sink so that a retry does no harm."""

    kind = "delivery"
    capabilities: DeliveryCapabilities = DeliveryCapabilities()

    @abstractmethod
    def promise(self, sink: Sink, shape: Shape) -> Promise:
        """Return what holds when this strategy writes rows of `shape` into `sink`.

        Raises:
            OptionError: the sink lacks the ability that the strategy needs; says which.
        """

    @abstractmethod
    def write(self, sink: Sink, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write one micro-batch into the sink; arguments and result as `Sink.write`."""
