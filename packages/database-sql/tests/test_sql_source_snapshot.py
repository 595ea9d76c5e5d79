"""A snapshot is one state of the table, and the same for ever."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime

import pytest
import sqlalchemy
from mainstem import OptionError, PipelineError, Reached
from mainstem_database_sql.source import selecting, storing
from mainstem_database_sql.source.source import SQLSource
from mainstem_database_sql.source.storing import Rows, split
from packaging.version import Version
from test_sql_source_driver import (
    PRODUCTS,
    Apart,
    Checkpoint,
    Place,
    Processes,
    mostly,
    options,
    place_of,
    plain,
)

TABLE = "CREATE TABLE {t} (id INT PRIMARY KEY, name VARCHAR(400))"


@pytest.fixture(params=PRODUCTS)
def place(request, tmp_path):
    with place_of(request, tmp_path) as made:
        made.ask(TABLE)
        yield made


@pytest.fixture
def file(tmp_path):
    """A table of SQLite's, for what does not depend on the database."""
    with Place("sqlite", f"sqlite:///{tmp_path}/table.db") as made:
        made.ask(TABLE)
        yield made


def numbers(rows):
    return [row["id"] for row in rows]


def many(place, rows, size):
    """Fill the table with rows of about so many characters, by the database itself."""
    text = {
        "sqlite": f"SELECT i, printf('%0{size}d', i) FROM n",
        "postgres": f"SELECT i, lpad(i::text, {size}, '0') FROM generate_series(1, {rows}) AS i",
        "mariadb": f"SELECT seq, lpad(seq, {size}, '0') FROM seq_1_to_{rows}",
    }[place.product]
    if place.product == "sqlite":
        text = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) {text}"
    place.ask(f"INSERT INTO {{t}} {text}")


def between_parts(monkeypatch, do):
    """Do something once, after the first part of a table was fetched."""
    parts = selecting.Table.parts
    done = []

    def spied(self, where=None):
        for part in parts(self, where):
            yield part
            if not done:
                done.append(True)
                do(self)

    monkeypatch.setattr(selecting.Table, "parts", spied)
    return done


# -- one state --------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_a_snapshot_is_one_state_while_others_write(place, tmp_path, monkeypatch):
    """Rows that are changed, added and removed while it is read are as they were when it began.

    There are more than fit into buffers, so the first part comes while the rest is at the server.
    """
    many(place, 20_000, 400)
    if place.product == "sqlite":
        place.ask("PRAGMA journal_mode = WAL")

    def write(_table):
        place.ask("UPDATE {t} SET name = 'changed'")
        place.ask("DELETE FROM {t} WHERE id > 15000")
        place.ask("INSERT INTO {t} (id, name) VALUES (0, 'added')")

    written = between_parts(monkeypatch, write)
    rows = Checkpoint(tmp_path / "checkpoint", place.options()).read()
    assert written
    assert sorted(numbers(rows)) == list(range(1, 20_001))
    assert {len(row["name"]) for row in rows} == {400}
    assert len(place.ask("SELECT id FROM {t}")) == 15_001, "nothing was written meanwhile"


def test_nothing_comes_after_it_and_it_reads_the_same_for_ever(place, tmp_path):
    place.rows(0, 10)
    reading = Checkpoint(tmp_path / "checkpoint", place.options(max_rows=4))
    first = reading.batches()
    assert [len(rows) for rows in first] == [4, 4, 2]
    place.ask("UPDATE {t} SET name = 'changed'")
    place.rows(10, 20)
    assert Checkpoint(tmp_path / "checkpoint", place.options(max_rows=4)).batches() == []
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    again = Checkpoint(tmp_path / "checkpoint", place.options(max_rows=4)).batches()
    assert again == first[2:]


def test_an_empty_table_stays_empty(place, tmp_path):
    reading = Checkpoint(tmp_path / "checkpoint", place.options())
    assert reading.read() == []
    place.rows(0, 3)
    assert Checkpoint(tmp_path / "checkpoint", place.options()).read() == []


def test_the_database_is_not_needed_when_it_is_read(file, tmp_path):
    file.rows(0, 6)
    reading = Checkpoint(tmp_path / "checkpoint", file.options(max_rows=3))
    assert len(reading.next()) == 3
    gone = options("postgresql://nobody@127.0.0.1:1/none", file.table, max_rows=3)
    later = Checkpoint(tmp_path / "checkpoint", gone)
    assert numbers(later.next()) == [3, 4, 5]
    source = SQLSource(gone)
    source._check(later.home, later.home.joinpath("begun").glob("*").__next__().name)


