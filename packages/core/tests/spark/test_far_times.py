"""Times beyond the years 1 to 9999 are refused where they come in."""

from __future__ import annotations

import json
import os

import pytest
from mainstem.errors import PipelineError

FAR = 1_767_225_600_000  # milliseconds, taken for seconds: the year 57971
SCHEMA = (
    "n INT, at TIMESTAMP, day DATE, plain TIMESTAMP_NTZ, many ARRAY<TIMESTAMP>, "
    "deep STRUCT<`a b`: MAP<STRING, TIMESTAMP>>"
)
GOOD = {
    "n": 0, "at": 1_767_225_600, "day": "9999-12-31", "plain": "0001-01-01T00:00:00",
    "many": [0, None], "deep": {"a b": {"x": 0}},
}  # fmt: skip
BAD = [
    ({"n": 1, "at": FAR}, "at"),
    ({"n": 2, "at": "9999-12-31T23:59:59-01:00"}, "at"),
    ({"n": 3, "day": "+12024-01-01"}, "day"),
    ({"n": 4, "plain": "-0001-01-01T00:00:00"}, "plain"),
    ({"n": 5, "many": [0, FAR]}, "many"),
    ({"n": 6, "deep": {"a b": {"x": 0, "y": FAR}}}, "deep"),
]


def decode(schema=SCHEMA, **options):
    given = {"format": "json", "schema": schema, **options}
    if given["format"] == "json":
        given["times"] = {"unit": "s"}
    return {"use": "decode", "from": "lines", "with": given}


@pytest.mark.parametrize("missing", ["null", "reject"])
@pytest.mark.in_turn
def test_decode_refuses_them_wherever_they_are(pipeline, missing):
    """Pass: each is refused by its column's name, the first and last good ones are not."""
    strict = decode(missing=missing)
    pipeline.document(
        operators={"row": strict},
        sinks={"out": pipeline.sink("out", "row"), "bad": pipeline.sink("bad", "row.rejected")},
    )
    nothing = dict.fromkeys(GOOD)
    pipeline.feed("1.jsonl", [GOOD, *({**nothing, **row} for row, _ in BAD)])
    pipeline.run()
    assert [row["n"] for row in pipeline.rows("out")] == [0]
    reasons = sorted(row["reason"] for row in pipeline.rows("bad"))
    assert reasons == sorted(f"{name} is beyond the years 1 to 9999" for _, name in BAD)


@pytest.mark.in_turn
def test_decode_reads_them_as_null_where_it_is_told_to(pipeline):
    """Pass: with `types: null` they are as other values that don't fit; NOT NULL refuses the row."""
    pipeline.document(
        operators={
            "row": decode("n INT, at TIMESTAMP", types="null"),
            "full": decode("n INT, at TIMESTAMP NOT NULL", types="null"),
        },
        sinks={
            "out": pipeline.sink("out", "row"),
            "full_out": pipeline.sink("full_out", "full"),
            "bad": pipeline.sink("bad", ["row.rejected", "full.rejected"]),
        },
    )
    pipeline.feed("1.jsonl", [{"n": 1, "at": FAR}])
    pipeline.run()
    assert pipeline.rows("out") == [{"n": 1}]
    assert pipeline.rows("full_out") == []
    assert [row["reason"] for row in pipeline.rows("bad")] == ["at is null"]


@pytest.mark.in_turn
def test_decode_refuses_them_in_csv_and_in_envelopes(pipeline):
    """Pass: each of the two rows is refused, by its column's name."""
    log = {"use": "files", "with": {"path": "./log", "format": "message"}}
    envelopes = {
        **decode("id INT, at TIMESTAMP, many ARRAY<TIMESTAMP>", format="debezium-json", key=["id"]),
        "from": "log",
    }
    pipeline.document(
        sources={
            "lines": {"use": "files", "with": {"path": "./in", "format": "message"}},
            "log": log,
        },
        operators={"row": decode("n INT, at TIMESTAMP", format="csv"), "change": envelopes},
        sinks={
            "out": pipeline.sink("out", "row"),
            "changes": pipeline.sink("changes", "change"),
            "bad": pipeline.sink("bad", "row.rejected"),
            "bad_changes": pipeline.sink("bad_changes", "change.rejected"),
        },
    )
    pipeline.feed("1.csv", ["1,+57971-01-01T00:00:00Z"])
    (pipeline.folder / "log").mkdir()
    rows = [{"id": 1, "at": "0000-01-01T00:00:00Z"}, {"id": 2, "many": [FAR * 10**6]}]
    lines = (json.dumps({"op": "c", "before": None, "after": row}) + "\n" for row in rows)
    (pipeline.folder / "log" / "1.jsonl").write_text("".join(lines))
    pipeline.run()
    assert pipeline.rows("out") + pipeline.rows("changes") == []
    assert [row["reason"] for row in pipeline.rows("bad")] == ["at is beyond the years 1 to 9999"]
    assert sorted(row["reason"] for row in pipeline.rows("bad_changes")) == [
        "at is beyond the years 1 to 9999", "many is beyond the years 1 to 9999",
    ]  # fmt: skip


@pytest.mark.in_turn
def test_a_file_with_one_ends_the_run(pipeline):
    """Pass: the error names the column, and nothing is written."""
    given = {"path": "./in", "format": "jsonlines", "schema": "n INT, at TIMESTAMP"}
    given["times"] = {"unit": "s"}
    pipeline.document(
        sources={"rows": {"use": "files", "with": given}},
        sinks={"out": pipeline.sink("out", "rows")},
    )
    pipeline.feed("1.jsonl", [{"n": 1, "at": 0}])
    pipeline.run()
    pipeline.feed("2.jsonl", [{"n": 2, "at": FAR}])
    with pytest.raises(PipelineError, match="at is beyond the years 1 to 9999"):
        pipeline.run()
    assert [row["n"] for row in pipeline.rows("out")] == [1]


@pytest.mark.in_turn
def test_a_file_is_read_however_old_it_is(pipeline):
    """Pass: one that was last changed ten years before the newest one read is read all the same."""
    pipeline.document(sinks={"out": pipeline.sink("out", "lines")})
    pipeline.feed("1.jsonl", ["new"])
    pipeline.run()
    hidden = pipeline.folder / "old"
    hidden.write_text("old\n")
    ago = hidden.stat().st_mtime - 10 * 365 * 86_400
    os.utime(hidden, (ago, ago))
    hidden.rename(pipeline.folder / "in" / "2.jsonl")
    pipeline.run()
    assert len(pipeline.rows("out")) == 2
