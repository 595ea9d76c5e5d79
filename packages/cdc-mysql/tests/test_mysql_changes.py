"""Changes: what the log tells of each kind of write, and what becomes of what it does not tell."""

from __future__ import annotations

import time
from decimal import Decimal
from functools import partial

import pytest
from mainstem import PermanentError
from mainstem_cdc.testing import broken_off, changes, check_raw, versions
from mysql_tables import Taking, connected

SHOP = {"orders": {"key": ["id"], "schema": "id BIGINT, name STRING, total DECIMAL(10, 2)"}}
WHOLE = {"orders": {**SHOP["orders"], "preimages": True}}
MADE = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(100), total DECIMAL(10, 2))"


def test_each_kind_of_change(place):
    """Pass: insert, update, an update of the key as delete and insert, delete with the key alone, REPLACE and
    ON DUPLICATE KEY as the server does them; nothing of what was rolled back; a growing sequence."""
    place.sql(MADE)
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1, 'one', 1.5), (2, NULL, NULL)")
        place.sql("UPDATE orders SET total = 2 WHERE id = 1")
        place.sql("UPDATE orders SET id = 3 WHERE id = 2")
        place.sql("REPLACE INTO orders VALUES (3, 'three', 3)")
        place.sql("INSERT INTO orders VALUES (3, 'x', 4) ON DUPLICATE KEY UPDATE total = 4")
        place.connection.begin()
        place.sql("INSERT INTO orders VALUES (9, 'never', 9)")
        place.connection.rollback()
        place.sql("DELETE FROM orders WHERE id = 3")
        found = taking.some(8)
        assert changes(found) == [
            ("insert", 1, "one", Decimal("1.50")),
            ("insert", 2, None, None),
            ("update_postimage", 1, "one", Decimal(2)),
            ("delete", 2, None, None),
            ("insert", 3, None, None),
            ("update_postimage", 3, "three", Decimal(3)),
            ("update_postimage", 3, "three", Decimal(4)),
            ("delete", 3, None, None),
        ]
        told = versions(found)
        assert told == sorted(told)
        assert len({len(each) for each in told}) == 1
        at = [next(r for r in m.extra[1:] if r)["_commit_timestamp"].timestamp() for m in found]
        assert all(abs(each - time.time()) < 60 for each in at)


def test_rows_as_they_were_before(place):
    """Pass: with `preimages` an update comes with the row before, a delete whole, a moved key too."""
    place.sql(MADE)
    place.sql("INSERT INTO orders VALUES (1, 'one', 1), (2, 'two', 2)")
    with Taking(place.options(tables=WHOLE, snapshot="never")) as taking:
        taking.load()
        place.sql("UPDATE orders SET total = 5 WHERE id = 1")
        place.sql("UPDATE orders SET id = 4 WHERE id = 2")
        place.sql("DELETE FROM orders WHERE id = 1")
        assert changes(taking.some(5)) == [
            ("update_preimage", 1, "one", Decimal(1)),
            ("update_postimage", 1, "one", Decimal(5)),
            ("delete", 2, "two", Decimal(2)),
            ("insert", 4, "two", Decimal(2)),
            ("delete", 1, "one", Decimal(5)),
        ]


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_what_the_log_leaves_out_is_read_from_the_table(place, image):
    """Pass: a session that writes parts of rows: what is lacking is read, or the change is refused as asked; a table
    whose rows before are wanted ends the run."""
    place.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, total DECIMAL(10, 2))")
    place.sql("INSERT INTO orders VALUES (1, 'one', 1), (2, 'two', 2)")
    place.sql(f"SET SESSION binlog_row_image = {image}")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("UPDATE orders SET total = 5 WHERE id = 1")
        place.sql("INSERT INTO orders (id) VALUES (3)")
        place.sql("DELETE FROM orders WHERE id = 2")
        assert changes(taking.some(5)[2:]) == [
            ("update_postimage", 1, "one", Decimal(5)),
            ("insert", 3, None, None),
            ("delete", 2, None, None),
        ]
    with Taking(place.options(tables=SHOP, unchanged="refuse"), taking.cursor) as taking:
        place.sql("UPDATE orders SET total = 6 WHERE id = 1")
        (found,) = taking.some(1)
        assert found.refused is not None
        assert "the log has not its value" in found.refused
    with Taking(place.options(tables=WHOLE), taking.cursor) as taking:
        place.sql("UPDATE orders SET total = 7 WHERE id = 1")
        with pytest.raises(PermanentError, match="binlog_row_image MINIMAL"):
            taking.until(lambda: False)


