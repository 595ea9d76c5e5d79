"""Where it begins: slots and checkpoints that fit, and those that do not."""

from __future__ import annotations

import json

import psycopg
import pytest
from mainstem import PermanentError, TransientError
from mainstem_cdc.testing import PATIENCE, ask_for_tables, changes, check_gap, versions
from mainstem_cdc_postgresql.slot import Place as At
from mainstem_cdc_postgresql.slot import Slot, beginning
from mainstem_database_sql.testing.postgres import Standby
from mainstem_ingress.losses import loss_of
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.server import free_port
from postgresql_tables import Taking, drop_slot

#: A column of each kind, a row, and how it is read.
WIDE = (
    "CREATE DOMAIN cents AS NUMERIC(10, 2); CREATE TABLE wide (id BIGINT PRIMARY KEY, b BOOLEAN, s SMALLINT, "
    "i INT, f REAL, d DOUBLE PRECISION, n NUMERIC(38, 10), free NUMERIC, large NUMERIC(40, 2), c CENTS, t TEXT, "
    "u UUID, x BYTEA, day DATE, at TIMESTAMP, z TIMESTAMPTZ, a INT[], w TEXT[], dec NUMERIC(6, 2)[], j JSONB, "
    'iv INTERVAL, "a b" VARCHAR(5), made INT GENERATED ALWAYS AS (i + 1) STORED)'
)
ROW = (
    "INSERT INTO wide VALUES (1, true, 2, 3, 0.5, 1e300, 1.5, 'NaN', 1e37, 9.99, 'x', gen_random_uuid(), "
    "'\\x00', '2026-01-01', '2026-01-01 10:00', '2026-01-01 10:00Z', '{1,NULL}', '{a,b}', '{1.25}', '{}', "
    "'1 day', 'y')"
)
SCHEMA = (
    "id BIGINT, b BOOLEAN, s SMALLINT, i INT, f FLOAT, d DOUBLE, n DECIMAL(38, 10), free STRING, large STRING, "
    "c DECIMAL(10, 2), t STRING, u STRING, x BINARY, day DATE, at TIMESTAMP_NTZ, z TIMESTAMP, a ARRAY<INT>, "
    "w ARRAY<STRING>, dec ARRAY<DECIMAL(6, 2)>, j STRING, iv STRING, `a b` STRING"
)
QUOTED = '"Odd Name"'

SHOP = {"orders": {"key": ["id"], "schema": "id BIGINT"}}


def at(log):
    return At("7", json.dumps({"log": [log, 0], "tables": [], "after": None, "whole": []}))


OURS = Slot("pgoutput", "shop", 100, "")


@pytest.mark.parametrize(
    ("slot", "place", "begin"),
    [
        (None, None, None),
        (OURS, None, 100),
        (OURS, at(100), 100),
        (OURS, at(150), 150),
        (OURS, at(200), 200),
    ],
)
def test_what_fits_goes_on(slot, place, begin):
    """Pass: a new checkpoint at the slot, an old one where it is, at the server's end too; else a slot is made."""
    assert beginning(slot, "s", "shop", 200, place) == begin


@pytest.mark.parametrize(
    ("slot", "place", "told"),
    [
        (None, at(150), "the slot s is gone, and with it the changes since 0/96"),
        (OURS, at(50), "was read up to 0/64, and this checkpoint is at 0/32"),
        (OURS, at(201), "ends at 0/C8, before 0/C9"),
        (Slot("wal2json", "shop", 100, ""), None, "of plugin wal2json"),
        (Slot("pgoutput", "other", 100, ""), None, "database other"),
        (Slot("pgoutput", "shop", 100, "removed"), at(150), r"let go of the slot s \(removed\)"),
        (Slot("pgoutput", "shop", None, ""), None, "it is not whole"),
    ],
)
def test_what_does_not_fit_is_told(slot, place, told):
    """Pass: nothing is skipped in silence: each with what is lost and what to do."""
    with pytest.raises(PermanentError, match=told):
        beginning(slot, "s", "shop", 200, place)


