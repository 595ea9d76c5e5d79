"""The receiver of the source `redis`: reads streams as one consumer of a group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from mainstem import PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver, lost
from redis import exceptions as errors

from mainstem_cache_redis.connection import Commands, failure, place_of
from mainstem_cache_redis.entries import reader
from mainstem_cache_redis.options import RedisSourceOptions

T = TypeVar("T")

#: How often it is looked at what the streams have lost, in seconds.
_LOOK = 2.0
#: So many entries are asked for by one command.
_MANY = 2_000
_TRIMMED = "the stream was trimmed before it was taken"

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
        self._begin(None)

    def _begin(self, cursor: str | None) -> None:
        self._commands: Commands | None = None
        self._paused = False
        #: What was taken and not acknowledged.
        self._in_hand: set[Place] = set()
        #: The streams of which entries are pending that this consumer was given before, and behind which
        #: they are still to be read.
        self._pending: dict[str, bytes] = {}
        self._looked = self._kept = self._claimed = time.monotonic()
        self._waiting: int | None = None
        #: By stream, the last entry taken, and how many entries are accounted for as trimmed.
        self._reached: dict[str, tuple[str, int]] = {}
        for stream, (last, gone) in json.loads(cursor or "{}").items():
            self._reached[stream] = last, gone

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
        """See that the group is there, and what waits."""
        waiting: int | None = 0
        for stream in self.options.streams:
            there = self._group(stream)
            if there is None:
                self._make(stream)
                there = self._group(stream) or {}
            lag = there.get("lag")  # which Redis does not always know
            known = None if lag is None else int(lag) + int(there.get("pending", 0))
            waiting = None if waiting is None or known is None else waiting + known
        self._waiting = waiting

    def _make(self, stream: str) -> None:
        """Make the group of a stream where it goes on.

        Raises:
            PermanentError: entries of it are stored, and nobody knows which were not.
        """
        options = self.options
        begin = "$" if options.start == "latest" else "0"
        if stream in self._reached and self._reached[stream][0]:
            if options.receivers > 1:
                raise PermanentError(
                    f"the group {options.group!r} of {stream!r} is gone, and entries that it gave are "
                    "stored: make it where it is to go on (XGROUP CREATE), or begin with another "
                    "checkpoint"
                )
            begin = self._reached[stream][0]
        made = self._answers([("XGROUP", "CREATE", stream, options.group, begin, "MKSTREAM")])[0]
        if isinstance(made, Exception) and not str(made).startswith("BUSYGROUP"):
            raise made
        failpoint("redis.after-group")

    def _group(self, stream: str) -> dict[str, Any] | None:
        """Return what Redis says of the stream's group; None if there is none."""
        (found,) = self._answers([("XINFO", "GROUPS", stream)])
        if isinstance(found, errors.ResponseError) and "no such key" in str(found):
            return None
        if isinstance(found, Exception):
            raise found
        for each in map(_pairs, found):
            if each["name"] == self.options.group.encode():
                return each
        return None

    def take(self, seconds: float) -> Iterable[Message]:
        return self._told(lambda: self._take(seconds))

    def _take(self, seconds: float) -> list[Message]:
        now = time.monotonic()
        found: list[Message] = []
        if now - self._looked > _LOOK:
            self._looked = now
            found += self._trimmed()
        if now - self._kept > self.options.claim_after.total_seconds() / 3:
            self._kept = now
            self._keep()
        room = min(self.options.prefetch - len(self._in_hand), _MANY)
        if self._paused or room <= 0:
            self._answers([("PING",)])
            if not found:
                time.sleep(seconds)
            return found
        if self._pending:
            return found + self._again(room)
        if now - self._claimed > self.options.claim_after.total_seconds() / 2:
            self._claimed = now
            found += self._taken_over(room)
        return found + self._new(room, 0.0 if found else seconds)

    def _new(self, room: int, seconds: float) -> list[Message]:
        """Return entries that nobody was given yet."""
        streams = self.options.streams
        block = ("BLOCK", max(1, int(seconds * 1000))) if seconds else ()
        asked = (*self._asking(room), *block, "STREAMS", *streams, *([">"] * len(streams)))
        return list(self._messages(self._answer(asked) or ()))

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
        for stream in self.options.streams:
            given = (stream, self.options.group, self._consumer, idle, "0-0", "COUNT", room)
            entries = self._answer(("XAUTOCLAIM", *given))[1]
            # Older servers leave a hole for one that was trimmed.
            held = [entry for entry in entries if entry is not None]
            found += self._messages([(stream.encode(), held)])
        return found

    def _asking(self, room: int) -> tuple[Any, ...]:
        return ("XREADGROUP", "GROUP", self.options.group, self._consumer, "COUNT", room)

    def _messages(self, given: Iterable[Any]) -> Iterator[Message]:
        for name, entries in given:
            stream = name.decode()
            last, trimmed = self._reached.get(stream, ("", 0))
            for id_, fields in entries:
                if (stream, id_) in self._in_hand:
                    continue  # taken over from itself
                self._in_hand.add((stream, id_))
                if _order(id_.decode()) > _order(last):
                    last = id_.decode()
                if fields is None:
                    there = id_.decode()
                    one = lost(_TRIMMED, origin=stream, count=1, first=there, last=there)
                    yield one._replace(token=(stream, id_), id=b"%b trimmed %b" % (name, id_))
                    continue
                yield self._read(stream, id_, fields)
            self._reached[stream] = last, trimmed

    def _trimmed(self) -> list[Message]:
        """Return what tells of entries that were trimmed before anybody was given them.

        Redis counts what was ever added and what the group has read; what is gone from the beginning
        beyond that was never read.
        """
        if self.number:
            return []  # one tells for all
        found = []
        for stream in self.options.streams:
            info, group = self._answers([("XINFO", "STREAM", stream)])[0], self._group(stream)
            if isinstance(info, Exception) or group is None:
                continue
            info = _pairs(info)
            if "entries-added" not in info or group.get("entries-read") is None:
                continue  # an older server, or one that can't tell
            begun = int(info["entries-added"]) - int(info["length"])
            last, told = self._reached.get(stream, ("", 0))
            count = begun - max(int(group["entries-read"]), told)
            if count > 0:
                self._reached[stream] = last, begun
                found.append(lost(_TRIMMED, origin=stream, count=count))
        return found

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
            raise failure(error) from None


def _pairs(answer: Sequence[Any]) -> dict[str, Any]:
    return {name.decode(): value for name, value in zip(answer[::2], answer[1::2], strict=True)}


def _order(id_: str) -> tuple[int, int]:
    """Return an entry's id as what orders as it does."""
    time_, _, number = id_.partition("-")
    return int(time_ or -1), int(number or 0)
