"""Tables and their log as one, at a real server: random writers, chunks, and receivers that die."""

from __future__ import annotations

import random
import threading
import time
from functools import partial

import psycopg
import pytest
from mainstem import PermanentError, TransientError
from mainstem_cdc.requests import Requests
from mainstem_cdc.testing import PATIENCE, changes, check_read_again, check_tables, live
from mainstem_cdc_postgresql.connection import Connection
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.rows import RowReader
from mainstem_ingress.log import Log
from postgresql_tables import Taking

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
        self.commits = 0

    def run(self):
        with psycopg.connect(self._place.server.url) as connection:
            connection.execute(f"SET search_path TO {self._place.name}")
            connection.execute("SET deadlock_timeout = '10ms'")
            connection.execute(f"SET synchronous_commit = {self._dice.choice(['on', 'off'])}")
            connection.commit()
            while not self.stop.is_set():
                try:
                    for _ in range(self._dice.choice([1, 1, 1, 3, 12])):
                        self._write(connection)
                except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                    connection.rollback()
                if self._dice.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()
                    self.commits += 1

    def _write(self, connection):
        dice, key, other = self._dice, self._dice.randrange(300), self._dice.randrange(300)
        value = dice.randrange(10**9)
        what = dice.random()
        if dice.random() < 0.5:
            if what < 0.6:
                connection.execute(
                    "INSERT INTO a VALUES (%s, %s) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v",
                    (key, value),
                )
            elif what < 0.8:
                connection.execute("DELETE FROM a WHERE k = %s", (key,))
            else:
                connection.execute(
                    "UPDATE a SET k = %s WHERE k = %s AND NOT EXISTS (SELECT FROM a WHERE k = %s)",
                    (other, key, other),
                )
        elif what < 0.7:
            connection.execute(
                "INSERT INTO b VALUES (%s, %s, %s) ON CONFLICT (n, k) DO UPDATE SET v = EXCLUDED.v",
                (key % 10, f"n{key % 30}", value),
            )
        else:
            connection.execute("DELETE FROM b WHERE k = %s", (key % 10,))


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_out_is_the_tables(place, seed):
    """Pass: three writers at work, a receiver that dies again and again with what it has not stored, chunks of a few
    rows: what was stored makes the tables, in the order in which it came and by sequence; no change came twice."""
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT)")
    place.sql("CREATE TABLE b (k INT, n TEXT, v BIGINT, PRIMARY KEY (k, n))")
    place.sql("INSERT INTO a SELECT g, g FROM generate_series(0, 200) g")
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
    assert min(writer.commits for writer in writers) > 20
    place.sql("CHECKPOINT")  # what was committed without waiting for the disk is in the log, too
    with Taking(given, cursor) as taking:
        taking.load()
        stored += taking.stored
    there = {
        "a": {(k,): v for k, v in place.sql("SELECT k, v FROM a")},
        "b": {(n, k): v for n, k, v in place.sql("SELECT n, k, v FROM b")},
    }
    check_tables(stored, {name: table["key"] for name, table in TABLES.items()}, there)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_commit_that_is_in_the_log_and_not_seen_yet(place, restarted):
    """Pass: of a transaction that waits for a standby the log tells, and who reads the table does not see it; no chunk
    is given that has not seen what the log has told, and the row that comes last is the new one."""
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT)")
    place.sql("INSERT INTO a VALUES (1, 1), (2, 2)")
    given = place.options(tables={"a": TABLES["a"]}, snapshot="never")
    with Taking(given) as taking:
        taking.load()
        cursor = taking.cursor
    place.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    place.sql("SELECT pg_reload_conf()")

    # The slot's reader must not be taken for the standby.
    def write():
        with psycopg.connect(place.server.url, autocommit=True) as connection:
            connection.execute(f"UPDATE {place.name}.a SET v = 10 WHERE k = 1")

    writer = threading.Thread(target=write)
    try:
        time.sleep(0.2)
        writer.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        until = time.monotonic() + 20
        while not place.sql(waiting)[0][0]:
            assert time.monotonic() < until
            time.sleep(0.02)
        whole = {**given, "snapshot": "initial"}
        with Taking(whole, cursor) as taking:
            log_of = taking.receiver._log
            found = log_of.changes([0, 0], 5.0).changes
            assert [(list(c.keys), c.content.kinds) for c in found] == [
                ([(b"1",)], ["update_postimage"])
            ]
            assert place.sql("SELECT v FROM a WHERE k = 1") == [(1,)]
            assert log_of.chunk("a", None, 10) is None
        if restarted:  # with the change stored
            with Taking(given, cursor) as taking:
                before = changes(taking.some(1))
                cursor = taking.cursor
            with Taking(whole, cursor) as taking:
                for _ in range(20):
                    taking.take()
                assert not taking.stored
    finally:
        place.sql("ALTER SYSTEM RESET synchronous_standby_names")
        place.sql("SELECT pg_reload_conf()")
        writer.join(20)
    with Taking(whole, cursor) as taking:
        taking.until(lambda: not taking.receiver.facts()["loading"])
        # The change comes unless it is stored: then the row is there as it is by now.
        now = [("insert", 1, 10), ("insert", 2, 2)]
        then = [("insert", 2, 2), ("update_postimage", 1, 10)]
        assert sorted(changes(taking.stored)) == (now if restarted else then)
        assert not restarted or before == [("update_postimage", 1, 10)]


