"""The sink `sql` against others at the same database: deadlocks, failed serializations, locks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from mainstem import PipelineError
from mainstem_testkit.pipelines import wait_for
from sql_databases import ask
from sql_writing import EXACT, SERVERS, changes, strategies

DDL = "id BIGINT, name STRING, v BIGINT"
SHAPE = changes(DDL, ["id"])


def rows(version, *ids):
    return [{"id": n, "name": f"v{version}", "v": version} for n in ids]


def waiting(place):
    """Return how many transactions wait for a lock at a server."""
    if place.product == "postgres":
        asked = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    else:
        time.sleep(0.15)  # the answer is up to 0.1 s old, counted from when it was last asked for
        asked = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    return place.ask(asked)[0][0]


@contextmanager
def meanwhile(work, *arguments, **named):
    """Do work in a thread beside the block, and wait for its end; a failure of it is the block's."""
    failed = []

    def run():
        try:
            work(*arguments, **named)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failed
    finally:
        thread.join(60)
    if failed:
        raise failed[0]


def rolled_back(sink):
    """Return a list that grows with each transaction of a sink that is undone."""
    undone = []
    sa.event.listen(sink._writer.engine, "rollback", undone.append)
    return undone


@pytest.mark.parametrize("product", SERVERS)
@pytest.mark.in_turn
def test_a_batch_that_a_deadlock_undid_is_written_again(product, place_in):
    """Pass: a transaction that has the second row wants the first, which the batch has: the database
    undoes the batch, and it is written over what the other left."""
    place = place_in(product)
    place.write(rows(1, 1, 2), SHAPE)
    sink = place.sink()
    place.write([], SHAPE, sink=sink, number=1)
    undone = rolled_back(sink)
    # PostgreSQL undoes the one that notices, MariaDB the one that has changed less.
    heavy = "SELECT set_config('deadlock_timeout', '30s', false)"
    if product == "mariadb":
        place.ask("CREATE TABLE heavy (n INT) ENGINE = InnoDB")
        heavy = "INSERT INTO heavy SELECT seq FROM seq_1_to_1000"
    with (
        place.holding("SELECT 1", heavy, "UPDATE {t} SET name = 'other' WHERE id = 2") as other,
        meanwhile(place.write, rows(2, 1, 2), SHAPE, sink=sink, number=2),
    ):
        wait_for(lambda: waiting(place))
        other.cursor().execute(f"UPDATE {place.quoted} SET name = 'other' WHERE id = 1")
        other.commit() if product == "mariadb" else other.execute("COMMIT")
    assert undone
    assert place.rows() == [(1, "v2"), (2, "v2")]


@pytest.mark.in_turn
def test_a_failed_serialization_is_tried_again(place_in):
    """Pass: for a user whose transactions see one state, a row that changes meanwhile undoes the batch;
    it is written again, over the change."""
    place = place_in("postgres")
    place.ask("DROP ROLE IF EXISTS strict")
    place.ask("CREATE ROLE strict SUPERUSER LOGIN")
    place.ask("ALTER ROLE strict SET default_transaction_isolation = 'repeatable read'")
    place.write(rows(1, 1, 2), SHAPE)
    sink = place.sink(url=place.url.replace("postgres@", "strict@"))
    place.write([], SHAPE, sink=sink, number=1)
    undone = rolled_back(sink)
    with (
        place.holding("UPDATE {t} SET name = 'other'") as other,
        meanwhile(place.write, rows(2, 1, 2), SHAPE, sink=sink, number=2),
    ):
        wait_for(lambda: waiting(place))
        other.execute("COMMIT")
    assert undone
    assert place.rows() == [(1, "v2"), (2, "v2")]


@strategies("transactional", "staged", products=SERVERS)
@pytest.mark.in_turn
def test_a_lock_is_waited_for(place, how):
    """Pass: a row that is locked when the batch comes is written when the lock is gone."""
    place.write(rows(1, 1, 2), SHAPE)
    with (
        place.holding("UPDATE {t} SET name = 'other' WHERE id = 2") as other,
        meanwhile(place.write, rows(2, 1, 2), SHAPE, how, number=1),
    ):
        wait_for(lambda: waiting(place))
        other.rollback()
    assert place.rows() == [(1, "v2"), (2, "v2")]


@strategies(*EXACT)
@pytest.mark.in_turn
def test_a_lock_that_stays_ends_patience(place, how):
    """Pass: an error that names the place and what the database says, and no password; nothing is
    written, and the next try goes well."""
    place.write(rows(1, 1), SHAPE)
    url = place.user("S3CRET", superuser=True) if place.server else place.url
    sink = place.sink(url=url, give_up="1 second")
    place.write([], SHAPE, sink=sink, number=1)
    with (
        place.holding("UPDATE {t} SET name = 'other' WHERE id = 1"),
        pytest.raises(PipelineError) as error,
    ):
        place.write(rows(2, 1), SHAPE, how, sink=sink, number=2)
    where = {"postgres": "postgresql 127.0.0.1:", "mariadb": "mysql 127.0.0.1:"}
    assert str(error.value).startswith(where.get(place.product, f"sqlite {place.url[10:]}: "))
    assert "lock" in str(error.value).lower()
    assert "S3CRET" not in "".join(traceback.format_exception(error.value))
    assert place.rows() == [(1, "v1")]
    assert place.write(rows(3, 1), SHAPE, how, sink=sink, number=2) is None
    assert place.rows() == [(1, "v3")]