# -- who reads which --------------------------------------------------------------------------


def test_all_queries_of_a_pipeline_see_one_state(file, tmp_path):
    home = tmp_path / "home"
    file.rows(0, 3)
    one = Checkpoint(tmp_path / "one", file.options(), reading="one", home=home)
    assert numbers(one.read()) == [0, 1, 2]
    file.rows(3, 6)
    other = Checkpoint(tmp_path / "other", file.options(), reading="other", home=home)
    assert numbers(other.read()) == [0, 1, 2]


def test_a_query_that_begins_anew_takes_a_new_one_and_the_others_keep_theirs(file, tmp_path):
    home = tmp_path / "home"

    def reading(folder, name):
        return Checkpoint(tmp_path / folder, file.options(max_rows=2), reading=name, home=home)

    file.rows(0, 3)
    other = reading("other", "other")
    assert numbers(other.next()) == [0, 1]
    assert numbers(reading("one", "one").read()) == [0, 1, 2]
    file.rows(3, 6)
    assert numbers(reading("fresh", "one").read()) == list(range(6))
    assert numbers(reading("other", "other").read()) == [2], "the other query goes on in its own"
    assert len(list(home.glob("snapshot-*"))) == 2
    assert numbers(reading("other-fresh", "other").read()) == list(range(6))
    assert len(list(home.glob("snapshot-*"))) == 1, "nobody reads the first one now"


def test_a_preview_leaves_the_snapshot_to_the_run(file, tmp_path):
    home = tmp_path / "home"

    def reading(folder, **more):
        return Checkpoint(tmp_path / folder, file.options(), home=home, **more)

    file.rows(0, 3)
    assert numbers(reading("preview", follows=False).read()) == [0, 1, 2]
    file.rows(3, 6)
    assert numbers(reading("again", follows=False).read()) == list(range(6)), "an old preview's"
    old = time.time() - 30 * 24 * 3600
    for kept in home.glob("apart-*"):
        os.utime(kept, (old, old))
    assert numbers(reading("run").read()) == list(range(6))
    file.rows(6, 9)
    assert numbers(reading("replay", follows=False).read()) == list(range(6)), "not what was run"
    # Each preview is known to have begun with its file, so that it can go on; the last one is.
    assert len(list(home.glob("*.parquet"))) == 2


def test_options_that_do_not_fit_what_was_taken_are_told(file, tmp_path):
    file.rows(0, 4)
    checkpoint = tmp_path / "checkpoint"
    Checkpoint(checkpoint, file.options(max_rows=2)).next()
    with pytest.raises(PipelineError, match="has other columns: id int64, name string.*--fresh"):
        Checkpoint(checkpoint, file.options("id BIGINT")).next()
    with Place("sqlite", file.url) as other:
        with pytest.raises(PipelineError, match=f"has rows of the table {file.table}.*--fresh"):
            Checkpoint(checkpoint, other.options()).next()
        with pytest.raises(PipelineError, match="begun with `mode: snapshot`"):
            Checkpoint(checkpoint, file.polling()).next()


def test_a_file_that_is_gone_or_damaged_is_told(file, tmp_path):
    file.rows(0, 4)
    checkpoint = tmp_path / "checkpoint"
    reading = Checkpoint(checkpoint, file.options(max_rows=2))
    reading.next()
    (taken,) = reading.home.glob("snapshot-*")
    whole = taken.read_bytes()
    taken.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PipelineError, match="snapshot-000001.parquet was changed"):
        Checkpoint(checkpoint, file.options(max_rows=2)).next()
    taken.unlink()
    with pytest.raises(PipelineError, match="snapshot-000001.parquet is gone"):
        Checkpoint(checkpoint, file.options(max_rows=2)).next()


def test_a_folder_that_can_not_be_written_is_told(file, tmp_path):
    file.rows(0, 4)
    reading = Checkpoint(tmp_path / "checkpoint", file.options())
    (reading.home / "snapshot-000001.new").mkdir()
    with pytest.raises(PipelineError, match="snapshot-000001.parquet can't be written"):
        storing.write(
            reading.home / "snapshot-000001.parquet",
            file.options().table_schema,
            "t",
            [],
            "sql.snapshot",
        )


