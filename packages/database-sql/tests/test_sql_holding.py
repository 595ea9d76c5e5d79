"""What is known of a sink's columns when a document is planned."""

from __future__ import annotations

import pytest
from mainstem import Events
from mainstem.columns import Column
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan
from mainstem_database_sql.type_support import PLAIN, refusal
from mainstem_database_sql.types import column_type
from sqlalchemy.dialects import mysql, postgresql, sqlite


def document(columns, **operators):
    source = {"use": "files", "with": {"path": "in", "format": "jsonlines", "schema": columns}}
    last = list(operators)[-1] if operators else "rows"
    sink = {"use": "sql", "from": last, "with": {"url": "sqlite:///x.db", "table": "t"}}
    parts = {"pipeline": "p", "sources": {"rows": source}, "sinks": {"out": sink}}
    return parts | ({"operators": operators} if operators else {})


def changes(key, sequence):
    return {"use": "changelog", "from": "rows", "with": {"key": [key], "sequence": sequence}}


def test_a_plan_tells_what_the_database_can_not_hold():
    """Pass: each such column is named in one problem of the document."""
    make_plan(document("k STRING, n DECIMAL(38,10)"))
    with pytest.raises(DocumentError) as caught:
        make_plan(document("k STRING, a ARRAY<INT>, m MAP<STRING, INT>"))
    (problem,) = caught.value.problems
    assert problem.key == "sinks.out"
    assert "column a, of type array<int>" in problem.message
    assert "column m, of type map<string,int>" in problem.message


def test_a_plan_tells_what_can_be_no_key():
    """Pass: a key that is no exact number is a problem of the document."""
    with pytest.raises(DocumentError, match="column k, of type double, as a key"):
        make_plan(document("k DOUBLE, n BIGINT", table=changes("k", "n")))


def test_the_sequence_is_of_the_type_that_it_had_where_it_came_from():
    """Pass: its name may stand for another value by now; a decimal is refused, whatever stands there."""
    for kinds, refused in (("n BIGINT, d DECIMAL(9,2)", False), ("n DECIMAL(9,2), d BIGINT", True)):
        steps = {
            "table": changes("k", "n"),
            "named": {"use": "select", "from": "table", "with": {"columns": {"k": "k", "n": "d"}}},
        }
        given = document(f"k STRING, {kinds}", **steps)
        if refused:
            with pytest.raises(DocumentError, match="as a sequence"):
                make_plan(given)
        else:
            make_plan(given)


@pytest.mark.parametrize("dialect", [postgresql, mysql, sqlite], ids=lambda d: d.__name__)
def test_what_can_be_held_has_a_type_at_every_product(dialect):
    """Pass: a column can be made of each type that is said to be holdable."""
    made = dialect.dialect()
    for kind in (*PLAIN, "decimal(10,2)", "varchar(20)"):
        columns = [Column("c", kind)]
        assert refusal(columns, Events(columns), made.name) == ""
        assert column_type(kind, made).compile(made)


def test_columns_of_unknown_type_are_not_refused():
    """Pass: only Spark can know it, so it is looked at when a run starts."""
    assert refusal([Column("x")], Events([Column("x")]), "sqlite") == ""
