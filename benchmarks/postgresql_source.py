"""From a slot to durable segments, and from a table: our receiver beside bare loops of the same client.

    python benchmarks/postgresql_source.py [ROWS] [ROUNDS]

A real PostgreSQL. The log: rows of some 200 bytes, inserted in transactions of 1,000 before, read by a
loop of COPY_BOTH that looks at nothing, by Debezium's engine, which writes them as JSON into a file (from
its first row to its last, without its start), and by a receiver with its log. The snapshot: the same
table, by COPY TO into nowhere, and by a receiver. Prints rows a second and the ratios, medians over the
rounds.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from beside import compare
from capturing import received
from mainstem_cdc.testing.debezium import Debezium
from mainstem_cdc_postgresql.connection import Stream
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.source import PostgreSQLSource
from mainstem_database_sql.testing.postgres import Postgres

_TABLE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b NUMERIC(10, 2), at TIMESTAMPTZ, text TEXT)"
)
_ROWS = (
    "INSERT INTO t SELECT g, g * 7, g / 100.0, now(), repeat('x', 160) "
    "FROM generate_series(%s::int, %s::int) g"
)
_SCHEMA = "id BIGINT, a BIGINT, b DECIMAL(10, 2), at TIMESTAMP, text STRING"


def options(server: Postgres, **more: str) -> PostgreSQLSourceOptions:
    """Return the options of a source."""
    table = {"t": {"key": ["id"], "schema": _SCHEMA}}
    given = {"url": server.url, "tables": table, "high_water": "100 GB", **more}
    return PostgreSQLSourceOptions.model_validate(given)


def bare(given: PostgreSQLSourceOptions, rows: int) -> None:
    """Read so many rows of a slot."""
    stream = Stream(given)
    stream.begin(given.slot, given.published, 0)
    count = 0
    while count < rows:
        data = stream.next()
        if data is None:
            stream.wait(1.0)
        elif data[:1] == b"I":
            count += 1
    stream.close()


@contextmanager
def slot(server: Postgres, name: str, rows: int) -> Iterator[None]:
    """Make a slot that has so many rows to tell, written behind it."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute(_TABLE)
        connection.execute(f"CREATE PUBLICATION {name} FOR TABLE t")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
        for first in range(0, rows, 1000):
            connection.execute(_ROWS, (first, first + 999))
        yield
        connection.execute(f"DROP PUBLICATION {name}")


def prepared(
    server: Postgres,
    name: str,
    do: Callable[[PostgreSQLSourceOptions], None],
    **more: str,
) -> Callable[[], None]:
    """Return what does something with a slot of its own, made before."""
    made = iter(range(1000))

    def run() -> None:
        own = f"{name}{next(made)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", ("source", own))
        do(options(server, slot=own, publication="source", **more))
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (own,))

    return run


def beside(server: Postgres, rows: int, rounds: int) -> None:
    """Print how many rows Debezium tells a second."""
    seconds = []
    for number in range(rounds):
        slot = f"other{number}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", ("source", slot))
        properties = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "postgres",
            "database.password": "",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "slot.name": slot,
            "publication.name": "source",
            "table.include.list": "public.t",
            "snapshot.mode": "no_data",
            "max.batch.size": "8192",
            "max.queue.size": "32768",
        }
        with (
            tempfile.TemporaryDirectory() as folder,
            Debezium(Path(folder), properties) as other,
        ):
            seconds.append(other.seconds(rows))
    print(f"the log: Debezium {rows / statistics.median(seconds):,.0f} rows/s")


def copied(server: Postgres) -> None:
    """Read the table by COPY."""
    with (
        psycopg.connect(server.url) as connection,
        connection.cursor().copy("COPY t TO STDOUT") as copy,
    ):
        for _ in copy:
            pass


def main() -> None:
    """Run both, in turn."""
    rows = int(sys.argv[1]) if sys.argv[1:] else 200_000
    rounds = int(sys.argv[2]) if sys.argv[2:] else 3
    with (
        tempfile.TemporaryDirectory() as folder,
        Postgres(Path(folder)) as server,
        slot(server, "source", rows),
    ):
        ours = prepared(
            server, "ours", lambda o: received(PostgreSQLSource(o), rows), snapshot="never"
        )
        loop = prepared(server, "bare", lambda o: bare(o, rows))
        compare("the log", rows, "rows", ours, loop, rounds)
        beside(server, rows, rounds)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_replication_slot_advance('source', pg_current_wal_lsn())")
        snapshot = prepared(server, "snap", lambda o: received(PostgreSQLSource(o), rows))
        compare("the table", rows, "rows", snapshot, lambda: copied(server), rounds)


if __name__ == "__main__":
    main()
