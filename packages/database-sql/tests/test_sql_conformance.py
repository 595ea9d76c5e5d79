"""The sink `sql` passes the standard tests, on each database and by each delivery strategy.

Each database and each strategy is in every run; the rest of the combinations are with the slow tests.
"""

from __future__ import annotations

import pytest
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


@pytest.mark.slow
class TestPostgres(Postgres):
    deliver = "transactional"


@pytest.mark.slow
class TestPostgresIdempotent(Postgres):
    deliver = "idempotent"


@pytest.mark.slow
class TestPostgresChanges(Postgres):
    deliver = "transactional"
    key = ("id",)
    refused = {"id": None, "name": "a key of null"}


@pytest.mark.slow
class TestPostgresStagedChanges(Postgres):
    deliver = "staged"
    key = ("id",)
    refused = {"id": None, "name": "a key of null"}


@pytest.mark.slow
class TestPostgresMicrobatch(Postgres):
    deliver = "microbatch"


@pytest.mark.slow
class TestSqliteIdempotent(Sqlite):
    deliver = "idempotent"


@pytest.mark.slow
class TestSqliteStaged(Sqlite):
    deliver = "staged"


@pytest.mark.slow
class TestMariaDB(MariaDB):
    deliver = "transactional"


@pytest.mark.slow
class TestMariaDBStaged(MariaDB):
    deliver = "staged"
