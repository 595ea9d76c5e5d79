"""Objects of JSON of several types, which one of their fields tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstem.contracts.ddl import Column
from mainstem.formats.arrow import Array, pa
from mainstem.formats.json_values import Decoded, JsonValues
from mainstem.formats.rules import Rules


class JsonTypes:
    """Reads objects by the schema of their type: a column for each, null in rows of another.

    Args:
        field: the field that says the type.
        types: the value of each type, and its columns.
        rules: how times are written.
        others: whether a value of another type is a row of nulls, instead of refused.
        more: what `JsonValues` is told beside.
    """

    def __init__(
        self,
        field: str,
        types: Sequence[tuple[str, Sequence[Column]]],
        rules: Rules,
        *,
        others: bool,
        **more: Any,
    ) -> None:
        self._field, self._types, self._others = field, types, others
        self._said = JsonValues([Column(field, "string")], rules)
        self._readers = []
        for _, columns in types:
            known = {column.name for column in columns}
            said = [] if field in known else [Column(field, "string")]  # which is no extra one
            self._readers.append(JsonValues([*columns, *said], rules, **more))

    def read(self, values: Array) -> Decoded:
        """Return a column for each type, and why rows are refused."""
        (said,), reasons = self._said.read(values)
        told = list(reasons)
        rows: list[list[int]] = [[] for _ in self._types]
        numbers = {name: number for number, (name, _) in enumerate(self._types)}
        for index, name in enumerate(said.to_pylist()):
            if told[index] is not None:
                continue
            if name in numbers:
                rows[numbers[name]].append(index)
            elif not self._others:
                told[index] = f"{self._field} is " + ("null" if name is None else f"{name[:100]!r}")
        arrays = [self._column(number, values, its, told) for number, its in enumerate(rows)]
        return arrays, told

    def _column(
        self, number: int, values: Array, rows: Sequence[int], told: list[str | None]
    ) -> Array:
        """Return a type's column over all values; tell why some of its rows are refused."""
        found, reasons = self._readers[number].read(values.take(pa.array(rows, pa.int64())))
        columns = self._types[number][1]
        structs = pa.StructArray.from_arrays(
            found[: len(columns)], [column.name for column in columns]
        )
        places: list[int | None] = [None] * len(values)
        for place, (index, reason) in enumerate(zip(rows, reasons, strict=True)):
            told[index] = reason
            places[index] = place
        return structs.take(pa.array(places, pa.int64()))
