"""The tables of a document: which columns, which key, and changes of their rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mainstem import PermanentError
from mainstem.columns import Column, find_column

from mainstem_cdc.options import CaptureOptions, TableOptions
from mainstem_cdc.snapshots import Change
from mainstem_cdc.values import UNCHANGED, Value

if TYPE_CHECKING:
    from mainstem_cdc.columns import ColumnReaders

#: What is said where a log can't be gone on with.
START_OVER = "start the checkpoint over, which reads the tables again"


class GapError(PermanentError):
    """Changes that the server has let go of before they were taken; says why.

    Args:
        first: what is to be done by hand before all is begun over.
    """

    def __init__(self, why: str, first: str = "") -> None:
        super().__init__(f"{why}: {first}{START_OVER}, or let that be done (`on_gap: snapshot`)")
        self.why = why


#: The values of a row, in the order of the table's columns in the document.
Values = Sequence[Value]


class Table:
    """A table of the document.

    Args:
        name: its name there, and that of its output.
        given: what the document says of it.
        options: those of its source.
        readers: what makes columns of its values.

    Attributes:
        columns: as the document has them.
        key: the columns of the key.
        transaction: the column of transactions; None if there is none.
        named: whether the document names it; else it is in `all` alone.
        sql: its name in statements; a source's author sets it.
    """

    def __init__(
        self, name: str, given: TableOptions, options: CaptureOptions, readers: ColumnReaders
    ) -> None:
        self.name = name
        self.namespace, self.table = options.placed(name, given)
        self.origin = self.sql = f"{self.namespace}.{self.table}"
        self.preimages = given.preimages
        self.transaction = given.transaction
        self.named = name in options.tables
        self.columns = [column.name for column in given.table_schema]
        self.key = [find_column(given.table_schema, key, "key").name for key in given.key]
        self._nulls = options.fills_missing
        self._kinds = [column.type or "" for column in given.table_schema]
        self._keys = [self.columns.index(key) for key in self.key]
        self._readers = readers

    def missing(self, names: Sequence[str]) -> None:
        """Raise for columns that the database does not have, unless they may be null.

        Raises:
            PermanentError: one is of the key, or the document does not let it be null.
        """
        if wrong := [n for n in names if not self._nulls or n in self.key]:
            raise PermanentError(
                f"{self.sql} has no column {', '.join(wrong)} (or it is a generated one): change the "
                "document's schema, or let it be null (`on_missing_column: null`)"
            )

    # -- rows -----------------------------------------------------------------------------------

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
        """Return rows as Arrow columns, and why some are refused; see `read_columns`."""
        return self.read_columns(dict(zip(self.columns, zip(*rows, strict=True), strict=True)))

    def read_columns(self, printed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[int, str]]:
        """Return columns of what the database prints as they are declared, and why rows are refused.

        Returns:
            the columns by name, with anything for rows that are refused; and by the numbers of these rows
            which column has a value that its type does not hold, and why.
        """
        columns: dict[str, Any] = {}
        refused: dict[int, str] = {}
        for name, kind in zip(self.columns, self._kinds, strict=True):
            columns[name], wrong = self._readers.read(kind, printed[name])
            for at, why in wrong.items():
                refused.setdefault(at, f"{name}: {why}")
        return columns, refused

    def shown(self, values: Values) -> str:
        """Return a row as JSON, each value as the database prints it, without what the log has not."""
        return _shown(zip(self.columns, values, strict=True))

    def shown_key(self, values: Values) -> str:
        """Return the key of a row as JSON."""
        return _shown(zip(self.key, self.key_of(values), strict=True))


def _shown(values: Iterable[tuple[str, Value]]) -> str:
    named: Mapping[str, str | None] = {
        name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else None
        for name, value in values
        if value is not UNCHANGED
    }
    return json.dumps(named, ensure_ascii=False)


def unnamed(
    namespace: str, table: str, columns: Sequence[str], key: Sequence[str]
) -> tuple[str, TableOptions]:
    """Return the name, and what stands for options, of a table that the document does not name."""
    place = f"{namespace}.{table}"
    given = TableOptions.model_construct(
        table=place,
        key=list(key),
        table_schema=tuple(Column(name, "string") for name in columns),
        preimages=False,
        transaction=None,
    )
    return place, given


@dataclass
class Run:
    """Changes of one table in one transaction.

    Attributes:
        place: the transaction's in the log; with a change's number behind it, the change's position.
        prefix: what their sequences begin with, text that orders as transactions do. The change's number
            in the transaction follows.
        at: when the transaction was, in microseconds since 1970.
        transaction: by what the database tells it from others; None if it does not.
        kinds: the types of the changes,
        numbers: their numbers in the transaction,
        rows: and their rows.
    """

    table: Table
    place: list[Any]
    prefix: str
    at: int
    transaction: str | None = None
    kinds: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    rows: list[Values] = field(default_factory=list)

    def write(self, number: int, old: Values | None, new: Values | None, *, inserts: bool) -> None:
        """Add what became of a row.

        Args:
            number: of the change; a row that moves to another key has two, a delete and an insert, of one
                number.
            old: the row before, or its key and nulls; None where the log does not tell it.
            new: the row after; None for one that was deleted.
            inserts: whether the row was not there before.
        """
        table = self.table
        if new is None:
            assert old is not None  # noqa: S101
            whole = table.preimages or not table.named
            self._add("delete", number, old if whole else table.key_alone(old))
            return
        if inserts:
            self._add("insert", number, new)
            return
        before = table.key_of(new if old is None else old)
        if old is not None and UNCHANGED not in before and before != table.key_of(new):
            whole = table.preimages or not table.named
            self._add("delete", number, old if whole else table.key_alone(old))
            self._add("insert", number, new)
            return
        if table.preimages and old is not None:
            self._add("update_preimage", number, old)
        self._add("update_postimage", number, new)

    def _add(self, kind: str, number: int, row: Values) -> None:
        self.kinds.append(kind)
        self.numbers.append(number)
        self.rows.append(row)

    def change(self) -> Change:
        """Return it as `SnapshotThenLog` has it."""
        key_of = self.table.key_of
        keys = (key_of(row) for row in self.rows)
        return Change([*self.place, self.numbers[-1]], self.table.name, keys, self)


def sequence(prefix: str, number: int) -> str:
    """Return the sequence of a change, text of a fixed width for each `prefix`."""
    return f"{prefix}-{number:08x}"
