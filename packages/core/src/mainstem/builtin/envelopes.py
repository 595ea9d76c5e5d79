"""What values may be wrapped in, which `decode` opens before it reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainstem.arrays import arrow_call

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from mainstem.formats.arrow import Array

#: The column of an envelope's attributes, for expressions.
ATTRIBUTES = "attributes"
#: What is made of a message: what is in it, what its envelope says, and why it is none.
OPENED = f"STRUCT<value: BINARY, {ATTRIBUTES}: MAP<STRING, STRING>, reason: STRING>"


class Opening:
    """Opens envelopes of a word, in tasks; it goes there by pickle."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.__name__ = f"open_{word}"

    def call(self, value: SparkColumn, headers: SparkColumn) -> SparkColumn:
        """Return what is made of messages, of the type `OPENED`; no value is an empty one."""
        return arrow_call(self, OPENED, value, headers)

    def __call__(self, values: Array, headers: Array) -> Array:
        from mainstem.formats import envelopes
        from mainstem.formats.arrow import pa

        opens: dict[str, Callable[[bytes | None, dict[str, Any]], Any]] = {
            "sns": envelopes.sns,
            "cloudevents": envelopes.cloud_event,
        }
        open_ = opens[self._word]
        found: list[tuple[bytes | None, dict[str, str] | None, str | None]] = []
        for value, held in zip(values.to_pylist(), headers.to_pylist(), strict=True):
            try:
                inside, attributes = open_(value, dict(held or ()))
                found.append((inside, attributes, None))
            except envelopes.NoEnvelope as flaw:
                found.append((None, None, str(flaw)))
        parts = zip(*found, strict=True) if found else ((), (), ())
        inside_, attributes_, reasons = parts
        return pa.StructArray.from_arrays(
            [
                pa.array(inside_, pa.binary()),
                pa.array(
                    [None if each is None else list(each.items()) for each in attributes_],
                    pa.map_(pa.string(), pa.string()),
                ),
                pa.array(reasons, pa.string()),
            ],
            ["value", ATTRIBUTES, "reason"],
        )
