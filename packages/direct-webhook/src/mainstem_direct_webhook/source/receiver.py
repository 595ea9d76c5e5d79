"""The receiver of the source `webhook`: an HTTP server whose answers wait for the disk."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver

from mainstem_direct_webhook.source.handoff import Pipe, Told, task_of
from mainstem_direct_webhook.source.options import WebhookSourceOptions

_MODULE = "mainstem_direct_webhook.source.server"
_STARTS = _ENDS = 30.0
_message: Any = partial(tuple.__new__, Message)


class WebhookReceiver(Receiver):
    """Takes messages from HTTP requests; a request is answered when its messages are acknowledged."""

    options: WebhookSourceOptions

    def __init__(self, options: WebhookSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Pipe | None = None
        self._wanted = False
        #: Of requests that were taken and not acknowledged: how many messages each has, in their order.
        self._lengths: deque[int] = deque()
        self._acknowledged = 0
        self._answers: dict[int, int] = {}

    def connect(self, cursor: str | None) -> None:
        self._wanted, self._acknowledged = False, 0
        self._lengths.clear()
        self._answers = {}
        ours, theirs = socket.socketpair()
        self._pipe = Pipe(ours)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # ours
                [sys.executable, "-m", _MODULE], stdin=theirs.fileno(), stdout=subprocess.DEVNULL
            )
        self._pipe.send_bytes(task_of(self.options))
        told = self._pipe.receive(_STARTS)
        if not told:
            raise TransientError(f"the server did not start within {_STARTS:.0f} s")
        word, *arguments = told[0]
        if word == "failed":
            passes, why = arguments
            raise (TransientError if passes else PermanentError)(why)

    def take(self, seconds: float) -> Iterable[Message]:
        pipe = self._open
        if not self._wanted:
            pipe.send("take")
            self._wanted = True
        found: list[Message] = []
        for told in pipe.receive(seconds):
            found += self._messages(told)
        if found:
            failpoint("webhook.taken")
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        # They come in the order in which they were given, but perhaps not all of a request's at once.
        self._acknowledged += len(messages)
        requests = 0
        while self._lengths and self._lengths[0] <= self._acknowledged:
            self._acknowledged -= self._lengths.popleft()
            requests += 1
        if requests:
            self._open.send("stored", requests)

    def pause(self) -> None:
        self._open.send("accept", False)

    def resume(self) -> None:
        self._open.send("accept", True)

    def close(self) -> None:
        pipe, self._pipe = self._pipe, None
        process, self._process = self._process, None
        if pipe is None:
            return
        with suppress(TransientError):  # as it is when the server has ended
            pipe.send("close")
            until = time.monotonic() + _ENDS
            while time.monotonic() < until:
                for told in pipe.receive(until - time.monotonic()):
                    self._messages(told)
        pipe.close()
        if process is not None:
            _end(process)

    def facts(self) -> dict[str, Any]:
        options = self.options
        host = f"[{options.host}]" if ":" in options.host else options.host
        answers = {str(status): n for status, n in sorted(self._answers.items())}
        scheme = "http" if options.tls is None else "https"
        return {"server": f"{scheme}://{host}:{options.port}", "answers": answers}

    @property
    def _open(self) -> Pipe:
        if self._pipe is None:
            raise TransientError("there is no server")
        return self._pipe

    def _messages(self, told: Told) -> Iterable[Message]:
        word, *arguments = told
        if word == "answers":
            self._answers = arguments[0]
            return ()
        if word != "group":  # it began to serve after nobody waited for that any more
            return ()
        lengths, rows = arguments
        self._lengths += lengths
        self._wanted = False
        return map(_message, rows)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait until a server, whose pipe is closed, has ended."""
    try:
        process.wait(_ENDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
