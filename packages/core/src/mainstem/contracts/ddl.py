"""Reads Spark's DDL text (`a INT, b ARRAY<STRING>`) without Spark.

Grammar: the column lists of Spark SQL (https://spark.apache.org/docs/latest/sql-ref-datatypes.html).
Types come back in Spark's own short form (`bigint`, `array<string>`, `decimal(10,2)`), so that two
spellings of a type compare equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mainstem.errors import nearest

_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_SIMPLE = {
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
    "date", "timestamp", "timestamp_ntz", "variant",
}  # fmt: skip
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|([A-Za-z_]\w*)|(\d+)|([<>(),:]))")


class DDLError(ValueError):
    """The text is not DDL: says what was expected and where (a character, from 1)."""


@dataclass(frozen=True)
class Column:
    """A column of a stream: `type` is Spark's short form, or None when only Spark can know it."""

    name: str
    type: str | None = None
    nullable: bool = True

    @property
    def ddl(self) -> str:
        """The column as DDL text; `VARIANT` never stands in for an unknown type.

        Raises:
            ValueError: its type is not known.
        """
        if self.type is None:
            raise ValueError(f"the type of column {self.name!r} is not known before Spark starts")
        return f"{quoted(self.name)} {self.type}{'' if self.nullable else ' NOT NULL'}"


def quoted(name: str) -> str:
    """Return `name` as a Spark SQL identifier, safe whatever its characters."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(word: str) -> str:
    """Return the name that a word of SQL is, without its backticks."""
    return word[1:-1].replace("``", "`") if word.startswith("`") else word


def literal(text: str) -> str:
    """Return a text as a Spark SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def read_columns(text: str) -> tuple[Column, ...]:
    """Read a list of columns.

    Raises:
        DDLError: the text is empty, malformed, or names a column twice.
    """
    reader = _Reader(text)
    columns = tuple(reader.columns(end=None))
    names = [column.name.lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise DDLError(f"column {name!r} is declared twice")
    return columns


def parts_of(kind: str) -> tuple[Column, ...]:
    """Return what a nested type is made of: a struct's fields, `element` or `key` and `value`.

    Of a type that is not nested there is nothing.
    """
    word, _, inner = kind.partition("<")
    if word == "struct":
        return read_columns(inner.removesuffix(">"))
    names = {"array": ("element",), "map": ("key", "value")}.get(word, ())
    reader = _Reader(inner)
    parts = []
    for name in names:
        parts.append(Column(name, reader.type()))
        reader._next("',' or '>'")
    return tuple(parts)


def short_form(value: Any) -> str:
    """Return the short form of a type, given as `DataType.jsonValue()` of Spark's tells it.

    Names of fields are quoted where they must be, as Spark itself does not.
    """
    if isinstance(value, str):
        return _ALIASES.get(value, value)
    word = value["type"]
    if word == "array":
        return f"array<{short_form(value['elementType'])}>"
    if word == "map":
        return f"map<{short_form(value['keyType'])},{short_form(value['valueType'])}>"
    if word == "struct":
        fields = (Column(field["name"], short_form(field["type"])) for field in value["fields"])
        return f"struct<{','.join(map(_field, fields))}>"
    return str(word)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split(text))
        self._at = 0

    @staticmethod
    def _split(text: str) -> Iterator[tuple[str, int]]:
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                raise DDLError(f"unexpected {text[start]!r} at character {start + 1}")
            yield match.group().strip(), match.end() - len(match.group().strip())
            position = match.end()

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self, expected: str) -> str:
        if self._at >= len(self._tokens):
            raise DDLError(f"the text ends where {expected} was expected")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _fail(self, expected: str) -> DDLError:
        token, position = self._tokens[self._at - 1]
        return DDLError(f"expected {expected}, found {token!r} at character {position + 1}")

    def _symbol(self, symbol: str) -> None:
        if self._next(repr(symbol)) != symbol:
            raise self._fail(repr(symbol))

    def _number(self) -> int:
        token = self._next("a number")
        if not token.isdigit():
            raise self._fail("a number")
        return int(token)

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            self._at += 1
            raise self._fail("the end of the text")

    def columns(self, end: str | None) -> Iterator[Column]:
        while True:
            yield self._column()
            if self._peek() == ",":
                self._next("','")
                continue
            if end is None:
                self.expect_end()
            else:
                self._symbol(end)
            return

    def _column(self) -> Column:
        token = self._next("a column name")
        if token.startswith("`"):
            name = token[1:-1].replace("``", "`")
        elif token[0].isalpha() or token[0] == "_":
            name = token
        else:
            raise self._fail("a column name")
        if self._peek() == ":":
            self._next("':'")
        found = self.type()
        nullable = True
        while self._peek().lower() in {"not", "comment"}:
            if self._next("NOT NULL").lower() == "not":
                if self._next("NULL").lower() != "null":
                    raise self._fail("NULL")
                nullable = False
            elif not self._next("a quoted comment").startswith("'"):
                raise self._fail("a quoted comment")
        return Column(name, found, nullable)

    def type(self) -> str:
        word = self._next("a type").lower()
        word = _ALIASES.get(word, word)
        if word in {"varchar", "char", "character"}:
            self._symbol("(")
            length = self._number()
            self._symbol(")")
            return f"{'varchar' if word == 'varchar' else 'char'}({length})"
        if word == "decimal":
            precision, scale = 10, 0
            if self._peek() == "(":
                self._next("'('")
                precision = self._number()
                if self._peek() == ",":
                    self._next("','")
                    scale = self._number()
                self._symbol(")")
            if not (1 <= precision <= 38 and scale <= precision):
                raise DDLError(f"decimal({precision},{scale}): 1 <= precision <= 38, scale <= it")
            return f"decimal({precision},{scale})"
        if word == "array":
            self._symbol("<")
            element = self.type()
            self._symbol(">")
            return f"array<{element}>"
        if word == "map":
            self._symbol("<")
            key = self.type()
            self._symbol(",")
            value = self.type()
            self._symbol(">")
            return f"map<{key},{value}>"
        if word == "struct":
            self._symbol("<")
            fields = ",".join(f"{_field(column)}" for column in self.columns(end=">"))
            return f"struct<{fields}>"
        if word == "interval":
            unit = self._next("DAY or YEAR").lower()
            self._next("TO")
            return f"interval {unit} to {self._next('SECOND or MONTH').lower()}"
        if word not in _SIMPLE:
            known = (*sorted(_SIMPLE), "decimal", "array", "map", "struct")
            hint = nearest(word, (*known, *_ALIASES))
            raise self._fail((hint and f"a type ({hint})") or f"a type (one of {', '.join(known)})")
        return word


def _field(column: Column) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", column.name, re.ASCII)
    return f"{column.name if plain else quoted(column.name)}:{column.type}"
