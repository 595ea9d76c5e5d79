"""The sink `console` shows some rows of a batch, and reads all of them."""

from __future__ import annotations

import json
from collections import Counter

import pytest


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("looking")
@pytest.mark.in_turn
def test_more_results_of_a_step_with_state_than_are_shown(pipeline, capsys):
    """Pass: two runs over one state end well, and each of the second's windows is counted."""
    source = {"path": "./in", "format": "jsonlines", "schema": "at TIMESTAMP"}
    pipeline.document(
        trigger={"available_now": True, "flush": True},
        sources={
            "given": {
                "use": "files",
                "with": source,
                "watermark": {"column": "at", "delay": "1 minute"},
            }
        },
        operators={"minute": {"use": "minutes", "from": "given"}},
        sinks={"shown": {"use": "console", "from": "minute", "with": {"rows": 2}}},
    )
    for hour in (12, 13):
        times = [f"2026-01-01T{hour}:{minute:02}:00Z" for minute in range(40)]
        pipeline.feed(f"{hour}.jsonl", [{"at": at} for at in times])
        summary = pipeline.run()
        assert summary["queries"]["minute"]["nodes"]["minute"]["rows"] == 40
        told = lines(capsys)
        shown = Counter(line["batch"] for line in told if "row" in line)
        assert max(shown.values()) == 2
        assert {line["more"] for line in told if "more" in line} == {"only 2 rows are shown"}


@pytest.mark.in_turn
def test_a_row_past_those_shown_is_refused_as_any_other(pipeline, capsys):
    """Pass: all rows of the batch are counted, and so is the refused one in its last file."""
    decode = {"format": "json", "schema": "n INT"}
    pipeline.document(
        operators={
            "row": {"use": "decode", "from": "lines", "with": decode, "on_rejected": "drop"}
        },
        sinks={"shown": {"use": "console", "from": "row", "with": {"rows": 2}}},
    )
    for number in range(8):
        pipeline.feed(f"{number}.jsonl", [{"n": number}] * 50 + ["bad"] * (number == 7))
    nodes = pipeline.run()["queries"]["lines"]["nodes"]
    assert nodes["row"] == {"rows": 400, "rejected": 1}
    assert sum("row" in line for line in lines(capsys)) == 2
