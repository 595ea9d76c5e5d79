"""A table put in another's place, by name, at once for its readers."""

from __future__ import annotations

import sqlalchemy as sa

from mainstem_database_sql.target import Target
from mainstem_database_sql.transactions import Transaction
from mainstem_database_sql.writing import Writer

_OLD = "__old"


def clear(writer: Writer) -> None:
    """Remove the table, and what beside it remembers deletes."""
    target = _target(writer)

    def work(transaction: Transaction) -> None:
        for name in (target.name, target.deleted_name):
            _drop(transaction.connection, target, name)

    writer.transact(work)


def swap(writer: Writer, built: Writer) -> None:
    """Put `built`'s tables in the place of `writer`'s; nothing if there are none."""
    here, other = _target(writer), _target(built)

    def work(transaction: Transaction) -> None:
        connection = transaction.connection
        there = set(sa.inspect(connection).get_table_names(schema=here.namespace))
        if other.name not in there:
            return
        names = [(here.name, other.name), (here.deleted_name, other.deleted_name)]
        old = [name for name, _ in names if name in there]
        renamed = [(name, f"{name}{_OLD}") for name in old]
        renamed += [(new, name) for name, new in names if new in there]
        for name in old:
            _drop(connection, here, f"{name}{_OLD}")
        for statement in _renaming(here, renamed):
            connection.execute(sa.text(statement))
        for name in old:
            _drop(connection, here, f"{name}{_OLD}")

    writer.transact(work)


def _renaming(target: Target, names: list[tuple[str, str]]) -> list[str]:
    if target.dialect.name == "mysql":  # in one statement, or readers would see none for a moment
        pairs = ", ".join(f"{target.path(a)} TO {target.path(b)}" for a, b in names)
        return [f"RENAME TABLE {pairs}"]
    return [f"ALTER TABLE {target.path(a)} RENAME TO {target.quoted(b)}" for a, b in names]


def _drop(connection: sa.Connection, target: Target, name: str) -> None:
    connection.execute(sa.text(f"DROP TABLE IF EXISTS {target.path(name)}"))


def _target(writer: Writer) -> Target:
    o = writer.options
    return Target(writer.engine.dialect, o.table, o.namespace, o.ledger, ())
