"""Verifiers: tell a sender from a forger by the head of a request and its raw body.

Every comparison takes as long for any wrong value. A request that proves nothing is refused with 401
and always the same words; that a time is too old is told only to who has signed it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from mainstem import Secret

from mainstem_direct_webhook import standard
from mainstem_direct_webhook.source import json_text
from mainstem_direct_webhook.source.answers import Answer, Refused, plain, unverified
from mainstem_direct_webhook.source.options import Place
from mainstem_direct_webhook.source.verify_options import (
    BasicVerify,
    BearerVerify,
    GitHubVerify,
    HMACVerify,
    MTLSVerify,
    NoVerify,
    SlackVerify,
    StandardVerify,
    StripeVerify,
    Verify,
)

#: Headers of a request: names in lower case; of one that comes twice, the last.
Headers = Mapping[bytes, bytes]

#: Signatures of a header that are looked at.
_MOST = 32


def once(pairs: Sequence[tuple[bytes, bytes]], headers: Headers) -> Headers:
    """Return headers, of which a verifier that asks for one that came twice refuses the request.

    Two readers could take two different ones for the signature, or for what was signed.
    """
    if len(headers) == len(pairs):
        return headers
    counts = Counter(name for name, _ in pairs)
    return _Once(headers, {name for name, count in counts.items() if count > 1})


class _Once(dict[bytes, bytes]):
    """Headers without those that came twice, which nobody can ask for."""

    def __init__(self, headers: Headers, twice: Collection[bytes]) -> None:
        super().__init__(headers)
        self._twice = twice

    def get(self, name: bytes, default: Any = None) -> Any:
        if name in self._twice:
            raise unverified()
        return super().get(name, default)


class Verifier(ABC):
    """Looks at requests to one path."""

    #: Whether it needs the body; else it is asked before that is read.
    body = True
    #: Where its senders put the id of a delivery, if they do: the first of these that is there.
    ids: tuple[Place, ...] = ()
    #: The names, in lower case, of headers that are never kept.
    never: tuple[str, ...] = ()

    @abstractmethod
    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        """Let a request in, or not.

        Args:
            headers: of the request.
            body: as it came; empty when it is not needed.
            peer: the client's certificate, as `ssl` tells it; empty if it has shown none.
            now: seconds since 1970.

        Raises:
            Refused: it proves nothing, or is too old.
        """

    def answer(self, body: bytes) -> Answer | None:
        """Return the answer to a verified request that is a question and no message."""
        return None


def make_verifier(options: Verify) -> Verifier:
    """Return the verifier that options name."""
    made: dict[type[Any], type[Any]] = {
        StandardVerify: Standard,
        GitHubVerify: GitHub,
        StripeVerify: Stripe,
        SlackVerify: Slack,
        HMACVerify: HMAC,
        BearerVerify: Bearer,
        BasicVerify: Basic,
        MTLSVerify: MutualTLS,
        NoVerify: Nothing,
    }
    found: Verifier = made[type(options)](options)
    return found


class Standard(Verifier):
    """Standard Webhooks, whose headers may have their older spelling, `svix-id` and so on."""

    ids = tuple(Place(header=names[0]) for names in standard.SPELLINGS)

    def __init__(self, options: StandardVerify) -> None:
        self._keys = [standard.read_secret(each.get_secret_value()) for each in options.secret]
        self._tolerance = options.tolerance

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        # Those of one spelling: what is of the other one is not signed.
        spelled = (
            names for names in standard.SPELLINGS if any(n.encode() in headers for n in names)
        )
        message_id, timestamp, signature = (
            headers.get(name.encode(), b"").decode("latin-1")
            for name in next(spelled, standard.SPELLINGS[0])
        )
        if not standard.verify(self._keys, message_id, timestamp, body, signature):
            raise unverified()
        _fresh(timestamp, now, self._tolerance)


class GitHub(Verifier):
    """GitHub signs the body alone: neither a time nor the delivery's id."""

    ids = (Place(header="x-github-delivery"),)

    def __init__(self, options: GitHubVerify) -> None:
        self._secrets = _raw(options.secret)

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        kind, _, given = headers.get(b"x-hub-signature-256", b"").partition(b"=")
        _signed(self._secrets, "sha256", [body], [_hex(given)] if kind == b"sha256" else [])


class Stripe(Verifier):
    """Stripe signs `time.body`, and may give several signatures."""

    ids = (Place(field="id"),)

    def __init__(self, options: StripeVerify) -> None:
        self._secrets = _raw(options.secret)
        self._tolerance = options.tolerance

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        parts = [
            part.strip().partition(b"=")[::2]
            for part in headers.get(b"stripe-signature", b"").split(b",", _MOST)[:_MOST]
        ]
        times = [each for name, each in parts if name == b"t"]
        timestamp = times[0] if len(times) == 1 else b""
        given = [_hex(each) for name, each in parts if name == b"v1"]
        _signed(self._secrets, "sha256", [timestamp, b".", body], given if timestamp else [])
        _fresh(timestamp.decode("latin-1"), now, self._tolerance)


