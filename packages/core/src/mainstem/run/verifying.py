"""Compares what a sink's external system holds with what its rows, read again from the sources, say."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.contracts.abilities import Comparable, Compared, Prepared, Rewindable
from mainstem.contracts.capabilities import SinkCapabilities
from mainstem.contracts.components import Sink
from mainstem.contracts.contexts import Batch
from mainstem.contracts.ddl import Column
from mainstem.contracts.options import Options
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_VERSION, Changelog, Shape
from mainstem.errors import OptionError, PipelineError
from mainstem.history import History
from mainstem.paths import for_spark
from mainstem.plan.bootstrap import reads_of
from mainstem.plan.model import Plan, SinkNode, ancestors
from mainstem.run.checkpoint import AlreadyRunning, Checkpoint
from mainstem.run.session import start
from mainstem.testing.preview import gather

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Columns beside those of rows: what they are compared by, and the batch they came with.
KEY, CONTENT, _BATCH = "__key", "__content", "__batch"
MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"
#: How many differences are looked at a second time, while the pipeline runs, and how many are returned.
_MOST, _SHOWN = 100_000, 1_000


@dataclass(frozen=True)
class Difference:
    """A row that is not as it should be.

    Attributes:
        key: what tells it from others.
        expected, held: its content; None where there is none.
    """

    kind: Literal["missing", "extra", "different"]
    key: str
    expected: str | None
    held: str | None


@dataclass(frozen=True)
class Verified:
    """What a comparison found.

    Attributes:
        rows, held: how many there should be, and are.
        differences: rows that are not as they should be, as many as are shown.
        counts: how many there are of each kind.
        repaired: whether they were to be put right.
        left: how many of each kind are left then.
    """

    rows: int
    held: int
    differences: list[Difference]
    counts: dict[str, int]
    repaired: bool = False
    left: Mapping[str, int] = field(default_factory=dict)


def able(plan: Plan) -> tuple[list[str], dict[str, str]]:
    """Return the sinks that can be compared, and why others that hold rows can't.

    Raises:
        PipelineError: there is none.
    """
    found, others = [], {}
    for name in _able(plan):
        node = plan.nodes[name]
        assert isinstance(node, SinkNode)  # noqa: S101
        if any(plan.nodes[stream.node].kind == "sink" for stream in node.streams):
            others[name] = "what another sink refused is known only where it was written"
            continue
        shape = plan.shape(node.streams[0])
        columns = _planned(shape) + ([Column("_id", "binary")] if node.needs_id else [])
        try:
            sink: Any = node.sink
            sink.compared(columns, shape)
            _whole(plan, name)
        except (OptionError, PipelineError) as error:
            others[name] = getattr(error, "message", str(error))
        else:
            found.append(name)
    if not found:
        told = "".join(f" {name}: {why}." for name, why in others.items())
        raise PipelineError(f"no sink of the document can be compared.{told}")
    return found, others


def _able(plan: Plan) -> list[str]:
    return [name for name, each in plan.nodes.items() if isinstance(each.component, Comparable)]


def verify(plan: Plan, name: str, *, repair: bool = False, wait: float = 5.0) -> Verified:
    """Compare what a sink's external system holds with what the sources say.

    While the pipeline runs, what differs is looked at again after a while, and told if it differs alike.

    Args:
        name: the sink.
        repair: put right what differs; the pipeline stands still.
        wait: for so many seconds, before the second look.

    Raises:
        PipelineError: the sink can't be compared; or a source no longer has all that was read; or the
            pipeline runs, and something is to be repaired.
    """
    node = plan.nodes.get(name)
    if not isinstance(node, SinkNode) or not isinstance(node.sink, Comparable):
        others = ", ".join(_able(plan)) or "none of the document"
        raise PipelineError(f"{name} can't be compared. Sinks that can: {others}.")
    _whole(plan, name)
    with (
        _standing_still(plan, needed=repair) as still,
        tempfile.TemporaryDirectory(
            prefix="mainstem-verify-", ignore_cleanup_errors=True
        ) as folder,
    ):
        first = _Round(plan, node, Path(folder, "1"))
        if not first.total:
            return first.verified(first.differences(_SHOWN))
        if still and repair:
            first.repair()
            return _Round(plan, node, Path(folder, "2")).after(first)
        if still:
            return first.verified(first.differences(_SHOWN))
        time.sleep(wait)
        second = _Round(plan, node, Path(folder, "2"))
        before = set(first.differences(_MOST))
        lasting = [each for each in second.differences(_MOST) if each in before]
        return second.verified(lasting[:_SHOWN], _counted(lasting))


@contextmanager
def _standing_still(plan: Plan, *, needed: bool) -> Iterator[bool]:
    """Hold the pipeline's lock meanwhile, if nobody has it; yield whether that is so."""
    with ExitStack() as held:
        try:
            held.enter_context(Checkpoint(plan, checked=False))
        except AlreadyRunning:
            if needed:
                raise PipelineError("the pipeline runs: stop it, then repair") from None
            yield False
        else:
            yield True