@pytest.mark.in_turn
def test_a_lock_on_the_table_ends_patience_before_the_first_batch(place_in):
    """Pass: MariaDB's locks on tables, which it would hold for a day, are waited for no longer."""
    place = place_in("mariadb")
    place.ask("CREATE TABLE {t} (id BIGINT)")
    sink = place.sink(give_up="1 second", add_columns=True)
    with (
        place.holding("SELECT * FROM {t}"),
        pytest.raises(PipelineError, match="[Ll]ock wait timeout"),
    ):
        place.write([], "id BIGINT, name STRING", sink=sink)


@contextmanager
def locked_by_another_process(file, seconds):
    """Lock an SQLite database; the lock goes when the time is over."""
    code = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); time.sleep(float(sys.argv[2]))"
    )
    argv = [sys.executable, "-c", code, file, str(seconds)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
@pytest.mark.in_turn
def test_a_file_that_another_process_locks_is_waited_for(there, place_in):
    """Pass: a lock of two seconds is waited out, though SQLite itself waits for a tenth of one."""
    place = place_in("sqlite")
    if there:
        place.write(rows(1, 1), SHAPE)
    sink = place.sink(connect_timeout="100 ms")
    with locked_by_another_process(place.url[10:], 2):
        assert place.write(rows(2, 1), SHAPE, sink=sink, number=1) is None
    assert place.rows() == [(1, "v2")]


def test_a_file_that_stays_locked_ends_patience(place_in):
    """Pass: an error with the file's name; SQLite, which would get the lock in the end, waits no longer
    than the sink."""
    place = place_in("sqlite")
    sink = place.sink(give_up="500 ms", connect_timeout="60 s")
    with (
        locked_by_another_process(place.url[10:], 20),
        pytest.raises(PipelineError, match=f"sqlite {place.url[10:]}: database is locked"),
    ):
        place.write(rows(1, 1), SHAPE, sink=sink)


@pytest.mark.parametrize("product", SERVERS)
def test_two_sinks_that_begin_at_once_make_one_ledger_entry_each(product, place_in):
    """Pass: two checkpoints whose first batches come at the same time, into tables that are not there,
    both write their rows."""
    place = place_in(product)
    begin = threading.Barrier(2)

    def write(number, query_id):
        sink = place.sink()
        begin.wait()
        place.write([{"id": number}], "id BIGINT", sink=sink, query_id=query_id)

    with meanwhile(write, 1, "one"), meanwhile(write, 2, "two"):
        pass
    assert place.ids() == [1, 2]
    ledger = ask(place.url, f"SELECT query_id, batch FROM {place.mark(place.ledger)} ORDER BY 1")
    assert list(ledger) == [("one", 0), ("two", 0)]


def test_a_table_whose_type_another_makes_meanwhile_is_waited_for(place_in):
    """Pass: PostgreSQL makes a type with each table, and says that it is there when another's table is
    made between its two looks; here the type goes when the sink's transaction is undone."""
    place = place_in("postgres")
    place.ask("CREATE TYPE {t} AS ENUM ()")
    sink = place.sink()
    undone = rolled_back(sink)
    sa.event.listen(
        sink._writer.engine, "rollback", lambda _: place.ask("DROP TYPE IF EXISTS {t}"), once=True
    )
    place.write([{"id": 1}], "id BIGINT", sink=sink)
    assert undone
    assert place.ids() == [1]


@pytest.mark.parametrize("product", SERVERS)
def test_two_sinks_that_add_the_same_column_at_once_both_write(product, place_in):
    """Pass: both saw that the column is missing, and wait for the table's lock to add it."""
    place = place_in(product)
    place.ask("CREATE TABLE {t} (id BIGINT)")
    stuck = (
        "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER%'"
        if product == "postgres"
        else "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE%'"
    )

    def write(number, query_id):
        row = {"id": number, "name": query_id}
        sink = place.sink(add_columns=True)
        place.write([row], "id BIGINT, name STRING", sink=sink, query_id=query_id)

    with (
        place.holding("SELECT * FROM {t}") as other,
        meanwhile(write, 1, "one"),
        meanwhile(write, 2, "two"),
    ):
        wait_for(lambda: place.ask(stuck)[0][0] == 2)
        other.rollback()
    assert place.rows() == [(1, "one"), (2, "two")]
