"""The receiver of the source `redis`: reads streams as one consumer of a group."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from mainstem import PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver, lost
from redis import exceptions as errors

from mainstem_cache_redis.connection import Commands, failure, place_of
from mainstem_cache_redis.entries import name_of, reader
from mainstem_cache_redis.options import RedisSourceOptions

T = TypeVar("T")

#: So many entries are asked for by one command.
_MANY = 2_000
_TRIMMED = "the stream was trimmed before the entry was acknowledged"
#: Where messages have ids of their own, which nobody knows of an entry that is gone.
_MAYBE = f"{_TRIMMED}; it may have been stored"
_UNREAD = "the stream was trimmed before these entries were taken"

#: An entry's place: its stream and its id.
Place = tuple[str, bytes]


class RedisReceiver(Receiver):
    """Takes entries that the group gives to this consumer.

    What it was given and did not acknowledge is given again when it connects. What another consumer has
    held for `claim_after` is taken over.
    """

    options: RedisSourceOptions

    def __init__(self, options: RedisSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._read = reader(options)
        self._turn = 0
        self._begin(None)

    def _begin(self, cursor: str | None) -> None:
        self._commands: Commands | None = None
        self._paused = False
        #: What was taken and not acknowledged.
        self._in_hand: set[Place] = set()
        #: The streams of which entries are pending that this consumer was given before, and behind which
        #: they are still to be read.
        self._pending: dict[str, bytes] = {}
        self._kept = time.monotonic()
        self._claimed = -math.inf
        self._waiting: int | None = None
        #: By stream, the last entry taken, and how many it is told of that were trimmed before.
        self._reached: dict[str, tuple[str, int]] = {}
        for stream, (last, told) in json.loads(cursor or "{}").items():
            self._reached[stream] = last, told
        #: By stream, its newest entry when it was looked at last.
        self._ends: dict[str, str] = {}

    @property
    def _consumer(self) -> str:
        """The consumer's name: the same for a log, so that it is given again what it had in hand."""
        folder = str(self.log.folder) if self.log is not None else ""
        return f"{self.node}-{self.number}-{blake2b(folder.encode(), digest_size=4).hexdigest()}"

    # -- what the log asks for --------------------------------------------------------------------

    def connect(self, cursor: str | None) -> None:
        self._begin(cursor)
        self._commands = Commands(self.options, f"mainstem {self.node}-{self.number}")
        self._told(self._join)
        self._pending = dict.fromkeys(self.options.streams, b"0")
        failpoint("redis.after-connect")

    def _join(self) -> None:
        """See that the groups are there, and what waits."""
        waiting: int | None = 0
        for stream in self.options.streams:
            there = self._group(stream)
            if there is None:
                self._make(stream)
                there = self._group(stream) or {}
            lag = there.get("lag")  # which Redis does not always know
            known = None if lag is None else int(lag) + int(there.get("pending", 0))
            waiting = None if waiting is None or known is None else waiting + known
        # Others take of it too.
        self._waiting = waiting if self.options.receivers == 1 else None

    def _make(self, stream: str) -> None:
        """Make the group of a stream where it goes on.

        Redis is told how many entries are before that: it then counts right how many were read.

        Raises:
            PermanentError: entries of it are stored, and nobody knows which were not; or the stream was
                made anew.
        """
        options, info = self.options, self._stream(stream)
        last, _ = self._reached.get(stream, ("", 0))
        if _order(str(info.get("last-generated-id", ""))) < _order(last):
            raise PermanentError(
                f"the stream {stream!r} was made anew: it ends before {last}, which is stored. Begin "
                "with another checkpoint"
            )
        added = int(info.get("entries-added", 0))
        passed = added - int(info.get("length", 0))
        begin = "0"
        if options.start == "latest":
            begin, passed = "$", added
        known = {self.number: json.dumps(self._reached), **self.stored_cursors()}
        stored = {
            number: place
            for number, cursor in known.items()
            if (place := json.loads(cursor).get(stream, ("", 0))[0])
        }
        if stored:
            if options.receivers > 1 or stored.keys() != {self.number}:
                raise PermanentError(
                    f"the group {options.group!r} of {stream!r} is gone, and entries that it gave are "
                    "stored: make it where it is to go on (XGROUP CREATE), or begin with another "
                    "checkpoint"
                )
            begin = stored[self.number]
            self._reached[stream] = begin, 0
        command = ("XGROUP", "CREATE", stream, options.group, begin, "MKSTREAM")
        (made,) = self._answers([(*command, "ENTRIESREAD", passed)])
        if isinstance(made, Exception) and "syntax" in str(made).lower():  # before Redis 7
            (made,) = self._answers([command])
        if isinstance(made, Exception) and not str(made).startswith("BUSYGROUP"):
            raise made
        failpoint("redis.after-group")

    def _stream(self, stream: str) -> dict[str, Any]:
        """Return what Redis says of a stream; nothing if it is not there."""
        (found,) = self._answers([("XINFO", "STREAM", stream)])
        if isinstance(found, errors.ResponseError) and "no such key" in str(found):
            return {}
        if isinstance(found, Exception):
            raise found
        return _pairs(found)

    def _group(self, stream: str) -> dict[str, Any] | None:
        """Return what Redis says of the stream's group; None if there is none."""
        (found,) = self._answers([("XINFO", "GROUPS", stream)])
        if isinstance(found, errors.ResponseError) and "no such key" in str(found):
            return None
        if isinstance(found, Exception):
            raise found
        return self._of(found)

    def _of(self, groups: Sequence[Any]) -> dict[str, Any] | None:
        named = (each for each in map(_pairs, groups) if each["name"] == self.options.group)
        return next(named, None)

    def take(self, seconds: float) -> Iterable[Message]:
        return self._told(lambda: self._take(seconds))

    def _take(self, seconds: float) -> list[Message]:
        now = time.monotonic()
        if now - self._kept > self.options.claim_after.total_seconds() / 3:
            self._kept = now
            self._keep()
        room = min(self.options.prefetch - len(self._in_hand), _MANY)
        if self._paused or room <= 0:
            self._answers([("PING",)])
            time.sleep(seconds)
            return []
        if self._pending:
            return self._again(room)
        if now - self._claimed > self.options.claim_after.total_seconds() / 2:
            self._claimed = now
            if found := self._taken_over(room):
                return found
        found = self._new(room)
        if not found and seconds:
            self._wait(seconds)
        return found

    def _new(self, room: int) -> list[Message]:
        """Return entries that nobody was given yet, and tell of those that were trimmed before."""
        found: list[Message] = []
        for stream in self._turns():
            if room <= 0:
                break
            asked = (*self._asking(room), "STREAMS", stream, ">")
            commands = [
                ("MULTI",), ("XINFO", "STREAM", stream), ("XINFO", "GROUPS", stream), asked, ("EXEC",),
            ]  # fmt: skip
            given = self._answer_of_all(commands)
            info, groups, entries = given
            group = self._of(groups) or {}
            self._ends[stream] = str(info.get("last-generated-id", "0-0"))
            found += self._gap(stream, info, group)
            taken = list(self._messages(entries or ()))
            found += taken
            room -= len(taken)
        return found

    def _answer_of_all(self, commands: Sequence[Sequence[Any]]) -> tuple[Any, Any, Any]:
        """Return the answers of a transaction of three commands."""
        answers = self._answers(commands)
        done = answers[4] if isinstance(answers[4], list) else []
        for each in (*answers, *done):
            if isinstance(each, Exception):
                raise each
        info, groups, entries = done
        return _pairs(info), groups, entries

    def _turns(self) -> list[str]:
        """Return the streams, another one first each time."""
        streams = self.options.streams
        self._turn = (self._turn + 1) % len(streams)
        return streams[self._turn :] + streams[: self._turn]

    def _wait(self, seconds: float) -> None:
        """Wait until something is added to a stream; it is not taken by that."""
        ends = [self._ends.get(stream, "$") for stream in self.options.streams]
        given = ("COUNT", 1, "BLOCK", max(1, int(seconds * 1000)), "STREAMS")
        self._answer(("XREAD", *given, *self.options.streams, *ends))

    def _gap(self, stream: str, info: Mapping[str, Any], group: Mapping[str, Any]) -> list[Message]:
        """Tell how many entries were trimmed before anybody was given them.

        Redis counts the entries that were added, and those that the group was given. What is gone and
        was not given is missing; as long as some of what was given is there, less of it is seen, and the
        rest later. Servers before 7 do not count.
        """
        read, passed = group.get("entries-read"), str(group.get("last-delivered-id", ""))
        if self.number or read is None:
            return []  # one receiver tells for all
        last, told = self._reached.get(stream, ("", 0))
        count = int(info["entries-added"]) - int(info["length"]) - int(read)
        if count <= told:
            return []
        self._reached[stream] = last, count
        return [lost(_UNREAD, origin=stream, count=count - told, first=passed)]

    def _again(self, room: int) -> list[Message]:
        """Return entries that this consumer was given before, and did not acknowledge."""
        stream, after = next(iter(self._pending.items()))
        asked = (*self._asking(room), "STREAMS", stream, after)
        ((_, entries),) = self._answer(asked)
        if not entries:
            del self._pending[stream]
            return []
        self._pending[stream] = entries[-1][0]
        return list(self._messages([(stream.encode(), entries)]))

    def _taken_over(self, room: int) -> list[Message]:
        """Return entries that another consumer has had for too long."""
        idle = int(self.options.claim_after.total_seconds() * 1000)
        found: list[Message] = []
        for stream in self._turns():
            if room - len(found) <= 0:
                break
            given = (stream, self.options.group, self._consumer, idle)
            gone, there = self._pending_of(stream, idle, room - len(found))
            if gone:
                # Claimed, they would be nobody's, and forgotten if this dies before it is told.
                found += self._messages([(stream.encode(), [(id_, None) for id_ in gone])])
                entries = self._answer(("XCLAIM", *given, *there)) if there else []
                found += self._messages([(stream.encode(), [e for e in entries if e is not None])])
                continue
            answer = self._answer(("XAUTOCLAIM", *given, "0-0", "COUNT", room - len(found)))
            entries = [entry for entry in answer[1] if entry is not None]
            if (
                None in answer[1]
            ):  # so servers before 7 tell one that was trimmed, which is pending here now
                self._pending[stream] = b"0"
            since = [(id_, None) for id_ in (answer[2] if len(answer) > 2 else ())]
            found += self._messages([(stream.encode(), [*entries, *since])])
        return found

    def _pending_of(self, stream: str, idle: int, most: int) -> tuple[list[bytes], list[bytes]]:
        """Return the ids of entries that somebody has had for too long: those trimmed, and the others."""
        asked = ("XPENDING", stream, self.options.group, "IDLE", idle, "-", "+", most)
        ids = [each[0] for each in self._answer(asked)]
        entries = self._answers([("XRANGE", stream, id_, id_) for id_ in ids]) if ids else []
        gone = [id_ for id_, entry in zip(ids, entries, strict=True) if entry == []]
        return gone, [id_ for id_ in ids if id_ not in gone]

    def _asking(self, room: int) -> tuple[Any, ...]:
        return ("XREADGROUP", "GROUP", self.options.group, self._consumer, "COUNT", room)

    def _messages(self, given: Iterable[Any]) -> Iterator[Message]:
        for name, entries in given:
            stream = name.decode()
            last, told = self._reached.get(stream, ("", 0))
            for id_, fields in entries:
                if (stream, id_) in self._in_hand:
                    continue  # taken over from itself
                self._in_hand.add((stream, id_))
                last = max(last, id_.decode(), key=_order)
                if fields is None:
                    # With the entry's own id: if it is stored by that, nothing is lost.
                    there = id_.decode()
                    why = _MAYBE if self.options.format == "messages" else _TRIMMED
                    one = lost(why, origin=stream, count=1, first=there, last=there)
                    yield one._replace(token=(stream, id_), id=name_of(stream, id_))
                    continue
                yield self._read(stream, id_, fields)
            self._reached[stream] = last, told

    def _keep(self) -> None:
        """Let no other consumer take over what is in hand.

        Reading it again does; XCLAIM would let go of entries that were trimmed meanwhile.
        """
        for stream in {stream for stream, _ in self._in_hand}:
            asked = self._asking(2 * self.options.prefetch)
            self._answer((*asked, "STREAMS", stream, "0"))

    def acknowledge(self, messages: Sequence[Message]) -> None:
        by_stream: dict[str, list[bytes]] = {}
        places = [message.token for message in messages if message.token is not None]
        for stream, id_ in places:
            by_stream.setdefault(stream, []).append(id_)
        commands: list[tuple[Any, ...]] = []
        for stream, ids in by_stream.items():
            commands.append(("XACK", stream, self.options.group, *ids))
            if self.options.delete:
                commands.append(("XDEL", stream, *ids))

        def send() -> None:
            for answer in self._answers(commands):
                if isinstance(answer, Exception):
                    raise answer

        self._told(send)
        self._in_hand.difference_update(places)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        commands, self._commands = self._commands, None
        if commands is not None:
            commands.close()

    def cursor(self) -> str | None:
        return json.dumps(self._reached) if self._reached else None

    def waiting(self) -> int | None:
        return self._waiting

    def facts(self) -> dict[str, Any]:
        return {"server": place_of(self.options)}

    # -- Redis ------------------------------------------------------------------------------------

    def _answers(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        assert self._commands is not None  # noqa: S101
        return self._commands.all(commands)

    def _answer(self, command: Sequence[Any]) -> Any:
        (found,) = self._answers([command])
        if isinstance(found, Exception):
            raise found
        return found

    def _told(self, task: Callable[[], T]) -> T:
        """Do something, and say what an answer of Redis means."""
        try:
            return task()
        except errors.ResponseError as error:
            if str(error).startswith(("NOGROUP", "UNBLOCKED")) or isinstance(
                error, errors.NoScriptError
            ):
                raise TransientError(str(error)) from None  # made when it connects
            raise failure(error, self.options) from None


def _pairs(answer: Sequence[Any]) -> dict[str, Any]:
    """Return names and values, which stand in turn, with texts of the bytes."""
    pairs = zip(answer[::2], answer[1::2], strict=True)
    return {n.decode(): v.decode() if isinstance(v, bytes) else v for n, v in pairs}


def _order(id_: str) -> tuple[int, int]:
    """Return an entry's id as what orders as it does."""
    time_, _, number = id_.partition("-")
    return int(time_ or -1), int(number or 0)
