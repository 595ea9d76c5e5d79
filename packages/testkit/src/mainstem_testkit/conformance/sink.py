"""The standard tests of sinks.

The suite writes batches as the core does, through the delivery strategy that the plan has chosen, and
reads by `rows` what a reader of the external system sees. What must hold then is what the plan
promises: if it says that nothing is doubled, a retried batch must show once; else it must show at least
once.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from mainstem import DocumentError, MainstemError, OptionError, Typed
from mainstem.columns import Column, read_columns

from mainstem_testkit.conformance._sink import OTHER, cut, must_raise, noted
from mainstem_testkit.conformance.sink_abilities import AbilitiesSuite
from mainstem_testkit.conformance.suite import not_claimed, not_given, proves
from mainstem_testkit.conformance.values import TYPES, as_json, plain
from mainstem_testkit.pipelines import MASTER, PipelineFolder
from mainstem_testkit.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Set in a process that runs one test alone.
_ALONE = "MAINSTEM_TESTKIT_ALONE"
#: Rows of a batch, so many that a sink which wants the first of them alone leaves tasks without work.
_MANY = 200


class SinkSuite(AbilitiesSuite):
    """The standard tests of a sink.

    ```python
    class TestFiles(SinkSuite):
        use = "files"

        def options(self):
            return {"path": str(self.place / "out"), "format": "parquet"}

        def rows(self, schema):
            files = self.place.glob("out/*/*.parquet")
            return [row for file in files for row in pq.read_table(file).to_pylist()]
    ```
    """

    # -- types ------------------------------------------------------------------------------

    def _refusal(self, schema: str) -> OptionError | None:
        """Return how the sink refuses columns before the first batch, or None."""
        try:
            self._node()
        except DocumentError as error:  # the document has them already
            return OptionError(error.problems[0].message)
        sink, shape = self._node().sink, self._shape
        if isinstance(sink, Typed):
            try:
                sink.check_types(read_columns(schema), shape)
            except OptionError as error:
                return error
            # As when a document is planned, where only Spark would know the types.
            sink.check_types([Column(column.name) for column in read_columns(schema)], shape)
        return None

    def _free(self) -> None:
        if demanded := self._accepts.columns:
            not_claimed(f"types other than {demanded}")

    @proves("types", runs=True)
    def test_values_of_every_type_come_back_as_they_were_or_are_refused(
        self, spark: SparkSession
    ) -> None:
        """Edge values of every type are read as written, or refused with a reason; `check_types` may
        refuse their column.
        """
        self._free()
        wrong = []
        for number, (kind, values) in enumerate(TYPES.items()):
            schema = f"id BIGINT, measured {kind}"
            self._elsewhere(f"type-{number}", schema)
            if (refusal := self._refusal(schema)) is not None:
                if "measured" not in refusal.message:
                    wrong.append(f"{kind}: refused without the column's name: {refusal.message}")
                continue
            wrong += [f"{kind}: {fault}" for fault in self._changed(spark, kind, [*values, None])]
        assert not wrong, "\n".join(wrong)

    def _changed(self, spark: SparkSession, kind: str, values: Sequence[Any]) -> Iterator[str]:
        """Write one row for each value of a type and yield how what comes back differs."""
        variant = kind == "variant"
        schema = self._schema
        if variant:
            self._schema = "id BIGINT, measured STRING"
        given = [json.dumps(v) if variant and v is not None else v for v in values]
        frame = self._frame(spark, ({"id": n, "measured": v} for n, v in enumerate(given)))
        if variant:
            frame = frame.selectExpr("*", "parse_json(measured) AS __variant")
            names = [f"__variant AS {n}" if n == "measured" else n for n in frame.columns[:-1]]
            frame = frame.selectExpr(*names)
        self._schema = schema
        try:
            reasons = self._deliver(frame)
            found = self._read()
        except Exception as error:
            yield f"neither refused nor written: {_first_line(error)}"
            return
        if found is None:
            not_given("rows")
        alike = partial(plain, local="timestamp" in kind and kind != "timestamp_ntz")
        back: dict[Any, list[Any]] = {}
        for row in found:
            back.setdefault(row["id"], []).append(alike(row.get("measured")))
        silent = len(values) - len(reasons) - sum(map(bool, back.values()))
        for number, value in enumerate(values):
            came = back.pop(number, [])
            if came != [alike(value)] and (came or silent):
                yield f"{value!r} came back as {', '.join(map(repr, came)) or 'nothing'}"
        if not all(reasons):
            yield "values were refused without a reason"
        if back:
            yield f"rows came back that were not written: {back!r}"

    @proves("types", runs=True)
    def test_a_refused_type_ends_a_run_before_its_first_batch(self, spark: SparkSession) -> None:
        """A document with a column that the sink refuses ends with an error that names both.

        Where the document tells the type, and where only Spark can know it.
        """
        self._free()
        schemas = {f"id BIGINT, measured {kind}": kind for kind in TYPES}
        schema = next((schema for schema in schemas if self._refusal(schema) is not None), None)
        if schema is None:
            not_claimed("refusing a type")
        self._elsewhere("refused", schema)
        told, kind = self.parts(), schemas[schema]
        hidden = _hidden(told, f"CAST(NULL AS {kind})")
        # No file of lines has intervals, which are refused before the sink sees them.
        for parts in (hidden,) if "interval" in kind else (told, hidden):
            pipeline = PipelineFolder(self.place / "pipeline").document(**parts)
            pipeline.feed("1.jsonl", [{"id": 1}])
            with pytest.raises(DocumentError, match="measured") as refusal:
                pipeline.run()
            assert "sinks.subject" in refusal.value.problems[0].key, (
                "the error does not name the sink"
            )
            assert not self.rows(schema), "rows were written for all that"

    # -- batches ----------------------------------------------------------------------------

    @proves("batches", dear=True, shown_by="egress")
    def test_batches_stand_beside_each_other(self, spark: SparkSession) -> None:
        """A later batch, and one of the same id of another checkpoint, leave a batch's rows alone."""
        self._write(self._some(spark, range(3)), 0)
        self._write(self._some(spark, range(3, 6)), 1)
        self._write(self._some(spark, range(6, 9)), 0, OTHER)
        self._check(range(9), doubled=False)

    @proves("batches", dear=True, shown_by="egress")
    def test_two_sinks_of_one_query_stand_beside_each_other(self, spark: SparkSession) -> None:
        """A document names it twice: batches of one id, but of another sink, are others."""
        for _ in range(2):
            self._write(self._some(spark, range(3)), 0)
            self._write(self._some(spark, range(3, 6)), 0, sink="subject_too")
        self._check(range(6))

    @proves("batches", dear=True, shown_by="egress")
    def test_an_empty_batch_changes_nothing(self, spark: SparkSession) -> None:
        """Neither the first batch nor a later one needs rows."""
        self._write(self._some(spark, []), 0)
        self._check([])
        self._write(self._some(spark, range(3)), 1)
        self._write(self._some(spark, []), 2)
        self._check(range(3), doubled=False)

    @proves("batches", dear=True, shown_by="egress")
    def test_the_rows_of_many_tasks_are_there_once(self, spark: SparkSession) -> None:
        """Eight tasks write at the same time; each row is there, and its task has run once alone."""
        self._write_by_many(spark, "the write")
        self._check(range(_MANY), doubled=False)

    # -- retries ----------------------------------------------------------------------------

    @proves("retries", dear=True, shown_by="egress")
    def test_a_batch_written_again_is_there_as_after_once(self, spark: SparkSession) -> None:
        """The same rows come again, otherwise partitioned, before and after a later batch."""
        self._write(self._some(spark, range(6), parts=3), 0)
        self._write(self._some(spark, reversed(range(6)), parts=1), 0)
        self._check(range(6))
        self._write(self._some(spark, range(6, 8)), 1)
        self._write(self._some(spark, range(6, 8), parts=1), 1)
        self._check(range(8))

    @proves("retries", dear=True, shown_by="egress")
    def test_a_batch_written_again_is_evaluated_again(self, spark: SparkSession) -> None:
        """Also one that is in: Spark fails a query whose batch leaves its state unwritten."""
        for number in (1, 2):
            self._write_by_many(spark, f"write number {number} of a batch")
        self._check(range(_MANY))

    def _write_by_many(self, spark: SparkSession, which: str) -> None:
        """Write many rows in eight tasks, each of which must run once; also if nobody can read them."""
        ran = self.place / f"ran by {which}"
        ran.mkdir()
        through = partial(noted, folder=str(ran))
        self._write(self._some(spark, range(_MANY), parts=8, through=through))
        runs = Counter(int(file.name.partition("-")[0]) for file in ran.iterdir())
        unread = sorted(set(range(8)) - runs.keys())
        assert not unread, f"{which} left some of its rows unread, in partitions {unread}"
        again = sorted(task for task, count in runs.items() if count > 1)
        assert not again, f"{which} evaluated rows more than once, in partitions {again}"

    @proves("retries", runs=True, shown_by="egress")
    def test_a_batch_cut_in_the_middle_is_whole_after_its_retry(self, spark: SparkSession) -> None:
        """A task fails after some rows: `write` raises, and the next try puts all rows in."""
        self._write(self._some(spark, range(3)), 0)
        armed = self._armed()
        broken = self._some(spark, range(3, 11), parts=2, through=partial(cut, armed=str(armed)))
        with must_raise("a task failed"):
            self._write(broken, 1)
        self._disarm(armed)
        self._write(self._some(spark, range(3, 11), parts=3), 1)
        self._check(range(11))

    @proves("retries", dear=True, shown_by="egress")
    def test_a_task_run_twice_does_no_harm(
        self, spark: SparkSession, request: pytest.FixtureRequest
    ) -> None:
        """Spark runs a task again that failed after some rows; `write` ends well, all rows are there."""
        if not _retries(str(spark.sparkContext.master)):  # another test has made the session
            assert _retries(MASTER)
            assert _ALONE not in os.environ, "the fixture `spark` gives a session without retries"
            argv = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", request.node.nodeid]
            alone = subprocess.run(
                argv,
                cwd=request.config.rootpath,
                env={**os.environ, _ALONE: "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert "1 passed" in alone.stdout, alone.stdout
            return
        self._write(self._some(spark, range(8), parts=2, through=cut))
        self._check(range(8))

    @pytest.mark.timeout(1800)
    @proves("crashes", dear=True, shown_by="egress")
    def test_a_kill_at_each_crash_point_does_no_harm(self, spark: SparkSession) -> None:
        """A run is killed where the sink can be cut, and run again: nothing lost, nothing doubled."""
        self._break(here=False)

    @pytest.mark.timeout(900)
    @proves("crashes", shown_by="egress")
    def test_a_run_that_dies_at_a_crash_point_does_no_harm(self, spark: SparkSession) -> None:
        """The same, cheaper: the run dies by an exception that nobody catches, on the shared session."""
        self._break(here=True)

    def _break(self, *, here: bool) -> None:
        self._check([])
        home, trials = self.place, itertools.count()
        pipeline = self.pipeline()
        for batch in range(2):
            numbers = range(4 * batch, 4 * batch + 4)
            pipeline.feed(f"{batch}.jsonl", [as_json(self.row(number)) for number in numbers])

        def before(copy: PipelineFolder) -> None:
            self._move(home.parent / f"trial-{next(trials)}")
            copy.document(**self.parts())

        def oracle(_: PipelineFolder) -> None:
            self._check(range(8), troubled=True)

        self.break_at_crash_points(pipeline, oracle, before, here=here)

    # -- the external system -----------------------------------------------------------------------

    @proves("external system", dear=True, shown_by="egress")
    def test_an_external_system_that_stands_still_for_a_while_is_waited_for(
        self, spark: SparkSession
    ) -> None:
        """The server does not answer for two seconds: the batch is written all the same."""
        server = self._server()
        self._write(self._some(spark, range(3)), 0)
        server.pause()
        later = threading.Timer(2.0, server.resume)
        later.start()
        try:
            self._write(self._some(spark, range(3, 9)), 1)
        finally:
            later.join()
        self._check(range(9))

    @proves("external system", dear=True, shown_by="egress")
    def test_an_external_system_that_is_down_fails_the_batch_until_it_is_back(
        self, spark: SparkSession
    ) -> None:
        """Without the server `write` raises; with the server back, the retry puts the rows in."""
        server = self._server()
        self._write(self._some(spark, range(3)), 0)
        server.stop()
        try:
            with must_raise("the external system was down"):
                self._write(self._some(spark, range(3, 9)), 1)
        finally:
            server.start()
        # What has just started may not serve everything yet: the batch is retried, as a run does.
        for tries_left in (2, 1, 0):
            try:
                self._write(self._some(spark, range(3, 9)), 1)
                break
            except MainstemError:
                if not tries_left:
                    raise
        self._check(range(9), troubled=True)

    def _server(self) -> Server:
        if self.server is None:
            not_given("server")
        return self.server

    @proves("external system")
    def test_refused_rows_come_back_with_a_reason(self, spark: SparkSession) -> None:
        """A row that the external system refuses is returned, with its reason; the others are written."""
        if self.refused is None:
            not_given("refused")
        node = self._node()
        assert node.delivery is not None
        rows = [self.row(0), self.refused, self.row(1)]
        back = node.delivery.write(
            self._ready(), self._frame(spark, rows, parts=1), self._batch(spark)
        )
        found = back.collect() if back is not None else []
        assert len(found) == 1, f"{len(found)} rows were returned as refused, not 1"
        assert found[0]["reason"], "there is no reason why the row was refused"
        assert "payload" in found[0], "the refused row has no payload"
        self._check(range(2), doubled=False)


def _retries(master: str) -> bool:
    """Whether Spark runs a failed task again on a local master."""
    tries = re.fullmatch(r"local\[[^,]+,\s*(\d+)\]", master)
    return tries is not None and int(tries[1]) > 1


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _hidden(parts: Mapping[str, Any], measured: str) -> dict[str, Any]:
    """Return a document whose column `measured` is an expression, of a type that only Spark can know."""
    lines = {**parts["sources"]["lines"]}
    lines["with"] = {**lines["with"], "schema": "id BIGINT"}
    columns = {"id": "id", "measured": measured}
    steps = {"hidden": {"use": "select", "from": "lines", "with": {"columns": columns}}}

    def behind(nodes: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {**node, "from": "hidden"} if node["from"] == "lines" else node
            for name, node in nodes.items()
        }

    return {
        **parts,
        "sources": {"lines": lines},
        "operators": {**steps, **behind(parts.get("operators", {}))},
        "sinks": behind(parts["sinks"]),
    }
