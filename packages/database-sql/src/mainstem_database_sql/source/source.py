"""Source `sql`: a small table of PostgreSQL, MySQL, MariaDB or SQLite."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem import (
    Dataset,
    Events,
    Lag,
    Level,
    Located,
    Measurable,
    OptionError,
    PipelineError,
    Reached,
    Rewindable,
    Shape,
    Shown,
    Source,
    SourceCapabilities,
    SourceContext,
    Verifiable,
    write_duration,
)
from mainstem.columns import find_column

from mainstem_database_sql.source.options import SQLSourceOptions
from mainstem_database_sql.type_support import DECIMAL, check_readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_database_sql.source.selecting import Database

#: Types of a column that can be polled.
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("timestamp", "timestamp_ntz")
_SHOWN = "packages/database-sql/tests/test_sql_source_crashes.py"


class SQLSource(Source, Measurable, Rewindable, Verifiable, Located):
    """Reads a small table: once, as it is, or again and again the rows that were written.

    Polling can't see deletes, nor updates that leave `column` as it is, nor what is committed later
    than `settle`. Where changes must be followed, capture them from the database's log instead.
    """

    options: SQLSourceOptions

    def __init__(self, options: SQLSourceOptions) -> None:
        super().__init__(options)
        self._follows = True
        self._since: datetime | None = None
        self._checked = False
        _check_columns(options)
        _check_mode(options)

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """What can be said of a table that others write."""
        o = self.options
        unique = (f"no two rows of {o.table} have the same {', '.join(o.key)}",) if o.key else ()
        if o.mode == "snapshot":
            once = (
                f"{o.table} as it is when the checkpoint begins is enough: it is read once, and no "
                "later change of it comes"
            )
            return SourceCapabilities(
                assumptions=(once, *unique), shown=Shown(Level.EXACTLY_ONCE, _SHOWN)
            )
        assert o.settle is not None  # noqa: S101
        settle = write_duration(o.settle)
        if o.polled.type in _TIMES:
            late = f"within {settle} of the time in {o.column}, by the database's clock"
        else:
            late = f"within {settle} of when an equal or higher {o.column} was first seen"
        # With a key each row as it then is has an identity of its own: the key, and the column's value.
        level = Level.EXACTLY_ONCE if o.key else Level.AT_LEAST_ONCE
        again = (
            ""
            if o.key
            else f"a row whose {o.column} moves on comes again, and no `key` tells which"
        )
        return SourceCapabilities(
            may_duplicate=not o.key,
            why=again,
            assumptions=(
                f"each row of {o.table} is committed {late}: a later one is never read",
                "deletes need not be seen: they are not",
                f"whoever changes a row moves its {o.column} on: other updates are not seen",
                "of several updates of a row between two polls the last is enough",
                *unique,
            ),
            shown=Shown(level, _SHOWN),
        )

    def datasets(self, output: str) -> Sequence[Dataset]:
        return [self.options.dataset(self.options.table)]

    def shape(self) -> Shape:
        o = self.options
        identity = o.key
        if o.key and o.mode == "poll" and o.polled.name.lower() not in map(str.lower, o.key):
            identity = (*o.key, o.polled.name)
        return Events(o.table_schema, identity=identity)

    def load(self, ctx: SourceContext) -> DataFrame:
        from mainstem_database_sql.source.reading import TableReading

        folder = ctx.folder().absolute()
        reading = TableReading(
            self.options,
            folder,
            self._key(ctx.read_name),
            self._follows,
            self._since,
            ctx.spark.sparkContext.defaultParallelism,
        )
        self._check(folder, reading.key)
        return ctx.read_planned(reading)

    def _key(self, reading: str) -> str:
        """Return what names a reading in the node's folder."""
        where = "" if self._follows else f" from {self._since}"
        return hashlib.sha256(f"{reading}{where}".encode()).hexdigest()[:24]

    def _check(self, folder: Path, key: str) -> None:
        """Find before the first batch what is wrong with the table, once for each run.

        Raises:
            OptionError: it is not as the options say.
            PipelineError: the database does not answer, or says no.
        """
        from mainstem_database_sql.source.polling import Bounds
        from mainstem_database_sql.source.snapshots import has_begun

        o = self.options
        if self._checked or (o.mode == "snapshot" and has_begun(folder, key)):
            return
        database = self._database()
        try:
            if o.mode == "poll":
                database.read(Bounds(o.polled, o.product).check)
            else:
                database.read(lambda _table: None)
        finally:
            database.close()
        self._checked = True

    def _database(self) -> Database:
        from mainstem_database_sql.source.selecting import Database

        return Database(self.options, self.options.table_schema)

    # -- measuring and going back -------------------------------------------------------------

    def end(self, home: Path) -> Mapping[str, str]:
        """Return how many rows the snapshot has, or the highest value that is polled."""
        if self.options.mode == "snapshot":
            from mainstem_database_sql.source import snapshots, storing

            name = snapshots.newest_of(home)
            rows = storing.count(snapshots.file_of(home, name)) if name else ""
            return {"0": str(rows)}
        from mainstem_database_sql.source.polling import Bounds

        bounds = Bounds(self.options.polled, self.options.product)
        database = self._database()
        try:
            newest = database.read(bounds.newest, patiently=False)
        finally:
            database.close()
        return {"0": bounds.text(newest) or ""}

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return the rows that are not read, those too that have not settled, and their age.

        Of a snapshot that was not begun nothing is known; of numbers, no age.
        """
        if self.options.mode == "snapshot":
            return [self._snapshot_lag(reached)]
        import sqlalchemy as sa

        from mainstem_database_sql.source.polling import Bounds
        from mainstem_database_sql.source.selecting import Table

        bounds = Bounds(self.options.polled, self.options.product)
        low = bounds.read(reached.offset["to"]) if reached.offset else None

        def look(table: Table) -> Lag:
            unread = bounds.between(low, None)
            count = sa.func.count(type_=sa.types.NullType())
            oldest = sa.func.min(bounds.expression, type_=sa.types.NullType())
            rows, first = table.one(count, oldest, where=unread)
            if not rows:
                return Lag("0", 0, 0.0)
            if not bounds.timed:
                return Lag("0", rows, None)
            age = bounds.now(table) - bounds.value(first)
            return Lag("0", rows, max(0.0, age.total_seconds()))

        try:
            return [self._measured.read(look, patiently=False)]
        finally:
            self._measured.close()

    @cached_property
    def _measured(self) -> Database:
        """The database as lag is asked of it, again and again: SQLAlchemy keeps things of each engine."""
        return self._database()

    def _snapshot_lag(self, reached: Reached) -> Lag:
        import time

        from mainstem_database_sql.source import snapshots, storing

        if not reached.offset:
            return Lag("0", None, None)
        file = snapshots.file_of(reached.home, reached.offset["snapshot"])
        rows = storing.count(file) - reached.offset["rows"]
        return Lag("0", rows, max(0.0, time.time() - file.stat().st_mtime) if rows else 0.0)

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> SQLSource:
        """Return this source from its beginning, or polling from a time.

        From a snapshot the same rows come again. Polled are the rows as they are now.
        """
        o = self.options
        timed = o.mode == "poll" and o.polled.type in _TIMES
        if not isinstance(point, datetime) and point != "earliest":
            raise OptionError(f"a table starts at `earliest`, not at {point!r}")
        if isinstance(point, datetime) and not timed:
            what = "a snapshot" if o.mode == "snapshot" else f"what is polled by {o.column}"
            raise OptionError(f"{what} starts at `earliest`, and knows no times")
        other = copy.copy(self)
        other._follows = False
        other._since = None
        if isinstance(point, datetime):
            other._since = point.astimezone(UTC).replace(tzinfo=None)
        return other

    def damage(self, home: Path) -> Iterator[str]:
        """Yield what is wrong with the files of rows: each is read whole."""
        from mainstem_database_sql.source import storing

        for file in sorted(home.rglob(f"*{storing.SUFFIX}")):
            try:
                storing.check(file)
            except PipelineError as error:
                yield str(error)

    def gone(self, since: Reached) -> str:
        """Return what can't be read again as it was: what was polled, and of a snapshot nothing.

        What starts over reads the table that there is, so nothing of it is gone.
        """
        if since.offset is None:
            return ""
        if self.options.mode == "poll":
            return "rows as they were polled: the table may have changed since"
        from mainstem_database_sql.source.snapshots import file_of

        name = since.offset["snapshot"]
        return "" if file_of(since.home, name).exists() else f"the snapshot {name}"


def _check_columns(options: SQLSourceOptions) -> None:
    check_readable(options.table_schema)
    for name in options.key:
        find_column(options.table_schema, name, "key")
        if [each.lower() for each in options.key].count(name.lower()) > 1:
            raise OptionError(f"the key has {name!r} twice", option="key")


def _check_mode(options: SQLSourceOptions) -> None:
    if options.mode == "snapshot":
        for name in ("column", "settle"):
            if getattr(options, name) is not None:
                raise OptionError(f"`{name}` is for `mode: poll`", option=name)
        return
    if options.column is None:
        raise OptionError("`mode: poll` needs a `column` that grows", option="mode")
    if options.settle is None:
        raise OptionError("`mode: poll` needs `settle`: how late a row may commit", option="mode")
    kind = options.polled.type or ""
    exact = DECIMAL.fullmatch(kind) and options.product != "sqlite"
    if kind not in (*_WHOLE, *_TIMES) and not exact:
        # Days come too seldom, and SQLite keeps a DECIMAL as it likes.
        raise OptionError(
            f"the column {options.column!r} is {kind.upper()}, and polled are whole numbers, times and "
            "(not in SQLite) a DECIMAL",
            option="column",
        )
