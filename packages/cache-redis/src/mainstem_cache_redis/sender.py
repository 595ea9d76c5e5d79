"""Appends messages to streams (XADD), many in flight; Redis answers in the order of the commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from mainstem import PermanentError, TransientError
from mainstem.sinks import Refused, micros_of, values_of
from mainstem_egress import Answer, Fate, OutMessage, Sender
from redis import exceptions as errors

from mainstem_cache_redis.connection import can_be_taken_later, connect, failure, place_of
from mainstem_cache_redis.options import RedisOptions

if TYPE_CHECKING:
    import pyarrow as pa

#: Before the name of a header in the name of its field.
HEADER = b"header:"


class RedisSender(Sender):
    """Appends messages over one connection."""

    options: RedisOptions

    def __init__(self, options: RedisOptions, name: str) -> None:
        super().__init__(options, name)
        self._connection: Any = None
        self._kept: list[bytes] = []
        self._sent = self._answered = 0

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[OutMessage]:
        options = self.options
        column = partial(values_of, batch)
        streams = repeat(options.stream) if options.stream else column(options.stream_from)
        rows = zip(
            column("value"), column("key"), column("headers"), micros_of(batch, "timestamp"),
            column("_id"), streams, strict=False,
        )  # fmt: skip
        trimmed = () if options.max_length is None else (b"MAXLEN", b"~", options.max_length)
        for value, key, headers, micros, identity, stream in rows:
            if not stream:
                refused.add(identity, value, f"no stream: column {options.stream_from!r} is empty")
                continue
            # A field for each column that is not null; an entry needs one, which `id` is.
            fields: list[Any] = [b"id", identity.hex()]
            given = (b"value", value), (b"key", key), (b"timestamp", micros)
            for name, held in given:
                if held is not None:
                    fields += (name, held)
            for header, held in headers or ():
                fields += (HEADER + header.encode(), held or b"")
            size = sum(len(field) for field in fields if isinstance(field, bytes | str))
            command = (b"XADD", stream, *trimmed, b"*", *fields)
            yield OutMessage(command, key if key is not None else stream, size, identity, value)

    def connect(self) -> None:
        self._kept, self._sent, self._answered = [], 0, 0
        self._connection = connect(self.options, self.name)
        if self.options.stream is None:
            return
        try:
            self._connection.send_command("TYPE", self.options.stream)
            kind = self._connection.read_response().decode()
        except errors.NoPermissionError:  # it may append all the same
            return
        except (errors.RedisError, OSError) as error:
            raise failure(error, self.options) from None
        if kind not in ("stream", "none"):
            raise PermanentError(f"{self.options.stream!r} is there, and is no stream: {kind}")

    def send(self, number: int, message: OutMessage) -> None:
        self._kept += self._connection.pack_command(*message.content)
        self._sent = number

    def answers(self, seconds: float) -> Iterable[Answer]:
        connection = self._connection
        found: list[Answer] = []
        try:
            kept, self._kept = self._kept, []
            if kept:
                connection.send_packed_command([b"".join(kept)], check_health=False)
            while self._answered < self._sent and connection.can_read(0 if found else seconds):
                found.append(self._answer(connection))
        except (errors.ConnectionError, errors.TimeoutError, OSError) as error:
            raise TransientError(str(error)) from None
        return found

    def _answer(self, connection: Any) -> Answer:
        number = self._answered + 1
        fate, reason = Fate.ACCEPTED, ""
        try:
            connection.read_response(disconnect_on_error=False)
        except errors.ResponseError as error:
            reason = str(error)
            fate = Fate.RETRY if can_be_taken_later(error, self.options) else Fate.REFUSED
        self._answered = number
        return Answer(number, number, fate, reason)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def place(self) -> str:
        return place_of(self.options)