# -- trouble ----------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_a_connection_that_is_lost_in_the_middle_begins_anew(
    postgres, mariadb, tmp_path, monkeypatch
):
    """What was read before counts for nothing: rows added since are in, and none is double."""
    kill = {"postgres": "SELECT pg_terminate_backend({})", "mariadb": "KILL {}"}
    who = {"postgres": "pg_backend_pid()", "mariadb": "connection_id()"}
    for server in (postgres, mariadb):
        with Place(server.name, server.url) as place, monkeypatch.context() as patched:
            place.ask(TABLE)
            many(place, 20_000, 400)

            def cut(table, place=place):
                number = table.who
                place.ask(kill[place.product].format(number))
                place.rows(0, 1)

            once = selecting.Database._once

            def known(self, work, place=place, once=once):
                import sqlalchemy as sa

                def whole(table):
                    asked = sa.text(f"SELECT {who[place.product]}")
                    table.who = table.connection.execute(asked).scalar_one()
                    return work(table)

                return once(self, whole)

            patched.setattr(selecting.Database, "_once", known)
            done = between_parts(patched, cut)
            rows = Checkpoint(tmp_path / place.product, place.options()).read()
            assert done
            assert sorted(numbers(rows)) == list(range(20_001))


@pytest.mark.in_turn
def test_a_database_that_is_away_is_waited_for_and_then_named(file, tmp_path):
    away = options(
        "postgresql://joe:sesame@127.0.0.1:1/data", "t", give_up="1 second", connect_timeout="2 s"
    )
    began = time.monotonic()
    with pytest.raises(PipelineError) as caught:
        Checkpoint(tmp_path / "checkpoint", away).read()
    # The pauses are drawn: together 0.375 s at least.
    assert time.monotonic() - began > 0.3, "not tried again"
    assert str(caught.value).startswith("postgresql 127.0.0.1:1/data: ")
    assert "(table t)" in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_what_lasts_is_told_at_once(place, tmp_path):
    """A table that is missing, a column that is missing, no right to read it, no such file."""
    more = {"give_up": "1 hour"}
    with pytest.raises(OptionError) as caught:
        Checkpoint(tmp_path / "1", options(place.url, "no_such", **more)).read()
    assert caught.value.option == "table"
    assert caught.value.message.startswith("there is no table no_such in ")
    with pytest.raises(OptionError) as caught:
        Checkpoint(tmp_path / "2", place.options("id BIGINT, nam STRING", **more)).read()
    assert caught.value.option == "schema"
    assert "has no column nam, but id, name" in caught.value.message
    if place.product == "sqlite":
        none = options(f"sqlite:///{tmp_path}/none.db", "t", **more)
        with pytest.raises(PipelineError, match="none.db: unable to open database file"):
            Checkpoint(tmp_path / "3", none).read()
        assert not (tmp_path / "none.db").exists(), "a database was made"
        return
    who = f"u{place.table}"
    if place.product == "postgres":
        place.ask(f"CREATE ROLE {who} LOGIN PASSWORD 'sesame'")
        url = place.url.replace("//postgres@", f"//{who}:sesame@")
    else:
        place.ask(f"CREATE USER {who} IDENTIFIED BY 'sesame'")
        place.ask(f"GRANT SELECT (id) ON {{t}} TO {who}")
        url = place.url.replace("//root@", f"//{who}:sesame@")
    try:
        with pytest.raises(PipelineError, match="denied") as denied:
            Checkpoint(tmp_path / "3", options(url, place.table, **more)).read()
        assert "sesame" not in str(denied.value)
    finally:
        place.ask(f"DROP {'ROLE' if place.product == 'postgres' else 'USER'} {who}")


def test_a_reader_of_sqlite_changes_nothing(file, tmp_path):
    """Neither the mode of its journal, nor a row; nor does it keep writers out when it is done."""
    file.rows(0, 3)
    before = (tmp_path / "table.db").read_bytes()
    Checkpoint(tmp_path / "checkpoint", file.options()).read()
    assert (tmp_path / "table.db").read_bytes() == before
    assert file.ask("PRAGMA journal_mode") == [("delete",)]
    file.rows(3, 4)


def test_names_of_any_characters(place, tmp_path):
    name = 'Order "1": 100%s; %(x)s :x'
    if place.product == "sqlite" and Version(sqlalchemy.__version__) < Version("2.1.2"):
        name = name.replace("%(x)s", "")
    mark = "`" if place.product == "mariadb" else '"'
    quoted = mark + name.replace(mark, mark * 2) + mark
    place.ask(f"CREATE TABLE {quoted} ({quoted} INT)")
    try:
        place.ask(f"INSERT INTO {quoted} VALUES (7)")
        asked = options(place.url, name, {name: "INT"})
        assert Checkpoint(tmp_path / "checkpoint", asked).read() == [{name: 7}]
        polled = options(
            place.url, name, {name: "INT"}, mode="poll", column=name, settle="1 ms", max_rows=1
        )
        assert Checkpoint(tmp_path / "polled", polled).read() == [{name: 7}]
    finally:
        place.ask(f"DROP TABLE {quoted}")


