"""Windows of event time: their options, and how rows get theirs on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from zoneinfo import available_timezones

from mainstem import Duration, OptionError, Options, PositiveDuration, option, write_duration
from mainstem.columns import EVENT_TIME, literal, quoted
from pydantic import field_validator, model_validator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

#: Of each unit of the calendar, its interval in SQL, and how long it lasts at most; a zone may add hours.
_UNITS = {
    "day": ("1 DAY", timedelta(days=1, hours=2)),
    "week": ("7 DAYS", timedelta(days=7, hours=2)),
    "month": ("1 MONTH", timedelta(days=31, hours=2)),
    "quarter": ("3 MONTHS", timedelta(days=92, hours=2)),
    "year": ("1 YEAR", timedelta(days=366, hours=2)),
}
_MICROSECOND = timedelta(microseconds=1)
_SESSION_ZONE = "spark.sql.session.timeZone"
_WINDOW, _START, _END = "_window", "_start", "_end"


class Window(Options):
    """A window: exactly one of `tumbling`, `hopping`, `calendar`, `session`, `sliding` and `count`."""

    on: str = option(description="The TIMESTAMP column with the event's time.")
    tumbling: Duration | None = option(
        None, description="Windows of this length, one after another.", example="1 hour"
    )
    hopping: Duration | None = option(
        None, description="Windows of this length that overlap; `every` says when one begins."
    )
    every: Duration | None = option(
        None, description="The time from one hopping window to the next."
    )
    offset: Duration | None = option(
        None,
        description="How long after a multiple of their length (of `every`, if they hop), counted from "
        "1970, windows begin.",
        example="15 minutes",
    )
    calendar: Literal["day", "week", "month", "quarter", "year"] | None = option(
        None,
        description="Windows of the calendar in `zone`; weeks begin on Monday. A day has the hours that "
        "it has there.",
    )
    zone: str = option(
        "UTC",
        min_length=1,
        description="The time zone whose calendar it is, by its name in the tz database.",
        example="Europe/Berlin",
    )
    session: Duration | None = option(
        None, description="A window lasts as long as events of a key follow within this gap."
    )
    sliding: PositiveDuration | None = option(
        None,
        description="A window for each time at which a row is: so far back, both ends among it.",
        example="5 minutes",
    )
    count: int | None = option(
        None,
        ge=1,
        description="Windows of so many rows of a key, in the order of their time.",
        example=100,
    )
    slide: int | None = option(
        None,
        ge=1,
        description="After how many rows there is a next window of `count` rows; when left out, they "
        "come one after another.",
    )
    start: str = option(
        "window_start", min_length=1, description="The name of the column with the window's start."
    )
    end: str = option(
        "window_end", min_length=1, description="The name of the column with the window's end."
    )
    number: str = option(
        "window_number",
        min_length=1,
        description="The name of the column with the number of a window of `count` rows, from 1.",
    )

    @field_validator("zone")
    @classmethod
    def _known(cls, value: str) -> str:
        known = available_timezones()
        if known and value not in known:
            raise ValueError(f"there is no time zone {value!r}")
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Window:
        lengths = [k for k in (self.tumbling, self.hopping, self.session) if k is not None]
        others = [k for k in (self.calendar, self.sliding, self.count) if k is not None]
        if len(lengths) + len(others) != 1:
            raise ValueError(
                "expected exactly one of `tumbling`, `hopping`, `calendar`, `session`, `sliding` and "
                "`count`"
            )
        if self.slide is not None and self.count is None:
            raise ValueError("`slide` goes with `count`")
        if self.slide is not None and self.count is not None and self.slide > self.count:
            raise ValueError("`slide` above `count` leaves rows out")
        if (self.hopping is None) != (self.every is None):
            raise ValueError("`hopping` and `every` go together")
        if any(length <= timedelta() for length in (*lengths, *filter(None, [self.every]))):
            raise ValueError("expected a length above 0")
        if self.hopping is not None and self.every is not None and self.every > self.hopping:
            raise ValueError("`every` above `hopping` leaves gaps between windows")
        if self.calendar is None and "zone" in self.model_fields_set:
            raise ValueError("`zone` is that of `calendar`, which is not there")
        if self.offset is not None:
            if self.tumbling is None and self.hopping is None:
                raise ValueError("`offset` goes with `tumbling` and `hopping`")
            if not timedelta() <= self.offset < (self.every or self.tumbling or timedelta()):
                raise ValueError("expected an `offset` below the time from one window to the next")
        return self

    @property
    def by_rows(self) -> bool:
        """Whether windows go by rows in the order of their time, and end with one."""
        return self.sliding is not None or self.count is not None

    @property
    def longest(self) -> timedelta:
        """How long after a row's time its last window ends, at most."""
        if self.by_rows:
            return _MICROSECOND
        if self.calendar is not None:
            return _UNITS[self.calendar][1]
        return self.tumbling or self.hopping or self.session or timedelta()

    def facts(self) -> dict[str, object]:
        """Return what decides which window a row is in."""
        of_calendar = () if self.calendar else ("zone",)
        return self.model_dump(
            mode="json", exclude={"start", "end", "number", *of_calendar}, exclude_none=True
        )


@dataclass(frozen=True)
class Windowed:
    """Rows with their windows.

    Attributes:
        rows: with columns of their windows; a row may be in several.
        groups: what tells windows apart.
        start, end: SQL of a window's start and end, over the groups.
    """

    rows: DataFrame
    groups: Sequence[SparkColumn]
    start: str
    end: str


def windowed(rows: DataFrame, window: Window, on: str) -> Windowed:
    """Return rows with their windows; one without a time is in none, and left out.

    Args:
        on: the column with the time; where it has the watermark, the window's end has it too.

    Raises:
        OptionError: the session has a time zone in which a calendar can't be reckoned.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if window.calendar is None:
        # A column, for one over a column named `window` would be one over the window.
        rows = rows.withColumn(_WINDOW, _spark_window(window, on))
        return Windowed(rows, [F.col(_WINDOW)], f"{_WINDOW}.start", f"{_WINDOW}.end")
    if (session := rows.sparkSession.conf.get(_SESSION_ZONE)) not in ("UTC", "Etc/UTC"):
        raise OptionError(
            f"windows of a calendar need UTC as the session's time zone, which is {session}",
            option="window",
            hint=f"Take `{_SESSION_ZONE}` out of `spark.conf`; `zone` says whose calendar it is.",
        )
    zone, unit = literal(window.zone), window.calendar
    begin = f"date_trunc('{unit}', from_utc_timestamp({quoted(on)}, {zone}))"
    after = f"{begin} + INTERVAL {_UNITS[unit][0]}"
    start, end = (F.expr(f"to_utc_timestamp({text}, {zone})") for text in (begin, after))
    times = {field.name.lower(): field.metadata for field in rows.schema}
    timed = {EVENT_TIME: 0} if EVENT_TIME in times[on.lower()] else {}
    rows = rows.where(f"{quoted(on)} IS NOT NULL")
    rows = rows.withColumns({_START: start, _END: end.alias(_END, metadata=timed)})
    return Windowed(rows, [F.col(_START), F.col(_END)], _START, _END)


def _spark_window(window: Window, on: str) -> SparkColumn:
    from pyspark.sql import functions as F  # noqa: N812

    if window.session is not None:
        return F.session_window(quoted(on), write_duration(window.session))
    length = window.tumbling or window.hopping or timedelta()
    every = window.every or length
    offset = write_duration(window.offset) if window.offset else None
    return F.window(quoted(on), write_duration(length), write_duration(every), offset)
