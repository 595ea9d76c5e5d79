"""Keyed state on Spark: rows, time, restarts, keys, types."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("plugin")

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def document(sources: dict[str, str], operators: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a document whose sources have columns by DDL; those with `at` have a watermark."""
    return {
        "pipeline": "test",
        "trigger": {"available_now": True},
        "sources": {
            name: {
                "use": "files",
                "with": {"path": "./in", "format": "jsonlines", "schema": ddl},
                **(
                    {"watermark": {"column": "at", "delay": "10 seconds"}}
                    if "at TIMESTAMP" in ddl
                    else {}
                ),
            }
            for name, ddl in sources.items()
        },
        "operators": operators,
        "sinks": {f"{name}_out": {"use": "console", "from": name} for name in operators},
        **more,
    }


REMEMBER = document(
    {"rows": "k INT, at TIMESTAMP, until TIMESTAMP"},
    {"kept": {"use": "remember", "from": "rows", "with": {"key": ["k"], "due": "until"}}},
)


def row(k: int | None, seconds: float, until: float | None) -> dict[str, Any]:
    return {"k": k, "at": at(seconds), "until": None if until is None else at(until)}


@pytest.mark.in_turn
def test_rows_come_out_when_the_watermark_passes_and_late_ones_too(trial) -> None:
    """Pass: nothing due comes before its time; late rows are handled; keys wake without rows."""
    with trial(REMEMBER, "kept", "kept.gone") as tried:
        tried.feed("rows", [row(1, 0, 20), row(2, 0, 1000), row(None, 1, 20), row(3, 5, None)])
        tried.batch()
        assert len(tried.rows("kept")) == 4
        assert tried.rows("kept.gone") == []
        tried.feed("rows", [row(4, 25, 60)])  # the watermark comes to 15 s
        tried.batch()
        assert tried.rows("kept.gone") == []
        tried.feed("rows", [row(4, 31, 60)])  # to 21 s: two are due, no row of their keys comes
        tried.batch()
        gone = sorted((r["k"] or 0) for r in tried.rows("kept.gone"))
        assert gone == [0, 1]
        tried.feed("rows", [row(9, 2, 3)])  # late: its time and its due are past
        tried.batch()
        assert [r["k"] for r in tried.rows("kept.gone")][-1] == 9
        assert len(tried.rows("kept")) == 7
        assert all(facts["late_rows"] == 0 for facts in tried.facts)
        later = START + timedelta(seconds=2000)
        tried.advance("rows", later.replace(tzinfo=None))  # without a zone it is in UTC
        tried.batch()
        assert sorted((r["k"] or 0) for r in tried.rows("kept.gone")) == [0, 1, 2, 4, 4, 9]


