"""For authors of binary formats: many values read side by side, instead of one after the other.

`Cursors` has a place in each value of a batch, and reads the same thing of many values in one step. What
it can't read as it should it leaves alone and marks, for the format to read, and to tell why, by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow

pa: Any = pyarrow  # its stubs know a part alone

Array: TypeAlias = Any
Rows: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[Any]

#: How many zeros stand behind the values: what is marked is read from there, and no step goes further.
_BEHIND = 64
#: From how many bytes for each value on, they are copied value by value.
_LONG = 48
#: So few values are quicker read alone; and so many steps for such few a batch may take all the same.
_FEW, _STEPS = 128, 2000
_MOST = 2**31 - 1


class Cursors:
    """Places in the values of a batch.

    Args:
        values: an array of binary; what is null is marked.

    Attributes:
        rows: the numbers of all values.
        marked: for each value whether it is left to be read alone.
        at: for each value the place where it is read next, in the bytes of the whole batch.
        end: for each value where it ends.
    """

    def __init__(self, values: Array) -> None:
        count = len(values)
        values = values.cast(pa.large_binary())
        _, offsets, data = values.buffers()
        held = b"" if data is None else data
        found = np.frombuffer(offsets, np.int64, count + 1, values.offset * 8) if count else None
        places = np.zeros(1, np.int64) if found is None else found
        first, last = int(places[0]), int(places[-1])
        self._bytes = np.zeros(last - first + _BEHIND, np.uint8)
        self._bytes[: last - first] = np.frombuffer(held, np.uint8)[first:last]
        self._behind = last - first
        self.rows: Rows = np.arange(count)
        self.at: Rows = places[:-1] - first
        self.end: Rows = places[1:] - first
        self.marked: npt.NDArray[np.bool_] = np.zeros(count, np.bool_)
        self._left = _STEPS
        if values.null_count:
            self.mark(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)))

    def mark(self, rows: Rows) -> None:
        """Leave values alone: they are to be read each by itself. What is read of them is zeros."""
        self.marked[rows] = True
        self.at[rows] = self.end[rows] = self._behind

    def worth(self, rows: Rows, steps: int = 1) -> bool:
        """Whether some values are to be read on side by side; else they are marked.

        Asked before each step that there may be many of, as of items and of messages in messages: one
        that few values need costs as much as one that all do.

        Args:
            steps: how many it is, as of a message with so many fields.
        """
        if len(rows) < _FEW:
            self._left -= steps
            if self._left < 0:
                self.mark(rows)
                return False
        return True

    def byte(self, rows: Rows) -> Numbers:
        """Return the next byte of each of some values."""
        return self._moved(rows, 1)[:, 0]

    def plain(self, rows: Rows, kind: str) -> Numbers:
        """Return the next number of each value, of a type of NumPy's that says its byte order."""
        size = np.dtype(kind).itemsize
        return np.ascontiguousarray(self._moved(rows, size)).view(kind)[:, 0]

    def fixed(self, rows: Rows, size: int) -> Array:
        """Return the next bytes of each value, of which there are as many everywhere."""
        return self.slices(rows, np.full(len(rows), size))

    def peek(self, rows: Rows, size: int) -> Array:
        """Return the next bytes of each value, which has as many, and stay before them."""
        at = self.at[rows]
        found = self.fixed(rows, size)
        self.at[rows] = at
        return found

    def varint(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """Return the next number of each value, in groups of seven bits, the lowest first."""
        at = self.at[rows]
        byte = self._bytes[at]
        found = (byte & 0x7F).astype(np.uint64)
        at += 1
        more = np.flatnonzero(byte > 0x7F)
        shift, long = 7, more[:0]
        while more.size:
            byte = self._bytes[at[more]]
            at[more] += 1
            if shift == 63:
                long = more[byte > 1]
            found[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            shift += 7
            more = more[(byte > 0x7F) & (shift < 70)]
        self._move(rows, at)
        if long.size:
            self.mark(rows[long])
        return found

    def zigzag(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the next number of each value, of which the lowest bit is the sign."""
        found = self.varint(rows)
        return (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(np.int64)

    def slices(self, rows: Rows, sizes: Numbers) -> Array:
        """Return the next bytes of each value, as an array of binary."""
        begin, sizes = self.at[rows], sizes.astype(np.int64)
        far = (sizes < 0) | (sizes > self.end[rows] - begin)
        if far.any():
            self.mark(rows[far])
            sizes, begin = np.where(far, 0, sizes), self.at[rows]
        if int(sizes.sum()) > _MOST:  # no array has so many bytes
            self.mark(rows)
            sizes, begin = np.zeros_like(sizes), self.at[rows]
        end = begin + sizes
        self.at[rows] = end
        offsets = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        total = int(offsets[-1])
        if total > _LONG * len(rows):
            held = memoryview(self._bytes)  # type: ignore[arg-type]
            pairs = zip(begin.tolist(), end.tolist(), strict=True)
            data = pa.py_buffer(b"".join([held[one:other] for one, other in pairs]))
        else:
            where = np.repeat(begin - offsets[:-1], sizes) + np.arange(total)
            data = pa.py_buffer(self._bytes[where])
        return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), data])

    def texts(self, rows: Rows, sizes: Numbers) -> Array:
        """Return the next bytes of each value as texts; values where they are no UTF-8 are marked."""
        held = self.slices(rows, sizes)
        found = held.view(pa.string())
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            wrong = np.array([not _is_text(value) for value in held.to_pylist()], np.bool_)
            self.mark(rows[wrong])
            held = pa.array(
                [b"" if w else v for v, w in zip(held.to_pylist(), wrong, strict=True)], pa.binary()
            )
            found = held.view(pa.string())
        return found

    def skip(self, rows: Rows, sizes: Numbers) -> None:
        """Go on behind bytes that nobody wants."""
        sizes = sizes.astype(np.int64)
        far = (sizes < 0) | (sizes > self.end[rows] - self.at[rows])
        self.mark(rows[far])
        self.at[rows] += np.where(far, 0, sizes)

    def between(self, rows: Rows, begin: Rows) -> Array:
        """Return the bytes of each value from a place up to where it is read next."""
        at = self.at[rows]
        begin = np.where(self.marked[rows], at, begin)
        self.at[rows] = begin
        return self.slices(rows, at - begin)

    def enter(self, rows: Rows, sizes: Numbers) -> Rows:
        """Let values end after some bytes, for what is inside them; return where they end."""
        sizes, ends = sizes.astype(np.int64), self.end[rows]
        far = (sizes < 0) | (sizes > ends - self.at[rows])
        if far.any():
            self.mark(rows[far])
            sizes = np.where(far, 0, sizes)
        self.end[rows] = self.at[rows] + sizes
        return ends

    def leave(self, rows: Rows, ends: Rows) -> None:
        """Let values end again where they did, once what is inside has been read."""
        self.end[rows] = np.where(self.marked[rows], self._behind, ends)

    def ended(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return which of some values have nothing more."""
        return self.at[rows] >= self.end[rows]

    def _moved(self, rows: Rows, size: int) -> Numbers:
        at = self.at[rows]
        where = at[:, None] + np.arange(size)
        # What is behind the last value is zeros; what is in another value is marked by the move.
        found: Numbers = self._bytes[np.minimum(where, self._behind + _BEHIND - 1)]
        self._move(rows, at + size)
        return found

    def _move(self, rows: Rows, at: Rows) -> None:
        self.at[rows] = at
        far = at > self.end[rows]
        if far.any():
            self.mark(rows[far])


class Items:
    """The items of lists that grow side by side, each in its value's order.

    Args:
        rows: the values that have a list.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._owners: list[Rows] = []
        self._parts: list[tuple[Array, ...]] = []

    def add(self, owners: Rows, *parts: Array) -> None:
        """Add an item to some lists.

        Args:
            owners: which, as numbers in `rows`.
            parts: what it is, or its key and its value.
        """
        self._owners.append(owners)
        self._parts.append(parts)

    def lists(self, *kinds: Any) -> tuple[Array, list[Array], Rows]:
        """Return where lists begin and end, their items, and for each item whose it is.

        Args:
            kinds: the types of the parts of an item.
        """
        if not self._parts:
            offsets = np.zeros(len(self._rows) + 1, np.int32)
            return pa.array(offsets), [pa.array([], kind) for kind in kinds], self._rows[:0]
        owners = np.concatenate(self._owners)
        order = np.argsort(owners, kind="stable")
        offsets = np.zeros(len(self._rows) + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=len(self._rows)), out=offsets[1:])
        held = [
            pa.concat_arrays([parts[n] for parts in self._parts]).take(pa.array(order))
            for n in range(len(kinds))
        ]
        return pa.array(offsets), held, owners[order]


def twice(owners: Rows, keys: Array) -> Rows:
    """Return which owners have a key twice.

    Args:
        owners: for each of the keys whose it is.
    """
    codes = keys.dictionary_encode().indices.to_numpy()
    pairs, counts = np.unique(owners * (len(keys) + 1) + codes, return_counts=True)
    return np.unique(pairs[counts > 1] // (len(keys) + 1))


def spread(found: Array, mask: npt.NDArray[np.bool_]) -> Array:
    """Return an array with nulls where a mask is not set, and the given values, in order, elsewhere."""
    if len(found) == len(mask):
        return found
    where = np.cumsum(mask) - 1
    return found.take(pa.array(where, mask=~mask))


def read_values(
    values: Array,
    kinds: Sequence[Any],
    together: Callable[[Cursors], Iterable[tuple[Rows, list[Array]]]],
    alone: Callable[[bytes], Sequence[Any]],
) -> tuple[list[Array], list[str | None]]:
    """Return the columns of values, most of them read side by side, and why rows are refused.

    Args:
        values: an array of binary.
        kinds: the columns' types.
        together: gives values' numbers and their columns; what it marks, or does not read to its end, is
            read by itself.
        alone: reads one value; raises ValueError, whose text is the reason.
    """
    cursors = Cursors(values)
    parts: list[tuple[Rows, list[Array]]] = []
    left = np.ones(len(values), np.bool_)
    for rows, arrays in together(cursors):
        good = cursors.ended(rows) & ~cursors.marked[rows]
        left[rows] = ~good
        if not good.all():
            kept = pa.array(good)
            arrays, rows = [array.filter(kept) for array in arrays], rows[good]
        parts.append((rows, arrays))
    reasons: list[str | None] = [None] * len(values)
    if (numbers := np.flatnonzero(left)).size or not parts:
        parts.append((numbers, _alone(values, numbers, kinds, alone, reasons)))
    return _gathered(parts), reasons


def _alone(
    values: Array,
    numbers: Rows,
    kinds: Sequence[Any],
    alone: Callable[[bytes], Sequence[Any]],
    reasons: list[str | None],
) -> list[Array]:
    found: list[Sequence[Any]] = []
    for number in numbers.tolist():
        value = values[number].as_py()
        try:
            if value is None:
                raise ValueError("the value is null")
            found.append(alone(value))
        except ValueError as error:
            reasons[number] = str(error)
            found.append((None,) * len(kinds))
    columns = zip(*found, strict=True) if found else ((),) * len(kinds)
    return [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]


def _gathered(parts: list[tuple[Rows, list[Array]]]) -> list[Array]:
    """Return the columns of rows that were read in several parts, in the order of the rows."""
    if len(parts) == 1:
        return parts[0][1]
    order = pa.array(np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable"))
    columns = zip(*(arrays for _, arrays in parts), strict=True)
    return [pa.concat_arrays(column).take(order) for column in columns]


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
