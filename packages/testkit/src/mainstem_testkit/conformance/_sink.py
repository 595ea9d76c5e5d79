"""How the suite of sinks writes and reads: batches as the core makes them, rows known by numbers."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mainstem import (
    Accepts,
    Batch,
    Changelog,
    FencedError,
    IdentifiedWrites,
    KeyedWrites,
    NumberedWrites,
    Prepared,
    Promise,
    Shape,
    Sink,
    Staged,
    Transactional,
)
from mainstem.columns import read_columns
from mainstem.contracts.ability import abilities
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from mainstem.plan.model import SinkNode

from mainstem_testkit.conformance.suite import Suite, not_given
from mainstem_testkit.conformance.values import EPOCH, MADE, few, mapping, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

#: The ids of two checkpoints.
CHECKPOINT, OTHER = "5f0c7a52-6c3e-4f0e-9d55-0d8f7c1e2a01", "b7e1d9c4-11aa-4b7e-8a43-97f2f6b0c502"
#: The abilities whose writes know the runs of a checkpoint, and the method that writes.
FENCED: Mapping[type, str] = {
    Transactional: "write_once",
    Staged: "publish",
    IdentifiedWrites: "write_new",
    NumberedWrites: "write_numbered",
    KeyedWrites: "write_keyed",
}


class WritingSuite(Suite):
    """What the standard tests of sinks write with, and hold what is read against."""

    kind: ClassVar[str] = "sink"
    #: A row, in the columns of `schema`, that the external system refuses for good.
    refused: ClassVar[Row | None] = None
    #: DDL of the columns that the tests write, if those that the sink demands are not it.
    columns: ClassVar[str] = ""
    #: The delivery strategy, as in the document, if it is not to be the strongest that the sink offers.
    deliver: ClassVar[str | Mapping[str, Any]] = ""
    #: The key, by column, to write changes of; what happened, if there is none and the sink takes it.
    key: ClassVar[tuple[str, ...]] = ()

    _schema: str = ""

    @classmethod
    def mechanisms(cls) -> frozenset[str]:
        """Return what the sink is built on; nothing, where its strategy promises more than that does."""
        found = super().mechanisms()
        if found and cls.deliver != "microbatch":
            able = abilities(cls.component_class())
            return frozenset() if any(ability.__name__ in able for ability in FENCED) else found
        return found

    def rows(self, schema: str) -> Sequence[Any] | None:
        """Return every row that a reader of the external system sees now, as mappings or Spark's rows.

        Where there is nothing yet, there are none. Of a table that changes are written to, these are
        its present rows. A sink that nobody can read gives None: it then may promise no more than
        at-least-once, and have no ability that reading would have to prove.

        Args:
            schema: DDL of what was written, for an external system that has no types.
        """
        raise NotImplementedError

    def row(self, number: int) -> Row:
        """Return the row of a number, in the columns of `schema`; no two are equal."""
        return {
            column.name: MADE.get(column.type or "", _null)(number)
            for column in read_columns(self.schema)
        }

    @property
    def schema(self) -> str:
        """DDL of the columns that are written at `place`; for a `prepare` that makes a table."""
        return self._schema or self.columns or self._accepts.columns or "id BIGINT, name STRING"

    def parts(self, **changes: Any) -> dict[str, Any]:
        source = {"path": "./in", "format": "jsonlines", "schema": self.schema, "max_files": 1}
        parts: dict[str, Any] = {"sources": {"lines": {"use": "files", "with": source}}}
        stream = "lines"
        if self._accepts.shapes == (Changelog,) or self.key:
            stream, names = "changes", [column.name for column in read_columns(self.schema)]
            key = self.key if {*self.key} <= {*names} else ()  # a test may have columns of its own
            made = {"key": [*key] or names[:1], "sequence": names[0]}
            parts["operators"] = {"changes": {"use": "changelog", "from": "lines", "with": made}}
        sink = {"use": self.use, "from": stream, "with": {**self.options(), **changes}}
        parts["sinks"] = {"subject": sink | ({"deliver": self.deliver} if self.deliver else {})}
        return parts

    # -- for the tests ----------------------------------------------------------------------

    @property
    def _accepts(self) -> Accepts:
        made = self.component_class()
        sink = made(made.options_model().model_validate(dict(self.options())))
        assert isinstance(sink, Sink)
        return sink.accepts

    def _node(self) -> SinkNode:
        node = self.plan().nodes["subject"]
        assert isinstance(node, SinkNode)
        return node

    def _promise(self) -> Promise:
        return self._node().promise

    def _elsewhere(self, name: str, schema: str = "") -> None:
        """Go on at a new place, for other columns."""
        self._schema = schema
        self._move(self.place.parent / name)

    @property
    def _shape(self) -> Shape:
        """What the rows are, by the plan."""
        plan = self.plan()
        node = plan.nodes["subject"]
        assert isinstance(node, SinkNode)
        return plan.shape(node.streams[0])

    def _written(self, shape: Shape | None, *, ids: bool) -> str:
        """Return the DDL of what the sink is given: reserved columns too."""
        shape, ddl = shape or self._shape, self.schema
        if isinstance(shape, Changelog):
            ddl = ", ".join([ddl, *(column.ddl for column in shape.change_columns)])
        return f"{ddl}, _id BINARY" if ids or self._node().needs_id else ddl

    def _ready(self, shape: Shape | None = None, *, ids: bool = False) -> Any:
        """Return the sink, made anew and ready as before a run.

        Args:
            shape: what will be written, if it is not what the plan says.
            ids: whether rows will have an `_id`, also if the plan needs none.
        """
        node = self._node()
        if isinstance(node.sink, Prepared):
            columns = read_columns(self._written(shape, ids=ids))
            node.sink.prepare(columns, shape or self._shape)
        return node.sink

    def _frame(
        self,
        spark: SparkSession,
        rows: Iterable[Row],
        *,
        parts: int = 2,
        through: Callable[[Any], Any] | None = None,
        shape: Shape | None = None,
        ids: bool = False,
    ) -> DataFrame:
        """Return rows as the core gives them to the sink: with `_id` and what a changelog has, if so.

        Args:
            rows: of a changelog, one that does not say what it does is an insert.
            parts: how many tasks there will be.
            through: what a task's Arrow batches go through.
            shape: as for `_ready`.
            ids: as for `_ready`.
        """
        ddl, made = self._written(shape, ids=ids), [dict(row) for row in rows]
        names = [column.name for column in read_columns(ddl)]
        if CHANGE_TYPE in names:
            sequence = getattr(shape or self._shape, "sequence", None) or ""
            given = {CHANGE_TYPE: "insert", COMMIT_TIMESTAMP: EPOCH}
            made = [{**given, COMMIT_VERSION: row.get(sequence), **row} for row in made]
        if "_id" in names:
            for row in made:
                row["_id"] = hashlib.md5(repr(row).encode(), usedforsecurity=False).digest()
        values = [tuple(row.get(name) for name in names) for row in made]
        frame = spark.createDataFrame(spark.sparkContext.parallelize(values, parts), ddl)
        return frame.mapInArrow(through, frame.schema) if through else frame

    def _some(self, spark: SparkSession, numbers: Iterable[int], **how: Any) -> DataFrame:
        return self._frame(spark, map(self.row, numbers), **how)

    def _batch(
        self,
        spark: SparkSession,
        number: int = 0,
        query_id: str = CHECKPOINT,
        epoch: int = 1,
        sink: str = "subject",
    ) -> Batch:
        return Batch(number, "test", "subject", query_id, sink, spark, self._shape, epoch)

    def _write(
        self, frame: DataFrame, number: int = 0, query_id: str = CHECKPOINT, sink: str = "subject"
    ) -> None:
        """Write a batch of good rows as the core does."""
        reasons = self._deliver(frame, number, query_id, sink)
        assert not reasons, f"refuses good rows: {reasons}"

    def _deliver(
        self, frame: DataFrame, number: int = 0, query_id: str = CHECKPOINT, sink: str = "subject"
    ) -> list[str | None]:
        """Write a batch as the core does; return why each row was refused that was."""
        node = self._node()
        assert node.delivery is not None
        batch = self._batch(frame.sparkSession, number, query_id, sink=sink)
        refused = node.delivery.write(self._ready(), frame, batch)
        return [row["reason"] for row in refused.collect()] if refused is not None else []

    def _write_by(
        self, ability: type, rows: Iterable[Row], batch: Batch, *, parts: int = 2
    ) -> DataFrame | None:
        """Write a batch by one ability, into a sink made anew; return what was refused.

        By `KeyedWrites` the rows are inserts, whose first column is the key and the sequence.
        """
        shape: Shape = batch.shape
        if ability is KeyedWrites:
            first = read_columns(self.schema)[0].name
            shape = Changelog(self.schema, [first], sequence=first)
        ids = ability in (IdentifiedWrites, NumberedWrites)
        sink = self._ready(shape, ids=ids)
        given: Any = self._frame(batch.spark, rows, parts=parts, shape=shape, ids=ids)
        batch = replace(batch, shape=shape)
        if ability is Staged:
            sink.discard(batch)
            given = sink.stage(given, batch)
        refused: DataFrame | None = getattr(sink, FENCED[ability])(given, batch)
        return refused

    def _fenced_writes(self) -> dict[str, Callable[[Iterable[int], Batch], DataFrame | None]]:
        """Return how to write rows, known by numbers, by each ability that fences off old runs."""

        def write(ability: type, numbers: Iterable[int], batch: Batch) -> DataFrame | None:
            return self._write_by(ability, map(self.row, numbers), batch)

        able = [ability for ability in FENCED if isinstance(self.component, ability)]
        return {ability.__name__: partial(write, ability) for ability in able}

    def _read(self) -> list[Row] | None:
        found = self.rows(self.schema)
        return found if found is None else [mapping(row) for row in found]

    def _seen(self) -> Counter[str]:
        """Return what a reader sees, each row as text."""
        found = self._read()
        if found is None:
            assert self._promise().may_double, (
                "nobody can read it, so that it doubles nothing is not shown"
            )
            not_given("rows")
        return Counter(self._text(row) for row in found)

    def _text(self, row: Row) -> str:
        names = [column.name for column in read_columns(self.schema)]
        return repr({name: plain(row.get(name), local=True) for name in names})

    def _check(
        self, numbers: Iterable[int], *, doubled: bool | None = None, troubled: bool = False
    ) -> None:
        """Hold what a reader sees against the rows of some numbers, as far as is promised.

        Args:
            doubled: whether rows may be there twice; as the plan promises when left out.
            troubled: whether a process or the external system was cut, so that a sink that may lose has
                lost.

        Raises:
            AssertionError: rows are lost or doubled, or were never written.
        """
        promise, seen = self._promise(), self._seen()
        wanted = Counter(self._text(self.row(number)) for number in numbers)
        strange = sorted(seen.keys() - wanted.keys())
        assert not strange, f"seen, and not written or not to be seen: {few(strange)}"
        lost = sorted(wanted.keys() - seen.keys())
        assert (promise.may_lose and troubled) or not lost, f"lost: {few(lost)}"
        twice = sorted(text for text, count in seen.items() if count > wanted[text])
        allowed = promise.may_double if doubled is None else doubled
        assert allowed or not twice, f"doubled: {few(twice)}"

    def _able(self, ability: type, shape: Shape | None = None, *, ids: bool = False) -> Any:
        """Return the sink, ready as by `_ready`, if it has an ability, which then must show.

        Ends the test if the sink does not have it.
        """
        self.can(ability)
        assert self.rows(self.schema) is not None, (
            f"nobody can read it, so {ability.__name__} is not shown"
        )
        return self._ready(shape, ids=ids)

    def _armed(self) -> Path:
        """Let the second task of a frame fail that goes through `cut` with this file."""
        armed = self.place / "armed"
        armed.touch()
        return armed

    @staticmethod
    def _disarm(armed: Path) -> None:
        """Let tasks come to their end again; holds the kit against having let none fail."""
        assert Path(f"{armed}-cut").exists(), (
            "the write failed, but not by the task that the test cut"
        )
        armed.unlink()


def cut(batches: Iterable[Any], armed: str | None = None) -> Iterator[Any]:
    """Pass rows on, but fail in the second task after its first row.

    As long as the file `armed` is there; without one, when the task is tried first.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    failing = Path(armed).exists() if armed is not None else task.attemptNumber() == 0
    for batch in batches:
        if failing and task.partitionId() == 1:
            yield batch.slice(0, 1)
            time.sleep(0.2)  # the other task may come to its end
            if armed is not None:
                Path(f"{armed}-cut").touch()
            raise RuntimeError("the test lets this task fail")
        yield batch


def noted(batches: Iterable[Any], folder: str) -> Iterator[Any]:
    """Pass rows on, and leave a file for each time that a task does so."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    Path(folder, f"{task.partitionId()}-{uuid.uuid4()}").touch()
    yield from batches


@contextmanager
def must_raise(when: str) -> Iterator[None]:
    """Expect the block to raise an exception; if it does not, say so in terms of the sink."""
    try:
        yield
    except AssertionError:
        raise  # of the kit's own
    except Exception:
        return
    raise AssertionError(f"{when}, and the write ended as if all were well")


@contextmanager
def must_be_fenced(name: str, which: str) -> Iterator[None]:
    """Expect the block, a write of a run that must not write, to be refused."""
    try:
        yield
    except FencedError:
        return
    raise AssertionError(f"{name} let a run write {which}")


def _null(_: int) -> None:
    return None
