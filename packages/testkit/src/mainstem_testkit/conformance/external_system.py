"""A model of what stands behind a sink, and sinks over it: what the suite of strategies writes into.

The model is the weakest external system that the contracts allow: what need not be atomic is cut in the
middle when it fails, and what need not be remembered is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import compress, product
from typing import Any, NamedTuple

from mainstem import (
    Batch,
    Changelog,
    FencedError,
    IdentifiedWrites,
    KeyedWrites,
    NumberedWrites,
    Options,
    Sink,
    SinkCapabilities,
    Staged,
    Transactional,
)

#: A batch of a checkpoint: query id and batch id.
Place = tuple[str, int]


class Row(NamedTuple):
    """A row: an event of that name, or a change of a key; refused if it is not good."""

    name: str
    key: str = ""
    value: str | None = ""
    sequence: int = 0
    good: bool = True


class Frame:
    """Stands for the rows of a batch: a strategy hands it on and leaves it alone.

    Args:
        rows: the rows.
        touched: is told when the strategy does not leave it alone.
        ids: whether the rows have an `_id`.

    Attributes:
        read: whether a sink was given it, and so has evaluated it.
    """

    def __init__(
        self, rows: Iterable[Row], touched: Callable[[str], None], *, ids: bool = False
    ) -> None:
        self.rows = tuple(rows)
        self.ids = ids
        self.read = False
        self._touched = touched

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._touched(
                f"a frame was asked for {name!r}: a strategy hands frames on, as they are"
            )
        raise AttributeError(name)


class Session:
    """Stands for `batch.spark`, of which a strategy has no use."""

    def __init__(self, touched: Callable[[str], None]) -> None:
        self._touched = touched

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._touched(f"`batch.spark` was asked for {name!r}: a strategy has no use for it")
        raise AttributeError(name)


class StagedRowsGoneError(RuntimeError):
    """What was to be published is not at the staging place any more."""


class ExternalSystem:
    """Rows, a table by key, a ledger and a staging place.

    Args:
        replaces: whether a batch that is written again takes the place of what it wrote, at once.
        apart: whether each try is staged at a place of its own; if not, there is one for each batch,
            which older runs are fenced off from once a newer one has discarded what was there.

    Attributes:
        rows: what a reader sees, with the batch that it came in.
        table: by key the sequence and the value, None where the key was deleted.
        ledger: the batches that are in, with what they refused.
        epochs: the highest epoch that each checkpoint's runs have shown.
        numbers: by checkpoint, the batch and the number in it of the last row that has one.
        staged: by place: query id, batch id, and of tries apart the epoch and a number.
        changes: how often what a reader sees has changed.
        keyed: whether rows have been written by key.
    """

    def __init__(self, *, replaces: bool = False, apart: bool = False) -> None:
        self.replaces = replaces
        self.apart = apart
        self.rows: list[tuple[Place, Row]] = []
        self.table: dict[str, tuple[int, str | None]] = {}
        self.ledger: dict[Place, tuple[Row, ...]] = {}
        self.epochs: dict[str, int] = {}
        self.numbers: dict[str, tuple[int, int]] = {}
        self.staged: dict[tuple[Any, ...], list[Row]] = {}
        self.changes = 0
        self.keyed = False

    def _fence(self, batch: Batch, *, register: bool = True) -> None:
        if self.epochs.get(batch.query_id, 0) > batch.epoch:
            raise FencedError("a run with a higher epoch has written")
        if register:
            self.epochs[batch.query_id] = batch.epoch

    def _put(self, batch: Batch, rows: Iterable[Row]) -> None:
        place = (batch.query_id, batch.id)
        for row in rows:
            if row.good:
                self.rows.append((place, row))
                self.changes += 1

    # -- what sinks do ----------------------------------------------------------------------

    def write(self, rows: tuple[Row, ...], batch: Batch) -> tuple[Row, ...]:
        """Write rows, and after that the ledger, which a cut leaves out."""
        if self.replaces:
            place = (batch.query_id, batch.id)
            before = [row for where, row in self.rows if where == place]
            if before == [row for row in rows if row.good]:
                return self._enter(rows, batch)
            self.rows = [each for each in self.rows if each[0] != place]
        self._put(batch, rows)
        return self._enter(rows, batch)

    def write_some(self, rows: tuple[Row, ...], batch: Batch) -> None:
        """Be cut while rows are written."""
        if not self.replaces:
            self._put(batch, rows)

    def _enter(self, rows: tuple[Row, ...], batch: Batch) -> tuple[Row, ...]:
        self.ledger[batch.query_id, batch.id] = _refused(rows)
        return _refused(rows)

    def write_once(self, rows: tuple[Row, ...], batch: Batch) -> tuple[Row, ...]:
        """Write rows and the ledger's entry in one transaction, unless it is there."""
        self._fence(batch)
        known = self.ledger.get((batch.query_id, batch.id))
        if known is not None:
            return known
        self._put(batch, rows)
        return self._enter(rows, batch)

    def write_new(self, rows: tuple[Row, ...], batch: Batch) -> tuple[Row, ...]:
        """Write the rows that are not there yet."""
        self._fence(batch)
        there = {row.name for _, row in self.rows}
        self._put(batch, (row for row in rows if row.name not in there))
        return _refused(rows)

    def write_numbered(self, rows: tuple[Row, ...], batch: Batch) -> tuple[Row, ...]:
        """Write the rows whose numbers are higher than the last."""
        self._fence(batch)
        if self.numbers.get(batch.query_id, (-1, 0))[0] > batch.id:
            raise FencedError("rows of a later batch are there")
        for number, row in enumerate(rows):
            if (batch.id, number) > self.numbers.get(batch.query_id, (-1, 0)):
                self.numbers[batch.query_id] = (batch.id, number)
                self._put(batch, [row])
        return _refused(rows)

    def write_keyed(self, rows: tuple[Row, ...], batch: Batch) -> tuple[Row, ...]:
        """Set keys: compared by sequence if the shape has one."""
        self._fence(batch)
        self.keyed = True
        assert isinstance(batch.shape, Changelog), "write_keyed was given rows of no changelog"
        for row in rows:
            before = self.table.get(row.key)
            newer = before is None or batch.shape.sequence is None or row.sequence > before[0]
            if row.good and newer:
                self.changes += before is None or before[1] != row.value
                self.table[row.key] = (row.sequence, row.value)
        return _refused(rows)

    def stage(self, rows: tuple[Row, ...], batch: Batch) -> tuple[Any, ...]:
        """Put rows where nobody reads; return the place."""
        place: tuple[Any, ...] = (batch.query_id, batch.id)
        if self.apart:
            place = (
                *place,
                batch.epoch,
                sum(each[:3] == (*place, batch.epoch) for each in self.staged),
            )
        else:
            self._fence(batch, register=False)
        self.staged.setdefault(place, []).extend(rows)
        return place

    def publish(self, place: tuple[Any, ...], batch: Batch) -> tuple[Row, ...]:
        """Make staged rows visible in one transaction with the ledger's entry, unless it is there."""
        self._fence(batch)
        rows = self.staged.pop(place, None)
        known = self.ledger.get((batch.query_id, batch.id))
        if known is None and rows is None:
            raise StagedRowsGoneError("nothing is staged there")
        if known is not None:
            return known
        self._put(batch, rows or ())
        return self._enter(tuple(rows or ()), batch)

    def discard(self, batch: Batch) -> None:
        """Remove what earlier tries, and runs that have been replaced, left at the staging place."""
        if not self.apart:
            self._fence(batch)
        for place in [p for p in self.staged if p[0] == batch.query_id]:
            if not self.apart or place[2] <= batch.epoch:
                del self.staged[place]


