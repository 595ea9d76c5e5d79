"""The only module that imports nats-py: its client with what it lacks, and its errors in our words."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import nats.errors as errors
from mainstem import ExternalError, PermanentError, TransientError
from nats.aio.client import Client as NATSClient
from nkeys import NkeysError  # type: ignore[import-untyped]

from mainstem_broker_nats.inboxes import Inbox, Raw

__all__ = ["Client", "NkeysError", "errors", "translated", "words"]

#: Replies of a server that retrying does not change.
_REFUSALS = (
    "authorization violation", "authentication expired", "authentication revoked",
    "invalid client protocol", "secure connection - tls required", "credentials have been revoked",
)  # fmt: skip


class Client(NATSClient):
    """nats-py's client, which hands whole subscriptions to inboxes and never speaks in the clear
    where TLS is wanted.
    """

    def __init__(self, *, secured: bool) -> None:
        super().__init__()
        self._secured = secured
        self.inboxes: dict[int, Inbox] = {}

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._secured and info.get("tls_available"):
            info["tls_required"] = True  # offered, and wanted by us
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        # The first thing that is said, with the password in it.
        asked = self._server_info.get("tls_required") or self.options["tls_handshake_first"]
        if self._secured and not asked:
            raise errors.SecureConnWantedError
        return super()._connect_command()

    async def _process_err(self, err_msg: str) -> None:
        # nats-py's parser makes it lower case, and still has the line: subjects differ by case.
        said = self._ps.buf.partition(b"\r\n")[0].decode().removeprefix("-ERR").strip()
        if "permissions violation" in err_msg and said.lower() == err_msg:
            await self._error_cb(errors.Error(f"nats: {said}"))
        else:
            await super()._process_err(err_msg)

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        inbox = self.inboxes.get(sid)
        if inbox is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            inbox.put(Raw(subject, reply, data, headers))

    async def into(self, subject: str, queue: str, inbox: Inbox) -> None:
        """Subscribe, so that messages go into an inbox; none comes before it is known."""
        inbox.sid = self._sid + 1
        self.inboxes[inbox.sid] = inbox
        await self.subscribe(subject, queue)

    async def barrier(self, seconds: Any) -> None:
        """Wait until the server has all that was published, and every change of subscriptions.

        Unlike `flush`, whose ping overtakes what nats-py has not written yet. It has when the answer to a
        first ping is there, so a second one comes after it.
        """
        await self.flush(seconds)
        await self.flush(seconds)

    async def leave(self, inbox: Inbox) -> None:
        """Unsubscribe; what has come can be taken still."""
        subscription = self._subs.get(inbox.sid)
        if subscription is not None:
            await subscription.unsubscribe()


def translated(error: BaseException, server: str) -> ExternalError:
    """Return an error of nats-py's or of the system's as one of ours."""
    if isinstance(error, errors.SecureConnWantedError):
        return PermanentError(f"nats {server}: the server does not speak TLS")
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"its certificate is not trusted: {error.verify_message or error.reason}"
        return PermanentError(f"nats {server}: {text}")
    text = words(error)
    refused = any(reply in text.lower() for reply in _REFUSALS)
    if isinstance(error, ssl.SSLError) and "certificate" in text.lower():
        refused = True
    return (PermanentError if refused else TransientError)(f"nats {server}: {text}")


def words(error: BaseException) -> str:
    """Return what is wrong in one line."""
    if isinstance(error, errors.NoRespondersError):
        return "nobody answers on that subject"
    if isinstance(error, errors.UnexpectedEOF):
        return "the server ended the connection"
    if isinstance(error, asyncio.TimeoutError) or type(error) is TimeoutError:
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    text = str(error).removeprefix("nats: ").strip().strip("'\"")
    return text or type(error).__name__
