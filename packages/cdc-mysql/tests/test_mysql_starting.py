"""Where it begins: servers and checkpoints that fit, and those that do not."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem import PermanentError, TransientError
from mainstem_cdc.testing import PATIENCE, ask_for_tables, changes, check_gap
from mainstem_cdc_mysql.gtids import GtidPosition, GtidSet
from mainstem_cdc_mysql.places import Place as At
from mainstem_cdc_mysql.places import Server, beginning
from mainstem_cdc_mysql.server import _not_seen_yet
from mainstem_cdc_mysql.testing import MySQL
from mainstem_database_sql.testing.mariadb import MariaDB
from mainstem_testkit import wait_for
from mainstem_testkit.server import free_port
from mysql_tables import Place, Taking, connected

#: A column of each kind, a row, and how it is read.
WIDE = (
    "CREATE TABLE wide (id BIGINT UNSIGNED PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT UNSIGNED, "
    "m MEDIUMINT, i INT UNSIGNED, b BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38, 10), large DECIMAL(50, 2), bits BIT(4), "
    "y YEAR, v VARCHAR(9), e ENUM('x', 'y'), x VARBINARY(4), j JSON, day DATE, at DATETIME(6), z TIMESTAMP, "
    "o TIME, made INT GENERATED ALWAYS AS (t + 1) VIRTUAL, `a b` INT)"
)
ROW = (
    "INSERT INTO wide (id, t, tu, s, m, i, b, f, d, n, large, bits, y, v, e, x, j, day, at, z, o, `a b`) VALUES "
    "(18446744073709551615, -1, 255, 65535, -1, 4294967295, 7, 0.5, 1e300, 1.5, 1e40, 5, 2026, 'v', 'x', X'00FF', "
    "'{}', '2026-01-01', '2026-01-01 10:00', '2026-01-01 10:00', '10:00', 4)"
)
SCHEMA = (
    "id DECIMAL(20, 0), t TINYINT, tu SMALLINT, s INT, m INT, i BIGINT, b BIGINT, f FLOAT, d DOUBLE, "
    "n DECIMAL(38, 10), large STRING, bits DECIMAL(20, 0), y SMALLINT, v STRING, e STRING, x BINARY, j STRING, day DATE, "
    "at TIMESTAMP_NTZ, z TIMESTAMP, o STRING, `a b` INT"
)
QUOTED = "`Odd Name`"

SHOP = {"orders": {"key": ["id"], "schema": "id BIGINT"}}
MADE = "CREATE TABLE orders (id BIGINT PRIMARY KEY)"
U, V = "598124be-ea72-11f1-b693-02fc00000001", "698124be-ea72-11f1-b693-02fc00000001"

FILES = {"log.000001": 1000, "log.000002": 500}
PLAIN = Server("mysql", "one", "log.000002", 500, FILES, None)
NUMBERED = replace(PLAIN, gtids=f"{U}:1-50", purged=f"{U}:1-10")
MARIADB = replace(PLAIN, product="mariadb", gtids="0-1-50")
HERE = At("one", 2, "log.000001", 700, made=9)


@pytest.mark.parametrize(
    ("server", "place", "expected"),
    [
        (PLAIN, None, (0, "log.000002", 500, None)),
        (NUMBERED, None, (0, "log.000002", 500, f"{U}:1-50")),
        (PLAIN, HERE, (2, "log.000001", 700, None)),
        (NUMBERED, HERE, (2, "log.000001", 700, None)),
        (NUMBERED, replace(HERE, gtids=f"{U}:1-40"), (2, "log.000001", 700, f"{U}:1-40")),
        (NUMBERED, replace(HERE, gtids=f"{U}:1-40", server="two"), (3, "log.000002", 0, f"{U}:1-40")),
        (MARIADB, replace(HERE, gtids="0-1-40"), (2, "log.000001", 700, "0-1-40")),
        (MARIADB, replace(HERE, gtids="0-2-50", server="two"), (3, "log.000002", 0, "0-2-50")),
    ],
)  # fmt: skip
def test_what_fits_goes_on(server, place, expected):
    """Pass: a new checkpoint at the log's end, an old one where it is, by transactions where there are numbers; another
    server is a new epoch."""
    found = beginning(server, place)
    assert (found.epoch, found.file, found.start, found.gtids) == expected
    assert found.end == [found.epoch, 2, 500, 0]


@pytest.mark.parametrize(
    ("server", "place", "told"),
    [
        (PLAIN, replace(HERE, server="two"), "the server is another one"),
        (PLAIN, replace(HERE, file="log.000000"), "no file log.000000 of its log any longer"),
        (PLAIN, replace(HERE, start=1001), "ends before 1001"),
        (NUMBERED, replace(HERE, gtids=f"{U}:1-51"), "was set back to an older state"),
        (NUMBERED, replace(HERE, gtids=f"{U}:1-51", server="two"), "lacks transactions that were taken"),
        (NUMBERED, replace(HERE, gtids=f"{U}:1-40,{V}:1"), "was set back"),
        (NUMBERED, replace(HERE, gtids=f"{U}:1-5"), "has let go of changes that were not taken"),
        (NUMBERED, replace(HERE, gtids=f"{U}:1-40", file="log.000003"), "somebody has reset the log"),
        (MARIADB, replace(HERE, gtids="0-1-40", file="log.000002", start=501), "somebody has reset the log"),
        (MARIADB, replace(HERE, gtids="0-1-51"), "was set back"),
        (MARIADB, replace(HERE, gtids="0-1-40,1-1-1"), "was set back"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(server, place, told):
    """Pass: nothing is skipped in silence: each with what is lost and what to do."""
    with pytest.raises(PermanentError, match=f"{told}.*start the checkpoint over"):
        beginning(server, place)


@given(
    st.lists(st.tuples(st.sampled_from([U, V]), st.integers(1, 30))), st.sets(st.integers(1, 30))
)
def test_sets_of_transactions(added, others):
    """Pass: whatever is added in whatever order is there once, as text and back; compared as sets are."""
    found = GtidSet("")
    for server, number in added:
        found.add(f"{server}:{number}")

    def numbers(made):
        return {
            (s, n) for s, parts in made._intervals.items() for a, b in parts for n in range(a, b)
        }

    assert numbers(found) == set(added)
    assert numbers(GtidSet(str(found))) == set(added)
    for parts in found._intervals.values():
        assert all(one[1] < two[0] for one, two in pairwise(parts))
    other = GtidSet(",".join(f"{U}:{':'.join(map(str, others))}" for _ in [0] if others))
    assert found.within(str(other)) == (set(added) <= {(U, n) for n in others})


def test_what_is_not_seen_yet_is_waited_for():
    """Pass: a transaction that the log has and the server does not count yet; no other difference."""
    ours = replace(HERE, gtids=f"{U}:1-51", file="log.000002", start=400)
    assert _not_seen_yet(NUMBERED, ours)
    assert not _not_seen_yet(NUMBERED, replace(ours, gtids=f"{U}:1-50"))
    assert not _not_seen_yet(NUMBERED, replace(ours, start=501)), "the log was set back"
    assert not _not_seen_yet(NUMBERED, replace(ours, server="two"))
    assert not _not_seen_yet(PLAIN, ours)


def test_places_in_domains():
    """Pass: the last of each domain; another server's counts in its domain."""
    found = GtidPosition("0-1-5")
    found.add("1-1-7")
    found.add("0-2-6")
    assert str(found) == "0-2-6,1-1-7"
    assert found.within("0-3-6,1-1-8,2-1-1")
    assert not found.within("0-1-5,1-1-8")


