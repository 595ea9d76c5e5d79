"""What became of a message: which batches had it, and which sinks have written these. Starts no Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast

from mainstem.contracts.abilities import Readable, Trace, Traceable, Transactional
from mainstem.contracts.contexts import Batch
from mainstem.contracts.ddl import Column
from mainstem.errors import OptionError, PipelineError
from mainstem.history import History
from mainstem.plan.bootstrap import reads_of
from mainstem.plan.model import Node, Plan, Query, SinkNode
from mainstem.relays.log import RelayLog

#: Whether a read, by its name, has a message behind it when it came to an offset.
Reached = Callable[[str, Any], bool]
_ID = Column("_id", "binary")


@dataclass(frozen=True)
class Passage:
    """What one query has done with a message.

    Attributes:
        state: `done`: its batch is; `planned`: its batch has begun, and is not known to be done;
            `waiting`: no batch has it yet.
        batch: the batch; None while it waits.
        earlier: it may also have been an earlier one, of which nothing is on record any more.
        at: when the batch was done.
        sinks: by sink, what is known of the batch there, in words.
    """

    query: str
    state: Literal["done", "planned", "waiting"]
    batch: int | None = None
    earlier: bool = False
    at: datetime | None = None
    sinks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Aside:
    """That a sink has a row of it from an output beside the main one: refused, late."""

    sink: str
    stream: str
    reason: str
    at: datetime | None


@dataclass(frozen=True)
class Found:
    """A message, and what became of it."""

    source: str
    trace: Trace
    passages: Sequence[Passage]
    asides: Sequence[Aside]


def where(plan: Plan, message: str, key: str) -> Iterator[Found]:
    """Yield what became of a message, or of those with a key, in each source that has it.

    Raises:
        PipelineError: no source can look for it.
        ExternalError: an external system can't be asked.
    """
    able, why = False, []
    for name, node in plan.nodes.items():
        if node.kind != "source" or node.relayed is not None:
            continue
        source = node.source
        if not isinstance(source, Traceable):
            why.append(f"{name}: {node.word} can't find messages again")
            continue
        try:
            for trace in source.traces(plan.home(name), message, key):
                able = True
                yield _found(plan, node, source, trace)
            able = True
        except OptionError as error:
            why.append(f"{name}: {error}")
    if not able:
        raise PipelineError("no source can look for it: " + "; ".join(why))


def _found(plan: Plan, node: Node, source: Traceable, trace: Trace) -> Found:
    passages: list[Passage] = []
    for query in plan.queries:
        if reads := reads_of(query, node.name):

            def reached(read: str, offset: Any, mine: Sequence[str] = reads) -> bool:
                return read in mine and source.reached(trace, offset)

            passages += _follow(plan, query, reached)
    return Found(node.name, trace, passages, list(_asides(plan, node, trace)))


def _follow(plan: Plan, query: Query, reached: Reached) -> Iterator[Passage]:
    """Yield what a query, and those below its relays, have done with what a read has behind it."""
    history = History(plan.query_folder(query.name))
    planned, last = history.planned(), history.last()
    batch = next((b for b in planned if _has(history, b, reached)), None)
    if batch is None:
        yield Passage(query.name, "waiting")
        return
    done = last is not None and batch <= last
    record = history.folder / "commits" / str(batch)
    at = datetime.fromtimestamp(record.stat().st_mtime, UTC) if record.exists() else None
    ends = {relay.sink: relay for relay in plan.relays}
    sinks = {
        name: _told(plan, query, name, batch, done=done) for name in query.sinks if name not in ends
    }
    earlier = batch == planned[0] and batch > 0
    yield Passage(query.name, "done" if done else "planned", batch, earlier, at, sinks)
    for relay in (ends[name] for name in query.sinks if name in ends):
        log = RelayLog(plan.checkpoint / "relays" / relay.sink)
        mine = (entry for entry in map(log.entry, log.numbers()) if entry.batch == batch)
        number = next((e.number for e in mine if e.query_id == _query_id(history)), None)
        for below in plan.queries:
            if number is not None and (reads := reads_of(below, relay.source)):

                def beyond(
                    read: str, offset: Any, mine: Sequence[str] = reads, at: int = number
                ) -> bool:
                    return read in mine and int(offset["segment"]) >= at

                yield from _follow(plan, below, beyond)


def _has(history: History, batch: int, reached: Reached) -> bool:
    ends = history.offsets(batch).ends
    return any(offset is not None and reached(read, offset) for read, offset in ends.items())


def _query_id(history: History) -> str:
    return str(json.loads((history.folder / "metadata").read_text())["id"])


def _told(plan: Plan, query: Query, name: str, number: int, *, done: bool) -> str:
    """Return what is known of a batch at a sink."""
    if done:
        return "written"
    node = plan.nodes[name]
    assert isinstance(node, SinkNode)  # noqa: S101
    if not isinstance(node.sink, Transactional) or node.delivery_word != "transactional":
        return "perhaps written, in part or whole"
    batch = Batch(
        id=number,
        pipeline=plan.pipeline,
        query=query.name,
        query_id=_query_id(History(plan.query_folder(query.name))),
        sink=name,
        spark=cast("Any", None),  # its ledger alone is asked
        shape=plan.shape(node.streams[0]),
        epoch=2**62,
    )
    return "written, as its ledger says" if node.sink.committed(batch) else "not written yet"


def _asides(plan: Plan, node: Node, trace: Trace) -> Iterator[Aside]:
    """Yield where sinks have a row of a message from outputs beside the main ones."""
    identity = _identity(node, trace)
    for name, sink in plan.nodes.items():
        if not isinstance(sink, SinkNode) or not isinstance(sink.sink, Readable):
            continue
        aside = [stream for stream in sink.streams if stream.output]
        if not aside:
            continue
        given = {column.name: column for stream in aside for column in plan.shape(stream).columns}
        for row in sink.sink.read([*given.values(), *([] if _ID.name in given else [_ID])]):
            its = row.get("_id")
            if its is not None and identity is not None:
                mine = bytes(its) == identity
            else:  # it has no id: what is alike may be another one
                mine = trace.value is not None and row.get("payload") == trace.value
            if mine:
                by = str(row.get("node") or aside[0])
                yield Aside(name, by, str(row.get("reason") or aside[0].output), row.get("at"))


def _identity(node: Node, trace: Trace) -> bytes | None:
    """Return the `_id` of a message's row, as Spark makes it of the columns that tell rows apart."""
    if not node.identity or not set(node.identity) <= trace.place.keys():
        return None
    values = [trace.place[name] for name in node.identity]
    text = node.name + "".join(f"{len(value.encode())}:{value}" for value in values)
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()
