"""Versions of joined rows: text whose byte order is that of the changes.

A version is `LEFT.RIGHT`: the sequence of the left row, and that of the right row, each as text that
sorts as it does; a part is empty where no row of that side has ever been. A row that a foreign key has
taken elsewhere is taken back by the version `LEFT` alone. All characters of LEFT sort after the point, so
what has a smaller left sequence sorts first, and of one left sequence the take-back, then no right row,
then right rows by their sequence. A version can be the sequence of a further join's side.
"""

from __future__ import annotations

import re

from mainstem import OptionError

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
#: Characters up to the slash are written as a slash and one of those from 0 on.
_ESCAPED = "/" + "".join(chr(code) for code in range(0x30) if chr(code) != "/")
_COMMON = "/.-"


def check_sequence(kind: str | None, side: str) -> None:
    """Refuse a type that has no text in its order.

    Args:
        kind: the type, or None while it is not known.
        side: whose sequence it is, for the message.

    Raises:
        OptionError: says which types there are.
    """
    if kind is not None and _as_text("x", kind.lower()) is None:
        raise OptionError(
            f"the {side} changelog's sequence is {kind.upper()}, of which no version can be made",
            hint="Make it an integer, DECIMAL up to 32 digits (37 without decimal places), DATE, "
            "TIMESTAMP, STRING or BINARY.",
        )


def known(sequence: str, kind: str) -> str:
    """Return SQL for a sequence that is null where it is empty: no version tells that from none."""
    if kind in ("string", "binary"):
        return f"IF(octet_length({sequence}) = 0, NULL, {sequence})"
    return sequence


def version(left: str, left_kind: str, right: str, right_kind: str, retracts: str) -> str:
    """Return SQL for the version of a change.

    Args:
        left: SQL for the left sequence; null if there never was a left row.
        left_kind: its type.
        right: SQL for the right sequence; null if there never was a right row.
        right_kind: its type.
        retracts: SQL for whether the row has gone elsewhere.
    """
    first, second = _as_text(left, left_kind), _as_text(right, right_kind)
    if first is None or second is None:
        raise ValueError(f"no text sorts as {left_kind} or {right_kind} does")
    if left_kind == "string":
        first = _escaped(first)
    first = f"coalesce({first}, '')"
    return f"IF({retracts}, {first}, concat({first}, '.', coalesce({second}, '')))"


def _as_text(value: str, kind: str) -> str | None:
    """Return SQL for a value as text in its order, or None if there is none."""
    if kind == "string":
        return value
    if kind == "binary":
        return f"hex({value})"
    if decimal := _DECIMAL.fullmatch(kind):
        digits, scale = map(int, decimal.groups())
        # Spark cuts a product to 38 digits but keeps 6 decimal places, so the whole may have no room.
        if digits > 37 or digits + min(scale, 6) > 38:
            return None
        whole = (
            f"CAST({value} * CAST(1{'0' * scale} AS DECIMAL({scale + 1},0)) AS DECIMAL({digits},0))"
        )
        positive = f"{whole} + CAST(1{'0' * digits} AS DECIMAL({digits + 1},0))"
        return f"lpad(CAST({positive} AS STRING), {max(digits + 1, 16)}, '0')"
    number = {
        **dict.fromkeys(_INTEGERS, f"CAST({value} AS BIGINT)"),
        "timestamp": f"unix_micros({value})",
        # Not by the session's zone: there an hour comes twice, and another one never.
        "timestamp_ntz": f"unix_micros(CAST(CAST({value} AS STRING) || 'Z' AS TIMESTAMP))",
        "date": f"CAST(unix_date({value}) AS BIGINT)",
    }.get(kind)
    # So that stores which compare numbers find one at the beginning, as in other sequences of text;
    # negative numbers come before.
    return number and (
        f"CASE WHEN {number} < 0 THEN concat('/', hex({number})) ELSE lpad(hex({number}), 16, '0') END"
    )


def _escaped(text: str) -> str:
    """Return SQL for text without characters that sort before a slash."""
    some = every = text
    for character in _ESCAPED:
        as_sql = f"chr({ord(character)})"
        every = f"replace({every}, {as_sql}, '/{_stand_in(character)}')"
        if character in _COMMON:
            some = f"replace({some}, '{character}', '/{_stand_in(character)}')"
    # Most sequences have none of them, or only those that versions are made with.
    return (
        f"CASE WHEN NOT {text} RLIKE '[\\\\x00-/]' THEN {text} "
        f"WHEN NOT {text} RLIKE '[\\\\x00-,]' THEN {some} ELSE {every} END"
    )


def _stand_in(character: str) -> str:
    """Return the character that stands in for another, as it is written in an SQL text."""
    return chr(ord(character) + 0x30).replace("\\", "\\\\")
