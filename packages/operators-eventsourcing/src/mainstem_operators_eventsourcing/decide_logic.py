"""What `decide` does with a batch: one command after the other, of each key by itself."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import TIME, passed

from mainstem_operators_eventsourcing.app import App
from mainstem_operators_eventsourcing.decide import (
    ACCEPTED,
    ANSWERS,
    EVENTS_OF,
    REASON,
    REPEATED,
    STATE,
)
from mainstem_operators_eventsourcing.rejection import Rejected
from mainstem_operators_eventsourcing.state_logic import States, state_table
from mainstem_operators_eventsourcing.values import Values

_STATES, _SEEN = "states", "seen"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The last second that Python knows, in microseconds since then.
_LAST = 253_402_300_799_000_000
_COMMAND, _VERSION, _DUE, _ID = "command", "version", "due", "_id"


class _Answer(NamedTuple):
    """What became of a command: the version after it, why it was refused, how many events it has."""

    version: int
    reason: str | None
    events: int


class DecideLogic(Logic):
    """Calls the user's functions with the commands of a batch.

    Args:
        rows: the columns of commands.
        app: the user's class.
        by: the key's columns.
        carried: the columns of a command that its events have too.
        commands, states, events: see `DecideOptions`.
        version: the name of an event's version.
        expected: the column with the version that the sender knows.
        command: the column with a command's id.
        remember: how long ids are remembered, in microseconds.
        time: the event time, if there is one.
        order: by which columns commands follow each other.
    """

    def __init__(
        self,
        rows: pl.Schema,
        *,
        app: App,
        by: Sequence[str],
        carried: Sequence[str],
        commands: Values,
        states: Values,
        events: Values,
        version: str,
        expected: str | None,
        command: str | None,
        remember: int | None,
        time: str | None,
        order: Sequence[str],
    ) -> None:
        self._app, self._commands, self._states, self._events = app, commands, states, events
        self._by = pl.Schema({name: rows[name] for name in by})
        self._carried = pl.Schema({name: rows[name] for name in carried})
        self._version, self._expected, self._command = version, expected, command
        self._remember, self._time = remember, time
        self._order = [*order, *([_ID] if _ID in rows else [])]
        self.ports = {"input": rows}
        self.tables = {_STATES: state_table(states)}
        self._facts = pl.Schema({**self._carried, version: pl.Int64()})
        answer: dict[str, pl.DataType] = {
            ACCEPTED: pl.Boolean(),
            REASON: pl.String(),
            EVENTS_OF: pl.Int32(),
            REPEATED: pl.Boolean(),
        }
        self._answers = pl.Schema({**self._facts, **answer})
        self.outputs = {
            MAIN: pl.Schema({**self._facts, **events.schema}),
            STATE: pl.Schema({**States.told(self._by), **states.schema}),
            "rejected": pl.Schema({"reason": pl.String(), "payload": pl.Binary()}),
        }
        if command is not None:
            self.outputs[ANSWERS] = self._answers
            kept = {_COMMAND: rows[command], _VERSION: pl.Int64(), REASON: pl.String()}
            self.tables[_SEEN] = Table(
                pl.Schema({**kept, EVENTS_OF: pl.Int32(), _DUE: TIME}), due=_DUE
            )

    def step(self, step: Step) -> Done:
        """Answer the commands."""
        rows = step.rows["input"].sort(KEY, *self._order, nulls_last=False, maintain_order=True)
        state = dict(step.state)
        if self._command is not None:
            over = passed(_DUE, step.watermark)
            state[_SEEN] = state[_SEEN].filter(~over)
        if rows.is_empty():
            return Done(state=state if self._command is not None else {})
        touched = rows.select(KEY).unique()
        before = state[_STATES]
        mine = before.join(touched, on=KEY, how="semi", maintain_order="left")
        told = self.wants(STATE)
        states = States(self._app, self._states, mine, self._by, told=told)
        work = _Work(self, states, state.get(_SEEN), step.watermark)
        work.run(rows)
        others = before.join(touched, on=KEY, how="anti", maintain_order="left")
        state[_STATES] = pl.concat([others, work.states.after()])
        if self._command is not None:
            state[_SEEN] = pl.concat([state[_SEEN], work.noted()])
        return Done({name: frame for name, frame in work.outputs().items() if frame.height}, state)


class _Work:
    """One step."""

    def __init__(
        self, logic: DecideLogic, states: States, seen: pl.DataFrame | None, watermark: int | None
    ) -> None:
        self._logic, self.states = logic, states
        self._now = _EPOCH + timedelta(microseconds=min(watermark or 0, _LAST))
        self._decide = logic._app.function("decide")
        self._events: list[tuple[Any, ...]] = []
        self._refused: list[tuple[str, bytes]] = []
        self._answers: list[tuple[Any, ...]] = []
        self._noted: list[tuple[Any, ...]] = []
        self._seen: dict[tuple[bytes, Any], _Answer] = {}
        if seen is not None:
            names = [KEY, _COMMAND, _VERSION, REASON, EVENTS_OF]
            for key, command, *answer in seen.select(names).iter_rows():
                self._seen[key, command] = _Answer(*answer)

    def run(self, rows: pl.DataFrame) -> None:
        """Answer commands, in their order."""
        logic, commands = self._logic, self._logic._commands
        names = commands.names
        place = {name: at for at, name in enumerate(names)}
        carried = [place[name] for name in logic._carried]
        by = [place[name] for name in logic._by]
        time = None if logic._time is None else place[logic._time]
        command = None if logic._command is None else place[logic._command]
        for key, *values in rows.select(KEY, *names).iter_rows():
            facts = tuple([values[at] for at in carried])
            at = None if time is None else values[time]
            if command is None:
                self._answer(key, values, facts, by, at)
                continue
            known = self._seen.get((key, values[command]))
            answer = known or self._answer(key, values, facts, by, at)
            if known is None:
                self._seen[key, values[command]] = answer
                self._noted.append((key, values[command], *answer, self._until(at)))
            elif known.reason is not None:
                self._refuse(known.reason, values)
            told = (answer.reason is None, answer.reason, answer.events, known is not None)
            self._answers.append((*facts, answer.version, *told))

    def _answer(
        self, key: bytes, values: Sequence[Any], facts: tuple[Any, ...], by: Sequence[int], at: Any
    ) -> _Answer:
        """Let a command be decided."""
        logic, states = self._logic, self.states
        given = logic._commands.given(values)
        version = states.version(key)
        try:
            if logic._expected is not None:
                expected = given[logic._expected]
                if expected is not None and expected != version:
                    raise Rejected(f"version {expected} is expected, and {version} is there")
            found = self._decide(states.of(key), given)
            if isinstance(found, Iterable) and not isinstance(found, Mapping):
                found = [*found]  # it may raise
        except Rejected as refused:
            reason = str(refused) or "rejected"
            self._refuse(reason, values)
            return _Answer(version, reason, 0)
        except Exception as error:
            logic._app.fail("decide", error)
        taken = self._taken(found)
        if not taken:
            return _Answer(version, None, 0)
        # As others will read them: with what was left out, and what is known of all.
        known = dict(zip(logic._carried, facts, strict=False))
        events = []
        for number, event in enumerate(taken, version + 1):
            known[logic._version] = number
            events.append(known | logic._events.given(event))
            self._events.append((*facts, number, *event))
        had = states.has(key)
        version += len(events)
        states.evolve(key, events, version)
        states.tell(key, [values[place] for place in by], had, at)
        return _Answer(version, None, len(events))

    def _taken(self, found: Any) -> list[tuple[Any, ...]]:
        """Return the events that `decide` has returned.

        Raises:
            ValueError: they are none.
        """
        name, values = self._logic._app.name, self._logic._events
        if found is None:
            return []
        if isinstance(found, Mapping):
            raise ValueError(f"{name}.decide returned one event, and no list of them")
        if not isinstance(found, list):
            told = type(found).__name__
            raise ValueError(f"{name}.decide returned {told}, and no events")
        return [values.taken(event) for event in found]

    def _refuse(self, reason: str, values: Sequence[Any]) -> None:
        given = self._logic._commands.given(values)
        shown = {name: value for name, value in given.items() if not name.startswith("_")}
        self._refused.append((reason, _json(shown).encode()))

    def _until(self, at: Any) -> datetime | None:
        """Return until when a command is remembered."""
        try:
            # A command that is late is remembered from now on.
            until: datetime = max(at, self._now) + timedelta(
                microseconds=self._logic._remember or 0
            )
            return until
        except OverflowError:
            return None

    def noted(self) -> pl.DataFrame:
        """Return the commands that are to be remembered."""
        kinds = self._logic.tables[_SEEN].columns
        schema = {KEY: pl.Binary(), **kinds}
        return pl.DataFrame(self._noted, schema=schema, orient="row")

    def outputs(self) -> dict[str, pl.DataFrame]:
        """Return what comes out."""
        logic = self._logic
        found = {
            MAIN: logic._events.frame(self._events, logic._facts),
            STATE: self.states.changes(),
            "rejected": pl.DataFrame(self._refused, schema=logic.outputs["rejected"], orient="row"),
        }
        if ANSWERS in logic.outputs:
            found[ANSWERS] = pl.DataFrame(self._answers, schema=logic._answers, orient="row")
        return found


def _json(value: Any) -> str:
    """Return a value as JSON, as Spark writes it: without what is null."""
    if isinstance(value, Mapping):
        parts = ((key, each) for key, each in value.items() if each is not None)
        return "{" + ",".join(f"{json.dumps(_text(k))}:{_json(v)}" for k, v in parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join("null" if each is None else _json(each) for each in value) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return json.dumps(_text(value), ensure_ascii=False)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        zoned = value.astimezone(UTC) if value.tzinfo is not None else value
        text = zoned.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if value.tzinfo is not None else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return str(value)
