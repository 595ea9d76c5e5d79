"""Tables at a real server, and what a receiver gives of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import psycopg
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.receiver import PostgreSQLReceiver
from mainstem_cdc_postgresql.source import PostgreSQLSource
from mainstem_ingress import Columns, Message, Rows, row_of

#: How long something may take to come, in seconds.
PATIENCE = 30.0


def drop_slot(server: Any, name: str) -> None:
    """Remove a slot and the publication of its name, whoever reads it."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f'DROP PUBLICATION IF EXISTS "{name}"')
        until = time.monotonic() + PATIENCE
        while True:
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s "
                "AND active",
                (name,),
            )
            with suppress(psycopg.errors.ObjectInUse):
                connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name "
                    "= %s",
                    (name,),
                )
                return
            assert time.monotonic() < until
            time.sleep(0.05)


class Place:
    """A schema and a slot of a test's own."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name = f"m{uuid.uuid4().hex[:12]}"
        self.connection = psycopg.connect(server.url, autocommit=True)
        self.sql(f"CREATE SCHEMA {self.name}")
        self.sql(f"SET search_path TO {self.name}")

    def sql(self, text: str, *values: Any) -> list[Any]:
        cursor = self.connection.execute(text, values or None)
        return cursor.fetchall() if cursor.description else []

    def options(self, **more: Any) -> dict[str, Any]:
        """Return options; a table is given by its key and its columns."""
        tables = {
            name: {"table": f"{self.name}.{name}", **each}
            for name, each in more.pop("tables", {}).items()
        }
        return {"url": self.server.url, "slot": self.name, "tables": tables, **more}

    def close(self) -> None:
        self.connection.close()
        drop_slot(self.server, self.name)
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {self.name} CASCADE")


class Taking:
    """A receiver, and what a log would have stored of it.

    Args:
        cursor: where it goes on.
    """

    def __init__(self, given: dict[str, Any], cursor: str | None = None) -> None:
        options = PostgreSQLSourceOptions(**given)
        PostgreSQLSource(options)
        self.receiver = PostgreSQLReceiver(options, 0, "shop")
        self.stored: list[Message] = []
        self.cursor = cursor

    def __enter__(self) -> Taking:
        try:
            self.receiver.connect(self.cursor)
        except BaseException:
            self.receiver.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.receiver.close()

    def take(self, seconds: float = 0.05) -> None:
        """Take once, and store."""
        found = self.receiver.take(seconds)
        self.stored += taken(self.receiver, found)
        self.cursor = self.receiver.cursor()
        if found:
            self.receiver.acknowledge(found)

    def until(self, done: Callable[[], bool]) -> None:
        """Take until something is so."""
        until = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < until, self.stored[-3:]
            self.take()

    def load(self) -> None:
        """Take until all is here that there was when it began."""
        self.until(lambda: bool(self.receiver.caught_up()))

    def some(self, count: int) -> list[Message]:
        """Return so many messages, none of which was returned before."""
        self.until(lambda: len(self.stored) >= count)
        found, self.stored = self.stored[:count], self.stored[count:]
        return found


def taken(receiver: PostgreSQLReceiver, found: Any) -> list[Message]:
    """Return a message for each row, with the row's values as `extra`, as a log would have them."""
    if not isinstance(found, Rows):
        return list(found)
    tables = receiver.options.tables
    made: list[Message] = []
    for part in found.parts:
        if isinstance(part, Columns):
            made += [
                Message(
                    None, timestamp=at, origin=part.origin, extra=row_of(tables, part.table, row)
                )
                for at, row in zip(part.timestamps, part.rows.to_pylist(), strict=True)
            ]
        else:
            made += part
    return made


def changes(messages: Iterable[Message]) -> list[tuple[Any, ...]]:
    """Return the rows of tables: the kind of the change, and the values without reserved ones."""
    found = []
    for message in messages:
        assert message.refused is None, message.refused
        row = next(each for each in message.extra[1:] if each is not None)
        values = (value for name, value in row.items() if not name.startswith("_"))
        found.append((row["_change_type"], *values))
    return found


def versions(messages: Iterable[Message]) -> list[str]:
    """Return the sequences of rows."""
    return [
        next(each for each in message.extra[1:] if each is not None)["_commit_version"]
        for message in messages
    ]
