"""Mode `poll`: rows whose column has grown, again and again.

What polling can't see: deletes; updates that leave the column as it is; all but the last of several
updates between two polls; a row that is committed too late. The last is the trap. Values are given
when a row is written and show when its transaction commits, so a lower value may show after a higher
one was read, and a poll that reads on from the highest never finds it. Here a poll reads up to a bound
that has settled:

- of times: the newest that is older than `settle` by the database's clock. A row is read if it is
  committed within `settle` of the time that it carries.
- of numbers: the highest one `settle` ago. A row is read if it is committed within `settle` of the
  moment at which an equal or higher number was first seen.

Capture of changes from the database's log has none of these limits, and is the right way to follow a
table; polling is for where the log can't be had.

Ranges have two ends, (from, to] by value, so rows of one value are never parted. What a poll has read
is stored in a file before its offset is given to Spark, so that a range reads the same when it is read
again, whatever has become of the table; the file goes when its batch is committed. An offset is
`{"chain": names the files of a checkpoint, "column": ..., "segment": the last file's number, "to": the
bound as text, or null}`.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from mainstem import Offset, PipelineError, Planner, failpoint
from mainstem.columns import Column
from mainstem.durable import made_folder

from mainstem_database_sql.source import storing
from mainstem_database_sql.source.selecting import Database, named
from mainstem_database_sql.source.storing import SUFFIX, Rows
from mainstem_database_sql.source.values import taker

if TYPE_CHECKING:
    from mainstem_database_sql.source.read import TableRead
    from mainstem_database_sql.source.selecting import Table

#: For how long a preview's or a replay's files are kept that nobody came back for, in seconds.
_LEFT_KEPT = 7 * 24 * 3600.0
_STEP = 0.2


class Bounds:
    """A column that grows, in SQL, and its values: whole numbers, `Decimal`s, or times in UTC.

    Times are compared by the microsecond, in SQLite by the millisecond.
    """

    def __init__(self, column: Column, product: str) -> None:
        self.name = column.name
        self.timed = column.type in ("timestamp", "timestamp_ntz")
        self._whole = column.type in ("tinyint", "smallint", "int", "bigint")
        self._zoned = column.type == "timestamp"
        self._product = product
        self._take = taker(column.type or "")
        plain = named(column.name)
        #: What is compared. Text of SQLite's may tell one time in many ways.
        self.expression: sa.ColumnElement[Any] = plain
        if self.timed and product == "sqlite":
            self.expression = sa.func.strftime(
                "%Y-%m-%d %H:%M:%f", plain, type_=sa.types.NullType()
            )

    def value(self, found: Any) -> Any:
        """Return a value that the database gave.

        Raises:
            PipelineError: it has no place in an order.
        """
        if found is None:
            return None
        try:
            taken = self._take(found)
        except (ValueError, TypeError, ArithmeticError):
            message = f"column {self.name} has a value that is neither a number nor a time"
            raise PipelineError(message) from None
        if isinstance(taken, datetime) and taken.tzinfo is not None:
            return taken.astimezone(UTC).replace(tzinfo=None)
        return taken

    def text(self, value: Any) -> str | None:
        """Return a value as an offset has it."""
        if isinstance(value, datetime):
            return value.isoformat(sep=" ", timespec="microseconds")
        return None if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)

    def read(self, text: str | None) -> Any:
        """Return the value that an offset has."""
        if text is None:
            return None
        if self.timed:
            return datetime.fromisoformat(text)
        return int(text) if self._whole else Decimal(text)

    def _bound(self, value: Any) -> sa.ColumnElement[Any]:
        """Return a value for comparison."""
        if self.timed and self._product == "sqlite":
            return sa.literal(value.isoformat(sep=" ", timespec="milliseconds"), sa.String())
        if self.timed:
            zoned = self._zoned and self._product == "postgresql"
            given = value.replace(tzinfo=UTC) if zoned else value
            return sa.literal(given, sa.DateTime(timezone=zoned))
        return sa.literal(value, sa.Numeric() if isinstance(value, Decimal) else sa.BigInteger())

    def between(self, low: Any, high: Any) -> sa.ColumnElement[bool]:
        """Return the condition for values above one and up to another; None is no bound."""
        found: sa.ColumnElement[bool] = sa.true()
        if low is not None:
            found = self.expression > self._bound(low)
        return found if high is None else sa.and_(found, self.expression <= self._bound(high))

    # -- asking -------------------------------------------------------------------------------

    def now(self, table: Table) -> datetime:
        """Return the time of the database's clock, read before anything is looked at."""
        clocks: dict[str, Any] = {
            "postgresql": sa.func.statement_timestamp(type_=sa.types.NullType()),
            "mysql": sa.func.utc_timestamp(sa.literal_column("6"), type_=sa.types.NullType()),
            "sqlite": sa.func.strftime("%Y-%m-%d %H:%M:%f", "now", type_=sa.types.NullType()),
        }
        found = table.connection.execute(sa.select(clocks[self._product])).scalar_one()
        at = datetime.fromisoformat(found) if isinstance(found, str) else found
        return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at

    def newest(self, table: Table, low: Any = None, high: Any = None) -> Any:
        """Return the highest value between two; None if there is none."""
        highest = sa.func.max(self.expression, type_=sa.types.NullType())
        return self.value(table.one(highest, where=self.between(low, high))[0])

    def check(self, table: Table) -> None:
        """Refuse a table with a row that polling would never see.

        Raises:
            PipelineError: a row has no value, or one that is no time.
        """
        asked: Any = sa.select(sa.literal_column("1")).select_from(table.database.table)
        found = table.connection.execute(asked.where(self.expression.is_(None)).limit(1))
        if found.first() is not None:
            raise PipelineError(
                f"table {table.database.name}: column {self.name} has no value in some row, or none "
                "that can be ordered, and polling never sees such a row. Make it NOT NULL, or poll "
                "another column."
            )

    def cut(self, table: Table, low: Any, high: Any, rows: int) -> Any:
        """Return up to which value there are so many rows at most, in full values, one at least."""
        within = self.between(low, high)
        ordered = sa.select(self.expression).select_from(table.database.table).where(within)
        ordered = ordered.order_by(self.expression).limit(1).offset(rows)
        beyond = table.connection.execute(ordered).first()
        if beyond is None:
            return high
        first = self.value(beyond[0])
        highest = sa.func.max(self.expression, type_=sa.types.NullType())
        below = table.one(highest, where=sa.and_(within, self.expression < self._bound(first)))[0]
        return first if below is None else self.value(below)


