"""A sink into a table of any format: events appended once, and rows kept in step by merges."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from mainstem import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    Accepts,
    Batch,
    Changelog,
    Comparable,
    Compared,
    Events,
    OptionError,
    PermanentError,
    Prepared,
    Shape,
    Sink,
    SinkCapabilities,
    Transactional,
    TransientError,
    Typed,
    failpoint,
)
from mainstem.attempts import row_as_json
from mainstem.columns import (
    FAR_TIME,
    Column,
    arrow_type,
    far_time,
    find_column,
    has_arrow_type,
    literal,
    quoted,
)
from mainstem.patience import retry
from mainstem.sinks import Step

from mainstem_lake.options import SEQUENCE, LakeOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem_lake.table import File, LakeTable

#: Types whose values can be a folder's name.
_FOLDERS = ("string", "tinyint", "smallint", "int", "bigint", "date", "boolean")
_LOG = logging.getLogger(__name__)


class LakeSink(Sink, Typed, Prepared, Transactional, Comparable):
    """Appends events, whose files Spark's tasks write, by one commit a batch; sets and deletes the rows
    of a table by a merge.

    The commit leaves the batch's number with the table, so that a batch that comes again is seen to be
    in.
    """

    options: LakeOptions
    accepts = Accepts((Events, Changelog))
    capabilities: SinkCapabilities
    #: What errors call the format.
    format: ClassVar[str]
    #: Beginnings of types that the format has not.
    not_held: ClassVar[tuple[str, ...]] = ("interval", "void", "variant", "time(")

    @abstractmethod
    def table(self) -> LakeTable:
        """Return the table at its newest version."""

    def unfit(self, kinds: Mapping[str, str], table: LakeTable) -> dict[str, str]:
        """Return conditions in SQL of rows that the table can't hold, with the reasons.

        Args:
            kinds: the types of columns.
        """
        return {}

    # -- before a run -----------------------------------------------------------------------------

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse types that the format has not, and folders of what is no plain text."""
        for column in _held(columns):
            kind = column.type or ""
            if any(each in kind for each in self.not_held):
                raise OptionError(
                    f"{self.format} can't hold the column {column.name}, of type {kind}",
                    hint="Make text of it before.",
                )
        for name in self.options.partition_by:
            found = find_column(columns, name, "partition_by")
            if found.name != name:
                hint = f"Write {found.name}."
                raise OptionError(f"{name} is written otherwise", option="partition_by", hint=hint)
            if found.type is not None and found.type not in _FOLDERS:
                raise OptionError(
                    f"column {name}, of type {found.type}, can't be a folder's name",
                    option="partition_by",
                )

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Make the table where it is not there; else compare its columns with what will be written."""
        from mainstem_lake.table import fits, names_folders

        wanted = self._schema(columns, shape)
        table = self.table()
        if not table.there:
            table.make(wanted)
            return
        if held := table.demands():
            raise OptionError(
                f"the table demands {held[0]} of its rows, which is not looked at by who writes files"
            )
        there = {field.name: field.type for field in table.schema}
        for name in table.partition_by:
            if not names_folders(there[name]):
                raise OptionError(
                    f"the table is partitioned by {name}, whose values, of type {there[name]}, "
                    "can't be folders' names"
                )
        spelled = {name.lower(): name for name in there}
        for field in wanted:
            if (own := spelled.get(field.name.lower(), field.name)) != field.name:
                raise OptionError(
                    f"column {field.name} is written {own} in the table",
                    hint="Give it that name with `select`.",
                )
        new = [field for field in wanted if field.name not in there]
        if new and self.options.on_new_column == "fail":
            names = ", ".join(field.name for field in new)
            raise OptionError(f"the table has no column {names}", option="on_new_column")
        for field in wanted:
            kind = there.get(field.name, field.type)
            if not fits(field.type, kind):
                raise OptionError(
                    f"column {field.name} is {kind} in the table, and {field.type} here",
                    hint="Bring it to that type with `select`.",
                )
        if new:
            table.add(new)

    def _schema(self, columns: Sequence[Column], shape: Shape) -> pa.Schema:
        import pyarrow as pa

        fields = []
        for column in _held(columns):
            kind = column.type or "string"
            if not has_arrow_type(kind):
                raise OptionError(
                    f"{self.format} can't hold the column {column.name}, of type {kind}"
                )
            fields.append(pa.field(column.name, arrow_type(kind)))
        if isinstance(shape, Changelog) and shape.sequence is not None:
            sequence = next(c.type for c in columns if c.name == COMMIT_VERSION)
            fields.append(pa.field(SEQUENCE, arrow_type(sequence or "bigint")))
        return pa.schema(fields)

    # -- batches ----------------------------------------------------------------------------------

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return self._put(frame, batch, once=False)

    def committed(self, batch: Batch) -> bool:
        return self.table().step(batch) is Step.SKIP

    def write_once(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return self._put(frame, batch, once=True)

    def _put(self, frame: DataFrame, batch: Batch, *, once: bool) -> DataFrame | None:
        failpoint("lake.before-write")
        table = self.table()
        step = table.step(batch, once=once)
        if not table.partition_by and not isinstance(batch.shape, Changelog):
            return self._done(frame, table, batch, step, once=once)
        frame = frame.persist()  # it is looked at twice: for what is refused too
        try:
            return self._done(frame, table, batch, step, once=once)
        finally:
            frame.unpersist()

    def _done(
        self, frame: DataFrame, table: LakeTable, batch: Batch, step: Step, *, once: bool
    ) -> DataFrame | None:
        """Do what is to be done with a batch; return the rows that were refused."""
        good, wrong = self._parted(frame, table, batch)
        refused = None if wrong is None else wrong.localCheckpoint(eager=True)
        if step is Step.SKIP:
            frame.write.format("noop").mode("overwrite").save()
        elif isinstance(batch.shape, Changelog):
            self._merge(good, batch, once=once)
        else:
            files = self._files(good, table, batch)
            failpoint("lake.after-files")
            if files:
                self._commit(batch, once, lambda t: t.append(files, batch, once=once))
            elif once:
                self._commit(batch, once, lambda t: t.append([], batch, once=True))
        if step is Step.WRITE:
            self._compacted(batch)
        return None if refused is None or refused.isEmpty() else refused

    def _commit(self, batch: Batch, once: bool, commit: Callable[[LakeTable], None]) -> None:
        """Commit; where it can't be said whether that is done, the log is asked.

        Raises:
            FencedError: another run has come before.
        """

        def work(_: int) -> None:
            table = self.table()
            if table.step(batch, once=once) is Step.WRITE:
                commit(table)

        retry(work, self.options.give_up.total_seconds())

    def _files(self, frame: DataFrame, table: LakeTable, batch: Batch) -> list[File]:
        """Let the tasks write rows; return the files."""
        from mainstem_lake.files import FILES, write_files
        from mainstem_lake.table import File

        schema = table.schema.serialize().to_pybytes()
        names = [quoted(name) for name in frame.columns if not name.startswith("_")]
        prefix = f"{batch.query_id[:8]}-{batch.id:010d}"
        task = partial(write_files, table.room(), self.options, schema, table.partition_by, prefix)
        found = frame.selectExpr(*names).mapInArrow(task, FILES).collect()
        return [
            File(r["path"], r["size"], json.loads(r["partition"]), bytes(r["footer"]))
            for r in found
        ]

    def _merge(self, frame: DataFrame, batch: Batch, *, once: bool, over: bool = False) -> None:
        """Set and delete the rows of a table: of each key its newest change.

        Args:
            over: whatever is there.
        """
        from pyspark.sql import functions as F  # noqa: N812

        from mainstem_lake.table import GONE

        shape = batch.shape
        assert isinstance(shape, Changelog)  # noqa: S101
        frame = frame.where(f"{CHANGE_TYPE} <> 'update_preimage'")
        names = [quoted(name) for name in frame.columns if not name.startswith("_")]
        columns = [*names, f"{CHANGE_TYPE} = 'delete' AS {GONE}"]
        sequenced = shape.sequence is not None and COMMIT_VERSION in frame.columns
        if sequenced:
            columns.append(f"{COMMIT_VERSION} AS {SEQUENCE}")
        rows = frame.selectExpr(*columns)
        keys = ", ".join(map(quoted, shape.key))
        # Of changes that nothing else tells apart a row counts rather than a deletion.
        order = f"{SEQUENCE} DESC, {GONE}" if sequenced else GONE
        nth = F.expr(f"row_number() OVER (PARTITION BY {keys} ORDER BY {order})")
        rows = rows.withColumn("__nth", nth).where("__nth = 1").drop("__nth")
        changes = rows.toArrow()
        if not changes.num_rows:
            if once:
                self._commit(batch, once, lambda t: t.append([], batch, once=True))
            return

        def merge(table: LakeTable) -> None:
            import pyarrow as pa

            from mainstem_lake.table import fitted

            schema = pa.schema(
                [f for f in table.schema if f.name in changes.column_names]
                + [pa.field(GONE, pa.bool_())]
            )
            key = [find_column(_columns(schema), name, "key").name for name in shape.key]
            table.merge(
                fitted(changes, schema), key, batch, once=once, guarded=sequenced and not over
            )

        self._commit(batch, once, merge)

    def _parted(
        self, frame: DataFrame, table: LakeTable, batch: Batch
    ) -> tuple[DataFrame, DataFrame | None]:
        """Split off the rows that the table can't hold: by their values alone, the same each time."""
        kinds = dict(frame.dtypes)
        reasons = self.unfit(kinds, table)
        for name in table.partition_by:
            if name in kinds and (far := far_time(quoted(name), kinds[name])):
                reasons[far] = f"{name}, by which the table is partitioned, {FAR_TIME}"
        if isinstance(batch.shape, Changelog):
            needed = [*batch.shape.key]
            needed += [COMMIT_VERSION] if batch.shape.sequence is not None else []
            for name in needed:
                reasons[f"{quoted(name)} IS NULL"] = f"{name}, by which rows are compared, is null"
        if not reasons:
            return frame, None
        wrong = " OR ".join(f"coalesce({sql}, false)" for sql in reasons)
        cases = " ".join(f"WHEN {sql} THEN {literal(why)}" for sql, why in reasons.items())
        identity = "_id" if "_id" in frame.columns else "CAST(NULL AS BINARY) AS _id"
        refused = frame.where(wrong).selectExpr(
            f"CASE {cases} END AS reason",
            f"{row_as_json(frame.columns)} AS payload",
            identity,
        )
        return frame.where(f"NOT ({wrong})"), refused

    # -- Comparable -------------------------------------------------------------------------------

    def compared(self, columns: Sequence[Column], shape: Shape) -> Compared:
        from mainstem.changes import compared_by_columns

        if not isinstance(shape, Changelog):
            raise OptionError("events have no key in the table, by which they could be compared")
        return compared_by_columns(columns, shape)

    def held(
        self, columns: Sequence[Column], shape: Shape, take: Callable[[pa.RecordBatch], None]
    ) -> None:
        import pyarrow as pa

        from mainstem_lake.table import fitted

        table = self.table()
        if not table.there:
            return
        kinds = pa.schema([(c.name, arrow_type(c.type or "string")) for c in _held(columns)])
        for batch in table.batches(kinds.names):
            for part in fitted(pa.Table.from_batches([batch]), kinds).to_batches():
                take(part)

    def repair(self, rows: DataFrame | None, extra: DataFrame | None, batch: Batch) -> None:
        if rows is not None:
            good, _ = self._parted(rows, self.table(), batch)
            self._merge(good, batch, once=False, over=True)
        if extra is not None:
            gone = extra.selectExpr("*", f"'delete' AS {CHANGE_TYPE}")
            self._merge(gone, batch, once=False, over=True)

    def _compacted(self, batch: Batch) -> None:
        """Make larger files of small ones, when it is time; that it fails harms nothing."""
        every = self.options.compact_every
        if every is None or (batch.id + 1) % every:
            return
        try:
            self.table().compact()
        except (TransientError, PermanentError) as error:
            _LOG.warning("%s was not compacted: %s", batch.sink, error)


def _held(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if not column.name.startswith("_")]


def _columns(schema: pa.Schema) -> list[Column]:
    return [Column(name) for name in schema.names]
