"""Source and receiver pass the standard tests, by rows of a table."""

from __future__ import annotations

import uuid

import pytest
from mainstem_testkit import ReceiverSuite, SourceSuite
from mysql_tables import connected


class RowsMixin:
    use = "mysql"
    output = "numbers"
    server_fixture = "mysql"
    database = ""

    @pytest.fixture(autouse=True)
    def _clear(self):
        yield
        self._drop()

    def _drop(self):
        if self.database:
            self.ask(f"DROP DATABASE IF EXISTS {self.database}")

    def prepare(self):
        self._drop()  # a crash test moves on to another place
        self.database = f"m{uuid.uuid4().hex[:12]}"
        self.ask(
            f"CREATE DATABASE {self.database}",
            f"CREATE TABLE {self.database}.numbers (n BIGINT PRIMARY KEY)",
        )

    def ask(self, *statements):
        connection = connected(self.server)
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def options(self):
        return {
            "url": f"mysql://root@127.0.0.1:{self.server.port}/{self.database}",
            "tables": {"numbers": {"key": ["n"], "schema": "n BIGINT"}},
            "keep": "1 day",
            "answer_timeout": "2 s",
        }

    def put(self, numbers):
        self.ask(*(f"INSERT INTO {self.database}.numbers VALUES ({n})" for n in numbers))


class TestReceiver(RowsMixin, ReceiverSuite):
    def number(self, message):
        return message.extra[1]["n"]

    def permanent(self):
        url = f"mysql://root@127.0.0.1:{self.server.port}/"
        return {
            "no such database": {"url": f"{url}nowhere"},
            "no such user": {"url": url.replace("root@", "nobody:hunter2@") + self.database},
            "no such table": {
                "tables": {"numbers": {"table": "others", "key": ["n"], "schema": "n BIGINT"}}
            },
        }


class TestRows(RowsMixin, SourceSuite):
    wrong_options = {
        "url": {"url": "postgresql://localhost/shop"},
        "receivers": {"receivers": 2},
        "tables": {"tables": {"rejected": {"key": ["id"], "schema": "id BIGINT"}}},
        "zero_dates": {"zero_dates": "drop"},
    }

    def number(self, row):
        return row["n"]

    # No `limited`: what the log gives at once is one segment, as it goes on after all of it.
