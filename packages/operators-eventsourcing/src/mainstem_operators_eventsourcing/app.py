"""The class of the user as tasks have it, and values for it and from it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import polars as pl
from mainstem.columns import Column

#: A state, or none yet, or no more. Whoever is given one can't set it by accident.
State = Mapping[str, Any] | None


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


_STORED: Mapping[str, Callable[[Any], float]] = {"double": float, "float": _single}


class App:
    """The functions of a user's class.

    Args:
        made: the class.
        name: as the document names it.
        folder: that of the user's code, whose lines errors tell.
        options: more arguments of its functions.
    """

    def __init__(self, made: Any, name: str, folder: Path, options: Mapping[str, Any]) -> None:
        self._made, self.name, self._folder = made, name, folder
        self._options = dict(options)

    def function(self, name: str) -> Callable[..., Any]:
        """Return one of the functions."""
        found: Callable[..., Any] = getattr(self._made, name)
        if not self._options:
            return found
        options = self._options
        return lambda *given: found(*given, **options)

    @property
    def initial(self) -> State:
        """What a key has before its first event."""
        found = getattr(self._made, "initial", None)
        return None if found is None else MappingProxyType(dict(found))

    def fail(self, function: str, error: Exception) -> NoReturn:
        """Tell what one of the functions raised.

        Raises:
            ValueError: always.
        """
        from mainstem.functions import what_raised

        # Of a chain of errors the run tells the first alone.
        raise ValueError(what_raised(f"{self.name}.{function}", error, self._folder)) from None


class Values:
    """Rows of declared columns, as dictionaries on one side, and as frames on the other.

    A MAP is a dictionary for the user, and a list of entries in a frame; within other types it stays one.

    Args:
        columns: the columns, with their types as the document has them.
        schema: the same for Polars.
        whose: what errors call the rows.
    """

    def __init__(self, columns: Sequence[Column], schema: pl.Schema, whose: str) -> None:
        self.schema, self._whose = schema, whose
        self.names = [*schema]
        self._known = frozenset(self.names)
        kinds = [column.type or "" for column in columns]
        self._maps = [at for at, kind in enumerate(kinds) if kind.startswith("map<")]
        nested = ("array<", "struct<", "map<")
        #: What the user could change of what is kept, beside the row itself.
        self._deep = [at for at, kind in enumerate(kinds) if kind.startswith(nested)]
        #: What has another value once it was stored.
        self._stored = {at: _STORED[kind] for at, kind in enumerate(kinds) if kind in _STORED}

    def given(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return a row of a frame for the user."""
        found = dict(zip(self.names, values, strict=False))
        for at in self._deep:
            found[self.names[at]] = deepcopy(values[at])
        for at in self._maps:
            entries = found[self.names[at]]
            if entries is not None:
                found[self.names[at]] = {each["key"]: each["value"] for each in entries}
        return found

    def taken(self, row: Any) -> tuple[Any, ...]:
        """Return the user's row, in the order of the columns; what is left out is null.

        Raises:
            ValueError: it is no mapping, or has something else.
        """
        if type(row) is not dict and not isinstance(row, Mapping):
            raise ValueError(f"{self._whose}: {type(row).__name__}, and no mapping")
        if not row.keys() <= self._known:
            extra = ", ".join(map(str, sorted(set(row) - self._known, key=str)))
            raise ValueError(f"{self._whose}: {extra} is not declared")
        values = list(map(row.get, self.names))
        if not self._maps and not self._stored:
            return tuple(values)
        for at in self._maps:
            entries: Any = values[at]
            if isinstance(entries, Mapping):
                values[at] = [{"key": k, "value": v} for k, v in entries.items()]
        for at, stored in self._stored.items():
            if isinstance(values[at], int | float):
                values[at] = stored(values[at])
        return tuple(values)

    def frame(self, rows: Sequence[tuple[Any, ...]], more: pl.Schema) -> pl.DataFrame:
        """Return rows as a frame, behind columns that are not the user's.

        Args:
            rows: the values of `more`, and then those that `taken` returned.

        Raises:
            ValueError: a value does not fit its column.
        """
        schema = pl.Schema({**more, **self.schema})
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else ((),) * len(schema)
        made = []
        for (name, kind), values in zip(schema.items(), columns, strict=True):
            try:
                made.append(pl.Series(name, values, kind, strict=True))
            except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
                raise ValueError(f"{self._whose}: {name}: a value is no {kind}") from None
        return pl.DataFrame(made)
