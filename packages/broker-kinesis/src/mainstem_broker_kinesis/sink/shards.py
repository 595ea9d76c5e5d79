"""Shards that said they have too much to do, and until when they are left alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from mainstem.patience import pause_after

#: How old the list of shards may be when it is needed, in seconds: they may have split since.
_FRESH = 10.0


class Shards:
    """Holds back what goes to a shard that throttles, and lets the rest pass.

    AWS says of a throttled record which shard is meant only in words. Where a record goes is known from
    the hash of its key, once the shards have been listed: that is asked for at the first throttled
    record, and where it is forbidden the stream counts as one shard.

    Args:
        listed: returns the first hash and the name of each open shard, sorted; empty if that can't be
            known.
    """

    def __init__(self, listed: Callable[[], Sequence[tuple[int, str]]]) -> None:
        self._listed = listed
        self._starts: list[int] = []
        self._names: list[str] = []
        self._asked: float | None = None
        self._until: dict[str, float] = {}
        self._tries: dict[str, int] = {}

    def throttled(self, places: Sequence[int], now: float) -> None:
        """Hold back the shards of these hashes, which have throttled in one call."""
        if self._asked is None or now - self._asked > _FRESH:
            found = self._listed()
            self._starts = [start for start, _ in found]
            self._names = [name for _, name in found]
            self._asked = now
        for name in {self._name(place) for place in places}:
            tries = self._tries[name] = self._tries.get(name, 0) + 1
            self._until[name] = now + pause_after(tries)

    def passed(self, place: int) -> None:
        """Note that a shard takes records; asked only while `busy`."""
        self._tries.pop(self._name(place), None)

    @property
    def busy(self) -> bool:
        """Whether a shard has throttled since it last took a record."""
        return bool(self._tries)

    def until(self, place: int, now: float) -> float:
        """Return until when the shard of a hash is left alone; 0.0 if it is not."""
        if not self._until:
            return 0.0
        name = self._name(place)
        until = self._until.get(name, 0.0)
        if until and until <= now:
            del self._until[name]
        return until

    @property
    def holding(self) -> bool:
        """Whether any shard is left alone, or was until just now."""
        return bool(self._until)

    def _name(self, place: int) -> str:
        at = bisect_right(self._starts, place) - 1
        return self._names[at] if at >= 0 else ""
