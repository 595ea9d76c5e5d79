"""Rows that the database refuses: these come back, by every strategy, and the others are written."""

from __future__ import annotations

import itertools
import json
import math
import random

import pyarrow as pa
import pytest
import sqlalchemy as sa
from mainstem import Events, PipelineError
from mainstem_database import connecting
from mainstem_database_sql.sink.ledger import REFUSED
from sql_writing import EXACT, PRODUCTS, changes, slow, strategies

DDL = "id BIGINT, name STRING, n INT, mail STRING, parent BIGINT, x DOUBLE, free STRING"
#: What the tests make: rules for `name` (length, not null), `n`, `mail` (unique), `parent`.
TABLE = """CREATE TABLE {t} (
    id BIGINT {key}, name {text} NOT NULL, n {number}, mail VARCHAR(50) UNIQUE, parent BIGINT {parent},
    x {double}, free {free}{id} {foreign}
)"""
TYPES = {
    "postgres": {"text": "VARCHAR(5)", "number": "INT CHECK (n > 0)", "double": "DOUBLE PRECISION",
                 "free": "TEXT", "parent": "REFERENCES {p}", "foreign": "", "id": ", _id BYTEA UNIQUE"},
    "mariadb": {"text": "VARCHAR(5)", "number": "INT UNSIGNED CHECK (n <> 13)", "double": "DOUBLE",
                "free": "LONGTEXT", "parent": "", "foreign": ", FOREIGN KEY (parent) REFERENCES {p} (id)",
                "id": ", _id VARBINARY(100) UNIQUE"},
    "sqlite": {"text": "TEXT CHECK (length(name) <= 5)", "number": "INT CHECK (n > 0)",
               "double": "DOUBLE", "free": "TEXT", "parent": "REFERENCES {p} (id)", "foreign": "",
               "id": ", _id BLOB UNIQUE"},
}  # fmt: skip
#: What is wrong with a row, and a word of the reason.
EVERYWHERE = {
    "null": ({"name": None}, "null"),
    "long": ({"name": "longer than five"}, ("too long", "CHECK")),
    "check": ({"n": -1}, ("check", "range", "CHECK")),
    "unique": ({"mail": "taken@x"}, ("unique", "Duplicate", "UNIQUE")),
    "foreign": ({"parent": 99}, ("foreign key", "FOREIGN KEY")),
}
BAD = {
    "postgres": {**EVERYWHERE, "nul": ({"free": "a\x00b"}, ("NUL", "0x00"))},
    "mariadb": {**EVERYWHERE, "nan": ({"x": math.nan}, "nan"), "infinity": ({"x": math.inf}, "inf"),
                "checked": ({"n": 13}, "CONSTRAINT")},
    "sqlite": {**EVERYWHERE, "nan": ({"x": math.nan}, "NaN")},
}  # fmt: skip


def make(place, how, keyed):
    """Make the table with its rules, a parent 1 and a row 1000 that has an address."""
    parents = place.mark(f"parents of {place.name}")
    place.ask(f"CREATE TABLE {parents} (id BIGINT PRIMARY KEY)")
    place.ask(f"INSERT INTO {parents} VALUES (1)")
    parts = {name: text.format(p=parents) for name, text in TYPES[place.product].items()}
    parts["id"] = parts["id"] if how == "idempotent" and not keyed else ""
    if keyed:
        parts["id"] = ", _commit_version INT"
    place.ask(
        TABLE.replace("{t}", place.quoted).format(key="PRIMARY KEY" if keyed else "", **parts)
    )
    place.ask("INSERT INTO {t} (id, name, mail) VALUES (1000, 'first', 'taken@x')")


def good(number):
    return {
        "id": number,
        "name": f"r{number}",
        "n": 1,
        "mail": f"{number}@x",
        "parent": 1,
        "x": 0.5,
    }


def refused_by(place, rows, how, keyed, **named):
    """Write rows and return the reasons by number, after looking at the payloads."""
    shape = changes(DDL, ["id"], "n") if keyed else DDL
    if keyed:
        rows = [{**row, "_commit_version": row["id"]} for row in rows]
    found = place.write(rows, shape, how, **named)
    told = {}
    for row in found.collect() if found is not None else ():
        payload = json.loads(
            row["payload"], parse_constant=lambda word: pytest.fail(f"{word} is no JSON")
        )
        given = next(each for each in rows if each["id"] == payload["id"])
        assert {name: payload[name] for name in given if name in payload} == {
            name: value if value == value and value != math.inf else str(value)
            for name, value in given.items()
            if name in payload
        }
        told[payload["id"]] = row["reason"]
    return told