def test_columns_come_and_go(place):
    """Pass: a new column that the document does not name changes nothing, also before the others; rows from before a
    change have their layout; a dropped one ends the run with its name, or is null as asked; a wider type comes."""
    place.sql(MADE)
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
        place.sql(
            "ALTER TABLE orders ADD first VARCHAR(10) DEFAULT 'x' FIRST, MODIFY total DECIMAL(20, 5)"
        )
        place.sql("INSERT INTO orders VALUES ('y', 2, 'two', 2.12)")
        assert changes(taking.some(2)) == [
            ("insert", 1, "one", Decimal(1)),
            ("insert", 2, "two", Decimal("2.12")),
        ]
        place.sql("INSERT INTO orders VALUES ('z', 3, 'three', 3.12345)")
        (found,) = taking.some(1)
        assert found.refused == "total: it is no DECIMAL(10,2)"
        place.sql("ALTER TABLE orders DROP name")
        place.sql("INSERT INTO orders VALUES ('z', 4, 4)")
        with pytest.raises(PermanentError, match="has no column name .*on_missing_column: null"):
            taking.until(lambda: False)
    with pytest.raises(PermanentError, match="has no column name"):
        Taking(place.options(tables=SHOP), taking.cursor).__enter__()
    nulls = place.options(tables=SHOP, on_missing_column="null")
    with Taking(nulls, taking.cursor) as taking:
        assert changes(taking.some(1)) == [("insert", 4, None, Decimal(4))]


def test_generated_and_invisible_columns(place):
    """Pass: a column that is computed and stored comes as any other, as does an invisible one."""
    hidden = " INVISIBLE" if place.mariadb else ""
    place.sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, a INT, s INT AS (a + 1) STORED, h INT DEFAULT 7{hidden})"
    )
    tables = {"t": {"key": ["id"], "schema": "id INT, a INT, s INT, h INT"}}
    place.sql("INSERT INTO t (id, a) VALUES (1, 1)")
    with Taking(place.options(tables=tables)) as taking:
        taking.load()
        place.sql("INSERT INTO t (id, a) VALUES (2, 2)")
        assert changes(taking.some(2)) == [("insert", 1, 1, 2, 7), ("insert", 2, 2, 3, 7)]
    place.sql("ALTER TABLE t ADD v INT AS (a * 2) VIRTUAL")
    tables = {"t": {"key": ["id"], "schema": "id INT, v INT"}}
    with pytest.raises(PermanentError, match="has no column v .*generated"):
        Taking(place.options(tables=tables)).__enter__()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("TRUNCATE TABLE orders", "TRUNCATE of .*orders.*on_truncate: ignore"),
        ("truncate /* all */ `orders`", "TRUNCATE of"),
        ("DROP TABLE IF EXISTS other, orders", "is gone, or another table"),
        ("RENAME TABLE orders TO old_orders", "is gone, or another table"),
        ("ALTER TABLE orders ADD x INT, RENAME TO old_orders", "is gone, or another table"),
        ("DROP DATABASE {name}", "is gone, or another table"),
    ],
)
def test_tables_that_are_emptied_or_replaced_end_the_run(place, statement, told):
    """Pass: told with the table's name, after the changes before it."""
    place.sql(MADE)
    place.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
        place.sql(statement.format(name=place.name))
        with pytest.raises(PermanentError, match=told):
            taking.until(lambda: False)


