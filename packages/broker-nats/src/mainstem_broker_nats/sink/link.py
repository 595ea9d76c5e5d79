"""One connection on which messages go out and answers to them come in.

nats-py has `publish_async`, a future for each message; but an answer that is an error raises inside of
it, and leaves the future waiting for ever. So messages are framed here, many are written at a time, and
each asks for its answer on a subject that ends in its number.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from mainstem_broker_nats.connection import ConnectionOptions

if TYPE_CHECKING:
    from mainstem_broker_nats.client import Connection, Raw
    from mainstem_broker_nats.sink.messages import Message


class Verdict(Enum):
    """What is to be done with a message that was not taken."""

    #: Send it again: the stream can't take it for now.
    AGAIN = auto()
    #: It is refused, and will ever be.
    REFUSED = auto()
    #: As `REFUSED`, because the sequence it expected is not the last.
    CONFLICT = auto()
    #: The stream has it already.
    KNOWN = auto()
    #: The stream takes no message at all.
    NEVER = auto()


# JetStream's own numbers (server/errors.json of nats-server).
_WRONG_SEQUENCE = {10071, 10164}
# What the message itself is refused for. All that is not here may pass, whatever its code: an account at
# its limit answers with 400, a stream that can't keep up with 429.
_PER_MESSAGE = {
    10054, 10097,  # message or headers too large
    10060,  # of another stream
    10070,  # the id that it expected is not the last
    10111,  # a rollup that the stream does not allow
    10165, 10166,  # its time to live
    10168, 10169, 10170, 10171, 10172,  # its place in a counter
    10188, 10189, 10190, 10191, 10192, 10203, 10212, 10223,  # its schedule
}  # fmt: skip
_WHOLE_STREAM = {
    10035,  # no such account
    10039, 10076,  # JetStream is not there for the account
    10059,  # no such stream
    10109,  # sealed
}  # fmt: skip
_STORE_FAILED = 10077
_FORBIDDEN = re.compile(r"permissions violation for publish to \"([^\"]*)", re.IGNORECASE)


def is_acknowledged(data: bytes) -> bool:
    """Return whether an answer is an acknowledgement."""
    return bool(data) and b'"error":' not in data  # a stream may have the name `error`


def is_known(data: bytes) -> bool:
    """Return whether an acknowledgement says that the message was there already."""
    return b'"duplicate":' in data


def judge(data: bytes, headers: bytes | None) -> tuple[Verdict, str]:
    """Return what an answer that is no acknowledgement means, and the reason in words.

    Args:
        data: the answer's body.
        headers: the answer's header lines; a status alone if nobody listens on the subject.
    """
    if not data:
        status = (headers or b"").partition(b"\r\n")[0].decode(errors="replace")
        if " 503" in status:
            return Verdict.AGAIN, "no stream answers on the subject (is JetStream starting?)"
        return Verdict.AGAIN, f"an answer without an acknowledgement: {status or 'empty'}"
    try:
        error = json.loads(data)["error"]
        number = int(error.get("err_code", 0))
        text = f"{error.get('description', 'JetStream refuses')} ({number})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return Verdict.AGAIN, f"an answer that is no acknowledgement: {data[:80]!r}"
    if number in _WRONG_SEQUENCE:
        return Verdict.CONFLICT, text
    if number in _WHOLE_STREAM:
        return Verdict.NEVER, text
    # A stream that is full may be emptied; a subject that has all it may have is full on purpose.
    if number in _PER_MESSAGE or (number == _STORE_FAILED and "per subject" in text):
        return Verdict.REFUSED, text
    return Verdict.AGAIN, text


def forbidden(complaints: Sequence[str]) -> dict[str, str]:
    """Return the subjects that the user may not publish to, each with the reason in words.

    A message of such a subject has no answer.

    Args:
        complaints: what the server has said.
    """
    found = (each[1] for text in complaints for each in _FORBIDDEN.finditer(text))
    return {subject: f"the user may not publish to subject {subject!r}" for subject in found}


#: Bytes that are gathered before they are written.
_PIECE = 128 * 1024


class Link:
    """Publishes with and without answers; made by `open`.

    Attributes:
        connection: for requests beside.
        max_payload: bytes of headers and body that the server takes.
    """

    def __init__(self, connection: Connection, options: ConnectionOptions) -> None:
        self.connection = connection
        self._patience = options.answer_timeout.total_seconds()
        self.max_payload = int(connection.info.get("max_payload") or 1024 * 1024)
        self._answers = f"{options.inbox}.{uuid.uuid4().hex}.".encode()
        self._inbox = connection.subscribe(self._answers.decode() + "*")
        self._pieces: list[bytes] = []
        self._size = 0
        self._complaints = 0

    @classmethod
    def open(cls, options: ConnectionOptions, name: str, first: int = 0) -> Link:
        """Connect.

        Raises:
            ExternalError: no server lets us in.
        """
        from mainstem_broker_nats.client import Connection

        connection = Connection.open(options, name, first)
        try:
            return cls(connection, options)
        except BaseException:
            connection.close()
            raise

    @property
    def full(self) -> bool:
        """Whether there is so much to be written that it should be."""
        return self._size > _PIECE

    @property
    def lost(self) -> str:
        """Why the connection is no longer good; empty while it is."""
        return self.connection.lost

    def forbidden(self) -> dict[str, str]:
        """Return the subjects that the server has refused since this was last asked, each with why.

        Messages of such a subject get no answer.
        """
        complaints = self.connection.complaints
        new, self._complaints = complaints[self._complaints :], len(complaints)
        return forbidden(new)

    def fits(self, message: Message) -> str:
        """Return why the server would not take a message, or an empty string."""
        if message.size <= self.max_payload:
            return ""
        return f"headers and value have {message.size:,} bytes, and the server takes {self.max_payload:,}"

    def put(self, message: Message, number: int | None = None) -> None:
        """Add a message to what will be written; with a number, its answer is asked for."""
        head, body = message.head, message.body
        subject = message.subject.encode()
        answer = b"" if number is None else b"%b%d " % (self._answers, number)
        if head:
            size = len(head)
            line = b"HPUB %b %b%d %d\r\n" % (subject, answer, size, size + len(body))
        else:
            line = b"PUB %b %b%d\r\n" % (subject, answer, len(body))
        self._pieces += (line, head, body, b"\r\n")
        self._size += len(line) + len(head) + len(body)

    def poll(self, seconds: float, enough: int = 1) -> list[tuple[int, bytes, bytes | None]]:
        """Write what was put and return the answers that came: number, data, header lines.

        Args:
            seconds: how long to wait for answers at most.
            enough: how many answers end the waiting.

        Raises:
            ExternalError: the server takes nothing.
        """
        pieces, self._pieces, self._size = self._pieces, [], 0
        found = self.connection.run(
            self._exchange(b"".join(pieces), seconds, enough), seconds + self._patience
        )
        skip = len(self._answers)
        return [(int(raw.subject[skip:]), raw.data, raw.headers) for raw in found]

    async def _exchange(self, data: bytes, seconds: float, enough: int) -> list[Raw]:
        if data:
            # nats-py frames each message by itself, and looks at its subject and headers once more.
            client = self.connection.client
            await client._send_command(data)
            await client._flush_pending()
        until = time.monotonic() + seconds
        found = await self._inbox.take(seconds)
        while 0 < len(found) < enough and (left := until - time.monotonic()) > 0:
            more = await self._inbox.take(left)
            if not more:
                break
            found += more
        return found

    def flush(self) -> None:
        """Write what was put, and wait until the server has it.

        Raises:
            ExternalError: it does not say so in time.
        """
        self.poll(0)
        self.connection.flush()

    def close(self) -> None:
        """End the connection; answers that have not come are not waited for."""
        self._pieces = []
        self.connection.close()
