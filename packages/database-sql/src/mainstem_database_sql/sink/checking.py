"""A sink's table: made when it is missing, compared with what will be written when it is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from mainstem import OptionError
from mainstem.columns import Column
from sqlalchemy.dialects import postgresql

from mainstem_database_sql.sink.target import ID, ID_LENGTH, Target
from mainstem_database_sql.types import misfit


def ensure(target: Target, connection: sa.Connection, *, create: bool, add_columns: bool) -> None:
    """Make what is missing, and compare what is there with what will be written.

    Raises:
        OptionError: the table differs; names every difference.
    """
    inspector = sa.inspect(connection)
    there = inspector.has_table(target.name, schema=target.namespace)
    if there:
        _check(target, connection, inspector, add=add_columns)
        _same_keys(target, inspector)
    elif not create:
        raise OptionError(
            f"there is no table {target.name!r}",
            option="table",
            hint="Make it, or write `create: true`.",
        )
    target.metadata.create_all(connection)
    target.ledger.create(connection, checkfirst=True)
    _probe(target, connection)


def _same_keys(target: Target, inspector: sa.Inspector) -> None:
    """Give the table of deleted keys the types of the table that is there.

    PostgreSQL compares values of one type alone: a text is never looked for among UUIDs.
    """
    if not target.sequenced or target.dialect.name != "postgresql":
        return
    kinds = {
        c["name"]: c["type"] for c in inspector.get_columns(target.name, schema=target.namespace)
    }
    for table in target.metadata.tables.values():
        for column in table.columns if table.name == target.deleted_name else ():
            kind = kinds.get(column.name)
            if column.name in target.key and kind is not None and not isinstance(kind, sa.String):
                if isinstance(kind, postgresql.ENUM):
                    kind.create_type = False
                column.type = kind


def _check(
    target: Target, connection: sa.Connection, inspector: sa.Inspector, *, add: bool
) -> None:
    """Compare the table that is there with the target's columns.

    Args:
        target: what will be written.
        connection: in a transaction.
        inspector: of the connection.
        add: whether columns that the table lacks are added, if all else fits.

    Raises:
        OptionError: it differs; names every difference.
    """
    listed = inspector.get_columns(target.name, schema=target.namespace)
    found = {_fold(column["name"], target): column for column in listed}
    missing = [column for column in target.columns if _fold(column.name, target) not in found]
    added = [column for column in missing if add and column.name not in target.unique]
    problems = [f"no column {column.name}" for column in missing if column not in added]
    problems += _misfits(target, found)
    written = {_fold(name, target) for name in target.names}
    for name, there in found.items():
        if name not in written and not _filled(there, target):
            problems.append(f"column {name} is NOT NULL without a default, and nothing is written")
    unique = {_fold(name, target) for name in target.unique}
    if unique and unique <= found.keys() and unique not in _unique_keys(target, inspector):
        problems.append(f"no unique index on just {', '.join(target.unique)}")
    problems += _inexact(target, connection)
    if engine := _engine(target, connection):
        problems.append(f"its engine, {engine}, has no transactions")
    if problems:
        raise OptionError(
            f"the table {target.name!r} that is there does not fit: " + "; ".join(problems),
            option="table",
            hint="`add_columns: true` adds columns that are missing."
            if missing and not add
            else "",
        )
    for column in added:
        kind = target.made(column).type.compile(target.dialect)
        new = f"ADD COLUMN {target.quoted(column.name)} {kind}"
        connection.execute(sa.text(f"ALTER TABLE {target.path(target.name)} {new}"))


def _fold(name: str | None, target: Target) -> str:
    """Return a name as it is compared; names of PostgreSQL that are quoted count as they are."""
    name = name or ""
    if target.dialect.name == "mysql":  # SQLAlchemy leaves marks in names doubled, as in SQL
        name = name.replace("``", "`")
    return name if target.dialect.name == "postgresql" else name.casefold()


def _misfits(target: Target, found: Mapping[str, Any]) -> Iterator[str]:
    for column in target.columns:
        there = found.get(_fold(column.name, target))
        assert column.type is not None  # noqa: S101
        if there is None:
            continue
        if there.get("computed") or (there.get("identity") or {}).get("always"):
            yield f"column {column.name} is made by the database, and can't be written"
        elif misfit(column.type, there["type"], target.dialect) and not _is_id(column, there):
            yield (
                f"column {column.name} is {_word(there['type'], target)}, "
                f"which can't hold {column.type}"
            )


def _is_id(column: Column, there: Mapping[str, Any]) -> bool:
    """Whether a column has a fixed length, which is that of each `_id`."""
    return column.name == ID and getattr(there["type"], "length", None) == ID_LENGTH


def _inexact(target: Target, connection: sa.Connection) -> Iterator[str]:
    """Yield the text columns of the key that take different texts for one key."""
    wanted = _COLLATIONS[target.dialect.name]
    path = target.path(target.name).replace(r"\:", ":")  # a value here, no part of the statement
    at = {"schema": target.namespace, "name": target.name, "path": path}
    given = {name: value for name, value in at.items() if f":{name}" in wanted}
    found = {
        _fold(name, target): collation
        for name, collation in connection.execute(sa.text(wanted), given)
    }
    for name in target.unique:
        if collation := found.get(_fold(name, target)):
            yield (
                f"column {name} compares text by {collation}, which takes some keys for equal that "
                "are not"
            )


#: The text columns of a table that compare otherwise than exactly, and by what.
_COLLATIONS = {
    "mysql": "SELECT column_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = COALESCE(:schema, DATABASE()) AND table_name = :name "
    "AND collation_name IS NOT NULL AND NOT (collation_name LIKE '%nopad\\_bin' "
    "OR collation_name LIKE '%0900\\_bin' OR collation_name = 'binary')",
    "postgresql": "SELECT a.attname, COALESCE(c.collname, t.typname) FROM pg_attribute AS a "
    "JOIN pg_type AS t ON t.oid = a.atttypid LEFT JOIN pg_collation AS c ON c.oid = a.attcollation "
    "WHERE a.attrelid = CAST(:path AS regclass) AND a.attnum > 0 "
    "AND (NOT c.collisdeterministic OR t.typname = 'citext')",
    "sqlite": "SELECT x.name, x.coll FROM pragma_index_list(:name) AS l "
    "JOIN pragma_index_xinfo(l.name) AS x WHERE l.\"unique\" AND x.coll <> 'BINARY'",
}


def _word(kind: Any, target: Target) -> str:
    try:
        return str(kind.compile(target.dialect))
    except sa.exc.CompileError:
        return "of a type of its own"


def _filled(there: Mapping[str, Any], target: Target) -> bool:
    """Whether a column that is not written has a value all the same."""
    by_itself = there.get("autoincrement") is True or there.get("identity") or there.get("computed")
    rowid = (
        target.dialect.name == "sqlite"
        and there.get("primary_key")
        and isinstance(there["type"], sa.INTEGER)
    )
    return bool(there["nullable"] or there.get("default") is not None or by_itself or rowid)


def _unique_keys(target: Target, inspector: sa.Inspector) -> list[set[str]]:
    at: dict[str, Any] = {"schema": target.namespace}
    # SQLite alone has a primary key without an index that tells.
    keys: list[Sequence[str | None]] = [
        inspector.get_pk_constraint(target.name, **at)["constrained_columns"]
    ]
    if target.dialect.name != "mysql":  # whose constraints are its indexes, and say less
        keys += [c["column_names"] for c in inspector.get_unique_constraints(target.name, **at)]
    for index in inspector.get_indexes(target.name, **at):
        how = index.get("dialect_options", {})
        part = any("where" in name or "length" in name for name in how)  # of rows, of values
        if index["unique"] and not part:
            keys.append(index["column_names"])
    return [{_fold(name, target) for name in names} for names in keys]


def _engine(target: Target, connection: sa.Connection) -> str:
    """Return the engine of MySQL's that has no transactions, if the table is kept by one."""
    if target.dialect.name != "mysql":
        return ""
    wanted = (
        "SELECT t.engine FROM information_schema.tables AS t JOIN information_schema.engines AS e "
        "ON e.engine = t.engine WHERE t.table_schema = COALESCE(:schema, DATABASE()) "
        "AND t.table_name = :name AND e.transactions <> 'YES'"
    )
    at = {"schema": target.namespace, "name": target.name}
    return str(connection.execute(sa.text(wanted), at).scalar() or "")


