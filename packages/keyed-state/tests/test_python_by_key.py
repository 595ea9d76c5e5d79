"""`python_by_key`: a function of the user's own with a state of each key."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem import DocumentError
from mainstem.plan.build import make_plan
from mainstem_keyed_state.function_logic import FunctionLogic
from mainstem_keyed_state.testing import Driver
from mainstem_testkit.pipelines import PipelineFolder

TIME = pl.Datetime("us", "UTC")
ROWS = pl.Schema({"k": pl.String(), "at": TIME, "v": pl.Int64(), "_id": pl.Binary()})
KEPT = pl.Schema({"total": pl.Int64(), "until": TIME})
OUT = pl.Schema({"k": pl.String(), "total": pl.Int64(), "over": pl.Boolean()})
START = datetime(2026, 1, 1, tzinfo=UTC)

MODULE = '''
from datetime import timedelta
import polars as pl

def totals(rows, kept, watermark, length=10):
    """Add up each key's values until nothing has come for some seconds; tell the total then."""
    new = rows.group_by("k").agg(more=pl.col("v").sum(), newest=pl.col("at").max())
    both = kept.join(new, on="k", how="full", coalesce=True, nulls_equal=True)
    both = both.with_columns(
        total=pl.col("total").fill_null(0) + pl.col("more").fill_null(0),
        until=pl.max_horizontal("until", pl.col("newest") + timedelta(seconds=length)),
    ).select(kept.columns)
    over = pl.lit(False) if watermark is None else pl.col("until") <= watermark
    out = both.with_columns(over=over).select("k", "total", "over")
    return out, both.filter(~over)

def breaks(rows, kept, watermark):
    raise KeyError("no such thing")

def one(rows, kept, watermark):
    return rows

def lacking(rows, kept, watermark):
    return rows.select("k"), kept

def more(rows, kept, watermark):
    return rows.select("k", total="v", over=pl.lit(True)).with_columns(x=1), kept

def strange(rows, kept, watermark):
    other = pl.DataFrame({"k": ["?"], "total": [1], "until": [None]})
    return rows.select("k", total="v", over=pl.lit(True)), other.cast(dict(kept.schema))

def means(rows, kept, watermark):
    return rows.group_by("k").agg(total=pl.col("v").mean(), over=pl.lit(True)), kept

def naive(rows, kept, watermark):
    until = pl.col("at").dt.replace_time_zone(None)
    return rows.select("k", total="v", over=pl.lit(True)), rows.select("k", total="v", until=until)

def small(rows, kept, watermark, add=0):
    now = kept.select("k", pl.col("total").cast(pl.Int8), until=pl.lit(None))
    new = rows.select("k", total=pl.col("v").cast(pl.UInt32) + add, until=pl.lit(None))
    now = pl.concat([now, new], how="vertical_relaxed")
    return now.group_by("k").agg(total=pl.len(), over=pl.col("total").sum() > 0), now

def texts(rows, kept, watermark):
    return rows.select("k", total=pl.lit("a"), over=pl.lit(True)), kept
