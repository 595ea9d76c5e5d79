"""Reads the messages of one range of sequences, as fast as the server sends them, in order and whole.

An ephemeral consumer without acknowledgements gives what a range has; pulls are asked for ahead. Its
sequence shows whether something was lost on the way. Whatever goes wrong, another consumer goes on after
the last message that was handed on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

from mainstem import ExternalError, PermanentError, TransientError, failpoint
from mainstem.patience import Patience
from mainstem.positions import Gap, another_log

from mainstem_broker_nats.client import Connection
from mainstem_broker_nats.connection import api_of
from mainstem_broker_nats.inboxes import Inbox, Raw
from mainstem_broker_nats.source.headers import status
from mainstem_broker_nats.source.stream import Consumer, State, Stream

#: How many messages one pull asks for, and the most bytes that it brings.
_PULL, _PULL_BYTES = 2_500, 16 * 2**20
#: The server says each so often that a pull still stands, and ends it after so long, in seconds.
_BEAT, _EXPIRES = 1.0, 5.0
#: A server that says nothing for so long stands still.
_SILENCE = 3.5 * _BEAT
#: Gaps beyond so many in one range are told as one.
_MOST_GAPS = 1_000
_PENDING_ENDED = (404, 408)
#: What ends one pull of several, and no more, of the many things that 409 says.
_ENDS_PULL = ("maxbytes", "batch completed", "exceeded maxwaiting")


@dataclass
class Messages:
    """Messages in the stream's order, each with its sequence and its time (ns since 1970), and gaps."""

    messages: list[Raw] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


class UsedUpError(TransientError):
    """The consumer is used up; another one tells whether there is more."""


class Range:
    """The messages after one sequence and up to another.

    Args:
        stream: where they are.
        created: when that stream was made: one of the same name that was made later has others.
        after: the sequence before the first.
        end: the last sequence.
        gaps: whether to tell of sequences that are not there.
    """

    def __init__(self, stream: Stream, created: str, after: int, end: int, *, gaps: bool) -> None:
        self._stream = stream
        self._created = created
        self._position = after
        self._end = end
        self._tells = gaps
        self._gaps = 0
        self._rest: list[Gap] = []

    def chunks(self) -> Generator[Messages]:
        """Yield all that is there, in order; retries while the server is away, for `give_up`.

        Raises:
            ExternalError: the server stays away, or the stream is another one.
        """
        patience = Patience(self._stream.options.give_up.total_seconds())
        while self._position < self._end:
            try:
                with closing(self._read()) as found:
                    for chunk in found:
                        patience.progress()
                        yield chunk
            except TransientError as error:
                pause = patience.pause()
                if pause > patience.left():
                    raise
                if not isinstance(error, UsedUpError):
                    self._stream.close()
                time.sleep(pause)
        if self._rest:
            yield Messages(gaps=[self._merged()])

    def _read(self) -> Generator[Messages]:
        """Yield chunks of one consumer, until it has come to the end of the range."""
        state = self._stream.state()
        if state.created != self._created:
            raise another_log(f"the stream {state.name!r}", state.created, self._created)
        if self._stream.subjects and state.first > self._position + 1:
            yield Messages(gaps=self._removed(state))
        consumer = self._stream.consumer_after(self._position)
        failpoint("jetstream.in-range")
        connection = self._stream.connection()
        try:
            if consumer.pending:
                with _Pulls(connection, self._stream, consumer) as pulls:
                    yield from self._pulled(pulls, state)
            if self._position < self._end:
                self._check_end()
                yield from self._moved(self._end, state)
        finally:
            with suppress(ExternalError):  # JetStream forgets it by itself
                self._stream.forget(consumer)

    def _check_end(self) -> None:
        """Ask the stream's leader whether the consumer has seen all of the range.

        A consumer can live beside a replica that is behind: what that lacks is neither gone nor read.

        Raises:
            UsedUpError: there is more.
        """
        left = self._stream.next(self._position + 1)
        if left is not None and left[0] <= self._end:
            raise UsedUpError(
                f"the stream {self._stream.name!r} has message {left[0]}, and a consumer of it has not"
            )

    def _pulled(self, pulls: _Pulls, state: State) -> Iterator[Messages]:
        while self._position < self._end:
            pulls.ask(self._end - self._position)
            chunk, over = pulls.take(self._end)
            if chunk.messages:
                yield self._followed(chunk, state)
            if over:
                return

    def _followed(self, chunk: Messages, state: State) -> Messages:
        """Note where a chunk ends, and what is missing in it."""
        sequences, position = chunk.sequences, self._position
        self._position = sequences[-1]
        if self._stream.subjects or sequences[-1] - position == len(sequences):
            return chunk
        for sequence in sequences:
            if sequence != position + 1:
                chunk.gaps += self._gap(position + 1, sequence - 1, state)
            position = sequence
        return chunk

    def _moved(self, to: int, state: State) -> Iterator[Messages]:
        """Go on to a sequence before which nothing more is."""
        missing = [] if self._stream.subjects else self._gap(self._position + 1, to, state)
        self._position = to
        if missing:
            yield Messages(gaps=missing)

    def _removed(self, state: State) -> list[Gap]:
        """Tell of what is gone before the stream's first message, of which some may have been ours."""
        last = min(state.first - 1, self._end)
        reason = (
            f"the stream begins at {state.first}: removed by its limits, or purged, before it was read; "
            "how many were of the subjects that are read is not known"
        )
        gap = Gap(self._position + 1, last, None, reason)
        self._position = last
        return [gap] if self._tells else []

    def _gap(self, first: int, last: int, state: State) -> list[Gap]:
        if not self._tells:
            return []
        reason = (
            f"the stream begins at {state.first}: removed by its limits, or purged, before it was read"
            if last < state.first
            else "deleted, or removed by a limit, before it was read"
        )
        gap = Gap(first, last, last - first + 1, reason)
        self._gaps += 1
        if self._gaps <= _MOST_GAPS:
            return [gap]
        self._rest.append(gap)
        if len(self._rest) == _MOST_GAPS:
            self._rest = [self._merged()]
        return []

    def _merged(self) -> Gap:
        count = sum(gap.count or 0 for gap in self._rest)
        reason = "deleted, or removed by a limit, before they were read: in many places between"
        return Gap(self._rest[0].first, self._rest[-1].last, count, reason)


