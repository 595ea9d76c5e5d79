"""What messages about a table's rows say, as the changes of a changelog: whatever format they are in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mainstem.contracts.ddl import Column
from mainstem.contracts.formats import Changes
from mainstem.formats.arrow import pa
from mainstem.formats.kinds import arrow_type
from mainstem.formats.scalars import Misfit

INSERT, BEFORE, AFTER, DELETE = "insert", "update_preimage", "update_postimage", "delete"
#: What happened to a row: created, read by a snapshot, updated, deleted.
OPS = ("c", "r", "u", "d")
#: In the place of a value that is not in the message.
UNAVAILABLE: Any = object()
_FULL = "set the table's REPLICA IDENTITY to FULL"

#: The values of the columns, and a kind of change with a row.
Row = list[Any]
Change = tuple[str, Row]


class RowChanges:
    """Makes changes of the states of a row before and after.

    A message gives a row for each state of the changed row. One without a value deletes its key where
    nobody asks for pre-images; where they are asked for it gives nothing: the deletion, with its
    pre-image, is the message before it. An update that moves the key deletes the old key's row.

    Args:
        columns: those of the table.
        key: the columns of the table's key.
        preimages: whether rows as they were before come out too.

    Attributes:
        keys: the numbers of the columns of the key.
    """

    def __init__(self, columns: Sequence[Column], key: Iterable[str], *, preimages: bool) -> None:
        keys = {name.lower() for name in key}
        self._columns = columns
        self.keys = [n for n, column in enumerate(columns) if column.name.lower() in keys]
        self._preimages = preimages

    def tombstone(self, key: Callable[[], Row | None]) -> list[Change]:
        """Return the changes of a message without a value.

        Args:
            key: gives what the message's key tells of the row, None for nothing.

        Raises:
            Misfit: the key does not tell enough.
        """
        if self._preimages:
            return []
        return [(DELETE, self._gone(key(), "no value, and the key has no {}"))]

    def changes(
        self, op: str | None, before: Row | None, after: Row | None, key: Callable[[], Row | None]
    ) -> list[Change]:
        """Return the changes of a message.

        Args:
            op: what happened, one of `OPS`.
            before, after: the row's states, None where the message has none.
            key: as `tombstone` takes it.

        Raises:
            Misfit: the message does not tell enough.
        """
        if op is None:
            raise Misfit("no envelope: it has no op")
        if op not in OPS:
            raise Misfit(f"op {op} changes no row")
        if op == "d":
            return [(DELETE, self._deleted(before, key))]
        if after is None:
            raise Misfit(f"op {op} without after")
        self._check(after)
        return [(INSERT, after)] if op != "u" else self._updated(before, after, key)

    def _updated(
        self, before: Row | None, after: Row, key: Callable[[], Row | None]
    ) -> list[Change]:
        if self._preimages:
            if before is None:
                raise Misfit(f"no state before: {_FULL}")
            self._check(before)
            if self._moved(before, after):
                return [(DELETE, before), (INSERT, after)]
            return [(BEFORE, before), (AFTER, after)]
        for known in (before, key()):
            # PostgreSQL tells the key before alone, and that only where it has changed.
            told = known is not None and all(known[n] is not None for n in self.keys)
            if known is not None and told and self._moved(known, after):
                return [(DELETE, self._only_key(known)), (INSERT, after)]
        return [(AFTER, after)]

    def _deleted(self, before: Row | None, key: Callable[[], Row | None]) -> Row:
        if self._preimages:
            if before is None:
                raise Misfit(f"no state before: {_FULL}")
            self._check(before)
            return before
        return self._gone(before if before is not None else key(), "{} is null")

    def _gone(self, known: Row | None, words: str) -> Row:
        """Return a deleted row, of which the key alone is told."""
        for number in self.keys:
            if known is None or known[number] is None:
                raise Misfit(words.format(self._columns[number].name))
        assert known is not None  # noqa: S101
        return self._only_key(known)

    def _only_key(self, row: Row) -> Row:
        return [value if n in self.keys else None for n, value in enumerate(row)]

    def _moved(self, before: Row, after: Row) -> bool:
        return any(before[n] != after[n] for n in self.keys)

    def _check(self, row: Row) -> None:
        """Refuse a row that lacks what must be there."""
        for number, column in enumerate(self._columns):
            if row[number] is UNAVAILABLE:
                raise Misfit(f"{column.name} is not in the message: {_FULL}")
            if row[number] is None and (not column.nullable or number in self.keys):
                raise Misfit(f"{column.name} is null")


class Told(NamedTuple):
    """What a message tells of a row, with values as Arrow takes them.

    Attributes:
        op: what happened, one of `c`, `r`, `u`, `d`; None for a message without a value.
        before, after: the row's states by column, None where the message has none.
        key: the columns of the key that the message's own key has.
        at: when the database made the change, in microseconds since 1970.
        value: whether the message has a value.
    """

    op: str | None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    key: Mapping[str, Any] | None = None
    at: int | None = None
    value: bool = True


def changes_told(
    columns: Sequence[Column],
    key: Iterable[str],
    messages: Iterable[Sequence[Told] | str],
    *,
    preimages: bool,
) -> Changes:
    """Return the changes that messages tell.

    Args:
        columns: those of the table.
        key: the columns of its key.
        messages: what each tells, of one row, several or none; or why it is refused.
        preimages: whether rows as they were before come out too.
    """
    rules = RowChanges(columns, key, preimages=preimages)
    made = Changes()
    rows: list[Row] = []
    for message in messages:
        changes: list[Change] = []
        reason = message if isinstance(message, str) else None
        at = None
        try:
            for told in () if isinstance(message, str) else message:
                changes += _changes(rules, columns, told)
                at = told.at
        except Misfit as misfit:
            changes, at, reason = [], None, str(misfit)
        made.committed.append(at)
        made.reasons.append(reason)
        made.kinds += [kind for kind, _ in changes]
        rows += [each for _, each in changes]
        made.ends.append(len(rows))
    made.rows = [
        pa.array(
            [None if each[n] is UNAVAILABLE else each[n] for each in rows],
            arrow_type(column.type or ""),
        )
        for n, column in enumerate(columns)
    ]
    return made


def _changes(rules: RowChanges, columns: Sequence[Column], told: Told) -> list[Change]:
    def row(held: Mapping[str, Any] | None) -> Row | None:
        return None if held is None else [held.get(column.name) for column in columns]

    def key() -> Row | None:
        return row(told.key)

    if not told.value:
        return rules.tombstone(key)
    return rules.changes(told.op, row(told.before), row(told.after), key)
