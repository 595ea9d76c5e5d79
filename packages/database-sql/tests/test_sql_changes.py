"""The sink `sql` keeps a table in step with changes: newest wins, deletes are remembered."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa
from mainstem import Changelog, OptionError
from mainstem_database_sql.sink.verifying import remove
from mainstem_testkit import wait_for
from sql_writing import OTHER, changes, strategies
from test_sql_locks import waiting

DDL = "id BIGINT, name STRING, v BIGINT"
SHAPE = changes(DDL, ["id"])
UNORDERED = changes(DDL, ["id"], None)
#: Only `staged` goes another way with changes than the others do.
HOWS = ("transactional", "staged", "microbatch", "idempotent")


def put(number, version, name=None):
    return {"id": number, "name": name or f"v{version}", "v": version}


def delete(number, version):
    return {**put(number, version), "_change_type": "delete"}


@strategies(*HOWS, quick=[("mariadb", "staged")])
@pytest.mark.in_turn
def test_changes_of_a_key_in_one_batch_and_in_others_leave_the_newest(place, how):
    """Pass: a put, a newer one, a delete and what comes after it leave the newest, in whichever order
    they come, all in one batch, or one batch each for the strategies that differ by batch."""
    steps = [put(0, 1), put(0, 2), delete(0, 3), put(0, 4)]
    orders = list(itertools.permutations(range(4)))
    rows = [{**steps[step], "id": key} for key, order in enumerate(orders) for step in order]
    place.write(rows, SHAPE, how, parts=2)
    newest = [(key, "v4") for key in range(len(orders))]
    assert place.rows() == newest
    for batch, place_of in enumerate(range(4), 1):
        later = [{**steps[order[place_of]], "id": 100 + key} for key, order in enumerate(orders)]
        place.write(later, SHAPE, how, number=batch)
    assert place.rows() == newest + [(100 + key, "v4") for key, _ in newest]


@strategies(*HOWS, quick=[("mariadb", "staged")])
@pytest.mark.in_turn
def test_a_late_older_change_does_not_bring_a_deleted_key_back(place, how):
    """Pass: not even for a key that was never there; a newer change does."""
    place.write([put(1, 1), put(2, 1)], SHAPE, how, number=0)
    place.write([delete(1, 5), delete(3, 5)], SHAPE, how, number=1)
    place.write([put(1, 4), put(3, 5), delete(2, 1)], SHAPE, how, number=2)
    assert place.rows() == [(2, "v1")]
    place.write([put(1, 6)], SHAPE, how, number=3)
    assert place.rows() == [(1, "v6"), (2, "v1")]


@strategies("idempotent", "staged")
@pytest.mark.in_turn
def test_a_delete_is_forgotten_when_its_time_is_over(place, how):
    """Pass: remembered within `deletes_within`, and gone from beside the table after it, when a later
    batch has come; an older change then is a new row."""
    place.write([put(1, 1), delete(1, 5), delete(2, 5)], SHAPE, how)
    beside = place.mark(f"{place.name}__deleted")
    place.write([], SHAPE, how, number=1, sink=place.sink(deletes_within="1 hour"))
    assert place.ask(f"SELECT id, _commit_version FROM {beside} ORDER BY 1") == [(1, 5), (2, 5)]
    place.ask(f"UPDATE {beside} SET _deleted_at = _deleted_at - 3700 WHERE id = 1")
    place.write([put(9, 1)], SHAPE, how, number=2, sink=place.sink(deletes_within="1 hour"))
    assert [number for (number,) in place.ask(f"SELECT id FROM {beside}")] == [2]
    place.write([put(1, 4), put(2, 4)], SHAPE, how, number=3)
    assert place.rows() == [(1, "v4"), (9, "v1")]


@strategies(*HOWS, quick=[("mariadb", "staged")])
@pytest.mark.in_turn
def test_without_a_sequence_the_last_change_wins(place, how):
    """Pass: of a batch the last row of a key, be it a put or a delete, and of batches the last; there
    is neither a column for versions nor a table of deletes."""
    rows = [put(1, 9), delete(1, 9), delete(2, 9), put(2, 9), put(3, 9, "a"), put(3, 1, "b")]
    place.write(rows, UNORDERED, how, parts=2)
    assert place.rows() == [(2, "v9"), (3, "b")]
    place.write([put(1, 0), delete(2, 0)], UNORDERED, how, number=1)
    assert place.rows() == [(1, "v0"), (3, "b")]
    assert f"{place.name}__deleted" not in place.tables()
    assert place.read(DDL)[0] == (1, "v0", 0)


@strategies(*HOWS, quick=[("mariadb", "staged")])
def test_columns_that_the_stream_has_not_keep_their_values(place, how):
    """Pass: a new row gets the table's defaults, an update leaves what others have written there."""
    place.ask(
        "CREATE TABLE {t} (note VARCHAR(20) NOT NULL DEFAULT 'none', id BIGINT PRIMARY KEY, "
        "name VARCHAR(20), v BIGINT, _commit_version BIGINT, seen INT DEFAULT 7)"
    )
    place.ask("INSERT INTO {t} (id, name, v, note, seen) VALUES (1, 'old', 0, 'mine', 8)")
    place.write([put(1, 1), put(2, 1)], SHAPE, how)
    rows = place.rows("id, name, note, seen, _commit_version")
    assert rows == [(1, "v1", "mine", 8, 1), (2, "v1", "none", 7, 1)]


