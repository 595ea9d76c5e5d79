"""Where it begins: slots and checkpoints that fit, and those that do not."""

from __future__ import annotations

import json

import pytest
from mainstem import PermanentError, TransientError
from mainstem_cdc.testing import PATIENCE, changes
from mainstem_cdc_postgresql.slot import Place as At
from mainstem_cdc_postgresql.slot import Slot, beginning
from mainstem_testkit.server import free_port
from postgresql_tables import Taking, drop_slot

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
    other = json.dumps({**json.loads(late), "place": {"system": "1"}})
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
