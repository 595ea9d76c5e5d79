"""Numbers that would keep Spark busy for hours: it reckons DECIMAL '1e999999999' out, digit by digit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mainstem.contracts.ddl import Column, literal, quoted

WORDS = "'a number with an exponent of four digits, or of over a thousand digits'"
#: What each such number has in it, in digits of any script: Java reads them all. None of them fits a
#: DECIMAL of 38 digits, but for what rounds to 0.
_HUGE = r"(?U)[\d.][eE][+-]?\d{4}|\d{1000}"
#: What a text has in it that has such a number: in JSON the `e` can be written as an escape.
_MAYBE = rf"{_HUGE}|\\u"
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")


def beside_strings(text: str) -> str:
    """Return SQL that is true for a JSON text that has such a number, and not in a string."""
    plain = f"regexp_replace({text}, {literal('(?s)' + chr(92) * 2 + '.')}, '')"
    return f"regexp_replace({plain}, '\"[^\"]*\"', '') RLIKE {literal(_HUGE)}"


def huge_number(
    text: str, schema: Sequence[Column], parsed: Callable[[str, str], str], beside: str = "false"
) -> str | None:
    """Return SQL that is true for a text with such a number where a DECIMAL belongs; None if none does.

    Args:
        text: SQL for the text.
        schema: the columns that it is to be parsed to.
        parsed: makes SQL that parses a text by a DDL.
        beside: SQL that is true for further texts that are not to be parsed.
    """
    texts = [Column(c.name, _DECIMAL.sub("string", c.type or "")) for c in schema]
    looked_at = [c for c, plain in zip(schema, texts, strict=True) if c.type != plain.type]
    if not looked_at:
        return None
    # Only a text that may have one is parsed once more, with DECIMAL as text.
    row = parsed(text, ", ".join(c.ddl for c in texts))
    found = " OR ".join(
        f"coalesce(CAST({row}.{quoted(c.name)} AS STRING) RLIKE {literal(_HUGE)}, false)"
        for c in looked_at
    )
    return f"IF({text} RLIKE {literal(_MAYBE)}, {beside} OR {found}, false)"
