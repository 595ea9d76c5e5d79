"""Rows of one key and one sequence that are not alike: the same one counts, in whatever order they come."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from mainstem_keyed_state.changes import in_order
from mainstem_keyed_state.logic import KEY, MAIN, Logic, Step
from mainstem_operators_joins.frames import with_columns
from mainstem_operators_joins.stream_table_logic import StreamTableLogic
from mainstem_operators_joins.table_logic import TableLogic, TableSettings
from mainstem_operators_joins.table_table_pairs import Pairs
from stream_table_model import STREAM, TABLE, brief, change, driver, event, settings
from table_table_world import INT, LEFT_COLUMNS, RIGHT_COLUMNS

NESTED = pl.List(pl.Struct({"key": pl.String(), "value": pl.Binary()}))
COLUMNS = pl.Schema({"k": pl.String(), "s": pl.Int64(), "v": pl.Decimal(38, 2), "m": NESTED})


def shuffled(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows in many orders."""
    for seed in range(20):
        yield random.Random(seed).sample(rows, len(rows))


def step(logic: Logic, **ports: tuple[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the main output of one batch, in the order given; each port's key is one column."""
    frames = {}
    for port, (key, rows) in ports.items():
        plain = [{name: row.get(name) for name in logic.ports[port]} for row in rows]
        frame = pl.DataFrame(plain, schema=dict(logic.ports[port]), orient="row")
        keys = pl.Series(KEY, [str(row[key]).encode() for row in rows], dtype=pl.Binary)
        frames[port] = frame.with_columns(keys)
    state = {
        name: pl.DataFrame(schema={KEY: pl.Binary(), **table.columns})
        for name, table in logic.tables.items()
    }
    return logic.step(Step(frames, state, None)).outputs[MAIN].to_dicts()


def table(values: list[Any]) -> list[dict[str, Any]]:
    """Return rows of `table` of one sequence, by their `v`; None deletes. Others stand among them."""
    rows = [{"k": "a", "s": 1, "v": v, "m": [], "_gone": v is None} for v in values]
    return rows + [{"k": f"b{n}", "s": 1, "v": None, "m": None, "_gone": False} for n in range(40)]


def test_the_greater_row_of_one_sequence_becomes_the_row_of_a_table():
    """Pass: of a deletion and three rows the one with the greatest value is told, for every order."""
    chosen = TableSettings(key=("k",), sequence="s", time=None)
    logic = TableLogic(chosen, with_columns(COLUMNS, {"_gone": pl.Boolean()}))
    rows = table([Decimal(2), Decimal("-10"), None, Decimal("9.5")])
    for given in shuffled(rows):
        told = [r["v"] for r in step(logic, input=("k", given)) if r["k"] == "a"]
        assert told == [Decimal("9.5")]


@pytest.mark.parametrize("as_of", ["event_time", "latest"])
def test_the_greater_change_of_one_sequence_is_the_version_that_events_meet(as_of):
    """Pass: an event meets the change with the greatest value, for every order."""
    logic = StreamTableLogic(settings(as_of=as_of, when="now"), STREAM, TABLE)
    rows = [change("a", 0, price, 1) for price in (10, 20, None)]
    rows += [change(f"b{n}", 0, 1, 1) for n in range(40)]
    for given in shuffled(rows):
        told = step(logic, table=("key", given), stream=("k", [event(1, "a", 5)]))
        assert [r["price"] for r in told] == [20]


def test_the_greater_change_of_one_sequence_is_the_row_of_a_joined_table():
    """Pass: a row is told rather than a deletion, and of two rows the greater, for every order."""
    logic = Pairs(LEFT_COLUMNS, RIGHT_COLUMNS, INT, INT, "left")
    rows = [
        {"left_id": 1, "left_ref": 1, "left_v": v, "_sequence": 1, "_deleted": v is None}
        for v in ("x", "y", None)
    ]
    rows += [
        {"left_id": n, "left_ref": 1, "left_v": "z", "_sequence": 1, "_deleted": False}
        for n in range(2, 40)
    ]
    for given in shuffled(rows):
        told = step(logic, left=("left_id", given), right=("right_id", []))
        assert [r["left_v"] for r in told if r["left_id"] == 1] == ["y"]


def test_an_event_meets_the_same_version_in_whichever_batch_a_change_comes():
    """Pass: two changes of one time and sequence, in one batch or in two, in both orders: the greater."""
    found = set()
    for batches in ([[10, 20]], [[10], [20]], [[20], [10]], [[None], [20], [10]]):
        run = driver(settings())
        for prices in batches:
            run.batch({"table": [change("a", 0, price, 1) for price in prices]})
        run.batch({"stream": [event(1, "a", 5)]})
        run.advance(10**17)
        found.add(str(brief(run.outputs[""])))
    assert found == {"[(1, 20, 1, 0)]"}


def test_rows_are_sorted_as_by_all_columns_at_once():
    """Pass: of random rows with many ties the order is that of a sort by everything, nested types too."""
    chance = random.Random(1)
    rows = [
        {
            "k": chance.choice("abc"), "s": chance.randrange(4), "v": chance.choice([None, 1, 2]),
            "m": chance.choice([None, [], [{"key": "x", "value": None}], [{"key": "x", "value": b""}]]),
            "gone": chance.random() < 0.3,
        }
        for _ in range(300)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema={**COLUMNS, "gone": pl.Boolean()}, orient="row")
    for height in (300, 20, 1, 0):
        part = frame.head(height)
        wanted = part.sort("k", "s", ~pl.col("gone"), "v", "m")
        assert in_order(part, ["k", "s"], "gone", ["v", "m"]).equals(wanted)
