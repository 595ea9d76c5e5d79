"""Publishes messages and knows of each one's fate: confirmed by the broker, or refused for good.

A window of messages is on its way at a time. What the broker does not confirm is sent again: after a
negative confirm, after the connection was lost, until nothing has gone forward for `give_up`.

The last message of a key stays the last: a message that is sent again takes all later ones of its key
with it, also those that were confirmed. So a confirmed message is remembered until all before it are
settled, and the window is measured from the oldest that is not.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstem import Patience, PipelineError
from pika import exceptions
from pika.adapters.utils.connection_workflow import AMQPConnectorException

from mainstem_broker_amqp.connecting import permanent, words
from mainstem_broker_amqp.sink.link import Exchange, Link, Message

if TYPE_CHECKING:
    import pika

_LOG = logging.getLogger(__name__)

#: Messages between two looks at what the broker says.
_STRIDE = 64
#: Bodies larger than this are counted, and no more than so many bytes of them are on their way.
_LARGE, _MOST_BYTES = 16 * 1024, 32 * 1024 * 1024
#: Replies that close channel or connection over one message and not over where it goes.
_OVER_A_MESSAGE = {311, 406, 501, 502, 505, 540}


class PublishError(PipelineError):
    """Messages could not be published, and trying on makes no sense; none of them was dropped."""


class Publisher:
    """Publishes to one exchange over one connection.

    Args:
        parameters: of pika, for each broker that can be tried.
        refused: called with a message that is refused for good, and the reason. It is called from
            within `send` and `flush`.
        exchange: where to, and how to make sure that it is there.
        mandatory: whether a message that no queue is bound for is refused; if not, it vanishes.
        window: how many messages are on their way at a time.
        give_up: after how many seconds without any progress to raise.
    """

    def __init__(
        self,
        parameters: Sequence[pika.ConnectionParameters],
        refused: Callable[[Message, str], None],
        *,
        exchange: Exchange | None = None,
        mandatory: bool = True,
        window: int = 1000,
        give_up: float = 300.0,
    ) -> None:
        self._parameters = list(parameters)
        self._refuse = refused
        self._exchange = exchange or Exchange()
        self._mandatory = mandatory
        self._window = window
        self._patience = Patience(give_up)
        self._link: Link | None = None
        self._again: deque[Message] = deque()
        # Of the messages of `_again`, how many are sent one at a time.
        self._careful = 0
        self._trouble = ""
        self._stride = 0
        self._forget()

    # -- for the user -----------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Publish a message as soon as the window has room; returns before it is confirmed.

        Raises:
            PublishError: see the class; nothing can be sent any more.
        """
        if self._next == self._low and not self._again:
            self._patience.progress()  # nothing was waited for until now
        if (
            self._again
            or self._unsettled
            or self._next - self._low >= self._window
            or self._heavy > _MOST_BYTES
            or self._link is None
            or self._link.error is not None
        ):
            self._make_room()
        self._put(message)
        self._stride += 1
        if self._stride >= _STRIDE:
            self._stride = 0
            self._link.poll(0)  # type: ignore[union-attr]

    def flush(self) -> None:
        """Wait until each message is confirmed or refused.

        Raises:
            PublishError: see the class.
        """
        while self._again or self._next != self._low:
            self._step()

    def connect(self) -> None:
        """Connect now, so that what can't be mended shows before the first message.

        Raises:
            PublishError: the broker refuses, or none could be reached.
        """
        if self._link is None:
            self._patience.progress()
            self._connect()

    def close(self) -> None:
        """End the connection; messages that are not confirmed may or may not have arrived."""
        if self._link is not None:
            self._link.close()
            self._link = None

    # -- driving ----------------------------------------------------------------------------

    def _make_room(self) -> None:
        # Some more than one, so that messages are written several at a time.
        most = self._window - max(1, self._window // 8)
        while True:
            self._step()
            room = self._next - self._low <= most and self._heavy <= _MOST_BYTES
            at_rest = not self._again and not self._unsettled
            if room and at_rest and self._link is not None and self._link.error is None:
                return

    def _step(self) -> None:
        """Do what is due, and wait for the broker a little."""
        if self._link is None:
            self._connect()
        link = self._link
        assert link is not None  # noqa: S101
        if link.error is not None:
            self._after_loss(link)
            return
        if self._unsettled:
            if self._answers_due():
                link.poll(self._time_left())
            else:
                self._take_back()
                self._pause(f"the broker can't take messages now (basic.nack): {self._trouble}")
            return
        window = 1 if self._careful else self._window
        while self._again and self._next - self._low < window and self._heavy <= _MOST_BYTES:
            self._put(self._again.popleft())
            if self._careful:
                break
        if self._next != self._low:
            link.poll(self._time_left())

    def _put(self, message: Message) -> None:
        link = self._link
        assert link is not None  # noqa: S101
        if why := link.fits(message):
            self._careful = max(0, self._careful - 1)
            self._refuse(message, why)
            return
        self._log[self._next] = message
        self._next += 1
        if len(message.body) > _LARGE:
            self._heavy += len(message.body)
        link.put(message)

    def _time_left(self) -> float:
        """Return how long may be waited.

        Raises:
            PublishError: no longer.
        """
        left = self._patience.left()
        if left > 0:
            return left
        waiting = len(self._again) + len(self._log)
        why = self._trouble or "the broker does not confirm"
        if self._link is not None and self._link.blocked:
            why = f"the broker blocks publishers: {self._link.blocked}"
        what = f"{waiting} messages were not confirmed" if waiting else "could not connect"
        raise PublishError(
            f"{what}, with no progress for {self._patience.seconds:g} s (give_up), "
            f"at {self._where()}: {why}"
        )

    def _where(self) -> str:
        return ", ".join(f"{p.host}:{p.port}" for p in self._parameters)

    def _pause(self, why: str) -> None:
        """Wait before the next try, each time longer; the connection stays alive meanwhile."""
        self._trouble = why
        until = time.monotonic() + min(self._patience.pause(), self._time_left())
        while (left := until - time.monotonic()) > 0:
            if self._link is not None and self._link.error is None:
                self._link.poll(left)
            else:
                time.sleep(left)

    # -- connecting -------------------------------------------------------------------------

    def _connect(self) -> None:
        while self._link is None:
            failures = []
            for parameters in self._parameters:
                link = Link(parameters, self._exchange)
                try:
                    link.open(mandatory=self._mandatory)
                except (exceptions.AMQPError, OSError, AMQPConnectorException) as error:
                    failures.append(error)
                    continue
                link.acked, link.nacked, link.returned = self._acked, self._nacked, self._returned
                self._link = link
                return
            reasons = [permanent(error) for error in failures]
            if all(reasons):
                raise PublishError(
                    f"can't publish at {self._where()}: {'; '.join(dict.fromkeys(filter(None, reasons)))}"
                )
            self._pause("can't connect: " + "; ".join(dict.fromkeys(map(words, failures))))

    def _after_loss(self, link: Link) -> None:
        """Take back what was on its way, and find out whether a message is to blame."""
        error = link.error
        assert error is not None  # noqa: S101
        was_alone = len(self._log) == 1  # then it is not confirmed: it would be forgotten
        link.abandon()
        self._link = None
        self._take_back()
        alone = self._again[0] if was_alone else None
        code = getattr(error, "reply_code", 0)
        by_broker = isinstance(
            error, exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker
        )
        over_one = code in _OVER_A_MESSAGE or (code == 403 and "access to topic" in words(error))
        if by_broker and over_one and self._again:
            # The broker does not say which message it means: they go one by one until it is found.
            if alone is not None:
                self._again.popleft()
                self._careful = max(0, self._careful - 1)
                self._patience.progress()
                self._refuse(alone, words(error))
            else:
                self._careful = max(self._careful, len(self._again))
            return
        if why := permanent(error):
            raise PublishError(f"can't publish to exchange {self._exchange.name!r}: {why}")
        _LOG.warning("connection to %s lost: %s", self._where(), words(error))
        self._pause(f"the connection was lost: {words(error)}")

    # -- the window -------------------------------------------------------------------------

    def _forget(self) -> None:
        """Begin to count delivery tags anew, as the broker does for each channel."""
        self._log: dict[int, Message] = {}
        self._low = self._next = 1
        self._heavy = 0
        self._confirmed: set[int] = set()
        #: Tags that got a negative confirm.
        self._unsettled: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._cursor = 1

    def _answers_due(self) -> bool:
        return len(self._confirmed) + len(self._unsettled) < len(self._log)

    def _take_back(self) -> None:
        """Put what is not confirmed, and all later messages of its keys, before what is to be sent.

        Called when the broker will say nothing more of what is on its way.
        """
        keys = set()
        back = []
        # A return whose message got no confirm may have meant a later one that is just the same.
        doubtful = {_told_by(self._log[tag]) for tag in self._reasons}
        for tag, message in self._log.items():
            settled = tag in self._confirmed and not (doubtful and _told_by(message) in doubtful)
            if not settled or message.key in keys:
                keys.add(message.key)
                back.append(message)
        again, low, careful = self._again, self._next, self._careful
        self._forget()
        if self._link is not None:
            self._low = self._next = self._cursor = low
        again.extendleft(reversed(back))
        self._again, self._careful = again, careful

    def _acked(self, tag: int, multiple: bool) -> None:
        self._patience.progress()
        if self._careful:
            self._careful -= 1
        log = self._log
        if self._unsettled or self._reasons or self._heavy:
            for one in range(self._low, tag + 1) if multiple else (tag,):
                if one in log and one not in self._unsettled:
                    self._settle(one)
        elif multiple:
            for one in range(self._low, tag + 1):
                log.pop(one, None)
            if self._confirmed:
                self._confirmed = {one for one in self._confirmed if one > tag}
            self._low = tag + 1
        else:
            self._confirmed.add(tag)
        low, confirmed = self._low, self._confirmed
        while low in confirmed or (low < self._next and low not in log):
            confirmed.discard(low)
            if (message := log.pop(low, None)) is not None and len(message.body) > _LARGE:
                self._heavy -= len(message.body)
            low += 1
        self._low = low

    def _settle(self, tag: int) -> None:
        """Note that the broker has taken a message, if only to return it."""
        reason = self._reasons.pop(tag, None)
        if reason is None:
            self._confirmed.add(tag)
            return
        message = self._log.pop(tag)
        self._confirmed.discard(tag)
        if len(message.body) > _LARGE:
            self._heavy -= len(message.body)
        self._refuse(message, reason)

    def _nacked(self, tag: int, multiple: bool) -> None:
        """Note what the broker could not take. It is sent again once all others have an answer.

        Not before: a returned message could else be one of two that are on their way.
        """
        for one in range(self._low, tag + 1) if multiple else (tag,):
            if one in self._log and one not in self._confirmed:
                self._unsettled.add(one)

    def _returned(
        self, code: int, text: str, routing_key: str, message_id: str | None, body: bytes
    ) -> None:
        """Note why a message came back, to refuse it when its confirm comes.

        `basic.return` has no delivery tag, and confirms can be of many at once. But a channel handles
        its messages one by one in their order, so returns come in the order of publishing, and the
        message meant is the first after the last one returned that has its id, key and body. Only if
        two messages agree in all of these may the one be taken for the other, which nobody can tell
        apart. So no header of our own is needed, which every reader would have to see.
        """
        tag = self._cursor
        while tag < self._next:
            message = self._log.get(tag)
            if (
                message is not None
                and message.message_id == message_id
                and message.routing_key == routing_key
                and message.body == body
            ):
                break
            tag += 1
        else:
            # Its confirm is still to come, so with a new connection it will be sent again.
            assert self._link is not None  # noqa: S101
            self._link.error = exceptions.AMQPChannelError("an unknown message was returned")
            return
        self._cursor = tag + 1
        name = self._exchange.name
        self._reasons[tag] = f"{code} {text}: exchange {name!r} routing key {routing_key!r}"


def _told_by(message: Message) -> tuple[str | None, str, bytes]:
    """Return what a returned message is told by."""
    return message.message_id, message.routing_key, message.body