def test_a_schema_and_a_view(postgres, tmp_path):
    with Place("postgres", postgres.url) as place:
        place.ask("CREATE SCHEMA s{t}")
        place.ask("CREATE VIEW s{t}.{t} AS SELECT 5::bigint AS id, 'x'::text AS name")
        try:
            read = Checkpoint(
                tmp_path / "checkpoint", place.options(namespace=f"s{place.table}")
            ).read()
            assert read == [{"id": 5, "name": "x"}]
        finally:
            place.ask("DROP SCHEMA s{t} CASCADE")


# -- size -------------------------------------------------------------------------------------


def test_rows_are_held_part_by_part(place, tmp_path, monkeypatch):
    """Of many rows no more than a part is held, and of large ones fewer."""
    held = []
    as_array = selecting.as_array

    def spied(values, column, table):
        held.append(len(values))
        return as_array(values, column, table)

    monkeypatch.setattr(selecting, "as_array", spied)
    many(place, 10_000, 20)
    assert len(Checkpoint(tmp_path / "1", place.options()).read()) == 10_000
    assert selecting.ROWS // 2 < max(held) <= selecting.ROWS
    held.clear()
    monkeypatch.setattr(selecting, "BYTES", 2_000)
    assert len(Checkpoint(tmp_path / "2", place.options()).read()) == 10_000
    assert max(held[2:]) <= 100, "parts do not become smaller"


@pytest.mark.parametrize("place", mostly("postgres"), indirect=True)
@pytest.mark.in_turn
def test_memory_is_flat_over_200_000_rows(place, tmp_path):
    """Some 40 MB of text pass through a process that needs about what it needs for a tenth of it. Pass: less
    than 20 MiB more; how much the allocator keeps is chance."""
    peaks = {}
    with Processes() as processes:
        for rows in (20_000, 200_000):
            place.ask("DELETE FROM {t}")
            many(place, rows, 200)
            reading = Apart(tmp_path / str(rows), plain(place, max_rows=5_000))
            code, told = processes.read(reading, "measure")
            assert code == 0, told
            found = json.loads(told.splitlines()[-1])
            assert found["rows"] == rows
            peaks[rows] = found["peak"]
    grown = peaks[200_000] - peaks[20_000]
    assert grown < 20 * 2**20, f"ten times as many rows take {grown >> 20} MiB more"


def test_ranges_are_cut_for_tasks_without_loss(tmp_path):
    for size in (0, 1, 19, 20, 99, 100, 101):
        rows = [Rows(tmp_path, 7, 7 + size)]
        cut = split(rows, 4, 20)
        assert [n for part in cut for n in range(part.first, part.end)] == list(range(7, 7 + size))
        assert len(cut) == (max(1, min(4, size // 20)) if size else 0)


# -- measuring and going back -----------------------------------------------------------------


def test_end_and_lag_are_those_of_the_file(file, tmp_path):
    source = SQLSource(file.options(max_rows=4))
    reading = Checkpoint(tmp_path / "checkpoint", file.options(max_rows=4))
    assert source.end(reading.home) == {"0": ""}
    assert [lag.rows for lag in source.lag(Reached(None, tmp_path, reading.home))] == [None]
    file.rows(0, 10)
    reading.next()
    file.rows(10, 99)
    assert source.end(reading.home) == {"0": "10"}
    (lag,) = source.lag(Reached(reading.offset(0), tmp_path, reading.home))
    assert lag.rows == 6
    assert lag.seconds is not None
    assert lag.seconds >= 0
    reading.read()
    (lag,) = source.lag(Reached(reading.offset(2), tmp_path, reading.home))
    assert (lag.rows, lag.seconds) == (0, 0.0)


def test_it_starts_at_its_beginning_alone(file, tmp_path):
    source = SQLSource(file.options())
    assert source.starting_at("earliest")._follows is False
    for point in (datetime(2024, 1, 1), "latest"):
        with pytest.raises(OptionError):
            source.starting_at(point)
    file.rows(0, 3)
    reading = Checkpoint(tmp_path / "checkpoint", file.options())
    reading.read()
    reached = Reached(reading.offset(0), tmp_path, reading.home)
    assert source.gone(reached) == ""
    next(reading.home.glob("snapshot-*")).unlink()
    assert source.gone(reached) == "the snapshot snapshot-000001"
