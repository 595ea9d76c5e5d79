"""What comes of each kind of change, and of tables as they may be set up."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from functools import partial

import pytest
from mainstem import PermanentError
from mainstem_cdc.testing import broken_off, changes, check_raw, row_of, taken, versions
from postgresql_tables import Taking

SHOP = {"orders": {"key": ["id"], "schema": "id BIGINT, name STRING, total DECIMAL(10, 2)"}}
LARGE = "repeat(md5(random()::text), 20000)"


def make_orders(place, more=""):
    place.sql(f"CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, total NUMERIC(10, 2){more})")


def test_each_kind_of_change(place):
    """Pass: rows that are there, then insert, update, a moved key, delete, in their order; the sequence grows; of a
    delete there is the key alone."""
    make_orders(place)
    place.sql("INSERT INTO orders VALUES (1, 'one', 1.5), (2, 'two', NULL)")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        assert sorted(changes(taking.some(2))) == [
            ("insert", 1, "one", Decimal("1.50")),
            ("insert", 2, "two", None),
        ]
        with place.connection.transaction():
            place.sql("INSERT INTO orders VALUES (3, 'three', 3)")
            place.sql("UPDATE orders SET name = 'ONE' WHERE id = 1")
            place.sql("UPDATE orders SET id = 20 WHERE id = 2")
        place.sql("DELETE FROM orders WHERE id = 3")
        found = taking.some(5)
    assert changes(found) == [
        ("insert", 3, "three", Decimal(3)),
        ("update_postimage", 1, "ONE", Decimal("1.50")),
        ("delete", 2, None, None),
        ("insert", 20, "two", None),
        ("delete", 3, None, None),
    ]
    places = versions(found)
    assert places == sorted(places)
    numbers = [int(p.partition("-")[2]) for p in places]
    assert numbers == [1, 2, 3, 3, 1]  # what moves a row is one change, of two keys
    (at,) = place.sql("SELECT extract(epoch FROM now()) * 1000000")[0]
    assert all(0 <= at - message.timestamp < 60_000_000 for message in found)
    assert {message.origin for message in found} == {f"{place.name}.orders"}


def test_rows_as_they_were_before(place):
    """Pass: with REPLICA IDENTITY FULL updates come with the row before, deletes are whole; without it the wish for
    them is refused, with what to do."""
    make_orders(place)
    wanted = {"orders": {**SHOP["orders"], "preimages": True}}
    with pytest.raises(
        PermanentError, match="REPLICA IDENTITY FULL .each partition too., or leave out `preimages`"
    ):
        Taking(place.options(tables=wanted)).__enter__()
    place.sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    with Taking(place.options(tables=wanted)) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
        place.sql("UPDATE orders SET name = 'ONE'")
        place.sql("UPDATE orders SET id = 2")
        place.sql("DELETE FROM orders")
        found = taking.some(6)
    assert changes(found) == [
        ("insert", 1, "one", Decimal(1)),
        ("update_preimage", 1, "one", Decimal(1)),
        ("update_postimage", 1, "ONE", Decimal(1)),
        ("delete", 1, "ONE", Decimal(1)),
        ("insert", 2, "ONE", Decimal(1)),
        ("delete", 2, "ONE", Decimal(1)),
    ]
    before, after = versions(found)[1:3]
    assert before == after


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_large_values_that_did_not_change(place, identity):
    """Pass: the log leaves them out; they are there all the same, read from the table or from the row before."""
    make_orders(place, ", UNIQUE (id, name)")
    place.sql(f"ALTER TABLE orders REPLICA IDENTITY {identity}, ALTER name SET STORAGE EXTERNAL")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("INSERT INTO orders (id, total) VALUES (1, 1)")
        place.sql("ALTER TABLE orders DROP CONSTRAINT orders_id_name_key")
        place.sql(f"UPDATE orders SET name = {LARGE}")
        place.sql("UPDATE orders SET total = 2")
        found = changes(taking.some(3))
    assert len(found[1][2]) == 640_000
    assert found[2] == ("update_postimage", 1, found[1][2], Decimal(2))


def test_large_values_that_nobody_reads_are_refused(place):
    """Pass: with `unchanged: refuse` the change is refused, with its column and what to do; no null stands for it."""
    make_orders(place)
    place.sql(f"INSERT INTO orders VALUES (1, {LARGE}, 1)")
    with Taking(place.options(tables=SHOP, unchanged="refuse", snapshot="never")) as taking:
        taking.load()
        place.sql("UPDATE orders SET total = 2")
        (found,) = taking.some(1)
    assert found.refused.startswith("name: the log has not its value, which did not change")
    assert json.loads(found.value) == {"id": "1", "total": "2.00"}
    assert found.extra == (None, None)


def test_a_row_that_is_gone_by_then_has_no_large_value(place):
    """Pass: the update has null for it, and the delete follows."""
    make_orders(place)
    place.sql(f"INSERT INTO orders VALUES (1, {LARGE}, 1)")
    with Taking(place.options(tables=SHOP, snapshot="never")) as taking:
        taking.load()
        with place.connection.transaction():
            place.sql("UPDATE orders SET total = 2")
            place.sql("DELETE FROM orders")
        assert changes(taking.some(2)) == [
            ("update_postimage", 1, None, Decimal(2)),
            ("delete", 1, None, None),
        ]


def test_a_key_that_is_a_large_value(place):
    """Pass: an update leaves the row at its key, though the log has the key as it was alone."""
    place.sql("CREATE TABLE t (k TEXT PRIMARY KEY, v INT)")
    place.sql("ALTER TABLE t ALTER k SET STORAGE EXTERNAL")
    with Taking(place.options(tables={"t": {"key": ["k"], "schema": "k STRING, v INT"}})) as taking:
        taking.load()
        place.sql("INSERT INTO t VALUES (repeat('k', 2500), 1)")
        place.sql("UPDATE t SET v = 2")
        key = "k" * 2500
        assert changes(taking.some(2)) == [("insert", key, 1), ("update_postimage", key, 2)]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "ALTER TABLE {} REPLICA IDENTITY USING INDEX by_name",
            "lacks what .* was before a change",
        ),
        ("ALTER TABLE {} RENAME TO renamed", "orders is m.*renamed now|is m.*renamed now"),
        (
            "ALTER TABLE {0} RENAME TO renamed; CREATE TABLE {0} (LIKE renamed INCLUDING ALL)",
            "is another table now|renamed now",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_table_that_is_changed_so_that_it_can_not_be_followed_ends_the_run(
    place, statement, told, first
):
    """Pass: told with the next change of it, be it the first one that comes; no row comes with a null key, and none of
    another table."""
    place.sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT NOT NULL, total NUMERIC(10, 2))"
    )
    place.sql("CREATE UNIQUE INDEX by_name ON orders (name)")
    place.sql("INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        if first:
            place.sql("UPDATE orders SET total = 5 WHERE id = 1")
            taking.until(lambda: len(taking.stored) == 3)
        for each in statement.format("orders").split("; "):
            place.sql(each)
        if "CREATE" in statement:
            place.sql(f"ALTER PUBLICATION {place.name} ADD TABLE orders")
            place.sql("INSERT INTO orders VALUES (3, 'c', 3)")
        else:
            place.sql(
                f"DELETE FROM {'renamed' if 'RENAME' in statement else 'orders'} WHERE id = 2"
            )
        with pytest.raises(PermanentError, match=told):
            taking.until(lambda: False)
    assert len(taking.stored) == (3 if first else 2)


def replace_orders(place):
    """Put another table of the same name and columns in its place, and into the publication."""
    place.sql("ALTER TABLE orders RENAME TO gone")
    place.sql("CREATE TABLE orders (LIKE gone INCLUDING ALL)")
    place.sql(f"ALTER PUBLICATION {place.name} SET TABLE orders")


def test_a_table_that_is_made_anew_meanwhile_ends_the_run(place):
    """Pass: told when a run goes on, for the log says nothing of it, and what was given of the one before would stay; with
    `on_gap` it is read again."""
    make_orders(place)
    options = place.options(tables=SHOP)
    with Taking(options) as taking:
        taking.load()
        cursor = taking.cursor
    with Taking(options, cursor) as taking:
        place.sql("INSERT INTO orders VALUES (1, 'a', 1)")
        taking.until(lambda: bool(taking.stored))
        cursor = taking.cursor
    replace_orders(place)
    place.sql("INSERT INTO orders VALUES (2, 'b', 2)")
    with pytest.raises(PermanentError, match="is another table than the one that this checkpoint"):
        Taking(options, cursor).__enter__()
    with Taking(place.options(tables=SHOP, on_gap="snapshot"), cursor) as taking:
        taking.until(lambda: len(taking.stored) >= 2)
        lost, *rows = taking.stored
        assert "is another table than the one" in (lost.refused or "")
        assert changes(rows) == [("insert", 2, "b", Decimal(2))]
        cursor = taking.cursor
    with Taking(options, cursor) as taking:  # this one is followed now
        place.sql("INSERT INTO orders VALUES (3, 'c', 3)")
        taking.until(lambda: ("insert", 3, "c", Decimal(3)) in changes(taking.stored))


def test_a_table_that_is_made_anew_before_it_is_read_ends_the_run(place):
    """Pass: told when its rows are to be read."""
    make_orders(place)
    with Taking(place.options(tables=SHOP)) as taking:
        replace_orders(place)
        with pytest.raises(PermanentError, match="is another table now"):
            taking.load()


def test_a_key_that_is_moved_is_told_or_ends_the_run(place):
    """Pass: where the log no longer tells the key of before, an update that gives another one is no update."""
    place.sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT NOT NULL, total NUMERIC(10, 2))"
    )
    place.sql("CREATE UNIQUE INDEX by_name ON orders (name)")
    place.sql("INSERT INTO orders VALUES (1, 'a', 1)")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("ALTER TABLE orders REPLICA IDENTITY USING INDEX by_name")
        place.sql("UPDATE orders SET id = 5 WHERE id = 1")
        with pytest.raises(PermanentError, match=r"lacks what .* was before a change"):
            taking.until(lambda: False)
    assert len(taking.stored) == 1


def test_a_column_that_comes_is_read_from_then_on(place):
    """Pass: also where a value that did not change is asked for at the table; it is null before."""
    place.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)")
    place.sql("INSERT INTO orders VALUES (1, 'a')")
    schema = {"orders": {"key": ["id"], "schema": "id BIGINT, name STRING, note STRING"}}
    given = place.options(tables=schema, on_missing_column="null", unchanged="read")
    with Taking(given) as taking:
        taking.load()
        place.sql("ALTER TABLE orders ADD note TEXT, ALTER note SET STORAGE EXTERNAL")
        place.sql(f"UPDATE orders SET note = {LARGE} WHERE id = 1")
        place.sql("UPDATE orders SET name = 'b' WHERE id = 1")
        found = taking.some(3)
    assert changes(found)[0] == ("insert", 1, "a", None)
    assert [change[2] for change in changes(found)[1:]] == ["a", "b"]
    assert all(change[3] for change in changes(found)[1:])


def test_rows_that_a_policy_hides_are_an_error(place):
    """Pass: the log has them, so a snapshot without them is refused, with the server's word."""
    make_orders(place)
    place.sql("INSERT INTO orders VALUES (1), (2)")
    role = f"{place.name}_user"
    place.sql(f"CREATE ROLE {role} LOGIN REPLICATION")
    try:
        place.sql(f"CREATE PUBLICATION {place.name} FOR TABLE orders")
        place.sql(f"GRANT USAGE ON SCHEMA {place.name} TO {role}")
        place.sql(f"GRANT SELECT ON orders TO {role}")
        place.sql("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
        place.sql("CREATE POLICY few ON orders USING (id = 1)")
        given = place.options(tables=SHOP)
        given["url"] = place.server.url.replace("postgres@", f"{role}@")
        with pytest.raises(PermanentError, match="row-level security"), Taking(given) as taking:
            taking.load()
    finally:
        place.sql(f"DROP OWNED BY {role}")
        place.sql(f"DROP ROLE {role}")


def test_partitions_must_tell_rows_as_they_were(place):
    """Pass: `preimages` of a table whose partitions are not FULL is refused, and works once they are."""
    place.sql("CREATE TABLE sales (id INT PRIMARY KEY, n INT) PARTITION BY LIST (id)")
    place.sql("CREATE TABLE one PARTITION OF sales FOR VALUES IN (1)")
    place.sql("ALTER TABLE sales REPLICA IDENTITY FULL")
    given = place.options(
        tables={"sales": {"key": ["id"], "schema": "id INT, n INT", "preimages": True}}
    )
    with pytest.raises(PermanentError, match="each partition too"):
        Taking(given).__enter__()
    place.sql("ALTER TABLE one REPLICA IDENTITY FULL")
    with Taking(given) as taking:
        taking.load()
        place.sql("INSERT INTO sales VALUES (1, 1)")
        place.sql("DELETE FROM sales")
        assert changes(taking.some(2)) == [("insert", 1, 1), ("delete", 1, 1)]


@pytest.mark.parametrize("most", [1, 2])
def test_what_is_confirmed_is_never_ahead_of_what_is_stored(place, monkeypatch, most):
    """Pass: groups of several calls, some of which end before a transaction does: the server has confirmed no more than a
    restart goes on from, and each restart goes on."""
    from mainstem_cdc_postgresql.log import WriteAheadLog

    monkeypatch.setattr(WriteAheadLog, "most", most)
    make_orders(place)
    given = place.options(tables=SHOP)
    stored, cursor = [], None
    for life in range(6):
        with Taking(given, cursor) as taking:
            if cursor is None:
                taking.load()
            with place.connection.transaction():
                place.sql("INSERT INTO orders VALUES (%s), (%s)", life * 2, life * 2 + 1)
            until = time.monotonic() + 10
            while len(stored) < 2 * (life + 1):
                assert time.monotonic() < until
                group = [taking.receiver.take(0.02) for _ in range(3)]
                for found in group:
                    stored += taken(taking.receiver, found)
                cursor = taking.receiver.cursor()
                if last := next((found for found in reversed(group) if found), None):
                    taking.receiver.acknowledge(last)
                place_of = json.loads(json.loads(cursor)["tables"])["log"][0]
                assert taking.receiver._log.confirmed <= place_of
    assert [change[1] for change in changes(stored)] == list(range(12))


def test_a_transaction_that_is_stored_but_for_its_end_is_not_confirmed(place, monkeypatch):
    """A call ends with its last row, and the next transaction waits to be stored. Pass: the server has not confirmed
    more than a restart goes on from, and a restart does."""
    from mainstem_cdc_postgresql.log import WriteAheadLog

    monkeypatch.setattr(WriteAheadLog, "most", 2)
    make_orders(place)
    given = place.options(tables=SHOP)
    with Taking(given) as taking:
        taking.load()
        with place.connection.transaction():
            place.sql("INSERT INTO orders VALUES (1), (2)")
        place.sql("INSERT INTO orders VALUES (3)")
        found, until = [], time.monotonic() + 10
        while len(found) < 2 and time.monotonic() < until:
            found += taken(taking.receiver, taking.receiver.take(0.02))
        cursor = taking.receiver.cursor()
        taking.receiver.stored_cursors = lambda: {0: cursor}
        rest = []
        while (len(rest) < 1 or time.monotonic() < until - 9) and time.monotonic() < until:
            rest += taken(taking.receiver, taking.receiver.take(0.02))
        place_of = json.loads(json.loads(cursor)["tables"])["log"][0]
        assert taking.receiver._log.confirmed <= place_of
    assert [change[1] for change in changes([*found, *rest])] == [1, 2, 3]
    with Taking(given, cursor) as taking:
        taking.until(lambda: bool(taking.stored))
    assert changes(taking.stored)[0][1] == 3


def test_truncate_ends_the_run_or_is_counted(place):
    """Pass: it is told with the table's name, or passed over and counted as asked."""
    make_orders(place)
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1)")
        place.sql("TRUNCATE orders")
        with pytest.raises(
            PermanentError, match='TRUNCATE of "m.*"."orders": a changelog has no such'
        ):
            taking.until(lambda: False)
    with Taking(place.options(tables=SHOP, on_truncate="ignore"), taking.cursor) as taking:
        place.sql("INSERT INTO orders VALUES (2)")
        taking.until(lambda: bool(taking.stored) and changes(taking.stored)[-1][1] == 2)
        assert taking.receiver.facts()["truncated"] == 1


