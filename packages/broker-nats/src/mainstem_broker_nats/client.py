"""A connection to NATS whose calls wait, each for a bounded time.

A connection has an event loop of its own, in a thread of its own, and is never made good again once it
broke: whoever uses it opens another and goes on where it knows to. So nothing that was said on a
connection can be said twice, and a caller never waits on an outage it does not know of.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from mainstem import ExternalError, PermanentError, TransientError

from mainstem_broker_nats.connection import (
    ConnectionOptions,
    api_error,
    api_of,
    check_credentials,
    login,
    places,
)
from mainstem_broker_nats.inboxes import Inbox, Raw
from mainstem_broker_nats.vendor import Client, NkeysError, errors, translated, words

__all__ = ["Answer", "Connection", "Inbox", "Raw"]

T = TypeVar("T")

#: A farewell may take so long, in seconds.
_FAREWELL = 5.0


@dataclass(frozen=True)
class Answer:
    """What a server answered: `headers` as nats-py reads them."""

    data: bytes
    headers: Mapping[str, str]


class Connection:
    """A connection to one of several servers; `open` makes one, and it can be a context.

    Attributes:
        server: `host:port` of the server.
        client: nats-py's client, for coroutines that `run` runs.
        complaints: what the server has said against what was asked, such as permissions.
    """

    def __init__(self, options: ConnectionOptions, name: str) -> None:
        logging.getLogger("nats.aio.client").setLevel(logging.CRITICAL)  # errors are told by us
        self._options = options
        self._name = options.name or name
        self._patience = options.answer_timeout.total_seconds()
        self._opening = True
        self._closed = False
        self._error: BaseException | None = None
        self.server = ""
        self.client: Client
        self.complaints: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name=f"nats {name}", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, options: ConnectionOptions, name: str, first: int = 0) -> Self:
        """Connect to the first server that answers.

        Args:
            options: of the component.
            name: what the server's monitoring shows, unless the options name it.
            first: the number of the server that is tried first, in the options' order.

        Raises:
            ExternalError: none lets us in; says of each why. Permanent if one that answered refuses, or a
                file is wrong.
        """
        made = cls(options, name)
        try:
            made._connect(first)
        except BaseException:
            made.close()
            raise
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lost(self) -> str:
        """Why the connection is no longer good; empty while it is."""
        if not self.client.is_closed:
            return ""
        error = self._error or self.client.last_error
        return words(error) if error is not None else "the server ended the connection"

    @property
    def info(self) -> Mapping[str, Any]:
        """What the server says of itself: version, max_payload, jetstream, domain, ..."""
        return self.client._server_info

    def close(self) -> None:
        """End the connection; what was written before is sent."""
        if self._closed:
            return
        client = getattr(self, "client", None)
        if client is not None:
            with suppress(ExternalError):
                self.run(client.close(), _FAREWELL)
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_FAREWELL)

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run a coroutine in the connection's loop and return its result.

        Args:
            work: what is to be done; it is cancelled when the time is over.
            seconds: how long it may take; the options' `answer_timeout` when left out.

        Raises:
            ExternalError: nats-py or the system failed, or the time is over, or `close` was called.
        """
        patience = self._patience if seconds is None else seconds
        if self._closed:
            work.close()
            raise TransientError(self._told("the connection was closed here"))
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, patience), self._loop)
        try:
            # The loop keeps the time; this is for a loop that stands still.
            return future.result(patience + _FAREWELL)
        except (errors.TimeoutError, TimeoutError):
            future.cancel()
            raise TransientError(self._told(self.lost or f"no answer for {patience:g} s")) from None
        except (errors.Error, OSError) as error:
            raise translated(error, self.server) from error

    # -- asking ---------------------------------------------------------------------------------

    def request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a message and return the first answer to it.

        Raises:
            ExternalError: no answer came, or there is nobody to answer.
        """
        patience = self._patience if seconds is None else seconds
        asking = self.client.request(
            subject, payload, patience, headers=dict(headers or {}) or None
        )
        known = len(self.complaints)
        try:
            found = self.run(asking, patience + 1.0)
        except ExternalError:
            if len(self.complaints) > known:
                raise PermanentError(self._told(self.complaints[-1])) from None
            raise
        return Answer(found.data, found.headers or {})

    def ask(
        self, verb: str, body: Mapping[str, Any] | None = None, domain: str | None = None
    ) -> dict[str, Any]:
        """Return what JetStream answers, such as to `STREAM.INFO.orders`.

        Args:
            verb: what follows `$JS.API.` in the subject.
            body: the request.
            domain: the JetStream domain, where it is not the server's own.

        Raises:
            APIError: JetStream says no.
            ExternalError: no answer came.
        """
        payload = b"" if body is None else json.dumps(body).encode()
        try:
            answer = self.request(f"{api_of(domain)}.{verb}", payload)
        except ExternalError as error:
            if isinstance(error.__cause__, errors.NoRespondersError):
                where = f"the domain {domain!r}" if domain else "this account"
                text = (
                    f"JetStream does not answer: it is off, or not there for {where}, or starting"
                )
                raise TransientError(self._told(text)) from error
            raise
        found: dict[str, Any] = json.loads(answer.data)
        wrong = found.get("error")
        if wrong:
            text = f"{wrong.get('description', 'JetStream refuses')} ({verb.split('.')[0].lower()})"
            raise api_error(self._told(text), wrong.get("code", 0), wrong.get("err_code", 0))
        return found

    # -- many messages --------------------------------------------------------------------------

    def subscribe(
        self, subject: str, queue: str = "", *, rows: int = 1 << 30, size: int = 1 << 62
    ) -> Inbox:
        """Let the messages of a subject come into an inbox, of which `rows` and `size` are the limits."""

        async def make() -> Inbox:
            inbox = Inbox(rows, size)
            await self.client.into(subject, queue, inbox)
            return inbox

        return self.run(make())

    def unsubscribe(self, inbox: Inbox) -> None:
        """Let no more messages come into an inbox; what was in flight can be taken until `forget`."""
        self.run(self.client.leave(inbox))

    def forget(self, inbox: Inbox) -> None:
        """Forget an inbox that was unsubscribed and emptied."""
        self.client.inboxes.pop(inbox.sid, None)

    def take(self, inbox: Inbox, seconds: float) -> list[Raw]:
        """Return what has come into an inbox, waiting so long at most; nothing once `lost`."""
        return self.run(inbox.take(seconds), seconds + _FAREWELL)

    def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        """Send a message, without waiting for the server to have it."""
        self.run(self.client.publish(subject, payload, reply))

    def flush(self) -> None:
        """Wait until the server has all that was published."""
        self.run(self.client.barrier(self._patience))

    # -- inside ---------------------------------------------------------------------------------

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    def _connect(self, first: int) -> None:
        options = self._options
        check_credentials(options.credentials)
        context = None
        if options.secured():
            try:
                context = options.context()
            except OSError as error:  # says which file
                raise PermanentError(str(error)) from error
        known = places(options)
        failures: list[ExternalError] = []
        for number in range(len(known)):
            self.server = known[(first + number) % len(known)]
            try:
                self.run(self._connected(context), 4 * options.connect_timeout.total_seconds())
            except ExternalError as error:
                failures.append(error)
                continue
            self._opening = False
            return
        refused = any(isinstance(failure, PermanentError) for failure in failures)
        text = "; ".join(dict.fromkeys(map(str, failures)))
        raise (PermanentError if refused else TransientError)(text)

    async def _connected(self, context: ssl.SSLContext | None) -> None:
        """Connect to one server."""
        options = self._options
        tls = options.tls
        seconds: Any = (
            options.connect_timeout.total_seconds()
        )  # nats-py takes fractions, and says int
        beat: Any = options.heartbeat.total_seconds()
        client = self.client = Client(secured=context is not None)
        more: dict[str, Any] = {}
        if context is not None:
            more = {
                "tls": context,
                "tls_hostname": tls.server_name if tls and tls.server_name else None,
                "tls_handshake_first": tls is not None and tls.first,
            }
        try:
            await client.connect(
                f"nats://{self.server}",
                name=self._name,
                error_cb=self._on_error,
                closed_cb=self._on_closed,
                allow_reconnect=False,
                connect_timeout=seconds,
                ping_interval=beat,
                max_outstanding_pings=2,
                inbox_prefix=options.inbox,
                **login(options),
                **more,
            )
        except BaseException as error:
            with suppress(Exception):  # it may be half made, and TLS that failed never says goodbye
                await asyncio.wait_for(client.close(), 1.0)
            seed = isinstance(error, NkeysError | ValueError)
            if seed and not isinstance(error, OSError):  # certificate errors are both
                raise PermanentError("the seed of the nkey is not valid") from None
            raise

    async def _on_error(self, error: Exception) -> None:
        if self._opening:
            raise error  # else nats-py would try the same server again and again
        if "permissions violation" in str(error).lower():
            self.complaints.append(words(error))
        elif self._error is None:
            self._error = error

    async def _on_closed(self) -> None:
        for inbox in list(self.client.inboxes.values()):
            inbox.end()

    def _told(self, text: str) -> str:
        return f"nats {self.server}: {text}"
