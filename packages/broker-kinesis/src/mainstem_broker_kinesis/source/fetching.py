"""Calls of Kinesis for reading: the stream's facts, its shards, and reads, which threads do ahead."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from mainstem_aws.client import code_of

from mainstem_broker_kinesis.source.places import Place, at_horizon
from mainstem_broker_kinesis.source.shards import Shard

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

#: An iterator is good for 5 minutes; an older one is not tried.
_FRESH = 290.0
#: How often, and how far apart in seconds, the oldest record is asked for: an answer can be empty
#: before it.
_PROBES, _PROBE_WAIT = 40, 0.25


@dataclass(frozen=True)
class StreamFacts:
    """What a stream says of itself; `retention` is in seconds."""

    status: str
    created: str
    retention: float
    ahead: float


def describe(client: KinesisClient, target: Mapping[str, str]) -> StreamFacts:
    """Return what a stream says of itself; `ahead` is how far its clock is before ours, in seconds."""
    answer: Any = client.describe_stream_summary(**target)
    clock = clock_of(answer)
    told = answer["StreamDescriptionSummary"]
    return StreamFacts(
        str(told["StreamStatus"]),
        f"{told['StreamCreationTimestamp'].timestamp():.3f}",
        float(told["RetentionPeriodHours"]) * 3600,
        0.0 if clock is None else clock - time.time(),
    )


def list_shards(client: KinesisClient, target: Mapping[str, str]) -> list[Shard]:
    """Return all shards of a stream, closed ones too."""
    found: list[Shard] = []
    asked: dict[str, Any] = dict(target)
    while True:
        answer: Any = client.list_shards(**asked)
        found += [Shard.listed(told) for told in answer["Shards"]]
        if not answer.get("NextToken"):
            return found
        asked = {"NextToken": answer["NextToken"]}


def is_gone(client: KinesisClient, target: Mapping[str, str], shard: str) -> bool:
    """Ask for a shard that a listing lacks: listings lag behind."""
    try:
        _iterator(client, target, shard, at_horizon())
    except Exception as error:
        if code_of(error) == "ResourceNotFoundException":
            return True
        raise
    return False


def clock_of(answer: Mapping[str, Any]) -> float | None:
    """Return when it was answered, by the clock of who did, in whole seconds; None if it did not say."""
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return None if date is None else parsedate_to_datetime(date).timestamp()


@dataclass(frozen=True)
class Read:
    """What a thread is to read.

    Args:
        iterator: goes on where the read before ended, got at `since` (`time.monotonic`); or None.
        place: where to go on without one.
        oldest: look for the oldest record that is there right before: what comes next may be gone.
    """

    shard: str
    place: Place
    iterator: str | None = None
    since: float = 0.0
    oldest: bool = False


@dataclass
class Answer:
    """What came of a read.

    `closed` says that the shard has ended with these records. `behind` is in seconds. `began` is when the
    read was sent; `at`, by the stream's clock, when it was answered: it may lie here for a while, or this
    machine sleep. `gone` says that the stream may have dropped what comes next, and `oldest` is then the
    sequence number of the oldest record, if there is one. `error` is what it failed with, the iterator
    then being of no use.
    """

    read: Read
    began: float
    records: Sequence[Mapping[str, Any]] = ()
    iterator: str | None = None
    closed: bool = False
    children: Sequence[Shard] = ()
    behind: float = 0.0
    at: float | None = None
    ahead: float | None = None
    gone: bool = False
    oldest: str | None = None
    error: Exception | None = None
    bytes: int = field(default=0)


def read(client: KinesisClient, target: Mapping[str, str], asked: Read, most: int) -> Answer:
    """Read a shard once; errors come back in the answer.

    An iterator that has expired is replaced by one that goes on after the last record: never by one
    that begins at the newest.
    """
    began = time.monotonic()
    try:
        if not asked.oldest:
            return _read(client, target, asked, most)
        looked = _oldest(client, target, asked)
        oldest = str(looked.records[0]["SequenceNumber"]) if looked.records else None
        answer = _read(client, target, asked, most)
        last = asked.place.sequence
        answer.gone = oldest is None or last is None or int(oldest) > int(last)
        answer.oldest = oldest
        return answer
    except Exception as error:  # told to who waits for the answer
        return Answer(asked, began, error=error)


def _read(client: KinesisClient, target: Mapping[str, str], asked: Read, most: int) -> Answer:
    iterator = asked.iterator if time.monotonic() - asked.since < _FRESH else None
    if iterator is not None:
        began = time.monotonic()
        try:
            return _records(client, asked, iterator, most, began)
        except Exception as error:
            if code_of(error) != "ExpiredIteratorException":
                raise
    iterator = _iterator(client, target, asked.shard, asked.place)
    return _records(client, asked, iterator, most, time.monotonic())


def _records(client: KinesisClient, asked: Read, iterator: str, most: int, began: float) -> Answer:
    answer: Any = client.get_records(ShardIterator=iterator, Limit=most)
    records = answer["Records"]
    follows = answer.get("NextShardIterator")
    at = clock_of(answer)
    return Answer(
        asked,
        began,
        records,
        follows,
        not follows,
        [Shard.child(told) for told in answer.get("ChildShards") or ()],
        (answer.get("MillisBehindLatest") or 0) / 1000,
        at,
        None if at is None else at - time.time(),
        bytes=sum([len(record["Data"]) for record in records]),
    )


def _oldest(client: KinesisClient, target: Mapping[str, str], asked: Read) -> Answer:
    iterator = _iterator(client, target, asked.shard, at_horizon())
    answer = _records(client, asked, iterator, 1, time.monotonic())
    for _ in range(_PROBES):
        if answer.records or answer.closed or not answer.behind or answer.iterator is None:
            break
        time.sleep(_PROBE_WAIT)
        answer = _records(client, asked, answer.iterator, 1, time.monotonic())
    return answer


def _iterator(client: KinesisClient, target: Mapping[str, str], shard: str, place: Place) -> str:
    answer: Any = client.get_shard_iterator(**target, ShardId=shard, **place.begins())  # type: ignore[arg-type]
    iterator: str = answer["ShardIterator"]
    return iterator


class Fetchers:
    """Threads that read shards ahead; at most as many answers wait as there are threads.

    Args:
        read: does one read; never raises.
        count: how many threads.
    """

    def __init__(self, read: Callable[[Read], Answer], count: int) -> None:
        self._read = read
        self._asked: queue.SimpleQueue[Read | None] = queue.SimpleQueue()
        # No SimpleQueue: its `get` waits for ever if its time is over before it has begun to wait, for
        # CPython takes the negative rest for no limit, and ours may be microseconds.
        self._answers: queue.Queue[Answer] = queue.Queue()
        self._count = count
        self._out = 0
        self._threads: list[threading.Thread] = []

    @property
    def free(self) -> bool:
        """Whether a read would begin at once."""
        return self._out < self._count

    def ask(self, read: Read) -> None:
        """Let a thread read something."""
        if len(self._threads) <= self._out:
            # A daemon: one that waits for an answer must not hold up the end of the process.
            thread = threading.Thread(target=self._work, name="kinesis-fetcher", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._out += 1
        self._asked.put(read)

    def answer(self, seconds: float) -> Answer | None:
        """Return the next answer, waiting for so long; None if none has come."""
        try:
            found = self._answers.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        self._out -= 1
        return found

    def end(self) -> None:
        """Let the threads end, each after what it is reading."""
        for _ in self._threads:
            self._asked.put(None)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            self._answers.put(self._read(asked))
