"""Texts as the words that are searched for."""

from __future__ import annotations

import re
import unicodedata

#: Letters of scripts that write without spaces: each is a word of its own.
_ALONE = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LETTER, _DIGIT = rf"[^\W\d_{_ALONE}]", r"\d"
#: What stands upon a letter, such as the vowels of many scripts.
_MARKS = "".join(
    chr(code) for code in range(0x300, 0xFFFF) if unicodedata.category(chr(code)) in ("Mn", "Mc")
)
#: Words end where Unicode says so (UAX 29), in the main: an apostrophe, a point or a colon between
#: letters, and a point, a comma, a semicolon or an apostrophe between digits, do not end them.
_WORD = re.compile(
    rf"[{_ALONE}]|(?:[^\W{_ALONE}][{_MARKS}\u200d]*"
    rf"|(?<={_LETTER})['\u2019.:\u00b7](?={_LETTER})"
    rf"|(?<={_DIGIT})[.,;'\u2019](?={_DIGIT}))+"
)


def words(text: str) -> list[str]:
    """Return the words of a text, in small letters, in their order."""
    small = unicodedata.normalize("NFC", text).lower().replace("\u03c2", "\u03c3")
    return _WORD.findall(small)
