"""Tables at a real server, and what a receiver gives of them."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import Any

import pymysql
from mainstem_cdc.testing import Taking as BaseTaking
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.receiver import MySQLReceiver
from mainstem_cdc_mysql.source import MySQLSource


def connected(server: Any, database: str | None = None) -> Any:
    """Return a connection of the superuser."""
    return pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", database=database, charset="utf8mb4", autocommit=True
    )  # fmt: skip


class Place:
    """A database of a test's own."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.mariadb = server.name == "mariadb"
        self.name = f"m{uuid.uuid4().hex[:12]}"
        self.connection = connected(server)
        self.sql(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.connection.select_db(self.name)

    def sql(self, text: str, *values: Any) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return list(cursor.fetchall())

    @contextmanager
    def transaction(self):
        """Commit at the block's end what is done in it."""
        self.connection.begin()
        yield
        self.connection.commit()

    def options(self, **more: Any) -> dict[str, Any]:
        """Return options; a table is given by its key and its columns."""
        url = f"mysql://root@127.0.0.1:{self.server.port}/{self.name}"
        return {"url": url, **more}

    def close(self) -> None:
        self.sql(f"DROP DATABASE IF EXISTS {self.name}")
        self.connection.close()


class Taking(BaseTaking):
    """A receiver of some options, and what a log would have stored of it."""

    def __init__(self, given: dict[str, Any], cursor: str | None = None) -> None:
        options = MySQLSourceOptions(**given)
        MySQLSource(options)
        super().__init__(MySQLReceiver(options, 0, "shop"), cursor)
