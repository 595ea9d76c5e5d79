"""What a sink's tables look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from mainstem import COMMIT_VERSION, Changelog, OptionError, Shape
from mainstem.columns import Column
from sqlalchemy.dialects import mysql

from mainstem_database_sql.types import column_type

#: The column of a row's identity, and how many bytes each has.
ID, ID_LENGTH = "_id", 16
_DELETED_AT = "_deleted_at"
#: A server may make tables without transactions, if it is not told.
_INNODB: dict[str, Any] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
#: Temporary tables of a connection: rows to put, and keys to delete.
PUT, GONE = "mainstem_put", "mainstem_gone"


@dataclass(frozen=True)
class Target:
    """A sink's table at a database, beside it the table that remembers deletes, and the ledger.

    `columns` are those of the table: the stream's, `_id` where rows are known by it, and the sequence
    as `_commit_version` where changes have one.
    """

    dialect: sa.Dialect
    name: str
    namespace: str | None
    ledger_name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        dialect: sa.Dialect,
        name: str,
        namespace: str | None,
        ledger_name: str,
        columns: Sequence[Column],
        shape: Shape,
    ) -> Target:
        """Return the target for the columns that a sink is given.

        Raises:
            OptionError: a name is too long for the database.
        """
        changes = isinstance(shape, Changelog)
        sequenced = isinstance(shape, Changelog) and shape.sequence is not None
        kept = tuple(
            column
            for column in columns
            if not column.name.startswith("_") or column.name == ID
            if not (changes and column.name == ID)
        )
        kept += tuple(c for c in columns if c.name == COMMIT_VERSION and sequenced)
        key = shape.key if isinstance(shape, Changelog) else ()
        made = cls(dialect, name, namespace, ledger_name, kept, key)
        tables = [name, ledger_name, *([made.deleted_name] if made.sequenced else [])]
        for each in (*tables, *made.names):
            if why := _unfit(each, dialect.name):
                raise OptionError(f"the name {each!r} {why}")
        if len({each.casefold() for each in (*tables, PUT, GONE)}) < len(tables) + 2:
            raise OptionError(
                f"the tables {', '.join(map(repr, tables))} need names that differ from each other, and "
                f"from {PUT!r} and {GONE!r}",
                option="table",
            )
        return made

    @property
    def sequenced(self) -> bool:
        """Whether changes are compared by a sequence."""
        return any(column.name == COMMIT_VERSION for column in self.columns)

    @property
    def identified(self) -> bool:
        """Whether rows are known by their `_id`."""
        return any(column.name == ID for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return tuple(column.name for column in self.columns)

    @property
    def unique(self) -> tuple[str, ...]:
        """The columns that must be unique, so that rows can be compared and set."""
        return self.key or ((ID,) if self.identified else ())

    @property
    def versioned(self) -> tuple[str, ...]:
        """The names of the key's columns, and of the sequence where there is one."""
        return (*self.key, COMMIT_VERSION) if self.sequenced else self.key

    @property
    def deleted_name(self) -> str:
        """The name of the table that remembers deletes."""
        return f"{self.name}__deleted"

    # -- SQL --------------------------------------------------------------------------------

    def quoted(self, name: str) -> str:
        """Return a name as an identifier for `sqlalchemy.text`, whatever its characters."""
        return quoted(name, self.dialect.name).replace(":", r"\:")

    def listed(self, names: Sequence[str], of: str = "") -> str:
        """Return names as a list, each behind `of.`."""
        return ", ".join(f"{of}.{self.quoted(n)}" if of else self.quoted(n) for n in names)

    def ordered(self, of: str) -> str:
        """Return the sequence of a relation, as what it is compared by."""
        return self.in_order(f"{of}.{self.quoted(COMMIT_VERSION)}")

    def in_order(self, sequence: str) -> str:
        """Return an expression of the sequence's type as what it is compared by: text by its bytes."""
        if not any(c.name == COMMIT_VERSION and c.type == "string" for c in self.columns):
            return sequence
        if self.dialect.name == "mysql":
            return f"CAST({sequence} AS BINARY)"
        collation = '"C"' if self.dialect.name == "postgresql" else "BINARY"
        return f"{sequence} COLLATE {collation}"

    def path(self, name: str) -> str:
        """Return the name of a table in the target's schema."""
        schema = f"{self.quoted(self.namespace)}." if self.namespace else ""
        return f"{schema}{self.quoted(name)}"

    # -- tables -----------------------------------------------------------------------------

    @cached_property
    def metadata(self) -> sa.MetaData:
        """What SQLAlchemy makes the tables from."""
        made = sa.MetaData(schema=self.namespace)
        # Not `primary_key` for ids: InnoDB would order rows by them, at random.
        rows = [self.made(c, key=c.name in self.unique) for c in self.columns]
        extra: list[sa.Constraint] = []
        if self.key:
            extra = [sa.PrimaryKeyConstraint(*self.key)]
        elif self.identified:
            extra = [sa.UniqueConstraint(ID)]
        sa.Table(sa.sql.quoted_name(self.name, quote=True), made, *rows, *extra, **_INNODB)
        if self.sequenced:
            by_name = {column.name: column for column in self.columns}
            sa.Table(
                sa.sql.quoted_name(self.deleted_name, quote=True),
                made,
                *(self.made(by_name[name], key=True) for name in self.versioned),
                sa.Column(_DELETED_AT, sa.BigInteger, nullable=False),
                sa.PrimaryKeyConstraint(*self.key),
                **_INNODB,
            )
        return made

    @cached_property
    def ledger(self) -> sa.Table:
        """The table that says which batches are in."""
        word = sa.String(200).with_variant(
            mysql.VARCHAR(200, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
        )
        blob = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
        return sa.Table(
            sa.sql.quoted_name(self.ledger_name, quote=True),
            sa.MetaData(schema=self.namespace),
            sa.Column("pipeline", word, primary_key=True),
            sa.Column("sink", word, primary_key=True),
            sa.Column("query_id", sa.String(36), primary_key=True),
            sa.Column("batch", sa.BigInteger, nullable=False, autoincrement=False),
            sa.Column("epoch", sa.BigInteger, nullable=False, autoincrement=False),
            sa.Column("refused", blob),
            **_INNODB,
        )

    def made(self, column: Column, *, key: bool = False) -> sa.Column[Any]:
        """Return a column of a table that is made."""
        assert column.type is not None  # noqa: S101
        kind = column_type(column.type, self.dialect, key=key)
        name = sa.sql.quoted_name(column.name, quote=True)
        return sa.Column(name, kind, nullable=not key, autoincrement=False)


def quoted(name: str, product: str) -> str:
    """Return a name as an identifier. SQLAlchemy's own also doubles `%`, for drivers' parameters."""
    mark = "`" if product == "mysql" else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def _unfit(name: str, product: str) -> str:
    """Return why a product can't have a name; empty if it can."""
    if product == "postgresql" and len(name.encode()) > 63:
        return "is too long for PostgreSQL: 63 bytes at most"
    if product == "mysql" and len(name) > 64:
        return "is too long for MySQL: 64 characters at most"
    if product == "mysql" and any(ord(character) > 0xFFFF for character in name):
        return "has a character that names of MySQL's can't have"
    return ""