#: What differs in how it is written, for each product: events and changes, compared and staged.
QUICK = {
    ("postgres", "microbatch", False), ("postgres", "idempotent", False), ("postgres", "staged", False),
    ("postgres", "staged", True), ("mariadb", "transactional", False), ("mariadb", "staged", True),
    ("sqlite", "idempotent", False), ("sqlite", "transactional", True),
}  # fmt: skip
CASES = list(itertools.product(PRODUCTS, ["microbatch", *EXACT], [False, True]))


@pytest.mark.parametrize(
    ("product", "how", "keyed"), [case if case in QUICK else slow(*case) for case in CASES]
)
@pytest.mark.in_turn
def test_exactly_the_bad_rows_come_back(product, how, keyed, place_in):
    """Pass: of 30 rows, those that break a rule come back, each with the database's reason and what it
    held, as JSON; the others are in the table."""
    place = place_in(product)
    make(place, how, keyed)
    rows = [good(number) for number in range(30)]
    wrong = {3 * n + 1: fault for n, fault in enumerate(BAD[product].values())}
    for number, (fault, _) in wrong.items():
        rows[number] |= fault
    told = refused_by(place, rows, how, keyed, parts=2)
    assert told.keys() == wrong.keys()
    for number, (_, word) in wrong.items():
        words = (word,) if isinstance(word, str) else word
        assert any(each.lower() in told[number].lower() for each in words), told[number]
    assert place.ids() == [n for n in range(30) if n not in wrong] + [1000]


@strategies(*EXACT)
def test_the_second_of_two_rows_that_exclude_each_other_comes_back(place, how):
    """Pass: two rows of a batch with one value in a unique column: the earlier one is written."""
    make(place, how, False)
    rows = [good(1), {**good(2), "mail": "1@x"}, good(3)]
    assert refused_by(place, rows, how, False).keys() == {2}
    assert place.ids() == [1, 3, 1000]


@strategies("transactional", "staged")
@pytest.mark.parametrize("column", ["id", "_commit_version", "_change_type"])
def test_changes_that_can_not_be_compared_come_back(place, column, how):
    """Pass: with a null in the key, the sequence or the kind of change, put or delete, into a table
    whose own rules would let them in; and only these."""
    place.ask("CREATE TABLE {t} (id BIGINT, name VARCHAR(20), v BIGINT, _commit_version BIGINT)")
    place.ask(f"CREATE UNIQUE INDEX {place.mark('i' + place.name)} ON {{t}} (id)")
    rows = [{"id": n, "name": "x", "v": 5} for n in range(6)]
    rows[1][column] = rows[3][column] = rows[4][column] = None
    rows[4]["name"] = "second"
    if column != "_change_type":
        rows[3]["_change_type"] = "delete"
    found = place.write(rows, changes("id BIGINT, name STRING, v BIGINT", ["id"]), how).collect()
    assert {row["reason"] for row in found} == {
        f"column {column}, by which rows are compared, is null"
    }
    assert len(found) == 3
    assert place.ids() == [0, 2, 5]


def test_a_row_without_an_id_comes_back(place):
    """Pass: it can't be known again, so `idempotent` does not write it."""
    rows = [{"id": 1}, {"id": 2, "_id": None}]
    (row,) = place.write(rows, "id BIGINT", "idempotent").collect()
    assert row["reason"] == "column _id, by which rows are compared, is null"
    assert json.loads(row["payload"]) == {"id": 2, "_id": None}
    assert place.ids() == [1]


@strategies("transactional", "staged")
def test_an_older_change_is_put_when_the_newest_of_its_key_is_refused(place, how):
    """Pass: as if the two had come in batches of their own; so also with a delete between others."""
    make(place, how, True)
    shape = changes(DDL, ["id"], "n")
    first, bad = {**good(1), "_commit_version": 1}, {**good(1), "name": None, "_commit_version": 2}
    gone = {**good(2), "_commit_version": 2, "_change_type": "delete"}
    rows = [first, bad, {**good(2), "_commit_version": 1}, gone, {**good(3), "_commit_version": 1}]
    assert len(place.write(rows, shape, how).collect()) == 1
    assert place.ids() == [1, 3, 1000]


@strategies("transactional", "staged")
@pytest.mark.in_turn
def test_a_delete_that_the_database_refuses_comes_back(place, how):
    """Pass: a row that another table needs stays, its delete comes back with the key; others are done."""
    shape = changes("id BIGINT, v BIGINT", ["id"])
    place.write([{"id": n, "v": 1} for n in range(4)], shape, how)
    child = place.mark(f"child of {place.name}")
    place.ask(f"CREATE TABLE {child} (id BIGINT, FOREIGN KEY (id) REFERENCES {{t}} (id))")
    place.ask(f"INSERT INTO {child} VALUES (2)")
    rows = [{"id": n, "v": 2, "_change_type": "delete"} for n in range(3)] + [{"id": 4, "v": 2}]
    (row,) = place.write(rows, shape, how, number=1).collect()
    assert json.loads(row["payload"])["id"] == 2
    assert "foreign key" in row["reason"].lower()
    assert place.ids() == [2, 3, 4]