@pytest.mark.parametrize(
    ("setting", "value", "usual", "told"),
    [
        ("binlog_format", "MIXED", "ROW", "SET GLOBAL binlog_format = 'ROW'"),
        ("binlog_row_metadata", "MINIMAL", "FULL", "SET GLOBAL binlog_row_metadata = 'FULL'"),
        ("binlog_row_image", "MINIMAL", "FULL", "SET GLOBAL binlog_row_image = 'FULL'"),
    ],
)
def test_what_the_server_lacks_is_told(own_place, setting, value, usual, told):
    """Pass: with the statement that mends it."""
    place = own_place
    place.sql(MADE)
    place.sql(f"SET GLOBAL {setting} = '{value}'")
    try:
        with pytest.raises(PermanentError, match=told):
            Taking(place.options(tables=SHOP, unchanged="refuse")).__enter__()
    finally:
        place.sql(f"SET GLOBAL {setting} = '{usual}'")


@pytest.fixture
def own_place(place):
    """A place whose server's settings may be changed for a moment: each process of tests has its own."""
    return place


def test_a_server_that_can_not_be_reached_is_told(place):
    """Pass: wrong passwords and databases are for good, a server that is not there is for a while; no password in it."""
    nobody = place.options(tables=SHOP)
    nobody["url"] = nobody["url"].replace("root@", "nobody:hunter2@")
    with pytest.raises(PermanentError, match="Access denied") as error:
        Taking(nobody).__enter__()
    assert "hunter2" not in str(error.value)
    nowhere = place.options(tables=SHOP)
    nowhere["url"] += "_not"
    with pytest.raises(PermanentError, match="Unknown database"):
        Taking(nowhere).__enter__()
    away = place.options(tables=SHOP)
    away["url"] = f"mysql://root@127.0.0.1:{free_port()}/shop"
    with pytest.raises(TransientError):
        Taking(away).__enter__()


