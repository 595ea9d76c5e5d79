"""What messages of Arrow IPC say of themselves: how large their buffers will be once decompressed.

https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
"""

from __future__ import annotations

import struct
from typing import Any

#: What a message holds, by its number; and the places of what is looked at in their tables.
_DICTIONARY, _RECORDS = 2, 3
_KIND, _HEADER = 1, 2
_BUFFERS, _COMPRESSION = 2, 3
_DATA = 1


def declared_size(metadata: bytes, body: Any) -> int:
    """Return how many bytes the buffers of a message take, by what it says of them.

    Args:
        metadata: the message, a flatbuffer.
        body: its buffers.

    Raises:
        ValueError: it is no message.
    """
    try:
        return _declared(metadata, body)
    except struct.error:
        raise ValueError("no message") from None


def _declared(held: bytes, body: Any) -> int:
    root = _at("<I", held, 0)
    kind = _place(held, root, _KIND)
    header = _place(held, root, _HEADER)
    if kind is None or header is None or held[kind] not in (_DICTIONARY, _RECORDS):
        return 0
    table = _pointed(held, header)
    if held[kind] == _DICTIONARY:
        data = _place(held, table, _DATA)
        if data is None:
            return 0
        table = _pointed(held, data)
    buffers = _place(held, table, _BUFFERS)
    if buffers is None:
        return 0
    compressed = _place(held, table, _COMPRESSION) is not None
    start = _pointed(held, buffers)
    size = 0
    for number in range(_at("<I", held, start)):
        offset, length = struct.unpack_from("<qq", held, start + 4 + 16 * number)
        if compressed and length:
            plain = _at("<q", body, offset)
            length = max(plain, length)  # it is -1 where the buffer was left as it was
        size += max(length, 0)
    return size


def _at(kind: str, held: Any, place: int) -> int:
    if place < 0:
        raise struct.error
    return int(struct.unpack_from(kind, held, place)[0])


def _pointed(held: bytes, place: int) -> int:
    return place + _at("<I", held, place)


def _place(held: bytes, table: int, number: int) -> int | None:
    """Return where a field of a table is; None where it is left out."""
    fields = table - _at("<i", held, table)
    if 4 + 2 * number + 2 > _at("<H", held, fields):
        return None
    offset = _at("<H", held, fields + 4 + 2 * number)
    return table + offset if offset else None
