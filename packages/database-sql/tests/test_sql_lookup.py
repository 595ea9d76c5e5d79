"""`sql_lookup`: rows ask a table, many keys by one statement."""

from __future__ import annotations

import sqlite3
from datetime import date
from decimal import Decimal

import pytest
from mainstem import DocumentError, PermanentError
from mainstem.columns import read_columns
from mainstem_database_sql.lookup.options import SQLLookupOptions
from mainstem_database_sql.lookup.table import TableLookup
from mainstem_lookup import MISSING
from mainstem_lookup.asking import Asker, Asking
from mainstem_testkit.conformance.operator import OperatorSuite
from mainstem_testkit.pipelines import PipelineFolder

ROWS = [(1, "a", "one", "1.50"), (2, "b", None, "0.00"), (2, "c", "three", "-9.99")]


@pytest.fixture
def filled(place):
    """A table with a key of two columns, in each of the products."""
    kind = "TEXT" if place.product == "sqlite" else "VARCHAR(20)"
    place.ask(
        f"CREATE TABLE {place.quoted} (id BIGINT, part {kind}, name {kind}, price NUMERIC(10,2), "
        "d DATE, n INT)"
    )
    for row in ROWS:
        values = ", ".join("NULL" if value is None else f"'{value}'" for value in row)
        place.ask(f"INSERT INTO {place.quoted} VALUES ({values}, '2026-01-02', 3)")
    return place


def asker(place, keys, key, schema, **more):
    given = {"url": place.url, "table": place.name, "key": key, "schema": schema, **more}
    made = SQLLookupOptions.model_validate(given)
    return Asker(Asking(TableLookup, made, read_columns(keys), made.table_schema, "node"))


def test_a_key_of_two_columns_finds_its_row(filled):
    made = asker(
        filled,
        "a BIGINT, b STRING",
        {"id": "a", "part": "b"},
        "name STRING, price DECIMAL(10,2), d DATE, id BIGINT, n INT",
    )
    keys = [(1, "a"), (2, "b"), (2, "c"), (1, "c"), (None, "a"), (1, "a'; DROP TABLE t; --")]
    found = made.answers(keys)
    assert found[1, "a"].values == ("one", Decimal("1.50"), date(2026, 1, 2), 1, 3)
    assert found[2, "b"].values == (None, Decimal("0.00"), date(2026, 1, 2), 2, 3)
    assert found[2, "c"].values[:2] == ("three", Decimal("-9.99"))
    assert [found[key] for key in keys[3:]] == [MISSING] * 3


def test_a_key_with_several_rows_is_refused_alone(filled):
    made = asker(filled, "a BIGINT", {"id": "a"}, "name STRING")
    found = made.answers([(1,), (2,), (3,)])
    assert found[1,].values == ("one",)
    assert "has several rows" in found[2,].refusal
    assert found[3,] is MISSING


def test_many_keys_go_with_one_statement(place):
    place.ask(f"CREATE TABLE {place.quoted} (id BIGINT, n BIGINT)")
    values = ", ".join(f"({n}, {n * n})" for n in range(0, 3000, 2))
    place.ask(f"INSERT INTO {place.quoted} VALUES {values}")
    made = asker(place, "a INT", {"id": "a"}, "n BIGINT", keys_per_request=700, requests=2)
    found = made.answers([(n,) for n in range(3000)])
    assert all(
        found[n,] == ((n * n,), "") if n % 2 == 0 else found[n,] is MISSING for n in range(3000)
    )


