"""Tables and their log as one, at real servers: random writers, chunks, and receivers that die."""

from __future__ import annotations

import json
import random
import threading
import time
from functools import partial

import pymysql
import pytest
from mainstem_cdc.testing import changes, check_tables, live, versions
from mysql_tables import Taking, connected

TABLES = {
    "a": {"key": ["k"], "schema": "k BIGINT, v BIGINT"},
    "b": {"key": ["n", "k"], "schema": "k BIGINT, n STRING, v BIGINT"},
}


class Writer(threading.Thread):
    """Writes into both tables at random, in transactions of which some are rolled back, until it is told to stop."""

    def __init__(self, place, seed):
        super().__init__()
        self._place, self._dice = place, random.Random(seed)
        self.stop = threading.Event()

    def run(self):
        connection = connected(self._place.server, self._place.name)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 1")
            while not self.stop.is_set():
                connection.begin()
                try:
                    for _ in range(self._dice.choice([1, 1, 1, 3, 12])):
                        self._write(cursor)
                except (pymysql.err.OperationalError, pymysql.err.IntegrityError):
                    connection.rollback()
                if self._dice.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()

    def _write(self, cursor):
        dice, key, other = self._dice, self._dice.randrange(300), self._dice.randrange(300)
        value = dice.randrange(10**9)
        what = dice.random()
        if dice.random() < 0.5:
            if what < 0.6:
                cursor.execute(
                    "INSERT INTO a VALUES (%s, %s) ON DUPLICATE KEY UPDATE v = VALUES(v)",
                    (key, value),
                )
            elif what < 0.8:
                cursor.execute("DELETE FROM a WHERE k = %s", (key,))
            else:
                cursor.execute("UPDATE a SET k = %s WHERE k = %s", (other, key))
        elif what < 0.7:
            cursor.execute("REPLACE INTO b VALUES (%s, %s, %s)", (key % 10, f"n{key % 30}", value))
        else:
            cursor.execute("DELETE FROM b WHERE k = %s", (key % 10,))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.in_turn)])
def test_what_comes_out_is_the_tables(place, seed):
    """Pass: three writers at work, a receiver that dies again and again with what it has not stored, chunks of a few
    rows: what was stored makes the tables, in the order in which it came and by sequence; no change came twice."""
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT)")
    place.sql("CREATE TABLE b (k INT, n VARCHAR(20), v BIGINT, PRIMARY KEY (k, n))")
    place.connection.cursor().executemany(
        "INSERT INTO a VALUES (%s, %s)", [(n, n) for n in range(200)]
    )
    dice = random.Random(seed)
    given = place.options(tables=TABLES, chunk_rows=dice.choice([7, 20, 1000]))
    writers = [Writer(place, seed * 10 + n) for n in range(3)]
    for writer in writers:
        writer.start()
    try:
        stored, cursor = live(partial(Taking, given), dice)
    finally:
        for writer in writers:
            writer.stop.set()
        for writer in writers:
            writer.join()
    with Taking(given, cursor) as taking:
        taking.load()
        stored += taking.stored
    there = {
        "a": {(k,): v for k, v in place.sql("SELECT k, v FROM a")},
        "b": {(n, k): v for n, k, v in place.sql("SELECT n, k, v FROM b")},
    }
    check_tables(stored, {name: table["key"] for name, table in TABLES.items()}, there)


def test_a_chunk_waits_for_what_the_log_has_told(mysql_place):
    """Pass: a transaction that is in the log and not seen yet, as it waits for a replica: no row of before comes after its
    change. The server holds it between log and sight (semi-synchronous replication without a replica)."""
    place = mysql_place
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT)")
    place.sql("INSERT INTO a VALUES (1, 1), (2, 1)")
    given = place.options(tables={"a": TABLES["a"]}, chunk_rows=1)
    writer = connected(place.server, place.name)
    unseen = threading.Event()

    def write():
        with writer, writer.cursor() as cursor:
            cursor.execute("UPDATE a SET v = 2 WHERE k = 2")
            unseen.set()

    with Taking(given) as taking:
        log = taking.receiver._log
        # What the server says of what it has made visible, as it does while a commit waits.
        real = log._connection.texts
        held = threading.Event()

        def texts(sql):
            if "GTID_SUBSET" in sql and unseen.is_set() and not held.is_set():
                return [("0",)]
            return real(sql)

        log._connection.texts = texts
        taking.until(lambda: len(taking.stored) >= 1)
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            taking.take()
        kinds = [c for c in changes(taking.stored) if c[1] == 2]
        assert kinds == [("update_postimage", 2, 2)]
        held.set()
        taking.load()
        assert [c for c in changes(taking.stored) if c[1] == 2] in (
            [("update_postimage", 2, 2)],
            [("update_postimage", 2, 2), ("insert", 2, 2)],
        )


