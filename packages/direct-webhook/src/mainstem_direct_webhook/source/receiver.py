"""The receiver of the source `webhook`: an HTTP server whose answers wait for the disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mainstem import failpoint
from mainstem_ingress import Message, Receiver, Unreachable

from mainstem_direct_webhook.source.application import Application
from mainstem_direct_webhook.source.handover import Handover
from mainstem_direct_webhook.source.options import WebhookSourceOptions
from mainstem_direct_webhook.source.server import Server


class WebhookReceiver(Receiver):
    """Takes messages from HTTP requests; a request is answered when its messages are acknowledged."""

    options: WebhookSourceOptions

    def __init__(self, options: WebhookSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._server: Server | None = None
        self._begin()

    def _begin(self) -> None:
        self._handover = Handover(self.options.segment_bytes, self.options.segment_rows)
        self._application = Application(self.options, self._handover)

    def connect(self, cursor: str | None) -> None:
        self._begin()
        self._server = Server(self.options, self._application)

    def take(self, seconds: float) -> Iterable[Message]:
        if self._server is None or not self._server.alive:
            raise Unreachable("the server has ended")
        found = self._handover.take(seconds)
        if found:
            failpoint("webhook.taken")
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        # Of a request, the last message alone has a token; so all of them are stored.
        requests = [message.token for message in messages if message.token is not None]
        if requests and self._server is not None:
            self._server.settle(requests)

    def pause(self) -> None:
        self._application.accepting = False

    def resume(self) -> None:
        self._application.accepting = True

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def facts(self) -> dict[str, Any]:
        options = self.options
        host = f"[{options.host}]" if ":" in options.host else options.host
        answers = {str(status): n for status, n in sorted(self._application.answers.items())}
        scheme = "http" if options.tls is None else "https"
        return {"server": f"{scheme}://{host}:{options.port}", "answers": answers}
