"""Debezium's envelopes in binary formats: what a message tells by `before`, `after` and `op`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import md5
from typing import Any, NamedTuple
from uuid import UUID

from mainstem.contracts.ddl import Column
from mainstem.contracts.formats import Changes
from mainstem.formats.arrow import Array
from mainstem.formats.row_changes import UNAVAILABLE, Told, changes_told

#: What stands in the place of a large value that did not change and that the log has not.
PLACEHOLDER = "__debezium_unavailable_value"
_BYTES = PLACEHOLDER.encode()
#: The same as other types have it: a UUID made of it, a list of it or of its bytes, a map of it.
PLACEHOLDERS: tuple[Any, ...] = (
    PLACEHOLDER,
    str(UUID(bytes=md5(_BYTES, usedforsecurity=False).digest(), version=3)),
    [PLACEHOLDER],
    list(_BYTES),
    {PLACEHOLDER: PLACEHOLDER},
)
_AS_READ = (*PLACEHOLDERS, _BYTES, [_BYTES], [(PLACEHOLDER, PLACEHOLDER)])
#: The fields of an envelope that are read.
_WANTED = ("before", "after", "op", "source", "ts_ms")
_MOST_MILLIS = 253_402_300_800_000
_NO_KEY = "no value, and what its key is in is not said: see `key_schema_file`"


class Records(NamedTuple):
    """How values are read.

    Attributes:
        read: makes columns of an array of bytes, and of headers, and says why rows are refused.
        names: of the columns.
    """

    read: Callable[..., tuple[Sequence[Array], Sequence[str | None]]]
    names: Sequence[str]


class RowEnvelopes:
    """Turns envelopes into the changes that they tell.

    Args:
        values: reads envelopes.
        keys: reads the messages' keys; None where nobody knows what is in them.
        columns: those of the table.
        key: the columns of its key.
        preimages: whether rows as they were before come out too.
    """

    def __init__(
        self,
        values: Records,
        keys: Records | None,
        columns: Sequence[Column],
        key: Iterable[str],
        *,
        preimages: bool,
    ) -> None:
        self._values, self._keys = values, keys
        self._columns, self._key, self._preimages = columns, tuple(key), preimages
        self._at = {name: values.names.index(name) for name in _WANTED if name in values.names}

    def read(self, values: Array, keys: Array, *headers: Array) -> Changes:
        """Return the changes that messages tell, given their values and keys as bytes.

        Args:
            headers: what is read of the messages' headers, for values and then for keys.

        Raises:
            TransientError: what must be asked was away for too long.
            PermanentError: it refuses to be asked.
        """
        half = len(headers) // 2
        arrays, reasons = self._values.read(values, *headers[:half])
        parts = {name: arrays[at].to_pylist() for name, at in self._at.items()}
        its_keys = self._told_keys(keys, *headers[half:])
        there = values.is_valid().to_pylist()
        messages: list[list[Told] | str] = []
        for number, reason in enumerate(reasons):
            key = its_keys[number]
            if not there[number]:
                if self._keys is None and not self._preimages:
                    messages.append(_NO_KEY)
                else:
                    messages.append([Told(None, key=key, value=False)])
                continue
            if reason is not None:
                messages.append(reason)
                continue
            part = {name: each[number] for name, each in parts.items()}
            before, after = _row(part.get("before")), _row(part["after"])
            messages.append([Told(part["op"], before, after, key, _committed(part))])
        return changes_told(self._columns, self._key, messages, preimages=self._preimages)

    def _told_keys(self, keys: Array, *headers: Array) -> list[dict[str, Any] | None]:
        """Return what messages' keys tell, None for what can't be read."""
        if self._keys is None:
            return [None] * len(keys)
        names = self._keys.names
        arrays, reasons = self._keys.read(keys, *headers)
        rows = zip(*(array.to_pylist() for array in arrays), strict=True)
        return [
            None if reason is not None else dict(zip(names, row, strict=True))
            for row, reason in zip(rows, reasons, strict=True)
        ]


def _row(told: dict[str, Any] | None) -> dict[str, Any] | None:
    if told is None:
        return None
    return {
        name: UNAVAILABLE
        if isinstance(value, str | bytes | list | dict) and value in _AS_READ
        else value
        for name, value in told.items()
    }


def _committed(told: dict[str, Any]) -> int | None:
    """Return when the database made the change, in microseconds, None if that is not told."""
    source = told.get("source")
    at = source.get("ts_ms") if isinstance(source, dict) else None
    at = at or told.get("ts_ms")  # where nothing can be absent, 0 is what is not told
    return 1000 * at if isinstance(at, int) and at and abs(at) < _MOST_MILLIS else None
