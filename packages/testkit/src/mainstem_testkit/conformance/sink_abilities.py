"""The standard tests of what a sink can do beyond `write`: its abilities, one by one.

Each is tried by itself, whatever strategy the plan has chosen: what the contracts say of it must hold
for every strategy that makes use of it.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import (
    Batch,
    Changelog,
    Comparable,
    FencedError,
    Forgetful,
    IdentifiedWrites,
    KeyedWrites,
    NumberedWrites,
    OptionError,
    Prepared,
    Staged,
    Swappable,
    Transactional,
)
from mainstem.columns import read_columns
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_VERSION
from mainstem.plan.guarantee import promised
from mainstem.run import verifying

from mainstem_testkit.conformance._sink import (
    CHECKPOINT,
    OTHER,
    Row,
    WritingSuite,
    cut,
    must_be_fenced,
    must_raise,
)
from mainstem_testkit.conformance.suite import not_claimed, not_given, proves
from mainstem_testkit.conformance.values import few

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What batches do to a table without a sequence: the value that each key gets, None where it goes.
_BATCHES: tuple[tuple[str, int, Mapping[str, str | None]], ...] = (
    (CHECKPOINT, 0, {"kept": "0", "gone": "0", "back": "0", "anew": "0", "anew and gone": "0"}),
    (CHECKPOINT, 1, {"kept": "1", "gone": None, "back": None, "new": "1"}),
    (CHECKPOINT, 2, {"gone": None, "back": "2", "anew": None, "new": "2"}),
    (CHECKPOINT, 3, {"kept": "3", "anew": None, "never": None}),
    (OTHER, 0, {"anew": "0 anew", "anew and gone": "0 anew", "new": "0 anew"}),
    (OTHER, 1, {"anew": "1 anew", "anew and gone": None}),
)

#: The abilities that know the batches of a checkpoint.
_LEDGERS = (Transactional, Staged, NumberedWrites)


class AbilitiesSuite(WritingSuite):
    """The standard tests of abilities; `SinkSuite` has them."""

    # -- claims -----------------------------------------------------------------------------

    @proves("shown")
    def test_the_level_that_tests_have_shown_is_the_one_promised(self) -> None:
        """What `capabilities.shown` says of the strategy in use is what the strategy promises."""
        node = self._node()
        shown = node.sink.capabilities.shown.get(node.delivery_word)
        if shown is None:
            not_claimed(f"a level shown for {node.delivery_word}")
        assert node.delivery is not None
        promise = promised(node.delivery_word, node.delivery, node.sink, self._shape).level
        assert shown.level == promise, (
            f"says that {shown.by} shows {shown.level} by {node.delivery_word}, which promises "
            f"{promise}"
        )
        assert shown.by, "does not say which tests have shown its level"

    # -- keys -------------------------------------------------------------------------------

    @proves("KeyedWrites")
    def test_changes_in_any_order_leave_the_newest_of_each_key(self, spark: SparkSession) -> None:
        """Upserts and deletes of keys come in every order and cut: the highest sequence wins."""
        self.can(KeyedWrites)
        self._elsewhere("keyed", "k STRING, v STRING, at BIGINT")
        newest: dict[str, str] = {}
        batches: list[list[Row]] = [[], [], [], []]
        for last in (3, 4):  # histories that end with a delete, and with an insert after it
            kinds = ("insert", "update_postimage", "delete", "insert")[:last]
            for order in itertools.permutations(range(last)):
                for size in (1, 2, 4):  # changes of a key in one batch: each key has its own story
                    key = f"{''.join(map(str, order))} by {size}"
                    if kinds[-1] != "delete":
                        newest[key] = f"v{last - 1}"
                    for place, at in enumerate(order):
                        row = {"k": key, "v": f"v{at}", "at": at, CHANGE_TYPE: kinds[at]}
                        batches[place // size].append(row)
        shape = Changelog(self.schema, ["k"], sequence="at")
        sink = self._able(KeyedWrites, shape)
        frames = [self._frame(spark, rows, shape=shape) for rows in batches]
        for number in (0, 1, 1, 2, 3, 0):  # a retry, and an old batch at the end
            batch = replace(self._batch(spark, number), shape=shape)
            sink.write_keyed(frames[number], batch)
        self._check_table(newest, "after the order of their changes")

    @proves("KeyedWrites", runs=True)
    def test_without_a_sequence_the_last_batch_wins(self, spark: SparkSession) -> None:
        """Batches in order, each twice, and those of one that started over: the last change counts."""
        self.can(KeyedWrites)
        self._elsewhere("unsequenced", "k STRING, v STRING")
        shape = Changelog(self.schema, ["k"])
        sink = self._able(KeyedWrites, shape)
        table: dict[str, str | None] = {}
        for query_id, number, changes in _BATCHES:
            batch = replace(self._batch(spark, number, query_id), shape=shape)
            rows = [
                {"k": k, "v": v, CHANGE_TYPE: "delete" if v is None else "update_postimage"}
                for k, v in changes.items()
            ]
            made = [{**row, COMMIT_VERSION: number} for row in rows]
            for parts in (2, 1):
                sink.write_keyed(self._frame(spark, made, parts=parts, shape=shape), batch)
            table |= changes
            left = {k: v for k, v in table.items() if v is not None}
            self._check_table(left, f"in batch {number} of the {_which(batch)} checkpoint")

    def _check_table(self, wanted: Mapping[str, str], named: str) -> None:
        """Hold the table's rows, by key, against what they should be."""
        found = [(row["k"], row["v"]) for row in self._read() or ()]
        twice = sorted(k for k, count in Counter(k for k, _ in found).items() if count > 1)
        assert not twice, f"keys are there twice: {few(twice)}"
        table = dict(found)
        undead = sorted(table.keys() - wanted.keys())
        wrong = [f"{k}: {table.get(k)}, not {v}" for k, v in wanted.items() if table.get(k) != v]
        assert not undead + wrong, (
            f"keys, named {named}: deleted and there again: {few(undead)}; "
            f"not the newest: {few(wrong)}"
        )

    @proves("IdentifiedWrites")
    def test_rows_that_are_there_are_known_by_their_id(self, spark: SparkSession) -> None:
        """Rows come again in other batches, cut otherwise, and from another checkpoint: once each."""
        sink = self._able(IdentifiedWrites, ids=True)
        for number, numbers in enumerate((range(4), range(2, 8), reversed(range(9)))):
            rows = list(map(self.row, numbers))
            for parts in (2, 1):
                frame = self._frame(spark, rows, parts=parts, ids=True)
                sink.write_new(frame, self._batch(spark, number))
        sink.write_new(self._some(spark, [3], ids=True), self._batch(spark, 0, OTHER))
        self._check(range(9), doubled=False)

    @proves("NumberedWrites")
    def test_rows_of_a_batch_are_known_by_their_numbers(self, spark: SparkSession) -> None:
        """A batch is cut, and comes again, also in other partitions: what is missing is added."""
        sink = self._able(NumberedWrites, ids=True)
        armed = self._armed()
        with must_raise("a task failed"):
            through = partial(cut, armed=str(armed))
            sink.write_numbered(
                self._some(spark, range(8), through=through, ids=True), self._batch(spark)
            )
        self._disarm(armed)
        for number, numbers in ((0, range(8)), (1, range(8, 20)), (2, range(20, 21))):
            for parts, order in ((2, 1), (1, -1)):
                frame = self._some(spark, numbers[::order], parts=parts, ids=True)
                sink.write_numbered(frame, self._batch(spark, number))
                self._check(range(numbers[-1] + 1), doubled=False)
        sink.write_numbered(self._some(spark, [30], ids=True), self._batch(spark, 0, OTHER))
        self._check([*range(21), 30], doubled=False)

    # -- batches taken back -----------------------------------------------------------------

    @proves("Forgetful", runs=True)
    def test_forgetting_takes_back_later_batches_alone(self, spark: SparkSession) -> None:
        """Rows of a checkpoint's later batches go, others stay; twice is as once; writing goes on."""
        sink = self._able(Forgetful)
        for number in range(3):
            self._write(self._some(spark, [number]), number)
        self._write(self._some(spark, [3]), 2, OTHER)
        for _ in range(2):
            sink.forget(CHECKPOINT, 0)
            self._check([0, 3])
        self._write(self._some(spark, [4]), 1)
        self._check([0, 3, 4])

    # -- compared ---------------------------------------------------------------------------

    @proves("Comparable", runs=True)
    def test_what_differs_is_found_and_put_right(self, spark: SparkSession) -> None:
        """Of what was written nothing differs; rows that are missing, that should not be there, and that
        should be others are found, each by its key, and `repair` puts all right.
        """
        self._able(Comparable)
        try:
            assert not self._differing(spark, []), "there is something before all"
        except OptionError as error:
            not_claimed(f"Comparable of such rows: {error.message}")
        self._write(self._some(spark, range(4)))
        assert not self._differing(spark, range(4)), "what was written differs"
        wanted: Any = {"spark": spark, "numbers": [0, 2, 3, 7], "other": 2}
        found = self._differing(**wanted)
        kinds = sorted(row["kind"] for row in found)
        assert kinds == ["different", "extra", "missing"], f"found: {found}"
        assert len({row["key"] for row in found}) == len(found)
        self._differing(**wanted, repair=True)
        left = self._differing(**wanted)
        assert not left, f"left after repair: {left}"
        self._write(self._some(spark, [8]), 1)
        assert not self._differing(spark, [0, 2, 3, 7, 8], other=2)

    def _differing(
        self,
        spark: SparkSession,
        numbers: Iterable[int],
        *,
        other: int | None = None,
        repair: bool = False,
    ) -> list[Any]:
        """Compare what is held with some rows; return what differs.

        Args:
            other: the number of a row whose last column has another value.
        """
        from pyspark.sql import functions as F  # noqa: N812

        sink, shape, columns = self._ready(), self._shape, read_columns(self.schema)
        frame = self._some(spark, numbers)
        if other is not None:
            first, last = columns[0].name, columns[-1].name
            is_it = F.col(first) == F.lit(self.row(other)[first])
            new = F.lit(self.row(1_000)[last])
            frame = frame.withColumn(last, F.when(is_it, new).otherwise(F.col(last)))
        known = verifying.columns_of(frame)
        rows = verifying.keyed_rows(frame, sink.compared(known, shape), 0)
        expected = verifying.standing(rows, shape).persist()
        folder = self.place.parent / f"held-{next(self._looks)}"
        held = verifying.held_rows(spark, sink, known, shape, folder).persist()
        found = verifying.differing(expected, held).persist()
        if repair:
            batch = self._batch(spark, 0, "verify")
            verifying.put_right(sink, expected, held, found, batch)
        return found.collect()

    _looks = itertools.count()

    # -- built beside -----------------------------------------------------------------------

    @proves("Swappable", runs=True)
    def test_what_is_built_beside_is_seen_once_it_is_swapped(self, spark: SparkSession) -> None:
        """Readers see the old rows until the swap and the new ones from it on; again it does nothing."""
        sink = self._able(Swappable)
        self._write(self._some(spark, range(4)))
        sink.beside("__built").clear()  # nothing is there yet
        self._build(sink, self._some(spark, [6, 7]), "a try that is given up")
        sink.beside("__built").clear()
        built = self._build(sink, self._some(spark, range(2, 6)), OTHER)
        self._check(range(4))
        with self._only((range(4), range(2, 6))):
            sink.swap(built)
        self._check(range(2, 6), doubled=False)
        sink.swap(sink.beside("__built"))
        self._check(range(2, 6), doubled=False)
        self._write(self._some(spark, [8]), 1)
        self._check([*range(2, 6), 8])

    def _build(self, sink: Any, frame: DataFrame, query_id: str) -> Any:
        """Write a replay's first batch, as the core does, into a sink made beside; return that."""
        node, built = self._node(), sink.beside("__built")
        assert node.delivery is not None
        if isinstance(built, Prepared):
            built.prepare(read_columns(self._written(None, ids=False)), self._shape)
        batch = replace(self._batch(frame.sparkSession, query_id=query_id), sink="subject__built")
        node.delivery.write(built, frame, batch)
        return built

    @contextmanager
    def _only(self, allowed: Iterable[Iterable[int]]) -> Iterator[None]:
        """Read during the block, again and again: rows must be those of one of some sets, whole."""
        wanted = [{self._text(self.row(number)) for number in numbers} for numbers in allowed]
        ended, wrong = threading.Event(), list[str]()

        def read() -> None:
            while not ended.is_set() and not wrong:
                try:
                    seen = self._seen().keys()
                except Exception as error:
                    wrong.append(f"a reader failed: {type(error).__name__}: {error}")
                else:
                    if seen not in wanted:
                        wrong.append(f"a reader saw {few(sorted(seen))}")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            ended.set()
            reader.join()
        assert not wrong, f"neither what was there before nor what is there after: {wrong[0]}"

    # -- the ledger -------------------------------------------------------------------------

    @proves("Transactional")
    def test_the_ledger_says_what_is_in(self, spark: SparkSession) -> None:
        """`committed` is true from the batch's commit on and not before; a cut batch leaves nothing."""
        sink = self._able(Transactional)
        batch = self._batch(spark)
        assert not sink.committed(batch), "says that a batch is in before it was written"
        armed = self._armed()
        with must_raise("a task failed"):
            sink.write_once(
                self._some(spark, range(8), through=partial(cut, armed=str(armed))), batch
            )
        self._disarm(armed)
        assert not sink.committed(batch), "says that a batch is in whose write failed"
        self._check([])
        for parts in (2, 1):
            sink.write_once(self._some(spark, range(8), parts=parts), batch)
            assert sink.committed(batch), "says that a batch is not in which was written"
            self._check(range(8), doubled=False)
        for other in (self._batch(spark, 1), self._batch(spark, 0, OTHER)):
            assert not sink.committed(other), f"says that {other.id} of {other.query_id} is in"

    @proves("ledger", runs=True)
    def test_what_a_batch_refused_is_told_again(self, spark: SparkSession) -> None:
        """A batch that is in comes again, by its own run and by the next: the same rows are refused."""
        able = [each for each in _LEDGERS if isinstance(self.component, each)]
        if not able:
            not_claimed("a ledger")
        if self.refused is None:
            not_given("refused")
        rows = [self.row(0), self.refused, self.row(1)]
        for ability in able:
            self._elsewhere(f"refused-{ability.__name__.lower()}")
            told = []
            for parts, epoch in ((2, 1), (1, 1), (2, 2)):
                batch = self._batch(spark, epoch=epoch)
                back = self._write_by(ability, rows, batch, parts=parts)
                told.append(sorted(map(str, back.collect())) if back is not None else [])
            first, *again = told
            assert len(first) == 1, f"{ability.__name__}: {len(first)} rows were refused, not 1"
            for tries, later in enumerate(again, 2):
                assert later == first, (
                    f"{ability.__name__}: the batch was in and came again, and what it refused was "
                    f"not told again: {later} by try {tries}, {first} by the first"
                )
            self._check(range(2), doubled=False)

    @proves("fencing", runs=True)
    def test_a_run_that_was_replaced_writes_nothing_more(self, spark: SparkSession) -> None:
        """Once a run of a higher epoch has written, one of a lower epoch is refused; it alone."""
        writes = self._fenced_writes()
        if not writes:
            not_claimed("a ledger")
        for number, (name, write) in enumerate(writes.items()):
            self._elsewhere(f"fenced-{number}")
            write([0], self._batch(spark, 0, epoch=1))
            write([1], self._batch(spark, 1, epoch=2))
            for late in (1, 2):
                with must_be_fenced(name, "that had been replaced"):
                    write([1 if late == 1 else 2], self._batch(spark, late, epoch=1))
            write([3], self._batch(spark, 0, OTHER, epoch=1))
            write([4], self._batch(spark, 2, epoch=2))
            self._check([0, 1, 3, 4], doubled=False)

    @proves("ledger", runs=True)
    def test_an_old_copy_of_a_checkpoint_is_refused(self, spark: SparkSession) -> None:
        """A batch older than the ledger's last, cut otherwise, is neither written nor taken for that."""
        able = [each for each in _LEDGERS if isinstance(self.component, each)]
        if not able:
            not_claimed("a ledger")
        for ability in able:
            self._elsewhere(f"copied-{ability.__name__.lower()}")
            for number in range(3):
                self._write_by(ability, [self.row(number)], self._batch(spark, number))
            with must_be_fenced(ability.__name__, "of an old copy of the checkpoint"):
                rows = map(self.row, range(1, 5))
                self._write_by(ability, rows, self._batch(spark, 1, epoch=2))
            self._check(range(3), doubled=False)

    # -- staging ----------------------------------------------------------------------------

    @proves("Staged", runs=True)
    def test_staged_rows_are_seen_when_published_and_not_before(self, spark: SparkSession) -> None:
        """Nothing of a staged or discarded batch is seen; published it is whole, twice as once."""
        sink, batch = self._able(Staged), self._batch(spark)
        sink.discard(batch)
        sink.stage(self._some(spark, range(8)), batch)
        self._check_nothing("a staged batch")
        sink.discard(batch)
        self._check_nothing("a discarded batch")
        armed = self._armed()
        with must_raise("a task failed"):
            sink.stage(self._some(spark, range(8), through=partial(cut, armed=str(armed))), batch)
        self._disarm(armed)
        sink.discard(batch)
        staged = sink.stage(self._some(spark, range(8), parts=3), batch)
        self._check_nothing("a staged batch")
        for _ in range(2):
            sink.publish(staged, batch)
            self._check(range(8), doubled=False)

    @proves("Staged", runs=True)
    def test_a_run_that_was_replaced_leaves_the_staged_rows_of_the_next(
        self, spark: SparkSession
    ) -> None:
        """Two runs stage one batch in turns: what the newer publishes is its own, whole and alone."""
        sink = self._able(Staged)
        old, new = (self._batch(spark, epoch=epoch) for epoch in (1, 2))

        def rows() -> Any:
            return self._some(spark, range(4))

        sink.discard(old)
        of_old = sink.stage(rows(), old)
        sink.discard(new)
        with must_raise("what a run had staged was discarded by the next run before it published"):
            sink.publish(of_old, old)
        self._check_nothing("a batch that was discarded")
        of_new = sink.stage(rows(), new)
        with suppress(FencedError):
            sink.discard(old)
        with suppress(FencedError):
            sink.stage(rows(), old)
        sink.publish(of_new, new)
        self._check(range(4), doubled=False)

    def _check_nothing(self, of: str) -> None:
        seen = self.rows(self.schema) or ()
        assert not seen, f"{len(seen)} rows of {of} are seen"


def _which(batch: Batch) -> str:
    return "first" if batch.query_id == CHECKPOINT else "second"
