"""The receiver of the source `pipe`: standard input, a named pipe, or a program's output."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver
from mainstem_ingress.framing import Frame, Framer, FramingError

from mainstem_direct_socket.options import PipeSourceOptions

#: Names the descriptor that standard input was handed on as.
STDIN = "MAINSTEM_PIPE_STDIN"
_READ, _TURNS = 256 * 1024, 8
#: How many lines of a program's standard error are remembered, and how long one is.
_LINES, _LONGEST = 5, 300
#: How long a program may take to end, in seconds.
_LEAVE = 2.0


class PipeReceiver(Receiver):
    """Takes what comes through a pipe; who writes waits while there is no room."""

    options: PipeSourceOptions
    gives_again = False

    def __init__(self, options: PipeSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._descriptor: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=_LINES)
        self._listening: threading.Thread | None = None
        #: Whether no more will come.
        self._ended = False
        self._paused = False
        #: Why no message can be found any more; how a program has ended whose last messages were given.
        self._broken = self._after = ""
        self._framer = Framer(options, options.max_message)

    def connect(self, cursor: str | None) -> None:
        self._paused, self._broken, self._after = False, "", ""
        if self._ended:
            return
        options = self.options
        if options.command is not None:
            self._start(options.command)
        elif options.path is not None:
            self._descriptor = self._opened()
        elif (given := os.environ.get(STDIN)) is not None:
            self._descriptor = int(given)
        else:
            raise PermanentError("standard input was not handed on: use `mainstem run`")
        # Not closed with standard input, which is another process's too: it stays as it is.
        failpoint("pipe.after-connect")

    def _start(self, command: list[str]) -> None:
        self._framer = Framer(self.options, self.options.max_message)
        try:
            self._process = subprocess.Popen(  # noqa: S603  # it is what the document asks for
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise PermanentError(f"{command[0]}: {error.strerror}") from None
        assert self._process.stdout is not None  # noqa: S101
        self._descriptor = self._process.stdout.fileno()
        said = self._process.stderr
        self._listening = threading.Thread(target=self._hear, args=(said,), daemon=True)
        self._listening.start()

    def _hear(self, said: IO[bytes]) -> None:
        """Keep the last lines of what a program says beside its output."""
        with suppress(ValueError):  # it was closed
            for line in iter(partial(said.readline, _READ), b""):
                self._said.append(line.decode(errors="replace").rstrip()[:_LONGEST])

    def _opened(self) -> int:
        path = self.options.path
        assert path is not None  # noqa: S101
        try:
            with suppress(FileExistsError):
                os.mkfifo(path, 0o600)
            if not stat.S_ISFIFO(path.stat().st_mode):
                raise PermanentError(f"{path} is there, and is no named pipe")
            # For writing as well: it does not end when a writer goes.
            return os.open(path, os.O_RDWR | os.O_NONBLOCK)
        except OSError as error:
            raise PermanentError(f"{path}: {error.strerror}") from None

    def take(self, seconds: float) -> Iterable[Message]:
        if self._after and not self._paused:
            raise TransientError(f"{self._after}{self._last_words}")
        descriptor = self._descriptor
        if self._paused or descriptor is None:
            time.sleep(seconds)
            return []
        if self._broken:  # what was before it is given
            raise (PermanentError if self.options.command is None else TransientError)(self._broken)
        ready, _, _ = select.select([descriptor], [], [], seconds)
        found: list[Message] = []
        turns = 0
        while ready and turns < _TURNS:
            data = os.read(descriptor, _READ)
            if not data:
                self._end(found)
                break
            self._give(data, found)
            if self._broken:
                break
            turns += 1
            ready, _, _ = select.select([descriptor], [], [], 0)
        failpoint("pipe.after-take")
        return found

    def _give(self, data: bytes, found: list[Message]) -> None:
        origin = self.options.origin
        try:
            frames = self._framer.feed(data)
        except FramingError as error:
            self._broken = f"{origin}: {error}"
            frames = [*error.frames, Frame(b"", f"nothing can be read after this: {error}")]
        found += [Message(frame.data, origin=origin, refused=frame.refused) for frame in frames]

    def _end(self, found: list[Message]) -> None:
        """Take the last message, and see what a program says of its end.

        Raises:
            TransientError: it is started again.
            PermanentError: it failed, and is not.
        """
        rest = self._framer.last(whole=True)
        if rest is not None:
            found.append(Message(rest.data, origin=self.options.origin, refused=rest.refused))
        self._descriptor = None
        process, self._process = self._process, None
        if process is None:
            self._ended = True
            return
        code = _ended(process)
        if self._listening is not None:
            self._listening.join(_LEAVE)  # its last words; a child of its own may keep on
        if self.options.restart == "never" or (self.options.restart == "failed" and not code):
            self._ended = True
            return
        if found:  # they come first
            self._after = f"{self.options.origin} has ended with {code}"
            return
        raise TransientError(f"{self.options.origin} has ended with {code}{self._last_words}")

    @property
    def _last_words(self) -> str:
        return f": {' / '.join(self._said)}" if self._said else ""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        pass  # nobody waits for it

    def pause(self) -> None:
        # What is not read fills the pipe, and then who writes waits.
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            _ended(process)
        if self._descriptor is not None and self.options.path is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def caught_up(self) -> bool | None:
        """A bounded run waits for the end of what has one."""
        return None if self.options.path is not None else self._ended

    def facts(self) -> dict[str, Any]:
        said = {"said": self._said[-1]} if self._said else {}
        return {"server": self.options.origin, "ended": self._ended, **said}


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program that ends; of one that does not, though it says no more, too."""
    try:
        return process.wait(_LEAVE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