def test_truncate_is_passed_over_and_counted(place):
    """Pass: as asked; also a partition that is emptied."""
    place.sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(100), total DECIMAL(10, 2)) PARTITION BY "
        "RANGE (id) (PARTITION few VALUES LESS THAN (100), PARTITION many VALUES LESS THAN MAXVALUE)"
    )
    with Taking(place.options(tables=SHOP, on_truncate="ignore")) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1, 'one', 1), (200, 'many', 2)")
        place.sql("ALTER TABLE orders TRUNCATE PARTITION few")
        place.sql("TRUNCATE orders")
        place.sql("INSERT INTO orders VALUES (2, 'two', 2)")
        assert [c[1] for c in changes(taking.some(3))] == [1, 200, 2]
        assert taking.receiver.facts()["truncated"] == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE orders SET total = 2",
        "INSERT INTO other VALUES (2)",
        "INSERT INTO seen VALUES (9, 'x', 1)",
        "SELECT writes()",
    ],
)
def test_statements_in_place_of_rows_end_the_run(place, statement):
    """Pass: a session that writes statements into the log and not rows, of a table of ours by name, by a trigger, a view or
    a function; passed over and counted where that is asked for."""
    place.sql(MADE)
    place.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    place.sql("CREATE VIEW seen AS SELECT * FROM orders")
    place.sql(
        "CREATE TRIGGER more AFTER INSERT ON other FOR EACH ROW INSERT INTO orders VALUES (NEW.id, 't', 1)"
    )
    place.sql(
        "CREATE FUNCTION writes() RETURNS INT MODIFIES SQL DATA DETERMINISTIC BEGIN "
        "INSERT INTO orders VALUES (8, 'f', 1); RETURN 1; END"
    )
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("INSERT INTO other VALUES (1)")
        taking.until(lambda: len(taking.stored) == 1)
        place.sql("SET SESSION binlog_format = STATEMENT")
        place.sql(statement)
        place.sql("SET SESSION binlog_format = ROW")
        with pytest.raises(PermanentError, match="in place of the rows"):
            taking.until(lambda: False)
    with Taking(place.options(tables=SHOP, on_statement="ignore"), taking.cursor) as taking:
        place.sql("INSERT INTO orders VALUES (5, 'five', 1)")
        taking.until(lambda: bool(taking.stored) and changes(taking.stored)[-1][1] == 5)
        assert taking.receiver.facts()["statements"] == 1


def test_a_statement_within_a_transaction_does_not_end_it(place, monkeypatch):
    """Pass: rows behind a statement of the same transaction come once, over restarts in its middle."""
    from mainstem_cdc_mysql.log import BinaryLog

    monkeypatch.setattr(BinaryLog, "most", 10)
    place.sql(MADE)
    place.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    given = place.options(tables=SHOP, on_statement="ignore", snapshot="never")
    with Taking(given) as taking:
        taking.load()
        place.sql("SET SESSION binlog_format = MIXED")
        with place.transaction():
            place.sql("INSERT INTO other VALUES (1)")  # a statement
            for number in range(60):
                place.sql("INSERT INTO orders VALUES (%s, UUID(), 1)", number)  # rows
        taking.until(lambda: bool(taking.stored))
    stored = broken_off(partial(Taking, given), taking, 60, calls=2)
    assert [c[1] for c in changes(stored)] == list(range(60))


def test_what_is_not_known_ends_the_run(place):
    """Pass: an event that says that changes are lost, and one of a kind that is new; one that may be passed over is."""
    from mainstem_cdc_mysql.protocol import Event

    place.sql(MADE)
    with Taking(place.options(tables=SHOP)) as taking:
        log = taking.receiver._log
        log._taken_in(Event(200, 0, 1, 30, 0, b"", ignorable=True))
        for kind in (26, 200):
            with pytest.raises(PermanentError, match=f"kind {kind}"):
                log._taken_in(Event(kind, 0, 1, 30, 0, b""))
        log._summed = False
        with pytest.raises(PermanentError, match="can't be read"):
            log.read(
                bytes(4)
                + bytes([2])
                + bytes(4)
                + (30).to_bytes(4, "little")
                + bytes(6)
                + b"odd"
                + bytes(4)
            )


def test_a_column_that_comes_while_it_runs(place):
    """Pass: null until it is there, then its values; a table that is read again has them too."""
    place.sql(MADE)
    place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
    kind = "UUID" if place.mariadb else "VARCHAR(36)"
    value = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    schema = {"orders": {"key": ["id"], "schema": "id BIGINT, c STRING"}}
    with Taking(place.options(tables=schema, on_missing_column="null")) as taking:
        taking.load()
        assert changes(taking.some(1)) == [("insert", 1, None)]
        place.sql(f"ALTER TABLE orders ADD c {kind}")
        place.sql("INSERT INTO orders VALUES (2, 'two', 2, %s)", value)
        assert changes(taking.some(1)) == [("insert", 2, value)]
        taking.receiver._all.reload("orders")
        assert changes(taking.some(2)) == [("insert", 1, None), ("insert", 2, value)]


