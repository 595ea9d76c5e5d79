"""The checkpoint folder of a pipeline.

- `pipeline.json`: format version, and for each query its anchor, the first batch of each sink and the
  identity of each stateful operator
- `lock`: held while a runner works; gone with its process, however that ended
- `epoch`: how many runs there have been
- `queries/<name>/`: Spark's own checkpoint of a query
- `nodes/<name>/`: a durable folder for a source that asks for one; `state/<query>/` in it for an
  operator, and `control/<query>/` for the control stream
- `relays/<name>/`: the log of a relay; see `mainstem.relays.log`
- `swapping`: while what was rebuilt is put in place
- `set-aside/`: what was there of queries that started over; never read again
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from mainstem.crashpoints import failpoint
from mainstem.durable import made_folder, private_folder, read_whole, sync_folder, write_whole
from mainstem.errors import DocumentError, MachineError, PipelineError, Problem
from mainstem.history import History
from mainstem.plan.model import Plan
from mainstem.relays.components import RelaySink, RelaySource
from mainstem.relays.log import RelayLog
from mainstem.run import rollback, swapping
from mainstem.run.description import changes, describe, read_description
from mainstem.run.syncing import mend


class AlreadyRunning(PipelineError):  # noqa: N818
    """Another process holds a checkpoint.

    Attributes:
        path: the checkpoint.
    """

    def __init__(self, holder: str, path: Path) -> None:
        super().__init__(
            f"the pipeline is already running on this checkpoint (process {holder}, {path})"
        )
        self.path = path


class Checkpoint:
    """A pipeline's checkpoint folder, held by this process while it is entered.

    Args:
        fresh: the queries that start over: what is there of them is set aside.
        checked: hold the plan against what the checkpoint was made by, and write it down; a run
            does.

    Attributes:
        epoch: the number of the run, higher than that of every run before.
        run: a random text for the run.
    """

    def __init__(self, plan: Plan, *, fresh: Sequence[str] = (), checked: bool = True) -> None:
        self.plan = plan
        self.path = plan.checkpoint
        self._fresh = fresh
        self._checked = checked
        self.epoch = 0
        self.run = uuid.uuid4().hex

    def __enter__(self) -> Checkpoint:
        try:
            private_folder(self.path)
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
            raise AlreadyRunning(holder, self.path) from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        try:
            swapping.finish(self.plan)
            for mark in sorted(self._aside.glob("*.begun")):
                self._move_aside(mark)
            for name in _starting_over(self.plan, self._fresh):
                self._set_aside(name)
            for query in self.plan.queries:
                rollback.finish(self.plan, query)
                if self._checked:
                    stateful = any(self.plan.nodes[name].state for name in query.streaming)
                    mend(self.query(query.name), stateful=stateful)
            if self._checked:
                self._check()
                for query in self.plan.queries:
                    self._empty_unbegun(query.name)
                self.epoch = self._next_epoch()
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
        return self.plan.query_folder(name)

    def node(self, name: str) -> Path:
        """Return a node's durable folder, made when it is not there yet."""
        return made_folder(self.path / "nodes" / name)

    def _set_aside(self, name: str) -> None:
        """Move what belongs to a query into `set-aside/`, so that it starts over."""
        self.plan.query(name)
        mark = made_folder(self._aside) / f"{name}.begun"
        write_whole(mark, f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        self._move_aside(mark)

    @property
    def _aside(self) -> Path:
        return self.path / "set-aside"

    def _move_aside(self, mark: Path) -> None:
        """Move all that belongs to a query; the next run does what is left, if this one is killed."""
        name, aside = mark.stem, self._aside / read_whole(mark)
        of_nodes = (
            sorted(self.path.glob(f"nodes/*/{kind}/{name}")) for kind in ("control", "state")
        )
        relays = [self.path / "relays" / sink for sink in _relays(self.plan, name)]
        for folder in (*chain.from_iterable(of_nodes), *relays, self.query(name)):
            if folder.exists():
                place = aside / folder.relative_to(self.path)
                made_folder(place.parent)
                folder.rename(place)
                sync_folder(place.parent)
                sync_folder(folder.parent)
                failpoint("fresh.set-aside")
        mark.unlink()

    def _check(self) -> None:
        """Hold the plan against what the checkpoint was made by, then write the plan down."""
        file = self.path / "pipeline.json"
        now = describe(self.plan)
        if file.exists():
            before = read_description(file)
            origin = before.get("origin", "")
            if origin != self.plan.origin and not self._fresh:
                raise PipelineError(
                    f"{self.path} was begun as {origin!r}, and this is {self.plan.origin!r}; "
                    "start over with `--fresh`"
                )
            self._refuse(before, now)
            for name, query in now["queries"].items():
                old = before["queries"].get(name, {})
                query["sinks"] = self._beginnings(name, old)
                for node, state in query["state"].items() if self._begun(name) else ():
                    known = old.get("state", {}).get(node, {}).get("types", {})
                    state["types"] = known | state["types"]  # a plan may know fewer
            now["queries"] = before["queries"] | now["queries"]
        write_whole(file, json.dumps(now, indent=2, sort_keys=True))

    def begins(self, name: str) -> dict[str, int]:
        """Return the first batch of each sink of a query in this checkpoint, by the sink's name."""
        found = read_description(self.path / "pipeline.json")["queries"][name].get("sinks", {})
        own = rollback.copied(self.query(name)) + 1
        return {sink: max(first, own) for sink, first in found.items()}

    def _beginnings(self, name: str, before: dict[str, Any]) -> dict[str, int]:
        """Return the first batch of each sink, given what was written down for the query."""
        last = History(self.query(name)).last()
        first = 0 if last is None else last + 1
        query = self.plan.query(name)
        known = before.get("sinks")
        if known is None or last is None:  # written down by an older version, or not begun
            return dict.fromkeys(query.sinks, 0)
        return {sink: known.get(sink, first) for sink in query.sinks}

    def _next_epoch(self) -> int:
        """Count this run; the number is on disk before anything is done under it."""
        file = self.path / "epoch"
        try:
            epoch = int(read_whole(file)) + 1 if file.exists() else 1
        except (OSError, ValueError) as error:
            raise PipelineError(f"{file} can't be read: {error}") from None
        write_whole(file, str(epoch))
        return epoch

    def _refuse(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Refuse a plan whose state or sources the checkpoint can't serve."""
        if problems := self.problems(before, now):
            raise DocumentError(problems)

    def look_again(self, plan: Plan) -> None:
        """Hold a plan that knows more types against the checkpoint, and write them down.

        Raises:
            DocumentError: state has values of other types.
        """
        self.plan = plan
        if self._checked:
            self._check()

    def problems(self, before: dict[str, Any], now: dict[str, Any]) -> list[Problem]:
        """Return what a plan has that the checkpoint can't serve.

        Args:
            before: as `pipeline.json` has it.
            now: the plan's, by `describe`.
        """
        problems = []
        for name, query in now["queries"].items():
            old = before["queries"].get(name)
            if old is None or not self._begun(name):
                continue
            for change in changes(old, query, self._read(name)):
                hint = (
                    f"Change it back, or start over with `--fresh {name}`: its state is set aside and "
                    "its sources are read from their start, or from what is left of their logs."
                )
                message = f"the checkpoint of query {name!r} can't be used: {change}"
                problems.append(Problem(message, "", self.plan.file, hint=hint))
        problems += self._renamed(before["queries"], now["queries"])
        return problems + self._unread(before["queries"])

    def _empty_unbegun(self, name: str) -> None:
        """Remove what a run left that was killed before it had planned a first batch.

        Spark refuses to begin where there is anything, be it half a file.
        """
        history = History(self.query(name))
        if not history.planned() and not history.committed():
            for part in ("offsets", "commits", "state"):
                shutil.rmtree(history.folder / part, ignore_errors=True)

    def _begun(self, name: str) -> bool:
        """Whether a query has planned a batch, so that there is something to go on from."""
        return bool(History(self.query(name)).planned())

    def _read(self, name: str) -> set[str]:
        """Return the sources that a query has really read: those in its last offsets."""
        history = History(self.query(name))
        try:
            ends = history.offsets(max(history.planned())).ends
        except (ValueError, OSError) as error:
            raise PipelineError(f"{self.query(name)} can't be read: {error}") from error
        return {source for source, end in ends.items() if end is not None}

    def _renamed(self, before: dict[str, Any], now: dict[str, Any]) -> list[Problem]:
        """Return a problem for each new query that looks like one that is gone, under another name."""
        gone = {
            name: set(query["sources"])
            for name, query in before.items()
            if name not in now and query["state"] and self._begun(name)
        }
        problems = []
        for name, query in now.items():
            if name in self._fresh or not query["state"] or self._begun(name):
                continue
            for old, sources in gone.items():
                if sources & set(query["sources"]):
                    message = f"query {old!r} is gone and {name!r} is new: it would start over"
                    hint = (
                        f"Rename {name!r} back to {old!r} to go on from its state, or start over "
                        f"with `--fresh {name}`."
                    )
                    problems.append(Problem(message, "", self.plan.file, hint=hint))
        return problems

    def _unread(self, before: dict[str, Any]) -> list[Problem]:
        """Return a problem for each relay that the plan no longer has, and that has rows nobody read."""
        problems: list[Problem] = []
        folders = sorted((self.plan.checkpoint / "relays").glob("*")) if not self._fresh else []
        for folder in folders:
            if folder.name in self.plan.nodes:
                continue
            log, base = RelayLog(folder), folder.name.removesuffix("_relay")
            ends = {f"{base}_relayed", f"{base}_untimed_relayed"}
            readers = [name for name, query in before.items() if ends & set(query["sources"])]
            if not readers:
                continue  # an earlier run has looked, when the document was changed
            read = [self._segment(name, ends) for name in readers]
            rows = sum(
                entry.rows for entry in log.after(max(min(read, default=0), log.first() - 1))
            )
            if rows:
                message = (
                    f"the document has no {folder.name} any more, which has {rows} rows to be read"
                )
                hint = "Run it as it was until all is read, and change it then; or start over: `--fresh`."
                problems.append(Problem(message, "", self.plan.file, hint=hint))
        return problems

    def _segment(self, name: str, ends: Collection[str]) -> int:
        """Return up to which segment a query has read a relay by one of its ends."""
        history = History(self.query(name))
        committed = history.committed()
        told = history.offsets(committed[-1]).ends if committed else {}
        return min((told[end]["segment"] for end in ends if told.get(end)), default=0)


def _starting_over(plan: Plan, fresh: Sequence[str]) -> list[str]:
    """Return the queries that start over: those that are asked to, and all that reads their relays.

    Raises:
        PipelineError: one of them reads a relay that has let go of what it has read.
    """
    names = {plan.query(name).name for name in fresh}
    for query in plan.queries:  # each after those that it reads
        if query.above & names:
            names.add(query.name)
    for query in plan.queries:
        for name in query.reads if query.name in names else ():
            source = plan.nodes[name].component
            if not isinstance(source, RelaySource) or not (query.above - names):
                continue
            if (first := source.first()) > 1:
                above = ", ".join(sorted(query.above - names))
                raise PipelineError(
                    f"{query.name} can't start over alone: what {above} gave before segment {first} is "
                    f"gone. Start over with `--fresh {above}`"
                )
    return [query.name for query in plan.queries if query.name in names]


def _relays(plan: Plan, query: str) -> list[str]:
    """Return the names of the relays that a query writes; none where the plan no longer has it."""
    sinks = (name for each in plan.queries if each.name == query for name in each.sinks)
    return [name for name in sinks if isinstance(plan.nodes[name].component, RelaySink)]
