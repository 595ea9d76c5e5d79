"""Peers of bare pyzmq, which know nothing of ours; and our receiver, called as the log calls it."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import ExitStack, suppress

import zmq
from mainstem_direct_zeromq.source.options import ZeroMQSourceOptions
from mainstem_direct_zeromq.source.receiver import ZeroMQReceiver
from mainstem_direct_zeromq.source.source import ZeroMQSource
from mainstem_testkit import wait_for
from mainstem_testkit.conformance._receiver import Taker
from mainstem_testkit.server import free_port


def address() -> str:
    """A TCP address of this machine that nobody has."""
    return f"tcp://127.0.0.1:{free_port()}"


def source(**options) -> ZeroMQSource:
    return ZeroMQSource(ZeroMQSourceOptions.model_validate(options))


def taker(**options) -> Taker:
    return Taker(ZeroMQReceiver(source(**options).options, 0, "subject"))


def greeting(kind: bytes) -> bytes:
    """What a peer of ZMTP 3.1 without security says before its first message."""
    ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    return GREETING + b"\x04" + bytes([len(ready)]) + ready


#: What it says first of all.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


class Peers:
    """Makes sockets, and closes them at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.context = zmq.Context()
        self._kept = []  # a socket that nobody keeps is closed

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.context.destroy(linger=0)

    def socket(self, kind, bind="", connect="", **settings):
        """A socket; `settings` are attributes of it, such as `sndhwm`."""
        made = self.context.socket(kind)
        self._kept.append(made)
        given = {"linger": 0, "sndtimeo": 20_000, "rcvtimeo": 20_000, "reconnect_ivl": 10}
        for name, value in (given | settings).items():
            setattr(made, name, value)
        if bind:
            made.bind(bind)
        if connect:
            made.connect(connect)
        return made

    def push(self, connect="", **more):
        return self.socket(zmq.PUSH, connect=connect, **more)

    def publisher(self, connect="", bind="", **settings) -> Publisher:
        made = Publisher(connect, bind, **settings)
        self._stack.callback(made.close)
        return made

    def collector(self, kind=zmq.PULL, **more) -> Collector:
        made = Collector(kind, **more)
        self._stack.callback(made.close)
        return made


class Publisher:
    """A PUB socket that waits with what it has to say until somebody subscribes.

    It is an XPUB socket, which is told of subscriptions, in a thread of its own.
    """

    def __init__(self, connect="", bind="", **settings) -> None:
        self._waiting: queue.SimpleQueue[list[bytes]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._place = (connect, bind, settings)
        self.subscribed = 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def send(self, *frames: bytes) -> None:
        self._waiting.put(list(frames))

    def close(self) -> None:
        self._ended.set()
        self._thread.join(20)

    def _work(self) -> None:
        connect, bind, settings = self._place
        with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
            socket.linger, socket.reconnect_ivl, socket.xpub_verbose = 0, 10, True
            for name, value in settings.items():
                setattr(socket, name, value)
            if bind:
                socket.bind(bind)
            if connect:
                socket.connect(connect)
            while not self._ended.is_set():
                if socket.poll(5):
                    self.subscribed += 1 if socket.recv()[:1] == b"\x01" else -1
                while self.subscribed > 0 and not socket.poll(0):
                    try:
                        frames = self._waiting.get_nowait()
                    except queue.Empty:
                        break
                    socket.send_multipart(frames)


class Collector:
    """A PULL or SUB socket that binds and keeps all that comes, in a thread of its own."""

    def __init__(self, kind=zmq.PULL, bind="", connect="", **settings) -> None:
        self.found: list[list[bytes]] = []
        self.bind = bind or ("" if connect else address())
        self._kind, self._connect, self._settings = kind, connect, settings
        self._ended, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(20)

    def wait_for(self, count: int, seconds: float = 30) -> list[list[bytes]]:
        """Wait until so many messages have come; return all."""
        wait_for(lambda: len(self.found) >= count, seconds)
        return self.found

    def quiet(self, seconds: float = 0.3) -> list[list[bytes]]:
        """Wait until nothing has come for a while; return all."""
        while True:
            count = len(self.found)
            time.sleep(seconds)
            if len(self.found) == count:
                return list(self.found)

    def _work(self) -> None:
        with zmq.Context() as context, context.socket(self._kind) as socket:
            socket.linger, socket.reconnect_ivl, socket.rcvhwm = 0, 10, 100_000
            for name, value in self._settings.items():
                setattr(socket, name, value)
            if self._kind == zmq.SUB and "subscribe" not in self._settings:
                socket.subscribe(b"")
            if self.bind:
                socket.bind(self.bind)
            if self._connect:
                socket.connect(self._connect)
            self._ready.set()
            while not self._ended.is_set():
                if socket.poll(20):
                    with suppress(zmq.Again):
                        while True:
                            self.found.append(socket.recv_multipart(zmq.NOBLOCK))
