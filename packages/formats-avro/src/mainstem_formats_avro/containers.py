"""Object container files of Avro: values that hold many records, and the schema that wrote them.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pyarrow as pa
from mainstem import Several

from mainstem_formats_avro.reading import AvroValues
from mainstem_formats_avro.single_values import Misfit, bytes_of, long_of

_MAGIC, _SYNC = b"Obj\x01", 16
#: The most schemas that are kept, each as it is read.
_MOST = 100

Single = Callable[[bytes, int], tuple[Any, int]]


class AvroFiles:
    """Reads container files, each by its own schema, as records of a reader's.

    Args:
        schema: the text of the reader's schema.
        new_fields: whether files are read whose schema has fields that the reader's does not.
    """

    def __init__(self, schema: str, *, new_fields: bool = True) -> None:
        self._values = AvroValues([schema], new_fields=new_fields)
        self._singles: dict[str, Single | Misfit] = {}

    def read(self, values: pa.Array[Any], limit: int) -> Several:
        """Return the records of each file, all of them or none."""
        kinds = self._values.kinds
        found, rows = Several(), []
        for value in values.to_pylist():
            try:
                rows += self._rows(value, limit, len(kinds))
            except Misfit as why:
                found.reasons.append(str(why))
            except (IndexError, struct.error):
                found.reasons.append("the file is cut")
            except UnicodeDecodeError:
                found.reasons.append("a text is not UTF-8")
            except RecursionError:
                found.reasons.append("the value is nested too deep")
            else:
                found.reasons.append(None)
            found.ends.append(len(rows))
        found.rows = [
            pa.array([row[number] for row in rows], kind) for number, kind in enumerate(kinds)
        ]
        return found

    def _rows(self, value: bytes | None, limit: int, width: int) -> list[Any]:
        if value is None:
            raise Misfit("the value is null")
        if not value.startswith(_MAGIC):
            raise Misfit("it is no container file")
        told, at = _header(value)
        sync, at = value[at : at + _SYNC], at + _SYNC
        if len(sync) < _SYNC:
            raise IndexError
        single = self._single(_text(told, "avro.schema"))
        codec = told.get("avro.codec", b"null").decode()
        rows: list[Any] = []
        for count, block in _blocks(value, at, sync):
            data = _decompressed(block, codec, limit)
            limit -= max(len(data), count * width)
            if limit < 0:
                raise Misfit("its records are too large together (max_size)")
            place = 0
            for _ in range(count):
                row, place = single(data, place)
                rows.append(row)
            if place != len(data):
                raise Misfit("a block has not as many bytes as it says")
        return rows

    def _single(self, text: str) -> Single:
        found = self._singles.get(text)
        if found is None:
            try:
                found = self._values.resolved(text).single
            except ValueError as error:
                found = Misfit(f"its schema: {error}")
            if len(self._singles) >= _MOST:
                self._singles.clear()
            self._singles[text] = found
        if isinstance(found, Misfit):
            raise found
        return found


def _header(value: bytes) -> tuple[dict[str, bytes], int]:
    """Return what a file tells of itself, and where that ends."""
    told: dict[str, bytes] = {}
    at = len(_MAGIC)
    while True:
        count, at = long_of(value, at)
        if count == 0:
            return told, at
        if count < 0:
            count, (_, at) = -count, long_of(value, at)
        for _ in range(count):
            key, at = bytes_of(value, at)
            held, at = bytes_of(value, at)
            told[key.decode()] = held


def _text(told: dict[str, bytes], key: str) -> str:
    if key not in told:
        raise Misfit(f"it has no {key}")
    return told[key].decode()


def _blocks(value: bytes, at: int, sync: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each block: how many records it has, and its bytes."""
    while at < len(value):
        count, at = long_of(value, at)
        block, at = bytes_of(value, at)
        if count < 0:
            raise Misfit("a length is negative")
        end = at + _SYNC
        if end > len(value):
            raise IndexError
        if value[at:end] != sync:
            raise Misfit("a block does not end as its file says")
        at = end
        yield count, block


def _decompressed(block: bytes, codec: str, limit: int) -> bytes:
    if codec == "null":
        return block
    try:
        if codec == "deflate":
            made = zlib.decompressobj(wbits=-15)
            found = made.decompress(block, limit + 1)
            if len(found) <= limit and not made.eof:
                raise Misfit("a block is cut")
        elif codec == "snappy":
            found, sum_ = _snappy(block[:-4], limit), block[-4:]
            if len(found) <= limit and zlib.crc32(found).to_bytes(4, "big") != sum_:
                raise Misfit("a block's checksum is wrong")
        elif codec == "zstandard":
            with pa.CompressedInputStream(BytesIO(block), "zstd") as stream:
                found = stream.read(limit + 1)
        else:
            raise Misfit(f"it is compressed by {codec[:50]}")
    except (zlib.error, OSError, pa.ArrowException):
        raise Misfit(f"a block is not {codec}") from None
    if len(found) > limit:
        raise Misfit("its records are too large together (max_size)")
    return found


def _snappy(block: bytes, limit: int) -> bytes:
    """Return a block that says how long it will be."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if size > limit:
        raise Misfit("its records are too large together (max_size)")
    made: bytes = pa.Codec("snappy").decompress(block, size, asbytes=True)
    return made
