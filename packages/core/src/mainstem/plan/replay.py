"""The plan of a replay: a query's sources from an earlier point, into shadow sinks."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mainstem.contracts.abilities import Rewindable, Swappable
from mainstem.contracts.components import Source
from mainstem.document.model import Trigger
from mainstem.errors import OptionError, PipelineError, nearest
from mainstem.plan import bootstrap, queries
from mainstem.plan.derive import derive
from mainstem.plan.model import Plan, Query, SinkNode

#: Behind the name of a sink, and of its place, that is rebuilt beside.
REBUILT = "__rebuilt"


def replay_plan(
    plan: Plan, query: str, point: str, into: Mapping[str, str], rebuild: Collection[str] = ()
) -> Plan:
    """Return the plan that reads a query's sources anew and writes into shadow sinks.

    Its checkpoint lies in the folder `replays` of the pipeline's own, one for each set of shadow
    sinks; a replay that was interrupted goes on there. It ends when it has caught up.

    Args:
        query: the name of a query of the plan.
        point: `earliest`, a time (ISO 8601; UTC without a zone), or JSON: for each source of the query
            the offset, as in the checkpoint, to begin after.
        into: the shadow sink by the name of the sink whose rows it gets.
        rebuild: sinks that are built beside, to be put in place (see `run.rebuilding`); from the
            `earliest` point alone.

    Raises:
        PipelineError: names do not fit, or a source can't start there; says which.
    """
    found = _as_written(plan, plan.query(query))
    sinks = [_shadow(plan, found.sinks, name, other) for name, other in into.items()]
    sinks += [_beside(plan, found.sinks, name) for name in rebuild]
    into = {**into, **{name: f"{name}{REBUILT}" for name in rebuild}}
    when = _point(point)
    if isinstance(when, dict) and when.keys() != set(found.reads):
        raise PipelineError(f"expected offsets of {', '.join(found.reads)}, by name")
    if rebuild and when != "earliest":
        raise PipelineError(
            "what is rebuilt begins at `earliest`: else what came before is missing"
        )
    sources: dict[str, Source] = {}
    first = {read for phase in found.loads for read in phase}
    for name in found.reads:
        source = plan.written[name].source
        if not isinstance(source, Rewindable):
            word = plan.written[name].word
            raise PipelineError(f"{name}: the source {word!r} can't start elsewhere (Rewindable)")
        start = when[name] if isinstance(when, dict) else when
        if isinstance(when, datetime) and name in {read.partition("__")[0] for read in first}:
            if any(read not in first for read in bootstrap.reads_of(found, name)):
                raise PipelineError(
                    f"{name}: it is read twice, once for a table, which is loaded whole, and once for "
                    f"rows from {point} on: replay from `earliest`"
                )
            start = "earliest"  # a table is what all its changes made of it
        try:
            sources[name] = source.starting_at(start)
        except OptionError as error:
            message = plan.scrubber.clean(f"{name}: {error.message} {error.hint}".rstrip())
            raise PipelineError(message) from None
    given = plan.document.trigger
    return derive(
        plan,
        sinks,
        pipeline="-".join(sorted(into.values())),
        checkpoint=plan.checkpoint / "replays",
        components=sources,
        trigger=given if given.available_now else Trigger(available_now=True),
        origin=f"replay of {query} from {when} into {', '.join(map('='.join, into.items()))}",
    )


def _as_written(plan: Plan, query: Query) -> Query:
    """Return a query as it would be without relays: the sources that it reads, and which come first."""
    anchor = plan.nodes[query.anchor]
    name = query.anchor if anchor.relayed is None else anchor.relayed.node
    return replace(
        query,
        sinks=tuple(sink for sink in query.sinks if sink in plan.written),
        reads=queries.reads(name, plan.written),
        loads=bootstrap.phases(name, plan.written),
    )


def _shadow(plan: Plan, sinks: tuple[str, ...], name: str, other: str) -> SinkNode:
    if name not in sinks:
        raise PipelineError(f"the query has no sink {name!r}. {_near(name, sinks)}")
    shadows = {sink.name: sink for sink in plan.sinks() if sink.shadow}
    if other not in shadows:
        raise PipelineError(
            f"there is no sink {other!r} with `query: replay`. {_near(other, shadows)}"
        )
    if shadows[other].streams != plan.written[name].streams:
        raise PipelineError(f"{other!r} does not read what {name!r} reads")
    made = copy(shadows[other])
    made.shadow = False
    return made


def _beside(plan: Plan, sinks: tuple[str, ...], name: str) -> SinkNode:
    if name not in sinks:
        raise PipelineError(f"the query has no sink {name!r}. {_near(name, sinks)}")
    made = copy(plan.written[name])
    assert isinstance(made, SinkNode)  # noqa: S101
    if not isinstance(made.sink, Swappable):
        raise PipelineError(f"{name}: the sink {made.word!r} can't be rebuilt beside (Swappable)")
    if made.delivery is None or not made.delivery.capabilities.knows_rows:
        raise PipelineError(
            f"{name}: what the pipeline writes again after the swap would double, for "
            f"`deliver: {made.delivery_word}` does not know the rows that are there; `idempotent` does"
        )
    made.drops_rejected |= bool(plan.readers(name, "rejected"))  # that reader's business
    made.name = f"{name}{REBUILT}"
    made.component = made.sink.beside(REBUILT)
    return made


def _near(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return nearest(name, names) or f"There are: {', '.join(names) or 'none'}."


def _point(text: str) -> datetime | str | dict[str, Any]:
    if text == "earliest":
        return text
    try:
        if text.startswith("{"):
            offsets: dict[str, Any] = json.loads(text)
            return offsets
        when = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"expected `earliest`, an ISO 8601 time, or JSON of offsets by source, not {text!r}"
        ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
