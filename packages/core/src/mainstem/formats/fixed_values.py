"""Records whose values stand at fixed places become columns: protocols of exchanges and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mainstem.contracts.ddl import Column
from mainstem.formats.arrow import Array, pa, pc
from mainstem.formats.json_values import NULL, Decoded, refuse_nulls
from mainstem.formats.kinds import arrow_type
from mainstem.formats.words import decimal_of, word_of

#: What a time counts, in microseconds: a number to multiply by, and one to divide by.
_UNITS = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
#: The limits of whole numbers, by type.
_LIMITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)


class Place(NamedTuple):
    """Where a value stands in a record, and how it is written.

    Attributes:
        kind: `int`, `uint`, `float`, `text` or `bytes`.
        at, size: in bytes.
        big: whether the first byte of a number is the largest.
        scale: how many digits of a whole number come after the point.
        unit: what a time counts since 1970.
    """

    kind: str
    at: int
    size: int
    big: bool = True
    scale: int = 0
    unit: str = "us"


class FixedValues:
    """Reads records, a value each.

    Args:
        columns: those that come out.
        places: where each is, in their order.
        most: how many bytes a record has at most; any number when left out.
    """

    def __init__(
        self, columns: Sequence[Column], places: Sequence[Place], most: int | None = None
    ) -> None:
        self._columns, self._places, self._most = columns, places, most
        self._least = max((place.at + place.size for place in places), default=0)

    def read(self, values: Array) -> Decoded:
        """Return the columns of an array of bytes, and why rows are refused."""
        reasons: list[str | None] = [None] * len(values)
        values = values.cast(pa.binary())
        lengths = pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False)
        wrong = lengths < self._least
        if self._most is not None:
            wrong |= lengths > self._most
        for index in np.flatnonzero(wrong).tolist():
            size = int(lengths[index])
            expected = f"{self._least}" if self._most is None else f"{self._least} to {self._most}"
            reasons[index] = (
                NULL if size < 0 else f"it has {size} bytes, and a record has {expected}"
            )
        good = np.flatnonzero(~wrong)
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
        starts = offsets[:-1][good].astype(np.int64)
        arrays = []
        for column, place in zip(self._columns, self._places, strict=True):
            cells = data[starts[:, None] + np.arange(place.at, place.at + place.size)]
            found, bad = _column(column, place, cells)
            for index in bad:
                reasons[good[index]] = reasons[good[index]] or f"{column.name} {_misfit(column)}"
            arrays.append(_spread(found, good, len(values)))
        refuse_nulls(self._columns, arrays, reasons)
        return arrays, reasons


def _misfit(column: Column) -> str:
    return f"is no {(column.type or '').upper()}"


def _spread(found: Array, good: np.ndarray, count: int) -> Array:
    """Return the values of some rows among all, null in the others."""
    if len(found) == count:
        return found
    places = np.full(count, -1)
    places[good] = np.arange(len(good))
    return found.take(pa.array(places, mask=places < 0))


def _column(column: Column, place: Place, cells: np.ndarray) -> tuple[Array, list[int]]:
    """Return the values of a column, and which rows have none of its type."""
    kind = column.type or ""
    if place.kind in ("text", "bytes"):
        return _texts(kind, place, cells)
    if place.kind == "float":
        order = ">" if place.big else "<"
        numbers = np.ascontiguousarray(cells).view(f"{order}f{place.size}").reshape(-1)
        return _floats(kind, numbers.astype("=f8"))
    numbers, wide = _whole(place, cells)
    word = word_of(kind)
    if word == "boolean":
        bad = wide | (numbers < 0) | (numbers > 1)
        return _masked(numbers == 1, bad), np.flatnonzero(bad).tolist()
    if word == "timestamp":
        times, divisor = _UNITS[place.unit]
        limit = (2**63 - 1) // times
        bad = wide | (numbers > limit) | (numbers < -limit)
        micros, finer = np.divmod(np.where(bad, 0, numbers) * times, divisor)
        bad |= finer != 0
        bad |= (micros < _TIMES[0]) | (micros > _TIMES[1])
        return _masked(micros, bad).cast(pa.timestamp("us", "UTC")), np.flatnonzero(bad).tolist()
    if word in ("double", "float"):
        return _floats(kind, _scaled(numbers, wide, place.scale))
    if word == "decimal":
        return _decimals(kind, place, numbers, wide)
    bits = _LIMITS[word]
    bad = wide | (numbers < -(2 ** (bits - 1))) | (numbers > 2 ** (bits - 1) - 1)
    return _masked(numbers, bad).cast(arrow_type(kind)), np.flatnonzero(bad).tolist()


def _floats(kind: str, numbers: np.ndarray) -> tuple[Array, list[int]]:
    """Return the nearest numbers of a type, and which rows have one that is too large for it."""
    if word_of(kind) == "double":
        return pa.array(numbers), []
    with np.errstate(over="ignore"):
        single = numbers.astype("=f4")
    bad = np.isinf(single) & ~np.isinf(numbers)
    return _masked(single, bad), np.flatnonzero(bad).tolist()


def _whole(place: Place, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers of any width as those of 64 bits, and which have more than these hold."""
    ordered = cells if place.big else cells[:, ::-1]
    count, size = ordered.shape
    padded = np.zeros((count, 8), np.uint8)
    padded[:, 8 - size :] = ordered
    if place.kind == "int" and size < 8:
        padded[:, : 8 - size] = np.where(ordered[:, :1] >= 128, 255, 0)
    numbers = padded.view(">i8").reshape(-1).astype(np.int64)
    wide = numbers < 0 if place.kind == "uint" else np.zeros(count, bool)
    return numbers, wide


