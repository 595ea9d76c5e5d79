"""What a stream-table join does with the rows of a batch and what it remembers, as frames.

A table's changes become *versions*: a row, from when it holds, until the next version's time. An event
meets the version that holds at its own time, or the newest one. What an event may still have to wait for
decides how much is remembered: see `StreamTableLogic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl
from mainstem_keyed_state import runs
from mainstem_keyed_state.changes import in_order
from mainstem_keyed_state.logic import KEY, MAIN, Done, Logic, Step, Table

from mainstem_operators_joins.frames import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    DELETE,
    TIME,
    passed,
    time_of,
    with_columns,
)

STREAM, TABLE = "stream", "table"
LATE_CHANGES, UNMATCHED = "late_changes", "unmatched"

_VERSIONS, _WAITING, _JOINED = "versions", "waiting", "joined"
_TIME, _SEQUENCE, _GONE = "_time", "_sequence", "_gone"
_DUE, _UNTIL = "__due", "__until"
#: Of an event that met its version: whether one is known, and whether that is a row of the table.
_KNOWN, _MATCHED = "__known", "__matched"
#: So many versions of a key may be out of use before it is woken to drop them; a key that gets changes
#: drops them anyway.
_PATIENCE = 4


@dataclass(frozen=True)
class StreamTableSettings:
    """What is to be joined, and how.

    Attributes:
        as_of: `event_time`: the version that holds at the event's time; `latest`: the newest one known.
        when: `complete`: once the watermark has passed the event; `now`: with what is known, at once.
        join: `inner` or `left`.
        table_key: the table's key columns.
        stream_time: the stream's event-time column; None only with `latest`.
        table_time: the table's: when a version begins to hold; None only with `latest`.
        takes: the table's columns that go into the output, by the name they get there.
        wait: with `now`, how far the watermark must be past the time of an event (if below 0: how far
            it may still be behind) until the event waits no longer for a version, in microseconds; None
            not to wait at all.
        deletes_within: how long, by the watermark, a deleted key is remembered, in microseconds; None
            for ever.
        version_sequence: the output column that tells the sequence of the version used, or None.
        version_time: the one that tells since when it holds, or None.
        table_punctual: whether no change of the table is late; see `mainstem.EventTime`.
        within: how far the time of a version may be from an event's, in microseconds; None for any.
        direction: `backward`: the version that holds at the event's time; `forward`: the first one from
            then on; `nearest`: the nearer of both, of equally near ones the one that holds.
    """

    as_of: Literal["event_time", "latest"]
    when: Literal["complete", "now"]
    join: Literal["inner", "left"]
    table_key: tuple[str, ...]
    stream_time: str | None
    table_time: str | None
    takes: Mapping[str, str]
    wait: int | None = None
    deletes_within: int | None = None
    version_sequence: str | None = None
    version_time: str | None = None
    table_punctual: bool = False
    within: int | None = None
    direction: Literal["backward", "forward", "nearest"] = "backward"

    @property
    def ahead(self) -> int:
        """How far after an event's time a version may begin that it meets, in microseconds."""
        return 0 if self.direction == "backward" else self.within or 0