def test_columns_come_and_go(place):
    """Pass: a new column that the document does not name changes nothing; a dropped one ends the run with its name,
    or is null as asked; a wider type comes; rows from before a change have their layout."""
    make_orders(place)
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        with place.connection.transaction():
            place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
            place.sql(
                "ALTER TABLE orders ADD first TEXT DEFAULT 'x', ALTER total TYPE NUMERIC(20, 5)"
            )
            place.sql("INSERT INTO orders VALUES (2, 'two', 2.12, 'y')")
        assert changes(taking.some(2)) == [
            ("insert", 1, "one", Decimal(1)),
            ("insert", 2, "two", Decimal("2.12")),
        ]
        place.sql("INSERT INTO orders VALUES (3, 'three', 3.12345, 'z')")
        (found,) = taking.some(1)
        assert found.refused == "total: it is no DECIMAL(10,2)"
        place.sql("ALTER TABLE orders DROP name")
        place.sql("INSERT INTO orders VALUES (4, 4, 'z')")
        with pytest.raises(PermanentError, match="has no column name .*on_missing_column: null"):
            taking.until(lambda: False)
    with pytest.raises(PermanentError, match="has no column name"):
        Taking(place.options(tables=SHOP), taking.cursor).__enter__()
    nulls = place.options(tables=SHOP, on_missing_column="null")
    with Taking(nulls, taking.cursor) as taking:
        assert changes(taking.some(1)) == [("insert", 4, None, Decimal(4))]


