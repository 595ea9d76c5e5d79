"""What is polled comes once, as far as polling can see it; and what it can't see is as stated."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace

import pytest
from mainstem import OptionError, PipelineError, Reached
from mainstem_database_sql.source import polling, selecting
from mainstem_database_sql.source.source import SQLSource
from test_sql_source_driver import PRODUCTS, Checkpoint, Place, mostly, options, place_of

TABLE = "CREATE TABLE {t} (id BIGINT PRIMARY KEY, name VARCHAR(400))"
#: The type of a time with microseconds, and the database's clock plus a number of seconds.
TIME = {"sqlite": "TEXT", "postgres": "TIMESTAMPTZ", "mariadb": "DATETIME(6)"}
CLOCK = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '{:+} seconds')",
    "postgres": "clock_timestamp() + interval '{} seconds'",
    "mariadb": "UTC_TIMESTAMP(6) + INTERVAL {} SECOND",
}


@pytest.fixture(params=PRODUCTS)
def place(request, tmp_path):
    with place_of(request, tmp_path) as made:
        yield made


@pytest.fixture(params=["postgres", "mariadb"])
def server(request, tmp_path):
    """A database with more than one writer at a time."""
    with place_of(request, tmp_path) as made:
        yield made


@pytest.fixture
def file(tmp_path):
    """A table of SQLite's, for what does not depend on the database."""
    with Place("sqlite", f"sqlite:///{tmp_path}/table.db") as made:
        made.ask(TABLE)
        yield made


@pytest.fixture
def clock(monkeypatch):
    """This machine's clock, as polling sees it: moved by hand, and by sleeping."""
    made = SimpleNamespace(now=1000.0, monotonic=lambda: made.now, time=time.time)

    def sleep(seconds):
        made.now += seconds

    made.sleep = sleep
    monkeypatch.setattr(polling, "time", made)
    return made


def numbers(rows):
    return [row["id"] for row in rows]


def timed(place, **more):
    given = {"column": "at", "settle": "1 hour", "key": ["id"], **more}
    return place.polling("id BIGINT, at TIMESTAMP", **given)


def make_timed(place):
    place.ask(f"CREATE TABLE {{t}} (id BIGINT, at {TIME[place.product]} NOT NULL)")


def ago(place, seconds):
    return CLOCK[place.product].format(-seconds)


def put(place, number, seconds):
    """Put a row with a number, and a time so many seconds ago."""
    place.ask(f"INSERT INTO {{t}} VALUES ({number}, {ago(place, seconds)})")


def came(reading, clock=None):
    """The numbers that come now, in a run that goes on."""
    if clock is not None:
        clock.now += 0.01  # there is a shortest time between two looks
    return sorted(n for rows in reading.batches(bounded=False) for n in numbers(rows))


# -- times ------------------------------------------------------------------------------------


def test_a_row_comes_when_its_time_has_settled_and_once(place, tmp_path):
    make_timed(place)
    put(place, 1, 7200)
    put(place, 2, 3700)
    put(place, 3, 3500)
    put(place, 4, -600)  # ten minutes from now
    reading = Checkpoint(tmp_path / "checkpoint", timed(place))
    assert came(reading) == [1, 2]
    put(place, 5, 3650)
    put(place, 6, 10)
    assert came(reading) == [5]
    assert came(reading) == []
    later = Checkpoint(tmp_path / "checkpoint", timed(place, settle="5 minutes"))
    assert came(later) == [3]
    assert came(Checkpoint(tmp_path / "checkpoint", timed(place, settle="1 ms"))) == [6]


