"""The receiver of the source `mqtt`: a session, whose messages are acknowledged once they are stored."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from mainstem import TransientError, failpoint
from mainstem_ingress import Message, Receiver, lost

from mainstem_broker_mqtt.connection import Connection
from mainstem_broker_mqtt.options import MQTTSourceOptions

#: What a message that may come again is known by: its packet id, and a hash of what it says.
Mark = tuple[int, bytes]
_MARK = struct.Struct(">H6s")
_GONE = (
    "the server had no session of this client any more: what came since it was here last is lost"
)
_PAUSED = "they came while the log had no room"


class MQTTReceiver(Receiver):
    """Takes the messages of a session.

    What was not acknowledged the server sends again when it connects. What of that is stored is known by
    the last messages that were taken, as many as the server may have in flight.
    """

    options: MQTTSourceOptions

    def __init__(self, options: MQTTSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._connection: Connection | None = None
        self.gives_again = options.qos > 0
        self._told = self._dropped = 0
        self._begin({})

    def _begin(self, known: dict[str, Any]) -> None:
        self._paused = self._later = False
        self._taken: list[Message] = []
        #: The packet ids of what came again and is stored.
        self._again: list[int] = []
        #: What the session subscribes to.
        self._filters: list[str] = known.get("filters", [])
        held = b64decode(known.get("last", ""))
        marks = [_MARK.unpack_from(held, at) for at in range(0, len(held), _MARK.size)]
        #: The last messages that were taken, the newest last.
        self._last: deque[Mark] = deque(marks, self.options.prefetch)
        #: Those that were stored before this connection, each of which may come again, before as
        #: many others have come as may be in flight.
        self._stored = set(marks)
        self._others = 0
        self._cursor = json.dumps(known) if known else None

    @property
    def _client_id(self) -> str:
        given = self.options.client_id
        if given is not None:
            return given if self.options.receivers == 1 else f"{given}-{self.number}"
        folder = str(self.log.folder) if self.log is not None else ""
        mark = blake2b(folder.encode(), digest_size=4).hexdigest()
        return f"mainstem-{self.node}-{self.number}-{mark}"

    def connect(self, cursor: str | None) -> None:
        known = json.loads(cursor or "{}")
        self._begin(known)
        made = self._connection = Connection(self.options, self._client_id, self._came)
        failpoint("mqtt.after-connect")
        if not made.resumed:
            self._stored.clear()
            self._last.clear()
            if self._filters and self.options.qos:
                # It is subscribed once this is stored: if this process is killed before, the next one
                # finds a session, and must know that it is a new one.
                self._told += 1
                self._taken.append(self._lost(_GONE))
                self._filters, self._later = [], True
                self._note()
                return
            self._filters = []
        self._subscribe(made)

    def _subscribe(self, made: Connection) -> None:
        """Let the session have the topics that are wanted, and no others."""
        share = f"$share/{self.options.share}/" if self.options.share else ""
        wanted = [f"{share}{topic}" for topic in self.options.topics]
        there, self._later = self._filters, False
        if old := [name for name in there if name not in wanted]:
            made.unsubscribe(old)
        # With 3.1.1 the server sends what it has retained whenever it is asked.
        every = self.options.version == "5"
        if new := [name for name in wanted if every or name not in there]:
            made.subscribe(new, self.options.qos, self.options.retained)
        failpoint("mqtt.after-subscribe")
        if wanted != there:
            self._filters = wanted
            self._note()

    def _note(self) -> None:
        """Make the cursor of what was taken so far."""
        last = b64encode(b"".join(_MARK.pack(*mark) for mark in self._last)).decode()
        self._cursor = json.dumps({"filters": self._filters, "last": last})

    def take(self, seconds: float) -> Iterable[Message]:
        assert self._connection is not None  # noqa: S101
        self._connection.work(0 if self._taken and not self._paused else seconds)
        again, self._again = self._again, []
        for packet in again:
            self._connection.acknowledge(packet)
        if self._paused:
            return []
        if self._dropped:
            self._taken.append(self._lost(_PAUSED, self._dropped))
            self._dropped = 0
        found, self._taken = self._taken, []
        if found and self.options.qos:
            self._note()
        failpoint("mqtt.after-take")
        return found

    def _lost(self, reason: str, count: int | None = None) -> Message:
        return lost(reason, origin=", ".join(self.options.topics), count=count, extra=(None,))

    def _came(self, message: Any) -> None:
        token = None
        if message.qos:
            payload = bytes(message.payload)
            said = blake2b(message.topic.encode() + b"\0" + payload, digest_size=6).digest()
            mark = message.mid, said
            if mark in self._stored and message.dup:
                self._again.append(message.mid)
                return
            self._others += 1
            if self._others > self.options.prefetch:
                self._stored.clear()
            self._last.append(mark)
            token = message.mid
        elif self._paused:
            self._dropped += 1
            return
        self._taken.append(self._message(message, token))

    def _message(self, message: Any, token: int | None) -> Message:
        headers: list[tuple[str, bytes]] = []
        key = None
        properties = message.properties
        for name, value in getattr(properties, "UserProperty", None) or ():
            if name == self.options.key:
                key = value.encode()
            else:
                headers.append((name, value.encode()))
        for name, word in (("ContentType", "content-type"), ("ResponseTopic", "response-topic")):
            if (value := getattr(properties, name, None)) is not None:
                headers.append((word, value.encode()))
        if (value := getattr(properties, "CorrelationData", None)) is not None:
            headers.append(("correlation-data", value))
        return Message(
            bytes(message.payload),
            key,
            headers or None,
            None,
            message.topic,
            token=token,
            extra=(bool(message.retain),),
        )

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._connection is None:
            raise TransientError("there is no connection")
        for message in messages:
            if message.token is not None:
                self._connection.acknowledge(message.token)
        if self._later:
            self._subscribe(self._connection)

    def pause(self) -> None:
        # With QoS 1 the server sends no more than `prefetch`, which are kept until there is room.
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def cursor(self) -> str | None:
        return self._cursor if self.options.qos else None

    def facts(self) -> dict[str, Any]:
        host, port = self.options.place()
        return {"server": f"{host}:{port}", "lost": self._told}
