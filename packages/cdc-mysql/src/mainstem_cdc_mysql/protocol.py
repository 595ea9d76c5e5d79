"""What is in a binary log: events, as MySQL's and MariaDB's documentation tells them.

Rows are read in `rows`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa
from mainstem import TransientError

_HEADER = struct.Struct("<IBIIIH")
_GTID, _U64 = struct.Struct("<B16sQ"), struct.Struct("<Q")
_MARIADB_GTID = struct.Struct("<QIB")
_QUERY = struct.Struct("<IIBHH")

QUERY, ROTATE, FORMAT, XID, LOAD, TABLE, HEARTBEAT = 2, 4, 15, 16, 18, 19, 27
GTID, ANONYMOUS, XA_PREPARE, PAYLOAD, TAGGED_GTID = 33, 34, 38, 40, 42
MARIADB_GTID, QUERY_COMPRESSED = 162, 165
_HEARTBEATS = (HEARTBEAT, 41)
#: What rows events do, and whether theirs is the second version of the format.
ROWS = {
    23: ("insert", False), 24: ("update", False), 25: ("delete", False),
    30: ("insert", True), 31: ("update", True), 32: ("delete", True), 39: ("partial", True),
    166: ("insert", False), 167: ("update", False), 168: ("delete", False),
    169: ("insert", True), 170: ("update", True), 171: ("delete", True),
}  # fmt: skip
_COMPRESSED_ROWS = range(166, 172)
#: A transaction that MariaDB's event begins is one statement alone, without a COMMIT.
_STANDALONE = 1
#: The event is made for the reader, and in no file; whoever does not know it may pass it over.
_ARTIFICIAL, _IGNORABLE = 0x20, 0x80
#: What is known to tell nothing of rows: the end of a file, variables of statements, parts of files to be
#: loaded, statements that rows were made of, sets of transactions, views of a group, MariaDB's own.
KNOWN = frozenset({
    ROTATE, FORMAT, HEARTBEAT, 0, 3, 5, 9, 11, 13, 14, 17, 28, 29, 35, 36, 37, 160, 161, 163, 164,
})  # fmt: skip


class Event(NamedTuple):
    """One event.

    Attributes:
        at: when, in seconds since 1970.
        size: how long it is in its file.
        end: where the next one begins, modulo 2**32; 0 for one that is in no file.
        body: all behind the header.
        ignorable: whether whoever does not know its kind may pass it over.
    """

    kind: int
    at: int
    server: int
    size: int
    end: int
    body: bytes
    ignorable: bool = False


class Begin(NamedTuple):
    """A transaction: its id, when it was (microseconds since 1970), whether it is one statement alone."""

    gtid: str
    at: int
    alone: bool


class Query(NamedTuple):
    """A statement, and the database in which it was given."""

    database: str
    text: str


def event(data: bytes, *, summed: bool) -> Event:
    """Return an event of its bytes.

    Args:
        summed: whether its last four bytes are a checksum.

    Raises:
        TransientError: the checksum is wrong.
    """
    at, kind, server, size, end, flags = _HEADER.unpack_from(data)
    if kind in _HEARTBEATS:
        return Event(HEARTBEAT, at, server, size, end, b"")
    if flags & _ARTIFICIAL:
        end = 0
    if not summed and kind != FORMAT:
        return Event(kind, at, server, size, end, data[19:], bool(flags & _IGNORABLE))
    if summed and zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise TransientError("an event of the server's log has a wrong checksum")
    return Event(kind, at, server, size, end, data[19:-4], bool(flags & _IGNORABLE))


def summed(of: Event) -> bool:
    """Whether events have checksums, given the one that begins a file."""
    return of.body[-1] == 1


def rotated(body: bytes) -> tuple[str, int]:
    """Return the file that follows, and the position there."""
    return body[8:].decode(), _U64.unpack_from(body)[0]


def begin(of: Event) -> Begin:
    """Return what an event says that begins a transaction."""
    body, at = of.body, of.at * 1_000_000
    if of.kind == MARIADB_GTID:
        number, domain, flags = _MARIADB_GTID.unpack_from(body)
        return Begin(f"{domain}-{of.server}-{number}", at, bool(flags & _STANDALONE))
    _, server, number = _GTID.unpack_from(body)
    if len(body) >= _STAMPED:
        # Seven bytes; the highest bit says that the time at the server where it began follows.
        at = int.from_bytes(body[42:49], "little") & ~(1 << 55) or at
    gtid = "" if of.kind == ANONYMOUS else f"{UUID(bytes=server)}:{number}"
    return Begin(gtid, at, alone=False)


#: How long the event is, at least, where it has the time in microseconds.
_STAMPED = 49


def query(of: Event) -> Query:
    """Return a statement."""
    body = of.body
    _, _, length, _, variables = _QUERY.unpack_from(body)
    at = _QUERY.size + variables
    text = body[at + length + 1 :]
    if of.kind == QUERY_COMPRESSED:
        text = _inflated(text)
    return Query(body[at : at + length].decode(), text.decode(errors="replace"))


def _inflated(data: bytes) -> bytes:
    """Return what MariaDB has compressed: how, and the length's length, are in the first byte."""
    if data[0] & 0x70:
        raise ValueError("an event is compressed in a way that is not known")
    return zlib.decompress(data[1 + (data[0] & 7) :])


def rows_body(kind: int, body: bytes) -> bytes:
    """Return the body of a rows event as it is without MariaDB's compression."""
    if kind not in _COMPRESSED_ROWS:
        return body
    what, second = ROWS[kind]
    at = 8 + (int.from_bytes(body[8:10], "little") if second else 0)
    count, at = length_at(body, at)
    at += (count + 7) // 8 * (2 if what == "update" else 1)
    return body[:at] + _inflated(body[at:])


def payload(body: bytes) -> Iterator[bytes]:
    """Yield the events of a transaction that MySQL has compressed as one."""
    at, kind, size = 0, 0, 0
    while True:
        field, at = length_at(body, at)
        if field == 0:  # the content follows
            break
        length, at = length_at(body, at)
        if field == 2:
            kind = length_at(body, at)[0]
        elif field == 3:
            size = length_at(body, at)[0]
        at += length
    content = body[at:]
    if kind == 0:
        try:
            content = pa.Codec("zstd").decompress(content, size, asbytes=True)
        except OSError as error:
            raise ValueError("a transaction can't be unpacked") from error
    elif kind != 255:
        raise ValueError("a transaction is compressed in a way that is not known")
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at + 9 : at + 13], "little")
        yield content[at : at + size]
        at += size


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """Return a number that is as long as its first byte says, and where what follows begins."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
