"""Tables at a real server, and what a receiver gives of them."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from typing import Any

import psycopg
from mainstem_cdc.testing import PATIENCE
from mainstem_cdc.testing import Taking as BaseTaking
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.receiver import PostgreSQLReceiver
from mainstem_cdc_postgresql.source import PostgreSQLSource


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


class Taking(BaseTaking):
    """A receiver of some options, and what a log would have stored of it."""

    def __init__(self, given: dict[str, Any], cursor: str | None = None) -> None:
        options = PostgreSQLSourceOptions(**given)
        PostgreSQLSource(options)
        super().__init__(PostgreSQLReceiver(options, 0, "shop"), cursor)
