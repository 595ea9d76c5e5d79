"""Clients of the library itself, to send and take what tests want."""

from __future__ import annotations

from proton import Data, Delivery, Message, Timeout, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption
from proton.utils import BlockingConnection


class Says(LinkOption):
    """What an address is: `queue` or `topic`."""

    def __init__(self, word):
        self._word = word

    def apply(self, link):
        told = (link.target if link.is_sender else link.source).capabilities
        told.put_array(False, Data.SYMBOL)
        told.enter()
        told.put_symbol(symbol(self._word))
        told.exit()


class _Sending(MessagingHandler):
    def __init__(self, url, address, messages, kind):
        super().__init__()
        self._url, self._address, self._kind = url, address, kind
        self._left, self._open = list(messages)[::-1], len(messages)

    def on_start(self, event):
        self._connection = event.container.connect(self._url, sasl_enabled=True, reconnect=False)
        event.container.create_sender(self._connection, self._address, options=Says(self._kind))

    def on_sendable(self, event):
        while self._left and event.sender.credit:
            event.sender.send(self._left.pop())

    def on_accepted(self, event):
        self._open -= 1
        if not self._open:
            self._connection.close()

    def on_rejected(self, event):
        raise AssertionError(f"rejected: {event.delivery.remote.condition}")


def send(url, address, messages, kind="queue"):
    """Send messages, and wait until the broker has all."""
    messages = list(messages)
    if messages:
        Container(_Sending(url, address, messages, kind)).run()


def put(url, address, numbers, kind="queue"):
    """Send a durable message of each number, with an id."""
    made = [Message(b"%d" % n, id=f"m{n}", durable=True, inferred=True) for n in numbers]
    send(url, address, made, kind)


def take(url, address, seconds=0.5, kind="queue"):
    """Return the messages that a queue has, which are gone then."""
    connection = BlockingConnection(url, timeout=10)
    try:
        receiver = connection.create_receiver(address, credit=500, options=Says(kind))
        found = []
        while True:
            try:
                found.append(receiver.receive(timeout=seconds))
            except Timeout:
                return found
            receiver.accept()
    finally:
        connection.close()


def give_back(url, address):
    """Take a message and give it back as one that could not be worked on."""
    connection = BlockingConnection(url, timeout=10)
    try:
        receiver = connection.create_receiver(address, credit=1, options=Says("queue"))
        receiver.receive(timeout=5)
        delivery = receiver.fetcher.unsettled.popleft()
        delivery.local.failed = True
        delivery.update(Delivery.MODIFIED)
        delivery.settle()
    finally:
        connection.close()