def test_a_staged_row_that_is_refused_is_found_though_a_task_wrote_twice(place):
    """Pass: what a task left under another name is neither published nor mistaken for the row."""
    place.ask("CREATE TABLE {t} (id BIGINT CHECK (id < 10), name VARCHAR(100))")
    sink, shape = place.sink(), Events("id BIGINT, name STRING")
    batch = place.batch(shape)
    staged = sink.stage(place.frame([{"id": 1}, {"id": 11}], shape), batch)
    path = place.mark(staged.staging.put)
    kept = place.mark(f"kept of {place.name}")
    place.ask(f"CREATE TABLE {kept} AS SELECT * FROM {path}")
    place.ask(f"DELETE FROM {path}")
    place.ask(f"INSERT INTO {path} SELECT id, 'other', '{'0' * 32}', _row FROM {kept}")
    place.ask(f"INSERT INTO {path} SELECT * FROM {kept}")
    (row,) = sink.publish(staged, batch).collect()
    assert json.loads(row["payload"]) == {"id": 11, "name": None}
    assert place.rows() == [(1, None)]


@pytest.mark.parametrize("what", ["constraint", "trigger"])
@pytest.mark.parametrize("how", ["transactional", "staged"])
def test_what_postgresql_finds_at_the_commit_fails_the_batch(what, how, place_in):
    """Pass: a deferred constraint can't tell the row: an error with the constraint's words; no row and
    no ledger entry are in, and the batch goes well once the rows do."""
    place = place_in("postgres")
    parents = place.mark(f"parents of {place.name}")
    place.ask(f"CREATE TABLE {parents} (id BIGINT PRIMARY KEY)")
    if what == "constraint":
        rule = f"REFERENCES {parents} DEFERRABLE INITIALLY DEFERRED"
        place.ask(f"CREATE TABLE {{t}} (id BIGINT {rule})")
    else:
        place.ask("CREATE TABLE {t} (id BIGINT)")
        function = f"refuse_{place.name[5:]}"
        body = "IF NEW.id <> 1 THEN RAISE 'no parent'; END IF; RETURN NULL;"
        place.ask(
            f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
        )
        place.ask(
            f"CREATE CONSTRAINT TRIGGER r AFTER INSERT ON {{t}} DEFERRABLE INITIALLY DEFERRED "
            f"FOR EACH ROW EXECUTE FUNCTION {function}()"
        )
    place.ask(f"INSERT INTO {parents} VALUES (1)")
    sink = place.sink()
    with pytest.raises(PipelineError, match="foreign key constraint|no parent"):
        place.write([{"id": 1}, {"id": 2}], "id BIGINT", how, sink=sink)
    assert place.ids() == []
    assert not sink.committed(place.batch(Events("id BIGINT")))
    assert place.write([{"id": 1}], "id BIGINT", how, sink=sink) is None
    assert place.ids() == [1]


RAISE = {
    "postgres": (
        (
            "CREATE FUNCTION {f}() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF NEW.id = 2 THEN RAISE 'not this one'; END IF; RETURN NEW; END $$"
        ),
        "CREATE TRIGGER r BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {f}()",
    ),
    "mariadb": (
        (
            "CREATE TRIGGER {f} BEFORE INSERT ON {t} FOR EACH ROW "
            "IF NEW.id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF"
        ),
    ),
    "sqlite": (
        (
            "CREATE TRIGGER {f} BEFORE INSERT ON {t} WHEN NEW.id = 2 "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        ),
    ),
}


def test_a_row_that_a_trigger_refuses_comes_back(place):
    """Pass: with the trigger's words; the others are written."""
    place.ask("CREATE TABLE {t} (id BIGINT)")
    for statement in RAISE[place.product]:
        place.ask(statement.replace("{f}", f"refuse_{place.name[5:]}"))
    (row,) = place.write([{"id": n} for n in (1, 2, 3)], "id BIGINT").collect()
    assert row["reason"] == "not this one"
    assert place.ids() == [1, 3]


