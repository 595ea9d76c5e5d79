"""The standard tests of operators.

What comes out must hang on the rows alone: not on how they were cut into batches and partitions, nor on
where the process died between. And no row may be gone in silence.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mainstem import (
    Changelog,
    Expressions,
    Shape,
)
from mainstem.contracts.shapes import REJECTED
from mainstem.plan.model import Plan

from mainstem_testkit.conformance._operator import (
    DAY,
    Course,
    TryingSuite,
    give_ids,
    inputs_of,
    outputs_of,
)
from mainstem_testkit.conformance.examples import (
    START,
    Row,
)
from mainstem_testkit.conformance.suite import not_claimed, proves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OperatorSuite(TryingSuite):
    """The standard tests of an operator.

    ```python
    class TestAggregate(OperatorSuite):
        use = "aggregate"
        inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
        event_time = {"input": "at"}

        def options(self):
            window = {"on": "at", "tumbling": "10 minutes"}
            return {"by": ["k"], "window": window, "columns": {"n": "sum(v)"}}
    ```
    """

    # -- columns ----------------------------------------------------------------------------

    @proves("shape")
    def test_planning_needs_no_spark_and_always_gives_the_same(self) -> None:
        """Shape, outputs, state and expressions need no pyspark, and asking again changes nothing."""
        command = [sys.executable, "-c", _PLANNING, str(self.pipeline().file)]
        planned = subprocess.run(command, capture_output=True, text=True, check=False)
        assert planned.returncode == 0, f"can't be planned without pyspark:\n{planned.stderr}"
        inputs = inputs_of(self.plan())
        for name in ("shape", "outputs", "state"):
            if ask := getattr(self.operator, name, None):
                first, again = ask(inputs), ask(inputs)
                assert first == again, f"{name} is {first}, and when asked again {again}"
        if isinstance(self.operator, Expressions):
            first, again = self.operator.expressions(), self.operator.expressions()
            assert first == again, f"expressions are {first}, and when asked again {again}"

    @proves("shape")
    def test_outputs_have_the_announced_columns_and_types(self) -> None:
        """Frames and rows are as announced, in streams and in batches, at the named outputs too."""
        plan = self.plan()
        for streaming in (True,) if self.stateful else (False, True):
            frame = self._applied(plan, self._frames(plan, {}, streaming=streaming))
            over = f"over {'streams' if streaming else 'batches'}"
            wrong = [f"{over}, {each}" for each in _misfits(plan, frame)]
            assert not wrong, "\n".join(wrong)
        with self._trial(plan) as trial:
            self._feed(trial, self._some(6))
            self._close(trial)
            for output, shape in outputs_of(plan).items():
                for column in (c.name for c in shape.columns if not c.nullable):
                    nulls = [row for row in trial.rows(output) if row[column] is None]
                    assert not nulls, f"{output}: {column} is NOT NULL, but null in {nulls}"

    # -- rows -------------------------------------------------------------------------------

    @proves("batches", dear=True, shown_by="keyed_state")
    def test_batches_partitions_and_restarts_do_not_show(self) -> None:
        """However the input is cut, and wherever it crashes, the same rows (or table) come out."""
        outputs = outputs_of(self.plan())
        tables = {
            output: shape
            for output, shape in outputs.items()
            if isinstance(shape, Changelog) and not (self._invariant and shape.sequence)
        }
        compared = outputs if self._invariant else tables
        if not compared:
            not_claimed("batch_invariant")

        came: dict[str, int] = dict.fromkeys(outputs, 0)

        def check(course: Course) -> None:
            whole, cut = self._play(course.whole), self._play(course)
            for output in outputs:
                came[output] += len(whole[output])
            for output in compared:
                as_told = partial(self._table, tables[output]) if output in tables else list
                _same(output, as_told(whole[output]), as_told(cut[output]))

        self._each_course(self.tries, check)
        assert came["out"], f"of all examples no row came out: write `examples`; there were: {came}"

    def _table(self, shape: Changelog, changes: Sequence[Row]) -> list[Row]:
        """Return the table that changes make, without what hangs on the batches."""
        last: dict[str, Row] = {}
        for row in sorted(changes, key=lambda row: row["_commit_version"]):
            if row["_change_type"] != "update_preimage":
                last[repr([row[name] for name in shape.key])] = row
        there = [row for row in last.values() if row["_change_type"] != "delete"]
        names = [name for name in shape.names if name not in self.by_batch]
        return [{name: row[name] for name in names} for row in there]

    @proves("identity", dear=True, shown_by="keyed_state")
    def test_each_row_has_an_id_of_its_own_that_stays(self) -> None:
        """Where rows have an identity no two have one `_id`, and no other batches change it."""
        plan = self.plan()
        if not give_ids(plan):
            not_claimed("an identity of rows")
        shape = outputs_of(plan)["out"]
        by_batch = isinstance(shape, Changelog) and not shape.sequence

        def check(course: Course) -> None:
            cut = self._play(course, identify=True)["out"]
            ids = [row["_id"] for row in cut]
            shared = [row for row in cut if row["_id"] is None or ids.count(row["_id"]) > 1]
            assert not shared, f"rows without an `_id` of their own: {shared}"
            if self._invariant and not by_batch:
                _same("out", self._play(course.whole, identify=True)["out"], cut)

        self._each_course(2, check)

    @proves("row_wise")
    def test_reserved_columns_pass_untouched(self) -> None:
        """A row-wise operator leaves `_id`, and columns it never heard of, to each row as they came."""
        if not self.operator.capabilities.row_wise:
            not_claimed("row_wise")
        plan = self.plan()
        came: dict[bytes, str] = {}
        rows = {} if self.stateful else self._some_and_odd(4)
        frames = self._frames(plan, rows, streaming=self.stateful, reserved=came)
        frame = self._applied(plan, frames)
        lost = {"_id": "binary", "_extra": "string"}.items() - dict(frame.dtypes).items()
        assert not lost, f"does not pass on {', '.join(sorted(name for name, _ in lost))}"
        if not self.stateful:  # the ids of rows that take a stream are another test's
            found = [(row["_id"], row["_extra"]) for row in frame.collect()]
            changed = [each for each in found if each not in came.items()]
            assert not changed, f"rows came out with other reserved columns: {changed}"
            assert len(set(found)) == len(found), f"rows were made several of: {sorted(found)}"

    @proves("keeps_rows")
    def test_each_row_comes_out_once(self) -> None:
        """As many rows come out, at the main output and the named ones, as went in."""
        if not self.operator.capabilities.keeps_rows:
            not_claimed("keeps_rows")
        rows, plan = self._some_and_odd(6), self.plan()
        with self._trial(plan) as trial:
            self._feed(trial, rows)
            self._close(trial)
            out = {output: len(trial.rows(output)) for output in outputs_of(plan)}
        count = sum(map(len, rows.values()))
        assert sum(out.values()) == count, f"{count} rows went in, and came out: {out}"

    @proves("odd values", runs=True)
    def test_nulls_and_odd_text_do_not_end_the_run(self) -> None:
        """Rows of nulls, or of text that nobody expects, become rows or refused rows, not errors."""
        with self._trial(self.plan()) as trial:
            self._feed(trial, self._some_and_odd(2))
            self._close(trial)

    @proves("odd values", runs=True)
    def test_nothing_comes_of_an_empty_batch(self) -> None:
        """A batch without rows is no error, and gives none."""
        plan = self.plan()
        with self._trial(plan) as trial:
            self._feed(trial, dict.fromkeys(self.inputs, ()))
            self._close(trial)
            made = {output: rows for output in outputs_of(plan) if (rows := trial.rows(output))}
        assert not made, f"rows came of nothing: {made}"

    # -- state and time ---------------------------------------------------------------------

    @proves("late rows", dear=True, shown_by="keyed_state")
    def test_no_late_row_is_lost_in_silence(self) -> None:
        """A row far behind the watermark comes out somewhere, or is counted as late.

        The rows come one by one: where Spark first sums up a task's rows by key, it counts what is
        late after that, so several late rows of one key count as one.
        """
        state, plan, silent = self._state_in_time(), self.plan(), []
        with self._trial(plan) as trial:

            def accounted() -> int:
                late = sum(facts["late_rows"] for facts in trial.facts)
                return int(late) + sum(len(trial.rows(output)) for output in outputs_of(plan))

            self._feed(trial, self._some(4))
            to = self._close(trial)
            self._feed(trial, dict.fromkeys(self.inputs, ()))
            trial.batch()  # what is late is told by the watermark of the batch before the last
            for port, column in self.event_time.items():
                for row in self._some(3)[port]:
                    late = {**row, column: (START - 2 * (state.holds + DAY)).isoformat()}
                    before, to = accounted(), to + state.holds + DAY
                    self._feed(trial, {port: [late]})
                    self._close(trial, to)
                    if accounted() == before:
                        silent.append(f"{port}: {late}")
        assert not silent, "late rows neither came out nor were counted:\n" + "\n".join(silent)

    @proves("state", runs=True)
    def test_state_is_gone_once_time_has_passed(self) -> None:
        """Unless `grows` says why it stays, the watermark's passing by `holds` leaves no state."""
        state = self._state_in_time()
        if state.grows:
            not_claimed(f"state that shrinks: {state.grows}")
        with self._trial(self.plan()) as trial:
            self._feed(trial, self._some(6))
            self._close(trial)
            self._feed(trial, dict.fromkeys(self.inputs, ()))
            trial.batch()
            held = [facts["state_rows"] for facts in trial.facts]
            left = held[-1]
        assert max(held), "there never was any state"
        assert left == 0, f"{left} rows of state are left, and `StateFacts.grows` does not say why"

    @proves("state", dear=True, shown_by="keyed_state")
    def test_all_has_come_out_once_time_has_passed(self) -> None:
        """`holds` is long enough: when much more time passes, nothing more comes out."""
        state, plan = self._state_in_time(), self.plan()
        with self._trial(plan) as trial:
            self._feed(trial, self._some(6))
            to = self._close(trial)
            before = {output: trial.rows(output) for output in outputs_of(plan)}
            self._close(trial, to + 30 * (state.holds + DAY))
            for output, rows in before.items():
                _same(f"{output}, {state.holds} and much later", rows, trial.rows(output))


