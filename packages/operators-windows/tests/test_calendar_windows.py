"""Windows of a time zone's calendar, and windows with an offset, beside plain Python."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from mainstem.errors import DocumentError, OptionError
from mainstem_operators_windows.window import Window, windowed

COUNT = {"columns": {"n": "count(*)"}}
#: A summer that begins, one that ends, a day that was left out, a midnight that was, and a year's end.
TIMES = [
    datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(minutes=37 * n)
    for day in ("2024-03-30", "2024-10-26", "2011-12-29", "2018-11-03", "2025-12-31", "2024-02-28")
    for n in range(110)
]


def midnight(day: datetime, zone: ZoneInfo) -> datetime:
    """Return when a day begins there: the first instant of it, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def expected(unit: str, name: str) -> Counter:
    zone, found = ZoneInfo(name), Counter()
    for at in TIMES:
        here = at.astimezone(zone)
        first = {
            "day": here,
            "week": here - timedelta(days=here.weekday()),
            "month": here.replace(day=1),
            "quarter": here.replace(day=1, month=(here.month - 1) // 3 * 3 + 1),
            "year": here.replace(day=1, month=1),
        }[unit].replace(tzinfo=None)
        later = {"day": 1, "week": 7, "month": 32, "quarter": 95, "year": 370}[unit]
        after = first + timedelta(days=later)
        if unit in ("month", "quarter", "year"):
            after = after.replace(day=1)
        found[midnight(first, zone), midnight(after, zone)] += 1
    return found


def document(pipeline, window, *, flush=True):
    rows = {"path": "./in", "format": "jsonlines", "schema": "at TIMESTAMP"}
    pipeline.document(
        trigger={"available_now": True, "flush": flush},
        sources={
            "rows": {"use": "files", "with": rows, "watermark": {"column": "at", "delay": "1 hour"}}
        },
        operators={
            "total": {
                "use": "aggregate",
                "from": "rows",
                "with": {"window": {"on": "at", **window}, **COUNT},
            }
        },
        sinks={"out": pipeline.sink("out", "total")},
    )
    return pipeline


def found(pipeline) -> Counter:
    rows = pipeline.rows("out")
    return Counter(
        {
            tuple(datetime.fromisoformat(r[name]) for name in ("window_start", "window_end")): r[
                "n"
            ]
            for r in rows
        }
    )


@pytest.mark.parametrize(
    ("unit", "zone"),
    [
        ("day", "Europe/Berlin"),
        ("day", "Pacific/Apia"),
        ("day", "America/Sao_Paulo"),
        ("week", "Asia/Kathmandu"),
        ("month", "America/New_York"),
        ("quarter", "Australia/Lord_Howe"),
        ("year", "UTC"),
    ],
)
@pytest.mark.in_turn
def test_windows_of_a_calendar_are_those_of_its_zone(pipeline, spark, unit, zone):
    """Pass: each window begins and ends when it does there, with the rows of its hours; each once."""
    document(pipeline, {"calendar": unit, "zone": zone})
    pipeline.feed("1.json", [json.dumps({"at": at.isoformat()}) for at in TIMES])
    pipeline.run()
    assert len(pipeline.rows("out")) == len(found(pipeline))
    assert found(pipeline) == expected(unit, zone)


@pytest.mark.in_turn
def test_a_day_comes_out_when_it_is_over_there(pipeline, spark):
    """Pass: the watermark passes midnight in Berlin, an hour before that in UTC; a row before it is late."""
    document(pipeline, {"calendar": "day", "zone": "Europe/Berlin"}, flush=False)
    for number, at in enumerate(("2024-01-10T12:00:00Z", "2024-01-11T00:30:00Z")):
        pipeline.feed(f"{number}.json", [json.dumps({"at": at})])
        pipeline.run()
    assert [r["n"] for r in pipeline.rows("out")] == [1]
    pipeline.feed("3.json", [json.dumps({"at": "2024-01-10T13:00:00Z"})])
    pipeline.run()
    assert [r["n"] for r in pipeline.rows("out")] == [1]


@pytest.mark.in_turn
def test_windows_begin_at_their_offset(pipeline, spark):
    """Pass: hours that begin at a quarter past, and such of two hours that hop by one."""
    document(pipeline, {"hopping": "2 hours", "every": "1 hour", "offset": "15 minutes"})
    pipeline.feed("1.json", [json.dumps({"at": "2024-01-01T10:20:00Z"})])
    pipeline.run()
    starts = sorted(start.hour * 60 + start.minute for start, _ in found(pipeline))
    assert starts == [9 * 60 + 15, 10 * 60 + 15]


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ({"calendar": "day", "tumbling": "1 hour"}, "exactly one of"),
        ({"calendar": "day", "zone": "Europe/Nowhere"}, "no time zone 'Europe/Nowhere'"),
        ({"tumbling": "1 day", "zone": "Europe/Berlin"}, "`zone` is that of `calendar`"),
        ({"calendar": "day", "offset": "1 hour"}, "goes with `tumbling` and `hopping`"),
        ({"tumbling": "1 hour", "offset": "1 hour"}, "below the time from one window to the next"),
        ({"calendar": "decade"}, "'day', 'week', 'month', 'quarter' or 'year'"),
    ],
)
def test_what_is_no_calendar_is_told(pipeline, window, words):
    """Pass: an error of the document that says what is wrong."""
    with pytest.raises(DocumentError) as caught:
        document(pipeline, window).plan()
    assert words in str(caught.value)


def test_a_calendar_needs_utc_as_the_sessions_zone(spark):
    """Pass: another one is an error that names the setting."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        frame = spark.sql("SELECT current_timestamp() AS at")
        with pytest.raises(OptionError, match="need UTC as the session"):
            windowed(frame, Window(on="at", calendar="day"), "at")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
