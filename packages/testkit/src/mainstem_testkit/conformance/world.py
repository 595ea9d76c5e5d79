"""A world in which runs of a pipeline write batches through a strategy, and anything may happen to them.

A run is a process: it writes a batch until that goes well, has it committed in Spark's log, and goes on
to the next. Every call at the external system is one step, at which somebody from outside decides which
run goes on and what comes of its call: it is done, it fails, it is done and its answer is lost, or the
process is killed. A run that is not chosen stands still; meanwhile the next run of the checkpoint may
begin, and the old one may come back to life later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]
from mainstem import Batch, FencedError, Level

from mainstem_testkit.conformance._delivery import ANEW, FIRST, Setting
from mainstem_testkit.conformance.external_system import (
    ExternalSystem,
    Frame,
    Row,
    Session,
    sink_class,
)

#: What comes of a call.
DONE, FAIL, LOST, KILL = "done", "fail", "lost", "kill"
#: A run, by its number, and what comes of its call; run 0 stands for a checkpoint that starts over.
Decision = tuple[int, str]
BEGIN_ANEW: Decision = (0, ANEW)

_ALL = (DONE, FAIL, LOST, KILL)
_OUTCOMES: Mapping[str, tuple[str, ...]] = {"commit": (DONE, KILL), "committed": (DONE, FAIL, KILL)}
_TOLD = {
    DONE: "done",
    FAIL: "failed",
    LOST: "done, and the answer was lost",
    KILL: "the process was killed",
}
#: More steps without a fault than any strategy needs.
_ENOUGH = 300


class Pending(NamedTuple):
    """A call that waits for its outcome."""

    name: str
    batch: Batch
    whole: Callable[[], Any]
    part: Callable[[], Any]


@dataclass
class Log:
    """Spark's log of a checkpoint: the last batch that is committed, and what each had refused."""

    committed: int = -1
    epoch: int = 0
    refused: dict[int, tuple[Row, ...]] = field(default_factory=dict)


class Run:
    """One process that runs the pipeline."""

    def __init__(self, world: World, label: int, query_id: str, epoch: int) -> None:
        self.label = label
        self.query_id = query_id
        self.epoch = epoch
        self.world = world
        self.pending: Pending | None = None
        self.killed = False
        self.disturbed = False
        self.batch = -1
        self._life = greenlet(self._live)

    @property
    def calls(self) -> str:
        """The name of the call that waits for its outcome."""
        return _pending(self).name

    def go_on(self, answer: Any = None, error: Exception | None = None) -> None:
        """Let the process go on until its next call, or its end."""
        self.pending = None
        if error is not None:
            self._life.throw(error)
        else:
            self._life.switch(answer)

    def kill(self) -> None:
        """End the process: nothing that it still does has an effect."""
        self.pending = None
        self.killed = True
        del self._life  # raises GreenletExit in it

    def call(
        self, name: str, batch: Batch, whole: Callable[[], Any], part: Callable[[], Any]
    ) -> Any:
        """Wait until the call's outcome is decided; called in the process."""
        if self.killed:
            raise GreenletExit
        self.pending = Pending(name, batch, whole, part)
        return self.world.hub.switch()

    @property
    def replaced(self) -> bool:
        """Whether another run has taken over."""
        world = self.world
        return self.query_id != world.query_id or self.epoch < world.logs[self.query_id].epoch

    def _live(self, _: None) -> None:
        world, log = self.world, self.world.logs[self.query_id]
        strategy = world.setting.make()
        frame = world.frame
        sink = sink_class(world.setting.sink.abilities)(
            world.setting.sink, world.system, self.call, frame
        )
        self.batch = log.committed + 1
        while self.batch < world.limit:
            batch = world.batch(self.batch, self.query_id, self.epoch)
            self.disturbed = False
            try:
                rows = world.given[self.query_id][self.batch]
                given: Any = frame(rows, ids=world.setting.ids)
                refused = strategy.write(sink, given, batch)
            except Exception as error:
                if self.replaced or self.killed:
                    return
                if self.disturbed and not isinstance(error, FencedError):
                    continue
                world.fault("errors", f"raised {_told(error)}, and nothing had failed")
                return
            if self.killed:
                return
            if not (refused is None or isinstance(refused, Frame)):
                world.fault("errors", f"returned {refused!r}, which is neither None nor a frame")
                return
            if not given.read:
                text = (
                    f"batch {self.batch} was left unread: Spark fails a query with state for that"
                )
                world.fault("frames", text)
            told = refused.rows if refused is not None else ()
            self.call("commit", batch, partial(self._commit, told), lambda: None)
            if self.replaced:
                return  # Spark's log does not take its batch
            self.batch += 1

    def _commit(self, refused: tuple[Row, ...]) -> None:
        if not self.replaced:
            log = self.world.logs[self.query_id]
            log.committed = self.batch
            log.refused[self.batch] = refused