def _misfits(plan: Plan, frame: DataFrame) -> list[str]:
    """Return how a frame of the subject differs from what was announced."""
    node, shape, found = plan.nodes["subject"], outputs_of(plan)["out"], dict(frame.dtypes)
    announced = _announced(shape)
    if node.outputs:
        announced["_output"] = "string"
    visible = {n: kind for n, kind in found.items() if n in announced or not n.startswith("_")}
    lines = _differences("the main output", announced, visible)
    for name, other in node.outputs.items():
        kinds = _announced(other)
        if other == REJECTED:
            kinds = {"reason": "string", "payload": "binary"}
        inside = frame.select(f"_{name}.*").dtypes if f"_{name}" in found else ()
        lines += _differences(f"the output {name}", kinds, dict(inside))
    return lines


def _announced(shape: Shape) -> dict[str, str | None]:
    """Return the types of the columns that rows of a shape have."""
    found = {column.name: column.type for column in shape.columns}
    if isinstance(shape, Changelog):
        told = shape.change_columns if shape.sequence is not None else shape.change_columns[:1]
        found |= {column.name: column.type for column in told}
    return found


def _differences(
    what: str, announced: Mapping[str, str | None], found: Mapping[str, str]
) -> list[str]:
    lines = []
    for name in sorted(announced.keys() | found.keys()):
        told, there = announced.get(name, "nothing"), found.get(name, "nothing")
        same = there != "nothing" if told is None else there == told.replace("`", "")
        if not same:
            lines.append(f"{what}: column {name} is {there}, announced was {told or 'any type'}")
    return lines


def _same(output: str, expected: Sequence[Row], found: Sequence[Row]) -> None:
    from mainstem.testing.comparing import differences

    missing, unexpected = differences(expected, found)
    lines = [f"  missing: {dict(row)}" for row in missing]
    lines += [f"  not expected: {dict(row)}" for row in unexpected]
    assert not lines, f"{output}: the rows differ:\n" + "\n".join(lines)


_PLANNING = """
import sys
sys.modules["pyspark"] = None
from mainstem.plan.build import make_plan
component = make_plan(sys.argv[1]).nodes["subject"].component
if hasattr(component, "expressions"):
    component.expressions()
"""