class Slack(Verifier):
    """Slack signs `v0:time:body`."""

    ids = (Place(field="event_id"),)

    def __init__(self, options: SlackVerify) -> None:
        self._secrets = _raw(options.secret)
        self._tolerance = options.tolerance

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        timestamp = headers.get(b"x-slack-request-timestamp", b"")
        kind, _, given = headers.get(b"x-slack-signature", b"").partition(b"=")
        right = timestamp and kind == b"v0"
        parts = [b"v0:", timestamp, b":", body]
        _signed(self._secrets, "sha256", parts, [_hex(given)] if right else [])
        _fresh(timestamp.decode("latin-1"), now, self._tolerance)

    def answer(self, body: bytes) -> Answer | None:
        """Answer the check by which Slack makes sure of a URL: its challenge comes back."""
        if b'"url_verification"' not in body:
            return None
        try:
            held = json_text.value(json_text.text_of(body))
        except json_text.NotJSON:
            return None
        challenge = json_text.field(held, "challenge")
        if json_text.field(held, "type") != "url_verification" or challenge is None:
            return None
        return plain(200, challenge.encode(errors="replace"), b"text/plain")


class HMAC(Verifier):
    """Any HMAC over the body, and perhaps a time."""

    def __init__(self, options: HMACVerify) -> None:
        self._secrets = _raw(options.secret)
        self._header = options.header.lower().encode()
        self._prefix = options.prefix.encode()
        self._digest = options.digest
        self._read = _hex if options.encoding == "hex" else _base64
        self._time = None if options.timestamp is None else options.timestamp.lower().encode()
        self._tolerance = options.tolerance
        self._before, self._after = options.signed.split("{body}")
        self._id = None if options.id is None else options.id.lower().encode()
        # An id with what stands behind it would fit two requests.
        self._ends = _ENDS.split(options.signed.partition("{id}")[2])[0].encode()
        self.ids = () if options.id is None else (Place(header=options.id),)
        self.never = (options.header.lower(),)

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        timestamp = b"" if self._time is None else headers.get(self._time, b"")
        message_id = b"" if self._id is None else headers.get(self._id, b"")
        known = {b"{timestamp}": timestamp, b"{id}": message_id}
        before, after = (
            _NAMES.sub(lambda found: known[found[0]], text.encode())
            for text in (self._before, self._after)
        )
        given = headers.get(self._header, b"")
        right = given.startswith(self._prefix) and (timestamp or self._time is None)
        if self._id is not None:
            right = right and message_id and not (self._ends and self._ends in message_id)
        signatures = [self._read(given.removeprefix(self._prefix))] if right else []
        _signed(self._secrets, self._digest, [before, body, after], signatures)
        if self._time is not None:
            _fresh(timestamp.decode("latin-1"), now, self._tolerance)


_NAMES = re.compile(rb"\{timestamp\}|\{id\}")
_ENDS = re.compile(r"\{timestamp\}|\{body\}")


class Bearer(Verifier):
    """A token."""

    body = False

    def __init__(self, options: BearerVerify) -> None:
        self._tokens = _raw(options.token)

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if not _one_of(self._tokens, given.strip()) or kind.lower() != b"bearer":
            raise unverified((b"www-authenticate", b"Bearer"))


class Basic(Verifier):
    """A user and a password."""

    body = False

    def __init__(self, options: BasicVerify) -> None:
        self._pairs = [options.user.encode() + b":" + each for each in _raw(options.password)]

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if not _one_of(self._pairs, _base64(given.strip()) or b"") or kind.lower() != b"basic":
            raise unverified((b"www-authenticate", b'Basic realm="webhooks", charset="UTF-8"'))


class MutualTLS(Verifier):
    """A client's certificate; TLS itself has held it against the authority."""

    body = False

    def __init__(self, options: MTLSVerify) -> None:
        self._subjects = None if options.subjects is None else frozenset(options.subjects)

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        if not peer or (self._subjects is not None and self._subjects.isdisjoint(_names(peer))):
            raise unverified()


class Nothing(Verifier):
    """Lets everybody in."""

    body = False

    def __init__(self, options: NoVerify) -> None:
        pass

    def check(self, headers: Headers, body: bytes, peer: Mapping[str, Any], now: float) -> None:
        pass


def _raw(secrets: Iterable[Secret]) -> list[bytes]:
    return [each.get_secret_value().encode() for each in secrets]


def _signed(
    secrets: Iterable[bytes], digest: str, parts: Sequence[bytes], given: Iterable[bytes | None]
) -> None:
    """Refuse unless one of the given signatures is that of one of the secrets."""
    signatures = [each for each in given if each is not None]
    content = b"".join(parts)
    found = False
    for secret in secrets:
        expected = hmac.digest(secret, content, digest)
        for signature in signatures:
            found |= hmac.compare_digest(expected, signature)
    if not found:
        raise unverified()


def _one_of(known: Iterable[bytes], given: bytes) -> bool:
    found = False
    for each in known:
        found |= hmac.compare_digest(each, given)
    return found


def _fresh(timestamp: str, now: float, tolerance: timedelta) -> None:
    """Refuse a signed time that is too far from now."""
    number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
    if not number or abs(now - int(timestamp)) > tolerance.total_seconds():
        raise Refused(400, "The signed time is too far from the server's.")


def _hex(text: bytes) -> bytes | None:
    try:
        return binascii.unhexlify(text)
    except binascii.Error:
        return None


def _base64(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _names(peer: Mapping[str, Any]) -> set[str]:
    """Return the common names and the alternative names of a certificate."""
    found = {
        value for part in peer.get("subject", ()) for name, value in part if name == "commonName"
    }
    return found | {value for _, value in peer.get("subjectAltName", ())}
