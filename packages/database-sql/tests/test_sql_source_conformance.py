"""The source `sql` passes the standard tests, in both modes, on each database."""

from __future__ import annotations

import hashlib

from mainstem_testkit import SourceSuite
from sql_databases import ask

_TIME = {"sqlite": "TEXT", "postgres": "TIMESTAMPTZ", "mariadb": "DATETIME(6)"}
_BEFORE = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '-{} seconds')",
    "postgres": "clock_timestamp() - interval '{} seconds'",
    "mariadb": "UTC_TIMESTAMP(6) - INTERVAL {} SECOND",
}


class TableSuite(SourceSuite):
    """Reads a table of each test's own, in which a number has a row."""

    use = "sql"
    wrong_options = {
        "url": {"url": "http://host/x"},
        "table": {"table": " x"},
        "schema": {"schema": "id MANY"},
        "key": {"key": ["no_such"]},
        "max_rows": {"max_rows": 0},
    }

    @property
    def product(self):
        return self.server_fixture or "sqlite"

    @property
    def url(self):
        return self.server.url if self.server else f"sqlite:///{self.place}/table.db"

    @property
    def table(self):
        return "t" + hashlib.sha256(str(self.place).encode()).hexdigest()[:12]

    def prepare(self):
        ask(self.url, f"CREATE TABLE {self.table} (id INT, at {_TIME[self.product]} NOT NULL)")

    def options(self):
        return {
            "url": self.url,
            "table": self.table,
            "schema": "id INT, at TIMESTAMP",
            "key": ["id"],
            "give_up": "20 seconds",
        }

    def put(self, numbers):
        """Put a row for each number, the times a millisecond apart, the last now."""
        before = _BEFORE[self.product]
        ago = [(len(numbers) - index - 1) / 1000 for index in range(len(numbers))]
        rows = [f"({n}, {before.format(a)})" for n, a in zip(numbers, ago, strict=True)]
        if rows:
            ask(self.url, f"INSERT INTO {self.table} VALUES {', '.join(rows)}")

    def number(self, row):
        return row["id"]

    def limited(self, rows):
        return {"max_rows": rows}


# -- polling ----------------------------------------------------------------------------------


class PollSuite(TableSuite):
    wrong_options = {
        **TableSuite.wrong_options,
        "column": {"column": "no_such"},
        "settle": {"settle": "0 seconds"},
        "every": {"every": "often"},
        "mode": {"mode": "watch"},
    }

    def options(self):
        polled = {"mode": "poll", "column": "at", "settle": "500 ms", "every": "50 ms"}
        return {**super().options(), **polled}


class TestPollPostgres(PollSuite):
    server_fixture = "postgres"


class TestPollMariaDB(PollSuite):
    server_fixture = "mariadb"


class TestPollSqlite(PollSuite):
    pass


class TestPollNumbers(PollSuite):
    """By a number instead of a time."""

    server_fixture = "postgres"
    expected_failures = {"test_reading_can_begin_elsewhere": "numbers know no times to begin at"}

    def options(self):
        return {**super().options(), "column": "id"}


# -- snapshots --------------------------------------------------------------------------------


class SnapshotSuite(TableSuite):
    """Of a table that has its rows before the checkpoint begins: nobody can put one in later."""

    wrong_options = {
        **TableSuite.wrong_options,
        "column": {"column": "id"},
        "settle": {"settle": "1 second"},
        "mode": {"mode": "poll"},
    }
    put = SourceSuite.put

    def prepare(self):
        super().prepare()
        TableSuite.put(self, range(40))


class TestSnapshotSqlite(SnapshotSuite):
    pass


class TestSnapshotPostgres(SnapshotSuite):
    server_fixture = "postgres"


class TestSnapshotMariaDB(SnapshotSuite):
    server_fixture = "mariadb"


_ONCE = "a snapshot is the table as the checkpoint began: what is put later never comes"


class TestFedSnapshot(TableSuite):
    """Shows what can be shown of a snapshot when rows are put: limits, kills, an idle run's."""

    server_fixture = "postgres"
    expected_failures = {
        "test_nothing_is_lost_or_doubled_over_stops": _ONCE,
        "test_nothing_is_lost_or_doubled_when_stopped_in_the_middle": _ONCE,
        "test_a_bounded_run_ends": _ONCE,
        "test_memory_stays_flat_over_many_batches": _ONCE,
        "test_the_server_may_go_and_come_back": _ONCE,
        "test_the_lag_is_what_was_not_read": _ONCE,
        "test_reading_can_begin_elsewhere": "a snapshot knows no times, only its beginning",
    }
