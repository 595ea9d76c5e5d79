"""Takes a batch's rows of one bucket through the logic, in portions that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from mainstem import failpoint

from mainstem_keyed_state.entries import Entries, Store
from mainstem_keyed_state.hashes import Hashes, hashes_of
from mainstem_keyed_state.loaded_pages import Declared
from mainstem_keyed_state.logic import KEY, Done, Logic, Step
from mainstem_keyed_state.pages import PAGE_BYTES, Pages
from mainstem_keyed_state.queue import queues_of
from mainstem_keyed_state.shared import Shared

#: About how many bytes of rows and state one call of `step` is given, unless one page has more.
PORTION_BYTES = 128 * 1024 * 1024

#: One more than the highest hash.
_PAST = 1 << 32

#: Rows by port, in several frames.
Rows = Mapping[str, Sequence[pl.DataFrame]]


class Stepping:
    """A logic with its state.

    Args:
        page_bytes: the bytes above which a page is cut.
        portion_bytes: about how many bytes one call of `step` is given.

    Attributes:
        timer, next_timer: when the bucket last taken through was to be woken before, and now is, in
            milliseconds of the watermark; None for never.
    """

    def __init__(
        self, logic: Logic, page_bytes: int = PAGE_BYTES, portion_bytes: int = PORTION_BYTES
    ) -> None:
        self._logic = logic
        self._page_bytes = page_bytes
        self._portion_bytes = portion_bytes
        self._ports = {
            port: pl.Schema({KEY: pl.Binary(), **columns}) for port, columns in logic.ports.items()
        }
        self._declared = Declared(logic.tables, logic.version, logic.migrate)
        self._tables = {name: empty.schema for name, empty in self._declared.all.items()}
        self.timer: int | None = None
        self.next_timer: int | None = None

    def bucket(
        self, store: Store, rows: Rows, watermark: int | None, *, home: bool = True
    ) -> Iterator[tuple[str, pl.DataFrame]]:
        """Take a bucket's share of a batch; what is to be kept is in the store at the end.

        Args:
            rows: the bucket's rows by port; none when it was woken.
            watermark: in microseconds; None before there is one.
            home: whether outputs of `Logic.share` are wanted: of one bucket they are.

        Yields:
            Outputs and their rows.

        Raises:
            ValueError: the logic returned what its declarations do not say.
        """
        logic = self._logic
        entries = Entries(store, self._declared)
        pages = Pages(entries, self._declared, self._page_bytes)
        queues = queues_of(entries, self._declared, self._page_bytes)
        whole = {port: _concat(rows.get(port, ()), schema) for port, schema in self._ports.items()}
        shared = Shared(entries, self._declared)
        everywhere = {port: whole.pop(port) for port in logic.everywhere}
        if any(frame.height for frame in everywhere.values()):
            done = logic.share(Step(everywhere, shared.state, watermark))
            self._check(done)
            if wrong := sorted(done.state.keys() - set(self._declared.shared)):
                name = type(logic).__name__
                raise ValueError(f"{name} shares {wrong[0]!r}, which it does not declare as shared")
            shared.keep(done.state)
            if home:
                yield from _filled(done)
        ripe = {table: queue.take(watermark) for table, queue in queues.items()}
        lows = pages.lows()
        #: The rows that come to the pages, of the batch and of what has waited, and their pages' places.
        coming = [*whole.values(), *ripe.values()]
        places = [np.searchsorted(lows, hashes_of(f[KEY]), "right") - 1 for f in coming]
        touched = np.unique(np.concatenate([*places, pages.due(watermark)])).astype(np.int64)
        for portion in self._portions(pages, touched, coming, places):
            mine = [
                f if len(portion) == len(touched) else f.filter(np.isin(at, portion))
                for f, at in zip(coming, places, strict=True)
            ]
            hashes = np.unique(np.concatenate([hashes_of(frame[KEY]) for frame in mine]))
            loaded = pages.load(_places(pages.lows(), lows, portion), hashes, watermark)
            waited = dict(zip(ripe, mine[len(whole) :], strict=True))
            for table, older in loaded.queued.items():
                due = queues[table].sift(older, watermark)
                waited[table] = pl.concat([waited[table], due])
            batch = dict(zip(whole, mine, strict=False))
            state = {**loaded.state, **waited, **shared.state}
            done = logic.step(Step(batch, state, watermark))
            failpoint("keyed-state.stepped")
            self._check(done)
            if wrong := sorted(done.state.keys() & set(self._declared.shared)):
                name = type(logic).__name__
                raise ValueError(f"{name} returned {wrong[0]!r}, which `share` alone changes")
            for table, queue in queues.items():
                if table in done.state:
                    queue.add(done.state[table])
            pages.keep(loaded, {t: f for t, f in done.state.items() if t not in queues})
            entries.flush()
            failpoint("keyed-state.pages-written")
            yield from _filled(done)
        for queue in queues.values():
            queue.keep(watermark)
        # Before there is a watermark Spark's is 0, and a timer that is not after it is lost.
        self.next_timer = _milliseconds(pages.next_due(watermark or 0))
        self.timer = entries.directory.timer
        entries.directory.timer = self.next_timer
        entries.close()
        failpoint("keyed-state.bucket-done")

    def _portions(
        self,
        pages: Pages,
        touched: npt.NDArray[np.int64],
        rows: Sequence[pl.DataFrame],
        places: Sequence[npt.NDArray[np.int64]],
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Cut the touched pages into portions, by the bytes of their state and rows."""
        sizes = np.array([page.size for page in pages.directory.pages], np.float64)
        for frame, at in zip(rows, places, strict=True):
            if frame.height:
                each = frame.estimated_size() / frame.height
                sizes += np.bincount(at, minlength=len(sizes)) * each
        portion = (np.cumsum(sizes[touched]) // self._portion_bytes).astype(np.int64)
        for number in np.unique(portion):
            yield touched[portion == number]

    def _check(self, done: Done) -> None:
        name = type(self._logic).__name__
        for table, rows in done.state.items():
            if table not in self._tables:
                raise ValueError(f"{name} returned a table {table!r}, which it does not declare")
            _hold(f"{name}: table {table!r}", rows, self._tables[table])
        for output, rows in done.outputs.items():
            if output not in self._logic.outputs:
                raise ValueError(f"{name} returned an output {output!r}, which it does not declare")
            _hold(f"{name}: output {output!r}", rows, self._logic.outputs[output])


def _filled(done: Done) -> Iterator[tuple[str, pl.DataFrame]]:
    return ((name, out) for name, out in done.outputs.items() if not out.is_empty())


def _hold(what: str, rows: pl.DataFrame, schema: pl.Schema) -> None:
    if rows.schema != schema:
        raise ValueError(f"{what} has the columns {dict(rows.schema)}; declared: {dict(schema)}")


def _concat(frames: Sequence[pl.DataFrame], schema: pl.Schema) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=schema)
    return pl.concat(frames) if len(frames) > 1 else frames[0]


def _places(now: Hashes, before: Hashes, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where pages are that had these places before others were cut, all parts of them."""
    if len(now) == len(before) and (now == before).all():
        return places
    first = np.searchsorted(now, before[places], "right") - 1
    ends = np.append(before[1:].astype(np.int64), _PAST)
    last = np.searchsorted(now.astype(np.int64), ends[places], "left")
    return np.unique(np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)]))


def _milliseconds(micros: int | None) -> int | None:
    """Return the first whole millisecond at or after a time."""
    return None if micros is None else -(-micros // 1000)
