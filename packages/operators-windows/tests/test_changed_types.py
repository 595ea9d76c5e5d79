"""A checkpoint is held against the types of what its state keeps."""

from __future__ import annotations

import pytest
from mainstem.errors import DocumentError


@pytest.mark.in_turn
def test_a_changed_type_of_what_state_keeps_is_refused_before_a_query_starts(pipeline):
    """Pass: the problem names column, old and new type and the way on; `verify` says the same, and the type
    changed back goes on."""

    def document(value):
        row = {"use": "select", "from": "lines", "with": {"columns": {"k": "1", "v": value}}}
        total = {
            "use": "aggregate", "from": "row",
            "with": {"by": ["k"], "emit": "changes", "columns": {"m": "max(v)"}},
        }  # fmt: skip
        sinks = {"out": pipeline.sink("out", "total")}
        pipeline.document(operators={"row": row, "total": total}, sinks=sinks)

    document("octet_length(value)")
    pipeline.feed("1.jsonl", ["one"])
    pipeline.run()
    document("CAST(octet_length(value) AS STRING)")
    words = "'total' keeps the column m, which was INT, and is now STRING"
    pipeline.feed("2.jsonl", ["second"])
    with pytest.raises(DocumentError, match=words) as caught:
        pipeline.run()
    assert "--fresh total" in str(caught.value)
    document("octet_length(value) + 0")
    pipeline.run()
    assert sorted(row["m"] for row in pipeline.rows("out")) == [3, 6]
