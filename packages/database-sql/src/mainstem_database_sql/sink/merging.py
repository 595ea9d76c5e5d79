"""The SQL that puts rows from one relation into the sink's table: compared and set, or as they come."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from mainstem import COMMIT_VERSION

from mainstem_database_sql.sink.target import Target

#: How rows go into the table: as they come, those with a new `_id`, or changes by their key.
APPEND, NEW, KEYED = "append", "new", "keyed"


class Merge:
    """Puts rows of a relation into the target's table.

    Args:
        target: where to.
        how: `APPEND`, `NEW` or `KEYED`.
    """

    def __init__(self, target: Target, how: str) -> None:
        self.target = target
        self.how = how
        self._mysql = target.dialect.name == "mysql"
        self._table = target.path(target.name)
        self._deleted = target.path(target.deleted_name)
        self._key = target.unique

    def begin(self, connection: sa.Connection) -> None:
        """Wait until no other run compares changes with what is there; lasts as long as the transaction.

        PostgreSQL alone needs it: what it compares with may be older than what it then locks.
        """
        t = self.target
        if t.sequenced and t.dialect.name == "postgresql":
            name = "COALESCE(:schema, current_schema()) || '.' || :table"
            lock = sa.text(f"SELECT pg_advisory_xact_lock(hashtextextended({name}, 0))")
            connection.execute(lock, {"schema": t.namespace, "table": t.name})

    def put(self, connection: sa.Connection, rows: str) -> None:
        """Put the rows of a relation into the table.

        Args:
            connection: in a transaction.
            rows: the relation, as it stands behind FROM, with the table's columns; of a `NEW` or
                `KEYED` merge it has no key twice.
        """
        for statement in self._puts(rows):
            connection.execute(sa.text(statement))

    def delete(self, connection: sa.Connection, rows: str, now: int) -> None:
        """Delete the rows of the table whose keys are in a relation, and remember that.

        Args:
            connection: in a transaction.
            rows: the relation, with the key and, where there is one, the sequence; no key twice.
            now: the time in seconds, to forget the deletes by later.
        """
        for statement in self._deletes(rows):
            connection.execute(sa.text(statement))
        if self.target.sequenced:
            connection.execute(sa.text(self._remembering(rows)), {"now": now})

    def forget(self, connection: sa.Connection, before: int) -> None:
        """Forget the deletes that were remembered before a time, in seconds."""
        if self.target.sequenced:
            name = self.target.quoted("_deleted_at")
            connection.execute(
                sa.text(f"DELETE FROM {self._deleted} WHERE {name} < :before"), {"before": before}
            )

    # -- statements -------------------------------------------------------------------------

    def _puts(self, rows: str) -> Iterator[str]:
        t = self.target
        names = t.listed(t.names)
        wanted = f"SELECT {t.listed(t.names, 's')} FROM {rows} AS s"
        if self.how == APPEND:
            yield f"INSERT INTO {self._table} ({names}) {wanted}"
            return
        alive = f" AND NOT {self._is_deleted()}" if t.sequenced else ""
        if self._mysql:
            if self.how == KEYED and (sets := self._sets("t.{0} = s.{0}")):
                both = f"{self._table} AS t JOIN {rows} AS s ON {self._same('t', 's')}"
                yield f"UPDATE {both} SET {sets} WHERE {self._newer('t', 's')}"
            missing = t.quoted(self._key[0])
            yield (
                f"INSERT INTO {self._table} ({names}) {wanted} LEFT JOIN {self._table} AS t "
                f"ON {self._same('t', 's')} WHERE t.{missing} IS NULL{alive}"
            )
            return
        into = f"INSERT INTO {self._table} AS t ({names}) {wanted} WHERE 1 = 1{alive}"
        sets = self._sets("{0} = excluded.{0}") if self.how == KEYED else ""
        newer = self._newer("t", "excluded")
        update = f"UPDATE SET {sets} WHERE {newer}" if sets else "NOTHING"
        yield f"{into} ON CONFLICT ({t.listed(self._key)}) DO {update}"

    def _deletes(self, rows: str) -> Iterator[str]:
        t = self.target
        same = self._same("t", "s")
        older = self._newer("t", "s")
        if self._mysql:
            yield f"DELETE t FROM {self._table} AS t JOIN {rows} AS s ON {same} WHERE {older}"
            return
        yield (
            f"DELETE FROM {self._table} WHERE ({t.listed(self._key)}) IN (SELECT "
            f"{t.listed(self._key, 's')} FROM {rows} AS s JOIN {self._table} AS t ON {same} "
            f"WHERE {older})"
        )

    def _remembering(self, rows: str) -> str:
        t = self.target
        names = (*self._key, COMMIT_VERSION)
        version, at = t.quoted(COMMIT_VERSION), t.quoted("_deleted_at")
        into = f"INSERT INTO {self._deleted}"
        wanted = f"({t.listed(names)}, {at}) SELECT {t.listed(names, 's')}, :now FROM {rows} AS s"
        if self._mysql:  # the key is the only thing that is unique here
            newer = f"{t.ordered(self._deleted)} < {t.in_order(f'VALUES({version})')}"
            return (
                f"{into} {wanted} ON DUPLICATE KEY UPDATE "
                f"{at} = IF({newer}, VALUES({at}), {self._deleted}.{at}), "
                f"{version} = IF({newer}, VALUES({version}), {self._deleted}.{version})"
            )
        return (
            f"{into} AS d {wanted} WHERE 1 = 1 ON CONFLICT ({t.listed(self._key)}) DO UPDATE SET "
            f"{version} = excluded.{version}, {at} = excluded.{at} "
            f"WHERE {t.ordered('d')} < {t.ordered('excluded')}"
        )

    def _same(self, one: str, other: str) -> str:
        named = map(self.target.quoted, self._key)
        return " AND ".join(f"{one}.{name} = {other}.{name}" for name in named)

    def _sets(self, pattern: str) -> str:
        """Return the assignments of all columns but the key; the sequence last, as MySQL needs it."""
        names = [n for n in self.target.names if n not in self._key and n != COMMIT_VERSION]
        names += [COMMIT_VERSION] if self.target.sequenced else []
        return ", ".join(pattern.format(self.target.quoted(name)) for name in names)

    def _newer(self, there: str, here: str) -> str:
        if not self.target.sequenced:
            return "1 = 1"
        t = self.target
        # Null: the row was there before the column.
        null = f"{there}.{t.quoted(COMMIT_VERSION)} IS NULL"
        return f"({null} OR {t.ordered(there)} < {t.ordered(here)})"

    def _is_deleted(self) -> str:
        t = self.target
        return (
            f"EXISTS (SELECT 1 FROM {self._deleted} AS d WHERE {self._same('d', 's')} "
            f"AND {t.ordered('d')} >= {t.ordered('s')})"
        )
