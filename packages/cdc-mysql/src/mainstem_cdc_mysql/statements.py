"""Statements in a binary log that are about whole tables: what became of which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_TOKEN = re.compile(
    r"""
    \s+ | /\*(?!!|M!).*?\*/ | /\*M?!\d* | \*/ | --[^\n]*(?:\n|$) | \#[^\n]*(?:\n|$)
    | (?P<name>`(?:[^`]|``)*`)
    | (?P<text>'(?:[^'\\]|''|\\.)*' | "(?:[^"\\]|""|\\.)*")
    | (?P<word>[\w$]+)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)

Place = tuple[str, str]
#: Words that change rows, where a statement is in the log in place of them.
_WRITES = {
    "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "SELECT", "CALL", "DO", "VALUES", "TABLE",
}  # fmt: skip
#: What takes rows out of a table without a word of them.
_EMPTYING = {"TRUNCATE", "DROP"}


class Statement(NamedTuple):
    """What a statement does to tables.

    Attributes:
        kind: `emptied`: rows are gone at once; `replaced`: the tables are gone, or have another name, or
            other rows; `altered`: they have other columns or keys; `written`: rows may be changed, which
            the log does not tell.
        tables: database and name of each, None as the name for a whole database. For `written` none: what
            it changes is not in its text, where there are triggers, views and functions.
    """

    kind: Literal["emptied", "replaced", "altered", "written"]
    tables: list[tuple[str, str | None]]


def read(text: str, database: str) -> Statement | None:
    """Return what a statement does; None for what changes no whole table.

    Args:
        database: the one of names without one.
    """
    words = _Words(text, database)
    first = words.next_word()
    if first == "SET" and words.skip("STATEMENT"):  # MariaDB's settings for one statement
        words.find("FOR")
        first = words.next_word()
    elif first == "ANALYZE" and words.peek() not in ("TABLE", "LOCAL", "NO_WRITE_TO_BINLOG"):
        if words.skip("FORMAT"):
            words.next(), words.next()
        first = words.next_word()  # which MariaDB runs, too
    if first in _WRITES:
        return Statement("written", [])
    if first == "TRUNCATE":
        words.skip("TABLE")
        return Statement("emptied", [words.place()])
    if first == "DROP":
        return _dropped(words)
    if first == "RENAME" and words.skip("TABLE", "TABLES"):
        words.skip("IF")
        words.skip("EXISTS")
        found: list[tuple[str, str | None]] = [*words.places(between="TO")]
        return Statement("replaced", found)
    if first == "ALTER":
        while words.skip("ONLINE", "IGNORE"):
            pass
        if words.skip("TABLE"):
            words.skip("IF")
            words.skip("EXISTS")
            table = words.place()
            if words.skip("WAIT"):
                words.next()
            words.skip("NOWAIT")
            return _altered(words, table)
    if first == "CREATE" and words.skip("OR") and words.skip("REPLACE") and words.skip("TABLE"):
        return Statement("replaced", [words.place()])
    return None


def _dropped(words: _Words) -> Statement | None:
    if words.skip("TEMPORARY"):
        return None
    if words.skip("DATABASE", "SCHEMA"):
        words.skip("IF")
        words.skip("EXISTS")
        return Statement("replaced", [(words.name(), None)])
    if words.skip("TABLE", "TABLES"):
        words.skip("IF")
        words.skip("EXISTS")
        return Statement("replaced", [*words.places(between="")])
    return None


def _altered(words: _Words, table: Place) -> Statement:
    before = ","
    while token := words.next():
        kind, word = token
        if kind == "word" and before == ",":
            follows = words.peek()
            if word in _EMPTYING and follows == "PARTITION":
                return Statement("emptied", [table])
            if word == "RENAME" and follows not in ("COLUMN", "INDEX", "KEY"):
                words.skip("TO", "AS")
                return Statement("replaced", [table, words.place()])
            if word in ("DISCARD", "IMPORT") and follows in ("TABLESPACE", "PARTITION"):
                return Statement("replaced", [table])
            if (word == "EXCHANGE" and follows == "PARTITION") or (
                word == "CONVERT" and follows in ("PARTITION", "TABLE")
            ):
                words.find("TABLE")
                return Statement("replaced", [table, words.place()])
        before = word if kind == "sign" else ""
    return Statement("altered", [table])


class _Words:
    """The tokens of a statement, without comments; words in capital letters."""

    def __init__(self, text: str, database: str) -> None:
        self._database = database
        self._tokens = list(self._read(text))
        self._at = 0

    @staticmethod
    def _read(text: str) -> Iterator[tuple[str, str, str]]:
        for found in _TOKEN.finditer(text):
            kind = found.lastgroup
            if kind == "name":
                yield "name", "", found[0][1:-1].replace("``", "`")
            elif kind == "text" and found[0][0] == '"':  # a name where ANSI_QUOTES is set
                yield "name", "", found[0][1:-1].replace('""', '"')
            elif kind is not None:
                yield kind, found[0].upper() if kind == "word" else found[0], found[0]

    def next(self) -> tuple[str, str] | None:
        """Return kind and word of the next token."""
        if self._at >= len(self._tokens):
            return None
        kind, word, _ = self._tokens[self._at]
        self._at += 1
        return kind, word

    def peek(self) -> str:
        """Return the next word."""
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def next_word(self) -> str:
        """Return the first word, behind brackets."""
        while token := self.next():
            if token[0] == "word":
                return token[1]
        return ""

    def skip(self, *words: str) -> bool:
        """Pass over a word; whether it was there."""
        if self.peek() in words:
            self._at += 1
            return True
        return False

    def find(self, word: str) -> None:
        """Pass over all up to a word, and over that."""
        while self._at < len(self._tokens) and self.peek() != word:
            self._at += 1
        self._at += 1

    def name(self) -> str:
        """Return a name."""
        if self._at >= len(self._tokens):
            return ""
        self._at += 1
        return self._tokens[self._at - 1][2]

    def place(self) -> Place:
        """Return a table's name, with that of its database."""
        name = self.name()
        if self.peek() == ".":
            self._at += 1
            return name, self.name()
        return self._database, name

    def places(self, between: str) -> list[Place]:
        """Return the names of a list; each may be two with a word between."""
        found = [self.place()]
        while self._at < len(self._tokens):
            if self.skip(",") or (between and self.skip(between)):
                found.append(self.place())
            else:
                self._at += 1
        return found
