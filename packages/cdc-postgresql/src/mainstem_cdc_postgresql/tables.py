"""The tables of a document, as PostgreSQL has them: columns, keys, rows read by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
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
from mainstem_cdc.columns import ColumnReaders, PrintedRows, boolean

from mainstem_cdc_postgresql.connection import Connection, literal, quoted
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.protocol import Relation
from mainstem_cdc_postgresql.rows import RowReader
from mainstem_cdc_postgresql.values import reader

#: How long the server may take for a chunk, in seconds.
_READING = 600.0
#: Above so many bytes a chunk is asked for anew, with fewer rows.
_MOST_BYTES = 256 * 2**20
#: What columns of a type are read as; of others as STRING.
_TYPES = {
    "bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INT", "int8": "BIGINT", "float4": "FLOAT",
    "float8": "DOUBLE", "bytea": "BINARY", "date": "DATE", "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
}  # fmt: skip
_MOST_DIGITS = 38
_READERS = ColumnReaders(reader, {"boolean": boolean("t", "f")})


class PostgreSQLTable(Table):
    """A table of the document.

    Args:
        name: its name there, and that of its output.

    Attributes:
        parted: whether it has partitions.
    """

    def __init__(self, name: str, given: TableOptions, options: PostgreSQLSourceOptions) -> None:
        super().__init__(name, given, options, _READERS)
        self.sql = f"{quoted(self.namespace)}.{quoted(self.table)}"
        self.parted = False
        self.oid: int | None = None
        self._ordered = self.key
        self._there: set[str] = set(self.columns)

    @classmethod
    def unnamed(
        cls, connection: Connection, relation: Relation, options: PostgreSQLSourceOptions
    ) -> PostgreSQLTable:
        """Return a table that the document does not name, as it is in the log."""
        found = connection.query(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND "
            "a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) WHERE i.indisprimary AND "
            f"i.indrelid = {relation.id}"
        )
        there = {str(name) for (name,) in found}
        key = [name for name in relation.columns if name in there]
        return cls(*unnamed(relation.namespace, relation.name, relation.columns, key), options)

    # -- as the database has it -------------------------------------------------------------------

    def find(self, connection: Connection) -> None:
        """See that the database has the table, with its key, and tells what is wanted of its changes.

        Raises:
            PermanentError: it does not; says what to do.
        """
        found = connection.query(
            "SELECT c.oid, c.relkind, c.relreplident FROM pg_class c JOIN pg_namespace n ON n.oid = "
            f"c.relnamespace WHERE n.nspname = {literal(self.namespace)} AND c.relname = "
            f"{literal(self.table)} AND c.relkind IN ('r', 'p')"
        )
        if not found:
            raise PermanentError(f"there is no table {self.sql}")
        oid, kind, identity = found[0]
        self.parted, self.oid = kind == "p", int(str(oid))
        self.look(connection)
        self.missing([name for name in self.columns if name not in self._there])
        indexes = connection.query(
            "SELECT i.indisprimary, i.indisreplident, string_agg(a.attname, chr(1) ORDER BY k.place), "
            "bool_and(a.attnotnull) FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY "
            "AS k(number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
            f"WHERE i.indrelid = {oid} AND i.indisunique AND i.indisvalid AND i.indimmediate AND "
            "i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts "
            "GROUP BY i.indexrelid, i.indisprimary, i.indisreplident"
        )
        unique = [str(names).split("\1") for _, _, names, filled in indexes if filled == "t"]
        same = [names for names in unique if set(names) == set(self.key)]
        if not same:
            raise PermanentError(
                f"{self.sql} has no primary key, and no unique index of columns that are never null, of "
                f"{', '.join(self.key)} (none that is DEFERRABLE: its rows may swap keys)"
            )
        self._ordered = same[0]
        marks = {"d": 0, "i": 1}
        told = [
            str(i[2]).split("\1")
            for i in indexes
            if identity in marks and i[marks[identity]] == "t"
        ]
        if identity != "f" and not any(set(self.key) <= set(names) for names in told):
            raise PermanentError(
                f"the log does not tell {', '.join(self.key)} of deleted rows of {self.sql}: ALTER TABLE "
                f"{self.sql} REPLICA IDENTITY DEFAULT, with that as primary key, or FULL"
            )
        leaves = connection.query(
            "SELECT DISTINCT c.relreplident FROM pg_partition_tree("
            f"{oid}) t JOIN pg_class c ON c.oid = t.relid WHERE t.isleaf"
        )
        if self.preimages and any(kind != "f" for (kind,) in [(identity,), *leaves]):
            raise PermanentError(
                f"the log has no rows as they were before: ALTER TABLE {self.sql} REPLICA IDENTITY FULL "
                "(each partition too), or leave out `preimages`"
            )

    def look(self, connection: Connection) -> None:
        """See which columns the table has now, which may be others than those of a change in the log."""
        self._there = {
            str(name)
            for (name,) in connection.query(
                f"SELECT attname FROM pg_attribute WHERE attrelid = {self.oid} AND attnum > 0 AND NOT "
                "attisdropped AND attgenerated = ''"
            )
        }

    def unpublished(self, columns: Sequence[str] | None) -> list[str]:
        """Return the wanted columns that the table has and a publication leaves out.

        Args:
            columns: those of the publication; None for all.
        """
        if columns is None:
            return []
        return [name for name in self.columns if name in self._there and name not in columns]

    def layout(self, relation: Relation) -> list[int | None]:
        """Return where the columns are in the rows of a table as it is now.

        Raises:
            PermanentError: one is not there.
        """
        self.missing([name for name in self.columns if name not in relation.columns])
        places = {name: at for at, name in enumerate(relation.columns)}
        return [places.get(name) for name in self.columns]

    # -- rows that it has -------------------------------------------------------------------------

    def chunk(
        self,
        connection: Connection,
        reader: RowReader,
        after: Mapping[str, str] | None,
        rows: int,
        meanwhile: Callable[[], None],
        condition: str | None = None,
    ) -> tuple[str, Chunk]:
        """Return the next rows by key, and the transactions that they have not seen.

        Args:
            reader: what reads them.
            after: the key behind which they are, in the order in which rows are read.
            meanwhile: called once a second while they are waited for.
            condition: what rows must meet, as SQL.

        Returns:
            the server's snapshot (`xmin:xmax:list of running ones`), and the rows.
        """
        # What was begun in an order goes on in it, though the index is another one by now.
        ordered = self._ordered if after is None else list(after)
        what = self._rows_after(ordered, None if after is None else after.values(), condition)
        found, most = None, rows
        while found is None:
            bytes_most = _MOST_BYTES if most > 1 else None
            snapshot, found = reader.read(what, most, bytes_most, _READING, meanwhile, connection)
            most = max(1, most // 8)
        if not len(found):
            return snapshot, Chunk({}, None)
        columns: dict[str, Any] = {
            name: column.combine_chunks().cast(pa.binary())
            for name, column in zip(self.columns, found.columns, strict=True)
        }
        last = {name: columns[name][-1].as_py().decode() for name in ordered}
        # The next ones come while these are stored.
        reader.ahead(self._rows_after(ordered, last.values(), condition), rows, _MOST_BYTES)
        return snapshot, Chunk(PrintedRows(columns, self.key), last)

    def _rows_after(
        self, ordered: Sequence[str], after: Iterable[str] | None, condition: str | None
    ) -> str:
        """Return the query of the rows behind a key, or of all."""
        names = ", ".join(quoted(name) for name in ordered)
        parts = [] if condition is None else [f"({condition}\n)"]
        if after is not None:
            parts.append(f"({names}) > ({', '.join(map(literal, after))})")
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        printed = ", ".join(map(self._printed, self.columns))
        # With the table before it a name is no other column's of the result.
        order = ", ".join(f"{self.sql}.{quoted(name)}" for name in ordered)
        return f"SELECT {printed} FROM {self._source}{where} ORDER BY {order}"

    def _printed(self, name: str) -> str:
        """Return a column as text, printed as the log prints it: a cast prints some types otherwise."""
        if name not in self._there:
            return "NULL::text"
        name = quoted(name)
        # A composite value whose fields are all null IS NULL, and is none.
        return f"CASE WHEN num_nulls({name}) = 1 THEN NULL ELSE concat({name}) END"

    def estimate(self, connection: Connection) -> int | None:
        """Return about how many rows there are; None before the server has counted them."""
        ((found,),) = connection.query(
            "SELECT sum(GREATEST(reltuples, 0))::bigint FROM pg_class WHERE oid IN (SELECT relid FROM "
            f"pg_partition_tree({literal(self.sql)}) WHERE isleaf)"
        )
        return int(found) if found not in (None, "0") else None

    def now(self, connection: Connection, key: Sequence[Value]) -> Values | None:
        """Return a row as it is by now; None if it is gone."""
        where = " AND ".join(f"{quoted(n)} = ${at}" for at, n in enumerate(self.key, 1))
        found = connection.rows(
            f"SELECT {self._selected} FROM {self._source} WHERE {where}",
            tuple(_text(each) for each in key),
        )
        return found[0] if found else None

    @property
    def _selected(self) -> str:
        return ", ".join(quoted(n) if n in self._there else "NULL" for n in self.columns)

    @property
    def _source(self) -> str:
        # What a table inherits has changes of its own.
        return self.sql if self.parted else f"ONLY {self.sql}"


def _text(value: Value) -> str | None:
    return value.decode() if isinstance(value, bytes) else None


def found_tables(options: PostgreSQLSourceOptions) -> list[FoundTable]:
    """Return the tables that the database has, without those of the system and without partitions."""
    connection = Connection(options)
    try:
        # A domain is of its base type; an array's elements have the array's limits.
        found = connection.query(
            "SELECT n.nspname, c.relname, a.attname, b.typname, e.typname, format_type(a.atttypid, "
            "a.atttypmod), CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END, "
            "array_position((i.indkey::int2[])[0:i.indnkeyatts - 1], a.attnum) FROM pg_class c JOIN "
            "pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND "
            "a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' JOIN pg_type t ON t.oid = "
            "a.atttypid JOIN pg_type b ON b.oid = COALESCE(NULLIF(t.typbasetype, 0), t.oid) LEFT JOIN "
            "pg_type e ON e.oid = b.typelem AND b.typcategory = 'A' LEFT JOIN pg_index i ON i.indrelid = "
            "c.oid AND i.indisprimary WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT "
            "c.relispartition AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' "
            "ORDER BY 1, 2, a.attnum"
        )
    finally:
        connection.close()
    columns: dict[tuple[str, str], list[FoundColumn]] = {}
    keys: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for space, table, column, kind, element, native, limit, place in found:
        name = str(space), str(table)
        read = _read_as(str(kind), int(limit or -1))
        if element is not None:
            inner = _read_as(str(element), int(limit or -1))
            read = "STRING" if inner == "STRING" and element not in _TEXTS else f"ARRAY<{inner}>"
        columns.setdefault(name, []).append(FoundColumn(str(column), read, str(native)))
        if place is not None:
            keys.setdefault(name, []).append((int(place), str(column)))
    return [
        FoundTable(*name, tuple(column for _, column in sorted(keys.get(name, []))), tuple(each))
        for name, each in columns.items()
    ]


#: Types that are text as it is.
_TEXTS = {"text", "varchar", "bpchar", "name", "uuid"}


def _read_as(kind: str, limit: int) -> str:
    """Return the type to read a column as.

    Args:
        kind: its type's internal name.
        limit: its modifier: of `numeric`, digits and those behind the point, and 4; -1 for none.
    """
    if kind == "numeric" and limit >= 4:
        digits, scale = (limit - 4) >> 16, (limit - 4) & 0x7FF
        if scale <= digits <= _MOST_DIGITS:
            return f"DECIMAL({digits}, {scale})"
    return _TYPES.get(kind, "STRING")