def test_partitions_are_their_table(place):
    """Pass: rows of partitions come as rows of the table, also of one that is made later, and a row that moves."""
    place.sql("CREATE TABLE sales (at DATE, id INT, PRIMARY KEY (at, id)) PARTITION BY RANGE (at)")
    place.sql(
        "CREATE TABLE old PARTITION OF sales FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')"
    )
    place.sql("INSERT INTO sales VALUES ('2025-05-05', 1)")
    tables = {"sales": {"key": ["id", "at"], "schema": "id INT, at STRING"}}
    with Taking(place.options(tables=tables)) as taking:
        taking.load()
        assert changes(taking.some(1)) == [("insert", 1, "2025-05-05")]
        place.sql(
            "CREATE TABLE new PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')"
        )
        place.sql("INSERT INTO sales VALUES ('2026-05-05', 2)")
        place.sql("UPDATE sales SET at = '2026-06-06' WHERE id = 1")
        assert changes(taking.some(3)) == [
            ("insert", 2, "2026-05-05"),
            ("delete", 1, "2025-05-05"),
            ("insert", 1, "2026-06-06"),
        ]


def test_a_large_transaction_comes_in_parts_and_once(place, monkeypatch):
    """Pass: 30,000 changes of one commit, taken and broken off again and again in the middle, come once, in order,
    with the changes of a table that nobody wants between them."""
    from mainstem_cdc_postgresql.log import WriteAheadLog

    monkeypatch.setattr(WriteAheadLog, "most", 2000)
    make_orders(place)
    place.sql("CREATE TABLE others (id INT PRIMARY KEY)")
    with Taking(place.options(tables=SHOP, snapshot="never")) as taking:
        taking.load()
        place.sql(f'ALTER PUBLICATION "{place.name}" ADD TABLE others')
        with place.connection.transaction():
            for part in range(3):
                place.sql(
                    "INSERT INTO orders SELECT g, 'x', 1 FROM generate_series(%s::int, %s::int) g",
                    part * 10_000, part * 10_000 + 9_999,
                )  # fmt: skip
                place.sql("INSERT INTO others VALUES (%s)", part)
        place.sql("INSERT INTO orders VALUES (30000)")
        taking.until(lambda: bool(taking.stored))
    given = place.options(tables=SHOP, snapshot="never")
    stored = broken_off(partial(Taking, given), taking, 30_001)
    assert [change[1] for change in changes(stored)] == list(range(30_001))
    assert versions(stored) == sorted(set(versions(stored)))


