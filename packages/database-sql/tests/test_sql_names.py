"""Hostile names and values: nothing of them is executed, and everything comes back."""

from __future__ import annotations

import pytest
from mainstem import OptionError
from mainstem_testkit.conformance.values import TYPES
from sql_databases import there
from sql_writing import changes, slow, strategies

#: Marks of SQL, of drivers' parameters, of SQLAlchemy's and of Spark's own.
MARKS = """a"b`c'd;e--f%g%%h%s:i::j\\k\\:l.m n/*o*/$1?@{}[]()|~"""
INJECTED = "x; DROP TABLE canary; --"
QUOTED = ['x"; DROP TABLE canary; --', "x`; DROP TABLE canary; --", "x'; DROP TABLE canary; --"]
OTHERS = [INJECTED, *QUOTED, "SELECT", "UPPER lower", "Ærø 漢字", "%(id)s", "n" * 50, "😀"]
HOWS = ("transactional", "staged", "microbatch", "idempotent")


@pytest.mark.parametrize("name", [MARKS, *map(slow, OTHERS)])
@strategies(*HOWS)
def test_hostile_names_are_names(place, name, how):
    """Pass: as the name of table, column, key, ledger, pipeline and sink: changes are written, one is
    deleted, and all comes back; a table that the names would drop stays."""
    if name == "😀" and place.product == "mariadb":
        name = "é"  # its names have no others
    canary = "CREATE TABLE IF NOT EXISTS canary (id INT)"
    place.ask(canary)
    other, mark = f"{name[:50]} v", place.name[-3:]
    shape = changes(f"{quoted(name)} BIGINT, {quoted(other)} BIGINT", [name], other)
    place.name, place.ledger = f"{name[:50]}{mark}", f"{name[:50]}{mark}L"
    batch = {"pipeline": name, "node": other, "how": how}
    assert place.write([{name: 1, other: 2}, {name: 2, other: 2}], shape, **batch) is None
    rows = [{name: 1, other: 3, "_change_type": "delete"}, {name: 2, other: 3}]
    assert place.write(rows, shape, number=1, **batch) is None
    (row,) = there(place.url, place.mark(place.name)[1:-1])
    assert (row[name], row[other], row["_commit_version"]) == (2, 3, 3)
    entry = [] if how == "microbatch" else [(name, other, 1)]
    ledger = place.mark(place.ledger)
    assert list(place.ask(f"SELECT pipeline, sink, batch FROM {ledger}")) == entry
    assert place.ask("SELECT * FROM canary") == []
    assert place.staging() == []


def quoted(name):
    return f"`{name.replace('`', '``')}`"


@strategies("staged", "idempotent")
@pytest.mark.in_turn
def test_hostile_names_of_schemas(place, how):
    """Pass: the tables are made, filled and cleared up in the schema, and nowhere else."""
    if place.product == "sqlite":
        schema = "main"  # what else there is, is another file's
    else:
        schema = f"{MARKS}{place.name}"
        place.ask(f"CREATE SCHEMA {place.mark(schema)}")
    sink = place.sink(namespace=schema, add_columns=True)
    shape = changes("id BIGINT, v BIGINT", ["id"])
    for number in range(2):
        rows = [{"id": 1, "v": number}, {"id": 2, "v": number, "_change_type": "delete"}]
        place.write(rows, shape, how, sink=sink, number=number)
    found = place.ask(f"SELECT id, v FROM {place.mark(schema)}.{place.quoted}")
    assert list(found) == [(1, 1)]
    batch = place.batch(shape, 2)
    staged = sink.stage(place.frame([], shape), batch)
    assert staged.staging.put in place.tables()
    sink.discard(batch)
    assert place.staging() == []
    assert sink.committed(place.batch(shape, 1))