class StreamTableLogic(Logic):
    """Joins events with the versions of a table.

    What is remembered:

    - `versions`: of a key, those that hold at the watermark or later; with `latest` the newest one. A
      deletion is a version too, so that an older change does not bring the key back.
    - `waiting`: events that are not joined yet; with `complete`, which looks at none before its time,
      apart from their keys. In version 1 these stood by key, too.
    - `joined` (`now` as of event time): up to which time events of a key have been joined, which tells
      of a change whether it came too late for one.

    Two changes of a key with the same time and the same sequence are one change: see `in_order`.

    Args:
        settings: see there.
        stream: the stream's columns, reserved ones too. Its time is never null where one is asked for,
            and with `event_time` no row is late.
        table: the table's columns, with `_change_type` and `_commit_version`. Rows of pre-images must not
            be among the rows, nor such as have no key, time or sequence.
    """

    version = 2

    def __init__(self, settings: StreamTableSettings, stream: pl.Schema, table: pl.Schema) -> None:
        self._set = settings
        self._stream = list(stream)
        self._change = list(table)
        self._by_time = settings.as_of == "event_time"
        # Checked by the operator: where time is asked for, both sides have one.
        self._at, self._from = settings.stream_time or "", settings.table_time or ""
        self._remembers = self._by_time and settings.when == "now"
        self._takes = list(dict.fromkeys(settings.takes.values()))
        self.ports = {STREAM: stream, TABLE: table}
        sequence = table[COMMIT_VERSION]
        told = {settings.version_sequence: sequence, settings.version_time: TIME}
        self.outputs = {
            MAIN: with_columns(
                stream,
                {name: table[column] for name, column in settings.takes.items()},
                {name: kind for name, kind in told.items() if name is not None},
            ),
            LATE_CHANGES: table,
        }
        if settings.join == "inner":
            self.outputs[UNMATCHED] = stream
        version = pl.Schema([(name, table[name]) for name in self._takes])
        facts = {_TIME: TIME, _SEQUENCE: sequence, _GONE: pl.Boolean(), _DUE: TIME}
        self.tables = {_VERSIONS: Table(with_columns(version, facts), due=_DUE)}
        self._waits = settings.when == "complete" or settings.wait is not None
        if self._waits:
            # One that waits for its time alone need not be looked at before.
            queued = settings.when == "complete"
            self.tables[_WAITING] = Table(
                with_columns(stream, {_DUE: TIME}), due=_DUE, queued=queued
            )
        if self._remembers:
            self.tables[_JOINED] = Table(pl.Schema({_UNTIL: TIME, _DUE: TIME}), due=_DUE)

    def migrate(
        self, state: Mapping[str, pl.DataFrame], version: int
    ) -> Mapping[str, pl.DataFrame]:
        return state

    def step(self, step: Step) -> Done:
        """Take in the table's changes, then join the events that need not wait."""
        outputs, state = {}, {}
        events, changes = step.rows[STREAM], step.rows[TABLE]
        outputs[LATE_CHANGES] = self._late_changes(step, changes)
        mine, others = self._take_in(step, changes)
        versions = others if mine is None else pl.concat([others, mine])
        ready, waiting = self._ready(step, events, versions)
        outputs |= self._joined(ready)
        if waiting is not None:
            state[_WAITING] = waiting
        if mine is not None:
            # Only now: an event that has just come out may have met a version that none needs any more.
            state[_VERSIONS] = pl.concat([others, self._needed(mine, step.watermark)])
        if self._remembers:
            state |= self._until(step, ready)
        return Done({name: frame for name, frame in outputs.items() if frame.height}, state)

    # -- the table --------------------------------------------------------------------------

    def _take_in(
        self, step: Step, changes: pl.DataFrame
    ) -> tuple[pl.DataFrame | None, pl.DataFrame]:
        """Return all versions of the keys that have changes or are due, or None, and those of others."""
        before = step.state[_VERSIONS]
        due = before.filter(passed(_DUE, step.watermark))
        if not changes.height and not due.height:
            return None, before
        new = changes.select(
            KEY,
            *self._takes,
            (pl.col(self._from) if self._from else pl.lit(None, TIME)).alias(_TIME),
            pl.col(COMMIT_VERSION).alias(_SEQUENCE),
            (pl.col(CHANGE_TYPE) == DELETE).alias(_GONE),
            pl.lit(None, TIME).alias(_DUE),
        )
        touched = pl.concat([new.select(KEY), due.select(KEY)]).unique()
        mine = pl.concat([before.join(touched, on=KEY, how="semi"), new])
        # Of one time the greater sequence holds.
        same = [KEY, _TIME] if self._by_time else [KEY]
        mine = in_order(mine, [*same, _SEQUENCE], _GONE, [*self._takes, _TIME])
        mine = mine.unique(same, keep="last", maintain_order=True)
        return mine, before.join(touched, on=KEY, how="anti")

    def _needed(self, versions: pl.DataFrame, watermark: int | None) -> pl.DataFrame:
        """Return the versions that an event may still meet, and when to look at them again.

        Args:
            versions: all of their keys, in the order in which they hold.
        """
        within, reach = self._set.deletes_within, self._set.within
        forget = pl.lit(None, TIME)
        # An event that looks ahead meets the deletion for as long as it may meet what was before it.
        if within is not None and not self._set.ahead:
            forget = pl.when(_GONE).then(pl.col(_TIME) + pl.duration(microseconds=within))
        if reach is not None:
            # Of no event that comes out after that, whichever way it looks.
            far = pl.duration(microseconds=reach + self._set.ahead + 1)
            forget = pl.min_horizontal(forget, pl.col(_TIME) + far)
        versions = versions.with_columns(forget.alias(_DUE))
        if not self._by_time:
            return versions.filter(~passed(_DUE, watermark))
        versions = versions.with_columns(runs.behind(pl.col(_TIME)).alias(_UNTIL))
        needed = None if watermark is None else watermark - self._set.ahead
        versions = versions.filter(~passed(_UNTIL, needed) & ~passed(_DUE, watermark))
        replaced = pl.col(_UNTIL).is_not_null()
        crowded = pl.len().over(KEY) > _PATIENCE
        out_of_use = pl.col(_UNTIL) + pl.duration(microseconds=self._set.ahead)
        look = pl.when(replaced & crowded).then(out_of_use).when(~replaced).then(_DUE)
        return versions.with_columns(look.alias(_DUE)).drop(_UNTIL)

    def _late_changes(self, step: Step, changes: pl.DataFrame) -> pl.DataFrame:
        """Return the changes that came too late for events that are joined, or may be.

        With `latest`: those that are older than what was known already.
        """
        if not changes.height:
            return changes.select(self._change)
        if not self._by_time:
            known = step.state[_VERSIONS].select(KEY, pl.col(_SEQUENCE).alias(_UNTIL))
            changes = changes.join(known, on=KEY, how="left")
            return changes.filter(pl.col(COMMIT_VERSION) < pl.col(_UNTIL)).select(self._change)
        late = pl.lit(value=False)
        if step.watermark is not None and not self._set.table_punctual:
            late = pl.col(self._from) < time_of(step.watermark)
        if self._remembers:
            until = step.state[_JOINED].select(KEY, _UNTIL)
            changes = changes.join(until, on=KEY, how="left")
            late = late | (pl.col(self._from) <= pl.col(_UNTIL)).fill_null(value=False)
        return changes.filter(late).select(self._change)

    # -- the events -------------------------------------------------------------------------

    def _ready(
        self, step: Step, events: pl.DataFrame, versions: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Return the events that come out now, with their versions, and all that wait from now on.

        The second is None if the same wait as before.
        """
        if not self._waits:
            return self._with_version(events, versions), None
        columns = [KEY, *self.tables[_WAITING].columns]
        # The watermark has passed a time for good once it is beyond it.
        wait = 1 + self._set.ahead if self._set.wait is None else self._set.wait
        due = pl.col(self._at) + pl.duration(microseconds=wait)
        events = events.with_columns(due.alias(_DUE)).select(columns)
        every = pl.concat([step.state[_WAITING], events])
        over = passed(_DUE, step.watermark) | pl.col(KEY).is_null()
        if self._set.when == "complete":
            left = every.filter(~over)
            ready = self._with_version(every.filter(over), versions)
        else:
            every = self._with_version(every, versions)
            over = over | pl.col(_KNOWN)
            left, ready = every.filter(~over).select(columns), every.filter(over)
        return ready, left if events.height or ready.height else None

    def _with_version(self, events: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
        """Return events with their versions' columns, `_KNOWN` and `_MATCHED`.

        The columns are null if there is no row of the table; for their names see `_marked`.
        """
        known = versions.drop(_DUE).join(events.select(KEY).unique(), on=KEY, how="semi")
        known = known.rename(lambda name: name if name == KEY else _marked(name))
        since, gone = _marked(_TIME), pl.col(_marked(_GONE))
        holds = gone.is_not_null()
        alone = known[KEY].n_unique() == known.height and self._set.direction == "backward"
        if not self._by_time or alone:
            found = events.join(known, on=KEY, how="left")
            if self._by_time:
                holds = holds & (pl.col(since) <= pl.col(self._at))
        else:
            found = self._as_of(events, known, since)
        if self._set.within is not None:
            far = (pl.col(since) - pl.col(self._at)).abs()
            holds = holds & (far <= pl.duration(microseconds=self._set.within))
        matched = (holds & ~gone).fill_null(value=False)
        names = [name for name in known.columns if name != KEY]
        return found.with_columns(
            holds.fill_null(value=False).alias(_KNOWN),
            matched.alias(_MATCHED),
            *(pl.when(matched).then(name).alias(name) for name in names),
        )

    def _as_of(self, events: pl.DataFrame, known: pl.DataFrame, since: str) -> pl.DataFrame:
        """Return events with the columns of the version that each meets by its time."""
        events, known = events.sort(self._at), known.sort(since)

        def met(strategy: Literal["backward", "forward"]) -> pl.DataFrame:
            return events.join_asof(
                known,
                left_on=self._at,
                right_on=since,
                by=KEY,
                strategy=strategy,
                coalesce=False,
                check_sortedness=False,
            )

        if self._set.direction != "nearest":
            return met(self._set.direction)
        before, after = met("backward"), met("forward")
        far = [(each[since] - each[self._at]).abs() for each in (before, after)]
        nearer = far[0].is_null() | (far[1] < far[0]).fill_null(value=False)
        names = [name for name in known.columns if name != KEY]
        return before.with_columns(
            before[name].zip_with(~nearer, after[name]).alias(name) for name in names
        )

    def _joined(self, ready: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Return the output's rows, and of an inner join the events that have no partner."""
        settings = self._set
        told = {name: _marked(column) for name, column in settings.takes.items()}
        if settings.version_sequence is not None:
            told[settings.version_sequence] = _marked(_SEQUENCE)
        if settings.version_time is not None:
            told[settings.version_time] = _marked(_TIME)
        whole = [*self._stream, *(pl.col(column).alias(name) for name, column in told.items())]
        if settings.join == "left":
            return {MAIN: ready.select(whole)}
        return {
            MAIN: ready.filter(_MATCHED).select(whole),
            UNMATCHED: ready.filter(~pl.col(_MATCHED)).select(self._stream),
        }

    def _until(self, step: Step, ready: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Return up to which time events of each key have been joined, if that has changed."""
        before = step.state[_JOINED]
        due = passed(_DUE, step.watermark)
        new = ready.filter(pl.col(KEY).is_not_null()).select(KEY, pl.col(self._at).alias(_UNTIL))
        left = before.filter(~due)
        if not new.height and left.height == before.height:
            return {}
        until = pl.concat([left.select(KEY, _UNTIL), new]).group_by(KEY).agg(pl.col(_UNTIL).max())
        again = pl.col(_UNTIL) + pl.duration(microseconds=1)
        return {_JOINED: until.with_columns(again.alias(_DUE)).select(KEY, _UNTIL, _DUE)}


def _marked(name: str) -> str:
    """Return the name of a version's column beside an event's own, and those that this module adds."""
    return f"__version_{name}"