@strategies("transactional", "staged", quick=[("mariadb", "staged")])
def test_rows_from_before_the_column_of_versions_are_older_than_any_change(place, how):
    """Pass: `add_columns` adds it to a table that has rows, null for them; an update sets one and a
    delete removes another, whatever their versions."""
    place.ask("CREATE TABLE {t} (id BIGINT PRIMARY KEY, name VARCHAR(20), v BIGINT)")
    place.ask("INSERT INTO {t} VALUES (1, 'old', 100), (2, 'old', 100), (3, 'old', 100)")
    rows = [put(1, 1), delete(2, 1)]
    place.write(rows, SHAPE, how, sink=place.sink(add_columns=True))
    assert place.rows("id, name, _commit_version") == [(1, "v1", 1), (3, "old", None)]


@strategies("transactional", "staged", quick=[("mariadb", "staged")])
def test_preimages_are_left_out(place, how):
    """Pass: the row as it was before neither sets nor deletes anything, nor is it the newest; nor is it
    refused for what it lacks."""
    before = {**put(1, 2, "before"), "_change_type": "update_preimage"}
    after = {**put(1, 2, "after"), "_change_type": "update_postimage"}
    other = {**put(2, 1, "other"), "_change_type": "update_preimage"}
    without = {**other, "_commit_version": None}
    assert place.write([after, before, other, without], SHAPE, how) is None
    assert place.rows() == [(1, "after")]


@strategies("transactional", "staged", quick=[("mariadb", "staged")])
@pytest.mark.in_turn
def test_a_key_of_many_columns(place, how):
    """Pass: keys of two columns are one, and a table of nothing but its key can be written."""
    ddl = "a BIGINT, id BIGINT, b STRING"
    shape = changes(ddl, ["a", "b"], "id")
    rows = [{"a": 1, "b": "x", "id": 1}, {"a": 1, "b": "y", "id": 1}, {"a": 1, "b": "x", "id": 2}]
    rows += [{"a": 2, "b": "x", "id": 3}, {"a": 2, "b": "x", "id": 4, "_change_type": "delete"}]
    place.write(rows, shape, how)
    assert place.rows("a, b, id", "1, 2") == [(1, "x", 2), (1, "y", 1)]
    only = Changelog("a BIGINT, b STRING", ["a", "b"])
    place.name, place.ledger = f"{place.name} keys", f"{place.ledger} keys"
    rows = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "y", "_change_type": "delete"}]
    place.write(rows, only, how)
    place.write(rows, only, how, number=1)
    assert place.rows("a, b") == [(1, "x")]


