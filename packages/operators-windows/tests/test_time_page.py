"""What docs/time.md shows is what comes of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from windows_cases import Case

PAGE = Path(__file__).parents[3] / "docs" / "time.md"
pytestmark = [
    pytest.mark.in_turn,
    pytest.mark.skipif(not PAGE.exists(), reason="the page is not here"),
]


def blocks() -> tuple[dict, list[list[str]], list[list[str]], list[list[str]]]:
    """Return the page's operators, and its tables: batches, results and late rows, without their heads."""
    found = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text(), re.S)
    operators = next(text for kind, text in found if text.startswith("operators:"))
    tables = [
        [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()[1:]]
        for kind, text in found
        if not kind
    ]
    assert len(tables) == 3
    return YAML(typ="safe").load(operators)["operators"], *tables


def test_the_results_of_the_page_come_of_its_batches(pipeline, spark):
    """Pass: each with its batch, its pane and its number; the late row says what the page says."""
    operators, batches, results, late_rows = blocks()
    case = Case(pipeline, {"sales": operators["sales"] | {"from": "rows"}}, "sales", "sales.late")
    case.operators["sales"]["with"] |= {
        "by": ["k"],
        "columns": {"n": "count(*)", "cents": "sum(v)"},
    }
    for _, _, orders in batches:
        rows = [order.split() for order in orders.split(", ")]
        case.feed(*((shop, at, int(cents)) for shop, at, cents in rows))
    case.run()
    found = [
        [
            str(row["_commit_version"]),
            row["k"],
            row["window_start"][11:16],
            str(row["n"]),
            str(row["cents"]),
            row["pane"],
            str(row["pane_number"]),
        ]
        for row in case.rows("sales")
    ]
    assert sorted(found) == sorted(results)
    marks = {batch: mark for batch, mark, _ in batches}
    (late,) = case.rows("sales.late")
    window = f"{late['_window_start'][11:16]}-{late['_window_end'][11:16]}"
    watermark = late["_batch_watermark"][11:16]
    behind = f"{late['_late_ms'] // 60_000} min"
    assert late_rows == [["a", late["at"][11:16], str(late["v"]), window, watermark, behind]]
    assert marks["7"] == watermark