class Polls(Planner):
    """Plans the batches of one reading of a table that is polled.

    Args:
        reading: the reading; nothing is connected yet.
    """

    def __init__(self, reading: TableRead) -> None:
        options = reading.options
        assert options.settle is not None  # noqa: S101
        self._database = Database(options, options.table_schema)
        self._folder = reading.folder / "polled" / reading.key
        self._follows = reading.follows
        self._bounds = Bounds(options.polled, options.product)
        self._settle = options.settle
        self._every = options.every.total_seconds()
        self._max_rows = options.max_rows
        self._since = reading.since
        self._tasks = reading.tasks
        self._asked = -1e9
        #: Highest numbers, and when they were first seen, oldest first.
        self._seen: list[tuple[float, Any]] = []
        #: Of a bounded run: the last value to read, and when it has settled.
        self._last: tuple[Any, float] | None = None
        self._planned: tuple[Offset, Offset] | None = None

    # -- offsets ------------------------------------------------------------------------------

    def initial(self) -> Offset:
        """Return the offset before the first batch."""
        to = self._since
        if to is not None and self._database.options.product == "sqlite":
            to = to.replace(microsecond=to.microsecond // 1000 * 1000) - timedelta(milliseconds=1)
        elif to is not None:
            to -= timedelta(microseconds=1)
        return self._offset(uuid.uuid4().hex, 0, to)

    def _offset(self, chain: str, segment: int, to: Any) -> Offset:
        text = self._bounds.text(to)
        return {"chain": chain, "column": self._bounds.name, "segment": segment, "to": text}

    def prepare(self) -> None:
        """Find out where a bounded run ends: at the highest value that is there now."""
        bounds = self._bounds

        def look(table: Table) -> tuple[Any, float]:
            bounds.check(table)
            if not bounds.timed:
                return bounds.newest(table), self._settle.total_seconds()
            now = bounds.now(table)
            newest = bounds.newest(table, high=now)
            left = max(timedelta(0), newest + self._settle - now) if newest else timedelta(0)
            # SQLite tells milliseconds alone.
            return newest, left.total_seconds() + 0.002 if left else 0.0

        newest, left = self._database.read(look)
        self._last = newest, time.monotonic() + left

    def latest(self, start: Offset) -> Offset:
        """Return the end of the next batch, whose rows are stored; `start` if there is nothing new."""
        if start.get("column") != self._bounds.name:
            raise PipelineError(_OTHER_MODE if "column" not in start else _OTHER_COLUMN)
        if self._planned is not None and self._planned[0] == start:
            return self._planned[1]
        if self._last is not None:
            last, at = self._last
            if not _above(last, self._bounds.read(start["to"])):
                return start
            while (left := at - time.monotonic()) > 0:
                time.sleep(min(left, _STEP))
        elif time.monotonic() - self._asked < self._every:
            return start
        self._asked = began = time.monotonic()
        end = self._database.read(lambda table: self._poll(table, start, began))
        if end != start:
            self._planned = start, end
        return end

    def _poll(self, table: Table, start: Offset, began: float) -> Offset:
        bounds, low = self._bounds, self._bounds.read(start["to"])
        high = self._settled(table, low, began)
        bounds.check(table)
        if not _above(high, low):
            return start
        to = bounds.cut(table, low, high, self._max_rows)
        if to != high:
            self._asked = -1e9  # there is more: no wait before the next look
        end = self._offset(start["chain"], start["segment"] + 1, to)
        database, file = self._database, self._file(end["chain"], end["segment"])
        made_folder(self._folder)
        parts = table.parts(bounds.between(low, to))
        storing.write(file, database.columns, database.name, parts, "sql.poll")
        return end

    def _settled(self, table: Table, low: Any, began: float) -> Any:
        """Return the bound up to which all is committed, as far as `settle` tells."""
        bounds = self._bounds
        if self._last is not None:
            return self._last[0]
        if bounds.timed:
            # A value that is there, not the clock: a clock in another zone then loses nothing more.
            return bounds.newest(table, low, bounds.now(table) - self._settle)
        newest = bounds.newest(table)
        settled = [value for at, value in self._seen if at + self._settle.total_seconds() <= began]
        self._seen = self._seen[max(0, len(settled) - 1) :]
        if newest is not None and (not self._seen or self._seen[-1][1] != newest):
            self._seen.append((time.monotonic(), newest))
        return settled[-1] if settled else None

    def close(self) -> None:
        """End the connections."""
        self._database.close()

    # -- files --------------------------------------------------------------------------------

    def _file(self, chain: str, segment: int) -> Path:
        return self._folder / f"{chain}-{segment:012d}{SUFFIX}"

    def parts(self, start: Offset, end: Offset) -> list[Rows]:
        """Return what a batch reads: what was stored when its end was planned."""
        found = []
        for segment in range(start["segment"] + 1, end["segment"] + 1):
            file = self._file(end["chain"], segment)
            differs = storing.misfit(file, self._database.columns, self._database.name)
            if differs:
                raise PipelineError(
                    f"{file}, which a batch was planned over, {differs}. Run once with the options as "
                    "they were."
                )
            found.append(Rows(file, 0, storing.count(file)))
        return storing.split(found, self._tasks)

    def committed(self, end: Offset) -> None:
        """Remove what no batch reads again."""
        failpoint("sql.poll-before-remove")
        for file in self._folder.glob("*"):
            chain, _, number = file.stem.partition("-")
            if chain == end["chain"]:
                gone = int(number) <= end["segment"]
            else:  # of a checkpoint that is no more; or of another preview or replay
                gone = self._follows or time.time() - file.stat().st_mtime > _LEFT_KEPT
            if gone:
                file.unlink(missing_ok=True)
                failpoint("sql.poll-after-remove")


def _above(value: Any, low: Any) -> bool:
    return value is not None and (low is None or value > low)


_OTHER_MODE = (
    "the checkpoint was begun with `mode: snapshot`; start over with `--fresh`, or change it back"
)
_OTHER_COLUMN = (
    "the checkpoint was begun with another `column`; start over with `--fresh`, or change it back"
)
