"""The document's own keys, as a model. What stands under `with` is checked by each component."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from mainstem.contracts.options import Duration, LocalPath, Options, PositiveDuration, option

NodeName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"),
]
PipelineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
#: `word` or `distribution:word`
Use = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9._-]+:)?[A-Za-z0-9_.-]+$")]
#: `name` or `name.output`
Reference = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?$")]
OneOrMany = Reference | Annotated[list[Reference], Field(min_length=1)]
From = OneOrMany | dict[str, OneOrMany]
Require = Literal["at-most-once", "at-least-once", "exactly-once"]


class Watermark(Options):
    """How far events of a stream may come out of order."""

    column: str = option(description="The TIMESTAMP column that holds the event's time.")
    delay: Duration = option(
        description="How far the watermark stays behind the latest event time seen; rows older "
        "than the watermark are late.",
        example="10 minutes",
    )
    ahead: Duration | None = option(
        None,
        description="Rows whose time is further ahead of the clock than this go to the node's output "
        "`early`, and do not move the watermark. Without it one wrong time makes all later rows late.",
        example="1 hour",
    )
    idle_after: Duration | None = option(
        None,
        description="Once no row has come for so long, by the clock, let the watermark go on with those "
        "of the query's other nodes, so that they need not wait for this one. With `by`: with those of "
        "the other partitions.",
        example="1 minute",
    )
    by: list[str] = option(
        list,
        description="Columns that tell partitions apart, each of which has its own latest event time: "
        "the watermark stays behind the one that is furthest back, so that a fast partition makes no "
        "rows of a slow one late. A relay below keeps count.",
        example=["partition"],
    )


class Trigger(Options):
    """When a query takes its next batch."""

    every: Duration | None = option(
        None, description="Start a batch this often (at once, if the last took longer)."
    )
    available_now: Literal[True] | None = option(
        None, description="Read what is there when the run starts, in batches, then end."
    )
    flush: bool = option(
        False,
        description="At the end of an available_now run, close all windows that are still open: "
        "say that no older event will come.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Trigger:
        if (self.every is None) == (self.available_now is None):
            raise ValueError("give one of `every: 2 seconds` and `available_now: true`")
        if self.flush and not self.available_now:
            raise ValueError("`flush` goes with `available_now: true`: an endless run never ends")
        return self


def _as_use(value: Any) -> Any:
    return {"use": value} if isinstance(value, str) else value


class Component(Options):
    """A plugin's word with its options."""

    use: Use = option(description="The plugin's word (`word`, or `distribution:word`).")
    with_: dict[str, Any] = option(dict, alias="with", description="The plugin's options.")


class RelayOptions(Options):
    """Options of a relay that a node asks for."""

    keep: PositiveDuration = option(
        description="How long rows stay in the relay after all have read them, so that a query that is "
        "new below it has them too.",
        example="7 days",
    )


def _relay_option() -> Any:
    return option(
        None,
        description="Whether what the node gives goes through a relay, a log in the checkpoint, so that "
        "what reads it has queries of its own; when left out, where one query can't hold the graph, or "
        "a step with state would run twice. `{keep: 7 days}` asks for one, and keeps what was read.",
        advanced=True,
    )


class SourceNode(Component):
    """A stream that comes in."""

    watermark: Watermark | None = option(None, description="Gives the stream event time.")
    relay: bool | RelayOptions | None = _relay_option()
    on_rejected: Literal["fail", "drop"] = option(
        "fail",
        description="What a refused row does when nobody reads the output `rejected` of a source "
        "that has one: end the run, or be counted and dropped.",
    )


class OperatorNode(Component):
    """A step from streams to a stream."""

    from_: From = option(
        alias="from",
        description="The input: a name, `name.output`, a list of same-shaped streams, or a map from "
        "port to one of these.",
    )
    watermark: Watermark | None = option(None, description="Gives the stream event time.")
    relay: bool | RelayOptions | None = _relay_option()
    on_rejected: Literal["fail", "drop"] = option(
        "fail",
        description="What a refused row does when nobody reads the output `rejected`: end the run, "
        "or be counted and dropped.",
    )


class SinkNode(Component):
    """A place where a stream goes."""

    from_: OneOrMany = option(
        alias="from", description="The input: a name, `name.output`, or a list of same-shaped ones."
    )
    deliver: (
        Annotated[Component, BeforeValidator(_as_use, json_schema_input_type=Use | Component)]
        | None
    ) = option(
        None,
        description="The delivery strategy; the strongest that the sink offers when left out.",
    )
    require: Require | None = option(
        None, description="Refuse the document if this sink's guarantee is lower."
    )
    query: Literal["shared", "own", "replay"] = option(
        "shared",
        description="`own` gives the sink a query of its own, so that it waits for no other; "
        "`replay` makes it a shadow, which `mainstem replay` alone writes.",
    )
    on_rejected: Literal["fail", "drop"] = option(
        "fail",
        description="What a row that the external system refuses does when nobody reads this sink's "
        "`rejected`: end the run, or be counted and dropped.",
    )


class StateNode(Component):
    """Where operators keep their state."""


class ObserverNode(Component):
    """What is told of the pipeline's runs."""


class Spark(Options):
    """The Spark session."""

    master: str = option("local[*]", description="Spark's master URL.", example="spark://host:7077")
    conf: dict[str, str | int | float | bool] = option(
        dict, description="Any Spark settings; they win over what Mainstem and plugins set."
    )


class Document(Options):
    """A pipeline."""

    pipeline: PipelineName = option(description="The pipeline's name; its checkpoint has it too.")
    description: str = option("", description="What the pipeline is for.")
    require: Require | None = option(
        None, description="Refuse the document if any sink's guarantee is lower."
    )
    checkpoint: LocalPath = option(
        "./checkpoints",
        validate_default=True,
        description="The folder of checkpoints; each pipeline has a folder below it.",
    )
    trigger: Trigger = option(
        lambda: Trigger.model_validate({"every": "1 second"}),
        description="When queries take a batch; every second when left out.",
    )
    state: StateNode = option(
        lambda: StateNode(use="rocksdb"), description="Where operators keep their state."
    )
    spark: Spark = option(Spark, description="The Spark session.")
    sources: Annotated[dict[NodeName, SourceNode], Field(min_length=1)] = option(
        description="The streams that come in, by name."
    )
    operators: dict[NodeName, OperatorNode] = option(dict, description="The steps, by name.")
    sinks: Annotated[dict[NodeName, SinkNode], Field(min_length=1)] = option(
        description="The places where streams go, by name."
    )
    observers: dict[NodeName, ObserverNode] = option(
        dict, description="What is told of each run, and changes nothing of it, by name."
    )


#: The sections of nodes, with the kind of component in each.
SECTIONS = {"sources": "source", "operators": "operator", "sinks": "sink"}
