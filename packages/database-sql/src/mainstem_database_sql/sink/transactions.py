"""Work in one transaction, retried while that may help; and parts of it that a bad row undoes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import sqlalchemy as sa
from mainstem import MainstemError, OptionError, failpoint
from mainstem.patience import Patience
from mainstem_database import connecting
from mainstem_database.connecting import Meaning
from mainstem_database.options import DatabaseOptions

T = TypeVar("T")


class Transaction:
    """One transaction, in which ranges of rows are put.

    A database undoes all of a transaction, or of a statement, when it refuses one row of many. So the
    first try goes without savepoints, and if a row is refused the next goes with them: whole ranges
    where that goes well, else halves of them, down to the row.
    """

    def __init__(self, connection: sa.Connection, *, careful: bool) -> None:
        self.connection = connection
        self._careful = careful

    def put(
        self, rows: int, put: Callable[[int, int], None], refuse: Callable[[int, str], None]
    ) -> None:
        """Put all rows that the database takes.

        Args:
            rows: how many there are.
            put: puts the rows from one number up to another.
            refuse: is told of a row that can't be put even by itself, and why.
        """
        waiting = [(0, rows)] if rows else []
        while waiting:
            start, end = waiting.pop()
            reason = self._try(put, start, end)
            if reason and end - start == 1:
                refuse(start, reason)
            elif reason:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]

    def _try(self, put: Callable[[int, int], None], start: int, end: int) -> str:
        """Put a range; return why a row of it is refused, with nothing of it put, or nothing."""
        if not self._careful:
            put(start, end)
            return ""
        savepoint = self.connection.begin_nested()
        try:
            put(start, end)
        except Exception as error:
            if connecting.meaning(error) is not Meaning.ROW:
                raise  # the transaction is lost
            savepoint.rollback()
            return connecting.words(error)
        savepoint.commit()
        return ""


def patiently(
    engine: sa.Engine,
    options: DatabaseOptions,
    work: Callable[[Transaction], T],
    before_care: Callable[[sa.Connection], None] | None = None,
) -> T:
    """Do work in one transaction, and all of it again while it may go well, for `give_up`.

    Args:
        engine: where.
        options: how long, and what errors call the place.
        work: is given the transaction. When the answer to a commit is lost it is done again, though it
            may have gone well: it must ask first, or bear that.
        before_care: is done, in a transaction of its own, before work that looks for rows that are
            refused.

    Raises:
        PipelineError: what the database said last, without credentials.
    """
    patience, careful = Patience(options.give_up.total_seconds()), False
    while True:
        try:
            with engine.begin() as connection:
                done = work(Transaction(connection, careful=careful))
            failpoint("sql.answered")
            return done
        except (MainstemError, OptionError):
            raise
        except Exception as error:
            means = connecting.meaning(error)
            if means is Meaning.ROW and not careful:
                careful = True
                if before_care is not None:
                    patiently(engine, options, lambda t: before_care(t.connection))
                continue
            if means is not Meaning.TRANSIENT or patience.left() <= 0:
                if connecting.of_a_database(error):
                    raise connecting.failure(error, options) from None
                raise
            with suppress(Exception):
                engine.dispose()  # a connection that is lost may not be the only one
            time.sleep(max(0.0, min(patience.pause(), patience.left())))
