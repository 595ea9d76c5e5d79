"""Handshakes: requests by which senders make sure of a path. What is echoed is plain text, and short."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs

from mainstem_direct_webhook.source.answers import Answer, plain, unverified
from mainstem_direct_webhook.source.verify_options import (
    CloudEventsHandshake,
    GraphHandshake,
    Handshake,
    MetaHandshake,
)

#: Given method, query and headers; returns the answer, None to what is no handshake.
Greet = Callable[[str, bytes, Mapping[bytes, bytes]], Answer | None]

_LONGEST = 4096


def make_handshake(options: Handshake | None) -> Greet | None:
    """Return what answers the handshakes that options name."""
    if options is None:
        return None
    if isinstance(options, MetaHandshake):
        return _meta(options.token.get_secret_value())
    if isinstance(options, GraphHandshake):
        return _graph
    if isinstance(options, CloudEventsHandshake):
        return _cloudevents(options)
    return _reachable


def _meta(token: str) -> Greet:
    def greet(method: str, query: bytes, headers: Mapping[bytes, bytes]) -> Answer | None:  # noqa: ARG001
        if method != "GET":
            return None
        given = _parameters(query)
        right = hmac.compare_digest(given.get("hub.verify_token", "").encode(), token.encode())
        if given.get("hub.mode") != "subscribe" or not right:
            raise unverified()
        return _echo(given.get("hub.challenge", ""))

    return greet


def _graph(method: str, query: bytes, headers: Mapping[bytes, bytes]) -> Answer | None:
    if method != "POST" or headers.get(b"content-length", b"0") != b"0":
        return None
    if b"transfer-encoding" in headers:
        return None
    token = _parameters(query).get("validationToken")
    return None if token is None else _echo(token)


def _cloudevents(options: CloudEventsHandshake) -> Greet:
    def greet(method: str, query: bytes, headers: Mapping[bytes, bytes]) -> Answer | None:  # noqa: ARG001
        if method != "OPTIONS":
            return None
        origin = headers.get(b"webhook-request-origin", b"").strip()
        known = options.origins is None or origin.decode("latin-1") in options.origins
        if not origin or not known:
            raise unverified()
        rate = b"*" if options.rate is None else b"%d" % options.rate
        allowed = [
            (b"allow", b"OPTIONS, POST"),
            (b"webhook-allowed-origin", origin),
            (b"webhook-allowed-rate", rate),
            (b"content-length", b"0"),
        ]
        return Answer(200, allowed)

    return greet


def _reachable(method: str, query: bytes, headers: Mapping[bytes, bytes]) -> Answer | None:  # noqa: ARG001
    return Answer(200, [(b"content-length", b"0")]) if method in ("GET", "HEAD") else None


def _parameters(query: bytes) -> dict[str, str]:
    """Return the parameters of a query; of one that comes twice, the first.

    Raises:
        Refusal: there are too many.
    """
    try:
        found = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)
    except ValueError:  # too many
        raise unverified() from None
    return {name: values[0] for name, values in found.items()}


def _echo(text: str) -> Answer:
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise unverified()
    answer = plain(200, text.encode(), b"text/plain")
    return answer._replace(headers=[*answer.headers, (b"x-content-type-options", b"nosniff")])
