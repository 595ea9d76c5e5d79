"""Rows of a query as columns: a driver that reads the server's binary COPY makes Arrow's of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

import adbc_driver_postgresql.dbapi as driver
import pyarrow as pa
from adbc_driver_manager import Error
from mainstem import PipelineError, TransientError

from mainstem_cdc_postgresql.connection import Connection, conninfo
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions

#: A transaction that sees what was there when it began, and locks nothing.
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

#: How long what was read ahead may wait for somebody who asks for it, in seconds.
_FRESH = 10.0
#: How many are not read ahead after one that was outdated.
_SKIPPED = 8


class _Reading:
    """A query that is being read.

    Args:
        sql: the query without its limit.
    """

    def __init__(self, sql: str) -> None:
        self.sql = sql
        #: When it was known what came of it.
        self._known: float | None = None
        self._answers: SimpleQueue[tuple[str, Any] | Exception] = SimpleQueue()

    def answer(self, found: tuple[str, Any] | Exception) -> None:
        """Say what came of it."""
        self._known = time.monotonic()
        self._answers.put(found)

    @property
    def stale(self) -> bool:
        """Whether what came of it has waited for too long."""
        return self._known is not None and time.monotonic() - self._known > _FRESH

    def wait(self, seconds: float) -> tuple[str, Any] | Exception | None:
        """Return what came of it; None if that is not known yet after so many seconds."""
        with suppress(Empty):
            return self._answers.get(timeout=seconds)
        return None


class RowReader:
    """Reads the rows of queries over a connection of its own; close it.

    The driver waits for the server for as long as that takes, so it does so in a thread, which is left to
    itself where it waits for too long.
    """

    def __init__(self, options: PostgreSQLSourceOptions) -> None:
        self._options = options
        self._connection: Any = None
        #: Guards the connection, and how often this was closed.
        self._lock, self._turn = Lock(), 0
        self._ahead: _Reading | None = None
        self._skipped = 0

    def ahead(self, sql: str, rows: int, most: int | None) -> None:
        """Begin to read what will be asked for next; see `read`."""
        if self._skipped:
            self._skipped -= 1
        else:
            self._ahead = self._begun(sql, rows, most)

    def outdated(self) -> None:
        """Note that what was read came too early to be of use: the next few are not read ahead."""
        self._skipped = _SKIPPED

    def read(
        self,
        sql: str,
        rows: int,
        most: int | None,
        seconds: float,
        meanwhile: Callable[[], None],
        other: Connection,
    ) -> tuple[str, Any]:
        """Run a query in a transaction of its own, or return what was read ahead of it.

        Args:
            sql: a SELECT of texts, without a limit.
            rows: how many rows it may have; where it was begun `ahead`, what was said then.
            most: how many bytes they may have.
            seconds: how long the server may take.
            meanwhile: called once a second until the rows are there.
            other: a connection that says what is wrong where something is.

        Returns:
            the server's snapshot (`xmin:xmax:list of running ones`), and the rows as a table of Arrow;
            None if they are too much.

        Raises:
            TransientError, PermanentError: it failed; the words are the server's.
        """
        reading, self._ahead = self._ahead, None
        if reading is None or reading.sql != sql or reading.stale:
            reading = self._begun(sql, rows, most)
        until = time.monotonic() + seconds
        while (found := reading.wait(1.0)) is None:
            if time.monotonic() > until:
                raise TransientError(f"{self._options.place}: no answer for {seconds:.0f} seconds")
            meanwhile()
        if isinstance(found, tuple):
            return found
        if isinstance(found, PipelineError):
            raise found
        # The driver does not tell every error's state; whoever runs the statement again is told it.
        other.query(_BEGIN)
        try:
            again = f"SELECT count(*) FROM ({sql} LIMIT {rows}) AS r WHERE r IS NOT NULL"
            other.rows(again, (), seconds, meanwhile)
        finally:
            with suppress(TransientError):
                other.query("ROLLBACK")
        told = " ".join(str(found).split())
        raise TransientError(f"{self._options.place}: {told}") from None

    def _begun(self, sql: str, rows: int, most: int | None) -> _Reading:
        reading = _Reading(sql)
        # It is made anew unless it is given back.
        with self._lock:
            connection, self._connection = self._connection, None
            turn = self._turn
        work = partial(self._work, turn, connection, f"{sql} LIMIT {rows}", most, reading)
        Thread(target=work, daemon=True).start()
        return reading

    def _work(
        self, turn: int, connection: Any, sql: str, most: int | None, reading: _Reading
    ) -> None:
        try:
            if connection is None:
                connection = driver.connect(conninfo(self._options), autocommit=True)
            with connection.cursor() as cursor:
                cursor.execute(_BEGIN)
                cursor.execute("SELECT pg_current_snapshot()::text")
                (snapshot,) = cursor.fetchone()
                cursor.execute(sql)
                rows = _rows(cursor.fetch_record_batch(), most)
                cursor.execute("ROLLBACK")
        except Exception as error:
            _end(connection)
            reading.answer(error)
        else:
            with self._lock:
                kept = turn == self._turn and self._connection is None
                if kept:
                    self._connection = connection
            if not kept:  # it was closed meanwhile, or another is there
                _end(connection)
            reading.answer((snapshot, rows))

    def close(self) -> None:
        """End the connection; one that a query still runs over ends with that."""
        with self._lock:
            self._turn += 1
            connection, self._connection = self._connection, None
        self._ahead = None
        _end(connection)


def _end(connection: Any) -> None:
    if connection is not None:
        with suppress(Error, OSError):
            connection.close()


def _rows(reader: Any, most: int | None) -> Any:
    """Return the rows; None if they are too much."""
    batches, left = [], most
    with reader:
        for batch in reader:
            batches.append(batch)
            if left is not None:
                left -= batch.nbytes
                if left < 0:
                    return None
    return pa.Table.from_batches(batches, reader.schema)
