"""What tasks do with the rows of a batch: Arrow arrays in, values and reasons out.

Texts are bytes here: in a column of Spark's they need not be UTF-8.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mainstem_operators_privacy.ciphers import Cipher, SealError
from mainstem_operators_privacy.keys import KeyStore
from mainstem_operators_privacy.options import KeyOptions

#: The fields of what comes out: why a row is refused, and the values.
REASON, VALUES = "reason", "values"
#: Those of this process, which outlive a task, so that their connections do.
_STORES: dict[bytes, KeyStore] = {}


def store(options: KeyOptions) -> KeyStore:
    """Return the one of this process for all who keep keys in the same place."""
    name = pickle.dumps(options)
    if name not in _STORES:
        _STORES[name] = KeyStore(options)
    return _STORES[name]


class _Call(ABC):
    """Works on the values of each row with its subject's cipher.

    Args:
        options: where keys are.
        columns: names and types of the values.
        kinds: the types that the values had before they were encrypted.
    """

    #: Whether a key is made for a subject that has none.
    makes = False

    def __init__(self, options: KeyOptions, columns: Sequence[str], kinds: Sequence[str]) -> None:
        self._options, self._columns = options, list(columns)
        self._kinds = [kind.encode() for kind in kinds]

    def __call__(self, subjects: Any, *arrays: Any) -> Any:
        whose = subjects.to_pylist()
        rows = list(zip(*(array.to_pylist() for array in arrays), strict=True))
        wanted = {
            subject
            for subject, row in zip(whose, rows, strict=True)
            if subject is not None and any(value is not None for value in row)
        }
        ciphers = store(self._options).ciphers(sorted(wanted), make=self.makes)
        reasons: list[str | None] = []
        made: list[tuple[Any, ...]] = []
        nothing = (None,) * len(self._columns)
        for subject, row in zip(whose, rows, strict=True):
            reason, found = None, nothing
            if any(value is not None for value in row):
                try:
                    found = self._row(subject, row, ciphers)
                except SealError as error:
                    reason = str(error)
            reasons.append(reason)
            made.append(found)
        values = [pa.array([row[n] for row in made], pa.binary()) for n in range(len(nothing))]
        told: list[Any] = [
            pa.array(reasons, pa.string()),
            pa.StructArray.from_arrays(values, names=[f"c{n}" for n in range(len(values))]),
        ]
        return pa.StructArray.from_arrays(told, names=[REASON, VALUES])

    def _row(
        self, subject: bytes | None, row: Sequence[Any], ciphers: dict[bytes, Cipher | None]
    ) -> tuple[Any, ...]:
        if subject is None:
            raise SealError("nobody knows whose it is: its subject is null")
        if subject not in ciphers:
            raise SealError("its subject has never had a key in this store")
        cipher = ciphers[subject]
        if cipher is None:  # forgotten
            return (None,) * len(row)
        found = []
        for name, kind, value in zip(self._columns, self._kinds, row, strict=True):
            try:
                found.append(None if value is None else self._value(cipher, value, kind))
            except SealError as error:
                raise SealError(f"{name}: {error}") from None
        return tuple(found)

    @abstractmethod
    def _value(self, cipher: Cipher, value: bytes, kind: bytes) -> bytes:
        """Return what becomes of a value."""


class Encrypting(_Call):
    """Values in, texts out, both as bytes."""

    __name__ = "encrypt"
    makes = True

    def _value(self, cipher: Cipher, value: bytes, kind: bytes) -> bytes:
        return cipher.seal(value, kind)


class Decrypting(_Call):
    """Texts in, values out, both as bytes."""

    __name__ = "decrypt"

    def _value(self, cipher: Cipher, value: bytes, kind: bytes) -> bytes:
        return cipher.unseal(value, kind)
