"""What PostgreSQL's plugin `pgoutput` sends, version 1 of its protocol.

The messages are told by PostgreSQL's documentation (Logical Replication Message Formats).
"""

from __future__ import annotations

import struct
from typing import Literal, NamedTuple

from mainstem_cdc import UNCHANGED, Value

#: Microseconds from 1970 to 2000, from which PostgreSQL counts.
EPOCH = 946_684_800_000_000

_BEGIN, _COMMIT, _TEXT = struct.Struct("!QqI"), struct.Struct("!xQQq"), struct.Struct("!BQ")
_U16, _U32 = struct.Struct("!H"), struct.Struct("!I")
_NULL, _UNCHANGED, _VALUE = b"nut"
_KINDS: dict[bytes, Literal["insert", "update", "delete"]] = {
    b"I": "insert",
    b"U": "update",
    b"D": "delete",
}


class Begin(NamedTuple):
    """A transaction: where its commit is in the log, when that was (microseconds since 1970), its id."""

    commit: int
    at: int
    xid: int


class Commit(NamedTuple):
    """The end of a transaction: where the log goes on after it."""

    end: int


class Relation(NamedTuple):
    """A table as it is from here on; of deleted rows the log tells the columns in `told`."""

    id: int
    namespace: str
    name: str
    columns: tuple[str, ...]
    told: tuple[str, ...]


class Write(NamedTuple):
    """A row that was inserted (no `old`), updated, or deleted (no `new`).

    `whole` is whether `old` has all columns: else it has the values of the replica identity, and null for
    the others. An update without `old` has not changed that.
    """

    relation: int
    kind: Literal["insert", "update", "delete"]
    old: list[Value] | None
    whole: bool
    new: list[Value] | None


class Truncate(NamedTuple):
    """Tables all of whose rows were removed at once."""

    relations: tuple[int, ...]


class Text(NamedTuple):
    """A message of `pg_logical_emit_message`; one that is of no transaction is at a place of its own."""

    place: int
    transactional: bool
    prefix: str
    content: bytes


Sent = Begin | Commit | Relation | Write | Truncate | Text


def read(data: bytes) -> Sent | None:
    """Return what a message says; None for one that says nothing of rows (types, origins).

    Raises:
        ValueError: it is of no kind that is known.
    """
    kind = data[:1]
    if kind in _KINDS:
        return _write(data)
    if kind == b"B":
        commit, at, xid = _BEGIN.unpack_from(data, 1)
        return Begin(commit, at + EPOCH, xid)
    if kind == b"C":
        return Commit(_COMMIT.unpack_from(data, 1)[1])
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        (count,) = _U32.unpack_from(data, 1)
        return Truncate(struct.unpack_from(f"!{count}I", data, 6))
    if kind == b"M":
        flags, place = _TEXT.unpack_from(data, 1)
        prefix, at = _word(data, 10)
        return Text(place, bool(flags & 1), prefix, data[at + 4 :])
    if kind in (b"O", b"Y"):
        return None
    raise ValueError(f"the server sends a message of kind {kind!r}")


def _relation(data: bytes) -> Relation:
    (number,) = _U32.unpack_from(data, 1)
    namespace, at = _word(data, 5)
    name, at = _word(data, at)
    (count,) = _U16.unpack_from(data, at + 1)
    at += 3
    columns, told = [], []
    for _ in range(count):
        flags = data[at]
        column, at = _word(data, at + 1)
        columns.append(column)
        told += [column] if flags & 1 else []
        at += 8  # its type
    return Relation(number, namespace or "pg_catalog", name, tuple(columns), tuple(told))


def _word(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _write(data: bytes) -> Write:
    (relation,) = _U32.unpack_from(data, 1)
    old = new = None
    whole = False
    at = 5
    while at < len(data):
        part = data[at]
        values, at = _tuple(data, at + 1)
        if part == ord("N"):
            new = values
        else:
            old, whole = values, part == ord("O")
    return Write(relation, _KINDS[data[:1]], old, whole, new)


def _tuple(data: bytes, at: int) -> tuple[list[Value], int]:
    (count,) = _U16.unpack_from(data, at)
    at += 2
    found: list[Value] = []
    add, length = found.append, _U32.unpack_from
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == _VALUE:
            end = at + 4 + length(data, at)[0]
            add(data[at + 4 : end])
            at = end
        elif kind == _NULL:
            add(None)
        elif kind == _UNCHANGED:
            add(UNCHANGED)
        else:
            raise ValueError(f"the server sends a value of kind {kind}")
    return found, at
