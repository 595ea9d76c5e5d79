"""What a stream's answer to a message means for it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum, auto


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
