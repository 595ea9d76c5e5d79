"""Rows as JSON become values, if a schema allows them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from mainstem.arrays import write_rows
from mainstem.objects import Misfit

from mainstem_formats_json_schema.rules import Rules

#: Reads and writes numbers as they are written.
_exact = msgspec.json.Decoder(float_hook=Decimal)
_numbers = msgspec.json.Encoder(decimal_format="number")


class JsonSchemaRows:
    """Writes rows that a schema allows.

    Args:
        schema: its text.
        head: what stands before each value.

    Raises:
        PermanentError: the schema is none.
    """

    def __init__(self, schema: str, *, head: bytes = b"") -> None:
        self._rules, self._head = Rules(schema), head

    def write(self, plain: Any, nulls: Any) -> tuple[Any, list[str | None]]:
        """Return the values of rows, and why rows have none.

        Args:
            plain: the rows as JSON, without what is null.
            nulls: the same with it.
        """
        return write_rows([plain, nulls], self._written)

    def _written(self, row: tuple[str, str]) -> bytes:
        plain, nulls = row
        held = msgspec.json.decode(plain)
        flaw = self._rules.flaw(held)
        if flaw is None:
            return self._head + plain.encode()
        # What is null may have to be there, all of it or, where one thing or another may be, a part.
        whole, paths = msgspec.json.decode(nulls), self._rules.missing(held)
        for some in (paths, *([path] for path in paths)):
            exact = _exact.decode(plain)
            for path in some:
                _add_null(exact, whole, path)
            text = _numbers.encode(exact)
            if self._rules.flaw(msgspec.json.decode(text)) is None:
                return self._head + text
        raise Misfit(flaw)


def _add_null(held: Any, whole: Any, path: Sequence[str | int]) -> None:
    """Write the null at a path, if one is there."""
    *way, last = path
    for each in way:
        held, whole = held[each], whole[each]
    if isinstance(whole, dict) and last in whole and whole[last] is None:
        held[last] = None
