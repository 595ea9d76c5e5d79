"""Looks at a pipeline's checkpoint, and copies it, without Spark."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from mainstem.contracts.abilities import Verifiable
from mainstem.durable import made_folder, sync_folder, sync_tree
from mainstem.errors import PipelineError
from mainstem.history import History
from mainstem.observation.meeting import LAST, SOCKET
from mainstem.plan.model import Plan
from mainstem.relays.log import RelayLog
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.description import describe, read_description
from mainstem.run.lag import query_lags, summed
from mainstem.run.rollback import COPIED

_LEFT_OUT = {"lock", "set-aside", "replays", SOCKET, LAST}


def show(plan: Plan) -> dict[str, Any]:
    """Return what the checkpoint holds, by query.

    `batch` is the last that is done; `offsets` by source are the ends that it read to. What would be
    read next: `next`, the ends of a batch that was planned and not finished, or None, then the
    next batch is planned anew from `unread`: rows and seconds by source, where it can tell.
    `state_bytes` is the size of all versions on record.

    Raises:
        PipelineError: it can't be read.
    """
    try:
        return _shown(plan)
    except (ValueError, OSError, IndexError) as error:
        raise PipelineError(f"{plan.checkpoint} can't be read: {error}; see `verify`") from error


def _shown(plan: Plan) -> dict[str, Any]:
    queries = {}
    for query in plan.queries:
        history = History(plan.query_folder(query.name))
        last = history.last()
        planned = [batch for batch in history.planned() if last is None or batch > last]
        queries[query.name] = {
            "batch": last,
            "watermark": history.watermark(),
            "offsets": {} if last is None else dict(history.offsets(last).ends),
            "next": dict(history.offsets(planned[-1]).ends) if planned else None,
            "unread": summed(query_lags(plan, query, history.folder)),
            "state_bytes": sum(
                file.stat().st_size
                for file in (history.folder / "state").rglob("*")
                if file.is_file()
            ),
        }
    return {"pipeline": plan.pipeline, "folder": str(plan.checkpoint), "queries": queries}


def verify(plan: Plan) -> list[str]:
    """Return what is wrong with the checkpoint; empty if a run can go on from it."""
    try:
        before = read_description(plan.checkpoint / "pipeline.json")
    except PipelineError as error:
        return [str(error)]
    found = []
    for query in plan.queries:
        folder = plan.query_folder(query.name)
        if not folder.exists():
            continue  # new in the document
        try:
            str(json.loads((folder / "metadata").read_text())["id"])
        except (OSError, ValueError, KeyError) as error:
            found.append(f"{query.name}: metadata can't be read: {error}")
        stateful = any(plan.nodes[name].state for name in query.streaming)
        problems = History(folder).problems(stateful=stateful)
        found += [f"{query.name}: {problem}" for problem in problems]
    for node in plan.nodes.values():
        if isinstance(node.component, Verifiable):
            found += [
                f"{node.name}: {each}" for each in node.component.damage(plan.home(node.name))
            ]
    if not found:  # it is whole: can this document go on from it?
        refused = Checkpoint(plan, checked=False).problems(before, describe(plan))
        found = [str(problem) for problem in refused]
    return found


def copy(plan: Plan, into: Path) -> Path:
    """Copy the checkpoint into another folder of checkpoints, as the start of a fork; return it.

    The copy's queries have ids of their own, so that sinks tell its batches from the original's.

    Raises:
        PipelineError: the pipeline runs, or there is something already.
    """
    target = into / plan.pipeline
    if target.exists():
        raise PipelineError(f"{target} is there already")
    if not (plan.checkpoint / "pipeline.json").exists():
        raise PipelineError(f"there is no checkpoint in {plan.checkpoint}")
    if target.resolve().is_relative_to(plan.checkpoint.resolve()):
        raise PipelineError(f"{target} lies in the checkpoint itself")
    with Checkpoint(plan, checked=False):
        made_folder(into)
        unfinished = into / f".{plan.pipeline}.copy"
        shutil.rmtree(unfinished, ignore_errors=True)

        def left_out(folder: str, names: list[str]) -> set[str]:
            return _LEFT_OUT & set(names) if Path(folder) == plan.checkpoint else set()

        shutil.copytree(plan.checkpoint, unfinished, ignore=left_out)
        ids = {}
        for file in unfinished.glob("queries/*/metadata"):
            ids[json.loads(file.read_text())["id"]] = made = str(uuid.uuid4())
            file.write_text(json.dumps({"id": made}))
            file.with_name(".metadata.crc").unlink(missing_ok=True)
            last = History(file.parent).last()
            file.with_name(COPIED).write_text(str(-1 if last is None else last))
        for relay in unfinished.glob("relays/*"):
            RelayLog(relay).rename(ids)
        sync_tree(unfinished)
        unfinished.rename(target)
        sync_folder(into)
    return target