def test_what_is_committed_within_settle_is_not_lost(server, tmp_path):
    """A transaction is open while a later row is committed; both come when both have settled."""
    make_timed(server)
    with server.connected() as other, closing(other.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {server.table} VALUES (1, {ago(server, 1800)})")
        put(server, 2, 1200)
        checkpoint = tmp_path / "checkpoint"
        assert came(Checkpoint(checkpoint, timed(server))) == []
        cursor.execute("COMMIT")
    # As if 50 minutes had passed.
    assert came(Checkpoint(checkpoint, timed(server, settle="10 minutes"))) == [1, 2]


def test_what_is_committed_later_than_settle_is_lost_as_stated(server, tmp_path):
    make_timed(server)
    with server.connected() as other, closing(other.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {server.table} VALUES (1, {ago(server, 1800)})")
        put(server, 2, 1200)
        reading = Checkpoint(tmp_path / "checkpoint", timed(server, settle="10 minutes"))
        assert came(reading) == [2]
        cursor.execute("COMMIT")
    assert came(reading) == []
    put(server, 3, 1000)
    assert came(reading) == [3]
    stated = SQLSource(timed(server)).capabilities.assumptions[0]
    assert stated == (
        f"each row of {server.table} is committed within 1 hour of the time in at, by the database's "
        "clock: a later one is never read"
    )


def test_a_clock_in_another_zone_loses_nothing_that_comes_in_order(place, tmp_path):
    """Times that are hours behind the database's clock all have settled, and still come once each."""
    make_timed(place)
    reading = Checkpoint(tmp_path / "checkpoint", timed(place))
    for number in range(5):
        put(place, number, 5 * 3600 - number)
        assert came(reading) == [number]


@pytest.mark.in_turn
def test_a_bounded_run_waits_until_what_is_there_has_settled(place, tmp_path):
    """And for nothing else: neither for what comes meanwhile, nor when all has settled."""
    make_timed(place)
    put(place, 1, 600)
    put(place, 2, 0)
    checkpoint = tmp_path / "checkpoint"
    began = time.monotonic()
    assert sorted(numbers(Checkpoint(checkpoint, timed(place, settle="500 ms")).read())) == [1, 2]
    assert time.monotonic() - began > 0.45, "read before it had settled"
    put(place, 3, 0)
    reading = Checkpoint(checkpoint, timed(place, settle="500 ms"))
    reading.planner.prepare()
    put(place, 4, -0.001)
    found = []
    while (rows := reading.next()) is not None:
        found += numbers(rows)
    assert found == [3]
    put(place, 5, 60)
    with pytest.MonkeyPatch.context() as patched:
        # Not `time.sleep` itself, by which threads of others live.
        awake = SimpleNamespace(time=time.time, monotonic=time.monotonic)
        awake.sleep = lambda seconds: pytest.fail(f"slept {seconds} s")
        patched.setattr(polling, "time", awake)
        settled = Checkpoint(tmp_path / "other", timed(place, settle="30 seconds"))
        place.ask("DELETE FROM {t} WHERE id <> 5")
        assert numbers(settled.read()) == [5]


def test_a_poll_looks_at_the_table_after_it_looked_at_the_clock(server, tmp_path, monkeypatch):
    """Else a row that is committed in between would be below the bound and out of sight."""
    make_timed(server)
    put(server, 1, 7200)
    checked = selecting.Database._checked

    def late(self, connection):
        found = checked(self, connection)
        put(server, 2, 8000)
        return found

    monkeypatch.setattr(selecting.Database, "_checked", late)
    assert came(Checkpoint(tmp_path / "checkpoint", timed(server))) == [1, 2]


# -- numbers ----------------------------------------------------------------------------------


def test_a_number_comes_when_it_was_the_highest_for_settle(place, tmp_path, clock):
    place.ask(TABLE)
    reading = Checkpoint(tmp_path / "checkpoint", place.polling(settle="10 seconds"))
    place.rows(1, 4)
    assert came(reading) == []
    clock.now += 6
    place.rows(4, 6)
    assert came(reading) == []
    clock.now += 5
    assert came(reading) == [1, 2, 3]
    clock.now += 4
    assert came(reading) == []
    clock.now += 2
    assert came(reading) == [4, 5]
    clock.now += 100
    assert came(reading) == []


def test_a_number_that_is_committed_late_is_waited_for(server, tmp_path, clock):
    """Lower numbers come within `settle` of when a higher one was seen, and later ones never."""
    server.ask(TABLE)
    reading = Checkpoint(tmp_path / "checkpoint", server.polling(settle="10 seconds"))
    with server.connected() as late, server.connected() as later:
        one, two = late.cursor(), later.cursor()
        for cursor, number in ((one, 1), (two, 2)):
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO {server.table} VALUES ({number}, 'x')")
        server.rows(3, 4)
        assert came(reading) == []
        clock.now += 9
        one.execute("COMMIT")
        clock.now += 2
        assert came(reading) == [1, 3]
        two.execute("COMMIT")
    clock.now += 11
    assert came(reading) == []
    server.rows(4, 5)
    assert came(reading, clock) == []
    clock.now += 11
    assert came(reading) == [4]


def test_a_bound_waits_anew_after_a_restart(place, tmp_path, clock):
    """What one process has seen another does not know: it can only come later."""
    place.ask(TABLE)
    place.rows(1, 4)
    given = place.polling(settle="10 seconds")
    assert came(Checkpoint(tmp_path / "checkpoint", given)) == []
    clock.now += 11
    restarted = Checkpoint(tmp_path / "checkpoint", given)
    assert came(restarted) == []
    clock.now += 11
    assert came(restarted) == [1, 2, 3]


def test_decimals_are_polled_exactly(server, tmp_path, clock):
    """Of two numbers that a double can't tell from each other, the higher one still comes."""
    server.ask("CREATE TABLE {t} (n DECIMAL(38,3) NOT NULL)")
    reading = Checkpoint(tmp_path / "checkpoint", server.polling("n DECIMAL(38,3)", column="n"))
    seen = []
    for text in (
        "-1.5",
        "12345678901234567890123456789012345.001",
        "12345678901234567890123456789012345.002",
    ):
        server.ask(f"INSERT INTO {{t}} VALUES ({text})")
        clock.now += 1
        reading.batches(bounded=False)
        clock.now += 1
        seen += [str(row["n"]) for rows in reading.batches(bounded=False) for row in rows]
    assert [text.rstrip("0") for text in seen] == [
        "-1.5", "12345678901234567890123456789012345.001", "12345678901234567890123456789012345.002"
    ]  # fmt: skip


# -- ties and limits --------------------------------------------------------------------------


@pytest.mark.in_turn
def test_rows_of_one_value_are_never_parted(place, tmp_path, clock):
    """Whatever the limit: each row once, and no batch above it but of a single value."""
    place.ask("CREATE TABLE {t} (n INT NOT NULL, id BIGINT)")
    rng = random.Random(7)
    rows = [(rng.choice((1, 1, 1, 2, 3, 5, 5, 8)) + 10 * (i // 20), i) for i in range(100)]
    place.ask("INSERT INTO {t} VALUES " + ", ".join(map(str, rows)))
    for limit in (1, 2, 7, 10, 99, 100):
        given = place.polling("n INT, id BIGINT", column="n", max_rows=limit)
        batches = Checkpoint(tmp_path / str(limit), given).batches()
        assert sorted(n for batch in batches for n in numbers(batch)) == list(range(100))
        for batch in batches:
            values = {row["n"] for row in batch}
            assert len(batch) <= limit or len(values) == 1
        ends = [(min(row["n"] for row in b), max(row["n"] for row in b)) for b in batches if b]
        assert all(a[1] < b[0] for a, b in pairwise(ends)), ends


def test_a_limit_is_used_as_far_as_it_goes(file, tmp_path, clock):
    file.rows(1, 11)
    reading = Checkpoint(tmp_path / "checkpoint", file.polling(max_rows=4))
    assert [len(rows) for rows in reading.batches()] == [4, 4, 2]


def test_between_two_looks_is_some_time_unless_there_is_more(file, tmp_path, clock, monkeypatch):
    looks = []
    poll = polling.Polls._poll
    monkeypatch.setattr(
        polling.Polls, "_poll", lambda *given: looks.append(clock.now) or poll(*given)
    )
    given = file.polling(max_rows=4, every="10 seconds", settle="1 second")
    reading = Checkpoint(tmp_path / "checkpoint", given)
    file.rows(1, 11)
    assert came(reading) == []
    for _ in range(12):
        clock.now += 1
        rows = came(reading)
    assert len(looks) == 2 + 2
    assert looks[1] - looks[0] >= 10
    assert looks[1:] == [looks[1]] * 3
    assert rows == []
    assert len(reading.out()) == 10


# -- what polling sees of changes -------------------------------------------------------------


def test_a_row_whose_column_moves_on_comes_again_and_others_are_not_seen(place, tmp_path, clock):
    place.ask("CREATE TABLE {t} (id INT, version INT NOT NULL, name VARCHAR(20))")
    place.ask("INSERT INTO {t} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
    given = place.polling("id INT, version INT, name STRING", column="version", key=["id"])
    reading = Checkpoint(tmp_path / "checkpoint", given)

    def seen():
        clock.now += 1
        reading.batches(bounded=False)
        clock.now += 1
        return [tuple(row.values()) for rows in reading.batches(bounded=False) for row in rows]

    assert seen() == [(1, 1, "a"), (2, 2, "b"), (3, 3, "c")]
    place.ask("UPDATE {t} SET version = 4, name = 'new' WHERE id = 1")
    place.ask("UPDATE {t} SET name = 'unseen' WHERE id = 2")
    place.ask("DELETE FROM {t} WHERE id = 3")
    assert seen() == [(1, 4, "new")]
    place.ask("UPDATE {t} SET version = 5, name = 'between' WHERE id = 1")
    place.ask("UPDATE {t} SET version = 6, name = 'last' WHERE id = 1")
    assert seen() == [(1, 6, "last")]
    assert seen() == []


def test_a_batch_reads_the_same_again_though_the_table_has_changed(place, tmp_path, clock):
    place.ask(TABLE)
    place.rows(0, 6)
    checkpoint = tmp_path / "checkpoint"
    reading = Checkpoint(checkpoint, place.polling(max_rows=3))
    first, second = reading.batches()
    place.ask("UPDATE {t} SET name = 'changed'")
    place.ask("DELETE FROM {t} WHERE id = 4")
    (checkpoint / "commits" / "1").unlink()
    again = Checkpoint(checkpoint, place.polling(max_rows=3))
    assert again.next() == second
    assert numbers(first + second) == list(range(6))


def test_files_go_when_their_batch_is_committed(file, tmp_path, clock):
    reading = Checkpoint(tmp_path / "checkpoint", file.polling(max_rows=2))
    file.rows(0, 10)
    kept = []
    reading.planner.prepare()
    while reading.next() is not None:
        kept.append(len(list(reading.home.rglob("*.parquet"))))
    assert kept == [1, 1, 1, 1, 1]


def test_a_new_checkpoint_removes_the_files_of_the_old_one_and_a_preview_none(
    file, tmp_path, clock
):
    home = tmp_path / "home"

    def reading(folder, **more):
        return Checkpoint(tmp_path / folder, file.polling(max_rows=2), home=home, **more)

    def files():
        return len(list(home.rglob("*.parquet")))

    file.rows(0, 4)
    running = reading("one")
    running.planner.prepare()
    running.next()
    assert numbers(reading("preview", follows=False).read()) == [0, 1, 2, 3]
    assert files() == 2
    assert numbers(running.next()) == [2, 3], "a preview has moved the run on"
    assert numbers(reading("again", follows=False).read()) == [0, 1, 2, 3]
    assert files() == 3
    assert numbers(reading("fresh").read()) == [0, 1, 2, 3]
    assert files() == 3, "the file of the checkpoint that is no more is still there"


# -- while others write -----------------------------------------------------------------------


@pytest.mark.parametrize("place", mostly("postgres", "mariadb"), indirect=True)
@pytest.mark.in_turn
def test_each_row_comes_once_while_others_write(place, tmp_path):
    """Writers take their numbers, or times, at different moments than they commit, within `settle`."""
    make_timed(place)
    if place.product == "sqlite":
        place.ask("PRAGMA journal_mode = WAL")
    writers, each, stop = 3, 25, threading.Event()

    def write(writer):
        rng = random.Random(writer)
        with place.connected() as connection, closing(connection.cursor()) as cursor:
            for index in range(each):
                cursor.execute("BEGIN IMMEDIATE" if place.product == "sqlite" else "BEGIN")
                number = writer * each + index
                cursor.execute(f"INSERT INTO {place.table} VALUES ({number}, {ago(place, 0)})")
                time.sleep(rng.uniform(0, 0.02) if rng.random() < 0.8 else 0.1)
                cursor.execute("COMMIT")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    checkpoint, given = tmp_path / "checkpoint", timed(place, settle="2 seconds", max_rows=20)
    reading = Checkpoint(checkpoint, given)
    found = []
    while any(thread.is_alive() for thread in threads):
        found += came(reading)
        time.sleep(0.02)
    stop.set()
    found += numbers(Checkpoint(checkpoint, given).read())
    assert sorted(found) == list(range(writers * each))


# -- what is refused --------------------------------------------------------------------------


def test_rows_that_polling_would_never_see_are_an_error(place, tmp_path, clock):
    place.ask("CREATE TABLE {t} (id INT, n INT)")
    place.ask("INSERT INTO {t} VALUES (1, 1), (2, NULL)")
    given = place.polling("id INT, n INT", column="n")
    with pytest.raises(
        PipelineError, match=f"table {place.table}: column n has no value in some row"
    ):
        Checkpoint(tmp_path / "checkpoint", given).read()


def test_a_row_without_a_value_is_an_error_whenever_it_comes(place, tmp_path, clock):
    place.ask("CREATE TABLE {t} (id INT, n INT)")
    reading = Checkpoint(tmp_path / "checkpoint", place.polling("id INT, n INT", column="n"))
    assert came(reading) == []
    place.ask("INSERT INTO {t} VALUES (2, NULL)")
    with pytest.raises(PipelineError, match="column n has no value in some row"):
        came(reading, clock)


@pytest.mark.parametrize("value", ["'yesterday'", "1711848600"])
def test_a_time_that_sqlite_can_not_order_is_an_error(file, tmp_path, value):
    file.ask("DROP TABLE {t}")
    make_timed(file)
    file.ask(f"INSERT INTO {{t}} VALUES (1, {value})")
    with pytest.raises(
        PipelineError, match="column at has no value in some row, or none that can be"
    ):
        Checkpoint(tmp_path / "checkpoint", timed(file)).read()


def test_times_of_sqlite_are_ordered_however_they_are_written(file, tmp_path):
    file.ask("DROP TABLE {t}")
    make_timed(file)
    texts = [
        "2024-01-01T00:00:02Z",
        "2024-01-01 01:00:01+01:00",
        "2024-01-01 00:00:00.500",
        "2024-01-01",
    ]
    for number, text in enumerate(texts):
        file.ask(f"INSERT INTO {{t}} VALUES ({number}, '{text}')")
    reading = Checkpoint(tmp_path / "checkpoint", timed(file, max_rows=1))
    assert [numbers(rows) for rows in reading.batches(bounded=False)] == [[3], [2], [1], [0]]


def test_another_column_on_the_same_checkpoint_is_refused(file, tmp_path, clock):
    file.rows(0, 3)
    checkpoint = tmp_path / "checkpoint"
    Checkpoint(checkpoint, file.polling()).read()
    other = file.polling("name BIGINT, id BIGINT", column="name")
    with pytest.raises(PipelineError, match="begun with another `column`.*--fresh"):
        Checkpoint(checkpoint, other).next()
    with pytest.raises(PipelineError, match="begun with `mode: poll`.*--fresh"):
        Checkpoint(checkpoint, file.options()).next()


def test_a_planned_batch_of_other_columns_is_told(file, tmp_path, clock):
    file.rows(0, 3)
    checkpoint = tmp_path / "checkpoint"
    reading = Checkpoint(checkpoint, file.polling())
    reading.read()
    (checkpoint / "commits" / "0").unlink()
    with pytest.raises(
        PipelineError, match="has other columns.*Run once with the options as they were"
    ):
        Checkpoint(checkpoint, file.polling("id BIGINT")).next()


# -- measuring and going back -----------------------------------------------------------------


def test_end_and_lag_count_what_is_not_read(place, tmp_path):
    make_timed(place)
    source = SQLSource(timed(place))
    reading = Checkpoint(tmp_path / "checkpoint", timed(place))

    def lag():
        done = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))
        offset = reading.offset(done - 1) if done else None
        (found,) = source.lag(Reached(offset, tmp_path, reading.home))
        return found

    assert source.end(reading.home) == {"0": ""}
    assert (lag().rows, lag().seconds) == (0, 0.0)
    put(place, 1, 7200)
    put(place, 2, 5400)
    put(place, 3, 60)
    assert lag().rows == 3
    assert 7195 < lag().seconds < 7300
    assert came(reading) == [1, 2]
    assert lag().rows == 1
    assert 55 < lag().seconds < 160
    end = datetime.fromisoformat(source.end(reading.home)["0"]).replace(tzinfo=UTC)
    assert timedelta(seconds=55) < datetime.now(UTC) - end < timedelta(seconds=160)


def test_the_lag_of_numbers_has_no_age(place, tmp_path, clock):
    place.ask(TABLE)
    place.rows(5, 8)
    source = SQLSource(place.polling())
    reading = Checkpoint(tmp_path / "checkpoint", place.polling())
    (lag,) = source.lag(Reached(None, tmp_path, reading.home))
    assert (lag.rows, lag.seconds) == (3, None)
    assert source.end(reading.home) == {"0": "7"}
    reading.read()
    (lag,) = source.lag(Reached(reading.offset(0), tmp_path, reading.home))
    assert (lag.rows, lag.seconds) == (0, 0.0)


def test_a_database_that_is_away_is_not_waited_for_when_the_lag_is_asked():
    away = {"mode": "poll", "column": "id", "settle": "1 s", "give_up": "1 hour"}
    source = SQLSource(options("mysql://joe:sesame@127.0.0.1:1/data", "t", **away))
    with pytest.raises(PipelineError, match="mysql 127.0.0.1:1/data: ") as caught:
        source.lag(Reached(None, None, None))
    assert "sesame" not in str(caught.value)


def test_polling_can_start_at_a_time(place, tmp_path):
    make_timed(place)
    for number, seconds in enumerate((10_000, 9_000, 8_000, 7_000)):
        put(place, number, seconds)
    exact = {"sqlite": "strftime('%Y-%m-%d %H:%M:%f', at)"}.get(place.product, "at")
    ((at,),) = place.ask(f"SELECT {exact} FROM {{t}} WHERE id = 2")
    at = datetime.fromisoformat(at) if isinstance(at, str) else at
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    source = SQLSource(timed(place)).starting_at(at)
    for since, expected in ((source._since, [2, 3]), (None, [0, 1, 2, 3])):
        reading = Checkpoint(tmp_path / str(since), timed(place), follows=False, since=since)
        assert came(reading) == expected


def test_what_can_not_be_a_start_is_refused(file):
    by_number = SQLSource(file.polling())
    assert by_number.starting_at("earliest")._follows is False
    for point in (datetime(2024, 1, 1), "latest"):
        with pytest.raises(OptionError):
            by_number.starting_at(point)
    assert by_number.gone(Reached({"to": "3"}, None, None)) != ""
    assert by_number.gone(Reached(None, None, None)) == ""
