"""Two sinks that write into one folder leave each other's rows alone."""

from __future__ import annotations

import pytest
from mainstem.run.runner import telling_of_a_lost_session


@pytest.mark.in_turn
def test_good_and_bad_rows_in_one_folder(pipeline, spark):
    """Pass: after two batches, of which the second has no bad rows, all rows are there; taken back, one batch."""
    into = {"path": "./out", "format": "jsonlines"}
    pipeline.document(
        sources={"lines": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        operators={
            "row": {
                "use": "decode",
                "from": "lines",
                "with": {"format": "json", "schema": "n INT NOT NULL"},
            }
        },
        sinks={
            "good": {"use": "files", "from": "row", "with": into},
            "bad": {"use": "files", "from": "row.rejected", "with": into},
        },
    )
    for number, lines in enumerate((['{"n": 1}', "no"], ['{"n": 2}'])):
        pipeline.feed(f"{number}.jsonl", lines)
        pipeline.run()
        rows = pipeline.rows("out")
        assert sorted(row["n"] for row in rows if "n" in row) == [1, 2][: number + 1]
        assert sum("reason" in row for row in rows) == 1
    (query,) = {folder.name.partition("-")[0] for folder in pipeline.folder.glob("out/*")}
    pipeline.plan().nodes["good"].component.forget(f"{query}-of-the-checkpoint", 0)
    assert [row["n"] for row in pipeline.rows("out") if "n" in row] == [1]


@pytest.mark.in_turn
def test_a_connection_of_somebody_else_that_breaks_is_not_taken_for_spark(spark):
    """Pass: while Spark's process lives, what a client raises is told as it is."""
    with pytest.raises(ConnectionRefusedError), telling_of_a_lost_session():
        raise ConnectionRefusedError("a broker")
