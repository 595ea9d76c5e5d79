"""Puts records into a stream: calls of PutRecords side by side, and again what failed of them.

PutRecords keeps no order: a record of a call can fail while one after it is taken. So a call has one
record of a lane at most, and the next of the lane is sent when that one is in. A call whose answer was
lost is made again, so that records can be there twice, one right after the other within their lane: at
least once, and in order.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from mainstem import PermanentError, failpoint
from mainstem.patience import pause_after
from mainstem_aws.client import code_of, permanent, throttled, words

from mainstem_broker_kinesis.connection import ConnectionOptions
from mainstem_broker_kinesis.sink.lanes import Lanes
from mainstem_broker_kinesis.sink.packing import Records
from mainstem_broker_kinesis.sink.records import Message, Record
from mainstem_broker_kinesis.sink.shards import Shards

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_LOG = logging.getLogger(__name__)

#: AWS's limit of a call, in records, and what one holds here, in bytes: half of AWS's limit of today,
#: which not every endpoint has heard of. A larger record has a call of its own.
MOST_RECORDS, MOST_BYTES = 500, 5 * 2**20
#: What is kept of a task's messages until calls are made of them.
_MOST_KEPT, _MOST_MESSAGES = 16 * 2**20, 20_000
_THROTTLED = "ProvisionedThroughputExceededException"
#: What AWS says to a call of which a record can't be taken.
_OVER_A_RECORD = ("ValidationException", "InvalidArgumentException", "SerializationException")


class Putter:
    """Puts a task's messages into one stream.

    Args:
        client: of the stream's region; `close` closes it.
        options: say which stream, and are asked for what must not be printed.
        refused: called with a message that is refused for good, and the reason; from within `put` and
            `flush`.
        pack: whether a record holds more than one message.
        ordered: whether records of a key keep their order.
        largest: the largest record that the stream takes, in bytes.
        requests: how many calls are in flight at a time.
        give_up: after how many seconds without any progress to raise.
    """

    def __init__(
        self,
        client: KinesisClient,
        options: ConnectionOptions,
        refused: Callable[[Message, str], None],
        *,
        pack: bool,
        ordered: bool = True,
        largest: int = 2**20,
        requests: int = 4,
        give_up: float = 300.0,
    ) -> None:
        self._client: Any = client
        self._options = options
        self._refused = refused
        self._requests = requests
        self._give_up = give_up
        self._lanes = Lanes()
        self._records = Records(
            pack=pack, ordered=ordered, largest=largest, refuse=refused, lanes=self._lanes
        )
        self._packs = pack
        self._shards = Shards(self._list_shards)
        self._pool = ThreadPoolExecutor(requests, thread_name_prefix="kinesis")
        self._answers: queue.Queue[tuple[list[Record], Any]] = queue.Queue()
        self._under_way = 0
        self._failures = 0
        self._paused_until = 0.0
        #: When there was progress last, and when it was last waited for.
        self._since = self._left = time.monotonic()
        self._trouble = ""

    # -- for the user -----------------------------------------------------------------------

    def put(self, message: Message) -> None:
        """Put a message as soon as there is enough for a call; returns before it is there.

        Raises:
            PermanentError: no retry helps, or all were in vain; nothing can be put any more.
        """
        self._records.take(message)
        if not self._packs and self._lanes.ready >= MOST_RECORDS:
            self._send()  # packs are sent later: they grow until then
        if self._full():
            self._drive(self._full)

    def flush(self) -> None:
        """Wait until each message is there or refused.

        Raises:
            PermanentError: as `put`.
        """
        self._drive(lambda: bool(self._lanes))

    def close(self) -> None:
        """Wait for no answer any more; what has none may or may not be there."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._under_way:
            # A call can take as long as `answer_timeout`, and needs the client until then.
            threading.Thread(target=self._end, name="kinesis-end", daemon=True).start()
        else:
            self._end()

    def _end(self) -> None:
        """Close the client when no call is under way."""
        self._pool.shutdown()
        self._client.close()

    # -- driving ----------------------------------------------------------------------------

    def _full(self) -> bool:
        return self._lanes.size > _MOST_KEPT or self._lanes.messages > _MOST_MESSAGES

    def _drive(self, more: Callable[[], bool]) -> None:
        """Step on as long as there is more to do; only this time counts towards giving up."""
        now = time.monotonic()
        self._since = min(now, self._since + now - self._left)
        while more():
            self._step()
        self._left = time.monotonic()

    def _step(self) -> None:
        """Send what can be sent, and wait for an answer or for the time to send the next."""
        self._send()
        wait = self._time_left()
        due = 0.0 if self._lanes.ready else self._lanes.due()
        if due is not None and self._under_way < self._requests:
            at = max(due, self._paused_until)
            wait = min(wait, max(0.0, at - time.monotonic()))
        try:
            answer = self._answers.get(timeout=wait) if wait > 0 else self._answers.get_nowait()
        except queue.Empty:
            return
        self._take(*answer)
        self._take_all()

    def _take_all(self) -> None:
        while True:
            try:
                answer = self._answers.get_nowait()
            except queue.Empty:
                return
            self._take(*answer)

    def _send(self) -> None:
        """Make as many calls as may be under way."""
        self._take_all()
        while self._under_way < self._requests:
            now = time.monotonic()
            if now < self._paused_until:
                return
            records = self._lanes.take(now, MOST_RECORDS, MOST_BYTES, self._held)
            if not records:
                return
            self._under_way += 1
            self._pool.submit(self._call, records)

    def _held(self, record: Record, now: float) -> float:
        return self._shards.until(record.place(), now) if self._shards.holding else 0.0

    def _call(self, records: list[Record]) -> None:
        """Make one call; runs in a thread of the pool."""
        try:
            failpoint("kinesis.before-put")
            entries = [record.entry() for record in records]
            answer = self._client.put_records(Records=entries, **self._options.target())
            failpoint("kinesis.after-put")
            self._answers.put((records, answer["Records"]))
        except BaseException as error:
            self._answers.put((records, error))

    def _time_left(self) -> float:
        """Return how long may be waited.

        Raises:
            PermanentError: no longer.
        """
        left = self._since + self._give_up - time.monotonic()
        if left > 0:
            return left
        raise PermanentError(
            f"{self._lanes.messages:,} messages were not put, with no progress for {self._give_up:g} s "
            f"(give_up), into {self._options.place()}: {self._trouble or 'it does not answer'}"
        )

    # -- answers ----------------------------------------------------------------------------

    def _take(self, records: list[Record], answer: Sequence[Any] | BaseException) -> None:
        self._under_way -= 1
        if isinstance(answer, BaseException):
            self._failed(records, answer)
            return
        self._failures = 0
        now = time.monotonic()
        slow: list[int] = []
        for record, told in zip(records, answer, strict=True):
            code = told.get("ErrorCode")
            if code is None:
                if self._shards.busy:
                    self._shards.passed(record.place())
                self._lanes.settled(record)
                self._since = now
                continue
            self._trouble = f"{code}: {told.get('ErrorMessage', '')}"
            record.tries += 1
            if code == _THROTTLED:
                slow.append(record.place())
                self._lanes.again(record, now)  # the shard is held back below
            else:
                self._lanes.again(record, now + pause_after(record.tries, 0.1))
        if slow:
            self._shards.throttled(slow, now)

    def _failed(self, records: list[Record], error: BaseException) -> None:
        """Deal with a call that failed as a whole; whether its records are there may not be known."""
        from botocore.exceptions import BotoCoreError, ClientError

        if not isinstance(error, BotoCoreError | ClientError | OSError):
            raise error
        text = words(error, self._options)
        if code_of(error) in _OVER_A_RECORD:
            self._find(records, text)
            return
        if why := permanent(error):
            raise PermanentError(f"can't put records into {self._options.place()}: {why} ({text})")
        self._trouble = text
        if not self._failures:
            _LOG.warning("putting into %s failed: %s", self._options.place(), text)
        now = time.monotonic()
        self._failures += 1
        self._paused_until = now + pause_after(self._failures + (2 if throttled(error) else 0))
        for record in records:
            self._lanes.again(record, self._paused_until)

    def _find(self, records: list[Record], why: str) -> None:
        """Find the message that makes AWS refuse a call: AWS does not say which record it means."""
        self._since = time.monotonic()
        if len(records) > 1:
            for record in records:
                record.alone = True
                self._lanes.again(record, 0.0)
            return
        (record,) = records
        if len(record.messages) > 1:
            self._lanes.split(record, record.apart())
            return
        self._lanes.settled(record)
        self._refused(record.messages[0], why)

    def _list_shards(self) -> list[tuple[int, str]]:
        """Return the first hash and the name of each open shard, sorted; empty if AWS does not tell."""
        from botocore.exceptions import BotoCoreError, ClientError

        found: list[dict[str, Any]] = []
        asked: dict[str, Any] = self._options.target()
        try:
            while asked:
                told = self._client.list_shards(**asked)
                found += told["Shards"]
                more = told.get("NextToken")
                asked = {"NextToken": more} if more else {}
        except (BotoCoreError, ClientError) as error:
            _LOG.info("shards are not known: %s", words(error, self._options))
            return []
        return sorted(
            (int(shard["HashKeyRange"]["StartingHashKey"]), shard["ShardId"])
            for shard in found
            if shard["SequenceNumberRange"].get("EndingSequenceNumber") is None
        )
