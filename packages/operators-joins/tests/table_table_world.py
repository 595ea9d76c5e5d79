"""What the tests of `table_table_join` share: joins run batch by batch, readers of their changes, an oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import polars as pl
from mainstem_keyed_state.logic import MAIN
from mainstem_keyed_state.testing import Driver, Paged
from mainstem_operators_joins.table_table_foreign import (
    DELETED,
    REFERENCE,
    ROW,
    SEQUENCE,
    Dependants,
    References,
)
from mainstem_operators_joins.table_table_pairs import LATE, LEFT, REJECTED, RIGHT, Pairs

How = Literal["inner", "left", "full"]
Row = dict[str, Any]

INT = pl.Int64()
LEFT_COLUMNS = pl.Schema({"left_id": INT, "left_ref": INT, "left_v": pl.String()})
RIGHT_COLUMNS = pl.Schema({"right_id": INT, "right_v": pl.String()})


def text(sequence: int | str) -> str:
    """Return a sequence as it stands in a version; what the operator does in SQL, in Python."""
    if isinstance(sequence, int):
        return f"{sequence:016X}" if sequence >= 0 else f"/{sequence + 2**64:016X}"
    return "".join(c if c >= "0" else f"/{chr(ord(c) + 0x30)}" for c in sequence)


def version(row: Mapping[str, Any]) -> str:
    """Return the version of a change."""
    left = "" if row["_left_sequence"] is None else text(row["_left_sequence"])
    if row["_retracts"]:
        return left
    right = row["_right_sequence"]
    plain = "" if right is None else right if isinstance(right, str) else text(right)
    return f"{left}.{plain}"


class EqualKeys:
    """A join of two tables on their key `id`."""

    def __init__(
        self,
        join: How,
        *,
        left: pl.Schema = LEFT_COLUMNS,
        right: pl.Schema = RIGHT_COLUMNS,
        sequence: pl.DataType = INT,
        by: type[Any] = Driver,
        **settings: Any,
    ) -> None:
        keys = {LEFT: [next(iter(left))], RIGHT: [next(iter(right))]}
        self._driver = by(Pairs(left, right, sequence, INT, join), keys, **settings)

    def batch(self, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        """Run a batch; return the changes that came of it, with their version."""
        return _versioned(self._driver.batch({LEFT: left, RIGHT: right})[MAIN])

    def told(self, output: str) -> list[Row]:
        """Return the rows of a named output so far."""
        return self._driver.outputs[output]

    def restart(self) -> None:
        """Keep what a checkpoint keeps."""
        self._driver.restart()

    def size(self) -> int:
        """Return the number of rows of state."""
        return self._driver.size()


class ForeignKey:
    """A join of a table with another by its column `ref`: two steps, as they run one after the other."""

    def __init__(
        self, join: Literal["inner", "left"], *, by: type[Any] = Driver, **settings: Any
    ) -> None:
        self._outer = join == "left"
        first = References(LEFT_COLUMNS, INT)
        second = Dependants(LEFT_COLUMNS, RIGHT_COLUMNS, INT, INT, join)
        self._first = by(first, {LEFT: ["left_id"]}, **settings)
        keys = {LEFT: lambda row: [row[REFERENCE]], RIGHT: lambda row: [_right_key(row)]}
        self._second = by(second, keys, **settings)

    def batch(self, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        """Run a batch; return the changes that came of it, with their version."""
        referring = [{**row, REFERENCE: self._reference(row)} for row in left]
        messages = self._first.batch({LEFT: referring})[MAIN]
        return _versioned(self._second.batch({LEFT: messages, RIGHT: right})[MAIN])

    def _reference(self, row: Row) -> bytes | None:
        if row["left_ref"] is None:  # nothing but the row itself is there
            return b"itself " + _ref(row["left_id"]) if self._outer else None
        return _ref(row["left_ref"])

    def told(self, output: str) -> list[Row]:
        """Return the rows of a named output so far."""
        return self._second.outputs[output]

    def restart(self) -> None:
        """Keep what a checkpoint keeps."""
        self._first.restart()
        self._second.restart()

    def size(self) -> int:
        """Return the number of rows of state."""
        return self._first.size() + self._second.size()


def _right_key(row: Mapping[str, Any]) -> bytes | None:
    return None if row["right_id"] is None else _ref(row["right_id"])


def _ref(value: int | None) -> bytes:
    return str(value).encode()


def _versioned(rows: Iterable[Row]) -> list[Row]:
    return [{**row, "_version": version(row)} for row in rows]


# -- readers of changes -------------------------------------------------------------------------


def values(change: Mapping[str, Any]) -> Row:
    """Return the columns of the joined table alone."""
    return {name: value for name, value in change.items() if not name.startswith("_")}


class Reader:
    """A table that follows a changelog in its order of arrival, and is strict about it.

    Args:
        key: the columns that tell the table's rows.
    """

    def __init__(self, *key: str) -> None:
        self._key = key
        self.table: dict[Any, Row] = {}
        self._versions: dict[Any, str] = {}

    def follow(self, changes: Sequence[Row]) -> None:
        """Take a batch's changes: in the order of their versions, as sinks order those of one key.

        Raises:
            AssertionError: a pre-image is not what the table holds, an insert or a delete is of what is
                there already or is not there, or a version does not grow.
        """
        by_key: dict[Any, list[Row]] = {}
        for change in changes:
            by_key.setdefault(self.key(change), []).append(change)
        for key, own in by_key.items():
            own.sort(key=lambda c: (c["_version"], c["_change"] != "update_preimage"))
            for change in own:
                self._take(key, change)

    def _take(self, key: Any, change: Row) -> None:
        kind, row = change["_change"], values(change)
        held, seen = self.table.get(key), self._versions.get(key)
        if kind == "insert":
            assert held is None, f"an insert of what is there: {change}, over {held}"
        else:
            expected = held if kind != "update_postimage" else held and row
            assert expected == row, f"{kind} {row}, but the table holds {held}"
        if kind == "update_preimage":
            assert seen is None or seen < change["_version"], f"{change} after version {seen}"
            return
        assert seen is None or seen < change["_version"], f"{change} after version {seen}"
        self._versions[key] = change["_version"]
        if kind == "delete":
            del self.table[key]
        else:
            self.table[key] = row

    def key(self, row: Mapping[str, Any]) -> Any:
        """Return what tells a row from the others: the first of the columns that is not null."""
        return next((row[name] for name in self._key if row[name] is not None), None)


def compare_and_set(changes: Iterable[Row], reader: Reader) -> dict[Any, Row]:
    """Return the table that changes make for who compares versions, whatever their order."""
    last: dict[Any, Row] = {}
    for change in changes:
        key = reader.key(change)
        if change["_change"] == "update_preimage":
            continue
        if key not in last or last[key]["_version"] < change["_version"]:
            last[key] = change
    return {key: values(c) for key, c in last.items() if c["_change"] != "delete"}


# -- the oracle ---------------------------------------------------------------------------------


def current(changes: Iterable[Row], key: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the table that changes of a side make: each key's row of the highest sequence."""
    last: dict[Any, Row] = {}
    for change in changes:
        if change[key] is None or change[SEQUENCE] is None:
            continue
        if change[key] not in last or last[change[key]][SEQUENCE] < change[SEQUENCE]:
            last[change[key]] = change
    rows = [[c[name] for name in columns] for c in last.values() if not c[DELETED]]
    return pd.DataFrame(rows, columns=list(columns), dtype=object)


