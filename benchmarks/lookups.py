"""Lookups next to a bare client's loop, without Spark: keys in arrays of Arrow, 10,000 rows each.

`http_lookup`: next to httpx in as many threads, each with a client of its own, over an application
that answers at once. `sql_lookup`: next to psycopg, with as many keys for each statement. Each key is
asked for once; ratios are of the medians of runs in turn. Needs PostgreSQL.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyarrow as pa
from beside import compare
from mainstem.columns import read_columns
from mainstem_database_sql.lookup.options import SQLLookupOptions
from mainstem_database_sql.lookup.table import TableLookup
from mainstem_database_sql.testing.postgres import Postgres
from mainstem_direct_webhook.lookup.http import HTTPLookup
from mainstem_direct_webhook.lookup.options import HTTPLookupOptions
from mainstem_lookup.asking import Asker, Asking
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.server import free_port

_BATCH, _RUNS, _THREADS, _KEYS = 10_000, 5, 8, 500

APPLICATION = """
import uvicorn, sys

async def answer(scope, receive, send):
    assert scope["type"] == "http"
    name = scope["path"].rpartition("/")[2]
    body = b'{"name": "n%s", "n": %s}' % (name.encode(), name.encode())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

uvicorn.run(answer, port=int(sys.argv[1]), log_level="error", lifespan="off")
"""


def batches(rows: int) -> list[pa.Array[Any]]:
    """Return keys, each once, in batches as Spark gives them."""
    starts = range(0, rows, _BATCH)
    return [pa.array(range(n, min(n + _BATCH, rows)), pa.int64()) for n in starts]


def by_httpx(url: str, given: Sequence[pa.Array[Any]]) -> None:
    """Ask for all by httpx."""

    def ask(keys: Sequence[int]) -> list[dict[str, Any]]:
        with httpx.Client() as client:
            return [client.get(f"{url}/{key}").json() for key in keys]

    for batch in given:
        keys = batch.to_pylist()
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(ask, [keys[n::_THREADS] for n in range(_THREADS)]))


def by_psycopg(url: str, given: Sequence[pa.Array[Any]]) -> None:
    """Ask for all by psycopg."""
    with psycopg.connect(url) as connection:
        for batch in given:
            keys = batch.to_pylist()
            for start in range(0, len(keys), _KEYS):
                asked = "SELECT id, name, n FROM t WHERE id = ANY(%s)"
                rows = connection.execute(asked, [keys[start : start + _KEYS]]).fetchall()
                pa.array([row[1] for row in rows], pa.string())


def asked(lookup: Any, options: Any, given: Sequence[pa.Array[Any]]) -> None:
    """Ask for all as a task does."""
    keys = read_columns("id BIGINT")
    asker = Asker(Asking(lookup, options, keys, options.table_schema, "benchmark"))
    for batch in given:
        assert all(asker([batch]).field("found").to_pylist())


def main() -> None:
    """Compare each."""
    more = {"schema": "name STRING, n BIGINT", "cache_for": "0 seconds"}
    port, few, many = free_port(), batches(4_000), batches(200_000)
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, "-c", APPLICATION, str(port)]) as application:

        def answers() -> bool:
            try:
                return httpx.get(f"{url}/0").is_success
            except httpx.HTTPError:
                return False

        wait_for(answers)
        http = HTTPLookupOptions.model_validate(
            {"url": f"{url}/{{id}}", "allow_private": True, "requests": _THREADS, **more}
        )
        compare(
            "http_lookup",
            4_000,
            "keys",
            lambda: asked(HTTPLookup, http, few),
            lambda: by_httpx(url, few),
            _RUNS,
        )
        application.terminate()
    with tempfile.TemporaryDirectory() as place, Postgres(Path(place)) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute(
                "CREATE TABLE t AS SELECT n AS id, 'n' || n AS name, n * n AS n "
                "FROM generate_series(0::bigint, 200000) AS of (n)"
            )
            connection.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
        sql = SQLLookupOptions.model_validate(
            {"url": server.url, "table": "t", "key": {"id": "id"}, "requests": 1, **more}
            | {"keys_per_request": _KEYS}
        )
        compare(
            "sql_lookup",
            200_000,
            "keys",
            lambda: asked(TableLookup, sql, many),
            lambda: by_psycopg(server.url, many),
            _RUNS,
        )


if __name__ == "__main__":
    main()
