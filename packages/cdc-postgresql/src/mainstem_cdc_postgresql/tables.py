"""The tables of a document, as the database has them: columns, keys, rows read by key, changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainstem import PermanentError
from mainstem.columns import find_column
from mainstem_ingress import Chunk

from mainstem_cdc_postgresql.columns import column
from mainstem_cdc_postgresql.connection import Connection, literal, quoted
from mainstem_cdc_postgresql.options import TableOptions
from mainstem_cdc_postgresql.protocol import UNCHANGED, Relation, Value

#: How long the server may take for a chunk, in seconds.
_READING = 600.0

#: The values of a row as text, in the order of the table's columns in the document.
Values = Sequence[Value]


class Table:
    """A table of the document.

    Args:
        name: its name there, and that of its output.
        nulls: whether a column that the database does not have is null.

    Attributes:
        key: the columns of the key, as the document has them.
        parted: whether it has partitions.
    """

    def __init__(self, name: str, options: TableOptions, *, nulls: bool) -> None:
        self.name = name
        self.namespace, self.table = options.place(name)
        self.sql = f"{quoted(self.namespace)}.{quoted(self.table)}"
        self.parted = False
        self.preimages = options.preimages
        self.columns = [column.name for column in options.table_schema]
        self.key = [find_column(options.table_schema, key, "key").name for key in options.key]
        self._nulls = nulls
        self.kinds = [column.type or "" for column in options.table_schema]
        self._keys = [self.columns.index(key) for key in self.key]
        self._ordered = self.key
        self._there: set[str] = set(self.columns)

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
        self.parted = kind == "p"
        there = {
            str(name)
            for (name,) in connection.query(
                f"SELECT attname FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT "
                "attisdropped AND attgenerated = ''"
            )
        }
        self._missing([name for name in self.columns if name not in there])
        self._there = there
        indexes = connection.query(
            "SELECT i.indisprimary, i.indisreplident, string_agg(a.attname, chr(1) ORDER BY k.place), "
            "bool_and(a.attnotnull) FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY "
            "AS k(number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
            f"WHERE i.indrelid = {oid} AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND "
            "i.indexprs IS NULL AND k.place <= i.indnkeyatts GROUP BY i.indexrelid, i.indisprimary, "
            "i.indisreplident"
        )
        unique = [str(names).split("\1") for _, _, names, filled in indexes if filled == "t"]
        same = [names for names in unique if set(names) == set(self.key)]
        if not same:
            raise PermanentError(
                f"{self.sql} has no primary key, and no unique index of columns that are never null, of "
                f"{', '.join(self.key)}"
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

    def layout(self, relation: Relation) -> list[int | None]:
        """Return where the columns are in the rows of a table as it is now.

        Raises:
            PermanentError: one is not there.
        """
        self._missing([name for name in self.columns if name not in relation.columns])
        places = {name: at for at, name in enumerate(relation.columns)}
        return [places.get(name) for name in self.columns]

    def _missing(self, names: Sequence[str]) -> None:
        if wrong := [n for n in names if not self._nulls or n in self.key]:
            raise PermanentError(
                f"{self.sql} has no column {', '.join(wrong)} (or it is a generated one): change the "
                "document's schema, or let it be null (`on_missing_column: null`)"
            )

    # -- rows that it has -------------------------------------------------------------------------

    def chunk(
        self,
        connection: Connection,
        after: Sequence[str] | None,
        rows: int,
        meanwhile: Callable[[], None],
    ) -> tuple[str, Chunk]:
        """Return the next rows by key, and the transactions that they have not seen.

        Args:
            after: the key behind which they are.
            meanwhile: called once a second while they are waited for.

        Returns:
            the server's snapshot (`xmin:xmax:list of running ones`), and the rows.
        """
        names = ", ".join(quoted(name) for name in self._ordered)
        where = ""
        if after is not None:
            marks = ", ".join(f"${at}" for at in range(1, len(self._ordered) + 1))
            where = f" WHERE ({names}) > ({marks})"
        given = () if after is None else tuple(after[self.key.index(n)] for n in self._ordered)
        connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((snapshot,),) = connection.query("SELECT pg_current_snapshot()")
        found = connection.rows(
            f"SELECT {self._selected} FROM {self._source}{where} ORDER BY {names} LIMIT {rows}",
            given,
            seconds=_READING,
            meanwhile=meanwhile,
        )
        connection.query("COMMIT")
        keyed: dict[Any, Values] = {self.key_of(values): values for values in found}
        last = None if not found else [_text(each) for each in self.key_of(found[-1])]
        return str(snapshot), Chunk(keyed, last)

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

    # -- values -----------------------------------------------------------------------------------

    def key_of(self, values: Values) -> tuple[Value, ...]:
        """Return the key of a row."""
        return tuple([values[at] for at in self._keys])

    def with_key(self, new: Values, old: Values) -> Values:
        """Return a changed row with the columns of its key that the log has before the change alone."""
        return [
            o if n is UNCHANGED and at in self._keys else n
            for at, (n, o) in enumerate(zip(new, old, strict=True))
        ]

    def key_alone(self, values: Values) -> Values:
        """Return a row with its key and nothing else."""
        return [value if at in self._keys else None for at, value in enumerate(values)]

    def read(self, rows: Sequence[Values]) -> tuple[dict[str, Any], dict[int, str]]:
        """Return rows as Arrow columns, and why some are refused.

        Returns:
            the columns by name, with anything for rows that are refused; and by the numbers of these rows
            which column has a value that its type does not hold, and why.
        """
        columns: dict[str, Any] = {}
        refused: dict[int, str] = {}
        for name, kind, values in zip(
            self.columns, self.kinds, zip(*rows, strict=True), strict=True
        ):
            columns[name], wrong = column(kind, values)
            for at, why in wrong.items():
                refused.setdefault(at, f"{name}: {why}")
        return columns, refused

    def shown(self, values: Values) -> bytes:
        """Return a row as JSON, each value as PostgreSQL prints it."""
        named: Mapping[str, str | None] = {
            name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else None
            for name, value in zip(self.columns, values, strict=True)
        }
        return json.dumps(named).encode()


def _text(value: Value) -> str | None:
    return value.decode() if isinstance(value, bytes) else None
