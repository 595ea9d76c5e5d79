"""The shards of a stream and how they came from each other: which may be read, and by whom.

A split closes one shard and opens two; a merge closes two and opens one. A record of a key goes to the
shard that is open for its hash, so the records of a key are in order when each shard is read after its
parents. (Amazon Kinesis Data Streams, Developer Guide: "Resharding a Stream"; Flink's
KinesisStreamsSource reads so.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mainstem_broker_kinesis.source.places import Place

#: A drained shard is remembered for so many minutes at least, that a listing which lags behind can't
#: bring it back: a closed shard is listed for as long as records are kept, a day or more.
_REMEMBERED = 60


@dataclass(frozen=True)
class Shard:
    """A shard, as a listing or the end of a parent tells of it.

    Args:
        parents: none, one after a split, two after a merge; they may be gone.
        first, last: the hashes of keys that go to it, both included.
    """

    id: str
    parents: tuple[str, ...]
    first: int
    last: int

    @classmethod
    def listed(cls, told: Mapping[str, Any]) -> Shard:
        """Return a shard as ListShards tells of it."""
        parents = (told.get("ParentShardId"), told.get("AdjacentParentShardId"))
        return cls._of(told, [parent for parent in parents if parent])

    @classmethod
    def child(cls, told: Mapping[str, Any]) -> Shard:
        """Return a shard as the `ChildShards` of GetRecords tell of it."""
        return cls._of(told, told.get("ParentShards", []))

    @classmethod
    def _of(cls, told: Mapping[str, Any], parents: Iterable[str]) -> Shard:
        hashes = told["HashKeyRange"]
        first, last = int(hashes["StartingHashKey"]), int(hashes["EndingHashKey"])
        return cls(told["ShardId"], tuple(parents), first, last)


def owner(shard: str, receivers: int) -> int:
    """Return which of several receivers reads a shard.

    AWS numbers shards one after the other, so those of one split go to different receivers.
    """
    number = shard.rpartition("-")[2]
    if not number.isdecimal():
        number = str(int.from_bytes(hashlib.blake2b(shard.encode(), digest_size=8).digest()))
    return int(number) % receivers


class Lineage:
    """The shards that are known, of all receivers.

    All methods are without input or output; time is in minutes since 1970, by the stream's clock.
    """

    def __init__(self) -> None:
        self.shards: dict[str, Shard] = {}
        self._learned: set[str] = set()

    def listed(self, shards: Iterable[Shard]) -> None:
        """Take over a whole listing: what is not in it and was in one before has expired."""
        told = {shard.id: shard for shard in shards}
        self._learned -= told.keys()
        learned = {name: self.shards[name] for name in self._learned}
        self.shards = learned | told

    def learn(self, shards: Iterable[Shard]) -> None:
        """Take over children that a parent's end told of, though no listing may have them yet."""
        for shard in shards:
            if shard.id not in self.shards:
                self.shards[shard.id] = shard
                self._learned.add(shard.id)

    def children(self, shard: str) -> list[str]:
        """Return the known children of a shard."""
        return [child.id for child in self.shards.values() if shard in child.parents]

    def childless(self, places: Mapping[str, Place]) -> set[str]:
        """Return the drained shards whose children are not known, though they must be there."""
        parents = {parent for shard in self.shards.values() for parent in shard.parents}
        drained = {shard for shard in self.shards if self._drained(shard, places)}
        return drained - parents

    def ready(self, places: Mapping[str, Place], mine: Callable[[str], bool]) -> list[Shard]:
        """Return the shards of ours that may be read now, parents before their children.

        A shard may be read when all its parents are drained, or have expired before anybody read of
        them; and whenever something of it was read already.
        """
        return [
            shard
            for shard in self.shards.values()
            if mine(shard.id)
            and not self._drained(shard.id, places)
            and (self._begun(shard.id, places) or self._free(shard, places))
        ]

    def _drained(self, shard: str, places: Mapping[str, Place]) -> bool:
        return shard in places and places[shard].drained

    def _begun(self, shard: str, places: Mapping[str, Place]) -> bool:
        return shard in places and places[shard].sequence is not None

    def _free(self, shard: Shard, places: Mapping[str, Place]) -> bool:
        return all(
            self._drained(parent, places) or (parent not in self.shards and parent not in places)
            for parent in shard.parents
        )

    def expired(self, places: Mapping[str, Place]) -> list[str]:
        """Return the shards that are gone, though not all of them was read."""
        return [
            shard
            for shard, place in places.items()
            if shard not in self.shards and not place.drained
        ]

    def forgettable(self, places: Mapping[str, Place], now: int) -> list[str]:
        """Return the drained shards that are gone, and so long ago that no listing has them again."""
        return [
            shard
            for shard, place in places.items()
            if shard not in self.shards and place.drained and now - place.until > _REMEMBERED
        ]
