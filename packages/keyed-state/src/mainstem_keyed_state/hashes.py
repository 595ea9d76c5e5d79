"""The hash that a key carries: it says in which bucket and page the key's rows are.

A key is the CRC-32 of its values' bytes, 4 bytes big endian, and those bytes after it: two keys are equal
only if their values are. CRC-32 is the same in Spark and Python, today and in later versions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from mainstem_keyed_state.columns import Array

Hashes = npt.NDArray[np.uint32]


def hashes_of(keys: pl.Series) -> Hashes:
    """Return the hashes of keys (`KEY`); 0 for a row without one."""
    prefix = keys.bin.slice(0, 4).bin.reinterpret(dtype=pl.UInt32, endianness="big")
    return prefix.fill_null(0).to_numpy()


def hashes_in(keys: Array) -> Hashes:
    """Return the hashes of keys in an Arrow array of binaries; 0 for a row without one."""
    if not len(keys):
        return np.empty(0, np.uint32)
    if keys.null_count:
        keys = keys.fill_null(b"\0\0\0\0")
    buffers: Any = keys.buffers()
    _, offsets, data = buffers
    width = np.int64 if pa.types.is_large_binary(keys.type) else np.int32
    starts = np.frombuffer(offsets, width)[keys.offset : keys.offset + len(keys)]
    values = np.frombuffer(data, np.uint8)
    found = np.zeros(len(keys), np.uint32)
    for place in range(4):
        found = (found << np.uint32(8)) | values[starts + place]
    return found
