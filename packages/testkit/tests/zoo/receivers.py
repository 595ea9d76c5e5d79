"""A source over the zoo's queue, its receiver, and what can be wrong with that."""

from __future__ import annotations

import itertools
import random
import select
import socket
import subprocess
import threading
import time

from mainstem import PermanentError, Secret, SourceCapabilities, TransientError, option
from mainstem_ingress import IngressOptions, IngressSource, Message, Receiver

_FOREVER = 3600.0


class QueueOptions(IngressOptions):
    """Options of the queue."""

    port: int = option(gt=0, description="The server's port.")
    queue: str = option(description="Whose messages to take.")
    password: Secret = option(Secret("open sesame"), description="What lets one in.")
    log: bool = option(False, description="Read it as a log, by cursor.")
    fault: str = option("", description="What is wrong with it.")


class QueueReceiver(Receiver):
    """Takes from the queue: sound if no fault is asked for."""

    def __init__(self, options, number, node):
        super().__init__(options, number, node)
        self.fault = options.fault
        self.socket = None
        self.paused = False
        self.last = []

    def connect(self, cursor):
        options = self.options
        if self.fault == "leaks a thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        if self.fault == "leaks a process":
            subprocess.Popen(["sleep", "600"])
        self.buffer, self.came, self.paused, self.closed = b"", [], False, False
        try:
            self.socket = socket.create_connection(("127.0.0.1", options.port), timeout=5)
        except OSError as error:
            if self.fault == "gives up":
                raise PermanentError(f"no server: {error}") from error
            raise TransientError(f"no server: {error}") from error
        self.send(f"login {options.password.get_secret_value()}")
        cursor = None if self.fault == "ignores the cursor" else cursor
        after = -1 if cursor is None else int(cursor) + (self.fault == "skips one")
        self.send(f"read {options.queue} {after}" if options.log else f"take {options.queue}")
        until = time.monotonic() + 5
        while not self.came:
            if time.monotonic() > until:
                raise TransientError("no answer")
            self.receive(0.1)
        word, _, rest = self.came.pop(0).partition(" ")
        if word == "error":
            self.refused(rest)
            rest, self.came = "0", []
        self.waits = 0 if self.fault == "says that nothing waits" else int(rest)

    def refused(self, why):
        if self.fault == "swallows a refusal":
            return
        if self.fault == "tells a secret":
            raise PermanentError(f"{why}: {self.options.password.get_secret_value()}")
        raise (TransientError if self.fault == "waits for ever" else PermanentError)(why)

    def send(self, *lines):
        try:
            self.socket.sendall("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise TransientError(str(error)) from error

    def receive(self, seconds):
        if not select.select([self.socket], [], [], seconds)[0]:
            return
        data = self.socket.recv(1 << 16)
        if not data:
            if self.fault == "misses the end":
                time.sleep(seconds)
                return
            raise TransientError("the server ended the connection")
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        self.came += [line.decode() for line in lines]

    def take(self, seconds):
        if self.fault == "hangs in take":
            seconds = _FOREVER
        until = time.monotonic() + seconds
        if self.fault == "never sleeps":
            while time.monotonic() < until and not self.came:
                self.receive(0)
        elif not self.came:
            self.receive(seconds)
        lines, self.came = self.came, []
        if self.fault == "swallows a refusal":
            return []
        taken = [self.message(*line.split(" ", 1)) for line in lines if line]
        if self.paused and self.fault == "loses on a pause":
            self.acknowledge(taken)
            return []
        if self.fault == "acknowledges before it is stored":
            self.send(*(f"done {message.token}" for message in taken))
        if self.fault == "out of order":
            random.Random(1).shuffle(taken)
        if self.fault == "loses one":
            taken = [message for message in taken if message.token != 7]
        if self.fault == "doubles on reconnect":
            again, self.last = self.last, []
            kept.extend(taken)
            return again + taken
        return taken

    def message(self, number, text):
        identifier = str(next(_counter)) if self.fault == "makes ids up" else number
        return Message(
            text.encode(),
            origin=self.options.queue,
            id=None if self.options.log else f"{self.options.queue}-{identifier}".encode(),
            cursor=number if self.options.log else None,
            token=int(number),
        )

    def acknowledge(self, messages):
        if self.options.log or self.fault == "never acknowledges":
            return
        done = [message.token for message in messages]
        if self.fault == "acknowledges others too":
            done = range(1000)
        if self.fault == "acknowledges the last alone":
            done = done[-1:]
        if self.fault == "acknowledges before it is stored":
            return
        self.send(*(f"done {number}" for number in done))
        if self.fault == "waits for an answer":
            self.send(f"left {self.options.queue}")
            select.select([self.socket], [], [])
            self.came.clear()

    def pause(self):
        self.paused = True
        if self.fault not in ("ignores a pause", "loses on a pause"):
            self.send("pause")

    def resume(self):
        self.paused = False
        if self.fault != "stays paused":
            self.send("resume")

    def close(self):
        if self.fault == "closes once" and self.closed:
            raise RuntimeError("closed twice")
        self.closed = True
        if self.fault == "leaks a socket":
            leaked.append(self.socket)
        elif self.socket is not None:
            self.socket.close()
        if self.fault == "doubles on reconnect":
            self.last = list(kept)

    def waiting(self):
        return self.waits


#: What receivers left behind on purpose.
leaked: list[socket.socket] = []
kept: list[Message] = []
_counter = itertools.count(random.randrange(1 << 40))


class QueueSource(IngressSource):
    """The queue as a source."""

    options: QueueOptions
    capabilities = SourceCapabilities(ordered=True)

    def receiver(self):
        return QueueReceiver


RECEIVERS = {"zoo_queue": QueueSource}
