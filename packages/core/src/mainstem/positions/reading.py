"""What a task of a position log reads."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mainstem.contracts.log_source import Planner, Reading
from mainstem.errors import PermanentError
from mainstem.losses import lost_text
from mainstem.positions.log import Gap, Part, PositionLog
from mainstem.positions.planner import LogRead, PositionPlanner

if TYPE_CHECKING:
    import pyarrow as pa

#: The reserved column of what stands for a gap, where gaps are told; see `mainstem.losses.lost_text`.
GAP = "_gap"


@dataclass(frozen=True, kw_only=True)
class PositionReading(LogRead, Reading):
    """One read of a node's log: its planner, and what a task of it reads.

    Attributes:
        columns: of the rows, as DDL.
    """

    columns: str

    def schema(self) -> str:
        return f"{self.columns}, {GAP} STRING" if self.gaps == "report" else self.columns

    def planner(self) -> Planner:
        return PositionPlanner(self)

    def read(self, part: Part, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        import pyarrow as pa

        told = self.gaps == "report"
        own = pa.schema([field for field in schema if field.name != GAP]) if told else schema
        # Ended from the inside out, also when Spark wants no more: a range takes leave over the
        # connection.
        with closing(self.open("reader")) as log:
            chunks = log.read(part, own, gaps=self.gaps != "ignore")
            with closing(chunks):
                for chunk in chunks:
                    if chunk.gaps and self.gaps == "fail":
                        raise PermanentError(_lacks(log, part, chunk.gaps[0]))
                    if not told:
                        yield chunk.rows
                        continue
                    if chunk.rows.num_rows:
                        nulls = pa.nulls(chunk.rows.num_rows, pa.string())
                        yield pa.RecordBatch.from_arrays(
                            [*chunk.rows.columns, nulls], schema=schema
                        )
                    if chunk.gaps:
                        count = len(chunk.gaps)
                        texts = pa.array(
                            [_told(gap, log.digits) for gap in chunk.gaps], pa.string()
                        )
                        empty = [pa.nulls(count, field.type) for field in own]
                        yield pa.RecordBatch.from_arrays([*empty, texts], schema=schema)


def _told(gap: Gap, digits: int) -> str:
    first, last = (f"{position:0{digits}d}" for position in (gap.first, gap.last))
    return lost_text(gap.reason, count=gap.count, first=first, last=last)


def _lacks(log: PositionLog, part: Part, gap: Gap) -> str:
    return (
        f"{log.called(part.partition)} lacks {log.written(gap.first)} to {log.written(gap.last)}: "
        f"{gap.reason}. `on_loss: report` goes on and tells of it"
    )
