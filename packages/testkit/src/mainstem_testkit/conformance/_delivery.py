"""What the suite of strategies tries: a strategy, a sink of the model, and the batches to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from mainstem import Changelog, Delivery, Promise, Shape

from mainstem_testkit.conformance.external_system import Kind, Row

#: The checkpoint, and one that starts over.
FIRST, ANEW = "first", "anew"


@dataclass(frozen=True)
class Setting:
    """What a world is made of.

    Args:
        make: makes the strategy, once for each run.
        sink: what the sink can do.
        shape: what the rows are.
        promise: what the strategy promises for them.
        batches: how many there are; the last is written at the very end, when nothing fails any more.
        runs: how many may be alive at the same time.
    """

    make: Callable[[], Delivery]
    sink: Kind
    shape: Shape
    promise: Promise
    batches: int = 3
    runs: int = 2

    def __str__(self) -> str:
        rows = f"{self.shape.kind}{' without a sequence' if self._ordered else ''}"
        return f"{self.sink}, {rows}, {self.batches} batches"

    @cached_property
    def given(self) -> Mapping[str, Sequence[tuple[Row, ...]]]:
        """The rows of each batch, of either checkpoint.

        One that starts over has the same rows, cut otherwise, if the strategy says that it knows them.
        """
        first = [tuple(self._batch(n)) for n in range(self.batches)]
        if self.make().capabilities.knows_rows and not self._ordered:
            cut = [list(rows) for rows in first]
            for before, after in pairwise(cut):
                after.insert(0, before.pop(1))
        else:
            cut = [[self._anew(row) for row in rows] for rows in first]
        return {FIRST: first, ANEW: [tuple(rows) for rows in cut]}

    @cached_property
    def ids(self) -> bool:
        """Whether rows have an `_id`: those of events, if the strategy says that it needs them."""
        return self.make().capabilities.needs_id and not isinstance(self.shape, Changelog)

    @property
    def _ordered(self) -> bool:
        """Whether changes come in the order of their batches."""
        return isinstance(self.shape, Changelog) and self.shape.sequence is None

    def _batch(self, n: int) -> Iterator[Row]:
        if not isinstance(self.shape, Changelog):
            yield from (Row(f"{n}a"), Row(f"{n}b"))
        elif self._ordered:
            last = n == self.batches - 1  # leaves a key alone that an old batch could bring back
            yield Row(f"{n}a", "a", f"{n}", n)
            yield Row(f"{n}b", "c" if last else "b", None if n % 2 else f"{n}", n)
        else:
            late = n % 3 == 2  # comes after its key was deleted
            yield Row(f"{n}a", "a", f"{n}", n ^ 1)
            yield Row(f"{n}b", "b", None if n % 3 == 1 else f"{n}", n - 2 if late else n)
        yield Row(f"{n}x", "x", f"{n}", n, good=False)

    def _anew(self, row: Row) -> Row:
        """Return a row of its own; with a sequence it is the same change, for there is only one."""
        value = row.value and f"{row.value} anew" if self._ordered else row.value
        return row._replace(name=f"{row.name} anew", value=value)

    def table(self, query_id: str) -> dict[str, str]:
        """Return the table that a checkpoint's changes make: the newest of each key."""
        table: dict[str, tuple[int, str | None]] = {}
        for row in (row for rows in self.given[query_id] for row in rows if row.good):
            if self._ordered or row.key not in table or row.sequence > table[row.key][0]:
                table[row.key] = (row.sequence, row.value)
        return {key: value for key, (_, value) in table.items() if value is not None}