def _whole(plan: Plan, name: str) -> None:
    """Refuse a comparison with less than all.

    Raises:
        PipelineError: a source can't be read from its beginning, or no longer has what was read.
    """
    above = ancestors(name, plan.written)  # without relays, which are not read from
    for source in sorted(each for each in above if plan.written[each].kind == "source"):
        _beginning(source, plan.written[source].component)
    for query in plan.queries:
        for source in query.reads:
            if source not in above or not plan.query_folder(query.name).exists():
                continue
            component: Any = plan.nodes[source].component
            history = History(plan.query_folder(query.name))
            for read in reads_of(query, source):
                if gone := component.gone(history.beginning(read, plan.home(source))):
                    raise PipelineError(f"{source} no longer has all that was read: {gone}")


def _beginning(name: str, source: Any) -> None:
    """Refuse a source that is not read from its beginning.

    Raises:
        PipelineError: it can't be read again, or starts elsewhere.
    """
    given = source.options  # before the type is narrowed to an ability's
    if not isinstance(source, Rewindable):
        raise PipelineError(f"{name} can't be read again, so that nothing can be compared")
    try:
        first: Any = source.starting_at("earliest")
    except OptionError as error:
        raise PipelineError(f"{name} can't be read from its beginning: {error.message}") from None
    if first.options != given:
        raise PipelineError(
            f"{name} does not start at its beginning, and what the pipeline has never read would be "
            "missing everywhere"
        )


class _NoOptions(Options):
    """None."""


class _Rows(Sink):
    """Keeps a sink's rows in files, with what they are compared by."""

    options: _NoOptions

    def __init__(self, real: Any, folder: Path, *, ids: bool) -> None:
        super().__init__(_NoOptions())
        self.accepts = real.accepts
        self.capabilities = SinkCapabilities(replaces_batch=True, needs_id=ids)
        self._real, self._folder = real, folder
        self.columns: list[Column] = []

    def write(self, frame: DataFrame, batch: Batch) -> None:
        self.columns = columns_of(frame)
        compared = self._real.compared(self.columns, batch.shape)
        rows = keyed_rows(frame, compared, batch.id)
        rows.write.mode("overwrite").parquet(for_spark(self._folder / f"batch-{batch.id}"))


def columns_of(frame: DataFrame) -> list[Column]:
    """Return the columns of a frame, as a sink is told of them."""
    return [Column(field.name, field.dataType.simpleString()) for field in frame.schema]


def keyed_rows(frame: DataFrame, compared: Compared, batch: int) -> DataFrame:
    """Return rows with what they are compared by."""
    return frame.selectExpr(
        "*",
        f"{compared.key} AS {KEY}",
        f"{compared.content} AS {CONTENT}",
        f"{batch}L AS {_BATCH}",
    )


def standing(rows: DataFrame, shape: Shape) -> DataFrame:
    """Return the rows that should be held: of a changelog the newest of each key that is not deleted.

    Rows that have no key or no sequence are nowhere.
    """
    from pyspark.sql import functions as F  # noqa: N812

    rows = rows.where(f"{KEY} IS NOT NULL")
    if not isinstance(shape, Changelog):
        return rows
    order = f"{_BATCH} DESC"
    if shape.sequence is not None:
        rows = rows.where(f"{COMMIT_VERSION} IS NOT NULL")
        order = f"{COMMIT_VERSION} DESC, {order}"
    rows = rows.where(f"{CHANGE_TYPE} <> 'update_preimage'")
    nth = F.expr(f"row_number() OVER (PARTITION BY {KEY} ORDER BY {order})")
    rows = rows.withColumn("__nth", nth).where("__nth = 1").drop("__nth")
    return rows.where(f"{CHANGE_TYPE} <> 'delete'")


def held_rows(
    spark: SparkSession, sink: Any, columns: Sequence[Column], shape: Shape, folder: Path
) -> DataFrame:
    """Return what a sink's external system holds, with what it is compared by."""
    compared = sink.compared(columns, shape)
    folder.mkdir(parents=True, exist_ok=True)
    with _Taking(folder) as taking:
        sink.held(columns, shape, taking.take)
    if taking.rows:
        rows = spark.read.schema(compared.held).parquet(for_spark(folder))
    else:
        rows = spark.createDataFrame([], compared.held)
    return rows.selectExpr(
        "*", f"{compared.held_key} AS {KEY}", f"{compared.held_content} AS {CONTENT}"
    )


