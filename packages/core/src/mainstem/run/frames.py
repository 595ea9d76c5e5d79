"""Turns the plan's graph into Spark frames: the same steps above an anchor and below it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812

from mainstem.contracts.abilities import Checked
from mainstem.contracts.columns import names_all
from mainstem.contracts.contexts import Progress
from mainstem.contracts.ddl import quoted
from mainstem.contracts.log_source import Reading
from mainstem.contracts.shapes import (
    ASKED,
    CARRIED,
    CHANGELOG_COLUMNS,
    REJECTED,
    Changelog,
    Inputs,
    Shape,
    sequenced_by_batch,
)
from mainstem.durable import made_folder
from mainstem.errors import DocumentError, OptionError, PluginError, Problem, nearest
from mainstem.history import ReadProgress
from mainstem.plan.bootstrap import read_name
from mainstem.plan.model import EARLY, Node, Plan, Query, SinkNode, Stream, identity_of
from mainstem.run.counting import OUTPUT, counted, counts, timed
from mainstem.run.failures import REJECTION, blame, first_line
from mainstem.run.lateness import behind
from mainstem.run.spark_source import register
from mainstem.run.telling import alone, can_refuse, failing, headed, placed, refusing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from mainstem.run.checkpoint import Checkpoint
    from mainstem.run.watermarks import Watermarks

_ROW_IN_TASK = "(monotonically_increasing_id() & 8589934591L)"  # without the task's number


class NodeContext:
    """What a component is handed; see `SourceContext` and `OperatorContext`."""

    def __init__(
        self,
        plan: Plan,
        node: Node,
        spark: SparkSession,
        checkpoint: Checkpoint,
        read_name: str,
        query: str = "",
        row_in_task: str = _ROW_IN_TASK,
    ) -> None:
        self.node = node.name
        self.row_in_task = row_in_task
        self.spark = spark
        self.identified = node.makes_id
        self.wanted = frozenset(o for o in node.outputs if plan.wants(node, o))
        self.shapes = node.shapes
        self.timed: frozenset[str] = frozenset()
        self.read_name = f"{plan.pipeline}.{query}.{read_name}"
        self._home = plan.home(node.name) if node.kind == "source" else None
        self._checkpoint = checkpoint
        self._query = query
        self.progress: Progress = ReadProgress(checkpoint.query(query), read_name)
        self.spark_folder = checkpoint.query(query) / "sources" / read_name
        self._read_name = read_name
        self.bounded = plan.document.trigger.every is None
        self._taken: set[str] = set()

    def reader(self, beside: str = "") -> DataStreamReader:
        if beside in self._taken or (beside and not beside.isalpha()):
            raise PluginError(
                f"{self.node}: a source may read one stream for each load, and one for each word beside"
            )
        self._taken.add(beside)
        name = self._read_name
        return self.spark.readStream.name(f"{name}__{beside}" if beside else name)

    def read_stream(self, format: str, **options: Any) -> DataFrame:  # noqa: A002
        return self.reader().format(format).options(**options).load()

    def read_planned(self, reading: Reading, beside: str = "") -> DataFrame:
        name = f"{self._checkpoint.run} {self.read_name} {beside}"
        records = self._checkpoint.query(self._query)
        word = register(self.spark, reading, self.node, name, records)
        return self.reader(beside).format(word).load()

    def behind(self, time: Column) -> Column:
        return behind(time, self._checkpoint.query(self._query))

    def folder(self) -> Path:
        # What an operator keeps belongs to its state in this query, and goes with it.
        return made_folder(self._home or self._checkpoint.node(self.node) / "state" / self._query)


class Frames:
    """Builds the frames of one query.

    Args:
        watermarks: puts the nodes' watermarks on their streaming frames.
        show_rows: whether the error for a refused row may hold its content.
        checking: make frames for Spark's check of streaming plans, never to run.
        instead: returns what takes the place of a read's frame, given the read's name and the frame.
        telling: fail for a row for which an expression fails by an error that names the row.
        headers: the headers of messages that rows are to have with them.
    """

    def __init__(
        self,
        plan: Plan,
        query: Query,
        spark: SparkSession,
        checkpoint: Checkpoint,
        watermarks: Watermarks,
        *,
        show_rows: bool = False,
        checking: bool = False,
        instead: Callable[[str, DataFrame], DataFrame] | None = None,
        telling: bool = False,
        headers: Collection[str] = (),
    ) -> None:
        self._plan = plan
        self._headers = headers
        self._telling = telling
        self._instead = instead
        self._query = query.name
        self._tail = query.tail
        self.counted = counted(plan, query)
        self._timed = timed(plan, query)
        self._row_in_task = "0L" if checking else _ROW_IN_TASK
        self._spark = spark
        self._checkpoint = checkpoint
        self._watermarks = watermarks
        self._show_rows = show_rows
        self._loads: dict[str, int] = {}
        self._observed: dict[str, int] = {}

    # -- above the anchor -------------------------------------------------------------------

    def streaming(self, name: str) -> DataFrame:
        """Return a node's whole streaming frame, with rows of named outputs still in it.

        A source is loaded anew each time it is met, for Spark takes one read for one name.
        """
        node = self._plan.nodes[name]
        # What a sink refused exists only inside a batch.
        assert node.kind != "sink" or name == self._tail  # noqa: S101
        if node.kind == "source":
            count = self._loads[name] = self._loads.get(name, 0) + 1
            read = read_name(name, count)
            context = NodeContext(
                self._plan,
                node,
                self._spark,
                self._checkpoint,
                read,
                self._query,
                self._row_in_task,
            )
            with self.blaming(node):
                frame = node.source.load(context)
            if self._instead is not None:
                frame = self._instead(read, frame)
            frame = self._finish(node, self._checked(node, frame))
            if self._telling and node.shape is not None:
                frame = placed(frame, node.shape)
            with self.blaming(node):
                frame = headed(frame, self._headers)
        elif isinstance(node, SinkNode):
            return self.union([self._streaming_output(stream) for stream in node.streams])
        else:
            inputs = Inputs(
                {
                    port: self.union([self._streaming_output(stream) for stream in streams])
                    for port, streams in node.inputs.items()
                }
            )
            frame = self.apply(node, inputs)
        if node.watermark or CARRIED in frame.columns:
            with self.blaming(node):
                frame = self._watermarks.put(node, frame)
        return self._count(node, frame)

    def _streaming_output(self, stream: Stream) -> DataFrame:
        return self.output(stream, self.streaming(stream.node))

    def _count(self, node: Node, frame: DataFrame) -> DataFrame:
        """Let Spark count a node's rows as they pass; the counts come with each batch's progress."""
        if node.name in self.counted or self._watermarks.counts(node):
            return frame
        count = self._observed[node.name] = self._observed.get(node.name, 0) + 1
        name = node.name if count == 1 else f"{node.name}__{count}"
        return frame.observe(name, *counts(frame, node.outputs))

    # -- anywhere ---------------------------------------------------------------------------

    def apply(self, node: Node, inputs: Inputs[DataFrame], clock: int | None = None) -> DataFrame:
        """Return an operator's frame, with rows of named outputs still in it.

        Args:
            clock: when the batch was planned whose rows these are, in milliseconds since 1970; None for
                those of a stream, where Spark knows it.
        """
        context = NodeContext(
            self._plan, node, self._spark, self._checkpoint, node.name, self._query
        )
        context.timed = self._times(node)
        if node.state is not None:
            inputs = Inputs({port: alone(frame) for port, frame in inputs.items()})
        if _names_all(node):  # which a row's place does not matter to: the batch fails then anyway
            inputs = Inputs({port: frame.drop(ASKED) for port, frame in inputs.items()})
        with self.blaming(node):
            if not (self._telling and can_refuse(node)):
                frame = node.operator.apply(inputs, context)
            else:
                context.wanted |= {"rejected"}
                frame = refusing(node).apply(inputs, context)
                frame = failing(node, frame, show_rows=self._show_rows)
        return self._finish(node, self._checked(node, frame), clock)

    def _times(self, node: Node) -> frozenset[str]:
        """Return the event times whose nulls are counted right above a node, in all that it reads."""
        above = [self._plan.nodes[s.node] for s in node.streams if not s.output]
        if len(above) < len(node.streams) or any(each.name not in self._timed for each in above):
            return frozenset()
        return frozenset(each.watermark.column for each in above if each.watermark)

    def output(self, stream: Stream, frame: DataFrame) -> DataFrame:
        """Return the rows of one output of a node, in that output's columns."""
        node = self._plan.nodes[stream.node]
        if OUTPUT not in frame.columns or (
            stream.output and f"_{stream.output}" not in frame.columns
        ):
            # A source or operator that has nothing to give there; what a sink refused is whole already.
            gives_none = stream.output and node.kind != "sink"
            return self._nothing(node.outputs[stream.output], frame) if gives_none else frame
        unread = self._plan.wants(node, "rejected") and not self._plan.readers(
            node.name, "rejected"
        )
        fails = unread and "_rejected" in frame.columns
        if stream.output:
            its = F.col(OUTPUT) == stream.output
            frame = frame.where(self._or_fail(node, frame, its) if fails else its)
            if node.outputs[stream.output] == REJECTED:
                return self.refused(node, frame, F.col("_rejected"))
            reserved = self._reserved(node, frame) if node.splits(stream.output) else []
            frame = frame.select(*reserved, F.col(f"_{stream.output}.*"))
            if stream.output in node.makes_ids:
                columns = identity_of(node.outputs[stream.output])
                frame = frame.withColumn("_id", identifier(str(stream), columns, frame))
            return frame
        main = F.col(OUTPUT).isNull()
        frame = frame.where(self._or_fail(node, frame, main) if fails else main)
        return frame.drop(OUTPUT, *(f"_{name}" for name in node.outputs))

    @staticmethod
    def _reserved(node: Node, frame: DataFrame) -> list[str]:
        """Return the reserved columns of a frame that are its rows', whatever output they are of."""
        own = {OUTPUT, *(f"_{name}" for name in node.outputs)}
        return [quoted(n) for n in frame.columns if n.startswith("_") and n not in own]

    def _nothing(self, shape: Shape, frame: DataFrame) -> DataFrame:
        """Return no rows, in the columns of a shape."""
        changes = shape.change_columns if isinstance(shape, Changelog) else ()
        columns = [
            F.lit(None).cast(c.type or "string").alias(c.name) for c in (*shape.columns, *changes)
        ]
        return frame.where(F.lit(False)).select(*columns)

    def refused(self, node: Node, frame: DataFrame, row: Any) -> DataFrame:
        """Return refused rows in the columns of `REJECTED`."""
        identity = F.col("_id") if "_id" in frame.columns else F.lit(None).cast("binary")
        return frame.select(
            identity.alias("_id"),
            F.lit(node.name).alias("node"),
            row["reason"].alias("reason"),
            row["payload"].alias("payload"),
            F.current_timestamp().alias("at"),
        )

    def _or_fail(self, node: Node, frame: DataFrame, its: Any) -> Any:
        """Return a condition that keeps an output's rows and fails on a refused one, told by its `_id`.

        Args:
            its: whether a row is of the output.
        """
        parts = [F.lit(REJECTION + node.name), F.col("_rejected.reason")]
        parts.append(F.hex("_id") if "_id" in frame.columns else F.lit(""))
        payload = F.col("_rejected.payload").cast("string") if self._show_rows else F.lit("")
        message = F.concat_ws("\x1f", *parts, F.coalesce(payload, F.lit("")))
        failing = F.when(F.col(OUTPUT) == "rejected", F.raise_error(message).cast("boolean"))
        return failing.otherwise(its)

    def union(self, frames: list[DataFrame]) -> DataFrame:
        """Return same-shaped frames as one; reserved columns that not all have become null."""
        first, *others = frames
        for other in others:
            first = first.unionByName(other, allowMissingColumns=True)
        return first

    # -- checks -----------------------------------------------------------------------------

    def _checked(self, node: Node, frame: DataFrame) -> DataFrame:
        """Hold a component's frame against the shape it announced."""
        assert node.shape is not None  # noqa: S101
        types = dict(frame.dtypes)
        visible = [name for name in frame.columns if not name.startswith("_")]
        expected = [name for name in node.shape.names if not name.startswith("_")]
        wrong = []
        if sorted(visible) != sorted(expected):
            wrong.append(f"columns {', '.join(visible)}; announced were {', '.join(expected)}")
        for column in node.shape.columns:
            found = types.get(column.name)
            if column.type and found and found != _spark_type(column.type):
                wrong.append(f"{column.name} of type {found}; announced was {column.type}")
        if wrong:
            raise PluginError(
                f"{node.name}: {node.distribution} gives {'; '.join(wrong)}. "
                f"This is a bug of {node.distribution}."
            )
        return frame

    def _finish(self, node: Node, frame: DataFrame, clock: int | None = None) -> DataFrame:
        """Add `_id` where a row's identity begins, and drop what it was made of if reserved."""
        if node.identity and node.makes_id and not sequenced_by_batch(node.shape):
            made = identifier(node.name, node.identity, frame)
            if node.kind == "operator" and OUTPUT in frame.columns:
                # What it refused is told from others as it came: the columns of the rest may be null.
                came = F.col("_id") if "_id" in frame.columns else F.lit(None).cast("binary")
                made = F.when(F.col(OUTPUT).isNull(), made).otherwise(came)
            frame = frame.withColumn("_id", made)
        if node.kind == "source" and node.shape is not None:
            kept = CHANGELOG_COLUMNS if isinstance(node.shape, Changelog) else node.shape.names
            hidden = [n for n in node.identity if n.startswith("_") and n not in kept]
            frame = frame.drop(*hidden)
        return frame if node.ahead is None else self._early(node, node.ahead, frame, clock)

    def _early(
        self, node: Node, ahead: timedelta, frame: DataFrame, clock: int | None
    ) -> DataFrame:
        """Send rows whose event time is too far ahead of the batch's clock to their output.

        Their time is null in the main output: so it does not move the watermark, which is put on next.
        Rows of other outputs, which have their time within them, move it no further either.
        """
        assert node.watermark is not None  # noqa: S101
        time = quoted(node.watermark.column)
        now = "current_timestamp()" if clock is None else f"timestamp_millis({clock})"
        limit = f"{now} + INTERVAL {int(ahead.total_seconds() * 1000)} MILLISECONDS"
        told = f"{OUTPUT} IS NULL AND " if OUTPUT in frame.columns else ""
        early = F.coalesce(F.expr(f"{told}{time} > {limit}"), F.lit(False))
        output = F.col(OUTPUT) if OUTPUT in frame.columns else F.lit(None).cast("string")
        kept = [n for n in frame.columns if not n.startswith("_") or n in CHANGELOG_COLUMNS]
        frame = frame.withColumn("__early", early)
        if self._plan.wants(node, EARLY):
            row = F.struct(*(F.col(quoted(name)) for name in kept))
            frame = frame.withColumn(f"_{EARLY}", F.when(F.col("__early"), row))
        return (
            frame.withColumn(OUTPUT, F.when(F.col("__early"), F.lit(EARLY)).otherwise(output))
            .withColumn(node.watermark.column, F.expr(f"IF({time} > {limit}, NULL, {time})"))
            .drop("__early")
        )

    @contextmanager
    def blaming(self, node: Node) -> Iterator[None]:
        """Turn Spark's complaint about an expression into a problem of the document."""
        try:
            yield
        except (AnalysisException, ParseException) as error:
            raise DocumentError([_problem(error, self._plan, node)]) from error
        except OptionError as error:
            at = [*node.path, *([f"with.{error.option}"] if error.option else [])]
            message = self._plan.scrubber.clean(error.message)
            problem = Problem(message, ".".join(at), self._plan.file, hint=error.hint)
            raise DocumentError([problem]) from error