def test_a_value_that_does_not_fit_refuses_its_row_alone(place_in):
    place = place_in("sqlite")
    place.ask(f"CREATE TABLE {place.quoted} (id BIGINT, n INT)")
    place.ask(f"INSERT INTO {place.quoted} VALUES (1, 1), (2, 'x'), (3, 3)")
    found = asker(place, "a BIGINT", {"id": "a"}, "n INT").answers([(1,), (2,), (3,)])
    assert [found[n,].values for n in (1, 3)] == [(1,), (3,)]
    assert "column n has a value (str) that is no INT" in found[2,].refusal


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("UUID", ["6f1c0d8e-6f0a-4f0e-9e55-0c8c4a6c2a11", "no uuid"]),
        ("CHAR(5)", ["ab", "a\x00b"]),
        ("TEXT", ["ab", "a\x00b"]),
        ("INET", ["10.0.0.1/32", "x"]),
    ],
)
def test_keys_of_postgresqls_own_types_and_such_as_none_can_be(place_in, kind, keys):
    """Pass: the row is found, and a key that the database does not take is refused alone."""
    place = place_in("postgres")
    place.ask(f"CREATE TABLE {place.quoted} (id {kind}, n INT)")
    place.ask(f"INSERT INTO {place.quoted} VALUES ('{keys[0]}', 1)")
    found = asker(place, "a STRING", {"id": "a"}, "n INT").answers([(k,) for k in keys])
    assert found[keys[0],].values == (1,)
    assert found[keys[1],].refusal


def test_numbers_of_any_size_are_keys_of_a_numeric(place_in):
    place = place_in("postgres")
    place.ask(f"CREATE TABLE {place.quoted} (id NUMERIC(18), n INT)")
    place.ask(f"INSERT INTO {place.quoted} VALUES (1, 1), (3000000000, 3)")
    found = asker(place, "a BIGINT", {"id": "a"}, "n INT").answers([(1,), (3_000_000_000,)])
    assert [found[n,].values for n in (1, 3_000_000_000)] == [(1,), (3,)]


def test_a_column_of_the_key_can_be_read_by_another_type(place_in):
    place = place_in("sqlite")
    place.ask(f"CREATE TABLE {place.quoted} (id BIGINT, n INT)")
    place.ask(f"INSERT INTO {place.quoted} VALUES (1, 1), (3000000000, 3)")
    made = asker(place, "a BIGINT", {"id": "a"}, "id INT, n INT")
    found = made.answers([(1,), (3_000_000_000,)])
    assert found[1,].values == (1, 1)
    assert "id has a value (int) that is no INT" in found[3_000_000_000,].refusal


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"table": "nowhere"}, "node: there is no table nowhere"),
        ({"schema": "nothing INT"}, "has no column nothing"),
    ],
)
def test_what_is_not_there_ends_the_batch(filled, more, words):
    made = asker(filled, "a BIGINT", {"id": "a"}, **{"schema": "name STRING", **more})
    with pytest.raises(PermanentError, match=words):
        made.answers([(1,)])


def test_a_server_that_is_away_is_waited_for(place_in):
    place = place_in("postgres")
    place.ask(f"CREATE TABLE {place.quoted} (id BIGINT, n INT)")
    place.ask(f"INSERT INTO {place.quoted} VALUES (1, 1)")
    made = asker(place, "a BIGINT", {"id": "a"}, "n INT", cache_for="0 seconds")
    assert made.answers([(1,)])[1,].values == (1,)
    place.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'mainstem' AND pid <> pg_backend_pid()"
    )
    assert made.answers([(1,)])[1,].values == (1,)


@pytest.mark.in_turn
def test_a_run_adds_what_the_table_has(spark, tmp_path):
    """Pass: answers by key; rows whose key has none, and one whose key is no text, are refused alone."""
    pipeline = PipelineFolder(tmp_path)
    file = tmp_path / "t.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE customers (id TEXT, name TEXT)")
        database.execute("INSERT INTO customers VALUES ('1', 'Ann'), ('3', NULL)")
    known = {
        "use": "sql_lookup",
        "from": "texts",
        "with": {
            "url": f"sqlite:///{file}",
            "table": "customers",
            "key": {"id": "customer"},
            "schema": "name STRING",
            "missing": "reject",
        },
    }
    decode = {"format": "json", "schema": "customer STRING, n INT"}
    odd = {"customer": "if(n = 4, cast(unhex('FF') AS STRING), customer)"}  # no text at all
    pipeline.document(
        operators={
            "rows": {"use": "decode", "from": "lines", "with": decode},
            "texts": {"use": "select", "from": "rows", "with": {"columns": {**odd, "n": "n"}}},
            "known": known,
        },
        sinks={"out": pipeline.sink("out", "known"), "bad": pipeline.sink("bad", "known.rejected")},
    )
    pipeline.feed("a", [{"customer": c, "n": n} for n, c in enumerate(["1", "2", "3", None, "4"])])
    pipeline.run()
    assert sorted((row["n"], row.get("name")) for row in pipeline.rows("out")) == [
        (0, "Ann"),
        (2, None),
    ]
    assert sorted(row["reason"] for row in pipeline.rows("bad")) == [
        "customer is no UTF-8",
        "there is nothing for customer",
        "there is nothing for customer",
    ]


