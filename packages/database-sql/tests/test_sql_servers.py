"""The test servers: they keep what was committed, log it, and stand still when told."""

from __future__ import annotations

import pytest
from mainstem_database_sql.testing.mariadb import MariaDB


def test_postgres_keeps_its_data_over_a_kill_and_a_restart(postgres):
    """Pass: it decodes its log, and a committed row is there after both."""
    postgres.sql("CREATE TABLE numbers AS SELECT 7 AS n")
    assert postgres.sql("SHOW wal_level") == "logical"
    postgres.kill()
    assert not postgres.running
    with pytest.raises(OSError):  # noqa: PT011
        postgres.answers()
    postgres.start()
    postgres.restart()
    assert postgres.sql("SELECT n FROM numbers") == "7"


def test_mariadb_keeps_what_was_committed_over_a_kill_and_a_restart(mariadb):
    """Pass: a row committed just before the kill is there after both, and so is its place in the log."""
    mariadb.sql("CREATE TABLE kept (n INT)")
    mariadb.sql("INSERT INTO kept VALUES (7)")
    place = mariadb.sql("SELECT @@gtid_binlog_pos")
    mariadb.kill()
    assert not mariadb.running
    with pytest.raises(OSError):  # noqa: PT011
        mariadb.answers()
    mariadb.start()
    mariadb.restart()
    assert mariadb.sql("SELECT n, @@gtid_binlog_pos FROM kept") == f"7\t{place}"


def test_mariadb_logs_whole_rows(mariadb):
    """Pass: a change is in the log as rows, all columns of them, with the columns' names."""
    settings = "@@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata"
    assert mariadb.sql(f"SELECT {settings}") == "1\tROW\tFULL\tFULL"
    mariadb.sql(
        "CREATE TABLE logged (n INT); INSERT INTO logged VALUES (1); UPDATE logged SET n = 2"
    )
    log = mariadb.sql("SHOW MASTER STATUS").split("\t")[0]
    events = mariadb.sql(f"SHOW BINLOG EVENTS IN '{log}'").splitlines()
    kinds = [event.split("\t")[2] for event in events]
    assert {"Gtid", "Write_rows_v1", "Update_rows_v1"} <= set(kinds)


def test_mariadb_tells_rows_by_line_and_columns_by_tab(mariadb):
    """Pass: tabs, line breaks, nulls and empty texts within rows can be told from what is between."""
    told = mariadb.sql(
        "SELECT 1, 'a\\tb\\nc' UNION ALL SELECT NULL, 'Zoë 🚀' UNION ALL SELECT 3, ''"
    )
    assert told.split("\n") == ["1\ta\\tb\\nc", "NULL\tZoë 🚀", "3\t"]


@pytest.mark.in_turn
def test_mariadb_starts_in_a_folder_of_any_depth(tmp_path):
    """Pass: it starts in a folder whose path is longer than that of a socket can be."""
    with MariaDB(tmp_path / ("deep" * 30)) as server:
        assert server.sql("SELECT DATABASE(), @@bind_address") == "test\t127.0.0.1"
