"""The checkpoint folder of a pipeline.

- `pipeline.json`: format version, and for each query its anchor and the identity of each stateful
  operator
- `lock`: held while a runner works; gone with its process, however that ended
- `queries/<name>/`: Spark's own checkpoint of a query
- `nodes/<name>/`: a durable folder for a node that asks for one
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from mainstem.errors import DocumentError, MachineError, PipelineError, Problem
from mainstem.plan.model import Plan

FORMAT = 1


class Checkpoint:
    """A pipeline's checkpoint folder, held by this process while it is entered."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.path = plan.checkpoint

    def __enter__(self) -> Checkpoint:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("a+")
        except OSError as error:
            raise MachineError(
                f"can't write to the checkpoint {self.path}: {error.strerror}"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            holder = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise PipelineError(
                f"the pipeline is already running on this checkpoint (process {holder}, {self.path})"
            ) from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        try:
            self._check()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()

    def query(self, name: str) -> Path:
        """Return the folder of Spark's checkpoint of a query."""
        return self.path / "queries" / name

    def node(self, name: str) -> Path:
        """Return a node's durable folder, made when it is not there yet."""
        folder = self.path / "nodes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _check(self) -> None:
        """Hold the plan against what the checkpoint was made by, then write the plan down."""
        file = self.path / "pipeline.json"
        now = describe(self.plan)
        if file.exists():
            before = json.loads(file.read_text())
            if before.get("format") != FORMAT:
                raise PipelineError(
                    f"{file} has format {before.get('format')}, and this version reads {FORMAT}; "
                    "run it with the version of mainstem that wrote it, or remove the checkpoint"
                )
            self._refuse(before, now)
            now["queries"] = before["queries"] | now["queries"]
        whole = file.with_suffix(".new")
        whole.write_text(json.dumps(now, indent=2, sort_keys=True))
        with whole.open() as written:
            os.fsync(written.fileno())
        whole.replace(file)

    def _refuse(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Refuse a plan whose state or sources the checkpoint can't serve."""
        problems = []
        for name, query in now["queries"].items():
            old = before["queries"].get(name)
            if old is None or not (self.query(name) / "offsets").exists():
                continue
            for change in _changes(old, query):
                hint = f"Rename {query['anchor']!r} to begin anew, or remove {self.query(name)}."
                message = f"the checkpoint of query {name!r} can't be used: {change}"
                problems.append(Problem(message, "", self.plan.file, hint=hint))
        if problems:
            raise DocumentError(problems)


def describe(plan: Plan) -> dict[str, Any]:
    """Return what `pipeline.json` holds for a plan."""
    return {
        "format": FORMAT,
        "pipeline": plan.pipeline,
        "queries": {
            query.name: {
                "anchor": query.anchor,
                "sources": dict(query.reads),
                "state": {
                    name: {
                        "operator": f"{node.distribution}:{node.word}",
                        "version": node.state.version,
                        "shaped_by": json.loads(json.dumps(node.state.shaped_by, default=str)),
                    }
                    for name in query.streaming
                    if (node := plan.nodes[name]).state
                },
            }
            for query in plan.queries
        },
    }


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    found = []
    if before["anchor"] != now["anchor"]:
        found.append(f"it was anchored at {before['anchor']!r}, and now is at {now['anchor']!r}")
    for name, times in before["sources"].items():
        if now["sources"].get(name, 0) < times:
            found.append(f"it reads the source {name!r}, which is gone or read less often")
    for name, state in before["state"].items():
        new = now["state"].get(name)
        if new is None:
            found.append(f"it has the state of {name!r}, which is gone")
            continue
        for key in ("operator", "version"):
            if new[key] != state[key]:
                found.append(f"{name!r} had {key} {state[key]}, and now has {new[key]}")
        for key in sorted(state["shaped_by"].keys() | new["shaped_by"].keys()):
            old_value, new_value = state["shaped_by"].get(key), new["shaped_by"].get(key)
            if old_value != new_value:
                found.append(f"{name!r} had {key} {old_value!r}, and now has {new_value!r}")
    found += [
        f"{name!r} is new and has no state in it" for name in now["state"].keys() - before["state"]
    ]
    return found
