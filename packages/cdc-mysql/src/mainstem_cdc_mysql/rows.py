"""Rows in a binary log: a table's columns as they were then, and values as MySQL prints them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from itertools import accumulate
from typing import Any
from uuid import UUID

from mainstem import PermanentError
from mainstem_cdc import UNCHANGED, Value

from mainstem_cdc_mysql import documents
from mainstem_cdc_mysql.charsets import BINARY
from mainstem_cdc_mysql.protocol import length_at
from mainstem_cdc_mysql.values import print_double

#: Returns a value and where the next one begins, given data and where the value begins.
Reader = Callable[[bytes, int], tuple[Any, int]]

_TINY, _SHORT, _LONG, _FLOAT, _DOUBLE, _OLD_TIMESTAMP, _LONGLONG, _INT24 = 1, 2, 3, 4, 5, 7, 8, 9
_DATE, _OLD_TIME, _OLD_DATETIME, _YEAR, _VARCHAR, _BIT = 10, 11, 12, 13, 15, 16
_TIMESTAMP, _DATETIME, _TIME, _VECTOR, _JSON, _DECIMAL = 17, 18, 19, 242, 245, 246
_ENUM, _SET, _BLOB, _STRING, _GEOMETRY = 247, 248, 252, 254, 255
_BLOB_COMPRESSED, _VARCHAR_COMPRESSED = 140, 141
#: How many bytes of metadata types have.
_METADATA = {
    _FLOAT: 1, _DOUBLE: 1, _VARCHAR: 2, _BIT: 2, _TIMESTAMP: 1, _DATETIME: 1, _TIME: 1, _VECTOR: 1,
    _JSON: 1, _DECIMAL: 2, _BLOB: 1, 249: 1, 250: 1, 251: 1, _STRING: 2, 253: 2, _GEOMETRY: 1,
    _BLOB_COMPRESSED: 1, _VARCHAR_COMPRESSED: 2, _ENUM: 2, _SET: 2,
}  # fmt: skip
_NUMBERS = {_TINY, _SHORT, _INT24, _LONG, _LONGLONG, _DECIMAL, _FLOAT, _DOUBLE}
_TEXTS = {_VARCHAR, _BLOB, _STRING, 253, _BLOB_COMPRESSED, _VARCHAR_COMPRESSED}


class Layout:
    """The columns of a table as its rows have them, from a table event.

    Args:
        body: of the event.
        mariadb: whether the server is one: it counts a YEAR among the numbers, which have a sign or none,
            and a GEOMETRY among the texts, which have a character set.

    Attributes:
        place: database and table.
        names: of the columns; empty where the server did not write them.
    """

    def __init__(self, body: bytes, *, mariadb: bool) -> None:
        self._signed = {*_NUMBERS, _YEAR} if mariadb else _NUMBERS
        self._charged = {*_TEXTS, _GEOMETRY} if mariadb else _TEXTS
        at = 8
        database, at = _word(body, at)
        table, at = _word(body, at)
        self.place = database.decode(), table.decode()
        count, at = length_at(body, at)
        self._kinds = list(body[at : at + count])
        _, at = length_at(body, at + count)
        metadata = []
        for kind in self._kinds:
            size = _METADATA.get(kind, 0)
            metadata.append(body[at : at + size])
            at += size
        for number, (kind, extra) in enumerate(zip(self._kinds, metadata, strict=True)):
            if kind == _STRING and extra[0] in (_ENUM, _SET):
                self._kinds[number] = extra[0]
        at += (count + 7) // 8  # which columns may be null
        told = dict(_fields(body, at))
        self.names = [name.decode() for name in _words(told.get(4, b""))]
        self._metadata = metadata
        self._told = told

    def readers(
        self,
        special: Mapping[str, Callable[[bytes], bytes]],
        decoder: Callable[[int], Callable[[bytes], bytes]],
        wanted: Collection[int],
    ) -> list[Reader]:
        """Return what reads the values of each column.

        Args:
            special: makes values of what is in the log, for columns whose type is not written there.
            decoder: returns what makes UTF-8 of texts of a collation.
            wanted: the columns whose values are looked at.
        """
        told, kinds = self._told, self._kinds
        numbers = [at for at, kind in enumerate(kinds) if kind in self._signed]
        unsigned = dict(zip(numbers, _bits(told.get(1, b"")), strict=False))
        texts = [at for at, kind in enumerate(kinds) if kind in self._charged]
        chosen = [at for at, kind in enumerate(kinds) if kind in (_ENUM, _SET)]
        sets = _collations(texts, told.get(2), told.get(3))
        sets |= _collations(chosen, told.get(10), told.get(11))
        members = {
            at: list(_words(each))
            for kind, field in ((_SET, 5), (_ENUM, 6))
            for at, each in zip(
                [at for at in chosen if kinds[at] == kind],
                _lists(told.get(field, b"")),
                strict=False,
            )
        }
        made = []
        for at, (kind, extra) in enumerate(zip(kinds, self._metadata, strict=True)):
            collation = sets.get(at, BINARY)
            decode = decoder(collation) if at in wanted else bytes
            if kind in (_ENUM, _SET):
                each = [decode(name) for name in members.get(at, [])]
                read = _enum(extra[1], each) if kind == _ENUM else _set(extra[1], each)
            elif kind in _TEXTS:
                read = _text(kind, extra, decode, binary=collation == BINARY)
            else:
                read = _reader(kind, extra, unsigned.get(at, False))
            name = self.names[at] if at < len(self.names) else ""
            # A column that had another type then is what it was.
            fits = kind == _STRING and collation == BINARY and extra[1] in (4, 16)
            made.append(_through(read, special[name]) if name in special and fits else read)
        return made

    @property
    def documents(self) -> list[bool]:
        """Which columns are JSON."""
        return [kind == _JSON for kind in self._kinds]


def _word(body: bytes, at: int) -> tuple[bytes, int]:
    """Return a text that has its length before it and a zero behind it."""
    end = at + 1 + body[at]
    return body[at + 1 : end], end + 1


def _fields(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(body):
        kind = body[at]
        length, at = length_at(body, at + 1)
        yield kind, body[at : at + length]
        at += length


def _words(field: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(field):
        length, at = length_at(field, at)
        yield field[at : at + length]
        at += length


def _lists(field: bytes) -> Iterator[bytes]:
    """Yield, of each column, the names of its members as `_words` reads them."""
    at = 0
    while at < len(field):
        count, at = length_at(field, at)
        begin = at
        for _ in range(count):
            length, at = length_at(field, at)
            at += length
        yield field[begin:at]


def _bits(field: bytes) -> list[bool]:
    return [bool(byte & (0x80 >> bit)) for byte in field for bit in range(8)]


def _numbers(field: bytes) -> list[int]:
    at, found = 0, []
    while at < len(field):
        number, at = length_at(field, at)
        found.append(number)
    return found


def _collations(columns: Sequence[int], usual: bytes | None, each: bytes | None) -> dict[int, int]:
    """Return the collation of each column: one and its exceptions, or one by one."""
    if each is not None:
        return dict(zip(columns, _numbers(each), strict=False))
    if usual is None:
        return {}
    first, *others = _numbers(usual)
    found = dict.fromkeys(columns, first)
    found.update({columns[at]: c for at, c in zip(others[::2], others[1::2], strict=True)})
    return found


def _through(read: Reader, make: Callable[[bytes], bytes]) -> Reader:
    def through(data: bytes, at: int) -> tuple[Any, int]:
        value, end = read(data, at)
        return make(value), end

    return through


# -- values ---------------------------------------------------------------------------------------


def _packed(size: int) -> Reader:
    """Return what reads bytes that have their length before them."""
    from_bytes = int.from_bytes
    if size == 1:

        def short(data: bytes, at: int) -> tuple[bytes, int]:
            end = at + 1 + data[at]
            return data[at + 1 : end], end

        return short

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        begin = at + size
        end = begin + from_bytes(data[at:begin], "little")
        return data[begin:end], end

    return read


def _text(kind: int, extra: bytes, decode: Callable[[bytes], bytes], binary: bool) -> Reader:
    longest = 0
    if kind in (_BLOB, _BLOB_COMPRESSED):
        read = _packed(extra[0])
    elif kind in (_STRING, 253):
        longest = extra[1] | (((extra[0] & 0x30) ^ 0x30) << 4)
        read = _packed(1 if longest < 256 else 2)
    else:
        longest = int.from_bytes(extra, "little")
        read = _packed(1 if longest < 256 else 2)
    if kind in (_BLOB_COMPRESSED, _VARCHAR_COMPRESSED):
        read = _through(read, _inflated)
    if binary:
        # A BINARY is without the zeros at its end there.
        return _through(read, lambda v: v.ljust(longest, b"\0")) if kind == _STRING else read
    return read if decode is bytes else _through(read, decode)


def _inflated(value: bytes) -> bytes:
    """Return a value that MariaDB has compressed."""
    if not value or not value[0]:
        return value[1:]
    return zlib.decompress(value[1 + (value[0] & 7) :], -15 if value[0] & 8 else 15)


def _fixed(form: str) -> Reader:
    packed = struct.Struct(form)
    unpack, size = packed.unpack_from, packed.size

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return b"%d" % unpack(data, at)[0], at + size

    return read


def _medium(unsigned: bool) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return b"%d" % int.from_bytes(data[at : at + 3], "little", signed=not unsigned), at + 3

    return read


def _floating(form: str) -> Reader:
    packed = struct.Struct(form)

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return print_double(packed.unpack_from(data, at)[0]), at + packed.size

    return read


def _year(data: bytes, at: int) -> tuple[bytes, int]:
    return b"%04d" % (data[at] + 1900 if data[at] else 0), at + 1


#: How many bytes so many decimal digits have.
_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal(precision: int, scale: int) -> Reader:
    """Return what reads DECIMAL: groups of nine digits, the highest bit turned, all if negative."""
    whole = precision - scale
    groups = [
        *([(whole % 9, _DIGITS[whole % 9])] if whole % 9 else []),
        *[(9, 4)] * (whole // 9 + scale // 9),
        *([(scale % 9, _DIGITS[scale % 9])] if scale % 9 else []),
    ]
    size = sum(length for _, length in groups)
    full = (1 << (8 * size)) - 1

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        number = int.from_bytes(data[at:end], "big")
        negative = not data[at] & 0x80
        number = (number ^ full if negative else number) ^ (1 << (8 * size - 1))
        content = number.to_bytes(size, "big")
        place, digits = 0, ""
        for count, length in groups:
            digits += str(int.from_bytes(content[place : place + length], "big")).rjust(count, "0")
            place += length
        text = digits[:whole].lstrip("0") or "0"
        if scale:
            text += f".{digits[whole:]}"
        return (f"-{text}" if negative else text).encode(), end

    return read


def _date(data: bytes, at: int) -> tuple[bytes, int]:
    number = int.from_bytes(data[at : at + 3], "little")
    return b"%04d-%02d-%02d" % (number >> 9, number >> 5 & 15, number & 31), at + 3


def _fraction(digits: int) -> tuple[int, Callable[[int], bytes]]:
    """Return how many bytes a fraction of a second has, and what prints it."""
    size = (digits + 1) // 2
    if not digits:
        return 0, lambda _: b""
    odd = digits % 2
    form = b".%%0%dd" % digits
    return size, lambda number: form % (number // 10 if odd else number)


def _datetime(digits: int) -> Reader:
    size, fraction = _fraction(digits)

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        number = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        end = at + 5 + size
        months, day, second = number >> 22, number >> 17 & 31, number & 0x1FFFF
        text = b"%04d-%02d-%02d %02d:%02d:%02d" % (
            months // 13, months % 13, day, second >> 12, second >> 6 & 63, second & 63,
        )  # fmt: skip
        return text + fraction(int.from_bytes(data[at + 5 : end], "big")), end

    return read


@lru_cache(4096)
def _day(days: int) -> bytes:
    return date.fromordinal(719_163 + days).isoformat().encode()


def _timestamp(digits: int) -> Reader:
    size, fraction = _fraction(digits)

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        end = at + 4 + size
        parts = int.from_bytes(data[at + 4 : end], "big")
        return _moment(seconds, fraction(parts), zero=not seconds and not parts), end

    return read


def _moment(seconds: int, fraction: bytes, *, zero: bool) -> bytes:
    """Return a TIMESTAMP, in UTC."""
    day, second = divmod(seconds, 86_400)
    return b"%b %02d:%02d:%02d%b+00:00" % (
        b"0000-00-00" if zero else _day(day),
        second // 3600, second // 60 % 60, second % 60, fraction,
    )  # fmt: skip


def _time(digits: int) -> Reader:
    size, fraction = _fraction(digits)
    bits = 8 * size

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + 3 + size
        number = int.from_bytes(data[at:end], "big") - (0x800000 << bits)
        sign = b"-" if number < 0 else b""
        number = abs(number)
        second = number >> bits
        text = b"%b%02d:%02d:%02d" % (sign, second >> 12 & 0x3FF, second >> 6 & 63, second & 63)
        return text + fraction(number & (1 << bits) - 1), end

    return read


def _old_timestamp(data: bytes, at: int) -> tuple[bytes, int]:
    seconds = int.from_bytes(data[at : at + 4], "little")
    return _moment(seconds, b"", zero=not seconds), at + 4


def _bit(extra: bytes) -> Reader:
    size = (extra[1] * 8 + extra[0] + 7) // 8

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return b"%d" % int.from_bytes(data[at : at + size], "big"), at + size

    return read


def _enum(size: int, members: Sequence[bytes]) -> Reader:
    named = [b"", *members]

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return named[int.from_bytes(data[at : at + size], "little")], at + size

    return read


def _set(size: int, members: Sequence[bytes]) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        bits = int.from_bytes(data[at : at + size], "little")
        found = b",".join(name for n, name in enumerate(members) if bits >> n & 1)
        return found, at + size

    return read


def _document(size: int) -> Reader:
    read = _packed(size)
    return _through(read, documents.printed)


def _refused(kind: int) -> Reader:
    def read(_data: bytes, _at: int) -> tuple[bytes, int]:
        raise PermanentError(f"the log has a value of type {kind}, which is not known here")

    return read


def _reader(kind: int, extra: bytes, unsigned: bool) -> Reader:
    forms = {_TINY: "bB", _SHORT: "hH", _LONG: "iI", _LONGLONG: "qQ"}
    if kind in forms:
        return _fixed(f"<{forms[kind][unsigned]}")
    fixed: dict[int, Callable[[], Reader]] = {
        _INT24: lambda: _medium(unsigned),
        _FLOAT: lambda: _floating("<f"),
        _DOUBLE: lambda: _floating("<d"),
        _YEAR: lambda: _year,
        _DECIMAL: lambda: decimal(extra[0], extra[1]),
        _DATE: lambda: _date,
        _DATETIME: lambda: _datetime(extra[0]),
        _TIMESTAMP: lambda: _timestamp(extra[0]),
        _TIME: lambda: _time(extra[0]),
        _OLD_TIMESTAMP: lambda: _old_timestamp,
        _BIT: lambda: _bit(extra),
        _JSON: lambda: _document(extra[0]),
        _GEOMETRY: lambda: _packed(extra[0]),
        _VECTOR: lambda: _packed(extra[0]),
    }
    return fixed[kind]() if kind in fixed else _refused(kind)


# -- types of MariaDB that the log has as bytes ---------------------------------------------------


def _uuid(value: bytes) -> bytes:
    return str(UUID(bytes=value.ljust(16, b"\0"))).encode()


SPECIAL: Mapping[str, Callable[[bytes], bytes]] = {
    "uuid": _uuid,
    "inet6": lambda value: str(IPv6Address(value.ljust(16, b"\0"))).encode(),
    "inet4": lambda value: str(IPv4Address(value.ljust(4, b"\0"))).encode(),
}


# -- rows -----------------------------------------------------------------------------------------


class RowReader:
    """Reads rows of a table, with the columns that are wanted, in their order.

    Args:
        places: of each wanted column where it is in the table; None for one that is null.
    """

    def __init__(
        self,
        layout: Layout,
        places: Sequence[int | None],
        special: Mapping[str, Callable[[bytes], bytes]],
        decoder: Callable[[int], Callable[[bytes], bytes]],
    ) -> None:
        wanted = {at for at in places if at is not None}
        self._readers = layout.readers(special, decoder, wanted)
        self._documents = layout.documents
        self._count = len(self._readers)
        self._base: list[Value] = [None if at is None else UNCHANGED for at in places]
        slots = {at: slot for slot, at in enumerate(places) if at is not None}
        self._slots = [slots.get(at, -1) for at in range(self._count)]
        self._whole = (1 << self._count) - 1
        self._steps: dict[int, tuple[int, list[tuple[int, Reader, int]]]] = {}

    def insert_or_delete(self, body: bytes, at: int) -> Iterator[list[Value]]:
        """Yield the rows, given where the number of columns is."""
        present, at = self._present(body, length_at(body, at)[1])
        while at < len(body):
            row, at = self._row(body, at, present)
            yield row

    def update(
        self, body: bytes, at: int, *, partial: bool
    ) -> Iterator[tuple[list[Value], list[Value]]]:
        """Yield the rows as they were before and as they are after."""
        before, at = self._present(body, length_at(body, at)[1])
        after, at = self._present(body, at)
        while at < len(body):
            old, at = self._row(body, at, before)
            if partial:
                new, at = self._changed(body, at, after, old)
            else:
                new, at = self._row(body, at, after)
            yield old, new

    def _present(self, body: bytes, at: int) -> tuple[int, int]:
        end = at + (self._count + 7) // 8
        return int.from_bytes(body[at:end], "little") & self._whole, end

    def _plan(self, present: int) -> tuple[int, list[tuple[int, Reader, int]]]:
        """Return how many bytes say what is null, and of each column that is there: its bit, what
        reads it, and where it goes.
        """
        there = [at for at in range(self._count) if present >> at & 1]
        steps = [(1 << bit, self._readers[at], self._slots[at]) for bit, at in enumerate(there)]
        made = self._steps[present] = ((len(there) + 7) // 8, steps)
        return made

    def _row(self, body: bytes, at: int, present: int) -> tuple[list[Value], int]:
        size, steps = self._steps.get(present) or self._plan(present)
        nulls = int.from_bytes(body[at : at + size], "little")
        at += size
        row = self._base.copy()
        if not nulls:
            for _, read, slot in steps:
                value, at = read(body, at)
                if slot >= 0:
                    row[slot] = value
            return row, at
        for bit, read, slot in steps:
            if nulls & bit:
                value = None
            else:
                value, at = read(body, at)
            if slot >= 0:
                row[slot] = value
        return row, at

    def _changed(
        self, body: bytes, at: int, present: int, old: Sequence[Value]
    ) -> tuple[list[Value], int]:
        """Return a row of which some documents are told by what was changed in them."""
        options, at = length_at(body, at)
        there = [number for number in range(self._count) if present >> number & 1]
        partial = 0
        if options & 1:
            size = (sum(self._documents) + 7) // 8
            partial = int.from_bytes(body[at : at + size], "little")
            at += size
        size = (len(there) + 7) // 8
        nulls = int.from_bytes(body[at : at + size], "little")
        at += size
        row = self._base.copy()
        # There is a bit for each document of the table, whether it is in this row or not.
        documents_before = dict(
            zip(range(self._count), accumulate(self._documents, initial=0), strict=False)
        )
        for bit, number in enumerate(there):
            told = self._documents[number] and bool(partial >> documents_before[number] & 1)
            slot = self._slots[number]
            value: Value = None
            if not nulls >> bit & 1:
                if told:
                    end = at + 4 + int.from_bytes(body[at : at + 4], "little")
                    if slot >= 0:
                        before = old[slot]
                        value = (
                            documents.changed(before, body[at + 4 : end])
                            if isinstance(before, bytes)
                            else UNCHANGED
                        )
                    at = end
                else:
                    value, at = self._readers[number](body, at)
            if slot >= 0:
                row[slot] = value
        return row, at