def _names_all(node: Node) -> bool:
    """Whether an operator's SQL names all columns of its rows, whatever they are."""
    if not isinstance(node.component, Checked) or not node.shapes:
        return False
    return any(names_all(statement.text) for statement in node.component.statements(node.shapes))


def _problem(error: Any, plan: Plan, node: Node) -> Problem:
    key = blame(error, plan, [node.name])[1] or node.name
    message = first_line(error)
    found = error.getMessageParameters() or {}
    name = str(found.get("objectName", "")).strip("`").rpartition("`.`")[2]
    columns = [c for stream in node.streams for c in plan.shape(stream).names]
    hint = nearest(name, columns) if name else ""
    if name and not hint and columns:
        hint = f"Columns: {', '.join(columns)}."
    return Problem(plan.scrubber.clean(message), key, plan.file, hint=hint)


def check_streaming(frame: DataFrame, output_mode: str) -> None:
    """Run Spark's check that a plan can be streamed: the one it makes before a query starts.

    Sessions have that check switched off, since it forbids `row_in_task`; so it is made here, on
    frames without it.
    """
    jvm: Any = frame.sparkSession._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = modes.Append() if output_mode == "append" else modes.Update()
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    analysis.UnsupportedOperationChecker.checkForStreaming(frame._jdf.logicalPlan(), mode)


def identifier(node: str, columns: tuple[str, ...], frame: DataFrame) -> Any:
    """Return 16 bytes that tell a row from every other: a hash of node name and identity columns.

    Each value is written with its length before it, so that no two tuples read the same. Times go
    in as microseconds: text would depend on the session's zone.
    """
    types = dict(frame.dtypes)
    parts = [f"'{node}'"]
    for name in columns:
        column = quoted(name)
        if types[name] == "timestamp":
            text = f"CAST(unix_micros({column}) AS STRING)"
        elif types[name] in ("string", "binary"):
            text = column
        elif types[name].startswith(("struct", "array", "map", "variant")):
            text = f"to_json({column})"
        else:
            text = f"CAST({column} AS STRING)"
        parts.append(f"coalesce(concat(octet_length({text}), ':', {text}), '-')")
    return F.expr(f"unhex(md5(concat({', '.join(parts)})))")


def _spark_type(text: str) -> str:
    """Return a type as `DataFrame.dtypes` writes it."""
    return text.replace("`", "")
