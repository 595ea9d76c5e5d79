"""What pika's errors mean: which of them no retry can mend, and in which words."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

_REPLY = re.compile(r"\((\d{3})\) (['\"])(.*)\2", re.DOTALL)

#: Replies that begin like the permanent ones and pass with time: (code, part of the text).
_TRANSIENT = (
    (404, "is down or inaccessible"),  # a queue's node
    (406, "timed out"),  # a delivery that was not acknowledged in time
    (406, "unknown delivery tag"),  # of a channel before
    (530, "limit"),  # connections of a user or a vhost
)


def permanent(error: BaseException) -> str | None:
    """Return why no retry can mend an error of pika's, in words without secrets; None if one may.

    Wrong credentials, a vhost or exchange or queue that is not there or must not be touched, a
    declaration that differs from what is there, a certificate that is not trusted. Errors that pika
    wraps (`AMQPConnectionWorkflowFailed`) are looked into.
    """
    return next((found for e in _unwrapped(error) if (found := _permanent(e))), None)


def _permanent(error: BaseException) -> str | None:
    from pika import exceptions

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted: {error.verify_message or error.reason}"
    if isinstance(error, exceptions.AuthenticationError):
        return "the broker offers no way to log in by user and password"
    reply = _reply(error)
    if reply is None:
        return None
    code, text = reply
    if any(code == passing and part in text for passing, part in _TRANSIENT):
        return None
    if isinstance(error, exceptions.ProbableAuthenticationError) and code == 403:
        return f"the broker refuses the user or the password: {code} {text}"
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return f"the broker refuses the vhost: {code} {text}"
    meaning = {
        402: "the broker refuses a path",
        403: "the user lacks a permission",
        404: "it is not there",
        406: "it is otherwise on the broker",
        530: "the broker does not allow it",
        540: "the broker can't do it",
    }.get(code)
    return f"{meaning}: {code} {text}" if meaning else None


def words(error: BaseException) -> str:
    """Return what is wrong in one line, without secrets; pika's own texts are nested reprs."""
    texts = []
    for inner in _unwrapped(error):
        reply = _reply(inner)
        if reply is not None:
            texts.append(f"{reply[0]} {reply[1]}")
        elif isinstance(inner, socket.gaierror):
            texts.append(f"name not known: {inner.strerror}")
        elif isinstance(inner, OSError):
            texts.append(inner.strerror or str(inner) or type(inner).__name__)
        else:
            texts.append(": ".join([type(inner).__name__, *map(str, inner.args)]))
    return " ".join("; ".join(dict.fromkeys(texts)).split()) or type(error).__name__


def _unwrapped(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that one of pika's stands for, none of them a wrapper."""
    from pika.adapters.utils import connection_workflow as workflow

    if isinstance(error, workflow.AMQPConnectionWorkflowFailed):
        inside: tuple[object, ...] = error.exceptions
    elif isinstance(error, workflow.AMQPConnectorPhaseErrorBase):
        inside = (error.exception,)
    else:
        inside = error.args
    inner = [e for e in inside if isinstance(e, BaseException)]
    for one in inner:
        yield from _unwrapped(one)
    if not inner:
        yield error


def _reply(error: BaseException) -> tuple[int, str] | None:
    """Return code and text of the broker's farewell, also where pika has only its repr.

    A stream that ended during the log in is `ProbableAuthenticationError` too, but without a reply:
    RabbitMQ says 403 when it means it.
    """
    code: Any = getattr(error, "reply_code", None)
    if isinstance(code, int):
        return code, str(getattr(error, "reply_text", ""))
    from pika import exceptions

    if isinstance(
        error, exceptions.ProbableAuthenticationError | exceptions.ProbableAccessDeniedError
    ):
        found = _REPLY.search(str(error.args[0]) if error.args else "")
        if found:
            return int(found[1]), found[3]
    return None
