"""A proxy that knows requests of Kafka's protocol, and loses the answer to one of a kind; a node behind it."""

from __future__ import annotations

import struct

from mainstem_broker_kafka.testing import Kafka
from mainstem_testkit.proxy import FaultProxy
from mainstem_testkit.server import free_port


class RequestProxy(FaultProxy):
    """Cuts the connection instead of passing on the answer to the next request with some number.

    Attributes:
        dropped: how many answers it has kept back.
    """

    def __init__(self, port):
        super().__init__(port)
        self._key = None
        self.dropped = 0

    def drop_answer_to(self, key):
        """Wait for a request; None for none."""
        self._key, self.dropped = key, 0 if key is not None else self.dropped

    async def _pass(self, reader, writer, *, answers):
        if answers:
            await super()._pass(reader, writer, answers=True)
        else:
            await super()._pass(_Watched(reader, self), writer, answers=False)

    def look(self, key):
        """Note a request that passes."""
        if key == self._key:
            self._key = None
            self.dropped += 1
            self.drop_answer()


class _Watched:
    """Reads what a client sends, and tells the number of each request: it follows on its length."""

    def __init__(self, reader, proxy):
        self._reader = reader
        self._proxy = proxy
        self._left = b""
        self._skip = 0

    async def read(self, size):
        data = await self._reader.read(size)
        self._follow(data)
        return data

    def _follow(self, data):
        while data:
            if self._skip:
                cut = min(self._skip, len(data))
                self._skip -= cut
                data = data[cut:]
                continue
            need = 6 - len(self._left)
            self._left += data[:need]
            data = data[need:]
            if len(self._left) == 6:
                length, key = struct.unpack("!ih", self._left)
                self._left, self._skip = b"", length - 2
                self._proxy.look(key)


class Behind:
    """A node whose clients all come through a proxy: it tells them the proxy's address."""

    def __init__(self, folder):
        inner = free_port()
        self.proxy = RequestProxy(inner)
        self.node = Kafka(folder)
        self.node._properties |= {
            "listeners": f"{{plain}},OUTER://127.0.0.1:{inner}",
            "advertised.listeners": f"PLAINTEXT://{self.node.url},OUTER://{self.url}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTER:PLAINTEXT"
            ),
        }

    @property
    def url(self):
        """Where clients of ours go: through the proxy."""
        return f"127.0.0.1:{self.proxy.port}"

    def __enter__(self):
        self.node.start()
        return self

    def __exit__(self, *_):
        self.proxy.close()
        self.node.stop()