def test_a_slot_that_is_being_made_is_waited_for():
    """Pass: an earlier process still makes it, behind a transaction that is open: retried, and not called lost."""
    with pytest.raises(TransientError, match="still being made"):
        beginning(Slot("pgoutput", "shop", None, "", active=True), "s", "shop", 200, None)


def make(place):
    place.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY)")
    place.sql("INSERT INTO orders VALUES (1)")


def test_slots_at_a_server(place):
    """Pass: a slot that was dropped, one that somebody else has read, and a checkpoint of another server are told; a
    slot without a checkpoint is gone on from where it is."""
    make(place)
    given = place.options(tables=SHOP)
    with Taking(given) as taking:
        taking.load()
        old = taking.cursor
    place.sql("INSERT INTO orders VALUES (2)")
    with Taking(given) as another:
        another.load()
        place.sql("INSERT INTO orders VALUES (3)")
        another.until(lambda: any(change[1] == 3 for change in changes(another.stored)))
        late = another.cursor
    with pytest.raises(
        PermanentError, match="somebody else reads it, or the checkpoint is an old copy"
    ):
        Taking(given, old).__enter__()
    other = json.dumps({**json.loads(late), "place": {"system": "1", "timeline": 1}})
    with pytest.raises(PermanentError, match="another server"):
        Taking(given, other).__enter__()
    with Taking(given, late) as taking:
        taking.take(0.3)
        assert not taking.stored
    drop_slot(place.server, place.name)
    with pytest.raises(PermanentError, match="the slot .* is gone"):
        Taking(given, late).__enter__()


def test_a_slot_that_somebody_reads_is_waited_for(place, monkeypatch):
    """Pass: the second reader is told who has it, which a retry mends."""
    from mainstem_cdc_postgresql import connection

    make(place)
    monkeypatch.setattr(connection, "_LETTING_GO", 0.3)
    given = place.options(tables=SHOP)
    with Taking(given) as taking:
        taking.load()
        with pytest.raises(TransientError, match="is active for PID"):
            Taking(given, taking.cursor).__enter__()
        cursor = taking.cursor
    with Taking(given, cursor) as taking:
        place.sql("INSERT INTO orders VALUES (2)")
        assert changes(taking.some(1)) == [("insert", 2)]


def test_a_log_that_the_server_has_removed_is_told(place):
    """Pass: where `max_slot_wal_keep_size` let go of it, with what to do."""
    make(place)
    given = place.options(tables=SHOP)
    with Taking(given) as taking:
        taking.load()
        cursor = taking.cursor
    place.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    place.sql("ALTER SYSTEM SET min_wal_size = '32MB'")
    place.sql("SELECT pg_reload_conf()")
    try:
        for _ in range(int(PATIENCE)):
            place.sql("SELECT pg_switch_wal()")
            place.sql("CREATE TABLE IF NOT EXISTS filler (x TEXT)")
            place.sql("INSERT INTO filler VALUES ('x')")
            place.sql("CHECKPOINT")
            (status,) = place.sql(
                "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s", place.name
            )[0]
            if status == "lost":
                break
        with pytest.raises(
            PermanentError, match="max_slot_wal_keep_size.*pg_drop_replication_slot"
        ):
            Taking(given, cursor).__enter__()
        with Taking({**given, "on_gap": "snapshot"}, cursor) as taking:
            taking.load()
        assert "max_slot_wal_keep_size" in loss_of(taking.stored[0])["reason"]
        assert changes(taking.stored[1:]) == [("insert", 1)]
    finally:
        place.sql("ALTER SYSTEM RESET max_slot_wal_keep_size")
        place.sql("ALTER SYSTEM RESET min_wal_size")
        place.sql("SELECT pg_reload_conf()")


def test_servers_that_are_not_there(place):
    """Pass: retried; a wrong user is not, and no password is shown."""
    given = place.options()
    with pytest.raises(TransientError):
        Taking({**given, "url": f"postgresql://x:hunter2@127.0.0.1:{free_port()}/d"}).__enter__()
    nobody = place.server.url.replace("postgres@", "nobody:hunter2@")
    with pytest.raises(PermanentError) as error:
        Taking({**given, "url": nobody}).__enter__()
    assert "hunter2" not in str(error.value)


