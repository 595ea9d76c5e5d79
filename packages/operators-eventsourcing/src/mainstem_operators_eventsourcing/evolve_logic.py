"""What `evolve` does with a batch: one event after the other, of each key by itself."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step

from mainstem_operators_eventsourcing.app import App
from mainstem_operators_eventsourcing.state_logic import States, state_table
from mainstem_operators_eventsourcing.values import Values

_STATES, _ID = "states", "_id"


class EvolveLogic(Logic):
    """Calls the user's function with the events of a batch.

    Args:
        rows: the columns of events.
        app: the user's class.
        by: the key's columns.
        events, states: see `EvolveOptions`.
        version: the column with an event's version; None to count them.
        time: the event time, if there is one.
        order: by which columns events follow each other.
    """

    def __init__(
        self,
        rows: pl.Schema,
        *,
        app: App,
        by: Sequence[str],
        events: Values,
        states: Values,
        version: str | None,
        time: str | None,
        order: Sequence[str],
    ) -> None:
        self._app, self._events, self._states = app, events, states
        self._by = pl.Schema({name: rows[name] for name in by})
        self._version, self._time = version, time
        self._order = [*order, *([_ID] if _ID in rows else [])]
        self.ports = {"input": rows}
        self.tables = {_STATES: state_table(states)}
        self.outputs = {MAIN: pl.Schema({**States.told(self._by), **states.schema})}

    def step(self, step: Step) -> Done:
        """Let the events be."""
        rows = step.rows["input"].sort(KEY, *self._order, maintain_order=True)
        if rows.is_empty():
            return Done()
        touched = rows.select(KEY).unique()
        before = step.state[_STATES]
        mine = before.join(touched, on=KEY, how="semi", maintain_order="left")
        states = States(self._app, self._states, mine, self._by)
        names = self._events.names
        place = {name: at for at, name in enumerate(names)}
        by = [place[name] for name in self._by]
        time = None if self._time is None else place[self._time]
        number = None if self._version is None else place[self._version]
        for key, *values in rows.select(KEY, *names).iter_rows():
            known = states.version(key)
            version = known + 1 if number is None else values[number]
            if version <= known and states.knows(key):
                continue
            had = states.has(key)
            states.evolve(key, [self._events.given(values)], version)
            at = None if time is None else values[time]
            states.tell(key, [values[at] for at in by], had, at)
        others = before.join(touched, on=KEY, how="anti", maintain_order="left")
        told = states.changes()
        outputs = {MAIN: told} if told.height else {}
        return Done(outputs, {_STATES: pl.concat([others, states.after()])})
