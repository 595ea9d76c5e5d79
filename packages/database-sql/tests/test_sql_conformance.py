"""The sink `sql` passes the standard tests, on each database and by each delivery strategy.

Each database and each strategy is in every run, kills of `staged` and `idempotent` at each crash point; the rest
is with the slow tests.
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
    # These are shown of `staged` on PostgreSQL in every run; kills of `transactional` in test_sql_documents.py.
    slow_tests = frozenset(
        {
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_a_kill_at_each_crash_point_does_no_harm",
            "test_a_run_that_was_replaced_leaves_the_staged_rows_of_the_next",
            "test_a_run_that_was_replaced_writes_nothing_more",
            "test_an_empty_batch_changes_nothing",
            "test_an_old_copy_of_a_checkpoint_is_refused",
            "test_batches_stand_beside_each_other",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
        }
    )


class TestPostgresStaged(Postgres):
    deliver = "staged"


class TestMariaDBIdempotent(MariaDB):
    deliver = "idempotent"
    key = ("id",)
    refused = {"id": None, "name": "a key of null"}
    # These are shown of `staged` on PostgreSQL in every run, or without Spark in other tests.
    slow_tests = frozenset(
        {
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_a_far_side_that_is_down_fails_the_batch_until_it_is_back",
            "test_a_far_side_that_stands_still_for_a_while_is_waited_for",
            "test_a_run_that_was_replaced_leaves_the_staged_rows_of_the_next",
            "test_an_empty_batch_changes_nothing",
            "test_batches_stand_beside_each_other",
            "test_the_ledger_says_what_is_in",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
            "test_what_a_batch_refused_is_told_again",
        }
    )


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