@strategies(*EXACT)
def test_a_few_bad_rows_of_many_cost_few_statements(place, how):
    """Pass: 5 of 10,000 are found with at most two savepoints for each halving of the batch."""
    known = TYPES[place.product]["id"] if how == "idempotent" else ""
    place.ask(f"CREATE TABLE {{t}} (id BIGINT CHECK (id >= 0){known})")
    bad = {13, 14, 5000, 7777, 9999}
    rows = [{"id": -n if n in bad else n} for n in range(10_000)]
    sink = place.sink()
    place.write([], "id BIGINT", how, sink=sink, number=0)
    made = []
    sa.event.listen(sink._writer.engine, "savepoint", lambda *given: made.append(given))
    found = place.write(rows, "id BIGINT", how, sink=sink, number=1).collect()
    assert sorted(-json.loads(row["payload"])["id"] for row in found) == sorted(bad)
    assert place.ask("SELECT COUNT(*) FROM {t}")[0][0] == 9_995
    assert len(made) <= 1 + 2 * 5 * math.ceil(math.log2(10_000))


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("INSERT INTO {t} VALUES ('it''s me@x', 1)", "Duplicate entry '...' for key"),
        ("INSERT INTO {t} VALUES ('a', 'twelve')", "Incorrect integer value: '...' for column"),
    ],
)
def test_what_mysql_says_of_a_value_is_told_without_it(place_in, statement, told):
    """Pass: reasons come into errors and logs, where no row's values belong; the payload has them."""
    place = place_in("mariadb")
    place.ask("CREATE TABLE {t} (mail VARCHAR(50) UNIQUE, n INT)")
    place.ask("INSERT INTO {t} VALUES ('it''s me@x', 1)")
    with pytest.raises(Exception, match=r"\(\d+, ") as error:
        place.ask(statement)
    words = connecting.words(error.value)
    assert told in words
    assert "me@x" not in words
    assert "twelve" not in words


def filling(rows, length):
    """Return rows of random text, each refused for a name of null."""
    texts = random.Random(1)
    return [
        {"id": n, "free": texts.randbytes(length // 2).hex(), "name": None} for n in range(rows)
    ]


@pytest.mark.in_turn
def test_a_batch_of_which_mysql_refuses_much_gets_in(place_in):
    """Pass: 12 MB of refused rows, which would take 24 in a statement that ends at 16, come back, now and
    when they are asked for again."""
    place = place_in("mariadb")
    place.ask("CREATE TABLE {t} (id BIGINT, name VARCHAR(5) NOT NULL, free LONGTEXT)")
    rows = filling(100, 120_000)
    for _ in range(2):
        found = place.write(rows, "id BIGINT, name STRING, free STRING")
        assert found.count() == 100
    assert place.ids() == []


@pytest.mark.in_turn
def test_a_batch_of_which_mysql_refuses_too_much_says_so(place_in):
    """Pass: an error at once that names the setting and both sizes; nothing is written."""
    place = place_in("mariadb")
    place.ask("CREATE TABLE {t} (id BIGINT, name VARCHAR(5) NOT NULL, free LONGTEXT)")
    sink = place.sink(give_up="1 hour")
    place.ask("SET GLOBAL max_allowed_packet = 1048576")
    try:
        with pytest.raises(
            PipelineError, match="100 rows .* max_allowed_packet is 1048576"
        ) as error:
            place.write(filling(100, 40_000), "id BIGINT, name STRING, free STRING", sink=sink)
    finally:
        place.ask("SET GLOBAL max_allowed_packet = 16777216")
    assert error.value.node == "out"
    assert place.ids() == []


def test_what_an_older_version_kept_of_refused_rows_is_read(place_in):
    """Pass: a stream that is not compressed."""
    place = place_in("sqlite")
    place.write([{"id": 1}], "id BIGINT")
    row = {"_id": None, "reason": "too late", "payload": b"{}"}
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, REFUSED) as writer:
        writer.write_table(pa.Table.from_pylist([row], REFUSED))
    kept = stream.getvalue().to_pybytes()
    place.ask(f"UPDATE {place.mark(place.ledger)} SET refused = ?", kept)
    (told,) = place.write([{"id": 1}], "id BIGINT").collect()
    assert told["reason"] == "too late"


@pytest.mark.parametrize("product", PRODUCTS)
def test_staged_rows_are_found_by_an_index_once_one_is_refused(place_in, product):
    """Pass: made for a batch of which a row is refused, and for no other."""
    place = place_in(product)
    place.ask("CREATE TABLE {t} (id BIGINT CHECK (id > 0))")
    sink, made = place.sink(), []
    place.write([], "id BIGINT", "staged", sink=sink)

    def note(_connection, _cursor, statement, *_):
        if statement.startswith("CREATE INDEX"):
            made.append(statement)

    sa.event.listen(sink._writer.engine, "before_cursor_execute", note)
    place.write([{"id": 1}], "id BIGINT", "staged", sink=sink, number=1)
    assert made == []
    # Staging tables take what the table would not.
    refused = place.write([{"id": 2}, {"id": -1}], "id BIGINT", "staged", sink=sink, number=2)
    assert [json.loads(row["payload"]) for row in refused.collect()] == [{"id": -1}]
    assert len(made) == 1