# -- permissions ------------------------------------------------------------------------------


def _probe(target: Target, connection: sa.Connection) -> None:
    """Let the database refuse what its user may not do, by statements that change nothing.

    Raises:
        Exception: the driver's, which says what is forbidden.
    """
    if target.dialect.name == "sqlite":
        return
    # PostgreSQL would run triggers of statements, MySQL needs more rights to explain.
    explain = "EXPLAIN " if target.dialect.name == "postgresql" else ""
    for statement in _statements(target):
        connection.execute(sa.text(explain + statement))


def _statements(target: Target) -> Iterator[str]:
    dual = " FROM DUAL" if target.dialect.name == "mysql" else ""
    for table in (*target.metadata.tables.values(), target.ledger):
        ledger = table is target.ledger
        path, columns = target.path(table.name), tuple(table.columns.keys())
        nulls = ", ".join(["NULL"] * len(columns))
        yield f"INSERT INTO {path} ({target.listed(columns)}) SELECT {nulls}{dual} WHERE 1 = 0"
        if ledger or target.unique:
            yield f"SELECT {target.listed(columns)} FROM {path} WHERE 1 = 0"
        if ledger or target.key:
            sets = ", ".join(f"{target.quoted(n)} = {target.quoted(n)}" for n in columns)
            yield f"UPDATE {path} SET {sets} WHERE 1 = 0"
        if target.key and not ledger:
            yield f"DELETE FROM {path} WHERE 1 = 0"
