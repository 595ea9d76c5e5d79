"""`python -m mainstem_direct_webhook.source.process`: the HTTP server of one receiver.

It is a process of its own, so that answering never waits for the disk, nor for Python's lock while
another thread stores. Its standard input is one end of the pipe to the receiver, which it ends with.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import resource
import signal
import socket
from typing import Any

from mainstem import PermanentError, TransientError

from mainstem_direct_webhook.source.application import Application
from mainstem_direct_webhook.source.handoff import Handover
from mainstem_direct_webhook.source.ipc import TASK_LENGTH, framed
from mainstem_direct_webhook.source.options import WebhookSourceOptions
from mainstem_direct_webhook.source.server import Server

#: After how many new objects Python looks for garbage: messages that wait to be stored are none.
_GARBAGE = 50_000


async def serve(options: WebhookSourceOptions, server: Server, pipe: socket.socket) -> None:
    """Serve until told to end."""
    application = Application(options)

    def accept(accepting: bool) -> None:
        application.accepting = accepting

    def close() -> None:
        application.close()
        server.end()

    handover = Handover(options.segment_bytes, options.segment_rows, accept, close)
    application.handover = handover
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: handover, sock=pipe)
    await server.serve(application, handover)


def main() -> None:
    """Run the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the receiver decides
    pipe = socket.socket(fileno=os.dup(0))
    with pipe.makefile("rb", buffering=0) as told:
        options = pickle.loads(_exactly(told, int.from_bytes(_exactly(told, TASK_LENGTH), "big")))  # noqa: S301  # from our parent
    try:
        server = Server(options)
    except (PermanentError, TransientError) as error:
        pipe.sendall(framed(("failed", isinstance(error, TransientError), str(error))))
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.set_threshold(_GARBAGE)
    asyncio.run(serve(options, server, pipe))


def _exactly(file: Any, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = file.read(count - len(found))
        if not piece:
            raise SystemExit(1)
        found += piece
    return found


if __name__ == "__main__":
    main()