def test_tables_that_come_later_are_read_from_their_beginning(place):
    """Pass: a table that a changed document adds comes with its rows, the other one is not read again."""
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT)")
    place.sql("CREATE TABLE b (k INT, n TEXT, v BIGINT, PRIMARY KEY (k, n))")
    place.sql("INSERT INTO a VALUES (1, 1)")
    place.sql("INSERT INTO b VALUES (1, 'x', 1)")
    with Taking(place.options(tables={"a": TABLES["a"]})) as taking:
        taking.load()
        assert changes(taking.stored) == [("insert", 1, 1)]
    place.sql(f'ALTER PUBLICATION "{place.name}" ADD TABLE b')
    with Taking(place.options(tables=TABLES), taking.cursor) as taking:
        taking.load()
        assert changes(taking.stored) == [("insert", 1, "x", 1)]


def test_a_table_is_read_again(place, tmp_path):
    """Pass: from a condition on, by requests that are forgotten once they are stored; wrong conditions, pauses."""
    check_read_again(lambda **given: Taking(place.options(**given)), place.sql, tmp_path)


@pytest.mark.in_turn
def test_a_server_that_takes_its_time_over_rows_is_not_silent(place, tmp_path):
    """Pass: rows that take longer than a server may say nothing come, over the same connection."""
    place.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT)")
    place.sql("INSERT INTO a VALUES (1, 1)")
    log = Log(tmp_path)
    log.receiver(0).mkdir(parents=True)
    given = place.options(tables={"a": TABLES["a"]}, answer_timeout="1 second")
    with Taking(given) as taking:
        taking.receiver.log = log
        taking.load()
        Requests(log.receiver(0)).put("snapshot", ["a"], "pg_sleep(6) IS NOT NULL", 0)
        taking.until(lambda: len(taking.stored) == 2)
    assert changes(taking.stored) == [("insert", 1, 1)] * 2


def test_a_table_whose_key_gets_another_order_is_read_on(place):
    """Pass: in the middle of its reading, over a restart: each row once."""
    place.sql("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))")
    place.sql("INSERT INTO t SELECT x, y FROM generate_series(1, 4) x, generate_series(1, 4) y")
    given = place.options(tables={"t": {"key": ["b", "a"], "schema": "a INT, b INT"}}, chunk_rows=3)
    with Taking(given) as taking:
        taking.until(lambda: len(taking.stored) >= 6)
    place.sql("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b, a)")
    with Taking(given, taking.cursor) as again:
        again.load()
    found = [change[1:] for change in changes([*taking.stored, *again.stored])]
    assert sorted(found) == [(a, b) for a in range(1, 5) for b in range(1, 5)]


def test_columns_of_any_name_are_read_in_the_order_of_the_key(place):
    """Pass: a key whose name is that of a function that prints: its rows come, in the order of numbers."""
    place.sql('CREATE TABLE t ("concat" INT PRIMARY KEY, "case" TEXT)')
    place.sql("INSERT INTO t SELECT g, NULL FROM generate_series(1, 25) g")
    shape = {"key": ["concat"], "schema": "concat INT, case STRING"}
    with Taking(place.options(tables={"t": shape}, chunk_rows=10)) as taking:
        taking.load()
    assert changes(taking.stored) == [("insert", n, None) for n in range(1, 26)]


@pytest.mark.parametrize(
    "change", ["UPDATE t SET v = 100 WHERE k = 5", "DELETE FROM t WHERE k = 5"]
)
def test_rows_that_were_read_ahead_are_read_again_if_a_change_of_them_was_given(
    place, monkeypatch, change
):
    """The second chunk is read ahead, then a row of it changes, and the change comes before the chunk. Pass: the row
    comes as it is then, or not at all."""
    place.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    place.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 9) g")
    begin, begun = RowReader.ahead, []

    def ahead(self, *given):
        begin(self, *given)
        if not begun:
            until = time.monotonic() + PATIENCE
            while self._ahead._answers.empty():
                assert time.monotonic() < until
                time.sleep(0.005)
            place.sql(change)
        begun.append(given)

    monkeypatch.setattr(RowReader, "ahead", ahead)
    given = place.options(tables={"t": {"key": ["k"], "schema": "k INT, v INT"}}, chunk_rows=3)
    with Taking(given) as taking:
        taking.load()
    found = changes(taking.stored)
    of_five = [each for each in found if each[1] == 5]
    if change.startswith("UPDATE"):
        assert of_five == [("update_postimage", 5, 100), ("insert", 5, 100)]
    else:
        assert [kind for kind, *_ in of_five] == ["delete"]
    rows = [each[1] for each in found if each[0] == "insert"]
    assert rows == [k for k in range(1, 10) if k != 5 or change.startswith("UPDATE")]
    assert len(begun) >= 2