def test_a_key_may_be_written_otherwise_than_its_column(place):
    """Pass: names count as Spark's do, so `ID` is the column `id`."""
    shape = changes(DDL, ["ID"])
    place.write([put(1, 1)], shape)
    place.write([put(1, 2)], shape, number=1)
    assert place.rows() == [(1, "v2")]


def test_keys_that_differ_in_case_accents_or_blanks_are_different(place):
    """Pass: each is a row of its own, and found again, in a table that the sink made."""
    ddl = "name STRING, id BIGINT"
    keys = ["a", "A", "ä", "a ", " a", "", " ", "a\t", "ß", "ss", "SS", "é", "e\u0301"]
    rows = [{"name": key, "id": n} for n, key in enumerate(keys)]
    for number in range(2):
        assert place.write(rows, changes(ddl, ["name"], "id"), number=number) is None
    assert [name for name, _ in place.rows("name, id", "id")] == keys


def test_a_key_that_is_too_long_for_an_index_comes_back(place_in):
    """Pass: MySQL's text keys end at 255 characters; PostgreSQL's at what an index holds."""
    long = {"mariadb": "x" * 256, "postgres": "".join(chr(0x4E00 + n) for n in range(9000))}
    for product, key in long.items():
        place = place_in(product)
        rows = [{"name": "x" * 255, "id": 1}, {"name": key, "id": 2}]
        (row,) = place.write(rows, changes("name STRING, id BIGINT", ["name"], "id")).collect()
        assert "too long" in row["reason"] or "index row" in row["reason"]
        assert place.ids() == [1]


@pytest.mark.parametrize("kind", ["STRING", "DECIMAL(20,2)", "TIMESTAMP"])
@strategies("idempotent", "staged")
def test_sequences_of_each_type_are_compared_as_spark_compares_them(place, how, kind):
    """Pass: across batches and within one; text by its bytes, numbers by value. SQLite, which keeps
    decimals as text, refuses those."""
    shape = changes(f"id BIGINT, name STRING, v {kind}", ["id"])
    made = {
        "STRING": ["Z", "a", "a ", "\u00e4", "\ue000", "\U0001f600"],
        "DECIMAL(20,2)": [Decimal(text) for text in ("-1", "0", "9", "10", "10.01", "1E17")],
        "TIMESTAMP": [
            datetime(year, 1, 1, tzinfo=UTC) for year in (1500, 1960, 1999, 2000, 2024, 9999)
        ],
    }[kind]
    if place.product == "sqlite" and kind.startswith("DECIMAL"):
        with pytest.raises(OptionError, match=r"can't hold decimal\(20,2\) as a sequence"):
            place.sink().check_types((*shape.columns, *shape.change_columns), shape)
        return
    batches = [[], []]
    for pair, (older, newer) in enumerate(itertools.pairwise(made)):
        old = {"id": 10 * pair, "name": "older", "v": older}
        new = {"id": 10 * pair, "name": "newer", "v": newer}
        gone = {**new, "_change_type": "delete"}
        for way, (first, then) in enumerate(
            (([old, new], []), ([new, old], []), ([old], [new]), ([new], [old]), ([gone], [old]))
        ):
            for batch, rows in zip(batches, (first, then), strict=True):
                batch += [{**row, "id": row["id"] + way} for row in rows]
    for number, rows in enumerate(batches):
        place.write(rows, shape, how, number=number)
    wanted = [(10 * pair + way, "newer") for pair in range(len(made) - 1) for way in range(4)]
    assert place.rows() == wanted


OTHERWISE = {"postgres": '"en-x-icu"', "mariadb": "utf8mb4_general_ci", "sqlite": "NOCASE"}


