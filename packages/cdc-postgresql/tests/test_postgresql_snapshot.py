"""Tables and their log as one, at a real server: random writers, chunks, and receivers that die."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest
from mainstem_cdc.testing import changes, taken, versions
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


def tables_of(messages, by_version):
    """Return what the messages make of the tables, one after another or by their sequence."""
    ordered = (
        sorted(zip(versions(messages), range(len(messages)), strict=True)) if by_version else None
    )
    found = {"a": {}, "b": {}}
    for message in [messages[at] for _, at in ordered] if ordered else messages:
        name = message.extra[0]
        row = message.extra[1] if name == "a" else message.extra[2]
        key = tuple(row[k] for k in TABLES[name]["key"])
        if row["_change_type"] == "delete":
            found[name].pop(key, None)
        else:
            found[name][key] = row["v"]
    return found


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
    stored, cursor = [], None
    loading = True
    try:
        lives = 0
        while lives < 12 or loading:
            with Taking(given, cursor) as taking:
                for _ in range(dice.randrange(2, 15)):
                    # A group is what several calls have given, and is stored with the place behind it.
                    group = [taking.receiver.take(0.02) for _ in range(dice.randrange(1, 4))]
                    if dice.random() < 0.1:  # killed before it was stored
                        break
                    for found in group:
                        stored += taken(taking.receiver, found)
                    cursor = taking.receiver.cursor()
                    if last := next((found for found in reversed(group) if found), None):
                        taking.receiver.acknowledge(last)
                loading = taking.receiver.facts()["loading"]
            lives += 1
            assert lives < 200
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
    made = tables_of(stored, by_version=False)
    wrong = {n: set(made[n].items()) ^ set(there[n].items()) for n in there}
    assert not any(wrong.values()), wrong
    assert tables_of(stored, by_version=True) == there
    for name in TABLES:  # tables are outputs, each in its order
        of_one = [message for message in stored if message.extra[0] == name]
        seen = [v for v in versions(of_one) if not v.endswith("-00000000")]
        assert seen == sorted(seen)
        told = zip(versions(of_one), changes(of_one), strict=True)
        # What moves a row is one change of two keys.
        of_keys = [(version, kind, values[:-1]) for version, (kind, *values) in told]
        of_keys = [(v, kind, tuple(key)) for v, kind, key in of_keys if not v.endswith("-00000000")]
        assert len(of_keys) == len(set(of_keys))


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