def test_rights_that_are_lacking_are_told(place):
    """Pass: a user who may not read the log, or the table: the server's word, for good."""
    place.sql(MADE)
    user = f"{place.name}_u"
    place.sql(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'sécret€'")
    try:
        given = place.options(tables=SHOP)
        given["url"] = given["url"].replace("root@", f"{user}:s%C3%A9cret%E2%82%AC@")
        place.sql(f"GRANT SELECT ON {place.name}.* TO {user}@'127.0.0.1'")
        with pytest.raises(PermanentError, match="denied|privilege"):
            Taking(given).__enter__()
        client = "BINLOG MONITOR" if place.mariadb else "REPLICATION CLIENT"
        place.sql(f"GRANT {client}, REPLICATION SLAVE ON *.* TO {user}@'127.0.0.1'")
        with Taking(given) as taking:
            taking.load()
            place.sql("INSERT INTO orders VALUES (1)")
            assert changes(taking.some(1)) == [("insert", 1)]
    finally:
        place.sql(f"DROP USER {user}@'127.0.0.1'")


# -- servers of the tests' own ---------------------------------------------------------------------


@pytest.fixture
def made(tmp_path):
    """Makes servers with settings of their own."""
    servers = []

    def make(number=1, settings=()):
        server = MySQL(tmp_path / f"server-{len(servers)}")
        server.number, server.settings = number, settings
        server.start()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.kill()


@pytest.mark.in_turn
def test_logs_that_are_gone_end_the_run(made):
    """Pass: a log that was reset, and one that was let go of, by transactions: told, and nothing is skipped."""
    server = made()
    place = Place(server)
    place.sql(MADE)
    with Taking(place.options(tables=SHOP)) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (1)")
        taking.some(1)
    place.sql("INSERT INTO orders VALUES (2)")
    place.sql("FLUSH BINARY LOGS")
    place.sql("INSERT INTO orders VALUES (3)")
    ((file, *_),) = place.sql("SHOW MASTER STATUS")
    place.sql(f"PURGE BINARY LOGS TO '{file}'")
    with pytest.raises(PermanentError, match="has let go of changes"):
        Taking(place.options(tables=SHOP), taking.cursor).__enter__()
    place.sql("RESET MASTER")
    place.sql("INSERT INTO orders VALUES (4)")
    with pytest.raises(PermanentError, match="was set back"):
        Taking(place.options(tables=SHOP), taking.cursor).__enter__()


def forget(place):
    """Let the server let go of its log so far, once nobody reads it any more."""
    place.sql("FLUSH BINARY LOGS")
    ((file, *_),) = place.sql("SHOW MASTER STATUS")

    def gone():
        place.sql(f"PURGE BINARY LOGS TO '{file}'")
        return place.sql("SHOW BINARY LOGS")[0][0] == file

    wait_for(gone, PATIENCE)


@pytest.mark.in_turn
@pytest.mark.parametrize("numbered", ["ON", "OFF"])
def test_tables_are_read_again_behind_a_gap(made, numbered):
    """Pass: where the log was let go of, by number and by file, with `on_gap: snapshot`, above all before; the gap is told
    once."""
    server = made(settings=(f"--gtid-mode={numbered}", f"--enforce-gtid-consistency={numbered}"))
    place = Place(server)

    check_gap(
        lambda cursor=None, **given: Taking(place.options(**given), cursor),
        place.sql,
        lambda: forget(place),
        "binlog_expire_logs_seconds",
    )


@pytest.mark.in_turn
def test_tables_are_read_again_behind_a_gap_of_mariadb(tmp_path):
    """Pass: the same, where the server says so when its log is asked for."""
    with MariaDB(tmp_path / "mariadb") as server:
        place = Place(server)

        check_gap(
            lambda cursor=None, **given: Taking(place.options(**given), cursor),
            place.sql,
            lambda: forget(place),
            "has let go of changes",
        )


@pytest.mark.in_turn
def test_a_server_that_does_not_number_transactions(made):
    """Pass: it goes on by file and place, in the middle of a transaction too, over a restart of the server; a reset log is
    told though its file has the same name and is longer; random chunks wait for locks."""
    server = made(settings=("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"))
    place = Place(server)
    place.sql(MADE)
    place.sql("INSERT INTO orders VALUES (1), (2), (3)")
    given = place.options(tables=SHOP, chunk_rows=2)
    with Taking(given) as taking:
        taking.load()
        with place.transaction():
            for number in range(10, 20):
                place.sql("INSERT INTO orders VALUES (%s)", number)
        taking.until(lambda: len(taking.stored) == 13)
    kept = json.loads(taking.cursor)
    assert kept["place"]["gtids"] is None
    server.restart()
    place = Place(server)
    other = connected(server, given["url"].rpartition("/")[2])
    other.cursor().execute("INSERT INTO orders VALUES (20)")
    with Taking(given, taking.cursor) as again:
        again.load()
        assert changes(again.stored) == [("insert", 20)]
    time.sleep(1.1)  # files are told apart by the second in which they were begun
    other.cursor().execute("RESET MASTER")
    for number in range(30, 80):
        other.cursor().execute("INSERT INTO orders VALUES (%s)", (number,))
    kept = json.loads(again.cursor)
    events = place.sql("SHOW BINLOG EVENTS IN 'changes.000001'")
    end = [each[4] for each in events if each[2] == "Xid"][5]
    kept["place"] |= {"file": "changes.000001", "start": end}
    with (
        pytest.raises(PermanentError, match="RESET MASTER"),
        Taking(given, json.dumps(kept)) as taking,
    ):
        taking.load()


@pytest.mark.in_turn
def test_a_replica_takes_over(made, monkeypatch):
    """Pass: the first server is killed in the middle of a large transaction's taking; its replica goes on behind what was
    stored, with none lost or doubled and a higher sequence; a replica that lacks what was taken is refused."""
    from mainstem_cdc_mysql.log import BinaryLog

    monkeypatch.setattr(BinaryLog, "most", 100)
    one, two = made(), made(2, ("--log-slave-updates=ON",))
    place = Place(one)
    follower = connected(two)
    with follower.cursor() as cursor:
        cursor.execute(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {one.port}, MASTER_USER = 'root', "
            "MASTER_AUTO_POSITION = 1, GET_MASTER_PUBLIC_KEY = 1, MASTER_CONNECT_RETRY = 1"
        )
        cursor.execute("START SLAVE")

    def count():
        with follower.cursor() as cursor:
            try:
                cursor.execute(f"SELECT COUNT(*) FROM {place.name}.orders")
            except Exception:
                return -1
            return cursor.fetchall()[0][0]

    place.sql(MADE)
    given = place.options(tables=SHOP)
    with Taking(given) as taking:
        taking.load()
        place.sql("INSERT INTO orders VALUES (0)")
        with place.transaction(), place.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO orders VALUES (%s)", [(n,) for n in range(1, 1000)])
        wait_for(lambda: count() == 1000, PATIENCE)
        taking.until(lambda: len(taking.stored) >= 300)
        assert len(taking.stored) < 1000
    silent = made(3, ("--log-slave-updates=OFF",))
    other = connected(silent)
    with other.cursor() as cursor:
        cursor.execute(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'root'"
        )
    there = {**given, "url": given["url"].replace(str(one.port), str(silent.port))}
    other.cursor().execute(f"CREATE DATABASE {place.name}")
    with pytest.raises(PermanentError, match="does not write what it is sent"):
        Taking(there).__enter__()
    other.close()
    one.kill()
    with follower.cursor() as cursor:
        cursor.execute("STOP SLAVE")
        cursor.execute(f"INSERT INTO {place.name}.orders VALUES (1000)")
    there = {**given, "url": given["url"].replace(str(one.port), str(two.port))}
    with Taking(there, taking.cursor) as again:
        again.until(lambda: len(taking.stored) + len(again.stored) >= 1001)
        again.load()
    stored = [*taking.stored, *again.stored]
    assert [c[1] for c in changes(stored)] == list(range(1001))
    rows = [next(r for r in m.extra[1:] if r)["_commit_version"] for m in stored]
    assert rows == sorted(set(rows))
    # Whatever the files of the other server are called, and however long they are.
    # Of the first 63 bits seven say how often the server was another one.
    assert {int(each[:16], 16) >> 56 for each in rows} == {0, 1}
    one.start()
    place = Place(one)
    with pytest.raises(PermanentError, match="lacks transactions that were taken"):
        Taking(given, again.cursor).__enter__()
    follower.close()


def test_tables_are_asked_for(place, tmp_path):
    """Pass: by the command, with key and types, also of odd names; read so, every value comes."""
    place.sql(WIDE)
    place.sql("CREATE TABLE " + QUOTED + " (id INT, b INT, PRIMARY KEY (b, id))")
    place.sql("CREATE TABLE loose (n INT)")
    place.sql(ROW)
    tables, printed = ask_for_tables(tmp_path, "mysql", place.options(), [f"{place.name}.*"])
    assert list(tables["odd_name"]["key"]) == ["b", "id"]
    assert "loose" not in printed
    # MariaDB has text in place of JSON.
    assert tables["wide"]["schema"] == SCHEMA
    with Taking(place.options() | {"tables": tables}) as taking:
        taking.load()
    assert len(changes(taking.stored)) == 1