def test_whole_transactions_under_a_backlog(place):
    """Pass: with `together`, what a call gives ends where a transaction does, though there is much more."""
    place.sql(MADE)
    with Taking(place.options(tables=SHOP, together="transaction", snapshot="never")) as taking:
        taking.load()
        for first in range(0, 30_000, 730):
            rows = ", ".join(f"({n}, 'x', 1)" for n in range(first, first + 730))
            place.sql(f"INSERT INTO orders VALUES {rows}")
        count = 0
        while count < 30_000:
            taking.take()
            assert taking.receiver.complete()
            assert len(taking.stored) % 730 == 0
            count = len(taking.stored)


def test_each_single_byte_character_set(place):
    """Pass: every byte of each, from the log as from the table, whatever it means there."""
    names = [
        name
        for name, _, _, longest, *_ in place.sql("SHOW CHARACTER SET")
        if longest == 1 and name not in ("binary", "ascii")
    ]
    columns = ", ".join(f"c_{name} VARCHAR(300) CHARACTER SET {name}" for name in names)
    place.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}) ROW_FORMAT = DYNAMIC")
    every = bytes(range(1, 256)).hex()
    place.sql("SET sql_mode = ''")
    place.sql(f"INSERT INTO t VALUES (1, {', '.join(f'_{name} 0x{every}' for name in names)})")
    schema = "id INT, " + ", ".join(f"c_{name} STRING" for name in names)
    with Taking(place.options(tables={"t": {"key": ["id"], "schema": schema}})) as taking:
        taking.load()
        place.sql("UPDATE t SET id = 2")
        found = changes(taking.some(3))
    assert len(names) > 20
    for name, one, two in zip(names, found[0][2:], found[2][2:], strict=True):
        assert one == two, name
        assert len(one) == 255


@pytest.mark.parametrize(
    ("text", "kind", "tables"),
    [
        ('TRUNCATE TABLE "orders"', "emptied", [("d", "orders")]),
        ('RENAME TABLE a.`b``c` TO "x""y"', "replaced", [("a", "b`c"), ("d", 'x"y')]),
        (
            "ALTER TABLE other EXCHANGE PARTITION p WITH TABLE s.orders",
            "replaced",
            [("d", "other"), ("s", "orders")],
        ),
        ("ALTER TABLE orders WAIT 5 RENAME TO o2", "replaced", [("d", "orders"), ("d", "o2")]),
        (
            "ALTER ONLINE IGNORE TABLE orders NOWAIT TRUNCATE PARTITION p",
            "emptied",
            [("d", "orders")],
        ),
        (
            "ALTER TABLE orders CONVERT PARTITION p TO TABLE o2",
            "replaced",
            [("d", "orders"), ("d", "o2")],
        ),
        ("/* x */ drop /*!40000 table */ if exists a, b.c", "replaced", [("d", "a"), ("b", "c")]),
        (
            "ALTER TABLE t ADD c TEXT DEFAULT 'x, RENAME TO y', RENAME COLUMN a TO b, RENAME INDEX i TO j",
            "altered",
            [("d", "t")],
        ),
        ("ALTER TABLE t COMMENT 'DROP PARTITION'", "altered", [("d", "t")]),
        ("CREATE TABLE orders (id INT)", None, None),
        ("DROP TEMPORARY TABLE orders", None, None),
        ("(SELECT f())", "written", []),
        ("# no\n-- no\nREPLACE a SELECT 1", "written", []),
        ("DROP DATABASE IF EXISTS x", "replaced", [("x", None)]),
        ("SET STATEMENT lock_wait_timeout=5 FOR TRUNCATE TABLE t", "emptied", [("d", "t")]),
        (
            "SET STATEMENT a=1, b='FOR' FOR RENAME TABLE t TO u",
            "replaced",
            [("d", "t"), ("d", "u")],
        ),
        ("SET STATEMENT a=1 FOR UPDATE t SET v = 1", "written", []),
        ("SET STATEMENT a=1 FOR SELECT 1", "written", []),
        ("SET sql_mode = ''", None, None),
        ("ANALYZE FORMAT=JSON DELETE FROM t", "written", []),
        ("ANALYZE UPDATE t SET v = 1", "written", []),
        ("ANALYZE TABLE t", None, None),
    ],
)
def test_what_statements_do_to_tables(text, kind, tables):
    """Pass: emptied, replaced, written, or nothing of that."""
    from mainstem_cdc_mysql.statements import read

    found = read(text, "d")
    assert (found and (found.kind, found.tables)) == (kind and (kind, tables))


