"""Sources `socket` and `pipe`, through the ingress log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mainstem import HelperProcess, Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_direct_socket.options import PipeSourceOptions, SocketSourceOptions

_WHY = (
    "nobody acknowledges what was read: what a process had taken and not stored when it was killed, and "
    "what was between the two sides, is lost"
)


class SocketSource(IngressSource):
    """Takes messages from connections, TCP or Unix; back-pressure reaches who sends."""

    options: SocketSourceOptions

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """At most once: a socket has no acknowledgements."""
        return SourceCapabilities(
            lossy=True,
            ordered=self.options.connect is not None,
            why=_WHY,
            assumptions=("the disk keeps what it says it has written",),
            shown=Shown(Level.AT_MOST_ONCE, "packages/direct-socket/tests/test_socket_receiver.py"),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_ingress.connections import StreamReceiver

        return StreamReceiver


class PipeSource(IngressSource):
    """Takes messages from standard input, a named pipe, or a program's output."""

    options: PipeSourceOptions
    capabilities = SourceCapabilities(
        lossy=True,
        ordered=True,
        why=_WHY,
        assumptions=("the disk keeps what it says it has written",),
        shown=Shown(Level.AT_MOST_ONCE, "packages/direct-socket/tests/test_pipe_receiver.py"),
    )

    def receiver(self) -> type[Receiver]:
        from mainstem_direct_socket.pipe_receiver import PipeReceiver

        return PipeReceiver

    def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
        from mainstem_direct_socket.pipe_receiver import STDIN

        found = super().processes(node, home)
        if self.options.path is not None or self.options.command is not None:
            return found
        # The receiver's own standard input says whether it is still wanted.
        handed = os.dup(0)
        return [replace(p, env={**p.env, STDIN: str(handed)}, descriptors=(handed,)) for p in found]
