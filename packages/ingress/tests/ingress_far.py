"""A far side for tests, as honest as a broker: a queue with acknowledgements, and a stream with offsets.

A queue gives each message to one connection at a time, and again when that connection ends before the
message was acknowledged. A stream gives every message from an offset on, as often as it is asked.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import pyarrow as pa
from mainstem import PermanentError, TransientError, option
from mainstem_ingress import IngressOptions, Message, Receiver
from mainstem_ingress.log import Log
from mainstem_ingress.process import Task
from mainstem_ingress.segments import file_of, numbers, open_segment
from mainstem_ingress.writer import Store
from mainstem_testkit.server import free_port

HERE = Path(__file__).parent


class Far:
    """The far side, in threads of this process. Use it in a `with`."""

    def __init__(self) -> None:
        self.ready: deque[Message] = deque()
        self.unacknowledged = 0
        self.acknowledged: list[Message] = []
        self.stream: list[Message] = []
        self.taken = 0
        self._changed = threading.Condition()
        self._open: set[Any] = set()
        self._listener: Listener | None = None
        self.port = free_port()

    def __enter__(self) -> Far:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Listen, after a fall at the same port as before."""
        self._listener = Listener(("127.0.0.1", self.port), backlog=16)
        self._accepting = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._accepting.start()

    def down(self) -> None:
        """Be away: all connections end."""
        with self._changed:
            listener, self._listener = self._listener, None
            opened = list(self._open)
        if listener is not None:
            with suppress(OSError):  # wakes the thread that accepts
                Client(("127.0.0.1", self.port)).close()
            listener.close()
            self._accepting.join(10)  # while it accepts, the port is in use
        for connection in opened:
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)

    def put(self, messages: Iterable[Message]) -> None:
        """Put messages into the queue."""
        with self._changed:
            self.ready.extend(messages)
            self._changed.notify_all()

    def append(self, messages: Iterable[Message]) -> None:
        """Put messages at the end of the stream."""
        with self._changed:
            for message in messages:
                self.stream.append(message._replace(cursor=str(len(self.stream))))
            self._changed.notify_all()

    @property
    def left(self) -> int:
        """How many messages of the queue are not acknowledged."""
        with self._changed:
            return len(self.ready) + self.unacknowledged

    def _accept(self, listener: Listener) -> None:
        while self._listener is listener:
            try:
                connection = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        held: dict[int, Message] = {}
        with self._changed:
            self._open.add(connection)
        try:
            while True:
                word, *arguments = connection.recv()
                with self._changed:
                    connection.send(getattr(self, f"_{word}")(held, *arguments))
        except (EOFError, OSError):
            pass
        finally:
            with self._changed:
                self._open.discard(connection)
                self.unacknowledged -= len(held)
                self.ready.extendleft(reversed(held.values()))
                self._changed.notify_all()
            with suppress(OSError):
                connection.close()

    def _take(self, held: dict[int, Message], most: int, seconds: float) -> list[Message]:
        self._changed.wait_for(lambda: self.ready, seconds)
        found = []
        while self.ready and len(found) < most:
            message = self.ready.popleft()
            held[self.taken] = message
            found.append(message._replace(token=self.taken))
            self.taken += 1
        self.unacknowledged += len(found)
        return found

    def _acknowledge(self, held: dict[int, Message], tokens: Sequence[int]) -> None:
        for token in tokens:
            self.acknowledged.append(held.pop(token))
        self.unacknowledged -= len(tokens)

    def _read(self, held: Any, since: int, most: int, seconds: float) -> list[Message]:
        self._changed.wait_for(lambda: len(self.stream) > since, seconds)
        return self.stream[since : since + most]

    def _waiting(self, held: Any) -> int:
        return len(self.ready)


class FarOptions(IngressOptions):
    """Where the far side is, and how many messages it gives at once."""

    port: int = option(0, description="The far side's port.")
    at_once: int = option(10, description="How many messages it gives at once.")
    password: str = option("", description="`wrong` is refused.")


class QueueReceiver(Receiver):
    """Takes from the queue."""

    options: FarOptions
    _far: Connection

    def connect(self, cursor: str | None) -> None:
        if self.options.password == "wrong":
            raise PermanentError("the password is wrong")
        try:
            self._far = Client(("127.0.0.1", self.options.port))
        except OSError as error:
            raise TransientError(f"nobody listens: {error.strerror}") from error

    def ask(self, *question: Any) -> Any:
        try:
            self._far.send(question)
            return self._far.recv()
        except (EOFError, OSError) as error:
            raise TransientError("the far side is gone") from error

    def take(self, seconds: float) -> Iterable[Message]:
        found: list[Message] = self.ask("take", self.options.at_once, seconds)
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self.ask("acknowledge", [message.token for message in messages])

    def close(self) -> None:
        if hasattr(self, "_far"):
            self._far.close()

    def waiting(self) -> int | None:
        found: int = self.ask("waiting")
        return found