def test_a_user_without_rights_is_told(place):
    """Pass: that it may not replicate, or not read the table; with that it can."""
    make(place)
    role = f"{place.name}_user"
    place.sql(f"CREATE ROLE {role} LOGIN")
    try:
        given = place.options(tables=SHOP, create=False)
        given["url"] = place.server.url.replace("postgres@", f"{role}@")
        with pytest.raises(PermanentError, match="(?i)replication"):
            Taking(given).__enter__()
        place.sql(f"ALTER ROLE {role} REPLICATION")
        place.sql(f"CREATE PUBLICATION {place.name} FOR TABLE orders")
        place.sql(f"GRANT USAGE ON SCHEMA {place.name} TO {role}")
        with pytest.raises(PermanentError, match="permission denied"), Taking(given) as taking:
            taking.load()
        place.sql(f"GRANT SELECT ON orders TO {role}")
        with Taking(given) as taking:
            taking.load()
            assert changes(taking.stored) == [("insert", 1)]
    finally:
        place.sql(f"DROP OWNED BY {role}")
        place.sql(f"DROP ROLE {role}")


def test_tables_are_read_again_behind_a_gap(place):
    """Pass: where the slot was dropped, with `on_gap: snapshot`, above all before; the gap is told once."""
    check_gap(
        lambda cursor=None, **given: Taking(place.options(**given), cursor),
        place.sql,
        lambda: drop_slot(place.server, place.name),
        "the slot",
    )


