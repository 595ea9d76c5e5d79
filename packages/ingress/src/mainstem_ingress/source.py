"""The base of every source on the ingress log."""

from __future__ import annotations

import copy
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from mainstem import (
    MESSAGE_COLUMNS,
    REJECTED,
    Branching,
    Dataset,
    Events,
    HelperProcess,
    Inputs,
    Lag,
    Located,
    Measurable,
    OptionError,
    Reached,
    Rewindable,
    Shape,
    Source,
    SourceContext,
    Supervised,
    Trace,
    Traceable,
    Verifiable,
)
from mainstem.columns import Column, has_arrow_type, literal, quoted, read_columns
from mainstem.losses import lost_shape, split_lost

from mainstem_ingress.losses import MARK
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.tables import tables_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_ingress.log import Log

#: What a receiver may give in place of the log's own.
PLACES = ("partition", "position")


class IngressSource(
    Source, Branching, Located, Measurable, Rewindable, Supervised, Traceable, Verifiable
):
    """A source whose messages are pushed to it: its receivers make a log, which Spark reads.

    A subclass annotates `options` with a subclass of `IngressOptions`, and says which receiver
    takes the messages and, in `capabilities`, what the external system promises.
    """

    options: IngressOptions
    #: DDL of columns beside those of messages, of any type that Arrow has too; receivers give their
    #: values as `Message.extra`. Of the class, or set in `__init__` where options decide. Named
    #: `partition` and `position`, they stand in place of the log's own: rows are then told apart by them.
    extra: str = ""
    #: Outputs beside the main one, by name, of declared types: a receiver gives a row of one by
    #: `Message.extra`, to which it adds what `row_of` returns. A changelog has its reserved columns too.
    tables: Mapping[str, Shape] = MappingProxyType({})
    #: Whether receivers give `lost`: such rows come out of the output `lost`.
    loses: bool = False
    #: DDL of what `lost` has beside the columns of `mainstem.LOST`: columns of the message, and `at`.
    lost_columns: ClassVar[str] = "origin STRING, at TIMESTAMP"
    #: Whether batches end only where a receiver has said that what belongs together is whole. Of the
    #: class, or set in `__init__` where options decide.
    together: bool = False
    #: Beginnings of the names of variables that the vendor's library reads, beside the options.
    inherits: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: IngressOptions) -> None:
        super().__init__(options)
        self._start: float | None = None
        self._follows = True

    @abstractmethod
    def receiver(self) -> type[Receiver]:
        """Return the class of the receivers. It may import the vendor's library."""

    def datasets(self, output: str) -> Sequence[Dataset]:
        return self.options.datasets()

    def shape(self) -> Shape:
        own = {c.name: c for c in self._extra() if not c.name.startswith("_")}
        columns = [own.pop(column.name, column) for column in MESSAGE_COLUMNS]
        return Events([*columns, *own.values()], identity=("origin", "partition", "position"))

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        """Refused messages come out of `rejected`, and what is known to be missing of `lost`."""
        found: dict[str, Shape] = {**self.tables, "rejected": REJECTED}
        return found | {"lost": lost_shape(self.lost_columns)} if self.loses else found

    def load(self, ctx: SourceContext) -> DataFrame:
        from mainstem_ingress.reading import LogReading

        options = self.options
        log = self.log(ctx.folder())
        if self._follows:
            # Spark asks where to begin when the read's turn comes, which may be after others have read
            # what it wants (`LoadedFirst`).
            log.hold(ctx.read_name)
        reading = LogReading(
            log.folder,
            options.max_rows,
            options.max_bytes,
            ", ".join(column.ddl for column in self._extra()),
            refused=self.loses or "rejected" in ctx.wanted,
            tasks=ctx.spark.sparkContext.defaultParallelism,
            consumer=ctx.read_name if self._follows else "",
            start=self._start,
            evolves=options.on_new_columns == "evolve",
            most_together=options.high_water // options.receivers if self.together else None,
        )
        return self._split(ctx.read_planned(reading), ctx)

    def _split(self, frame: DataFrame, ctx: SourceContext) -> DataFrame:
        """Let what is refused, and what is missing, come out of their outputs."""
        from mainstem_ingress.segments import REASON

        if REASON not in frame.columns:
            return frame
        missing = f"startswith({REASON}, {literal(MARK)})" if self.loses else "false"
        refused = f"({REASON} IS NOT NULL AND NOT {missing})"
        if "rejected" in ctx.wanted:
            given = "_output" if "_output" in frame.columns else "NULL"
            frame = frame.selectExpr(
                *(quoted(name) for name in frame.columns if name != "_output"),
                f"CASE WHEN {refused} THEN 'rejected' ELSE {given} END AS _output",
                f"CASE WHEN {refused} THEN named_struct('reason', {REASON}, 'payload', value) END "
                "AS _rejected",
            )
        else:
            frame = frame.where(f"NOT {refused}")
        if self.loses:
            text = f"IF({missing}, substring({REASON}, {len(MARK) + 1}), NULL)"
            columns = {c.name: "timestamp" if c.name == "at" else c.name for c in self._missing()}
            frame = split_lost(frame, ctx, text, columns)
        return frame.drop(REASON)

    def _missing(self) -> Sequence[Column]:
        return read_columns(self.lost_columns)

    def log(self, home: Path) -> Log:
        """Return the log; `home` is the node's durable folder."""
        from mainstem_ingress.log import Log

        return Log(self.options.folder or home)

    def damage(self, home: Path) -> Iterator[str]:
        """Yield what is wrong with the log: every file of it is read."""
        from mainstem_ingress.errors import LogError

        log = self.log(home)
        for check in log.checks():
            try:
                check()
            except LogError as error:
                yield str(error)

    # -- receivers ----------------------------------------------------------------------------

    def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
        """Return the receivers' processes; none for a source that reads the past alone."""
        if not self._follows:
            return []
        from mainstem_ingress.process import Task

        made = self.receiver()
        return [
            HelperProcess(
                f"{node}-{number}",
                (sys.executable, "-m", "mainstem_ingress.process"),
                stdin=Task(
                    f"{made.__module__}:{made.__qualname__}",
                    node,
                    number,
                    self.log(home).folder.absolute(),
                    self.options,
                    tuple((column.name, column.type or "") for column in self._extra()),
                ).encoded(),
                inherits=self.inherits,
            )
            for number in range(self.options.receivers)
        ]

    def _extra(self) -> tuple[Column, ...]:
        found = tuple(read_columns(self.extra)) if self.extra else ()
        if self.tables:
            found += tuple(read_columns(tables_ddl(self.tables)))
        for column in found:
            if not has_arrow_type(column.type or ""):
                raise TypeError(f"{type(self).__name__}.extra: no column of a log is {column.ddl}")
            given = next((c for c in MESSAGE_COLUMNS if c.name == column.name), None)
            if given is not None and (column.name not in PLACES or column.type != given.type):
                raise TypeError(f"{type(self).__name__}.extra: {column.ddl} is a message's column")
        return found

    # -- measuring and going back -------------------------------------------------------------

    def end(self, home: Path) -> Mapping[str, str]:
        """Return the end of each receiver's log."""
        return {name: str(end) for name, end in self.log(home).ends().items()}

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return the rows that are in the log and not read, and the age of the oldest."""
        log = self.log(reached.home)
        found = []
        for name in log.receivers():
            since = (reached.offset or {}).get(name)
            rows, oldest = log.unread(name, log.earliest(name) if since is None else since)
            found.append(Lag(name, rows, max(0.0, time.time() - oldest) if rows else 0.0))
        return found

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> IngressSource:
        """Return this source from the first segment stored at a time or later, or from the first."""
        if not isinstance(point, datetime) and point != "earliest":
            raise OptionError(f"the log starts at `earliest` or at a time, not at {point!r}")
        other = copy.copy(self)
        other._follows = False
        other._start = point.timestamp() if isinstance(point, datetime) else None
        return other

    def gone(self, since: Reached) -> str:
        """Return which segments after a point were removed."""
        log = self.log(since.home)
        offset = dict.fromkeys(log.receivers(), 0) if since.offset is None else since.offset
        missing = {
            name: (number, first)
            for name, number in offset.items()
            if number < (first := log.earliest(name))
        }
        return ", ".join(
            f"segments {number} to {first - 1} of receiver {name}"
            for name, (number, first) in missing.items()
        )

    # -- Traceable ----------------------------------------------------------------------------

    def traces(self, home: Path, message: str, key: str) -> Iterator[Trace]:
        """Yield messages of the log: each segment that is there is read."""
        from mainstem_ingress.tracing import traces

        yield from traces(self.log(home), message, key)

    def reached(self, trace: Trace, offset: Any) -> bool:
        from mainstem_ingress.tracing import segment_of

        receiver, number = segment_of(trace)
        return bool(offset.get(receiver, 0) > number)
