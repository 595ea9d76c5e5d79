"""How the tests look into each database: by its own driver, not by what is tested."""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import urlsplit

import psycopg
import pymysql
from mainstem.columns import read_columns
from mainstem_testkit import SinkSuite

QUOTES = {"postgres": '"', "mariadb": "`", "sqlite": '"'}


def connected(url):
    """Return a connection of the database's own driver, each statement a transaction of its own."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=20)
    if parts.scheme.startswith("postgres"):
        return psycopg.connect(url, autocommit=True, options="-c timezone=UTC")
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password or "",
        database=parts.path[1:],
        autocommit=True,
        charset="utf8mb4",
    )


def ask(url, statement, *values):
    """Run a statement and return its rows, if it has any, as tuples."""
    with closing(connected(url)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement, *([values] if values else []))
        return list(cursor.fetchall()) if cursor.description else []


def there(url, table):
    """Return the rows of a table as mappings, None if there is no such table."""
    mark = "`" if url.startswith(("mysql", "mariadb")) else '"'
    with closing(connected(url)) as connection, closing(connection.cursor()) as cursor:
        try:
            cursor.execute(f"SELECT * FROM {mark}{table}{mark}")
        except Exception as error:
            if any(
                text in str(error) for text in ("no such table", "does not exist", "doesn't exist")
            ):
                return None
            raise
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def typed(value, kind, url):
    """Return what a driver gave as the value that Spark had."""
    if value is None:
        return None
    if kind == "boolean":
        return bool(value)
    if kind == "float":
        return struct.unpack("f", struct.pack("f", value))[
            0
        ]  # PostgreSQL shows the shortest digits
    if kind == "binary":
        return bytes(value)
    if kind.startswith("decimal"):
        return Decimal(value)
    if isinstance(value, str) and kind == "date":
        return date.fromisoformat(value)
    if isinstance(value, str) and kind.startswith("timestamp"):
        value = datetime.fromisoformat(value)
    if kind == "timestamp" and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


class DatabaseSuite(SinkSuite):
    """Writes into a table of each test's own; `url` says where."""

    use = "sql"
    # A document that reads changes from JSON has no other column to order them by.
    wrong_options = {
        "url": {"url": "http://host/x"},
        "deletes_within": {"deletes_within": "0 seconds"},
        "table": {"table": " x"},
    }

    @property
    def url(self):
        return self.server.url

    @property
    def table(self):
        return f"rows {self.mark}"

    @property
    def mark(self):
        """Names this place: all of a test's places have one checkpoint, and each a ledger."""
        return hashlib.sha256(str(self.place).encode()).hexdigest()[:12]

    def options(self):
        return {
            "url": self.url,
            "table": self.table,
            "ledger": f"ledger {self.mark}",
            "give_up": "4 seconds",
        }

    def rows(self, schema):
        found = there(self.url, self.table) or []
        return [
            {c.name: typed(row.get(c.name), c.type, self.url) for c in read_columns(schema)}
            for row in found
        ]
