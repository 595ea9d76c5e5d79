"""`table_table_join` on Spark: the same tables as pandas makes, after every batch, over crashes too."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from table_table_world import LEFT, RIGHT, Reader, compare_and_set, current, joined

SOURCES = {
    "orders": "id BIGINT, ref INT, v STRING, n BIGINT, gone BOOLEAN",
    "customers": "id BIGINT, name STRING, n BIGINT, gone BOOLEAN",
}


def document(joins: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a document with a table of orders, one of customers, and some joins."""
    return {
        "pipeline": "test",
        "trigger": {"available_now": True},
        "sources": {
            name: {
                "use": "files",
                "with": {"path": "./in", "format": "jsonlines", "schema": schema},
            }
            for name, schema in SOURCES.items()
        },
        "operators": {
            **{
                f"{name}_table": {
                    "use": "changelog",
                    "from": name,
                    "with": {"key": ["id"], "sequence": "n", "delete": "gone"},
                    "on_rejected": "drop",
                }
                for name in SOURCES
            },
            **{name: joined_by(**how) for name, how in joins.items()},
        },
        "sinks": {f"{name}_out": {"use": "console", "from": name} for name in joins},
        **more,
    }


def joined_by(
    left: str = "orders_table", right: str = "customers_table", **options: Any
) -> dict[str, Any]:
    return {
        "use": "table_table_join",
        "from": {"left": left, "right": right},
        "with": options,
        "on_rejected": "drop",
    }


TAKE = {"customer": "name", "customer_n": "n", "customer_gone": "gone"}
JOINS: dict[str, dict[str, Any]] = {
    "all_orders": {"foreign_key": "ref % 4", "join": "left", "take": TAKE},
    "both_keys": {"on": ["id"], "join": "full", "take": TAKE},
    "matched": {"foreign_key": ["ref"], "take": TAKE},
    "same_key": {"on": {"id": "id"}, "take": TAKE},
    "left_key": {"on": ["id"], "join": "left", "take": TAKE},
}
#: What Spark does with the others differs in nothing but what the logic's own tests show.
FAST = ("all_orders", "both_keys")


def drawn(seed: int) -> list[dict[str, list[dict[str, Any]]]]:
    """Return batches of changes of both tables: late ones, copies, deletes, moves, nulls."""
    draw = random.Random(seed)
    known: dict[Any, dict[str, Any]] = {}
    batches = []
    for _ in range(3):
        batch: dict[str, list[dict[str, Any]]] = {name: [] for name in SOURCES}
        for _ in range(25):
            name = draw.choice(list(SOURCES))
            key, sequence = draw.randrange(6), draw.randrange(12)
            gone = draw.random() < 0.25
            row = {"id": key, "n": sequence, "gone": gone}
            if name == "orders":
                row |= {"ref": draw.choice((None, *range(6))), "v": f"o{key}.{sequence}"}
            else:
                row["name"] = f"c{key}.{sequence}"
            batch[name].append(known.setdefault((name, key, sequence), row))
        batches.append(batch)
    return batches


def oracle(batches: list[dict[str, list[dict[str, Any]]]], name: str) -> list[dict[str, Any]]:
    """Return the joined table after some batches, by pandas."""
    read: dict[str, list[dict[str, Any]]] = {"orders": [], "customers": []}
    for batch in batches:
        for source, rows in batch.items():
            read[source] += [{**r, "_sequence": r["n"], "_deleted": r["gone"]} for r in rows]
    orders = current(read["orders"], "id", ["id", "ref", "v", "n", "gone"])
    customers = current(read["customers"], "id", ["id", "name", "n", "gone"])
    customers.columns = ["c_id", *TAKE]  # type: ignore[assignment]
    options = JOINS[name]
    orders["c_on"] = orders["id"]
    if "foreign_key" in options:
        by = 4 if name == "all_orders" else 6
        orders["c_on"] = [None if ref is None else ref % by for ref in orders["ref"]]
    made = joined(orders, customers, "c_on", "c_id", options.get("join", "inner"))
    for row in made:
        if row["id"] is None:  # a right row alone: the key is the one or the other
            row["id"] = row["c_id"]
    return [{n: v for n, v in row.items() if n not in ("c_on", "c_id")} for row in made]


def changes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a sink as the readers of changes have them."""
    return [
        {
            **{n: v for n, v in row.items() if not n.startswith("_")},
            "_change": row["_change_type"],
            "_version": row["_commit_version"],
        }
        for row in rows
    ]


def same(found: Any, expected: Any) -> None:
    ordered = [sorted(repr(sorted(row.items())) for row in rows) for rows in (found, expected)]
    assert ordered[0] == ordered[1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in JOINS]
)
@pytest.mark.in_turn
def test_after_each_batch_the_table_is_what_pandas_makes(trial, name):
    """Pass: who follows the changes has pandas' table after each batch, a crash between; all images fit."""
    batches = drawn(7)
    made = trial(document({name: JOINS[name]}), f"{name}.late_changes", f"{name}.rejected")
    reader = Reader("id")
    told: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        for source, rows in batch.items():
            made.feed(source, rows)
        made.batch()
        already = len(told)
        told = changes(made.rows(f"{name}_out"))
        reader.follow(told[already:])
        same(reader.table.values(), oracle(batches[: number + 1], name))
        if number == 1:
            made.crash()
    random.Random(1).shuffle(told)
    same(compare_and_set(told, reader).values(), oracle(batches, name))
    late = made.rows(f"{name}.late_changes")
    assert {row["side"] for row in late} == {LEFT, RIGHT}
    one = next(row for row in late if row["side"] == RIGHT)
    assert json.loads(one["row"])["name"].startswith("c")
    assert made.rows(f"{name}.rejected") == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_join_of_a_join_in_one_query_is_what_pandas_makes(trial):
    """Pass: a foreign-key join, joined with a table of its own key: right after each batch, images too."""
    batches = drawn(11)
    made = document({"all_orders": JOINS["all_orders"]})
    made["operators"]["twins"] = joined_by(left="all_orders", on=["id"], take={"twin": "name"})
    made["sinks"] = {"twins_out": {"use": "console", "from": "twins"}}
    running = trial(made)
    reader = Reader("id")
    told: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        for source, rows in batch.items():
            running.feed(source, rows)
        running.batch()
        already = len(told)
        told = changes(running.rows("twins_out"))
        reader.follow(told[already:])
        read = [row for each in batches[: number + 1] for row in each["customers"]]
        newest: dict[int, dict[str, Any]] = {}
        for row in sorted(read, key=lambda row: row["n"]):
            newest[row["id"]] = row
        twins = {key: row["name"] for key, row in newest.items() if not row["gone"]}
        expected = [
            {**row, "twin": twins[row["id"]]}
            for row in oracle(batches[: number + 1], "all_orders")
            if row["id"] in twins
        ]
        same(reader.table.values(), expected)