def test_a_column_that_is_no_key_is_refused(tmp_path):
    pipeline = PipelineFolder(tmp_path)
    given = {"url": "sqlite:///t.db", "table": "t", "key": {"id": "x"}, "schema": "name STRING"}
    decode = {"format": "json", "schema": "x DOUBLE"}
    pipeline.document(
        operators={
            "rows": {"use": "decode", "from": "lines", "with": decode},
            "known": {"use": "sql_lookup", "from": "rows", "with": given},
        },
        sinks={"out": pipeline.sink("out", "known")},
    )
    with pytest.raises(DocumentError, match="double can't be a key"):
        pipeline.plan()


@pytest.mark.parametrize(
    ("key", "schema", "told"),
    [
        ("DECIMAL(5,2)", "name STRING", "can't be a key in SQLite"),
        ("INT", "tags ARRAY<STRING>", "column tags: array<string> is not read from a table"),
    ],
)
def test_what_no_table_answers_is_refused(tmp_path, key, schema, told):
    """Pass: at the plan; SQLite keeps a DECIMAL as it likes, and has no arrays."""
    pipeline = PipelineFolder(tmp_path)
    given = {"url": "sqlite:///t.db", "table": "t", "key": {"id": "x"}, "schema": schema}
    decode = {"format": "json", "schema": f"x {key}"}
    pipeline.document(
        operators={
            "rows": {"use": "decode", "from": "lines", "with": decode},
            "known": {"use": "sql_lookup", "from": "rows", "with": given},
        },
        sinks={"out": pipeline.sink("out", "known")},
    )
    with pytest.raises(DocumentError) as caught:
        pipeline.plan()
    assert told in str(caught.value)


@pytest.mark.in_turn
def test_a_day_that_python_has_not_is_refused_by_itself(spark, tmp_path):
    """Pass: the others are answered."""
    pipeline = PipelineFolder(tmp_path)
    file = tmp_path / "t.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE days (day DATE, name TEXT)")
        database.execute("INSERT INTO days VALUES ('9999-12-31', 'last')")
    given = {
        "url": f"sqlite:///{file}",
        "table": "days",
        "key": {"day": "day"},
        "schema": "name STRING",
    }
    days = {"n": "n", "day": "date_add(DATE '9999-12-31', n)"}
    pipeline.document(
        operators={
            "rows": {
                "use": "decode",
                "from": "lines",
                "with": {"format": "json", "schema": "n INT"},
            },
            "days": {"use": "select", "from": "rows", "with": {"columns": days}},
            "known": {"use": "sql_lookup", "from": "days", "with": given},
        },
        sinks={"out": pipeline.sink("out", "known"), "bad": pipeline.sink("bad", "known.rejected")},
    )
    pipeline.feed("a", [{"n": n} for n in range(2)])
    pipeline.run()
    assert [(row["n"], row["name"]) for row in pipeline.rows("out")] == [(0, "last")]
    assert [row["reason"] for row in pipeline.rows("bad")] == ["day is beyond the years 1 to 9999"]


class TestSQLLookup(OperatorSuite):
    use = "sql_lookup"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}

    @pytest.fixture(autouse=True)
    def table(self, tmp_path_factory):
        self.file = tmp_path_factory.mktemp("lookup") / "t.db"
        with sqlite3.connect(self.file) as database:
            database.execute("CREATE TABLE t (k TEXT, name TEXT)")
            database.execute("INSERT INTO t VALUES ('a', 'A'), ('b', 'B')")

    def options(self):
        return {
            "url": f"sqlite:///{self.file}",
            "table": "t",
            "key": {"k": "k"},
            "schema": "name STRING",
        }
