"""Lines of logfmt become columns: `level=info msg="it began" took=12ms`.

A key without `=` is `true`. A quoted value has the escapes of JSON's texts. Of a doubled key the last
value counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from mainstem.contracts.ddl import Column
from mainstem.formats.arrow import Array, pa
from mainstem.formats.json_values import EMPTY, NOT_UTF8, NULL, Decoded, refuse_nulls
from mainstem.formats.rules import Rules
from mainstem.formats.scalars import read_columns

_PAIR = re.compile(
    r'[ \t]*+([^ ="\x00-\x1f]++)(?:=(?:"((?:[^"\\\x00-\x1f]|\\.)*+)"|([^ "\x00-\x1f]*+)))?(?=[ \t]|\Z)'
)
_text = msgspec.json.Decoder(str)


class LogfmtValues:
    """Reads lines by a schema.

    Args:
        columns: those that come out. A column whose key a line does not have is null.
        rules: how numbers and times are written.
        loose: read as null what is not of its column's type, instead of refusing the row.
        missing: whether keys may be missing.
        extra: whether there may be others.
        patterned: whether TIMESTAMPs have a pattern: they come out as texts.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        rules: Rules = Rules(),  # noqa: B008
        *,
        loose: bool = False,
        missing: bool = True,
        extra: bool = True,
        patterned: bool = False,
    ) -> None:
        self._columns = columns
        self._rules = rules
        self._loose, self._missing, self._extra = loose, missing, extra
        self._kinds = [
            "string" if patterned and column.type == "timestamp" else column.type or ""
            for column in columns
        ]

    def read(self, values: Array) -> Decoded:
        """Return the columns of an array of bytes, and why rows are refused."""
        reasons: list[str | None] = []
        rows: list[Sequence[str | None]] = []
        names = [column.name for column in self._columns]
        none: tuple[None, ...] = (None,) * len(names)
        for value in values.to_pylist():
            found = _pairs(value)
            if not isinstance(found, str):
                found = self._fitting(found) or found
            reasons.append(found if isinstance(found, str) else None)
            rows.append(none if isinstance(found, str) else tuple(map(found.get, names)))
        written = zip(*rows, strict=True) if rows else [()] * len(names)
        arrays = read_columns(
            self._columns, self._kinds, [pa.array(texts, pa.string()) for texts in written],
            self._rules, reasons, loose=self._loose,
        )  # fmt: skip
        refuse_nulls(self._columns, arrays, reasons)
        return arrays, reasons

    def _fitting(self, found: dict[str, str]) -> str | None:
        """Return why keys are not those of the schema; None if they are, or may be others."""
        names = [column.name for column in self._columns]
        if not self._missing and (lacking := [name for name in names if name not in found]):
            return f"has no {', '.join(lacking)}"
        if not self._extra and (more := [name for name in found if name not in names]):
            return f"has {', '.join(more)}, which the schema has not"
        return None


def _pairs(value: bytes | None) -> dict[str, str] | str:
    """Return the texts of a line, by key, or why it is none."""
    if value is None:
        return NULL
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return NOT_UTF8
    text = text.rstrip(" \t\r\n")
    if not text:
        return EMPTY
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            return f"not logfmt at character {at + 1}"
        key, quoted, plain = match.groups()
        if quoted is not None:
            try:
                found[key] = _text.decode(f'"{quoted}"')
            except msgspec.MsgspecError:
                return f"{key} has an escape that is none"
        else:
            found[key] = "true" if plain is None else plain
        at = match.end()
    return found