class World:
    """The runs of a pipeline, the external system that they write to, and what has happened so far.

    Attributes:
        faults: what was wrong, by the kind of fault; see `check`.
        names: of the calls that were made.
        limit: how many batches there are for now.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.system = ExternalSystem(replaces=setting.sink.replaces, apart=setting.sink.apart)
        self.given = setting.given
        self.limit = setting.batches - 1
        self.hub = getcurrent()
        self.runs: list[Run] = []
        self.query_id = FIRST
        self.logs = {FIRST: Log()}
        self.faults: dict[str, str] = {}
        self.steps: list[tuple[Any, ...]] = []
        self.names: set[str] = set()
        self._seen_from: dict[str, int] = {}
        self._session = Session(self._touched)

    # -- what there is ----------------------------------------------------------------------

    def batch(self, number: int, query_id: str, epoch: int) -> Batch:
        """Return a batch as the core hands it over."""
        session: Any = self._session
        shape = self.setting.shape
        return Batch(number, "model", "rows", query_id, "model", session, shape, epoch)

    def frame(self, rows: Sequence[Row], *, ids: bool = False) -> Frame:
        """Return rows as a frame."""
        return Frame(rows, self._touched, ids=ids)

    def fault(self, kind: str, text: str) -> None:
        """Note what is wrong."""
        self.faults.setdefault(kind, text)

    def _touched(self, text: str) -> None:
        self.fault("frames", text)

    def alive(self) -> list[Run]:
        """Return the runs that wait for the outcome of a call."""
        return [run for run in self.runs if run.pending is not None]

    def choices(self) -> list[Decision]:
        """Return what can be decided now."""
        alive = self.alive()
        found = [(r.label, o) for r in alive for o in _OUTCOMES.get(r.calls, _ALL)]
        if len(alive) < self.setting.runs and self.logs[self.query_id].committed < self.limit - 1:
            found += [(len(self.runs) + 1, outcome) for outcome in _ALL]
        if self.query_id == FIRST:
            found.append(BEGIN_ANEW)
        return found

    # -- what happens -----------------------------------------------------------------------

    def take(self, decision: Decision) -> None:
        """Let happen what was decided; the next run, if it is that, begins.

        Raises:
            ValueError: there is no such run.
        """
        label, outcome = decision
        if decision == BEGIN_ANEW and self.query_id == FIRST:
            for run in self.alive():
                run.kill()
            self.query_id, self.logs[ANEW] = ANEW, Log()
            self.steps.append(decision)
            return
        if not 1 <= label <= len(self.runs) + 1:
            raise ValueError(f"there is no run {label}, or it is not its turn to begin")
        run = self.begin() if label == len(self.runs) + 1 else self.runs[label - 1]
        if run.pending is not None:  # else it has come to its end
            possible = _OUTCOMES.get(run.calls, _ALL)
            self.step(run, outcome if outcome in possible else possible[-1])

    def begin(self) -> Run:
        """Begin the next run of the checkpoint."""
        log = self.logs[self.query_id]
        log.epoch += 1
        run = Run(self, len(self.runs) + 1, self.query_id, log.epoch)
        self.runs.append(run)
        run.go_on()
        return run

    def step(self, run: Run, outcome: str) -> None:
        """Let a run's call have an outcome, and the run go on to its next call."""
        call = _pending(run)
        before = self.system.changes
        self.steps.append((run, call, outcome))
        self.names.add(call.name)
        answer: Any = None
        error: Exception | None = None
        try:
            answer = call.whole() if outcome in (DONE, LOST) else call.part()
        except Exception as raised:
            error = raised
            self.steps[-1] = (run, call, outcome, error)
        if self.system.changes != before:
            self._effect(run, call)
        if outcome == KILL:
            run.kill()
            return
        if outcome != DONE and error is None:
            run.disturbed = True
            error = ConnectionError("no answer from the external system")
        run.go_on(answer, error)

    def _effect(self, run: Run, call: Pending) -> None:
        since = self._seen_from.get(run.query_id, 0)
        claimed = self.setting.promise.level is Level.EXACTLY_ONCE
        if run.epoch < since and claimed:
            self.fault(
                "fencing",
                f"run {run.label} had been replaced, the next had written, and its {call.name} of "
                f"batch {call.batch.id} took effect",
            )
        self._seen_from[run.query_id] = max(since, run.epoch)

    def finish(self) -> None:
        """Let all come to its end without faults: the newest run, those before it, and one more."""
        self.steps.append(())
        for run in reversed(self.alive()):
            self._to_its_end(run)
        self.limit = self.setting.batches
        self._to_its_end(self.begin())

    def _to_its_end(self, run: Run) -> None:
        for _ in range(_ENOUGH):
            if run.pending is None:
                return
            self.step(run, DONE)
        self.fault("errors", f"run {run.label} does not come to an end, though nothing fails")

    def close(self) -> None:
        """End all processes."""
        for run in self.alive():
            run.kill()

    # -- what must hold ---------------------------------------------------------------------

    def check(self) -> None:
        """Compare the external system, at the end, with what was promised."""
        if self.faults:
            return
        promise, system = self.setting.promise, self.system
        committed = {(q, n) for q, log in self.logs.items() for n in range(log.committed + 1)}
        there = Counter(row for _, row in system.rows)
        if system.keyed:
            self._check_table()
        else:
            batches = {
                (q, n): rows for q, each in self.given.items() for n, rows in enumerate(each)
            }
            wanted = {row for place in committed for row in batches[place] if row.good}
            lost = sorted(row.name for row in wanted - there.keys())
            if lost and not promise.may_lose:
                self.fault("lost", f"not there: {', '.join(lost)}")
        twice = sorted(row.name for row, count in there.items() if count > 1)
        if twice and not promise.may_double:
            self.fault("doubled", f"more than once there: {', '.join(twice)}")
        for query_id, number in sorted(committed):
            rows = self.given[query_id][number]
            refused = tuple(row for row in rows if not row.good)
            told = self.logs[query_id].refused[number]
            went_in = system.keyed or any(row.good and row in there for row in rows)
            if told != (refused if went_in else ()):
                told_of = ", ".join(row.name for row in told) or "none"
                self.fault(
                    "refused",
                    f"batch {number} {'went' if went_in else 'did not go'} in, and of what it had "
                    f"refused ({refused[0].name}) was told: {told_of}",
                )
        left = [place for place in system.staged if place[0] == self.query_id]
        if left:
            self.fault("staging", f"rows of batch {left[0][1]} are left at the staging place")

    def _check_table(self) -> None:
        promise = self.setting.promise
        wanted = self.setting.table(self.query_id)
        found = {key: value for key, (_, value) in self.system.table.items() if value is not None}
        if found != wanted and not (promise.may_lose or promise.may_double):
            self.fault("table", f"the table is {found}, and the newest changes make {wanted}")

    def transcript(self) -> Iterator[str]:
        """Yield what has happened, a line for each step."""
        for step in self.steps:
            if not step:
                yield "from here on without faults:"
            elif step == BEGIN_ANEW:
                yield "all runs are killed, and another checkpoint begins"
            else:
                run, call, outcome, *error = step
                told = f"raised {_told(error[0])}" if error else _TOLD[outcome]
                yield f"run {run.label} (epoch {run.epoch}): {call.name} of batch {call.batch.id}: {told}"


def _pending(run: Run) -> Pending:
    assert run.pending is not None
    return run.pending


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
