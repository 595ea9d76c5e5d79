"""Rows of a query as columns: a driver that reads the server's binary COPY makes Arrow's of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import adbc_driver_postgresql.dbapi as driver
import pyarrow as pa
from adbc_driver_manager import Error
from mainstem import TransientError

from mainstem_cdc_postgresql.connection import Connection, conninfo
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions

#: A transaction that sees what was there when it began, and locks nothing.
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class RowReader:
    """Reads the rows of queries over a connection of its own; close it.

    The driver waits for the server for as long as that takes, so it does so in a thread, which is left to
    itself where it waits for too long.
    """

    def __init__(self, options: PostgreSQLSourceOptions) -> None:
        self._options = options
        self._connection: Any = None

    def read(
        self,
        sql: str,
        most: int | None,
        seconds: float,
        meanwhile: Callable[[], None],
        other: Connection,
    ) -> tuple[str, Any]:
        """Run a query in a transaction of its own.

        Args:
            sql: a SELECT of texts.
            most: how many bytes its rows may have.
            seconds: how long the server may take.
            meanwhile: called once a second until the rows are there.
            other: a connection that says what is wrong where something is.

        Returns:
            the server's snapshot (`xmin:xmax:list of running ones`), and the rows as a table of Arrow;
            None if they are too much.

        Raises:
            TransientError, PermanentError: it failed; the words are the server's.
        """
        answers: SimpleQueue[tuple[str, Any] | Exception] = SimpleQueue()
        # It is made anew unless it is given back.
        connection, self._connection = self._connection, None
        Thread(target=self._work, args=(connection, sql, most, answers), daemon=True).start()
        until = time.monotonic() + seconds
        while True:
            try:
                found = answers.get(timeout=1.0)
                break
            except Empty:
                if time.monotonic() > until:
                    place = self._options.place
                    raise TransientError(f"{place}: no answer for {seconds:.0f} seconds") from None
                meanwhile()
        if isinstance(found, tuple):
            return found
        # The driver does not tell every error's state; whoever runs the statement again is told it.
        other.query(_BEGIN)
        try:
            other.rows(
                f"SELECT count(*) FROM ({sql}) AS r WHERE r IS NOT NULL", (), seconds, meanwhile
            )
        finally:
            with suppress(TransientError):
                other.query("ROLLBACK")
        told = " ".join(str(found).split())
        raise TransientError(f"{self._options.place}: {told}") from None

    def _work(
        self,
        connection: Any,
        sql: str,
        most: int | None,
        answers: SimpleQueue[tuple[str, Any] | Exception],
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
        except (Error, OSError, pa.ArrowException) as error:
            if connection is not None:
                with suppress(Error, OSError):
                    connection.close()
            answers.put(error)
        except Exception as error:
            answers.put(error)
        else:
            self._connection = connection
            answers.put((snapshot, rows))

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            with suppress(Error, OSError):
                self._connection.close()
        self._connection = None


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
