"""Asks a table about keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from mainstem import OptionError, PermanentError
from mainstem.columns import Column
from mainstem_lookup import MISSING, Answer, Key, Lookup
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from mainstem_database_sql.lookup.options import SQLLookupOptions
from mainstem_database_sql.source.selecting import Database, Table, named
from mainstem_database_sql.source.values import MisfitError

#: Whole numbers are compared whatever their types are.
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


class TableLookup(Lookup):
    """Asks for the rows of some keys by one statement, which sees one state of the database."""

    options: SQLLookupOptions

    def __init__(
        self, options: SQLLookupOptions, keys: Sequence[Column], columns: Sequence[Column]
    ) -> None:
        super().__init__(options, keys, columns)
        self._there = tuple(options.key)
        kinds = ["bigint" if key.type in _WHOLE else key.type for key in self.keys]
        wanted = [Column(name, kind) for name, kind in zip(self._there, kinds, strict=True)]
        # A column can be of the key, and of the answer; by another type it is read a second time.
        self._positions = [
            next((n for n, e in enumerate(wanted) if (e.name, e.type) == (c.name, c.type)), None)
            for c in columns
        ]
        more = [
            replace(column, nullable=True)
            for column, at in zip(columns, self._positions, strict=True)
            if at is None
        ]
        self._database = Database(options, [*wanted, *more])

    @property
    def most(self) -> int:
        return self.options.keys_per_request

    def close(self) -> None:
        self._database.close()

    def ask(self, keys: Sequence[Key]) -> Sequence[Answer]:
        try:
            found = self._database.read(lambda table: self._rows(table, keys))
        except MisfitError as error:
            if len(keys) == 1:
                return [Answer(None, str(error))]
            half = len(keys) // 2  # which it is, each half tells
            return [*self.ask(keys[:half]), *self.ask(keys[half:])]
        except OptionError as error:
            raise PermanentError(str(error)) from None
        return [found.get(self._bare(key), MISSING) for key in keys]

    def _rows(self, table: Table, keys: Sequence[Key]) -> dict[Key, Answer]:
        found: dict[Key, Answer] = {}
        width = len(self._there)
        part = table.few(self._condition(table.connection.dialect, keys))
        columns = [column.to_pylist() for column in part.columns] if part is not None else []
        for row in zip(*columns, strict=True):
            key, rest = self._bare(row[:width]), iter(row[width:])
            if key in found:
                found[key] = Answer(
                    None, f"the table {self._database.name} has several rows for it"
                )
                continue
            values = [next(rest) if at is None else key[at] for at in self._positions]
            found[key] = Answer(tuple(values))
        return found

    def _bare(self, key: Key) -> Key:
        """Return a key without the blanks that PostgreSQL adds to a CHAR(n), and does not compare."""
        kinds = (self._database.types[name] for name in self._there)
        return tuple(
            value.rstrip(" ") if isinstance(value, str) and isinstance(kind, sa.CHAR) else value
            for value, kind in zip(key, kinds, strict=True)
        )

    def _condition(self, dialect: sa.Dialect, keys: Sequence[Key]) -> sa.ColumnElement[Any]:
        columns = [named(name) for name in self._there]
        if len(columns) > 1:
            return sa.tuple_(*columns).in_(keys)
        values = [key[0] for key in keys]
        there = self._database.types[self._there[0]]
        if dialect.name == "postgresql" and (kind := _element(there)) is not None:
            # One parameter, where the statement would have a place for each.
            array = sa.bindparam(None, values, type_=postgresql.ARRAY(kind))
            return columns[0] == sa.func.any(array)
        # Without a type, for else a value is cast to one that the column may not be compared with.
        plain = sa.bindparam(None, values, type_=sa.types.NullType(), expanding=True)
        return columns[0].in_(plain)


def _element(there: TypeEngine[Any]) -> TypeEngine[Any] | None:
    """Return the type of an array that a column is compared with; None for one that may differ."""
    if isinstance(there, sa.Integer):
        return sa.BigInteger()
    return sa.Text() if type(there) in (sa.TEXT, sa.VARCHAR) else None
