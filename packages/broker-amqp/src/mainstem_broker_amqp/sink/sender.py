"""Publishes to one exchange over a channel that confirms.

A message that no queue is bound for is returned before it is confirmed, and `basic.return` has no
delivery tag. But a channel handles its messages one by one, so returns come in the order of publishing,
and the message meant is the first after the last one returned that has its id, key and body, and no
confirm yet. So no header of our own is needed, which every reader would have to see. Of two messages that
are alike in all of these the wrong one may be meant, which makes no difference, once both are confirmed:
confirms of later messages are kept back until that of a returned one has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from mainstem import PermanentError, RefusedRowError, TransientError
from mainstem.sinks import Refused
from mainstem_egress import Answer, Fate, MessageFault, Sender
from pika import exceptions
from pika.adapters.utils.connection_workflow import AMQPConnectorException

from mainstem_broker_amqp.connection import parameters, places
from mainstem_broker_amqp.errors import permanent, words
from mainstem_broker_amqp.sink.link import Exchange, Link, Message
from mainstem_broker_amqp.sink.messages import messages
from mainstem_broker_amqp.sink.options import AMQPSinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

#: Replies that close channel or connection over one message and not over where it goes.
_OVER_A_MESSAGE = {311, 406, 501, 502, 505, 540}
_NACK = "the broker can't take it now (basic.nack)"


class AMQPSender(Sender):
    """Publishes over one connection; a message's number is its delivery tag."""

    options: AMQPSinkOptions

    def __init__(self, options: AMQPSinkOptions, name: str) -> None:
        super().__init__(options, name)
        declare = options.declare
        declared = None if declare is None else {
            "exchange_type": declare.type,
            "durable": declare.durable,
            "auto_delete": declare.auto_delete,
            "arguments": dict(declare.arguments) or None,
        }  # fmt: skip
        self._exchange = Exchange(options.exchange, declared)
        self._link: Any = None  # a `Link` while connected

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[Message]:
        return messages(batch, self.options, refused)

    def connect(self) -> None:
        try:
            brokers = parameters(self.options, self.name)
        except OSError as error:
            raise PermanentError(str(error)) from None
        failures = []
        for broker in brokers:
            link = Link(broker, self._exchange)
            try:
                link.open(mandatory=self.options.mandatory)
            except (exceptions.AMQPError, OSError, AMQPConnectorException) as error:
                failures.append(error)
                continue
            self._begin(link)
            return
        reasons = [permanent(error) for error in failures]
        if all(reasons):
            raise PermanentError(f"{self.place()}: {_listed(filter(None, reasons))}")
        raise TransientError(_listed(map(words, failures)))

    def _begin(self, link: Link) -> None:
        self._link = link
        link.acked, link.nacked, link.returned = self._acked, self._nacked, self._returned
        self._found: list[Answer] = []
        #: What has no confirm yet, from number `_first` on; None in the place of one that has.
        self._sent: deque[Message | None] = deque()
        self._first = self._cursor = 1
        #: Why messages were returned, by number, until they are confirmed.
        self._reasons: dict[int, str] = {}
        #: Those that were confirmed after such a message.
        self._kept_back: list[int] = []

    def send(self, number: int, message: Message) -> None:
        link = self._link
        if why := link.fits(message):
            raise RefusedRowError(why)
        self._sent.append(message)
        link.put(message)

    def answers(self, seconds: float) -> Iterator[Answer]:
        link = self._link
        link.poll(seconds)
        found, self._found = self._found, []
        yield from found
        if link.error is not None:
            raise self._failure(link.error)

    def blocked(self) -> str:
        link = self._link
        why = "" if link is None else link.blocked
        return f"the broker blocks publishers: {why}" if why else ""

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def place(self) -> str:
        return ", ".join(places(self.options))

    def _failure(self, error: BaseException) -> Exception:
        by_broker = exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker
        code = getattr(error, "reply_code", 0)
        over_one = code in _OVER_A_MESSAGE or (code == 403 and "access to topic" in words(error))
        if isinstance(error, by_broker) and over_one:
            return MessageFault(words(error))
        if why := permanent(error):
            return PermanentError(f"exchange {self._exchange.name!r} at {self.place()}: {why}")
        return TransientError(words(error))

    # -- what the link calls ----------------------------------------------------------------

    def _acked(self, tag: int, multiple: bool) -> None:
        first = self._confirmed(tag, multiple)
        if not self._reasons:
            self._found.append(Answer(first, tag))
            return
        for number in range(first, tag + 1):
            if (reason := self._reasons.pop(number, None)) is not None:
                self._found.append(Answer(number, number, Fate.REFUSED, reason))
            else:
                self._kept_back.append(number)
        doubtful = min(self._reasons, default=self._first + len(self._sent))
        self._found += [Answer(n, n) for n in self._kept_back if n < doubtful]
        self._kept_back = [n for n in self._kept_back if n > doubtful]

    def _nacked(self, tag: int, multiple: bool) -> None:
        first = self._confirmed(tag, multiple)
        if any(first <= number <= tag for number in self._reasons):
            # Another that is alike was returned, of those that have no answer yet.
            self._link.error = exceptions.AMQPChannelError("a returned message was not confirmed")
            return
        self._found.append(Answer(first, tag, Fate.RETRY, _NACK))

    def _confirmed(self, tag: int, multiple: bool) -> int:
        """Forget what was confirmed; return the number of the first."""
        sent, first = self._sent, self._first
        if multiple:
            for _ in range(first, tag + 1):
                sent.popleft()
            self._first = tag + 1
            return first
        sent[tag - first] = None
        while sent and sent[0] is None:
            sent.popleft()
            self._first += 1
        return tag

    def _returned(
        self, code: int, text: str, routing_key: str, message_id: str | None, body: bytes
    ) -> None:
        """Note why a message came back, to refuse it when its confirm comes."""
        start = max(self._cursor, self._first)
        for number, message in enumerate(islice(self._sent, start - self._first, None), start):  # noqa: B007
            if (
                message is not None
                and message.message_id == message_id
                and message.routing_key == routing_key
                and (message.payload or b"") == body
            ):
                break
        else:
            # Its confirm is still to come, so over a new connection it will be sent again.
            self._link.error = exceptions.AMQPChannelError("an unknown message was returned")
            return
        self._cursor = number + 1
        name = self._exchange.name
        self._reasons[number] = f"{code} {text}: exchange {name!r} routing key {routing_key!r}"


def _listed(texts: Any) -> str:
    return "; ".join(dict.fromkeys(texts))
