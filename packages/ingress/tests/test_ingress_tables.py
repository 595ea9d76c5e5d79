"""One receiver, many tables: rows come out of the outputs that they are of, with their types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ingress_far import Far, messages
from mainstem import Changelog, Events
from mainstem.columns import Column
from mainstem_ingress import no_row, row_of
from mainstem_ingress.tables import tables_ddl
from mainstem_testkit import PipelineFolder


@pytest.fixture
def far() -> Iterator[Far]:
    with Far() as far:
        yield far


@pytest.mark.in_turn
def test_rows_come_out_of_the_outputs_of_their_tables(
    pipeline: PipelineFolder, far: Far, far_plugin: None
) -> None:
    """Pass: events with decimals and lists, changes of a table into a join with itself, messages of no table from
    the main output; each once, over two runs."""
    pipeline.document(
        sources={"far": {"use": "far_tables", "with": {"port": far.port}}},
        operators={
            "plain": {"use": "select", "from": "far", "with": {"columns": {"ten": "ten"}}},
            "changes": {
                "use": "select",
                "from": "far.customers",
                "with": {"columns": {"name": "name", "version": "version"}},
            },
        },
        sinks={
            "tens": pipeline.sink("tens", "plain"),
            "orders": pipeline.sink("orders", "far.orders"),
            "customers": pipeline.sink("customers", "changes"),
        },
    )
    far.put(messages(*range(12), ids=True))
    pipeline.run()
    far.put(messages(*range(12, 21), ids=True))
    pipeline.run()
    assert sorted(row["ten"] for row in pipeline.rows("tens")) == [0, 10, 20]
    orders = sorted(pipeline.rows("orders"), key=lambda row: row["n"])
    assert [row["n"] for row in orders] == [2, 4, 6, 8, 12, 14, 16, 18]
    assert (orders[0]["price"], orders[0]["tags"]) == (0.5, ["t2"])
    changes = sorted(pipeline.rows("customers"), key=lambda row: row["version"])
    assert [(row["name"], row["version"]) for row in changes] == [
        (f"c{n % 4}", n) for n in range(1, 21, 2)
    ]
    assert {row["_change_type"] for row in changes} == {"update_postimage"}


def test_the_columns_of_tables() -> None:
    """Pass: a struct for each, a changelog's with its reserved columns; a column without a type is an error."""
    tables = {
        "a": Events("n BIGINT", identity=["n"]),
        "b": Changelog("k STRING, at TIMESTAMP", key=["k"], sequence="at"),
    }
    assert tables_ddl(tables) == (
        "_output STRING, `_a` STRUCT<`n`: bigint>, `_b` STRUCT<`k`: string, `at`: timestamp, _change_type: STRING, "
        "_commit_version: timestamp, _commit_timestamp: TIMESTAMP>"
    )
    with pytest.raises(TypeError, match="the table c .* without a type: n"):
        tables_ddl({"c": Events([Column("n")], identity=["n"])})
    assert row_of(tables, "b", {"k": "x"}) == ("b", None, {"k": "x"})
    assert no_row(tables) == (None, None, None)
