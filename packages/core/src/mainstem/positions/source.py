"""The base of sources on a log that is read by position."""

from __future__ import annotations

import copy
import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from mainstem.contracts.abilities import (
    Branching,
    Dataset,
    Lag,
    Located,
    Measurable,
    Reached,
    Rewindable,
    Trace,
    Traceable,
)
from mainstem.contracts.components import Source
from mainstem.contracts.options import Options
from mainstem.contracts.shapes import LOST, Inputs, Shape
from mainstem.durable import read_whole
from mainstem.errors import OptionError
from mainstem.losses import split_lost
from mainstem.positions.log import Begin, Part, PositionLog
from mainstem.positions.options import PositionOptions
from mainstem.positions.planner import begin, check_identity, offset_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.contracts.contexts import Progress, SourceContext
    from mainstem.positions.reading import PositionReading


class PositionSource(Source, Branching, Located, Measurable, Rewindable, Traceable):
    """A source on a position log.

    The author says how the log is opened, what its rows are, and where a new checkpoint begins; all else
    is the base's: offsets, limits, the first offset, retries, losses, lag, and going back.
    """

    options: PositionOptions
    #: Columns of the rows that tasks make, as DDL; reserved ones too.
    columns: ClassVar[str]
    #: What becomes of positions that are gone; the option `on_loss` decides where there is one.
    gaps: Literal["ignore", "report", "fail"] = "fail"
    #: Whether only the newest message of each key counts, so that older ones gone are no loss. Of the
    #: class, or set in `__init__` where options decide.
    superseded: bool = False

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._begin: Begin = self.begin()
        self._rewound = False

    @abstractmethod
    def opener(self, node: str) -> Callable[[str], PositionLog]:
        """Return what opens the log, given who reads; it is pickled. `node` names the connections."""

    def begin(self) -> Begin:
        """Return where a new checkpoint begins."""
        return "earliest"

    def datasets(self, output: str) -> Sequence[Dataset]:
        return self.options.datasets()

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        """What was gone before it was read comes out of `lost`, if it does not end the run."""
        return {"lost": LOST} if self._gaps == "report" else {}

    @property
    def _gaps(self) -> Literal["ignore", "report", "fail"]:
        found: Literal["ignore", "report", "fail"] = getattr(self.options, "on_loss", self.gaps)
        return "ignore" if self.superseded else found

    def load(self, ctx: SourceContext) -> DataFrame:
        from mainstem.positions.reading import GAP

        # Replays and previews have the same folder.
        first = first_file(ctx.folder().absolute(), ctx.spark_folder, elsewhere=self._rewound)
        tasks = self.options.partitions or ctx.spark.sparkContext.defaultParallelism
        frame = ctx.read_planned(self.reading(ctx.node, tasks, progress=ctx.progress, first=first))
        # Also where nobody reads `lost`: its rows are counted, and shown with the run.
        return split_lost(frame, ctx, GAP, {}).drop(GAP) if self._gaps == "report" else frame

    def reading(
        self, node: str, tasks: int, *, progress: Progress | None = None, first: Path | None = None
    ) -> PositionReading:
        """Return one read of the log; see `LogRead` for what is given."""
        from mainstem.positions.reading import PositionReading

        options = self.options
        return PositionReading(
            open=self.opener(node),
            begin=self._begin,
            give_up=options.give_up.total_seconds(),
            tasks=tasks,
            rows_per_task=options.rows_per_task,
            max_rows=options.max_rows,
            gaps=self._gaps,
            progress=progress,
            first=first,
            columns=self.columns,
        )

    def _asked(self) -> closing[PositionLog]:
        """Return the log, to be asked once and closed after that."""
        return closing(self.opener("")("measuring"))

    def end(self, home: Path) -> Mapping[str, str]:
        """Return the last position of each partition."""
        with self._asked() as log:
            return {partition: str(span.last) for partition, span in log.look().spans.items()}

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return the messages that are not read, and the age of the oldest."""
        with self._asked() as log:
            offset = reached.offset
            log.recall((offset or {}).get("notes", {}))
            seen = log.look()
            if offset is None:
                offset = begin(log, self._begin)
            else:
                check_identity(log, seen, offset["log"])
            found = []
            for partition, span in seen.spans.items():
                read = int(offset["read"].get(partition, span.first - 1))
                rows = log.waiting(partition, max(read, span.first - 1), span.last)
                age = log.age(partition, read) if rows else 0.0
                found.append(Lag(partition, rows, age))
            return found

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> Self:
        other = copy.copy(self)
        other._rewound = True
        if isinstance(point, datetime) or point == "earliest":
            other._begin = point  # type: ignore[assignment]  # no other text gets here
            return other
        if isinstance(point, str):
            raise OptionError(
                f"it starts at `earliest`, at a time, or at an offset, not at {point!r}"
            )
        with self._asked() as log:
            other._begin = offset_of(log, point)
        return other

    def gone(self, since: Reached) -> str:
        with self._asked() as log:
            offset = since.offset
            if offset is None:
                first = first_file(since.home, since.spark_folder)
                offset = json.loads(read_whole(first)) if first.exists() else None
            log.recall((offset or {}).get("notes", {}))
            seen = log.look()
            if offset and offset["log"] != seen.identity:
                return (
                    f"{log.called(next(iter(seen.spans), ''))}: it was made anew ({seen.identity})"
                )
            parts = []
            for partition, span in () if self.superseded else seen.spans.items():
                read = int(offset["read"].get(partition, 0)) if offset else 0
                if span.first > read + 1 and (read or log.from_one):
                    what = f"messages {log.written(read + 1)} to {log.written(span.first - 1)}"
                    parts.append(f"{what} of {log.called(partition)}")
                if span.deleted:
                    parts.append(
                        f"{span.deleted} deleted messages among those that {log.called(partition)} has"
                    )
            return ", ".join(parts)

    # -- Traceable --------------------------------------------------------------------------------

    def traces(self, home: Path, message: str, key: str) -> Iterator[Trace]:
        """Yield messages by their position, or by their key; for a key the whole log is read."""
        partition, _, position = message.rpartition("/")
        if message and not position.isdecimal():
            raise OptionError("its messages are known by PARTITION/POSITION")
        with self._asked() as log:
            seen = log.look()
            if not message:
                for name, span in seen.spans.items():
                    yield from self._read(log, seen.identity, name, span.first - 1, span.last, key)
            elif partition in seen.spans:
                at = int(position)
                yield from self._read(log, seen.identity, partition, at - 1, at, "")

    def _read(
        self, log: PositionLog, identity: str, partition: str, after: int, end: int, key: str
    ) -> Iterator[Trace]:
        import pyarrow as pa

        from mainstem.columns import arrow_type, read_columns

        kinds = [(c.name, arrow_type(c.type or "")) for c in read_columns(self.columns)]
        part = Part(identity, partition, after, end)
        for chunk in log.read(part, pa.schema(kinds), gaps=False):
            for row in chunk.rows.to_pylist():
                if key and row.get("key") != key.encode():
                    continue
                place = {name: row[name] for name in ("origin", "partition", "position")}
                where = f"{log.called(partition)}, position {log.written(int(place['position']))}"
                yield Trace(place, where, row.get("timestamp"), value=row.get("value"))

    def reached(self, trace: Trace, offset: Any) -> bool:
        read = offset["read"].get(trace.place["partition"])
        return read is not None and int(read) >= int(trace.place["position"])


def first_file(home: Path, spark_folder: Path, *, elsewhere: bool = False) -> Path:
    """Return the file that keeps where a read began.

    Args:
        home: the node's durable folder.
        spark_folder: where Spark keeps its files of the read: `QUERY/sources/READ`.
        elsewhere: whether the read was told to begin elsewhere.
    """
    name = f"{spark_folder.parent.parent.name}.{spark_folder.name}{' elsewhere' * elsewhere}"
    return home / "first" / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
