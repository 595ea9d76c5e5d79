"""AMQP 1.0 into durable segments, and out of a batch, beside bare clients of the same library.

A real Artemis, messages of 100 bytes, durable. The bare ones are the library's own loops: one that takes
messages and accepts each, one that sends as much as there is credit for.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from beside import compare, store
from mainstem.columns import read_columns
from mainstem.sinks import Refused
from mainstem_broker_amqp1.content import COLUMNS
from mainstem_broker_amqp1.options import AMQP1Options, AMQP1SourceOptions
from mainstem_broker_amqp1.receiver import AMQP1Receiver
from mainstem_broker_amqp1.sink import AMQP1Sink
from mainstem_broker_amqp1.testing import Artemis
from mainstem_egress.sink import dispatcher_of
from mainstem_testkit.conformance.sender import batch_of
from proton import Data, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

MESSAGES, RUNS = 20_000, 3
NAMES = count()
BODY = b"x" * 100


class _Queue(LinkOption):  # type: ignore[misc]
    def apply(self, link: Any) -> None:
        told = (link.target if link.is_sender else link.source).capabilities
        told.put_array(False, Data.SYMBOL)
        told.enter()
        told.put_symbol(symbol("queue"))
        told.exit()


class _Sending(MessagingHandler):  # type: ignore[misc]
    def __init__(self, url: str, address: str) -> None:
        super().__init__()
        self._url, self._address = url, address
        self._sent = self._accepted = 0

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, reconnect=False)
        event.container.create_sender(self._connection, self._address, options=_Queue())

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self._sent < MESSAGES:
            number = self._sent
            event.sender.send(Message(BODY, id=f"{number:032x}", durable=True, inferred=True))
            self._sent += 1

    def on_accepted(self, event: Any) -> None:
        self._accepted += 1
        if self._accepted == MESSAGES:
            self._connection.close()


class _Taking(MessagingHandler):  # type: ignore[misc]
    def __init__(self, url: str, address: str) -> None:
        super().__init__(prefetch=5000)
        self._url, self._address, self._left = url, address, MESSAGES

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, reconnect=False)
        event.container.create_receiver(self._connection, self._address, options=_Queue())

    def on_message(self, event: Any) -> None:
        assert bytes(event.message.body) == BODY
        self._left -= 1
        if not self._left:
            self._connection.close()


def main() -> None:
    """Run both, and print the ratios."""
    with tempfile.TemporaryDirectory() as folder, Artemis(Path(folder, "broker")) as server:

        def filled() -> str:
            name = f"q{next(NAMES)}"
            Container(_Sending(server.url, name)).run()
            return name

        names = [filled() for _ in range(2 * RUNS + 1)]

        def source() -> None:
            name = names.pop()
            given = {"url": server.url, "address": name}
            receiver = AMQP1Receiver(AMQP1SourceOptions.model_validate(given), 0, "node")
            columns = [(c.name, c.type or "") for c in read_columns(COLUMNS)]
            store(receiver, Path(folder, name), MESSAGES, columns)

        def bare_source() -> None:
            Container(_Taking(server.url, names.pop())).run()

        source()
        compare("source amqp1", MESSAGES, "messages", source, bare_source, RUNS)

        batch = batch_of([{"value": BODY, "_id": n.to_bytes(16, "big")} for n in range(MESSAGES)])

        def sink() -> None:
            given = {"url": server.url, "address": f"out{next(NAMES)}"}
            made = AMQP1Sink(AMQP1Options.model_validate(given))
            sender = made.sender()(made.options, "benchmark")
            with closing(dispatcher_of(sender, made.options, lambda *_: None)) as sends:
                for message in sender.messages(batch, Refused()):
                    sends.send(message)
                sends.flush()

        def bare_sink() -> None:
            Container(_Sending(server.url, f"out{next(NAMES)}")).run()

        sink()
        compare("sink amqp1", MESSAGES, "messages", sink, bare_sink, RUNS)


if __name__ == "__main__":
    sys.exit(main())
