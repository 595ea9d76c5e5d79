"""From a binary log to durable segments, and from a table: our receiver beside others.

    python benchmarks/mysql_source.py [ROWS] [ROUNDS] [mysql|mariadb]

A real MySQL, or MariaDB. The log: rows of some 200 bytes, inserted in transactions of 1,000, read by a
loop of mysql-replication that looks at nothing, and by a receiver with its log. The snapshot: the same
table, by PyMySQL row by row, and by a receiver. Prints rows a second and the ratios, medians over the
rounds.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pymysql
from beside import compare
from capturing import received
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.receiver import MySQLReceiver
from mainstem_cdc_mysql.source import MySQLSource
from mainstem_cdc_mysql.testing import MySQL
from mainstem_database_sql.testing.mariadb import MariaDB
from mainstem_ingress import Receiver
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

_TABLE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b DECIMAL(10, 2), at DATETIME(6), text TEXT)"
)
_SCHEMA = "id BIGINT, a BIGINT, b DECIMAL(10, 2), at TIMESTAMP_NTZ, text STRING"


class FromTheBeginning(MySQLReceiver):
    """Begins where the benchmark has written nothing yet."""

    cursor_there = ""

    def connect(self, cursor: str | None) -> None:
        super().connect(cursor or self.cursor_there)


class Beginning(MySQLSource):
    """A source of that receiver."""

    def receiver(self) -> type[Receiver]:
        return FromTheBeginning


def bare(server: Any, rows: int, start: dict[str, Any]) -> None:
    """Read so many rows of the log."""
    settings = {"host": "127.0.0.1", "port": server.port, "user": "root", "passwd": ""}
    mariadb = server.name == "mariadb"
    where = (
        {"is_mariadb": True, "auto_position": start["gtids"] or "0-1-0"}
        if mariadb
        else {"log_file": start["file"], "log_pos": start["start"], "resume_stream": True}
    )
    stream = BinLogStreamReader(
        connection_settings=settings, server_id=77, blocking=True, only_events=[WriteRowsEvent],
        only_tables=["t"], **where,
    )  # fmt: skip
    count = 0
    for event in stream:
        count += len(event.rows)
        if count >= rows:
            break
    stream.close()


def selected(connect: Any) -> None:
    """Read the table."""
    with connect() as connection, connection.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute("SELECT * FROM t")
        for _ in cursor:
            pass


def main() -> None:
    """Run both, in turn."""
    rows = int(sys.argv[1]) if sys.argv[1:] else 100_000
    rounds = int(sys.argv[2]) if sys.argv[2:] else 3
    make = MariaDB if "mariadb" in sys.argv else MySQL
    with tempfile.TemporaryDirectory() as folder, make(Path(folder)) as server:

        def connect() -> Any:
            return pymysql.connect(
                host="127.0.0.1", port=server.port, user="root", database="test", autocommit=True
            )

        def source(made: type[MySQLSource], **more: Any) -> MySQLSource:
            given = {
                "url": f"mysql://root@127.0.0.1:{server.port}/test",
                "tables": {"t": {"key": ["id"], "schema": _SCHEMA}},
                "high_water": "100 GB",
                **more,
            }
            return made(MySQLSourceOptions.model_validate(given))

        with connect() as connection, connection.cursor() as cursor:
            cursor.execute(_TABLE)
            there = source(MySQLSource, snapshot="never")
            begin = MySQLReceiver(there.options, 0, "bench")
            begin.connect(None)
            FromTheBeginning.cursor_there = begin.cursor() or ""
            begin.close()
            for first in range(0, rows, 1000):
                connection.begin()
                cursor.executemany(
                    "INSERT INTO t VALUES (%s, %s, %s, '2024-05-06 07:08:09.5', REPEAT('x', 160))",
                    [(n, n * 7, n % 10**9 / 100) for n in range(first, first + 1000)],
                )
                connection.commit()
        start = json.loads(FromTheBeginning.cursor_there)["place"]
        ours = source(Beginning, snapshot="never")
        compare(
            "the log",
            rows,
            "rows",
            lambda: received(ours, rows),
            lambda: bare(server, rows, start),
            rounds,
        )
        table = source(MySQLSource)
        compare(
            "the table",
            rows,
            "rows",
            lambda: received(table, rows),
            lambda: selected(connect),
            rounds,
        )


if __name__ == "__main__":
    main()