class _Taking:
    """Writes what is given into a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "held.parquet"
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0

    def __enter__(self) -> _Taking:
        return self

    def take(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        if batch.num_rows:
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._file, batch.schema)
            self._writer.write_batch(batch)
            self.rows += batch.num_rows

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def differing(expected: DataFrame, held: DataFrame) -> DataFrame:
    """Return what differs: `kind`, `key`, `expected`, `held`."""
    from pyspark.sql import functions as F  # noqa: N812

    one = expected.selectExpr(f"{KEY} AS key", f"{CONTENT} AS expected", "true AS is_expected")
    two = held.selectExpr(f"{KEY} AS key", f"{CONTENT} AS held", "true AS is_held")
    kind = (
        f"CASE WHEN is_held IS NULL THEN '{MISSING}' WHEN is_expected IS NULL THEN '{EXTRA}' "
        f"WHEN NOT (expected <=> held) THEN '{DIFFERENT}' END"
    )
    found = one.join(two, "key", "full_outer").withColumn("kind", F.expr(kind))
    found = found.where("kind IS NOT NULL")
    alike: Any = F.udf(lambda one, other: same_json(one, other), "boolean")
    # Python looks at those alone that differ as text.
    other = F.when(F.col("kind") == DIFFERENT, ~alike("expected", "held")).otherwise(F.lit(True))
    return found.where(other).select("kind", "key", "expected", "held")


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two texts are JSON of the same values."""
    if one is None or other is None:
        return one == other
    try:
        first, second = (_typed(json.loads(text, parse_float=Decimal)) for text in (one, other))
    except ValueError:
        return False
    return bool(first == second)


def _typed(value: Any) -> Any:
    """Return a value of JSON in which true is not one."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, dict):
        return {name: _typed(each) for name, each in value.items()}
    return [_typed(each) for each in value] if isinstance(value, list) else value


class _Round:
    """One comparison."""

    def __init__(self, plan: Plan, node: SinkNode, folder: Path) -> None:
        self._plan, self._node = plan, node
        sink = node.sink
        self._shape = shape = plan.shape(node.streams[0])
        rows = _Rows(sink, folder / "rows", ids=node.needs_id)
        written = plan.written[node.name]
        streams = tuple(written.inputs["input"])
        # What is open stays so: the pipeline has not told it yet.
        gather(plan, streams, rows, flush=plan.document.trigger.flush)
        self._spark = spark = start(plan)
        self._columns = rows.columns or _planned(shape)
        if rows.columns:
            there = spark.read.parquet(for_spark(folder / "rows" / "*"))
            self._expected = standing(there, shape).persist()
        else:
            text = f"{KEY} STRING, {CONTENT} STRING"
            self._expected = spark.createDataFrame([], text)
        self._held = held_rows(spark, sink, self._columns, shape, folder / "held").persist()
        self._different = differing(self._expected, self._held).persist()
        self.counts = {
            row["kind"]: row["count"] for row in self._different.groupBy("kind").count().collect()
        }
        self.total = sum(self.counts.values())

    def differences(self, most: int) -> list[Difference]:
        """Return what differs, so many at most."""
        found = self._different.orderBy("kind", "key").limit(most).collect()
        return [Difference(**row.asDict()) for row in found]

    def verified(
        self,
        shown: list[Difference],
        counts: dict[str, int] | None = None,
        *,
        repaired: bool = False,
    ) -> Verified:
        """Return what was found."""
        counts = self.counts if counts is None else counts
        return Verified(self._expected.count(), self._held.count(), shown, counts, repaired)

    def after(self, first: _Round) -> Verified:
        """Return what was found first and what is left of it after the repair."""
        found = first.verified(first.differences(_SHOWN), repaired=True)
        return replace(found, left=self.counts)

    def repair(self) -> None:
        """Put right what differs."""
        sink = self._node.sink
        if isinstance(sink, Prepared):  # what is gone is made as the document says
            sink.prepare(self._columns, self._shape)
        put_right(
            self._node.sink, self._expected, self._held, self._different,
            _batch(self._plan, self._node, self._spark, self._shape),
        )  # fmt: skip


def put_right(
    sink: Any, expected: DataFrame, held: DataFrame, different: DataFrame, batch: Batch
) -> None:
    """Let a sink put right what differs."""

    def of(frame: DataFrame, kinds: str) -> DataFrame | None:
        keys = different.where(f"kind IN ({kinds})").selectExpr(f"key AS {KEY}")
        found = frame.join(keys, KEY, "left_semi").drop(KEY, CONTENT, _BATCH)
        return None if found.isEmpty() else found

    known = _BATCH in expected.columns  # else there are no rows
    rows = of(expected, f"'{MISSING}', '{DIFFERENT}'") if known else None
    sink.repair(rows, of(held, f"'{EXTRA}'"), batch)


def _counted(found: Sequence[Difference]) -> dict[str, int]:
    return dict(Counter(each.kind for each in found))


def _planned(shape: Shape) -> list[Column]:
    """Return the columns of a shape of which no row came."""
    columns = [Column(column.name, column.type or "string") for column in shape.columns]
    if isinstance(shape, Changelog):
        columns += [Column(c.name, c.type or "bigint") for c in shape.change_columns]
    return columns


def _batch(plan: Plan, node: SinkNode, spark: SparkSession, shape: Shape) -> Batch:
    """Return a batch of a checkpoint that nobody else has."""
    own = str(uuid.uuid4())
    return Batch(0, plan.pipeline, "verify", own, node.name, spark, shape, epoch=1, run=own)
