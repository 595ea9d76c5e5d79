"""Segments: immutable files of messages, each whole or not there at all.

A segment `NUMBER.segment` is an Arrow IPC file with one record batch, after it a JSON object (`Header`),
and at the end (`_END`) the header's length, checksums (CRC-32) of the header and of what is before it,
and a mark. Both are looked at whenever the file is read: what has changed on the disk is an error, and
never another message. Numbers count from 0 within a receiver's folder. What is written comes under its
name only after it is safe on disk, so a crash leaves at most a file of another name.

An `NUMBER.ids` has the same header and the ids alone: what is left of a segment that was removed
within the horizon of duplicates.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from mainstem import failpoint
from mainstem.columns import arrow_type
from mainstem.durable import open_private, sync_folder
from zlib_ng.zlib_ng import crc32  # thirty times as fast as zlib's own

from mainstem_ingress.errors import LogError
from mainstem_ingress.messages import Columns, Message, Values

FORMAT = 2
#: No room, or no file to be had: what a write fails with that can be retried later.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
SUFFIX = ".segment"
IDS_SUFFIX = ".ids"
_NEW_SUFFIX = ".new"
#: How much of a file's end is read for its header, in bytes: more than most have.
_LOOK = 64 * 1024
#: The end of a file: length and checksum of the header, checksum of the rows, and the mark.
_END = struct.Struct("<III8s")
_MARK = b"mainstem"
#: The most bytes that a column's 32-bit offsets reach.
_MOST = 2**31 - 1

#: The name of the column with why a message was refused; null for all others.
REASON = "_reason"
#: The name of the column with the hash of a message's id; null where it had none.
ID = "_id16"

_COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", pa.map_(pa.string(), pa.binary())),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("origin", pa.string()),
    pa.field(REASON, pa.string()),
)


@dataclass(frozen=True)
class Header:
    """What a segment says of itself.

    `rows_before` and `bytes_before` are of all segments of the folder before this one, so that sums
    over a range need a look at its ends alone. `created` is in seconds since 1970. `complete` is what
    `Receiver.complete` has said of its end.
    """

    number: int
    rows: int
    rows_before: int
    bytes_before: int
    created: float
    cursor: str | None = None
    complete: bool = True
    format: int = FORMAT


def fields_of(columns: Sequence[tuple[str, str]]) -> list[pa.Field[Any]]:
    """Return columns, given by name and type in DDL, as a segment has them."""
    return [pa.field(name, arrow_type(kind)) for name, kind in columns]


def schema_of(extra: Sequence[pa.Field[Any]] = ()) -> pa.Schema:
    """Return the columns of segments, with those that a source adds."""
    return pa.schema([*_COLUMNS, *extra, pa.field(ID, pa.binary(16))])


def as_batch(
    messages: Sequence[Message], ids: Sequence[bytes | None] | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Return messages as a record batch; `ids` are the hashes of their ids, None for none at all."""
    if isinstance(messages, Values):
        return _batch_of_values(messages, schema)
    count = len(messages)
    value, key, headers, timestamp, origin, _, _, _, refused, extra = zip(*messages, strict=True)
    now = time.time_ns() // 1000
    if any(at is not None and not _FIRST <= at <= _LAST for at in timestamp):
        timestamp, refused = zip(*map(_near, timestamp, refused), strict=True)
    times = np.array([now if at is None else at for at in timestamp], dtype="<i8")
    # What is refused may have none of the columns that the source adds.
    none = (None,) * (len(schema) - len(_COLUMNS) - 1)
    added = [its if why is None else its or none for its, why in zip(extra, refused, strict=True)]
    arrays = [
        _bytes(key),
        _bytes(value),
        _maps(headers),
        _array(pa.timestamp("us", "UTC"), count, times),
        _texts(origin),
        _texts(refused),
        *(
            _extra(column, schema.field(len(_COLUMNS) + index).type)
            for index, column in enumerate(zip(*added, strict=True))
        ),
        _ids(ids or [None] * count),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


#: The years 1 to 9999, in microseconds since 1970.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def _near(at: int | None, refused: str | None) -> tuple[int | None, str | None]:
    """Return a message's time, none if it is one that most programs make an error of, and then why."""
    if at is None or _FIRST <= at <= _LAST:
        return at, refused
    return (
        None,
        refused
        or f"it can't be stored: its timestamp, {at} microseconds, is beyond the years 1 to 9999",
    )


def _batch_of_values(messages: Values, schema: pa.Schema) -> pa.RecordBatch:
    """As `as_batch`, of messages that are columns already."""
    count = len(messages)
    times = np.full(count, time.time_ns() // 1000, dtype="<i8")
    made = {
        "value": _packed(messages.values, pa.binary()),
        "timestamp": _array(pa.timestamp("us", "UTC"), count, times),
        "origin": _repeated(messages.origin, count),
    }
    added = schema.names[len(_COLUMNS) : -1]
    made |= dict(zip(added, messages.extra, strict=False))
    arrays = [made.get(field.name, pa.nulls(count, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def batch_of_columns(part: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """As `as_batch`, of rows of a table."""
    count = len(part.rows)
    made = {
        "timestamp": _array(
            pa.timestamp("us", "UTC"), count, np.array(part.timestamps, dtype="<i8")
        ),
        "origin": _repeated(part.origin, count),
        "_output": _repeated(part.table, count),
        f"_{part.table}": part.rows,
    }
    arrays = [made.get(field.name, pa.nulls(count, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# Arrays are made of buffers, which is several times faster than by `pa.array`, and spares each
# receiver the import of pandas that comes with it.


def _buffer(content: Any) -> pa.Buffer:
    return pa.py_buffer(content)


def _bits(flags: Any) -> pa.Buffer:
    return _buffer(np.packbits(flags, bitorder="little"))


def _array(kind: Any, count: int, *buffers: Any, valid: Any = None) -> Any:
    return pa.Array.from_buffers(kind, count, [valid, *map(_buffer, buffers)])


def _bytes(values: Sequence[bytes | None], kind: Any = None) -> Any:
    kind, count = kind or pa.binary(), len(values)
    missing = values.count(None)
    if missing == count:
        return pa.nulls(count, kind)
    if not missing:
        return _packed(values, kind)
    flags = np.fromiter((v is not None for v in values), bool, count)
    return _packed([v or b"" for v in values], kind, valid=_bits(flags))


def _packed(values: Sequence[Any], kind: Any, valid: Any = None) -> Any:
    count = len(values)
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, count))
    if ends[-1] > _MOST:
        raise OverflowError(f"{ends[-1]:,} bytes are too many for one segment")
    offsets = np.zeros(count + 1, dtype="<i4")
    offsets[1:] = ends
    return _array(kind, count, offsets, b"".join(values), valid=valid)


def _ids(hashes: Sequence[bytes | None]) -> Any:
    flags = np.fromiter((each is not None for each in hashes), bool, len(hashes))
    if not flags.any():
        return pa.nulls(len(hashes), pa.binary(16))
    valid = _bits(flags)
    return _array(pa.binary(16), len(hashes), b"".join(h or bytes(16) for h in hashes), valid=valid)


def _repeated(text: str | None, count: int) -> Any:
    if text is None:
        return pa.nulls(count, pa.string())
    encoded = text.encode()
    if len(encoded) * count > _MOST:
        raise OverflowError(f"{len(encoded) * count:,} bytes are too many for one segment")
    offsets = np.arange(count + 1, dtype="<i4") * np.int32(len(encoded))
    return _array(pa.string(), count, offsets, encoded * count)


def _texts(values: Sequence[str | None]) -> Any:
    if values and values.count(values[0]) == len(values):
        return _repeated(values[0], len(values))  # as nearly always: one queue, nothing refused
    return _bytes([None if v is None else v.encode() for v in values], pa.string())


def _extra(values: Sequence[Any], kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return _texts(values)
    return _bytes(values) if pa.types.is_binary(kind) else pa.array(values, kind)


def _maps(headers: Sequence[Sequence[tuple[str, bytes]] | None]) -> Any:
    kind: Any = pa.map_(pa.string(), pa.binary())
    count = len(headers)
    if headers.count(None) == count:
        return pa.nulls(count, kind)
    offsets = np.zeros(count + 1, dtype="<i4")
    names: list[str] = []
    values: list[bytes] = []
    for index, pairs in enumerate(headers):
        if pairs:
            found = dict(pairs)
            names += found
            values += found.values()
        offsets[index + 1] = len(names)
    flags = np.fromiter((pairs is not None for pairs in headers), bool, count)
    entries = pa.StructArray.from_arrays(
        [_texts(names), _bytes(values)], fields=[kind.key_field, kind.item_field]
    )
    return pa.Array.from_buffers(
        kind,
        count,
        [_bits(flags), _buffer(offsets)],
        children=[entries],
    )


# -- files ------------------------------------------------------------------------------------


def file_of(folder: Path, number: int, suffix: str = SUFFIX) -> Path:
    """Return where a segment is, or is to be."""
    return folder / f"{number:012d}{suffix}"


def numbers(folder: Path, suffix: str = SUFFIX) -> list[int]:
    """Return the numbers of the segments that are there, in order."""
    with os.scandir(folder) as files:
        return sorted(
            int(file.name[:12])
            for file in files
            if file.name.endswith(suffix) and file.name[:12].isdigit()
        )


def write(folder: Path, header: Header, batch: pa.RecordBatch, suffix: str = SUFFIX) -> int:
    """Write a segment; it is there for good when this returns. Returns its size in bytes.

    Raises:
        OSError: it could not be written (the disk is full); nothing is left of it.
        LogError: it is there, and perhaps not for good.
    """
    new = file_of(folder, header.number, suffix + _NEW_SUFFIX)
    told = json.dumps(vars(header)).encode()
    failpoint("ingress.before-write")
    try:
        with open_private(new) as file:
            rows = pa.BufferOutputStream()
            with pa.ipc.new_file(rows, batch.schema) as writer:
                writer.write_batch(batch)
            written = rows.getvalue()
            file.write(written)
            file.write(ending(memoryview(written), told))
            failpoint("ingress.after-write")
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    failpoint("ingress.after-fsync")
    new.rename(file_of(folder, header.number, suffix))
    failpoint("ingress.after-rename")
    try:
        sync_folder(folder)
    except OSError as error:  # to write it again would change what may have been read
        raise LogError(f"{file_of(folder, header.number, suffix)}: {error.strerror}") from error
    failpoint("ingress.after-folder-fsync")
    return size


def ending(rows: memoryview, told: bytes) -> bytes:
    """Return what follows the rows in a file: the header, given as JSON, and the end."""
    return told + _END.pack(len(told), crc32(told), crc32(rows), _MARK)


def remove_torn(folder: Path) -> None:
    """Remove what a crash left of files that were never finished."""
    for file in folder.glob(f"*{_NEW_SUFFIX}"):
        file.unlink()


def open_segment(file: Path) -> tuple[Header, pa.RecordBatch]:
    """Return a segment's header and its rows.

    Raises:
        LogError: it is gone, damaged, or of a version that this one does not read.
    """
    try:
        data = file.read_bytes()
        header, rows, checksum = _parts(file, memoryview(data))
        if crc32(rows) != checksum:
            raise _damaged(file, "its rows are not what was written")
        batch = pa.ipc.open_file(pa.py_buffer(rows)).get_batch(0)
    except FileNotFoundError:
        raise LogError(f"the segment {file} is gone, and was not read yet") from None
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise _damaged(file, str(error)) from None
    if batch.num_rows != header.rows:
        message = f"the segment {file} has {batch.num_rows} rows, and says {header.rows}"
        raise LogError(message)
    return header, batch


def read_header(file: Path) -> Header:
    """Return a segment's header; raises as `open_segment` does."""
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - _LOOK))
            data = opened.read()
        try:
            return _parts(file, memoryview(data))[0]
        except _CutError:
            return _parts(file, memoryview(file.read_bytes()))[0]
    except FileNotFoundError:
        raise LogError(f"the segment {file} is gone, and was not read yet") from None
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(file, str(error)) from None


class _CutError(ValueError):
    """The header does not lie in what was read of a file."""


def _parts(file: Path, data: memoryview) -> tuple[Header, memoryview, int]:
    """Return header, rows and checksum of the rows, given the end of a file or all of it."""
    if len(data) < _END.size:
        raise ValueError("it is cut off")
    length, checksum, of_rows, mark = _END.unpack(data[-_END.size :])
    if mark != _MARK:
        raise ValueError("its end is not there")
    start = len(data) - _END.size - length
    if start < 0:
        raise _CutError("it is cut off")
    told = data[start : -_END.size]
    if crc32(told) != checksum:
        raise ValueError("its header is not what was written")
    return _header(file, bytes(told)), data[:start], of_rows


def _damaged(file: Path, why: str) -> LogError:
    return LogError(
        f"the segment {file} can't be read: {why}. It was changed after it was written: bring it back "
        "from a copy. Without one, its messages are lost; move it away with all after it, and begin the "
        "query anew."
    )


def _header(file: Path, told: bytes) -> Header:
    found = json.loads(told)
    if not isinstance(found, dict):
        raise ValueError("its header is no object")
    if found.get("format") != FORMAT:
        raise LogError(
            f"the segment {file} has format {found.get('format')}, and this version reads {FORMAT}; "
            "read it with the version of mainstem-ingress that wrote it"
        )
    try:
        header = Header(**found)
    except TypeError as error:
        raise ValueError(f"its header is another one ({error})") from None
    if header.number != int(file.name[:12]):
        raise LogError(f"the segment {file} says that its number is {header.number}")
    return header