def test_a_packed_transaction():
    """Pass: the events of one that MySQL has compressed, or wrapped as they are; what can't be unpacked is told."""
    import pyarrow as pa
    from mainstem_cdc_mysql.protocol import payload

    events = [bytes(9) + (19 + n).to_bytes(4, "little") + bytes(6 + n) for n in (5, 0, 300)]
    content = b"".join(events)
    packed = pa.Codec("zstd").compress(content, asbytes=True)
    for kind, data in ((0, packed), (255, content)):
        head = b"\x01\x03\xfc" + len(data).to_bytes(2, "little")
        head += b"\x02" + (b"\x01\x00" if kind == 0 else b"\x03\xfc\xff\x00")
        head += b"\x03\x03\xfc" + len(content).to_bytes(2, "little") + b"\x00"
        assert list(payload(head + data)) == events
    with pytest.raises(ValueError, match="unpacked"):
        list(payload(b"\x02\x01\x00\x03\x01\x05\x00rubbish"))


def test_prepared_transactions(place):
    """Pass: one in a single phase comes; one that is prepared, with changes of ours, ends the run, and one of others
    does not."""
    place.sql(MADE)
    place.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("XA START 'a'")
        place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
        place.sql("XA END 'a'")
        place.sql("XA COMMIT 'a' ONE PHASE")
        assert changes(taking.some(1)) == [("insert", 1, "one", Decimal(1))]
        place.sql("XA START 'b'")
        place.sql("INSERT INTO other VALUES (1)")
        place.sql("XA END 'b'")
        place.sql("XA PREPARE 'b'")
        place.sql("XA COMMIT 'b'")
        place.sql("INSERT INTO orders VALUES (2, 'two', 2)")
        assert changes(taking.some(1)) == [("insert", 2, "two", Decimal(2))]
        place.sql("XA START 'c'")
        place.sql("INSERT INTO orders VALUES (3, 'three', 3)")
        place.sql("XA END 'c'")
        place.sql("XA PREPARE 'c'")
        try:
            with pytest.raises(PermanentError, match="prepared transaction"):
                taking.until(lambda: False)
        finally:
            place.sql("XA ROLLBACK 'c'")
        assert len(taking.stored) == 0


def test_rows_that_change_along_with_others_are_told(place):
    """Pass: a foreign key whose changes the log has not ends the run before it begins; the log has not, indeed."""
    place.sql("CREATE TABLE parents (id INT PRIMARY KEY)")
    place.sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(9), total DECIMAL(10, 2), parent INT, FOREIGN KEY "
        "(parent) REFERENCES parents (id) ON DELETE CASCADE)"
    )
    with pytest.raises(PermanentError, match=r"foreign key .*on_cascade: ignore"):
        Taking(place.options(tables=SHOP)).__enter__()
    with Taking(place.options(tables=SHOP, on_cascade="ignore")) as taking:
        taking.load()
        place.sql("INSERT INTO parents VALUES (1)")
        place.sql("INSERT INTO orders VALUES (1, 'one', 1, 1)")
        place.sql("DELETE FROM parents")
        place.sql("INSERT INTO orders VALUES (2, 'two', 2, NULL)")
        assert [c[:2] for c in changes(taking.some(2))] == [("insert", 1), ("insert", 2)]
    place.sql("ALTER TABLE orders DROP FOREIGN KEY orders_ibfk_1")
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql(
            "ALTER TABLE orders ADD FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE SET NULL"
        )
        with pytest.raises(PermanentError, match=r"foreign key .*on_cascade: ignore"):
            taking.until(lambda: False)