def test_a_slot_that_keeps_too_much(place, monkeypatch):
    """Pass: it is told; or ends the run; or the slot is dropped, so that the server lets go of its log, and made again with
    the tables read anew."""
    from mainstem_cdc_postgresql import log

    monkeypatch.setattr(log, "_GUARDING", 0.0)
    make(place)
    given = place.options(tables=SHOP, slot_limit="1 MiB")
    with Taking(given) as taking:
        taking.load()
        assert "slot_keeps_too_much" not in taking.receiver.facts()
        taking.receiver.pause()  # nothing more is taken
        place.sql("CREATE TABLE filler (t TEXT)")
        for _ in range(3):
            place.sql("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
        taking.take()
        assert taking.receiver.facts()["slot_keeps_too_much"] > 2**20
        cursor = taking.cursor
    with Taking({**given, "on_slot_limit": "fail"}, cursor) as taking:
        taking.receiver.pause()
        with pytest.raises(PermanentError, match="and may keep 1,048,576"):
            taking.take()
    given |= {"on_slot_limit": "drop"}
    with Taking(given, cursor) as taking:
        taking.receiver.pause()
        with pytest.raises(PermanentError, match="so it was dropped"):
            taking.take()
    assert not place.sql("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", place.name)
    given |= {"on_gap": "snapshot"}
    place.sql("INSERT INTO orders VALUES (2)")
    with Taking(given, cursor) as taking:
        taking.load()
        lost, *rest = taking.stored
    assert "slot" in loss_of(lost)["reason"]
    assert changes(rest) == [("insert", 1), ("insert", 2)]


def test_tables_are_asked_for(place, tmp_path):
    """Pass: by the command, with key and types, also of odd names; read so, every value comes."""
    place.sql(WIDE)
    place.sql("CREATE TABLE " + QUOTED + " (id INT, b INT, PRIMARY KEY (b, id))")
    place.sql("CREATE TABLE loose (n INT)")
    place.sql(ROW)
    tables, printed = ask_for_tables(
        tmp_path, "postgresql", {"url": place.server.url, "slot": "of_nobody"}, [f"{place.name}.*"]
    )
    assert list(tables["odd_name"]["key"]) == ["b", "id"]
    assert "loose" not in printed
    assert tables["wide"]["schema"] == SCHEMA
    with Taking(place.options() | {"tables": tables}) as taking:
        taking.load()
    assert len(changes(taking.stored)) == 1


@pytest.fixture
def standby(place, tmp_path):
    """A standby of the server, which keeps slots where its version can; started."""
    made = Standby(
        tmp_path / "standby", place.server,
        f"primary_slot_name = '{place.name}_standby'\nhot_standby_feedback = on\n"
        + ("sync_replication_slots = on\n" if newer(place) else ""),
    )  # fmt: skip
    place.sql(f"SELECT pg_create_physical_replication_slot('{place.name}_standby')")
    with made:
        yield made
    drop_slot(place.server, f"{place.name}_standby")


FILLER = "SELECT repeat(md5(n::text), 30) FROM generate_series(1, 2000) n"


def newer(place):
    return place.connection.info.server_version >= 170_000


def caught_up(place, standby):
    """Wait until the standby has all that the server has."""
    (end,) = place.sql("SELECT pg_current_wal_insert_lsn()::text")[0]
    with psycopg.connect(standby.url, autocommit=True) as connection:
        replayed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_for(lambda: connection.execute(replayed, (end,)).fetchone()[0])


def promote(standby):
    with psycopg.connect(standby.url, autocommit=True) as connection:
        connection.execute("SELECT pg_promote()")


def at_standby(given, standby):
    return {**given, "url": standby.url}


@pytest.mark.in_turn
def test_a_standby_that_was_promoted_without_the_last_changes_is_told(place, standby):
    """Pass: before it is promoted it is waited for. A checkpoint that has a change which is not in its history is told
    so, also when its log is longer by now; with `on_gap` the tables are read again, above what was given before."""
    make(place)
    given = place.options(tables=SHOP)
    with Taking(given) as taking:
        taking.load()
        with pytest.raises(TransientError, match="is a standby"):
            Taking(at_standby(given, standby), taking.cursor).__enter__()
        caught_up(place, standby)
        standby.stop()
        place.sql(f"CREATE TABLE filler AS {FILLER}")
        place.sql("INSERT INTO orders VALUES (2)")
        before = taking.some(2)
        assert changes(before) == [("insert", 1), ("insert", 2)]
        cursor = taking.cursor
    standby.set("primary_conninfo = ''")
    standby.start()
    promote(standby)
    with psycopg.connect(standby.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (place.name,)
        )
        connection.execute(f"INSERT INTO {place.name}.orders VALUES (7)")
        # Its log is not as long yet: rows that are read now would be older than those that were given.
        with pytest.raises(TransientError, match="the tables are read again when it is beyond"):
            Taking({**at_standby(given, standby), "on_gap": "snapshot"}, cursor).__enter__()
        for name in ("one", "two"):
            connection.execute(f"CREATE TABLE {place.name}.{name} AS {FILLER}")
    with pytest.raises(PermanentError, match=r"another history \(timeline 2\).*shares it up to"):
        Taking(at_standby(given, standby), cursor).__enter__()
    with Taking({**at_standby(given, standby), "on_gap": "snapshot"}, cursor) as taking:
        taking.load()
        assert "another history" in loss_of(taking.stored[0])["reason"]
        rows = taking.stored[1:]
        assert sorted(changes(rows)) == [("insert", 1), ("insert", 7)]
        assert min(versions(rows)) > max(versions(before))


@pytest.mark.in_turn
def test_a_standby_that_keeps_the_slot_is_gone_on_with(place, standby):
    """Pass: from version 17 on, with `failover`, no change is lost or comes twice; older servers are told."""
    make(place)
    given = place.options(tables=SHOP, failover=True)
    if not newer(place):
        with pytest.raises(PermanentError, match="older than PostgreSQL 17"):
            Taking(given).__enter__()
        return
    with Taking(given) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (2)")
        assert changes(taking.some(2)) == [("insert", 1), ("insert", 2)]
        kept = (
            "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND synced AND NOT temporary"
        )
        with psycopg.connect(standby.url, autocommit=True) as connection:

            def is_kept():
                place.sql("SELECT pg_log_standby_snapshot()")
                taking.take()
                return connection.execute(kept, (place.name,)).fetchone()

            wait_for(is_kept)
        cursor = taking.cursor
    place.sql("INSERT INTO orders VALUES (3)")
    caught_up(place, standby)
    promote(standby)
    with psycopg.connect(standby.url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {place.name}.orders VALUES (4)")
    with Taking(at_standby(given, standby), cursor) as taking:
        assert changes(taking.some(2)) == [("insert", 3), ("insert", 4)]