class _Pulls:
    """What was asked of a consumer and has not come yet."""

    def __init__(self, connection: Connection, stream: Stream, consumer: Consumer) -> None:
        self._connection = connection
        self._box = connection.client.new_inbox()
        self._number = 0
        #: How many messages each pull still has to bring, the oldest first.
        self._asked: dict[bytes, int] = {}
        self._delivered = 0
        self._from_end = 0
        self._heard = time.monotonic()
        api = api_of(stream.options.domain)
        self._next = f"{api}.CONSUMER.MSG.NEXT.{stream.name}.{consumer.name}"
        payload = int(connection.info.get("max_payload", 0))
        self._body = {
            "expires": int(_EXPIRES * 1e9),
            "idle_heartbeat": int(_BEAT * 1e9),
            # Room for one message at least, with subject and headers.
            "max_bytes": max(_PULL_BYTES, 2 * payload),
        }
        self._inbox: Inbox

    def __enter__(self) -> _Pulls:
        self._inbox = self._connection.subscribe(f"{self._box}.*")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ExternalError):
            self._connection.unsubscribe(self._inbox)
        self._connection.forget(self._inbox)

    def ask(self, most: int) -> None:
        """Ask for more, but for no more than that many in all; half of a pull is always in flight."""
        asked = sum(self._asked.values())
        count = min(_PULL, most - asked)
        if count <= 0 or asked > _PULL // 2:
            return
        self._number += 1
        name = f"{self._box}.{self._number}"
        self._asked[name.encode()] = count
        body = json.dumps({**self._body, "batch": count}).encode()
        self._connection.publish(self._next, body, name)

    def take(self, end: int) -> tuple[Messages, bool]:
        """Return what has come up to a sequence, and whether nothing more of it will.

        Raises:
            UsedUpError: the consumer gives no more, and has not said that there is no more.
            ExternalError: the connection broke, the server is paused, or a message got lost.
        """
        raws = self._connection.take(self._inbox, _SILENCE)
        if not raws:
            forbidden = self._connection.complaints[-1:]
            why = [self._connection.lost or f"nothing came for {_SILENCE:g} s", *forbidden]
            text = f"nats {self._connection.server}: {': '.join(why)}"
            raise (PermanentError if forbidden else TransientError)(text)
        chunk = Messages()
        messages, sequences, times = chunk.messages, chunk.sequences, chunk.times
        pending = last = b""
        ended = False
        for raw in raws:
            if raw.is_status:
                ended |= self._told(raw)
                continue
            if not self._from_end:
                self._from_end = 4 if raw.reply.count(b".") <= 10 else 5
            _, sequence, last, at, pending, *_ = raw.reply.rsplit(b".", self._from_end)
            messages.append(raw)
            sequences.append(int(sequence))
            times.append(int(at))
        if not messages:
            if ended and not self._asked:
                raise UsedUpError("the pulls ended")
            return chunk, False
        self._count(len(messages))
        self._delivered += len(messages)
        if int(last) != self._delivered:
            missing = int(last) - self._delivered
            raise TransientError(
                f"nats {self._connection.server}: {missing} messages got lost on the way"
            )
        over = int(pending) == 0 or sequences[-1] >= end
        while sequences and sequences[-1] > end:
            messages.pop()
            sequences.pop()
            times.pop()
        return chunk, over

    def _count(self, come: int) -> None:
        for name, left in list(self._asked.items()):
            brought = min(left, come)
            come -= brought
            if brought == left:
                del self._asked[name]
            else:
                self._asked[name] = left - brought
                return

    def _told(self, raw: Raw) -> bool:
        """Hear what the server itself says; whether it ended a pull.

        Raises:
            ExternalError: it ended the consumer.
        """
        code, text = status(raw.headers) or (0, "")
        if code == 100:
            return False
        quiet = text.lower().replace(" ", "")
        if code in _PENDING_ENDED or any(word.replace(" ", "") in quiet for word in _ENDS_PULL):
            self._asked.pop(raw.subject, None)
            return True
        raise TransientError(f"nats {self._connection.server}: {text or code} (consumer)")