'''
FUNCTIONS: dict[str, Any] = {}
exec(MODULE, FUNCTIONS)


def logic(name: str = "totals", **more: Any) -> FunctionLogic:
    given: dict[str, Any] = {
        "by": ["k"],
        "kept": KEPT,
        "out": OUT,
        "wake": "until",
        "time": "at",
        "function": FUNCTIONS[name],
        "name": f"m:{name}",
        "options": {},
        "folder": Path("/nowhere"),
    }
    return FunctionLogic(ROWS, **{**given, **more})


def row(k: str | None, second: int, v: int = 1) -> dict[str, Any]:
    return {"k": k, "at": START + timedelta(seconds=second), "v": v, "_id": bytes([second % 256])}


def driver(made: FunctionLogic, **more: Any) -> Driver:
    return Driver(made, {"input": ["k"]}, {"input": ("at", 5_000_000)}, **more)


def test_a_key_is_called_for_when_it_is_due_and_then_forgotten():
    """Pass: the total comes once more when the watermark has come to `until`, and begins anew after."""
    run = driver(logic())
    assert run.batch({"input": [row("a", 0), row("a", 1, 2)]})[""] == [
        {"k": "a", "total": 3, "over": False}
    ]
    assert run.batch({"input": [row("b", 40)]})[""] == [{"k": "b", "total": 1, "over": False}]
    assert run.batch()[""] == [{"k": "a", "total": 3, "over": True}]
    assert run.batch({"input": [row("a", 41)]})[""] == [{"k": "a", "total": 1, "over": False}]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_totals_do_not_hang_on_how_keys_are_dealt_to_calls(data):
    """Pass: for any rows and batches all calls together give what one call a batch does."""
    rows = data.draw(
        st.lists(
            st.builds(row, st.sampled_from(["a", "b", "c"]), st.integers(0, 60), st.integers(0, 9)),
            max_size=30,
        )
    )
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    whole, cut = driver(logic()), driver(logic(), pages=3, seed=data.draw(st.integers(0, 99)))
    bounds = sorted({0, len(rows), *cuts})
    for start, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
        one, other = (d.batch({"input": rows[start:end]})[""] for d in (whole, cut))
        assert sorted(map(str, one)) == sorted(map(str, other))


def test_a_key_has_as_many_rows_as_are_kept_of_it_and_null_is_a_key():
    """Pass: each row is there with the next batch, of the key null too; integers of all sizes are taken."""
    run = Driver(logic("small"), {"input": lambda row: [str(row["k"])]})
    run.batch({"input": [row("a", 0), row(None, 0)]})
    found = run.batch({"input": [row("a", 1), row(None, 1), row(None, 2)]})[""]
    assert sorted((str(r["k"]), r["total"]) for r in found) == [("None", 3), ("a", 2)]


def test_a_number_that_does_not_fit_ends_the_run():
    """Pass: it is told, and not its value."""
    made = logic(
        "small", kept=pl.Schema({"total": pl.Int16(), "until": TIME}), options={"add": 40_000}
    )
    with pytest.raises(
        ValueError, match="^m:small: what is kept: a value does not fit its column$"
    ):
        driver(made).batch({"input": [row("a", 0)]})


def test_rows_come_in_the_order_of_their_time():
    """Pass: whatever order they have in the batch; of one time by their `_id`, which is not shown."""
    seen = []

    def look(rows: pl.DataFrame, kept: pl.DataFrame, watermark: Any) -> Any:
        seen.append(rows)
        return rows.select("k", total="v", over=pl.lit(True)), kept

    rows = [row("a", second, second) for second in range(20)]
    random.Random(1).shuffle(rows)
    driver(logic(function=look)).batch({"input": rows})
    (given,) = seen
    assert given.columns == ["k", "at", "v"]
    assert given["v"].to_list() == list(range(20))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("breaks", "m:breaks raised KeyError: 'no such thing'"),
        ("one", "m:one returned DataFrame, not two frames"),
        ("lacking", "m:lacking: rows that come out: there is no column total, over"),
        ("more", "m:more: rows that come out: x is not declared"),
        ("strange", "m:strange keeps something of a key that it was not given$"),
        ("texts", "m:texts: rows that come out: total is String; declared: Int64"),
        ("means", "m:means: rows that come out: total is Float64; declared: Int64"),
        ("naive", "m:naive: what is kept: until is Datetime.*; declared: Datetime"),
    ],
)
def test_what_a_function_does_wrong_is_told(name, told):
    """Pass: each mistake ends the batch, in these words."""
    with pytest.raises(ValueError, match=told):
        driver(logic(name)).batch({"input": [row("a", 0)]})


def document(**options: Any) -> dict[str, Any]:
    given = {
        "call": "totals_by_key:totals",
        "by": ["k"],
        "state": "total BIGINT, until TIMESTAMP",
        "schema": "k STRING, total BIGINT, over BOOLEAN",
        "wake": "until",
    }
    return {
        "pipeline": "test",
        "trigger": {"available_now": True},
        "sources": {
            "rows": {
                "use": "files",
                "with": {
                    "path": "./in",
                    "format": "jsonlines",
                    "schema": "k STRING, at TIMESTAMP, v BIGINT",
                },
                "watermark": {"column": "at", "delay": "5 seconds"},
            }
        },
        "operators": {
            "total": {"use": "python_by_key", "from": "rows", "with": {**given, **options}}
        },
        "sinks": {
            "out": {
                "use": "files",
                "from": "total",
                "with": {"path": "./out", "format": "jsonlines"},
            }
        },
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"by": ["kk"]}, "Did you mean 'k'?"),
        ({"state": "k STRING"}, "'k' is the key's"),
        ({"wake": "til"}, "there is no column 'til'"),
        ({"wake": "total"}, "`total` bigint is no TIMESTAMP"),
        ({"identity": ["l"]}, "there is no column 'l'"),
        ({"call": "totals_by_key.totals"}, "expected a name that matches"),
        ({"state": "_x INT"}, "names that begin with _ are reserved"),
        ({"schema": "_output STRING"}, "names that begin with _ are reserved"),
        ({"by": ["k", "K"]}, "there would be two columns 'k'"),
    ],
)
def test_wrong_options_are_told(options, told):
    """Pass: each mistake is a problem of the document, in these words."""
    with pytest.raises(DocumentError) as error:
        make_plan(document(**options))
    assert told in str(error.value)


def test_names_are_found_whatever_case_they_are_written_in():
    """Pass: `wake` and `identity` are the columns' own names."""
    plan = make_plan(document(wake="UNTIL", identity=["K"]))
    node = plan.nodes["total"]
    assert node.state.shaped_by["wake"] == "until"
    assert node.shape.identity == ("k",)


@pytest.mark.in_turn
def test_a_document_calls_a_function_of_its_folder(pipeline: PipelineFolder) -> None:
    """Pass: the module beside the document is called in tasks; what it keeps outlives a restart; what it
    raises ends the run with its file and line."""
    (pipeline.folder / "totals_by_key.py").write_text(MODULE)
    pipeline.document(**document(options={"length": 20}))
    pipeline.feed("1.json", [{"k": "a", "at": "2026-01-01T00:00:00Z", "v": 1}])
    pipeline.run()
    pipeline.feed("2.json", [{"k": k, "at": "2026-01-01T00:01:00Z", "v": 2} for k in "ab"])
    pipeline.run()
    files = sorted(pipeline.folder.glob("out/**/*.json"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(found, key=str) == sorted(
        [
            {"k": "a", "total": 1, "over": False},
            {"k": "a", "total": 3, "over": False},
            {"k": "b", "total": 2, "over": False},
        ],
        key=str,
    )
    pipeline.document(**document(call="totals_by_key:breaks"))
    pipeline.feed("3.json", [{"k": "a", "at": "2026-01-01T00:02:00Z", "v": 1}])
    with pytest.raises(
        Exception, match=r"totals_by_key:breaks raised KeyError: .* \(.*totals_by_key.py, line"
    ):
        pipeline.run()
