"""Where the keys of subjects are kept: a table with a row for each, also for those that are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from mainstem import PermanentError, TransientError, failpoint
from mainstem.patience import retry
from mainstem_database.connecting import Meaning, make_engine, meaning, words
from sqlalchemy.dialects import mysql, postgresql, sqlite

from mainstem_operators_privacy.ciphers import Cipher, Master, SealError
from mainstem_operators_privacy.options import KeyOptions

T = TypeVar("T")
#: How many subjects one statement names.
_MANY = 500
#: The name of the row that says whose table it is, which no subject has.
_MARK = "master"


class KeyStore:
    """Finds, makes and destroys keys.

    A subject has one row for ever: with its key, or, once it is forgotten, without one. Whoever makes the
    row first has made the key; a row without a key stays so.
    """

    def __init__(self, options: KeyOptions) -> None:
        self._options, self._master = options, Master(options.master_bytes)
        self._engine = make_engine(options)
        if options.product == "sqlite":
            sa.event.listen(self._engine, "connect", _shred)
        self._there = False
        self._table = sa.Table(
            options.table,
            sa.MetaData(schema=options.namespace),
            sa.Column("name", sa.String(64), primary_key=True),
            sa.Column("sealed", sa.LargeBinary(255)),
            sa.Column("made_at", sa.DateTime(), nullable=False),
            sa.Column("destroyed_at", sa.DateTime()),
        )

    def ciphers(self, subjects: Iterable[bytes], *, make: bool) -> dict[bytes, Cipher | None]:
        """Return what encrypts and decrypts the values of subjects; None for those that are forgotten.

        Args:
            make: whether a key is made for a subject that has none; else it is not in the result.

        Raises:
            PermanentError: the database can't be used, or another master made its keys.
        """
        found: dict[bytes, Cipher | None] = {}
        for part in _parts(subjects):
            names = {self._master.name(subject): subject for subject in part}
            kept = self._patiently(partial(self._sealed, names))
            missing = [name for name in names if name not in kept]
            if missing and make:
                self._patiently(partial(self._make, missing))
                failpoint("keys.after-make")
                # Whoever was first has made them.
                kept |= self._patiently(partial(self._sealed, missing))
            for name, sealed in kept.items():
                found[names[name]] = None if sealed is None else self._cipher(name, sealed)
        return found

    def _cipher(self, name: str, sealed: bytes) -> Cipher:
        try:
            return Cipher(self._master.key(name, sealed))
        except SealError as error:
            raise PermanentError(f"keys: {self._options.place}: {error}") from None

    def destroy(self, subjects: Iterable[bytes]) -> int:
        """Destroy the keys of subjects, for good, and return how many there were."""
        count = 0
        for part in _parts(subjects):
            names = [self._master.name(subject) for subject in part]
            count += self._patiently(partial(self._destroy, names))
        return count

    def known(self, subjects: Iterable[bytes]) -> int:
        """Return how many of some subjects have a key."""
        count = 0
        for part in _parts(subjects):
            names = [self._master.name(subject) for subject in part]
            found = self._patiently(partial(self._sealed, names))
            count += sum(sealed is not None for sealed in found.values())
        return count

    def close(self) -> None:
        """End the connections."""
        self._engine.dispose()

    # -- statements -------------------------------------------------------------------------------

    def _sealed(self, names: Iterable[str]) -> dict[str, bytes | None]:
        columns = self._table.c
        asked = sa.select(columns.name, columns.sealed).where(columns.name.in_(list(names)))
        with self._engine.connect() as connection:
            return {
                name: None if sealed is None else bytes(sealed)
                for name, sealed in connection.execute(asked)
            }

    def _make(self, names: Sequence[str]) -> None:
        rows = [{"name": name, "sealed": self._master.new_key(name)} for name in names]
        with self._engine.begin() as connection:
            self._insert(connection, rows)

    def _destroy(self, names: Sequence[str]) -> int:
        columns, now = self._table.c, _now()
        with self._engine.begin() as connection:
            # Of who has no row, one says that there is never to be a key.
            self._insert(
                connection, [{"name": n, "sealed": None, "destroyed_at": now} for n in names]
            )
            gone = (
                sa.update(self._table)
                .where(columns.name.in_(list(names)), columns.sealed.is_not(None))
                .values(sealed=None, destroyed_at=now)
            )
            count = connection.execute(gone).rowcount
            failpoint("keys.before-commit")
        failpoint("keys.after-commit")
        return count

    def _insert(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
        """Insert rows, but for those that are there."""
        # In one order, for those who insert the same at once.
        made = [{"made_at": _now(), **row} for row in sorted(rows, key=lambda row: row["name"])]
        insert: Any
        if connection.dialect.name == "postgresql":
            insert = postgresql.insert(self._table).on_conflict_do_nothing()
        elif connection.dialect.name == "sqlite":
            insert = sqlite.insert(self._table).on_conflict_do_nothing()
        else:
            insert = mysql.insert(self._table).prefix_with("IGNORE")
        connection.execute(insert, made)

    def _begin(self) -> None:
        """Make the table where it is not there, and see that it is of this master.

        Raises:
            PermanentError: it is another's.
        """
        try:
            self._table.create(self._engine, checkfirst=True)
        except sa.exc.SQLAlchemyError:
            if not sa.inspect(self._engine).has_table(self._table.name, self._table.schema):
                raise  # else another has made it at the same time
        mark = self._master.mark
        if (found := self._sealed([_MARK])) == {}:  # who only reads need not be allowed more
            with self._engine.begin() as connection:
                self._insert(connection, [{"name": _MARK, "sealed": mark}])
            found = self._sealed([_MARK])
        if found != {_MARK: mark}:
            raise PermanentError(
                f"keys: {self._options.place}: the table {self._options.table} is of another `master`"
            )
        self._there = True

    # -- errors -----------------------------------------------------------------------------------

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do work, and again while the database is away.

        Raises:
            PermanentError: it was away for longer than `give_up`, or retrying does not help.
        """
        place = self._options.place
        try:
            return retry(lambda _: self._told(work), self._options.give_up.total_seconds())
        except TransientError as error:
            raise PermanentError(f"keys: {place}: {error} (give_up)") from None

    def _told(self, work: Callable[[], T]) -> T:
        try:
            if not self._there:
                self._begin()
            return work()
        except sa.exc.SQLAlchemyError as error:
            self._there = False  # somebody may have taken the table away
            if meaning(error) is Meaning.TRANSIENT:
                raise TransientError(words(error)) from None
            raise PermanentError(f"keys: {self._options.place}: {words(error)}") from None


def _parts(subjects: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield subjects, each once, as many at a time as a statement names."""
    each = list(dict.fromkeys(subjects))
    for start in range(0, len(each), _MANY):
        yield each[start : start + _MANY]


def _shred(connection: Any, _record: Any) -> None:
    """Let SQLite overwrite what is destroyed in its file."""
    connection.execute("PRAGMA secure_delete = ON")


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def stores_of(found: Iterable[KeyOptions]) -> Iterator[KeyOptions]:
    """Yield the stores that are meant, each once."""
    seen: list[tuple[object, ...]] = []
    for options in found:
        told = (
            options.url.get_secret_value(),
            options.namespace,
            options.table,
            options.master_bytes,
        )
        if told not in seen:
            seen.append(told)
            yield options