class StreamReceiver(QueueReceiver):
    """Reads the stream from where the last stored message was."""

    def connect(self, cursor: str | None) -> None:
        super().connect(cursor)
        self._next = 0 if cursor is None else int(cursor) + 1

    def take(self, seconds: float) -> Iterable[Message]:
        found: list[Message] = self.ask("read", self._next, self.options.at_once, seconds)
        self._next += len(found)
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        pass


class SkippingReceiver(StreamReceiver):
    """Reads the stream, ten at a time, and passes over the second half of every twenty.

    Where it is, is a cursor of its own: it moves without messages too.
    """

    def take(self, seconds: float) -> Iterable[Message]:
        found = super().take(seconds)
        return [m._replace(cursor=None) for m in found if int(m.value or b"0") % 20 < 10]

    def cursor(self) -> str | None:
        return str(self._next - 1) if self._next else None


# -- logs ---------------------------------------------------------------------------------------


def messages(*values: int, ids: bool = False) -> list[Message]:
    """Return messages whose values are numbers as text, and their ids as well if so wanted."""
    return [
        Message(b"%d" % value, id=b"id-%d" % value if ids else None, origin="far")
        for value in values
    ]


def store_of(log: Log, number: int = 0, **options: Any) -> Store:
    """Return a store in a receiver's folder, which is made."""
    log.receiver(number).mkdir(parents=True, exist_ok=True)
    return Store(log, number, IngressOptions(**options))


def values_in(log: Log, *receivers: int) -> list[int]:
    """Return the numbers in all segments of a log, or of some receivers, in order."""
    found: list[int] = []
    for name in map(str, receivers) if receivers else log.receivers():
        folder = log.receiver(name)
        for number in numbers(folder):
            batch = open_segment(file_of(folder, number))[1]
            found += [int(value) for value in batch.column("value").to_pylist()]
    return found


class Tells(list[dict[str, Any]]):
    """Keeps what was told, and lets one wait for something."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def __call__(self, facts: dict[str, Any]) -> None:
        with self._changed:
            self.append(facts)
            self._changed.notify_all()

    def wait_for(self, **wanted: Any) -> dict[str, Any]:
        """Return the last facts that are as wanted, waiting for some."""

        def matching() -> dict[str, Any] | None:
            return next((f for f in reversed(self) if wanted.items() <= f.items()), None)

        with self._changed:
            found = self._changed.wait_for(matching, 30)
        assert found, f"{wanted} was never told: {list(self)[-5:]}"
        return found


class Process:
    """`python -m mainstem_ingress.process` with a task; use it in a `with`."""

    def __init__(
        self,
        receiver: type[Receiver],
        log: Log,
        options: IngressOptions,
        number: int = 0,
        env: Mapping[str, str] | None = None,
        extra: tuple[pa.Field[Any], ...] = (),
    ) -> None:
        task = Task(
            f"{receiver.__module__}:{receiver.__qualname__}",
            "far",
            number,
            log.folder,
            options,
            extra,
        )
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
        self.running = subprocess.Popen(
            [sys.executable, "-m", "mainstem_ingress.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
        )
        assert self.running.stdin is not None
        self.running.stdin.write(task.encoded())
        self.running.stdin.flush()
        self.told = Tells()
        self._reader = threading.Thread(target=self._hear, daemon=True)
        self._reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.running.kill()
        self.running.wait()
        self._reader.join()
        for pipe in (self.running.stdin, self.running.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def _hear(self) -> None:
        assert self.running.stdout is not None
        for line in self.running.stdout:
            self.told(json.loads(line))

    def wait(self) -> int:
        """Return the exit code."""
        code = self.running.wait(60)
        self._reader.join()
        return code

    def release(self) -> int:
        """Tell it that it is no longer wanted; return its exit code."""
        assert self.running.stdin is not None
        self.running.stdin.close()
        return self.wait()


def wait_for(condition: Any, seconds: float = 60) -> Any:
    """Wait until a condition holds and return what it gave."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)
    return found


def every(log: Log) -> Iterator[Path]:
    """Return all segments' files."""
    for name in log.receivers():
        for number in numbers(log.receiver(name)):
            yield file_of(log.receiver(name), number)