@pytest.fixture
def reading(place):
    """Some rows, what reads them, and a connection beside it."""
    options = PostgreSQLSourceOptions(**place.options(tables={"a": TABLES["a"]}))
    reader, connection = RowReader(options), Connection(options)
    yield lambda sql, most=None, seconds=60.0, meanwhile=lambda: None: reader.read(
        sql, 10**9, most, seconds, meanwhile, connection
    )
    reader.close()
    connection.close()


def test_a_condition_that_fails_at_a_row_is_told_in_the_words_of_the_server(reading):
    """Pass: so is one that is no SQL; rows are read after it."""
    with pytest.raises(PermanentError, match="division by zero"):
        reading("SELECT (1 / (g - 90000))::text FROM generate_series(1, 100000) g")
    with pytest.raises(PermanentError, match="syntax"):
        reading("SELECT FROM FROM t")
    assert reading("SELECT '1'")[1].num_rows == 1


def test_too_much_is_not_read(reading):
    """Pass: None where the rows have more bytes, and all of them where they have not."""
    rows = "SELECT repeat('x', 1000) FROM generate_series(1, 100000)"
    assert reading(rows, 10**7)[1] is None
    assert reading(rows, 2 * 10**8)[1].num_rows == 100_000


def test_a_server_that_stands_still_is_not_waited_for_for_ever(reading, place):
    """Pass: neither past the time that it has, nor once somebody gives it up; rows are read after it."""
    waited = []
    with pytest.raises(TransientError, match="no answer for 2 seconds"):
        reading("SELECT pg_sleep(8)::text", None, 2.0, lambda: waited.append(1))
    assert waited

    def silent():
        raise TransientError("it has said nothing")

    with pytest.raises(TransientError, match="said nothing"):
        reading("SELECT pg_sleep(8)::text", None, 60.0, silent)
    assert reading("SELECT '1'")[1].num_rows == 1


def test_a_connection_that_is_cut_while_rows_come_is_made_again(reading, place):
    """Pass: by the server's administrator, while it waits."""

    def cut():
        place.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)%' "
            "AND pid <> pg_backend_pid()"
        )

    with pytest.raises(TransientError):
        reading("SELECT pg_sleep(3)::text", None, 60.0, cut)
    assert reading("SELECT '1'")[1].num_rows == 1


def test_a_connection_ends_though_it_is_read_ahead_over_it(place):
    """Pass: with the query, once the reader was closed; what was read in vain is nobody's."""
    options = PostgreSQLSourceOptions(**place.options(tables={"a": TABLES["a"]}))
    reader = RowReader(options)
    reader.ahead("SELECT pg_sleep(0.5)::text", 10, None)
    reading = reader._ahead
    reader.close()
    assert reading.wait(PATIENCE) is not None
    assert reader._connection is None


def test_composite_values_without_any_field_are_values(place):
    """Pass: from the table and from the log alike, though such a value IS NULL."""
    place.sql("CREATE TYPE pair AS (a int, b int)")
    place.sql("CREATE TABLE t (k INT PRIMARY KEY, v pair)")
    place.sql("INSERT INTO t VALUES (1, ROW(NULL, NULL)), (2, NULL), (3, ROW(1, NULL))")
    given = place.options(tables={"t": {"key": ["k"], "schema": "k INT, v STRING"}})
    with Taking(given) as taking:
        taking.load()
        place.sql("INSERT INTO t VALUES (11, ROW(NULL, NULL)), (12, NULL), (13, ROW(1, NULL))")
        taking.until(lambda: len(taking.stored) >= 6)
    found = {k % 10: [] for _, k, _ in changes(taking.stored)}
    for _, k, v in changes(taking.stored):
        found[k % 10].append(v)
    assert found == {1: ["(,)"] * 2, 2: [None] * 2, 3: ["(1,)"] * 2}


def test_keys_with_backslashes_are_read_whatever_texts_mean_at_the_server(place):
    """Pass: where backslashes escape by default, each row comes once, and no key is taken for a statement."""
    place.sql('CREATE TABLE t (k TEXT COLLATE "C" PRIMARY KEY)')
    keys = ["a\\", "a\\zb", "aaa", "abb", "azb", "b\\') OR pg_sleep(9) IS NULL --", "c"]
    for key in keys:
        place.sql("INSERT INTO t VALUES (%s)", key)
    shape = {"key": ["k"], "schema": "k STRING"}
    given = place.options(tables={"t": shape}, chunk_rows=1)
    given["url"] += "?options=-c%20standard_conforming_strings%3Doff"
    with Taking(given) as taking:
        taking.load()
    assert sorted(change[1] for change in changes(taking.stored)) == sorted(keys)
