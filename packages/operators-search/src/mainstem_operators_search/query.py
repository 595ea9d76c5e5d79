"""Queries: how they are written, and what they mean.

storm warning            both words                    (storm OR gale) -drill
"storm warning"          one behind the other          wind*            a word that begins so
title:storm              in that column                title:(storm OR gale)
wind:[60 TO 90]  wind:{60 TO *]  wind:>=60             numbers, dates, times, texts as they are
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from mainstem_operators_search.words import words


@dataclass(frozen=True)
class Phrase:
    """Words one behind the other, the last one maybe the beginning of one; in one of some columns."""

    fields: tuple[str, ...]
    words: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True)
class Range:
    """A value between two others; None for no bound. Of a column that is not null.

    `nan` says whether a NaN is one.
    """

    field: str
    least: Any = None
    greatest: Any = None
    above: bool = False
    below: bool = False
    nan: bool = False


@dataclass(frozen=True)
class Null:
    """Of a column that is null."""

    field: str


@dataclass(frozen=True)
class Like:
    """A text that is as a regular expression says, the whole of it, in whichever case if `lower`."""

    field: str
    pattern: str
    lower: bool = False


@dataclass(frozen=True)
class Not:
    """What does not match a query."""

    part: Query


@dataclass(frozen=True)
class And:
    """What matches all of some queries."""

    parts: tuple[Query, ...]


@dataclass(frozen=True)
class Or:
    """What matches one of some queries."""

    parts: tuple[Query, ...]


Query = Phrase | Range | Null | Like | Not | And | Or

_NAME = r"(?:[^\W\d]\w*|`[^`]+`)"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<paren>[()])
    | (?P<minus>-)(?=\S)
    | (?P<range>(?P<rname>{_NAME}):(?:
          (?P<open>[\[{{])\s*(?P<from>"[^"]*"|\S{{1,99}})\s+TO\s+(?P<to>"[^"]*"|[^\s\]}}]+)\s*(?P<close>[\]}}])
        | (?P<op>>=|<=|>|<)(?P<bound>"[^"]*"|[^\s()=][^\s()]*)))
    | (?P<field>{_NAME}):(?=["(]|[^\s:])
    | "(?P<phrase>[^"]*)"(?P<pstar>\*?)
    | (?P<word>[^\s()"]+)
    )""",
    re.VERBOSE,
)
#: A query of more parts, or with more of them within each other, or longer, is refused.
MOST, DEEPEST, LONGEST = 1_000, 50, 50_000
#: What other languages of queries have, and this one has not.
_ODD = re.compile(r"[\[\]{}<>~^?\\`]|\*.|:$|^[:*]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = ("tinyint", "smallint", "int", "bigint")


class Reader:
    """Reads queries.

    Args:
        types: the columns of documents that can be asked for, and their types.
        fields: those that are searched where a query names none.
    """

    def __init__(self, types: Mapping[str, str], fields: Sequence[str]) -> None:
        self._types = {name.lower(): (name, kind) for name, kind in types.items()}
        self._fields = tuple(fields)

    def read(self, text: str) -> Query:
        """Return what a text asks for.

        Raises:
            ValueError: it can't be read; says why.
        """
        tokens, at = [], 0
        text = text.rstrip()
        if len(text) > LONGEST:
            raise ValueError(f"it has more than {LONGEST:,} characters")
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.end() == at:
                raise ValueError(f"{text[at:].strip()[:20]!r} can't be read")
            tokens.append(found)
            at = found.end()
            if len(tokens) > MOST:
                raise ValueError(f"it has more than {MOST:,} parts")
        if not tokens:
            raise ValueError("it asks for nothing")
        self._tokens, self._at = tokens, 0
        query = self._either(None, 0)
        if self._at < len(tokens):
            raise ValueError("a parenthesis is closed that was not opened")
        return query

    # -- what is within what ----------------------------------------------------------------------

    def _either(self, field: str | None, depth: int) -> Query:
        parts = [self._all(field, depth)]
        while self._said("OR"):
            parts.append(self._all(field, depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self, field: str | None, depth: int) -> Query:
        parts = [self._one(field, depth)]
        while True:
            if self._said("AND"):
                parts.append(self._one(field, depth))
                continue
            token = self._peek()
            if token is None or token["paren"] == ")" or token["word"] == "OR":
                break
            parts.append(self._one(field, depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, field: str | None, depth: int) -> Query:
        if depth > DEEPEST:
            raise ValueError(f"it has more than {DEEPEST} parts within each other")
        token = self._peek()
        if token is None or token["paren"] == ")" or token["word"] in ("AND", "OR"):
            raise ValueError(
                "something is missing" + (f" before {token[0].strip()}" if token else "")
            )
        self._at += 1
        if token["minus"] or token["word"] == "NOT":
            return Not(self._one(field, depth + 1))
        if token["paren"]:
            found = self._either(field, depth + 1)
            closing = self._peek()
            if closing is None or closing["paren"] != ")":
                raise ValueError("a parenthesis is not closed")
            self._at += 1
            return found
        if token["range"]:
            return self._range(token)
        if token["field"]:
            name, kind = self._column(token["field"])
            following = self._peek()
            if kind != "string" and following is not None and following["minus"]:
                self._at += 1  # of a number
                number = self._peek()
                if number is not None and number["word"]:
                    self._at += 1
                    value = value_of(f"-{number['word']}", name, kind)
                    return Range(name, value, value)
            return self._one(name, depth + 1)
        if token["phrase"] is not None:
            return self._words(token["phrase"], field, prefix=bool(token["pstar"]))
        word = token["word"]
        if _ODD.search(word):
            raise ValueError(f"{word[:50]!r} can't be read: put a text into quotes")
        return self._words(word.removesuffix("*"), field, prefix=word.endswith("*"))

    def _peek(self) -> re.Match[str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _said(self, word: str) -> bool:
        token = self._peek()
        if token is None or token["word"] != word:
            return False
        self._at += 1
        return True

    # -- what is asked for ------------------------------------------------------------------------

    def _column(self, name: str) -> tuple[str, str]:
        name = name.strip("`")
        found = self._types.get(name.lower())
        if found is None:
            have = ", ".join(sorted(each for each, _ in self._types.values()))
            raise ValueError(f"there is no column {name[:50]} to search; there are: {have}")
        return found

    def _words(self, text: str, field: str | None, *, prefix: bool) -> Query:
        if field is not None:
            kind = self._column(field)[1]
            if kind != "string":
                value = value_of(text.strip('"'), field, kind)
                if prefix:
                    raise ValueError(f"{field} is {kind.upper()}, and has no beginnings")
                return Range(field, value, value)
        found = words(text)
        if not found:
            raise ValueError(f"{text[:50]!r} has no word")
        return Phrase(self._fields if field is None else (field,), tuple(found), prefix)

    def _range(self, token: re.Match[str]) -> Range:
        field, kind = self._column(token["rname"])
        if token["op"]:
            value = value_of(token["bound"].strip('"'), field, kind)
            if token["op"].startswith(">"):
                return Range(field, value, above=token["op"] == ">")
            return Range(field, None, value, below=token["op"] == "<")
        least = None if token["from"] == "*" else value_of(token["from"].strip('"'), field, kind)
        greatest = None if token["to"] == "*" else value_of(token["to"].strip('"'), field, kind)
        return Range(field, least, greatest, token["open"] == "{", token["close"] == "}")


def value_of(text: str, field: str, kind: str) -> Any:
    """Return what a text stands for, as values of a column are; see `searchable`.

    Raises:
        ValueError: it is no such value.
    """
    told = f"{field} is {kind.upper()}, which {text[:50]!r} is not"
    value: Any
    try:
        if kind == "string":
            return text
        if kind in _WHOLE or kind.startswith("decimal"):
            value = Decimal(text)
            if value.is_nan():
                raise ValueError(told)
        elif kind == "double":
            value = float(text)
        elif kind == "float":
            value = struct.unpack("<f", struct.pack("<f", float(text)))[0]
        elif kind == "boolean":
            value = {"true": True, "false": False}[text.lower()]
        elif kind == "date":
            value = date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
        else:
            at = datetime.fromisoformat(text)
            if kind == "timestamp_ntz" or at.tzinfo is None:
                at = at.replace(tzinfo=UTC)
            value = (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, InvalidOperation, KeyError, OverflowError):
        raise ValueError(told) from None
    if value != value:
        raise ValueError(told)
    return value


def searchable(kind: str) -> bool:
    """Whether values of a type can be asked for: dates as days, times as microseconds, since 1970."""
    plain = ("string", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", *_WHOLE)
    return kind in plain or kind.startswith("decimal")
