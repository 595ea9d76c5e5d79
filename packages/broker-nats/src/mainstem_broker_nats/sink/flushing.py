"""Publishes to core NATS, which acknowledges nothing; the server is asked now and then what it has."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from mainstem import Patience

from mainstem_broker_nats.connecting import ConnectionOptions, NATSError, places
from mainstem_broker_nats.sink.answers import forbidden
from mainstem_broker_nats.sink.link import Link
from mainstem_broker_nats.sink.messages import Message

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 8 * 1024 * 1024


class FlushingPublisher:
    """Publishes messages, and remembers those of which it is not known that the server has them.

    When the connection is lost those are published again.

    Args:
        options: of the connection.
        name: what the server's monitoring shows.
        refused: called with a message that the server would not take, and the reason.
        window: how many messages are published before the server is asked.
        give_up: after how many seconds without any progress to raise.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        name: str,
        refused: Callable[[Message, str], None],
        *,
        window: int = 1000,
        give_up: float = 300.0,
    ) -> None:
        self._options = options
        self._name = name
        self._refuse = refused
        self._window = window
        self._give_up = give_up
        self._link: Link | None = None
        self._turn = 0
        self._complaints = 0
        self._open: list[Message] = []
        self._bytes = 0

    def send(self, message: Message) -> None:
        """Publish a message; it may wait for those before it.

        Raises:
            NATSError: the server can't be reached, or does not allow it.
        """
        self._open.append(message)
        self._bytes += len(message.body)
        if len(self._open) >= self._window or self._bytes > _MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Publish what was sent, and wait until the server has it.

        Raises:
            NATSError: the server can't be reached, or does not allow it.
        """
        patience = Patience(self._give_up)
        while self._open:
            try:
                self._publish()
            except NATSError as error:
                self.close()
                if error.lasting:
                    raise
                left = patience.left()
                if left <= 0:
                    raise NATSError(
                        f"the server did not take {len(self._open)} messages for {self._give_up:g} s "
                        f"(give_up), at {', '.join(places(self._options))}: {error}"
                    ) from None
                _LOG.warning("publishing to NATS: %s", error)
                time.sleep(min(patience.pause(), left))

    def close(self) -> None:
        """End the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _publish(self) -> None:
        """Publish all that is open, wait for the server to have it, and forget it."""
        link = self._link
        if link is None:
            link = self._link = Link.open(self._options, self._name, self._turn)
            self._turn += 1  # after a loss another one of the servers is tried first
            self._complaints = 0
        for message in self._open:
            if not link.fits(message):
                link.put(message)
                if link.full:
                    link.poll(0)
        link.flush()
        complaints = link.connection.complaints
        new, self._complaints = complaints[self._complaints :], len(complaints)
        reasons = forbidden(new)
        for message in self._open:
            if why := link.fits(message) or reasons.get(message.subject):
                self._refuse(message, why)
        self._open, self._bytes = [], 0
