"""How the suite of receivers drives one: call by call, and as the process that the log starts."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mainstem import HelperProcess
from mainstem.run.helpers import inherited

from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.server import living

#: How long a call, or messages that must come, may take, in seconds.
PATIENCE = 30.0
_STEP = 0.1


class Taker:
    """A receiver, called as the log calls it: all calls in one thread, and none may hang.

    Use it in a `with`: at its end the receiver is closed and the thread has ended.

    Args:
        receiver: as its class makes it.
        quiet: when nothing came for so many seconds, nothing more will.
    """

    def __init__(self, receiver: Any, quiet: float = 0.7) -> None:
        self.receiver = receiver
        self._quiet = quiet
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="taker", daemon=True)
        self._thread.start()
        self._open = self._hangs = False

    def __enter__(self) -> Taker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._hangs:
            return
        try:
            if self._open:
                self.close()
        finally:
            self._calls.put(None)
            self._thread.join(PATIENCE)

    def connect(self, cursor: str | None = None) -> None:
        """Connect, as it may raise."""
        self._open = True
        self.call("connect", cursor)

    def take(self, seconds: float = _STEP) -> list[Any]:
        """Return what one call gives."""
        return self.call("take", seconds)  # type: ignore[no-any-return]

    def acknowledge(self, messages: Sequence[Any]) -> None:
        """Acknowledge messages."""
        self.call("acknowledge", messages)

    def close(self) -> None:
        """End the connection."""
        self._open = False
        self.call("close")

    def pause(self) -> None:
        """Let nothing more come."""
        self.call("pause")

    def resume(self) -> None:
        """Let messages come again."""
        self.call("resume")

    def take_some(self, count: int) -> list[Any]:
        """Take until there are so many messages, or more; nothing is acknowledged.

        Raises:
            AssertionError: they do not come.
        """
        found: list[Any] = []
        until = time.monotonic() + PATIENCE
        while len(found) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} messages came"
            found += self.take()
        return found

    def take_rest(self, quiet: float | None = None) -> list[Any]:
        """Take until nothing has come for a while; return all."""
        found: list[Any] = []
        last = began = time.monotonic()
        while time.monotonic() - last < (self._quiet if quiet is None else quiet):
            came = self.take()
            if came:
                found += came
                last = time.monotonic()
            assert time.monotonic() - began < PATIENCE, f"{len(found)} came, and there is no end"
        return found

    def reconnect(self, cursor: str | None = None) -> None:
        """Connect to a server that is coming back, retrying as the log does.

        Raises:
            Exception: the last that `connect` raised, when it did not succeed in time.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect(cursor)
            except Exception:
                self.close()
                if time.monotonic() > until:
                    raise
                time.sleep(_STEP)
            else:
                return

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method in the receiver's thread; what it returns or raises comes back.

        Raises:
            AssertionError: it does not return.
        """
        return self.run(lambda: self._called(name, arguments), f"{name}{arguments}")

    def run(self, task: Callable[[], Any], what: str) -> Any:
        """Do something in the receiver's thread; see `call`."""
        ended: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def whole() -> None:
            try:
                ended.put((task(), None))
            except BaseException as error:
                ended.put((None, error))

        self._calls.put(whole)
        try:
            found, error = ended.get(timeout=PATIENCE)
        except queue.Empty:
            self._hangs = True
            raise AssertionError(f"{what} hangs: no return after {PATIENCE:.0f} s") from None
        if error is not None:
            raise error
        return found

    def _called(self, name: str, arguments: Sequence[Any]) -> Any:
        found = getattr(self.receiver, name)(*arguments)
        return _messages(found, self.receiver) if name == "take" else found

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _messages(found: Any, receiver: Any) -> list[Any]:
    """Return the messages of one call; rows have their table's name and themselves as `extra`.

    Where rows came as columns, the last one has the receiver's cursor: where it goes on after them.
    """
    from mainstem_ingress import Columns, Message, Rows

    if not isinstance(found, Rows):
        return list(found)
    made: list[Message] = []
    for part in found.parts:
        if isinstance(part, Columns):
            rows: Any = part.rows
            made += [
                Message(
                    None,
                    timestamp=at,
                    origin=part.origin,
                    token=part.token,
                    extra=(part.table, row),
                )
                for at, row in zip(part.timestamps, rows.to_pylist(), strict=True)
            ]
        else:
            made += part
    return [*made[:-1], made[-1]._replace(cursor=receiver.cursor())]


class TakingProcess:
    """The process of a receiver, as a run starts it, in a session of its own; use it in a `with`."""

    def __init__(self, process: HelperProcess, **env: str) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            list(process.argv),
            env={**inherited(os.environ, process.inherits), **process.env, **env},
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(process.stdin)
            self._process.stdin.flush()

    def __enter__(self) -> TakingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in living(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        for file in (self._out, self._err):
            file.close()

    def told(self) -> list[Mapping[str, Any]]:
        """Return what the process has told so far."""
        lines = _all(self._out).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def kill(self) -> None:
        """End it as `kill -9` does; nothing it started may be left.

        Raises:
            AssertionError: a process is left.
        """
        self._process.kill()
        self._process.wait()
        self.leaves_nothing()

    def stop(self) -> int:
        """Tell it that it is no longer wanted; return its exit code.

        Raises:
            AssertionError: it does not end, or leaves a process.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends; return its exit code.

        Raises:
            AssertionError: it does not, or leaves a process.
        """
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process does not end: {self.words()}") from None
        self.leaves_nothing()
        return code

    def leaves_nothing(self) -> None:
        """Wait until all that it started has ended."""
        wait_for(lambda: not living(self._process.pid), PATIENCE)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def until(self, condition: Callable[[], Any], what: str, *, ending: bool = False) -> None:
        """Wait until a condition holds.

        Raises:
            AssertionError: it does not in time, or the process has ended; tells what it said.
        """
        end = time.monotonic() + PATIENCE
        while not condition():
            assert ending or self.running, f"the process ended: {self.words()}"
            assert time.monotonic() < end, f"not {what} after {PATIENCE:.0f} s: {self.words()}"
            time.sleep(0.03)

    def words(self) -> str:
        """Return the last that it told, and the end of its standard error."""
        return "\n".join([*map(str, self.told()[-2:]), _all(self._err)[-2000:]])


def stored(folder: Path) -> list[Any]:
    """Return the messages of a log, receiver by receiver, in the order of storing."""
    from mainstem_ingress import Message
    from mainstem_ingress.log import Log
    from mainstem_ingress.segments import file_of, numbers, open_segment

    log = Log(folder)
    found = []
    for receiver in log.receivers():
        at = log.receiver(receiver)
        for number in numbers(at):
            for row in open_segment(file_of(at, number))[1].to_pylist():
                message = Message(row["value"], row["key"], row["headers"], origin=row["origin"])
                table = row.get("_output")
                extra = () if table is None else (table, row[f"_{table}"])
                found.append(message._replace(refused=row["_reason"], extra=extra))
    return found


def difference(found: Sequence[int], expected: Sequence[int]) -> str:
    """Return what was lost, doubled or never put, in words; empty if nothing was."""
    counts = Counter(found)
    lost = sorted(set(expected) - counts.keys())
    doubled = sorted(number for number, count in counts.items() if count > 1)
    strange = sorted(counts.keys() - set(expected))
    parts = {"lost": lost, "more than once": doubled, "not expected": strange}
    return "; ".join(f"{what}: {', '.join(map(str, n[:10]))}" for what, n in parts.items() if n)


def _all(file: Any) -> str:
    # The process shares the file's position: read by another one.
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")