@strategies("idempotent", "staged")
def test_text_sequences_are_compared_by_bytes_whatever_the_column_compares_by(place, how):
    """Pass: `Z` is older than `a`, also where the table that is there puts `a` before `Z`, or `A` beside
    `a`; so are the sequences of deletes."""
    text = "VARCHAR(9)" if place.product == "mariadb" else "TEXT"
    version = f"_commit_version {text} COLLATE {OTHERWISE[place.product]}"
    place.ask(f"CREATE TABLE {{t}} (id BIGINT PRIMARY KEY, name TEXT, v TEXT, {version})")
    beside = place.mark(f"{place.name}__deleted")
    place.ask(
        f"CREATE TABLE {beside} (id BIGINT PRIMARY KEY, {version}, _deleted_at BIGINT NOT NULL)"
    )
    shape = changes("id BIGINT, name STRING, v STRING", ["id"])
    place.write([put(1, "Z"), put(2, "A"), put(3, "a"), delete(4, "a")], shape, how)
    later = [put(1, "a", "newer"), put(2, "a", "newer"), put(3, "Z", "older"), put(4, "Z", "older")]
    place.write(later, shape, how, number=1)
    assert place.rows() == [(1, "newer"), (2, "newer"), (3, "va")]


@strategies("idempotent", "staged", products=["postgres", "mariadb"])
@pytest.mark.in_turn
def test_two_checkpoints_that_write_a_key_at_once_leave_the_newest(place, how):
    """Pass: a change that waits for another's commit does not take it for what was there before."""
    place.write([put(1, 3), put(2, 3)], SHAPE, how)
    waits = threading.Event()
    sink, ended = place.sink(), []
    place.write([], SHAPE, how, sink=sink, number=0, query_id=OTHER)
    first = place.sink()
    place.write([], SHAPE, how, sink=first, number=1)

    def late():
        try:
            place.write([delete(1, 5), put(2, 5)], SHAPE, how, sink=sink, number=1, query_id=OTHER)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=late)

    def before_commit(connection):
        found = connection.execute(sa.text(f"SELECT COUNT(*) FROM {place.quoted} WHERE v = 10"))
        if found.scalar() and not thread.ident:
            thread.start()
            wait_for(lambda: ended or waiting(place))
            waits.set()

    sa.event.listen(first._writer.engine, "commit", before_commit)
    place.write([put(1, 10), delete(2, 10)], SHAPE, how, sink=first, number=2)
    thread.join(60)
    assert waits.is_set()
    assert not ended
    assert place.rows() == [(1, "v10")]


@pytest.mark.in_turn
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("UUID", ["00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"]),
        ("INET", ["10.0.0.1", "10.0.0.2"]),
    ],
)
def test_keys_that_postgresql_compares_with_no_text_are_kept_in_step(place_in, how, kind, keys):
    """Pass: puts and deletes of a table that was there, in whichever order they come."""
    place = place_in("postgres")
    place.ask(f"CREATE TABLE {{t}} (id {kind} PRIMARY KEY, name TEXT)")
    shape = changes("id STRING, name STRING, v BIGINT", ["id"])
    sink = place.sink(add_columns=True)
    one, two = ({"id": key, "name": "x"} for key in keys)
    place.write([{**one, "v": 1}, {**two, "v": 1}], shape, how, number=0, sink=sink)
    place.write([{**one, "v": 3, "_change_type": "delete"}], shape, how, number=1, sink=sink)
    later = [{**one, "v": 2}, {**two, "v": 2, "name": "y"}]
    place.write(later, shape, how, number=2, sink=sink)
    assert place.rows("CAST(id AS TEXT), name") == [
        (keys[1] + ("/32" if kind == "INET" else ""), "y")
    ]


@pytest.mark.in_turn
def test_rows_of_any_key_are_removed(place):
    """Pass: by keys as they were written, which not all databases hold as the types they are of."""
    kinds = "at TIMESTAMP, day DATE, n DECIMAL(10, 2), flag BOOLEAN, code BINARY, name STRING"
    keys = ["at", "day", "n", "flag", "code", "name"]
    shape = changes(f"{kinds}, v BIGINT", keys)
    one = {
        "at": datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC),
        "day": date(2026, 1, 1),
        "n": Decimal("1.50"),
        "flag": True,
        "code": b"\x00\xff",
        "name": "a'b",
        "v": 1,
    }
    rows = [one, {**one, "n": Decimal("2.00"), "v": 2}]
    sink = place.sink()
    place.write(rows, shape, "transactional", sink=sink)
    remove(sink._writer, place.frame(rows[:1], shape), place.batch(shape))
    assert place.rows("v") == [(2,)]