def test_the_slot_goes_on_while_nothing_comes_of_the_tables(place):
    """Pass: what is written elsewhere lets the slot go on once it is stored, though no row comes."""
    make_orders(place)
    place.sql("CREATE TABLE elsewhere (text TEXT)")

    def confirmed():
        return place.sql(
            "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = %s",
            place.name,
        )[0][0]

    given = place.options(tables=SHOP, heartbeat="100 ms")
    with Taking(given) as taking:
        taking.load()
        taking.receiver.stored_cursors = lambda: {0: taking.cursor}
        before = confirmed()
        place.sql("INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
        taking.until(lambda: confirmed() > before + 1_000_000)
        assert not taking.stored
        gauges = taking.receiver.gauges()
        assert set(gauges) == {"log_behind_bytes", "log_kept_bytes"}
        assert all(0 <= value < 1_000_000 for value in gauges.values())


@pytest.mark.parametrize(
    ("setting", "tables", "told"),
    [
        ("CREATE TABLE other (id INT)", SHOP, "there is no table"),
        ("CREATE TABLE orders (id BIGINT, name TEXT, total NUMERIC)", SHOP, "has no primary key"),
        ("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)", SHOP, "has no column total"),
        (
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, total INT GENERATED ALWAYS AS (1) STORED)",
            SHOP,
            "has no column total .*or it is a generated one",
        ),
        (
            "CREATE TABLE orders (id BIGINT UNIQUE NOT NULL, name TEXT PRIMARY KEY, total NUMERIC)",
            SHOP,
            "the log does not tell id of deleted rows",
        ),
        (
            "CREATE TABLE orders (id BIGINT PRIMARY KEY DEFERRABLE, name TEXT, total NUMERIC)",
            SHOP,
            "none that is DEFERRABLE",
        ),
    ],
)
def test_tables_that_can_not_be_followed_are_told(place, setting, tables, told):
    """Pass: before anything is made at the server, with what to do."""
    place.sql(setting)
    with pytest.raises(PermanentError, match=told):
        Taking(place.options(tables=tables)).__enter__()
    assert not place.sql("SELECT FROM pg_replication_slots WHERE slot_name = %s", place.name)


