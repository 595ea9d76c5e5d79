"""The tables of a document, as MySQL has them: columns, keys, rows read by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainstem import PermanentError
from mainstem_cdc import (
    Chunk,
    FoundColumn,
    FoundTable,
    Table,
    TableOptions,
    Value,
    Values,
    unnamed,
)
from mainstem_cdc.columns import ColumnReaders, boolean, raw

from mainstem_cdc_mysql.connection import Connection
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.rows import SPECIAL
from mainstem_cdc_mysql.values import reader

#: How long the server may take for a chunk, in seconds.
_READING = 600.0
#: Behind so many bytes a chunk ends, where its rows are larger than those before were.
_MOST_BYTES = 256 * 2**20
_READERS = ColumnReaders(
    reader, {"boolean": boolean("1", "0"), "binary": raw}, frozenset({"binary"})
)
#: Types whose values are numbers in a statement, and those whose are bytes.
_NUMBERS = {
    "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "year",
}  # fmt: skip
_BYTES = {
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point",
    "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
}  # fmt: skip
#: Types that are ordered by the number of a value, and not by its text.
_NUMBERED = {"enum", "set"}
_DATES = ("date", "timestamp", "timestamp_ntz")
#: What columns of a type are read as, and those of whole numbers without a sign; others as STRING.
_READ_AS = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT",
    "year": "SMALLINT", "bit": "DECIMAL(20, 0)", "float": "FLOAT", "double": "DOUBLE", "date": "DATE",
    "datetime": "TIMESTAMP_NTZ", "timestamp": "TIMESTAMP", **dict.fromkeys(_BYTES, "BINARY"),
}  # fmt: skip
_UNSIGNED = {
    "tinyint": "SMALLINT", "smallint": "INT", "mediumint": "INT", "int": "BIGINT",
    "bigint": "DECIMAL(20, 0)",
}  # fmt: skip
_MOST_DIGITS = 38
_SYSTEM = "'mysql', 'sys', 'information_schema', 'performance_schema'"


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


class MySQLTable(Table):
    """A table of the document.

    Args:
        name: its name there, and that of its output.

    Attributes:
        special: what makes values of the log's bytes, by column, where the log has not its type.
    """

    def __init__(self, name: str, given: TableOptions, options: MySQLSourceOptions) -> None:
        super().__init__(name, given, options, _READERS)
        self.sql = f"{quoted(self.namespace)}.{quoted(self.table)}"
        self.special: dict[str, Callable[[bytes], bytes]] = {}
        self._cascades = options.on_cascade == "ignore"
        zero = options.zero_dates == "null"
        self._dates = [
            at for at, c in enumerate(given.table_schema) if zero and (c.type or "") in _DATES
        ]
        self._ordered = self.key
        self._index = ""
        self._types: dict[str, str] = {}
        self._padded: set[str] = set()

    @classmethod
    def unnamed(
        cls,
        connection: Connection,
        namespace: str,
        table: str,
        columns: Sequence[str],
        options: MySQLSourceOptions,
    ) -> MySQLTable:
        """Return a table that the document does not name.

        Args:
            columns: as the log has them.
        """
        made = cls(*unnamed(namespace, table, columns, ()), options)
        indexes = made._look(connection, _where(connection, namespace, table))
        there = [name for name, _ in indexes.get("PRIMARY", [])]
        key = [name for name in columns if name in there]
        found = cls(*unnamed(namespace, table, columns, key), options)
        found.special = made.special
        return found

    # -- as the database has it -------------------------------------------------------------------

    def find(self, connection: Connection) -> None:
        """See that the database has the table, with its key.

        Raises:
            PermanentError: it does not; says what to do.
        """
        where = _where(connection, self.namespace, self.table)
        kinds = connection.texts(f"SELECT TABLE_TYPE FROM information_schema.TABLES WHERE {where}")
        if kinds != [("BASE TABLE",)]:
            there = f", but a {kinds[0][0].lower()}" if kinds else ""
            raise PermanentError(f"there is no table {self.sql}{there}")
        self.check_cascades(connection)
        indexes = self._look(connection, where)
        self.missing([name for name in self.columns if name not in self._types])
        for name, parts in sorted(indexes.items(), key=lambda each: each[0] != "PRIMARY"):
            if all(whole for _, whole in parts) and {c for c, _ in parts} == set(self.key):
                self._index, self._ordered = name, [column for column, _ in parts]
                return
        raise PermanentError(
            f"{self.sql} has no primary key, and no unique index of columns that are never null, of "
            f"{', '.join(self.key)}"
        )

    def _look(self, connection: Connection, where: str) -> dict[str, list[tuple[str, bool]]]:
        """Note the types of columns.

        Args:
            where: which rows of the server's own tables are of this one.

        Returns:
            by the name of a unique index its columns, and whether they are whole and never null.
        """
        columns = connection.texts(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, EXTRA FROM information_schema.COLUMNS WHERE "
            f"{where}"
        )
        self._types = {
            name: kind for name, kind, _, extra in columns if "VIRTUAL" not in extra.upper()
        }
        self._padded = {name for name, _, kind, _ in columns if "zerofill" in kind}
        self.special = {
            name: SPECIAL[kind] for name, kind in self._types.items() if kind in SPECIAL
        }
        indexes: dict[str, list[tuple[str, bool]]] = {}
        for name, column, nullable, part in connection.texts(
            "SELECT INDEX_NAME, COALESCE(COLUMN_NAME, ''), NULLABLE, SUB_PART FROM "
            f"information_schema.STATISTICS WHERE {where} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, "
            "SEQ_IN_INDEX"
        ):
            indexes.setdefault(name, []).append((column, nullable != "YES" and not part))
        return indexes

    def check_cascades(self, connection: Connection) -> None:
        """See that no rows are changed along with those of other tables, unless that may be.

        Raises:
            PermanentError: a foreign key does it.
        """
        if self._cascades:
            return
        found = connection.texts(
            "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE "
            f"CONSTRAINT_SCHEMA = BINARY {connection.literal(self.namespace.encode())} AND TABLE_NAME "
            f"= BINARY {connection.literal(self.table.encode())} AND (DELETE_RULE IN ('CASCADE', "
            "'SET NULL') OR UPDATE_RULE IN ('CASCADE', 'SET NULL'))"
        )
        if found:
            raise PermanentError(
                f"rows of {self.sql} are changed along with others by the foreign key {found[0][0]}, of "
                "which the server's log says nothing: let a trigger or the application do it, or have "
                "such changes passed over (`on_cascade: ignore`)"
            )

    def places(self, names: Sequence[str]) -> list[int | None]:
        """Return where the columns are in rows of a table with such columns.

        Raises:
            PermanentError: one is not there.
        """
        self.missing([name for name in self.columns if name not in names])
        found = {name: at for at, name in enumerate(names)}
        return [found.get(name) for name in self.columns]

    # -- rows that it has -------------------------------------------------------------------------

    def chunk(
        self,
        connection: Connection,
        after: Mapping[str, str] | None,
        rows: int,
        lock: str,
        meanwhile: Callable[[], None],
        condition: str | None = None,
    ) -> Chunk:
        """Return the next rows by key.

        Args:
            after: the key behind which they are, as SQL has it, in the order in which rows are read.
            lock: what the statement ends with.
            meanwhile: called once a second while they are waited for.
            condition: what rows must meet, as SQL.
        """
        # What was begun in an order goes on in it, though the index is another one by now.
        ordered = self._ordered if after is None else list(after)
        names = [quoted(name) for name in ordered]
        parts = [] if condition is None else [f"({condition}\n)"]
        if after is not None:
            parts.append(f"({_behind(names, list(after.values()))})")
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        numbered = [name for name in ordered if self._types[name] in _NUMBERED]
        more = "".join(f", {quoted(name)} + 0" for name in numbered)
        found = connection.first_rows(
            f"SELECT {self._selected}{more} FROM {self.sql}{self._hint}{where} ORDER BY "
            f"{', '.join(names)} LIMIT {rows}{lock}",
            _READING,
            meanwhile,
            _MOST_BYTES,
        )
        width = len(self.columns)
        keyed: dict[Any, Values] = {}
        for row in found:
            values = self._printed(row[:width])
            keyed[self.key_of(values)] = values
        if not found:
            return Chunk(keyed, None)
        last = dict(zip(self.columns, self._printed(found[-1][:width]), strict=True))
        last |= dict(zip(numbered, found[-1][width:], strict=True))
        return Chunk(
            keyed,
            {
                name: self._literal(connection, name, last[name], number=name in numbered)
                for name in ordered
            },
        )

    def estimate(self, connection: Connection) -> int | None:
        """Return about how many rows there are; None where the server does not say."""
        ((found,),) = connection.texts(
            "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = BINARY "
            f"{connection.literal(self.namespace.encode())} AND TABLE_NAME = BINARY "
            f"{connection.literal(self.table.encode())}"
        )
        return int(found) if found else None

    def now(self, connection: Connection, key: Sequence[Value]) -> Values | None:
        """Return a row as it is by now; None if it is gone."""
        where = " AND ".join(
            f"{quoted(name)} = {self._literal(connection, name, value)}"
            for name, value in zip(self.key, key, strict=True)
        )
        found = connection.query(f"SELECT {self._selected} FROM {self.sql} WHERE {where}")
        return self._printed(found[0]) if found else None

    @property
    def _hint(self) -> str:
        # Another index may be hidden from the optimizer, and must not be named then.
        return " FORCE INDEX (PRIMARY)" if self._index == "PRIMARY" else ""

    @property
    def _selected(self) -> str:
        return ", ".join(self._expression(name) for name in self.columns)

    def _expression(self, name: str) -> str:
        kind = self._types.get(name)
        if kind is None:
            return "NULL"
        # A FLOAT would be printed with six digits, DOUBLE(10, 2) with two behind the point, bits as
        # bytes, and some numbers with zeros before them.
        if kind in ("float", "double"):
            return f"{quoted(name)} + 0e0"
        if kind == "bit" or name in self._padded:
            return f"{quoted(name)} + 0"
        return quoted(name)

    def _printed(self, row: Sequence[bytes | None]) -> Values:
        """Return a row's values as the log has them."""
        return [
            value + b"+00:00"
            if value is not None and self._types.get(name) == "timestamp"
            else value
            for name, value in zip(self.columns, row, strict=True)
        ]

    def _literal(
        self, connection: Connection, name: str, value: Value, *, number: bool = False
    ) -> str:
        assert isinstance(value, bytes)  # noqa: S101
        kind = self._types[name]
        if number or kind in _NUMBERS:
            return value.decode()
        if kind in _BYTES:
            return f"X'{value.hex()}'"
        return connection.literal(value.removesuffix(b"+00:00") if kind == "timestamp" else value)

    # -- values -----------------------------------------------------------------------------------

    def read(self, rows: Sequence[Values]) -> tuple[dict[str, Any], dict[int, str]]:
        if self._dates:
            rows = [self._without_zero(row) for row in rows]
        return super().read(rows)

    def _without_zero(self, row: Values) -> Values:
        found = list(row)
        for at in self._dates:
            value = found[at]
            if isinstance(value, bytes) and b"-00" in value[:10]:
                found[at] = None
        return found


