"""What all servers share: start, stop, kill, restart and pause, with a log that is kept."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

#: How long a server may take to answer, in seconds: a busy machine starts one in a minute.
PATIENCE = 180.0


class ServerMissing(Exception):  # noqa: N818
    """The server is not installed on this machine; says how to install it."""


class ServerFailed(Exception):  # noqa: N818
    """The server did not start, or does not answer; holds the end of its log."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, below those that outgoing connections get.

    A server that ends and comes back at a port which the system gives to outgoing connections can
    find it taken: by anybody, and even by its own client, whose attempts reach themselves.
    """
    while True:
        port = 10_240 + secrets.randbelow(32_768 - 10_240)
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port


class Server(ABC):
    """A real server with its data in a folder of its own.

    It listens on 127.0.0.1 alone and leads a session of its own, so that it and all it started
    end together. In a `with` it is started, and stopped at the end.

    Args:
        folder: for data, settings and the log; made when it is not there yet.
    """

    #: The server's name, as in `MAINSTEM_TEST_<NAME>_URL` and `MAINSTEM_REQUIRE_SERVICES`.
    name: ClassVar[str]
    #: What tells the server to end, whoever is connected to it.
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    #: Where a proxy must listen, for a server that tells clients where to come to; 0 for anywhere.
    through: int = 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        #: How long the last start took until the first answer, in seconds.
        self.seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._starting: threading.Timer | None = None
        self._prepared = False

    # -- what a server says of itself -------------------------------------------------------

    @property
    @abstractmethod
    def url(self) -> str:
        """The address that a client is given."""

    @abstractmethod
    def prepare(self) -> None:
        """Write settings and make empty data; called once, before the first start.

        Raises:
            ServerMissing: it is not installed.
        """

    @abstractmethod
    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return what to run, and its environment beside this process's."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server answers by its own protocol; any OSError counts as no."""

    def before(self) -> None:  # noqa: B027
        """Start what the server needs beside it; called before each start."""

    def after(self) -> None:  # noqa: B027
        """End what `before` started; called after the server has ended."""

    # -- what a test does with it -----------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            ServerMissing: it is not installed.
            ServerFailed: it ended, or does not answer.
        """
        if not self._prepared:
            self.prepare()
            self._prepared = True
        self.before()
        began = time.monotonic()
        argv, env = self.command()
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self.wait()
        self.seconds = time.monotonic() - began

    def wait(self, seconds: float = PATIENCE) -> None:
        """Wait until the server answers.

        Raises:
            ServerFailed: it ended, or does not answer in time.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(OSError):
                if self.answers():
                    return
            if self._process is None or self._process.poll() is not None:
                raise ServerFailed(f"{self.name} ended:\n{self.log()}")
            time.sleep(0.05)
        raise ServerFailed(f"{self.name} does not answer after {seconds:.0f} s:\n{self.log()}")

    def stop(self, seconds: float = PATIENCE) -> None:
        """Ask the server to end and wait for it; kill it if it takes too long."""
        self.started()
        self._signal(signal.SIGCONT)
        self._signal(self.stop_signal, alone=True)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """End the server as `kill -9` does, with all that it started."""
        self.started()
        if self._process is not None:
            self._signal(signal.SIGSTOP, alone=True)  # it starts no more meanwhile
            apart = _children(self._process.pid)
            self._signal(signal.SIGKILL)
            for pid in apart:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            until = time.monotonic() + 10
            while time.monotonic() < until and (
                living(self._process.pid) or any(map(_lives, apart))
            ):
                time.sleep(0.01)
            self._process = None
        self.after()

    def kill_for(self, seconds: float) -> None:
        """Kill the server, and start it so many seconds later, beside what the test does meanwhile."""
        self.kill()
        self._starting = threading.Timer(seconds, self.start)
        self._starting.start()

    def started(self) -> None:
        """Wait for a start that goes on beside."""
        if self._starting is not None:
            self._starting.join()
            self._starting = None

    def restart(self) -> None:
        """Stop the server and start it again on the same port and data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let the server stand still: connections stay, and nobody answers."""
        self._signal(signal.SIGSTOP)
        until = time.monotonic() + PATIENCE
        while self._process is not None and not _stopped(self._process.pid):
            if time.monotonic() > until:
                raise ServerFailed(f"{self.name} does not stand still")
            time.sleep(0.001)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    @property
    def running(self) -> bool:
        """Whether the process is there, be it paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def log_file(self) -> Path:
        """Where the server's output goes."""
        return self.folder / f"{self.name}.log"

    def log(self, lines: int = 60) -> str:
        """Return the last lines of the server's output."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def connect(self, seconds: float = 2.0) -> socket.socket:
        """Return a connection to the server's port; each step of it may take `seconds`."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def _signal(self, number: signal.Signals, *, alone: bool = False) -> None:
        if self._process is None:
            return
        if alone:
            self._process.send_signal(number)  # nothing happens if it has ended
            return
        for pid in living(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def fetched(name: str, inside: str = "libs", called: str = "") -> Path:
    """Return a file or folder of what `services/NAME.sh` fetches into `.tools/NAME`.

    It is looked for in the working folder and above it, and above this file.

    Args:
        name: of the folder and of the script.
        inside: what in it, as a relative path.
        called: the server, as people call it; `name` when left out.

    Raises:
        ServerMissing: it is not there.
    """
    for folder in (Path.cwd(), *Path.cwd().parents, *Path(__file__).resolve().parents):
        found = folder / ".tools" / name / inside
        if found.exists():
            return found
    raise ServerMissing(f"{called or name} is not installed: services/{name}.sh")


def living(session: int) -> list[int]:
    """Return the processes of a session that are no zombies (from Linux's /proc).

    What a process starts stays in its session, also when it leaves the process group, as Spark's
    Python workers do.
    """
    return [pid for pid, of in _processes(3) if of == session]


def _children(parent: int) -> list[int]:
    """Return what a process has started; children of some outlive them, in sessions of their own."""
    return [pid for pid, of in _processes(1) if of == parent]


def _lives(process: int) -> bool:
    return any(pid == process for pid, _ in _processes(1))


def _processes(field: int) -> Iterator[tuple[int, int]]:
    """Yield processes that are no zombies, each with a field of its `stat` that follows the name."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                yield int(stat.parent.name), int(fields[field])


def _stopped(session: int) -> bool:
    """Whether every thread of a session's processes stands still: that takes a moment on other cores."""
    for pid in living(session):
        for stat in Path("/proc", str(pid), "task").glob("*/stat"):
            with suppress(OSError):
                if stat.read_text().rpartition(")")[2].split()[0] not in "TtZX":
                    return False
    return True


def receive(connection: socket.socket, count: int) -> bytes:
    """Return exactly so many bytes.

    Raises:
        OSError: the other side ended before.
    """
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("ended early")
        data += part
    return data
