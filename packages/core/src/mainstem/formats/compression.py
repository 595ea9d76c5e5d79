"""Single values that are compressed."""

from __future__ import annotations

import zlib

from mainstem.formats.arrow import Array, pa
from mainstem.formats.words import Codec

_SNAPPY_LITERAL = 32
_ZSTD, _LZ4 = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"


class NotCompressed(ValueError):  # noqa: N818
    """Bytes are not what a codec gives: says why."""


def compress(values: Array, codec: Codec) -> Array:
    """Return values compressed, one by one: gzip, a zstd or LZ4 frame, or a snappy block."""
    made = pa.Codec(codec)
    return pa.array(
        [
            None if value is None else made.compress(value, asbytes=True)
            for value in values.to_pylist()
        ],
        pa.binary(),
    )


def decompress(value: bytes, codec: Codec, limit: int) -> bytes:
    """Return what was compressed.

    Args:
        limit: the most bytes that may come out.

    Raises:
        NotCompressed: the value is broken, truncated, several in one, or larger.
    """
    if codec == "gzip":
        return _gunzip(value, limit)
    if codec == "snappy":
        return _unsnap(value, limit)
    end = _zstd_end(value) if codec == "zstd" else _lz4_end(value)
    if end > len(value):
        raise NotCompressed(f"truncated {codec}")
    if end < len(value):
        raise NotCompressed(f"more bytes after the {codec} frame")
    try:
        with pa.CompressedInputStream(pa.py_buffer(value), codec) as stream:
            found: bytes = stream.read(limit + 1)
    except (OSError, pa.ArrowInvalid):
        raise NotCompressed(f"not {codec}") from None
    return _small(found, limit)


def _small(found: bytes, limit: int) -> bytes:
    if len(found) > limit:
        raise NotCompressed(f"more than {limit} bytes when decompressed")
    return found


def _gunzip(value: bytes, limit: int) -> bytes:
    made = zlib.decompressobj(wbits=31)
    try:
        found = made.decompress(value, limit + 1)
    except zlib.error:
        raise NotCompressed("not gzip") from None
    _small(found, limit)
    if not made.eof:
        raise NotCompressed("truncated gzip")
    if made.unused_data:
        raise NotCompressed("more bytes after the gzip member")
    return found


def _unsnap(value: bytes, limit: int) -> bytes:
    """Read a block (https://github.com/google/snappy/blob/main/format_description.txt)."""
    size = shift = at = 0
    while True:
        if at == len(value) or shift > _SNAPPY_LITERAL:
            raise NotCompressed("truncated snappy" if value[at:] == b"" else "not snappy")
        size |= (value[at] & 0x7F) << shift
        shift += 7
        at += 1
        if value[at - 1] < 0x80:
            break
    if size > limit:
        raise NotCompressed(f"more than {limit} bytes when decompressed")
    try:
        return pa.Codec("snappy").decompress(value, size, asbytes=True)  # type: ignore[no-any-return]
    except (OSError, pa.ArrowInvalid):
        raise NotCompressed("not snappy, or truncated") from None


def _zstd_end(value: bytes) -> int:
    """Return where the first frame ends, beyond the value if it is truncated (RFC 8878, 3.1.1)."""
    if not value.startswith(_ZSTD):
        raise NotCompressed("not zstd")
    if len(value) < 6:
        return len(value) + 1
    flags = value[4]
    single = flags >> 5 & 1
    at = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    at += (single, 2, 4, 8)[flags >> 6]
    while True:
        header = int.from_bytes(value[at : at + 3], "little")
        if at + 3 > len(value):
            return len(value) + 1
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == 1 else size)
        if last:
            return at + 4 * (flags >> 2 & 1)


def _lz4_end(value: bytes) -> int:
    """Return where the first frame ends (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md)."""
    if not value.startswith(_LZ4):
        raise NotCompressed("not lz4")
    if len(value) < 7:
        return len(value) + 1
    flags = value[4]
    at = 7 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)
    while True:
        if at + 4 > len(value):
            return len(value) + 1
        size = int.from_bytes(value[at : at + 4], "little") & 0x7FFFFFFF
        at += 4
        if not size:
            return at + 4 * (flags >> 2 & 1)
        at += size + 4 * (flags >> 4 & 1)