def test_a_large_transaction_comes_in_parts_and_once(place, monkeypatch):
    """Pass: 9,000 changes of one commit, taken and broken off again and again in the middle, come once, in order,
    with the changes of a table that nobody wants between them."""
    from mainstem_cdc_mysql.log import BinaryLog

    monkeypatch.setattr(BinaryLog, "most", 1000)
    place.sql(MADE)
    place.sql("CREATE TABLE others (id INT PRIMARY KEY)")
    with Taking(place.options(tables=SHOP, snapshot="never")) as taking:
        taking.load()
        with place.transaction(), place.connection.cursor() as cursor:
            for part in range(3):
                cursor.executemany(
                    "INSERT INTO orders VALUES (%s, 'x', 1)",
                    [(n,) for n in range(part * 3000, part * 3000 + 3000)],
                )
                place.sql("INSERT INTO others VALUES (%s)", part)
        place.sql("INSERT INTO orders VALUES (9000, 'x', 1)")
        taking.until(lambda: bool(taking.stored))
    given = place.options(tables=SHOP, snapshot="never")
    stored = broken_off(partial(Taking, given), taking, 9001)
    assert [change[1] for change in changes(stored)] == list(range(9001))
    assert versions(stored) == sorted(set(versions(stored)))


def test_what_is_passed_over_again_is_not_forgotten(place, monkeypatch):
    """Pass: a receiver that dies while it passes over what it has taken of a transaction: nothing comes twice."""
    from mainstem_cdc_mysql.log import BinaryLog

    place.sql(MADE)
    given = place.options(tables=SHOP, snapshot="never")
    monkeypatch.setattr(BinaryLog, "most", 30)
    with Taking(given) as taking:
        taking.load()
        with place.transaction():
            for number in range(60):
                place.sql("INSERT INTO orders VALUES (%s, 'x', 1)", number)
        taking.until(lambda: bool(taking.stored))
    assert len(taking.stored) == 30
    stored, cursor = taking.stored, taking.cursor
    monkeypatch.setattr(BinaryLog, "most_bytes", 1)
    with Taking(given, cursor) as taking:
        for _ in range(25):  # an event each
            taking.take()
        assert taking.receiver._log.at[-1] == 30
    monkeypatch.undo()
    with Taking(given, taking.cursor) as again:
        again.until(lambda: len(stored) + len(taking.stored) + len(again.stored) >= 60)
        again.load()
    found = changes([*stored, *taking.stored, *again.stored])
    assert [change[1] for change in found] == list(range(60))


def test_the_end_of_a_transaction_is_told_by_itself(place, monkeypatch):
    """Pass: of one that is too large to be whole all was taken; when its end comes, what is stored is whole at once."""
    from mainstem_cdc_mysql.log import BinaryLog

    monkeypatch.setattr(BinaryLog, "most", 5)
    monkeypatch.setattr(BinaryLog, "most_together", 5)
    place.sql(MADE)
    given = place.options(tables=SHOP, snapshot="never", together="transaction")
    with Taking(given) as taking:
        taking.load()
        with place.transaction():
            for number in range(20):
                place.sql("INSERT INTO orders VALUES (%s, 'x', 1)", number)
        while len(taking.stored) < 20:
            taking.take()
            assert len(taking.stored) in (0, 20) or not taking.receiver.complete()
        for _ in range(5):
            taking.take()
        assert taking.receiver.complete()


def test_tables_of_other_kinds(place):
    """Pass: of a table that knows no transactions each write comes; one that is made of a query comes with its rows."""
    place.sql("CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM")
    tables = {"m": {"key": ["id"], "schema": "id INT"}}
    with Taking(place.options(tables=tables)) as taking:
        taking.load()
        place.sql("INSERT INTO m VALUES (1), (2)")
        place.sql("DELETE FROM m WHERE id = 1")
        assert [c[:2] for c in changes(taking.some(3))] == [
            ("insert", 1), ("insert", 2), ("delete", 1),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("CREATE TABLE other (id INT)", "there is no table `m.*`.`orders`$"),
        ("CREATE VIEW orders AS SELECT 1 AS id", "there is no table .*, but a view"),
        ("CREATE TABLE orders (id BIGINT, name TEXT, total DECIMAL(4, 2))", "has no primary key"),
        (
            "CREATE TABLE orders (id BIGINT UNIQUE, name TEXT, total DECIMAL(4, 2))",
            "has no primary key",
        ),
        ("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)", "has no column total"),
    ],
)
def test_tables_that_can_not_be_followed_are_told(place, setting, told):
    """Pass: with what to do."""
    place.sql(setting)
    with pytest.raises(PermanentError, match=told):
        Taking(place.options(tables=SHOP)).__enter__()