@pytest.mark.parametrize(
    ("product", "name", "words"),
    [
        ("postgres", "n" * 64, "63 bytes at most"),
        ("postgres", "ü" * 32, "63 bytes at most"),
        ("mariadb", "n" * 65, "64 characters at most"),
        ("mariadb", "😀", "a character that"),
    ],
)
def test_names_that_a_product_has_not_are_refused(product, name, words, place_in):
    """Pass: told by name, before anything is made: a longer one would be cut, and be another's."""
    place = place_in(product)
    for given in ({"table": name}, {"ledger": name}):
        with pytest.raises(OptionError, match=words):
            place.write([], "id BIGINT", sink=place.sink(**given))
    with pytest.raises(OptionError, match=words):
        place.write([], f"`{name}` BIGINT")
    assert not {place.name, place.ledger, name[:63], name[:64]} & place.tables()


@pytest.mark.parametrize(("product", "most"), [("postgres", 63), ("mariadb", 64)])
def test_the_longest_names_are_whole(product, most, place_in):
    """Pass: of table, column and ledger, also staged; of changes there must be room for `__deleted`."""
    place = place_in(product)
    longest = place.name.ljust(most, "n")
    place.ledger = place.ledger.ljust(most, "n")
    short, place.name = place.name, longest
    place.write([{longest: 1}], f"`{longest}` BIGINT", "staged")
    assert there(place.url, longest) == [{longest: 1}]
    with pytest.raises(OptionError, match="__deleted.*at most"):
        place.write(
            [], changes("id BIGINT, v BIGINT", ["id"]), sink=place.sink(table=f"{short:n<60}")
        )


HOSTILE = (
    *TYPES["string"],
    "'; DROP TABLE canary; --",
    "%s %(x)s %%",
    ":x ::int \\:y",
    "\\",
    "\\'",
    "x" * 2**20,
    "\u202e\u200b\ufeff",
    "\x01\x1a\x7f",
    "{}",
    "\\x00",
    "\\.",
    "NaN",
)


@strategies(*HOWS)
@pytest.mark.in_turn
def test_hostile_texts_and_bytes_come_back(place, how):
    """Pass: SQL, marks of drivers and of CSV, control characters and a megabyte, as text and as bytes."""
    rows = [{"id": n, "s": text, "y": text.encode()} for n, text in enumerate(HOSTILE)]
    rows.append({"id": len(rows), "s": None, "y": bytes(range(256))})
    assert place.write(rows, "id BIGINT, s STRING, y BINARY", how, parts=2) is None
    assert place.read("id BIGINT, s STRING, y BINARY") == [(r["id"], r["s"], r["y"]) for r in rows]


@strategies("transactional", "staged")
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_hostile_keys_are_found_again(place, kind, how):
    """Pass: each, up to 255 characters or bytes, is updated and deleted by its key."""
    texts = {text[:255] for text in HOSTILE}
    keys = sorted(text if kind == "string" else text.encode()[:255] for text in texts)
    shape = changes(f"k {kind}, id BIGINT", ["k"], "id")
    assert place.write([{"k": key, "id": 1} for key in keys], shape, how) is None
    rows = [{"k": key, "id": 2 + n} for n, key in enumerate(keys)]
    for row in rows[::2]:
        row["_change_type"] = "delete"
    assert place.write(rows, shape, how, number=1) is None
    assert [key for key, _ in place.read(f"k {kind}, id BIGINT", "2")] == keys[1::2]


def test_a_nul_in_text_comes_back_where_there_is_one(place):
    """Pass: MariaDB and SQLite have it, as a value; PostgreSQL refuses the row alone (see the refused)."""
    rows = [{"id": 1, "name": "a\x00b"}, {"id": 2, "name": "c"}]
    found = place.write(rows, "id BIGINT, name STRING")
    if place.product == "postgres":
        assert len(found.collect()) == 1
        assert place.rows() == [(2, "c")]
    else:
        assert found is None
        assert place.rows() == [(1, "a\x00b"), (2, "c")]
