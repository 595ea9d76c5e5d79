"""The receiver of the source `pulsar_queue`: a consumer, whose messages are acknowledged once stored."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from mainstem import TransientError, failpoint
from mainstem_ingress import Message, Receiver

from mainstem_broker_pulsar.client import Client, Failure, Timeout, failure
from mainstem_broker_pulsar.content import row
from mainstem_broker_pulsar.options import PulsarQueueOptions

#: How many messages are handed on at a time.
_PART = 2_000


class PulsarReceiver(Receiver):
    """Takes messages of a subscription.

    What was not acknowledged the broker gives again, to this or to others.
    """

    options: PulsarQueueOptions

    def __init__(self, options: PulsarQueueOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._client: Client | None = None
        self._consumer: Any = None
        self._paused = False
        self._heard = 0.0

    def _name(self) -> str:
        folder = str(self.log.folder) if self.log is not None else ""
        mark = blake2b(folder.encode(), digest_size=4).hexdigest()
        return f"mainstem-{self.node}-{self.number}-{mark}"

    def connect(self, cursor: str | None) -> None:
        options = self.options
        self._paused = False
        self._client = Client(options)
        failpoint("pulsar.after-client")
        self._consumer = self._client.consumer(
            options.topic,
            options.subscription,
            mode=options.mode,
            start=options.start,
            prefetch=options.prefetch,
            name=self._name(),
        )
        self._heard = time.monotonic()
        failpoint("pulsar.after-subscribe")

    def take(self, seconds: float) -> Iterable[Message]:
        if self._paused:
            time.sleep(seconds)
            return []
        found: list[Message] = []
        consumer, topic = self._consumer, self.options.topic
        try:
            wait = max(1, round(1000 * seconds))
            while len(found) < _PART:
                found.append(row(consumer.receive(wait), topic))
                wait = 0
        except Timeout:
            pass
        except Failure as error:
            if not found:
                raise failure(error, self.options.place()) from None
        self._listen(bool(found))
        failpoint("pulsar.after-take")
        return found

    def _listen(self, heard: bool) -> None:
        """See that a connection that the library makes anew by itself is not away for long."""
        now = time.monotonic()
        if heard or self._consumer.is_connected():
            self._heard = now
        elif now - self._heard > self.options.connect_timeout.total_seconds():
            raise TransientError(f"pulsar {self.options.place()}: the connection is gone")

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._consumer is None:
            raise TransientError("there is no connection")
        acknowledge = self._consumer.acknowledge
        try:
            for message in messages:
                acknowledge(message.token)
        except Failure as error:
            raise failure(error, self.options.place()) from None
        failpoint("pulsar.after-acknowledge")

    def pause(self) -> None:
        self._paused = True  # the library asks for more only as messages are taken

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        client, self._client, self._consumer = self._client, None, None
        if client is not None:
            client.close()

    def facts(self) -> dict[str, Any]:
        return {"server": self.options.place()}
