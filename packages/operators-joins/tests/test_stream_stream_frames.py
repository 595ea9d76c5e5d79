"""The columns of an interval join, made of two frames that are not streams."""

from __future__ import annotations

from datetime import timedelta

from mainstem_operators_joins.stream_stream import Within
from mainstem_operators_joins.stream_stream_frames import Sides, joined, paired


def test_a_column_named_here_is_one_like_others(spark):
    """Pass: rows with and without a partner come out once each, with what they have in `here`."""
    sides = Sides(
        *(
            spark.sql(f"SELECT k, here, TIMESTAMP'2024-05-01' AS at FROM VALUES {rows} t(k, here)")
            for rows in ("(1, 'a'), (2, null), (3, 'c')", "(1, null), (2, 'b'), (4, null)")
        ),
        "at",
        "at",
        {"k": "k"},
    )
    minute = timedelta(minutes=1)
    frame = paired(
        joined(sides, Within(before=minute, after=minute), (True, True), {}),
        sides,
        node="both",
        keeps=(False, False),
        taken={"other": "here"},
        time=None,
        semi=False,
        unmatched=True,
        late=(),
    )
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    found = {(r["k"], r["here"], r["other"]) for r in rows if r["_output"] is None}
    assert found == {(1, "a", None), (2, None, "b")}
    left = [r["_unmatched"]["k"] for r in rows if r["_output"] == "unmatched"]
    right = [r["_unmatched_right"]["k"] for r in rows if r["_output"] == "unmatched_right"]
    assert (left, right, len(rows)) == ([3], [4], 4)