def test_publications_that_leave_something_out_are_told(place):
    """Pass: one without the table, one of inserts alone, one with a condition, one without a column that is wanted, one of
    partitions, and none where none may be made; each with the statement that mends it, which does."""
    make_orders(place)
    place.sql("CREATE TABLE sales (id INT PRIMARY KEY) PARTITION BY LIST (id)")
    place.sql("CREATE TABLE one PARTITION OF sales FOR VALUES IN (1)")
    name = place.name

    def told(tables, **more):
        with pytest.raises(PermanentError) as error:
            Taking(place.options(tables=tables, **more)).__enter__()
        return str(error.value)

    assert f'CREATE PUBLICATION "{name}" FOR TABLE "{name}"."orders"' in told(SHOP, create=False)
    place.sql(f"CREATE PUBLICATION {name} WITH (publish = 'insert')")
    assert "leaves out some kinds of changes" in told(SHOP)
    place.sql(f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')")
    mend = told(SHOP).partition(": ")[2]
    assert mend == f'ALTER PUBLICATION "{name}" ADD TABLE "{name}"."orders"'
    place.sql(f"ALTER PUBLICATION {name} ADD TABLE orders WHERE (id > 5)")
    assert "leaves out rows" in told(SHOP)
    place.sql(f"ALTER PUBLICATION {name} SET TABLE orders (id, name)")
    assert "leaves out total of" in told(SHOP)
    named = {"orders": {"key": ["id"], "schema": "id BIGINT, name STRING"}}
    with Taking(place.options(tables=named, create=False)) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (77, 'listed', 7)")
        taking.until(lambda: changes(taking.stored)[-1:] == [("insert", 77, "listed")])
    place.sql(f"ALTER PUBLICATION {name} SET TABLE sales")
    assert "publish_via_partition_root" in told({"sales": {"key": ["id"], "schema": "id INT"}})
    place.sql(f"ALTER PUBLICATION {name} SET TABLE orders")
    with Taking(place.options(tables=SHOP, create=False)) as taking:
        taking.load()


def test_a_pause_keeps_the_connection(place):
    """Pass: nothing is read for longer than the server waits for word of us, and it goes on afterwards."""
    make_orders(place)
    place.sql("ALTER ROLE postgres SET wal_sender_timeout = '2s'")
    try:
        with Taking(place.options(tables=SHOP)) as taking:
            taking.load()
            taking.receiver.pause()
            place.sql("INSERT INTO orders VALUES (1)")
            until = time.monotonic() + 4
            while time.monotonic() < until:
                assert list(taking.receiver.take(0.1)) == []
            taking.receiver.resume()
            assert changes(taking.some(1))[0][:2] == ("insert", 1)
    finally:
        place.sql("ALTER ROLE postgres RESET wal_sender_timeout")


def test_every_change_in_order(place):
    """Pass: `all` has them as they are in the log, of a table too that comes later; each with its transaction."""
    place.sql(f"CREATE PUBLICATION {place.name} FOR TABLES IN SCHEMA {place.name}")
    check_raw(lambda **given: Taking(place.options(**given)), place.sql, place.name)


def test_tables_that_nobody_names_need_a_publication(place):
    """Pass: nobody makes one of all tables by itself, which would keep the others from being updated."""
    with pytest.raises(PermanentError, match="FOR ALL TABLES"):
        Taking(place.options(all=["public.*"])).__enter__()


def test_tables_that_nobody_names_change_within_a_transaction(place):
    """Pass: a column that comes in the middle of one; changes of several tables in their order; rows without a key; keys that
    the log does not tell."""
    place.sql(f"CREATE PUBLICATION {place.name} FOR TABLES IN SCHEMA {place.name}")
    place.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    place.sql("CREATE TABLE full_rows (a INT, b TEXT)")
    place.sql("ALTER TABLE full_rows REPLICA IDENTITY FULL")
    place.sql("CREATE TABLE by_index (id INT PRIMARY KEY, u INT NOT NULL UNIQUE)")
    place.sql("ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_u_key")
    with Taking(place.options(all=[f"{place.name}.*"])) as taking:
        taking.load()
        place.sql("BEGIN")
        for statement in (
            "INSERT INTO t VALUES (1)",
            "INSERT INTO full_rows VALUES (1, NULL)",
            "ALTER TABLE t ADD COLUMN x INT",
            "INSERT INTO t VALUES (2, 3)",
            "INSERT INTO by_index VALUES (1, 10)",
            "UPDATE by_index SET u = 11",
            "DELETE FROM full_rows",
            "DELETE FROM by_index",
        ):
            place.sql(statement)
        place.sql("COMMIT")
        found = [row_of(message) for message in taking.some(7)]
    told = [(r["table"].partition(".")[2], r["change"], json.loads(r["row"])) for r in found]
    assert told == [
        ("t", "insert", {"id": "1"}),
        ("full_rows", "insert", {"a": "1", "b": None}),
        ("t", "insert", {"id": "2", "x": "3"}),
        ("by_index", "insert", {"id": "1", "u": "10"}),
        ("by_index", "update_postimage", {"id": "1", "u": "11"}),
        ("full_rows", "delete", {"a": "1", "b": None}),
        ("by_index", "delete", {"u": "11"}),
    ]


def test_rows_of_a_chunk_that_are_too_large_together(place, monkeypatch):
    """Pass: they are asked for anew, with fewer at once; each comes."""
    from mainstem_cdc_postgresql import tables

    monkeypatch.setattr(tables, "_MOST_BYTES", 50_000)
    make_orders(place)
    place.sql("INSERT INTO orders SELECT g, repeat('x', 20000), 1 FROM generate_series(1, 40) g")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
    assert [change[1] for change in changes(taking.stored)] == list(range(1, 41))