@pytest.mark.in_turn
def test_restarts_and_repeated_batches_give_each_row_once(trial) -> None:
    """Pass: over restarts and crashes before the commit, counts are those of a Counter."""
    draw = random.Random(7)
    counter: Counter[int] = Counter()
    counts = document({"rows": "k INT"}, {"counted": {"use": "count_keys", "from": "rows"}})
    with trial(counts, "counted") as tried:
        for number in range(5):
            ids = [draw.choice((0, draw.randrange(2000))) for _ in range(600)]
            counter.update(ids)
            tried.feed("rows", [{"k": k} for k in ids])
            tried.batch()
            if number % 2:
                tried.crash()
        tried.batch()
        found: dict[int, int] = {}
        for each in tried.rows("counted"):
            found[each["k"]] = max(each["n"], found.get(each["k"], 0))
        assert found == counter
        assert Counter((r["k"], r["n"]) for r in tried.rows("counted")).most_common(1)[0][1] <= 2


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("a INT", "b BIGINT", [(1, 1), (-5, -5), (None, None)]),
        ("a DECIMAL(6,2)", "b INT", [("2.00", 2)]),
        ("a DOUBLE", "b FLOAT", [(0.5, 0.5), (-0.0, 0.0)]),
        (
            "a STRING, c INT",
            "b STRING, d BIGINT",
            [(("x", 1), ("x", 1)), (("x", None), ("x", None))],
        ),
        ("a DATE", "b TIMESTAMP", [("2026-01-02", "2026-01-02T00:00:00Z")]),
        ("a BOOLEAN", "b BOOLEAN", [(True, True)]),
    ],
)
@pytest.mark.in_turn
def test_keys_that_sql_holds_equal_are_one_key(trial, left, right, equal) -> None:
    """Pass: values of other types that are equal meet; a null meets nothing, or null if asked."""
    names = [[part.split()[0] for part in ddl.split(", ")] for ddl in (left, right)]
    options = {"left": names[0], "right": names[1]}

    def rows(side: int) -> list[dict[str, Any]]:
        values = [pair[side] if isinstance(pair[side], tuple) else (pair[side],) for pair in equal]
        return [dict(zip(names[side], value, strict=True)) for value in values]

    operators = {
        "strict": {"use": "pair", "from": {"left": "l", "right": "r"}, "with": options},
        "lax": {
            "use": "pair",
            "from": {"left": "l", "right": "r"},
            "with": {**options, "nulls_equal": True},
        },
    }
    with trial(document({"l": left, "r": right}, operators), "strict", "lax") as tried:
        tried.feed("l", rows(0))
        tried.feed("r", rows(1))
        tried.batch()
        for found in tried.rows("strict"):
            null = None in [found[name] for name in names[0]]
            assert found["n"] == (0 if null else 1), found
        assert [found["n"] for found in tried.rows("lax")] == [1] * len(equal)


def test_keys_that_can_not_be_compared_are_refused(trial) -> None:
    """Pass: text and numbers are an error of the document that names both."""
    from mainstem import DocumentError

    operators = {
        "joined": {
            "use": "pair",
            "from": {"left": "l", "right": "r"},
            "with": {"left": ["a"], "right": ["b"]},
        }
    }
    with (
        trial(document({"l": "a STRING", "r": "b INT"}, operators)) as tried,
        pytest.raises(DocumentError, match="left: string, right: int"),
    ):
        tried.batch()


@pytest.mark.in_turn
def test_a_hot_key_and_a_hot_bucket_work(trial) -> None:
    """Pass: one key with 100 times the rows of all others is counted with them."""
    counts = document({"rows": "k INT"}, {"counted": {"use": "count_keys", "from": "rows"}})
    ids = [1] * 20_000 + list(range(200))
    with trial(counts, "counted") as tried:
        for _ in range(2):
            tried.feed("rows", [{"k": k} for k in ids])
            tried.batch()
        last = {r["k"]: r["n"] for r in tried.rows("counted")}
        assert last == {k: 2 * n for k, n in Counter(ids).items()}


@pytest.mark.in_turn
def test_state_of_an_older_version_is_read(trial, tmp_path) -> None:
    """Pass: a later version of the logic goes on from the counts of the earlier one."""
    from mainstem.plan.build import make_plan
    from mainstem.run.runner import run
    from mainstem_testkit import PipelineFolder

    pipeline = PipelineFolder(tmp_path / "own")
    for number, version in enumerate((1, 2)):
        options = {"version": version}
        source = {"path": "./in", "format": "jsonlines", "schema": "k INT"}
        pipeline.document(
            sources={"rows": {"use": "files", "with": source}},
            operators={"counted": {"use": "count_keys", "from": "rows", "with": options}},
            sinks={"out": pipeline.sink("out", "counted")},
        )
        pipeline.feed(f"{number}.json", [{"k": k} for k in range(300)])
        run(make_plan(pipeline.file))
    found = Counter((r["k"], r["n"]) for r in pipeline.rows("out"))
    assert found == Counter((k, n) for k in range(300) for n in (1, 2))