def test_a_pause_keeps_the_connection(place):
    """Pass: nothing is read meanwhile, and it goes on afterwards."""
    place.sql(MADE)
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        taking.receiver.pause()
        place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
        until = time.monotonic() + 1
        while time.monotonic() < until:
            assert list(taking.receiver.take(0.1)) == []
        taking.receiver.resume()
        assert changes(taking.some(1))[0][:2] == ("insert", 1)


def test_it_goes_on_while_nothing_comes_of_the_tables(place):
    """Pass: what is written elsewhere lets the place in the log move, though no row comes; also into a new file."""
    place.sql(MADE)
    place.sql("CREATE TABLE elsewhere (id INT PRIMARY KEY AUTO_INCREMENT)")
    with Taking(place.options(tables=SHOP, heartbeat="100 ms")) as taking:
        taking.load()
        before = taking.receiver.facts()["log"]
        place.sql("INSERT INTO elsewhere VALUES ()")
        taking.until(lambda: taking.receiver.facts()["log"] != before)
        place.sql("FLUSH BINARY LOGS")
        place.sql("INSERT INTO elsewhere VALUES ()")
        file = before.partition(":")[0]
        taking.until(lambda: taking.receiver.facts()["log"].partition(":")[0] != file)
        assert not taking.stored
    with Taking(place.options(tables=SHOP), taking.cursor) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1, 'one', 1)")
        assert changes(taking.some(1))[0][:2] == ("insert", 1)


def test_how_far_behind_it_is(place, monkeypatch):
    """Pass: nothing at the log's end, and the age of the last event while there is more."""
    from mainstem_cdc_mysql.log import BinaryLog

    place.sql(MADE)
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        taking.take()
        assert taking.receiver.gauges() == {"log_behind_seconds": 0.0}
        place.connection.cursor().executemany(
            "INSERT INTO orders VALUES (%s, 'x', 1)", [(n,) for n in range(5000)]
        )
        time.sleep(1.1)
        monkeypatch.setattr(BinaryLog, "most", 10)
        taking.until(lambda: bool(taking.stored))
        assert taking.receiver.gauges()["log_behind_seconds"] > 0.1
        monkeypatch.undo()
        taking.until(lambda: len(taking.stored) == 5000)
        taking.take()
        assert taking.receiver.gauges() == {"log_behind_seconds": 0.0}


def test_a_compressed_log(place):
    """Pass: rows come from a log that MariaDB has compressed; what MySQL does from 8.0.20 on is read above."""
    if not place.mariadb:
        pytest.skip("MySQL 8.0.15 does not compress its log")
    place.sql(MADE)
    writer = connected(place.server, place.name)
    writer.cursor().execute(
        "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10"
    )
    try:
        with Taking(place.options(tables=SHOP)) as taking:
            taking.load()
            place.sql("INSERT INTO orders VALUES (1, REPEAT('x', 90), 1)")
            place.sql("UPDATE orders SET total = 2")
            place.sql("DELETE FROM orders")
            assert [c[:2] for c in changes(taking.some(3))] == [
                ("insert", 1), ("update_postimage", 1), ("delete", 1),
            ]  # fmt: skip
            place.sql("TRUNCATE /* a comment long enough to be compressed */ orders")
            with pytest.raises(PermanentError, match="TRUNCATE"):
                taking.until(lambda: False)
    finally:
        writer.cursor().execute("SET GLOBAL log_bin_compress = OFF")
        writer.close()


def test_every_change_in_order(place):
    """Pass: `all` has them as they are in the log, of a table too that comes later; each with its transaction."""
    check_raw(lambda **given: Taking(place.options(**given)), place.sql, place.name)