def _behind(names: Sequence[str], after: Sequence[str]) -> str:
    """Return the condition for keys behind one, so that the server looks them up in an index."""
    parts = []
    for at in range(len(names)):
        same = [f"{n} = {v}" for n, v in zip(names[:at], after[:at], strict=True)]
        parts.append(" AND ".join([*same, f"{names[at]} > {after[at]}"]))
    return " OR ".join(f"({part})" for part in parts)


def _where(connection: Connection, namespace: str, table: str) -> str:
    """Return the condition for rows of the server's own tables that are of a table."""
    return " AND ".join(
        f"{name} = BINARY {connection.literal(value.encode())}"
        for name, value in (("TABLE_SCHEMA", namespace), ("TABLE_NAME", table))
    )


def found_tables(options: MySQLSourceOptions) -> list[FoundTable]:
    """Return the tables that the server has, without those of the system."""
    connection = Connection(options)
    try:
        there = f"TABLE_SCHEMA NOT IN ({_SYSTEM})"
        columns = connection.texts(
            "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, "
            "COALESCE(c.NUMERIC_PRECISION, 0), COALESCE(c.NUMERIC_SCALE, 0) FROM "
            "information_schema.COLUMNS c JOIN information_schema.TABLES t USING (TABLE_SCHEMA, "
            f"TABLE_NAME) WHERE c.{there} AND t.TABLE_TYPE = 'BASE TABLE' AND c.EXTRA NOT LIKE "
            "'%VIRTUAL%' ORDER BY 1, 2, c.ORDINAL_POSITION"
        )
        keys = connection.texts(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE "
            f"{there} AND INDEX_NAME = 'PRIMARY' ORDER BY 1, 2, SEQ_IN_INDEX"
        )
    finally:
        connection.close()
    found: dict[tuple[str, str], list[FoundColumn]] = {}
    for space, table, column, kind, native, digits, scale in columns:
        read = _read_as(kind, native, int(digits), int(scale))
        found.setdefault((space, table), []).append(FoundColumn(column, read, native))
    return [
        FoundTable(*name, tuple(c for s, t, c in keys if (s, t) == name), tuple(each))
        for name, each in found.items()
    ]


def _read_as(kind: str, native: str, digits: int, scale: int) -> str:
    """Return the type to read a column as."""
    if kind == "decimal" and digits <= _MOST_DIGITS:
        return f"DECIMAL({digits}, {scale})"
    if "unsigned" in native and kind in _UNSIGNED:
        return _UNSIGNED[kind]
    return _READ_AS.get(kind, "STRING")
