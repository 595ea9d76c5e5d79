"""For tests of formats whose values tell of a table's changes: what they tell, read without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa
from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened

#: The changes of a message, each its kind and the row.
Told = list[tuple[str, dict[str, Any]]]


def changes_of(
    decode: Decode, messages: Iterable[tuple[bytes | None, bytes | None]]
) -> tuple[list[Told], list[str | None], list[datetime | None]]:
    """Return by message its changes, why it is refused, and when the database made them.

    Args:
        decode: the operator, with the format's options.
        messages: values, each with its key.
    """
    decoding = decode.decoding()
    names = [column.name for column in decoding.columns]
    values, keys = (pa.array(each, pa.binary()) for each in zip(*messages, strict=True))
    found = opened(decoding)(values, keys).to_pylist()
    changes = [
        [
            (each["type"], {name: each[f"c{n}"] for n, name in enumerate(names)})
            for each in row["changes"]
        ]
        for row in found
    ]
    return changes, [row["reason"] for row in found], [row["at"] for row in found]
