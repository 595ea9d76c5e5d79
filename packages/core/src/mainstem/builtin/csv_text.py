"""SQL that writes a row as a record of CSV: the dialect of `formats.csv_values`."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.contracts.ddl import Column, literal, quoted
from mainstem.formats.words import unwritten, word_of

#: Patterns of Spark's that write times to the microsecond, where it cuts them to milliseconds.
TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"
TIMESTAMP_NTZ = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"


def record(columns: Iterable[Column], separator: str) -> str:
    """Return SQL for the record of some columns, all of known type."""
    values = ", ".join(_value(quoted(c.name), c.type or "", separator) for c in columns)
    return f"concat_ws({literal(separator)}, {values})"


def no_csv(columns: Iterable[Column]) -> Column | None:
    """Return the first column of a type for whose values there is no text; None if all have one."""
    return next((c for c in columns if c.type and unwritten(c.type, nested=False)), None)


def _value(value: str, kind: str, separator: str) -> str:
    text, word = _text(value, kind), word_of(kind)
    # A separator of one of these characters may be in any value's text.
    plain = not (separator.isalnum() or separator in "+-.:/= ")
    if word == "binary" and plain:
        empty = f"octet_length({value}) = 0"
        return f"""CASE WHEN {value} IS NULL THEN '' WHEN {empty} THEN '""' ELSE {text} END"""
    if word not in ("string", "binary") and plain:
        return f"coalesce({text}, '')"
    # Blanks at an end are kept by all readers only within quotes.
    special = literal(f'["{_in_brackets(separator)}\\r\\n]|^\\s|\\s$')
    quotes = f"""concat('"', replace({text}, '"', '""'), '"')"""
    return (
        f"""CASE WHEN {text} IS NULL THEN '' WHEN {text} = '' THEN '""' """
        f"WHEN {text} RLIKE {special} THEN {quotes} ELSE {text} END"
    )


def _text(value: str, kind: str) -> str:
    word = word_of(kind)
    if word == "timestamp":
        return f"date_format({value}, {literal(TIMESTAMP)})"
    if word == "timestamp_ntz":
        return f"date_format({value}, {literal(TIMESTAMP_NTZ)})"
    # Spark breaks base64 into lines.
    return (
        f"translate(base64({value}), '\\r\\n', '')"
        if word == "binary"
        else f"CAST({value} AS STRING)"
    )


def _in_brackets(separator: str) -> str:
    return "\\" + separator if separator in "\\]^-[&" else separator