def _large(numbers: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Return numbers as floats, those of 64 bits without a sign too."""
    return np.where(wide, numbers.view(np.uint64).astype("f8"), numbers.astype("f8"))


def _scaled(numbers: np.ndarray, wide: np.ndarray, scale: int) -> np.ndarray:
    """Return the floats that are nearest to numbers with so many digits behind the point."""
    if not scale:
        return _large(numbers, wide)
    found = numbers.astype("f8") / 10.0**scale
    # Only so far is each side of the division exact. Python divides whole numbers of any size exactly.
    inexact = wide | (numbers > 2**53) | (numbers < -(2**53)) | np.bool_(scale > 22)
    unit, unsigned = 10**scale, numbers.view(np.uint64)
    for row in np.flatnonzero(inexact):
        found[row] = int(unsigned[row] if wide[row] else numbers[row]) / unit
    return found


def _decimals(
    kind: str, place: Place, numbers: np.ndarray, wide: np.ndarray
) -> tuple[Array, list[int]]:
    precision, scale = decimal_of(kind)
    limit = 10 ** (precision - scale + place.scale)
    # `wide` ones have a sign here and none there: they are compared as they are there.
    there = numbers.view(np.uint64)
    over = np.zeros(len(numbers), bool) if limit > 2**64 - 1 else wide & (there >= np.uint64(limit))
    bad = over if limit > 2**63 else over | ~wide & ((numbers >= limit) | (numbers <= -limit))
    if limit <= 2**63:
        bad |= wide
    cut = place.scale - scale  # what a column would cut is none of its values
    if cut > 18:
        bad |= numbers != 0
    elif cut > 0:
        step = 10**cut
        bad |= np.where(wide, there % np.uint64(step) != 0, numbers % step != 0)
    whole = np.where(bad, 0, numbers)
    pairs = np.empty((len(whole), 2), np.uint64)
    pairs[:, 0] = whole.view(np.uint64)
    pairs[:, 1] = np.where((whole < 0) & ~wide, np.uint64(2**64 - 1), np.uint64(0))
    unscaled = (
        pa.decimal128(20, place.scale) if place.scale <= 20 else pa.decimal128(38, place.scale)
    )
    made = pa.Array.from_buffers(unscaled, len(whole), [None, pa.py_buffer(pairs.tobytes())])
    array = made.cast(pa.decimal128(38, max(scale, place.scale))).cast(
        pa.decimal128(precision, scale)
    )
    return pc.if_else(pa.array(~bad), array, pa.scalar(None, array.type)), np.flatnonzero(
        bad
    ).tolist()


def _masked(numbers: np.ndarray, bad: np.ndarray) -> Array:
    return pa.array(numbers, mask=bad)


def _texts(kind: str, place: Place, cells: np.ndarray) -> tuple[Array, list[int]]:
    count, size = cells.shape
    ends = np.arange(count + 1, dtype=np.int32) * size
    data = np.ascontiguousarray(cells).tobytes()
    made = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(data)]
    )
    if place.kind == "bytes":
        return made.cast(arrow_type(kind)), []
    bad: list[int] = []
    try:
        texts = made.cast(pa.string())
    except pa.ArrowInvalid:
        found: list[str | None] = []
        for index, value in enumerate(made.to_pylist()):
            try:
                found.append(value.decode())
            except UnicodeDecodeError:
                found.append(None)
                bad.append(index)
        texts = pa.array(found, pa.string())
    return pc.utf8_rtrim(texts, " \0"), bad
