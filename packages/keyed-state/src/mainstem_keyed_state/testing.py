"""Runs a `Logic` without Spark: the library in plain Python, as hostile as the contract allows.

State is kept key by key. Each batch is handed over in portions that are cut by key, the rows of other
keys beside the touched ones, all in an order of no meaning; what comes back is compared with what the
contract asks.
"""

from __future__ import annotations

import pickle
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from mainstem_keyed_state.directory import Directory
from mainstem_keyed_state.entries import opened
from mainstem_keyed_state.logic import KEY, MAIN, Logic, Step
from mainstem_keyed_state.page_codec import decode
from mainstem_keyed_state.runner import Stepping

Row = Mapping[str, Any]
#: How a port's rows get their key: columns, or a function from a row to values.
Keys = Sequence[str] | Callable[[Row], Sequence[Any]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(at: datetime) -> int:
    """Return a time as microseconds since 1970."""
    delta = at - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


class Driver:
    """One run of a logic, and its restarts.

    Args:
        logic: what is run.
        keys: by port.
        times: by port that has a watermark: the event-time column and the delay in microseconds.
        pages: into how many portions a batch's keys are cut.
        seed: of the order of rows, and of which other keys' rows stand beside the touched ones.

    Attributes:
        outputs: all rows so far, by output, in the order in which they came.
        watermark: of the next batch, in microseconds since 1970; None before each port with a watermark
            has seen a time.
        touched: how many keys the last batch has touched.
    """

    def __init__(
        self,
        logic: Logic,
        keys: Mapping[str, Keys],
        times: Mapping[str, tuple[str, int]] | None = None,
        *,
        pages: int = 1,
        seed: int = 0,
    ) -> None:
        self.logic = logic
        self.watermark: int | None = None
        self.outputs: dict[str, list[dict[str, Any]]] = {name: [] for name in logic.outputs}
        self.outputs.setdefault(MAIN, [])
        self.touched = 0
        self._keys = keys
        self._times = dict(times or {})
        self._seen: dict[str, int] = {}
        self._pages = pages
        self._random = random.Random(seed)
        self._state: dict[str, dict[bytes, pl.DataFrame]] = {name: {} for name in logic.tables}
        self._shared = {
            name: pl.DataFrame(schema={KEY: pl.Binary, **table.columns})
            for name, table in logic.tables.items()
            if table.shared
        }

    # -- what tests do ----------------------------------------------------------------------

    def batch(
        self, rows: Mapping[str, Sequence[Row]] | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """Run one batch; return what came of it, by output."""
        given = rows or {}
        frames = {port: self._frame(port, given.get(port, ())) for port in self.logic.ports}
        came: dict[str, list[dict[str, Any]]] = {name: [] for name in self.outputs}
        everywhere = {port: frames.pop(port) for port in self.logic.everywhere}
        if any(frame.height for frame in everywhere.values()):
            for name, found in self._share(everywhere).items():
                came[name] += found
        touched = self._touched(frames)
        self.touched = len(touched)
        for portion in self._portions(touched, frames):
            for name, found in self._step(portion, touched, frames).items():
                came[name] += found
        for name, found in came.items():
            self.outputs[name] += found
        self._see(frames)
        return came

    def advance(self, to: int) -> None:
        """Move the watermark to a time, as a control stream does, and run a batch without rows."""
        self.watermark = max(to, self.watermark or to)
        for port, (_, delay) in self._times.items():
            self._seen[port] = max(self._seen.get(port, to + delay), to + delay)
        self.batch()

    def restart(self) -> None:
        """Keep nothing but what a checkpoint keeps."""
        self.logic = pickle.loads(pickle.dumps(self.logic))
        self._state = pickle.loads(pickle.dumps(self._state))
        self._shared = pickle.loads(pickle.dumps(self._shared))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a kind of state, of all keys."""
        if table in self._shared:
            return self._shared[table].to_dicts()
        return [row for frame in self._state[table].values() for row in frame.to_dicts()]

    def size(self) -> int:
        """Return how many rows of state there are."""
        return sum(frame.height for table in self._state.values() for frame in table.values())

    # -- the library's part -----------------------------------------------------------------

    def _frame(self, port: str, rows: Sequence[Row]) -> pl.DataFrame:
        schema = self.logic.ports[port]
        strange = {name for row in rows for name in row} - set(schema)
        assert not strange, f"port {port!r} has no columns {sorted(strange)}"
        frame = pl.DataFrame(
            [{name: row.get(name) for name in schema} for row in rows],
            schema=dict(schema),
            orient="row",
        )
        keys = pl.Series(KEY, [self._key(port, row) for row in rows], dtype=pl.Binary)
        return frame.with_columns(keys)

    def _key(self, port: str, row: Row) -> bytes | None:
        how = self._keys[port]
        values = how(row) if callable(how) else [row.get(name) for name in how]
        return None if any(value is None for value in values) else repr(list(values)).encode()

    def _touched(self, frames: Mapping[str, pl.DataFrame]) -> set[bytes]:
        touched = {key for frame in frames.values() for key in frame[KEY] if key is not None}
        for name, table in self.logic.tables.items():
            if table.due is None or self.watermark is None:
                continue
            for key, frame in self._state[name].items():
                first = frame[table.due].dt.timestamp("us").min()
                if first is not None and int(first) <= self.watermark:  # type: ignore[arg-type]
                    touched.add(key)
        return touched

    def _portions(
        self, touched: set[bytes], frames: Mapping[str, pl.DataFrame]
    ) -> list[set[bytes | None]]:
        cut: dict[int, set[bytes | None]] = {}
        for key in sorted(touched):
            cut.setdefault(zlib.crc32(key) % self._pages, set()).add(key)
        if any(frame[KEY].null_count() for frame in frames.values()):
            cut.setdefault(self._random.randrange(self._pages), set()).add(None)
        portions = list(cut.values())
        self._random.shuffle(portions)
        return portions

    def _share(self, rows: Mapping[str, pl.DataFrame]) -> dict[str, list[dict[str, Any]]]:
        """Let the logic share rows, twice: for two buckets it must be the same."""
        found = []
        for _ in range(2):
            mixed = {port: self._mixed(frame) for port, frame in rows.items()}
            state = {name: self._mixed(frame) for name, frame in self._shared.items()}
            found.append(self.logic.share(Step(mixed, state, self.watermark)))
        one, two = found
        for name, frame in one.state.items():
            assert name in self._shared, f"state {name!r} is not declared as shared"
            assert dict(frame.schema) == {KEY: pl.Binary, **self.logic.tables[name].columns}
            assert _alike(frame, two.state[name]), f"{name!r} depends on the order of rows"
        self._shared |= one.state
        return self._told(one.outputs)

    def _step(
        self,
        portion: set[bytes | None],
        touched: set[bytes],
        frames: Mapping[str, pl.DataFrame],
    ) -> dict[str, list[dict[str, Any]]]:
        rows = {port: self._mixed(_of(frame, portion)) for port, frame in frames.items()}
        others = {
            key
            for kept in self._state.values()
            for key in kept
            if key not in touched and self._random.random() < 0.5
        }
        given = {
            name: self._mixed(self._shared[name])
            if table.shared
            else self._given(name, portion | others)
            for name, table in self.logic.tables.items()
        }
        for name, table in self.logic.tables.items():
            if table.queued:
                given[name] = self._let_go(name, table.due or "", portion)
        done = self.logic.step(Step(rows=rows, state=given, watermark=self.watermark))
        for name, frame in done.state.items():
            assert name not in self._shared, f"state {name!r} is changed by `share` alone"
            assert dict(frame.schema) == {KEY: pl.Binary, **self.logic.tables[name].columns}, (
                f"state {name!r} came back as {frame.schema}"
            )
            if self.logic.tables[name].queued:
                self._let_wait(name, frame)
            else:
                self._keep(name, given[name], frame, portion)
        return self._told(done.outputs)

    def _told(self, outputs: Mapping[str, pl.DataFrame]) -> dict[str, list[dict[str, Any]]]:
        found = {}
        for name, frame in outputs.items():
            schema = self.logic.outputs[name]
            assert dict(frame.schema) == dict(schema), f"output {name!r} came as {frame.schema}"
            found[name] = frame.to_dicts()
        return found

    def _given(self, name: str, keys: set[bytes | None]) -> pl.DataFrame:
        schema = pl.Schema([(KEY, pl.Binary), *self.logic.tables[name].columns.items()])
        kept = self._state[name]
        found = [
            kept[key] for key in sorted(key for key in keys if key in kept and key is not None)
        ]
        return self._mixed(pl.concat([pl.DataFrame(schema=schema), *found]).select(*schema))

    def _let_go(self, name: str, due: str, portion: set[bytes | None]) -> pl.DataFrame:
        """Return the rows of a queued table that are due, and keep the others."""
        waiting = self._state[name]
        some = self._given(name, portion)
        ripe = some[due].dt.timestamp("us") <= (self.watermark or 0)
        for key in waiting.keys() & portion:
            del waiting[key]
        self._let_wait(name, some.filter(~ripe))
        return some.filter(ripe)

    def _let_wait(self, name: str, rows: pl.DataFrame) -> None:
        waiting = self._state[name]
        for (key, *_), frame in rows.partition_by(KEY, as_dict=True).items():
            waiting[key] = pl.concat([waiting[key], frame]) if key in waiting else frame

    def _mixed(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.sample(fraction=1.0, shuffle=True, seed=self._random.randrange(2**31))

    def _keep(
        self, name: str, before: pl.DataFrame, after: pl.DataFrame, portion: set[bytes | None]
    ) -> None:
        assert not after[KEY].null_count(), f"state {name!r} came back with rows without a key"
        new = {key[0]: frame for key, frame in after.partition_by(KEY, as_dict=True).items()}
        old = {key[0]: frame for key, frame in before.partition_by(KEY, as_dict=True).items()}
        for key in new.keys() | old.keys():
            if key not in portion:
                same = key in new and key in old and _alike(old[key], new[key])
                assert same, f"state {name!r}: rows of {key!r}, which was not touched, have changed"
            elif key in new:
                self._state[name][key] = new[key]
            else:
                self._state[name].pop(key, None)

    def _see(self, frames: Mapping[str, pl.DataFrame]) -> None:
        for port, (column, _) in self._times.items():
            latest = frames[port][column].dt.timestamp("us").max()
            if latest is not None:
                self._seen[port] = max(int(latest), self._seen.get(port, int(latest)))  # type: ignore[arg-type]
        if self._times and self._seen.keys() >= self._times.keys():
            reached = min(self._seen[port] - delay for port, (_, delay) in self._times.items())
            self.watermark = max(reached, reached if self.watermark is None else self.watermark)


class Paged:
    """Runs a logic as `Driver` does, by the library's own pages: few bytes each, so that there are many.

    A batch without rows reaches the logic only if the bucket's timer has passed, as with Spark.

    Args:
        times: by port that has a watermark: the event-time column and the delay in microseconds.
    """

    def __init__(
        self,
        logic: Logic,
        keys: Mapping[str, Keys],
        times: Mapping[str, tuple[str, int]] | None = None,
        *,
        page_bytes: int = 64,
        portion_bytes: int = 256,
        **_: Any,
    ) -> None:
        self.logic = logic
        self.watermark: int | None = None
        self.outputs: dict[str, list[dict[str, Any]]] = {name: [] for name in logic.outputs}
        self._keys, self._times, self._seen = keys, dict(times or {}), dict[str, int]()
        self._limits = (page_bytes, portion_bytes)
        self._store = _Entries()
        self._timer: int | None = None

    def batch(
        self, rows: Mapping[str, Sequence[Row]] | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """Run one batch; return what came of it, by output."""
        came: dict[str, list[dict[str, Any]]] = {name: [] for name in self.outputs}
        frames = {port: [self._frame(port, some)] for port, some in (rows or {}).items() if some}
        woken = self._timer is not None and self._timer * 1000 <= (self.watermark or 0)
        if frames or woken:
            stepping = Stepping(self.logic, *self._limits)
            for name, found in stepping.bucket(self._store, frames, self.watermark):
                came[name] += found.to_dicts()
            self._timer = stepping.next_timer
        for name, each in came.items():
            self.outputs[name] += each
        for port, (column, _) in self._times.items():
            for row in (rows or {}).get(port, ()):
                self._seen[port] = max(micros(row[column]), self._seen.get(port, 0))
        if self._times and self._seen.keys() >= self._times.keys():
            reached = min(self._seen[port] - delay for port, (_, delay) in self._times.items())
            self.watermark = max(reached, self.watermark or reached)
        return came

    def advance(self, to: int) -> None:
        """Move the watermark to a time, and run a batch without rows."""
        self.watermark = max(to, self.watermark or to)
        self.batch()

    def restart(self, logic: Logic | None = None) -> None:
        """Keep what a checkpoint keeps; go on with another logic, if one is given."""
        self.logic = pickle.loads(pickle.dumps(logic or self.logic))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a kind of state."""
        found = {name: opened(name, entry) for name, entry in self._store.there.items()}
        kept = {name: entry for name, entry in found.items() if entry is not None}
        if ("", 0) not in kept:
            return []
        layouts = Directory.of_bytes(kept["", 0][1]).layouts
        return [
            row
            for (name, _), (layout, data) in kept.items()
            if name == table
            for row in decode(layouts[layout].schema, [data]).to_dicts()
        ]

    def _frame(self, port: str, rows: Sequence[Row]) -> pl.DataFrame:
        schema = self.logic.ports[port]
        plain = [{name: row.get(name) for name in schema} for row in rows]
        keys = pl.Series(KEY, [self._key(port, row) for row in rows], dtype=pl.Binary)
        return pl.DataFrame(plain, schema=dict(schema)).select(keys, pl.all())

    def _key(self, port: str, row: Row) -> bytes | None:
        how = self._keys[port]
        values = list(how(row) if callable(how) else [row.get(name) for name in how])
        if any(value is None for value in values):
            return None
        plain = repr(values).encode()
        return zlib.crc32(plain).to_bytes(4, "big") + plain


class _Entries:
    def __init__(self) -> None:
        self.there: dict[Any, Any] = {}

    def get(self, names: Sequence[Any]) -> list[Any]:
        return list(map(self.there.get, names))

    def put(self, entries: Mapping[Any, Any]) -> None:
        self.there.update(entries)

    def remove(self, names: Sequence[Any]) -> None:
        for name in names:
            del self.there[name]


def _of(frame: pl.DataFrame, portion: set[bytes | None]) -> pl.DataFrame:
    keep = [key in portion for key in frame[KEY]]
    return frame.filter(pl.Series(keep, dtype=pl.Boolean))


def _alike(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    def sorted_rows(frame: pl.DataFrame) -> list[str]:
        return sorted(map(repr, frame.rows()))

    return sorted_rows(one) == sorted_rows(other)


def cut(rows: Sequence[Any], places: Sequence[int]) -> list[list[Any]]:
    """Return rows in parts, cut at places; parts may be empty."""
    parts, begin = [], 0
    for place in sorted(min(place, len(rows)) for place in places):
        parts.append(list(rows[begin:place]))
        begin = place
    return [*parts, list(rows[begin:])]
