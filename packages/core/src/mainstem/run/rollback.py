"""Takes a query back to an earlier batch."""

from __future__ import annotations

import json
from pathlib import Path

from mainstem.contracts.abilities import Forgetful, Rewindable
from mainstem.crashpoints import failpoint
from mainstem.durable import read_whole, sync_folder, sync_tree, write_whole
from mainstem.errors import PipelineError
from mainstem.history import History
from mainstem.plan.bootstrap import reads_of
from mainstem.plan.guarantee import promised
from mainstem.plan.model import Plan, Query, SinkNode
from mainstem.relays.components import RelaySink
from mainstem.run.latest import forget_latest
from mainstem.run.syncing import remove_state

#: Stands in a query's folder while it is taken back; holds the batch.
_MARK = "rollback"
#: Stands in a query's folder of a copy; holds the last batch that the original had done.
COPIED = "copied"


def refusals(plan: Plan, query: Query, batch: int) -> list[str]:
    """Return why a query can't be taken back to the end of a batch; empty if it can."""
    history = History(plan.query_folder(query.name))
    done = [number for number in history.committed() if number in history.planned()]
    if batch not in done:
        have = f"{done[0]} to {done[-1]}" if done else "none"
        return [f"batch {batch} is not among those on record: {have}"]
    stateful = any(plan.nodes[name].state for name in query.streaming)
    found = history.missing_state(batch) if stateful else []
    if batch < (made := copied(history.folder)):
        found.append(
            f"the checkpoint is a copy made after batch {made}, and sinks do not know what its original "
            "wrote before"
        )
    for name in query.reads:
        source = plan.nodes[name].source
        if not source.capabilities.replayable or not isinstance(source, Rewindable):
            found.append(f"{name}: {plan.nodes[name].word} can't tell that it can be read again")
            continue
        for read in reads_of(query, name):
            if gone := source.gone(history.reached(read, plan.home(name), batch)):
                found.append(f"{name} no longer has what was read since: {gone}")
    for name in query.sinks:
        node = plan.nodes[name]
        assert isinstance(node, SinkNode)  # noqa: S101
        assert node.delivery is not None  # noqa: S101
        if isinstance(node.sink, RelaySink) and (
            below := node.sink.read_beyond(_id(history), batch)
        ):
            found.append(f"{', '.join(below)} has read what later batches gave: take it back first")
        shape = plan.shape(node.streams[0])
        doubling = promised(node.delivery_word, node.delivery, node.sink, shape).may_double
        # Who knows batches, and not rows, would take what comes again for batches that are in.
        marked = node.sink.capabilities.needs_id and doubling
        knows = marked or node.delivery.capabilities.knows_rows
        if not knows and not isinstance(node.sink, Forgetful):
            found.append(
                f"{name}: {node.word} can neither take back what it wrote nor tell rows that it has"
            )
    return found


def effects(plan: Plan, query: Query, batch: int) -> list[str]:
    """Return what taking a query back to the end of a batch does, a line for each part.

    Raises:
        PipelineError: it can't be taken back; says why.
    """
    check(plan, query, batch)
    history = History(plan.query_folder(query.name))
    last = max([batch, *history.planned()])
    told = [f"{query.name}: batches {batch + 1} to {last} are forgotten, and planned anew"]
    told += [f"{name}: what was read since is read again" for name in query.reads]
    for name in query.sinks:
        sink = plan.nodes[name].component
        kept = "rows come again, and are known by what it holds"
        done = "what later batches wrote is taken back" if isinstance(sink, Forgetful) else kept
        told.append(f"{name}: {done}")
    return told


def check(plan: Plan, query: Query, batch: int) -> None:
    """Raise PipelineError if a query can't be taken back to the end of a batch."""
    reasons = refusals(plan, query, batch)
    if reasons:
        raise PipelineError(
            f"query {query.name!r} can't be taken back to batch {batch}: " + "; ".join(reasons)
        )


def copied(folder: Path) -> int:
    """Return the last batch that the original had done when a query was copied; -1 for an original."""
    file = folder / COPIED
    return int(file.read_text()) if file.exists() else -1


def take_back(plan: Plan, query: Query, batch: int) -> None:
    """Take a query back to the end of a batch; the pipeline must not run.

    A crash in between is made good by the next run, or the same command.

    Raises:
        PipelineError: a source no longer has the rows, or a sink can't bear it; says which.
    """
    check(plan, query, batch)
    write_whole(plan.query_folder(query.name) / _MARK, str(batch))
    finish(plan, query)


def finish(plan: Plan, query: Query) -> None:
    """Remove what lies after the batch that a query is being taken back to, if it is."""
    folder = plan.query_folder(query.name)
    mark = folder / _MARK
    if not mark.exists():
        return
    batch = int(read_whole(mark))
    query_id = _id(History(folder))
    for name in query.sinks:
        node = plan.nodes[name]
        if isinstance(node, SinkNode) and isinstance(node.sink, Forgetful):
            node.sink.forget(query_id, batch)
    failpoint("rollback.after-forget")
    for log in ("offsets", "commits"):
        for file in (folder / log).glob("*"):
            if file.name.strip(".").removesuffix(".crc").isdigit() and _number(file) > batch:
                file.unlink()
    failpoint("rollback.after-logs")
    _forget_control_rows(plan, query, batch)
    remove_state(folder, after=batch)
    forget_latest(folder)
    sync_tree(folder)
    mark.unlink()


def _forget_control_rows(plan: Plan, query: Query, batch: int) -> None:
    """Remove the control rows that a batch and those before it have not read, and Spark's log of them.

    The next batch would read those that are left, and be under the watermarks of later days. A name
    that is in the log would never be read again, and a flush that closes the same windows has the
    same name.
    """
    folder = plan.query_folder(query.name)
    ends = History(folder).offsets(batch).ends
    for control in plan.checkpoint.glob(f"nodes/*/control/{query.name}"):
        node = control.parent.parent.name
        read = set()
        for log in (folder / "sources").glob(f"{node}__control*"):
            end = ends.get(log.name)
            last = -1 if end is None else int(end["logOffset"])
            for file in log.iterdir():
                if _number(file) > last:
                    file.unlink()
                elif file.name[0].isdigit():
                    rows = [json.loads(line) for line in file.read_text().splitlines()[1:]]
                    read |= {row["path"].rpartition("/")[2] for row in rows}
        for file in control.iterdir():
            if file.name not in read:
                file.unlink()
        sync_folder(control)


def _id(history: History) -> str:
    """Return Spark's id of a query."""
    return str(json.loads((history.folder / "metadata").read_text())["id"])


def _number(file: Path) -> int:
    digits = file.name.lstrip(".").partition(".")[0].partition("_")[0]
    return int(digits) if digits.isdigit() else -1
