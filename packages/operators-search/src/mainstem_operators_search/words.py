"""Texts as the words that are searched for."""

from __future__ import annotations

import re

#: Letters of scripts that write without spaces: each is a word of its own.
_ALONE = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LETTER, _DIGIT = rf"[^\W\d_{_ALONE}]", r"\d"
#: Words end where Unicode says so (UAX 29), in the main: an apostrophe, a point or a colon between
#: letters, and a point, a comma, a semicolon or an apostrophe between digits, do not end them.
_WORD = re.compile(
    rf"[{_ALONE}]|(?:[^\W{_ALONE}]"
    rf"|(?<={_LETTER})['\u2019.:\u00b7](?={_LETTER})"
    rf"|(?<={_DIGIT})[.,;'\u2019](?={_DIGIT}))+"
)


def words(text: str) -> list[str]:
    """Return the words of a text, in small letters, in their order."""
    return _WORD.findall(text.lower())
