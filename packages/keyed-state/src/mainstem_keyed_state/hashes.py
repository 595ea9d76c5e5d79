"""The hash that a key carries: it says in which bucket and page the key's rows are.

A key is the CRC-32 of its values' bytes, 4 bytes big endian, and those bytes after it: two keys are equal
only if their values are. CRC-32 stays what it is, today and in later versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstem_keyed_state.arrays import Array

if TYPE_CHECKING:
    import polars as pl

Hashes = npt.NDArray[np.uint32]


def hashes_of(keys: pl.Series) -> Hashes:
    """Return the hashes of keys (`KEY`); 0 for a row without one."""
    from polars import CompatLevel

    found = keys.to_arrow(compat_level=CompatLevel.newest())
    # Arrow's binary view: of the sixteen bytes for each value, the second four are the value's first.
    views = np.frombuffer(memoryview(found.buffers()[1] or b""), ">u4").reshape(-1, 4)
    hashes = views[found.offset : found.offset + len(found), 1].astype(np.uint32)
    if found.null_count:
        hashes[found.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def key_of(value: bytes) -> bytes:
    """Return the key (`KEY`) of a value."""
    return crc32(value).to_bytes(4, "big") + value


def keyed_by(values: Array) -> tuple[Array, Hashes]:
    """Return the keys (`KEY`) whose values are in an Arrow array of binaries, and their hashes.

    A row whose value is null has no key; its hash is 0.
    """
    plain = values.fill_null(b"") if values.null_count else values
    hashes = np.fromiter(map(crc32, plain.to_pylist()), np.uint32, len(values))
    prefix = pa.py_buffer(hashes.astype(">u4").tobytes())
    prefixes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(values), [None, prefix])
    nothing = pa.scalar(b"", values.type)
    return pc.binary_join_element_wise(prefixes.cast(values.type), values, nothing), hashes