def joined(
    left: pd.DataFrame, right: pd.DataFrame, left_on: str, right_on: str, how: str
) -> list[Row]:
    """Return the join of two tables by pandas; a null equals nothing."""
    if how == "full":
        how = "outer"
    matchable, alone = left[left[left_on].notna()], left[left[left_on].isna()]
    made = matchable.merge(right, how=how, left_on=left_on, right_on=right_on)  # type: ignore[arg-type]
    if how != "inner":
        made = pd.concat([made, alone]) if len(alone) else made
    made = made.astype(object).where(made.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in made.to_dict("records")]


def change(side: str, key: int | None, sequence: int | None, **more: Any) -> Row:
    """Return a change of a side: `v` its value, `ref` its reference, or `deleted`."""
    deleted = more.pop("deleted", False)
    row = {f"{side}_id": key, SEQUENCE: sequence, DELETED: deleted}
    if side == LEFT:
        row["left_ref"] = more.get("ref")
    return {**row, f"{side}_v": more.get("v")}


__all__ = [
    "LATE", "LEFT", "LEFT_COLUMNS", "REJECTED", "RIGHT", "RIGHT_COLUMNS", "ROW", "EqualKeys",
    "ForeignKey", "Paged", "Reader", "change", "compare_and_set", "current", "joined", "text", "values",
    "version",
]  # fmt: skip
