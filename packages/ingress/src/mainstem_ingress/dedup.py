"""Remembers which messages are stored, by the hashes of their ids, within bounded memory.

Two tables stand in turn: hashes go into the younger one, and when that has lasted the whole horizon (or
holds the most it may) the older one is forgotten. So a hash is remembered for one horizon at least and
two at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

#: A hash has 16 bytes, kept as two numbers: 16 bytes a slot, at most 6 of 10 slots taken.
_FULL = 0.6
_FIRST_SLOTS = 1 << 12
#: So many hashes are looked at one by one, which is faster than all at once.
_FEW = 300

Words = npt.NDArray[np.uint64]


def hash_of(identifier: bytes) -> bytes:
    """Return 16 bytes that stand for a message's id, the same on every machine."""
    return blake2b(identifier, digest_size=16).digest()


def as_words(hashes: bytes) -> Words:
    """Return hashes that stand one after the other as pairs of numbers, none of whose first is 0."""
    pairs = np.frombuffer(hashes, dtype="<u8").reshape(-1, 2).copy()
    pairs[pairs[:, 0] == 0, 0] = 1
    return pairs


class _Table:
    """A set of hashes with open addressing: slots probed one after the other; 0 is an empty one."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.last = 0.0
        self.count = 0
        self._empty(_FIRST_SLOTS)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def has(self, pairs: Words) -> npt.NDArray[np.bool_]:
        """Return which of the hashes are in the table."""
        found = np.zeros(len(pairs), dtype=bool)
        if not self.count:
            return found
        if len(pairs) < _FEW:
            found[:] = [self._slot(*pair)[1] for pair in pairs.tolist()]
            return found
        mask = np.uint64(len(self._slots) - 1)
        waiting = np.arange(len(pairs))
        at = pairs[:, 0] & mask
        while len(waiting):
            slots = self._slots[at]
            same = (slots == pairs[waiting]).all(axis=1)
            found[waiting[same]] = True
            on = ~same & (slots[:, 0] != 0)
            waiting, at = waiting[on], (at[on] + np.uint64(1)) & mask
        return found

    def add(self, pairs: Words) -> None:
        """Put in hashes that differ from each other and from those that are in."""
        while self.count + len(pairs) > _FULL * len(self._slots):
            self._grow()
        self._place(pairs)
        self.count += len(pairs)

    def _place(self, pairs: Words) -> None:
        if len(pairs) < _FEW:
            for first, second in pairs.tolist():
                place = self._slot(first, second)[0]
                self._flat[place], self._flat[place + 1] = first, second
            return
        mask = np.uint64(len(self._slots) - 1)
        waiting, at = pairs, pairs[:, 0] & mask
        while len(waiting):
            free = self._slots[at, 0] == 0
            # Of several that want one slot, the first gets it.
            _, first = np.unique(at, return_index=True)
            wins = np.zeros(len(at), dtype=bool)
            wins[first] = True
            wins &= free
            self._slots[at[wins]] = waiting[wins]
            waiting, at = waiting[~wins], (at[~wins] + np.uint64(1)) & mask

    def _slot(self, first: int, second: int) -> tuple[int, bool]:
        """Return where in `_flat` a hash is, or would be, and which of the two."""
        flat, most = self._flat, len(self._flat) - 1
        at = 2 * first & most
        while (there := flat[at]) != 0:
            if there == first and flat[at + 1] == second:
                return at, True
            at = at + 2 & most
        return at, False

    def _empty(self, slots: int) -> None:
        self._slots: Words = np.zeros((slots, 2), dtype=np.uint64)
        #: The same memory as one row of numbers; Python reads single ones faster so.
        self._flat = self._slots.reshape(-1).data

    def _grow(self) -> None:
        old = self._slots[self._slots[:, 0] != 0]
        self._empty(2 * len(self._slots))
        self._place(old)


class Identities:
    """The hashes of the ids that are stored.

    Args:
        horizon: for how long each is remembered at least, in seconds.
        most: how many are remembered at least, if the horizon holds more; at most twice as many are.
    """

    def __init__(self, horizon: float, most: int) -> None:
        self._horizon = horizon
        self._most = most
        self._older, self._younger = _Table(), _Table()

    @property
    def bytes(self) -> int:
        """The memory that is used."""
        return self._older.bytes + self._younger.bytes

    def __len__(self) -> int:
        return self._older.count + self._younger.count

    def new(self, pairs: Words) -> npt.NDArray[np.bool_]:
        """Return which hashes are not remembered; of equal ones the first alone."""
        fresh = ~self._younger.has(pairs) & ~self._older.has(pairs)
        if len(np.unique(pairs[:, 0])) < len(pairs):
            _, first = np.unique(_whole(pairs), return_index=True)
            firsts = np.zeros(len(pairs), dtype=bool)
            firsts[first] = True
            fresh &= firsts
        return fresh

    def add(self, pairs: Words, at: float) -> None:
        """Remember hashes that `new` says are new, stored at a time (seconds since 1970)."""
        if not len(pairs):
            return
        self.forget(at)
        if self._younger.count and self._younger.count + len(pairs) > self._most:
            self._older, self._younger = self._younger, _Table()
        young = self._younger
        young.began = at if young.began is None else young.began
        young.last = max(young.last, at)
        young.add(pairs)

    def forget(self, now: float) -> None:
        """Forget what need not be remembered any more."""
        if self._younger.began is not None and now - self._younger.began > self._horizon:
            self._older, self._younger = self._younger, _Table()
        if self._older.count and now - self._older.last > self._horizon:
            self._older = _Table()


def _whole(pairs: Words) -> Any:
    return np.ascontiguousarray(pairs).view([("a", "<u8"), ("b", "<u8")]).reshape(-1)


def words_of(hashes: Sequence[bytes]) -> Words:
    """Return hashes as `Identities` takes them."""
    return as_words(b"".join(hashes))
