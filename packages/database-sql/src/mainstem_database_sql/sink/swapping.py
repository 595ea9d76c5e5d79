"""A table put in another's place, by name, at once for its readers."""

from __future__ import annotations

import sqlalchemy as sa
from mainstem import PipelineError

from mainstem_database_sql.sink.target import Target
from mainstem_database_sql.sink.transactions import Transaction
from mainstem_database_sql.sink.writing import Writer

#: No name that a user would give.
_OLD = "__swapped_out"


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
        _refuse_referred(connection, here, old)
        new = [(name, built) for name, built in names if built in there]
        if here.dialect.name == "mysql":
            _swap_in_one_statement(connection, here, old, new)
            return
        if (
            here.dialect.name == "sqlite"
        ):  # else a view of the old table could not be there meanwhile
            connection.exec_driver_sql("PRAGMA legacy_alter_table = ON")
        for name in old:
            _drop(connection, here, name)
        for name, built in new:
            rename = f"ALTER TABLE {here.path(built)} RENAME TO {here.quoted(name)}"
            connection.execute(sa.text(rename))

    writer.transact(work)


def _swap_in_one_statement(
    connection: sa.Connection, target: Target, old: list[str], new: list[tuple[str, str]]
) -> None:
    """Swap where each statement commits: one renames all, so that readers always see a table."""
    for name in old:
        _drop(connection, target, f"{name}{_OLD}")
    renamed = [(name, f"{name}{_OLD}") for name in old] + [(built, name) for name, built in new]
    pairs = ", ".join(f"{target.path(a)} TO {target.path(b)}" for a, b in renamed)
    connection.execute(sa.text(f"RENAME TABLE {pairs}"))
    for name in old:
        _drop(connection, target, f"{name}{_OLD}")


def _refuse_referred(connection: sa.Connection, target: Target, names: list[str]) -> None:
    """Refuse to remove tables that foreign keys refer to: their rows would go, or be left alone."""
    inspector = sa.inspect(connection)
    for (_, table), keys in inspector.get_multi_foreign_keys(schema=target.namespace).items():
        for key in keys:
            if key["referred_table"] in names and table not in names:
                raise PipelineError(
                    f"{target.name!r} can't be swapped: a foreign key of {table!r} refers to it"
                )


def _drop(connection: sa.Connection, target: Target, name: str) -> None:
    connection.execute(sa.text(f"DROP TABLE IF EXISTS {target.path(name)}"))


def _target(writer: Writer) -> Target:
    o = writer.options
    return Target(writer.engine.dialect, o.table, o.namespace, o.ledger, ())