def _refused(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(row for row in rows if not row.good)


class NoOptions(Options):
    """None."""


@dataclass(frozen=True)
class Kind:
    """What a model sink can do.

    `apart` says how it stages, see `ExternalSystem`.
    """

    abilities: frozenset[str] = frozenset()
    replaces: bool = False
    apart: bool = False

    def __str__(self) -> str:
        named = [*sorted(self.abilities), *(["replaces_batch"] if self.replaces else [])]
        return " ".join(named or ["appends"]) + (" (tries apart)" if self.apart else "")

    @property
    def lacking(self) -> list[str]:
        """The names of what the sink has not."""
        lacking = sorted(_ABILITIES.keys() - self.abilities)
        return lacking if self.replaces else [*lacking, "replaces_batch"]


#: Hands a call to whoever decides what comes of it: name, batch, all of it, and what a cut leaves.
Hand = Callable[[str, Batch, Callable[[], Any], Callable[[], Any]], Any]


class ModelSink(Sink):
    """A sink over the model."""

    options: NoOptions

    def __init__(
        self, kind: Kind, system: ExternalSystem, hand: Hand, frame: Callable[..., Frame]
    ) -> None:
        super().__init__(NoOptions())
        self.capabilities = SinkCapabilities(replaces_batch=kind.replaces)
        self._kind = kind
        self._system = system
        self._hand = hand
        self._frame = frame

    def _write(self, name: str, frame: Any, batch: Batch, *, cut: str = "") -> Any:
        """Hand over a call that writes rows.

        Args:
            cut: the method of the external system that is given half of the rows when the call fails;
                none if it then leaves nothing.
        """
        if not isinstance(frame, Frame):
            raise TypeError(f"{name} was given {frame!r}, which is not the frame of a batch")
        frame.read = True
        rows, system = frame.rows, self._system
        half = rows[: len(rows) // 2]

        def whole() -> Any:
            return getattr(system, name)(rows, batch)

        def part() -> None:
            if cut:
                getattr(system, cut)(half, batch)

        return self._hand(name, batch, whole, part)

    def _told(self, refused: tuple[Row, ...]) -> Frame | None:
        return self._frame(refused) if refused else None

    def write(self, frame: Any, batch: Batch) -> Any:
        return self._told(self._write("write", frame, batch, cut="write_some"))


class _Transactional(ModelSink, Transactional):
    def committed(self, batch: Batch) -> bool:
        place = (batch.query_id, batch.id)
        found: bool = self._hand(
            "committed", batch, lambda: place in self._system.ledger, lambda: None
        )
        return found

    def write_once(self, frame: Any, batch: Batch) -> Any:
        return self._told(self._write("write_once", frame, batch))


class _Staged(ModelSink, Staged):
    def stage(self, frame: Any, batch: Batch) -> Any:
        return self._write("stage", frame, batch, cut="stage")

    def publish(self, staged: Any, batch: Batch) -> Any:
        does = self._system.publish
        return self._told(self._hand("publish", batch, lambda: does(staged, batch), lambda: None))

    def discard(self, batch: Batch) -> None:
        self._hand("discard", batch, lambda: self._system.discard(batch), lambda: None)


class _KeyedWrites(ModelSink, KeyedWrites):
    def write_keyed(self, frame: Any, batch: Batch) -> Any:
        return self._told(self._write("write_keyed", frame, batch, cut="write_keyed"))


class _IdentifiedWrites(ModelSink, IdentifiedWrites):
    def write_new(self, frame: Any, batch: Batch) -> Any:
        if isinstance(frame, Frame) and not frame.ids:
            raise ValueError("rows without `_id`, for the strategy does not say that it needs them")
        return self._told(self._write("write_new", frame, batch, cut="write_new"))


class _NumberedWrites(ModelSink, NumberedWrites):
    def write_numbered(self, frame: Any, batch: Batch) -> Any:
        if isinstance(frame, Frame) and not frame.ids:
            raise ValueError("rows without `_id`, for the strategy does not say that it needs them")
        return self._told(self._write("write_numbered", frame, batch, cut="write_numbered"))


_ABILITIES: Mapping[str, type[ModelSink]] = {
    each.__name__.removeprefix("_"): each
    for each in (_Transactional, _Staged, _KeyedWrites, _IdentifiedWrites, _NumberedWrites)
}

#: Sinks with one ability each, with none, and with all.
PLAIN: tuple[Kind, ...] = (
    Kind(),
    Kind(replaces=True),
    *(Kind(frozenset([name])) for name in _ABILITIES),
    Kind(frozenset(["Staged"]), apart=True),
    Kind(frozenset(_ABILITIES), replaces=True),
)
#: Those, and sinks with every other choice of abilities.
EVERY: tuple[Kind, ...] = (
    *PLAIN,
    *(
        kind
        for able in product((False, True), repeat=len(_ABILITIES))
        for replaces in (False, True)
        if (kind := Kind(frozenset(compress(_ABILITIES, able)), replaces)) not in PLAIN
    ),
)


@cache
def sink_class(abilities: frozenset[str]) -> type[ModelSink]:
    """Return the class of sinks with some abilities."""
    bases = tuple(made for name, made in _ABILITIES.items() if name in abilities)
    return type("".join([*sorted(abilities), "ModelSink"]), bases or (ModelSink,), {})