def test_a_chunk_waits_for_what_was_taken_before_a_restart(mysql_place, monkeypatch):
    """Pass: the first part of a transaction was stored, and the server does not show it yet when the receiver begins again:
    no row of before comes with a sequence above its changes."""
    from mainstem_cdc_mysql.log import BinaryLog

    place = mysql_place
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT)")
    for key in range(20):
        place.sql("INSERT INTO a VALUES (%s, 1)", key)
    given = place.options(tables={"a": TABLES["a"]}, chunk_rows=2)
    monkeypatch.setattr(BinaryLog, "most", 5)
    with Taking(given) as taking:
        taking.take()
        place.sql("UPDATE a SET v = 2")
        taking.until(lambda: any(c[0] == "update_postimage" for c in changes(taking.stored)))
    assert json.loads(taking.cursor)["place"]["taken"]
    asked = []
    with Taking(given, taking.cursor) as again:
        log = again.receiver._log
        real = log._connection.texts

        def texts(sql):
            if "GTID_SUBSET" not in sql:
                return real(sql)
            asked.append(sql)
            return [("0",)] if len(asked) < 3 else real(sql)

        query = log._connection.query

        def looked(sql, *more):
            assert len(asked) >= 3 or "`a`" not in sql, "read before all was seen"
            return query(sql, *more)

        log._connection.texts, log._connection.query = texts, looked
        again.load()
    assert len(asked) >= 3
    assert json.loads(taking.cursor)["place"]["gtids"].partition(":")[0] in asked[0]
    stored = [*taking.stored, *again.stored]
    assert {m.extra[1]["k"]: m.extra[1]["v"] for m in stored} == dict.fromkeys(range(20), 2)
    newest = sorted(
        zip(
            versions(stored),
            (m.extra[1]["k"] for m in stored),
            (c[2] for c in changes(stored)),
            strict=True,
        )
    )
    assert {k: v for _, k, v in newest} == dict.fromkeys(range(20), 2)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("VARCHAR(20) COLLATE utf8mb4_general_ci", ["'b'", "'A'", "'a''x'", "'\\\\'", "'é'", "'Z'", "''"]),
        ("DECIMAL(30, 10)", ["12345678901234567890.0000000001", "12345678901234567890.0000000002", "-1", "0", "3.5"]),
        ("BIGINT UNSIGNED", ["18446744073709551615", "9223372036854775808", "0", "5"]),
        ("VARBINARY(20)", ["X'00'", "X'0001'", "X'ff'", "X'27'", "''"]),
        ("DATETIME(6)", ["'2024-01-01 00:00:00.000001'", "'2024-01-01 00:00:00.000002'", "'1999-12-31'"]),
        ("TIMESTAMP(3)", ["'2024-01-01 00:00:00.001'", "'2024-01-01 00:00:00.002'", "'1999-12-31'"]),
        ("ENUM('z', 'a', 'm')", ["'a'", "'m'", "'z'"]),
        ("BIT(40)", ["1", "255", "b'1000000000000000000000000000000000000001'"]),
        ("DOUBLE", ["0.1", "-1e300", "1e-300", "5"]),
        ("DATE", ["'2024-01-01'", "'1000-01-01'"]),
        ("YEAR", ["2024", "1999", "2155"]),
    ],
)  # fmt: skip
def test_rows_are_read_on_behind_a_key_of_any_type(place, kind, values):
    """Pass: one row a chunk, with a second column in the key, over restarts: each row once."""
    place.sql(f"CREATE TABLE t (n INT, k {kind} NOT NULL, v INT, PRIMARY KEY (k, n))")
    for number, value in enumerate(values):
        place.sql(f"INSERT INTO t VALUES (1, {value}, {number}), (2, {value}, {number})")
    tables = {"t": {"key": ["n", "k"], "schema": "n INT, k STRING, v INT"}}
    if kind.startswith("VARBINARY"):
        tables["t"]["schema"] = "n INT, k BINARY, v INT"
    given = place.options(tables=tables, chunk_rows=1)
    stored, cursor, done = [], None, False
    while not done:
        with Taking(given, cursor) as taking:
            for _ in range(4):
                taking.take()
            stored, cursor = stored + taking.stored, taking.cursor
            done = not taking.receiver.facts()["loading"]
        assert len(stored) <= 2 * len(values)
    assert sorted((c[1], c[3]) for c in changes(stored)) == sorted(
        (n, v) for v in range(len(values)) for n in (1, 2)
    )


def test_a_table_whose_key_gets_another_order_is_read_on(place):
    """Pass: in the middle of its reading, over a restart: each row once."""
    place.sql("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))")
    rows = ", ".join(f"({a}, {b})" for a in range(1, 5) for b in range(1, 5))
    place.sql(f"INSERT INTO t VALUES {rows}")
    given = place.options(tables={"t": {"key": ["b", "a"], "schema": "a INT, b INT"}}, chunk_rows=3)
    with Taking(given) as taking:
        taking.until(lambda: len(taking.stored) >= 6)
    place.sql("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)")
    with Taking(given, taking.cursor) as again:
        again.load()
    found = [change[1:] for change in changes([*taking.stored, *again.stored])]
    assert sorted(found) == [(a, b) for a in range(1, 5) for b in range(1, 5)]


def test_rows_of_a_chunk_that_are_too_large_together(place, monkeypatch):
    """Pass: no chunk has more than fit, and a row, however many were asked for; each row comes."""
    from mainstem_cdc_mysql import tables
    from mainstem_cdc_mysql.connection import Connection

    monkeypatch.setattr(tables, "_MOST_BYTES", 50_000)
    read, found = Connection.first_rows, []

    def first_rows(self, sql, seconds, meanwhile, most):
        rows = read(self, sql, seconds, meanwhile, most)
        if most is not None:
            found.append(len(rows))
        return rows

    monkeypatch.setattr(Connection, "first_rows", first_rows)
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v LONGTEXT)")
    rows = ", ".join(f"({k}, REPEAT('x', {20_000 if k <= 40 else 10}))" for k in range(1, 61))
    place.sql(f"INSERT INTO a VALUES {rows}")
    large = {"a": {"key": ["k"], "schema": "k BIGINT, v STRING"}}
    with Taking(place.options(tables=large)) as taking:
        taking.load()
    assert [(kind, key) for kind, key, _ in changes(taking.stored)] == [
        ("insert", key) for key in range(1, 61)
    ]
    assert found == [*[3] * 13, 21, 0]
