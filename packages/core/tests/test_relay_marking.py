"""Watermarks of partitions, as a relay keeps count of them: without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem import DocumentError
from mainstem.plan.build import make_plan
from mainstem.plan.rendering import as_text
from mainstem.relays.marking import Marking

START = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = timedelta(minutes=1)

rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(0, 2),
        st.none() | st.integers(0, 10_000),
    ),
    max_size=8,
)


def written(folder, number, batch):
    times = [None if s is None else START + timedelta(seconds=s) for _, _, s in batch]
    table = pa.table(
        {
            "p": pa.array([p for p, _, _ in batch], pa.string()),
            "n": pa.array([n for _, n, _ in batch], pa.int32()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )
    file = folder / f"{number}.parquet"
    pq.write_table(table, file)
    return file


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.tuples(rows, st.integers(0, 20)), max_size=6),
    idle=st.sampled_from([None, 15]),
)
def test_the_lowest_of_those_that_are_not_idle_counts(tmp_path_factory, batches, idle):
    folder = tmp_path_factory.mktemp("marks")
    marking = Marking("at", DELAY, ("p", "n"), idle and timedelta(seconds=idle))
    marks, latest, heard, now = {}, {}, {}, 0.0
    pauses = []
    for number, (batch, pause) in enumerate(batches):
        now += pause
        pauses.append(now)
        marks = marking.marks(marks, [written(folder, number, batch)], now)
        for p, n, seconds in batch:
            if seconds is not None:
                latest[p, n] = max(seconds, latest.get((p, n), 0))
                heard[p, n] = now
        begun = pauses[1] if len(pauses) > 1 else 0.0
        active = [
            at for key, at in latest.items() if idle is None or now - max(heard[key], begun) < idle
        ]
        expected = START + timedelta(seconds=min(active)) - DELAY if active else None
        found = marking.watermark(marks, begun, now)
        told = None if found is None else datetime.fromtimestamp(found / 1000, UTC)
        assert told == expected


def document(**more):
    watermark = {"column": "at", "delay": "1 minute", "by": ["p"], **more.pop("watermark", {})}
    decode = {
        "use": "decode",
        "from": "lines",
        "watermark": watermark,
        "with": {"format": "json", "schema": "p STRING, at TIMESTAMP"},
        **more,
    }
    totals = {
        "by": ["p"],
        "window": {"on": "at", "tumbling": "1 minute"},
        "columns": {"n": "count(*)"},
    }
    return {
        "pipeline": "test",
        "sources": {"lines": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        "operators": {
            "rows": decode,
            "totals": {"use": "aggregate", "from": "rows", "with": totals},
        },
        "sinks": {
            "out": {"use": "console", "from": "totals"},
            "raw": {"use": "console", "from": "rows"},
        },
    }


def without_state(whole):
    del whole["operators"]["totals"], whole["sinks"]["out"]
    return whole


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"watermark": {"by": ["x"]}}, "there is no column 'x'"),
        ({"watermark": {"by": ["p", "P"]}}, "two columns"),
    ],
)
def test_what_is_wrong_is_told(more, words):
    with pytest.raises(DocumentError, match=words):
        make_plan(without_state(document(**more)))


def test_without_state_below_there_is_no_relay():
    plan = make_plan(without_state(document()))
    assert plan.relays == ()
    assert "watermark at - 1 minute, the lowest by p" in as_text(plan)


def test_partitions_of_other_columns_are_forgotten(tmp_path):
    """Pass: a document that tells partitions apart otherwise does not wait for those of before."""
    old = Marking("at", DELAY, ("p",)).marks({}, [written(tmp_path, 0, [("a", 1, 5)])], 1.0)
    new = Marking("at", DELAY, ("p", "n"))
    marks = new.marks(old, [written(tmp_path, 1, [("a", 1, 600)])], 2.0)
    assert [at for at, _ in marks.values()] == [
        (START + timedelta(seconds=600)).timestamp() * 10**6
    ]


def test_rows_without_partitions_are_one(tmp_path):
    whole = Marking("at", DELAY, ())
    marks = whole.marks({}, [written(tmp_path, 0, [("a", 1, 5), ("b", 2, 65)])], 1.0)
    assert whole.watermark(marks, 0.0, 1.0) == (START + timedelta(seconds=5)).timestamp() * 1000


def test_a_column_of_several_values_is_no_partition():
    whole = without_state(document(watermark={"by": ["tags"]}))
    whole["operators"]["rows"]["with"]["schema"] = "tags ARRAY<STRING>, at TIMESTAMP"
    with pytest.raises(DocumentError, match="tells no partitions apart"):
        make_plan(whole)
