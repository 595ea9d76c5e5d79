"""The sink `sql` passes the standard tests, on each database and by each delivery strategy.

SQLite stands for the word; the other databases and strategies are run in turn.
"""

from __future__ import annotations

from sql_databases import DatabaseSuite


class Sqlite(DatabaseSuite):
    @property
    def url(self):
        return f"sqlite:///{self.place}/table.db"


class Postgres(DatabaseSuite):
    server_fixture = "postgres"
    refused = {"id": 99, "name": "a NUL: \x00"}


class MariaDB(DatabaseSuite):
    server_fixture = "mariadb"


class TestSqlite(Sqlite):
    deliver = "transactional"


class TestPostgresStaged(Postgres):
    deliver = "staged"


class TestMariaDBIdempotent(MariaDB):
    deliver = "idempotent"
    key = ("id",)
    refused = {"id": None, "name": "a key of null"}


class TestPostgres(Postgres):
    deliver = "transactional"


class TestPostgresIdempotent(Postgres):
    deliver = "idempotent"


class TestPostgresChanges(Postgres):
    deliver = "transactional"
    key = ("id",)
    refused = {"id": None, "name": "a key of null"}


class TestPostgresStagedChanges(Postgres):
    deliver = "staged"
    key = ("id",)
    refused = {"id": None, "name": "a key of null"}


class TestPostgresMicrobatch(Postgres):
    deliver = "microbatch"


class TestSqliteIdempotent(Sqlite):
    deliver = "idempotent"


class TestSqliteStaged(Sqlite):
    deliver = "staged"


class TestMariaDB(MariaDB):
    deliver = "transactional"


class TestMariaDBStaged(MariaDB):
    deliver = "staged"
