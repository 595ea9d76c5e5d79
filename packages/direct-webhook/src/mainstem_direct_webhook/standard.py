"""Standard Webhooks: reads secrets, signs messages and verifies signatures.

The specification is at https://www.standardwebhooks.com. What is signed is `id.timestamp.body`, the
body as raw bytes. The header `webhook-signature` holds signatures with a space between them:

=========  ===============  ==================================================
signature  method           secrets
=========  ===============  ==================================================
`v1,...`   HMAC-SHA256      `whsec_`: signs and verifies
`v1a,...`  ed25519          `whsk_`: signs and verifies; `whpk_`: verifies
=========  ===============  ==================================================

An id may have a `.` in it. So that one signature never fits two messages, a timestamp has ten digits
(2001 to 2286), and no part of an id behind a `.` is such a number.

Freshness of the timestamp, and whether an id was seen before, are for the caller to judge.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

#: The names of the headers, in lower case.
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"

#: These, and how they were spelled before there was a standard.
SPELLINGS = ((ID, TIMESTAMP, SIGNATURE), ("svix-id", "svix-timestamp", "svix-signature"))

#: Signatures of a header that are looked at; a sender in the middle of a rotation has two or three.
MOST_SIGNATURES = 32

#: The timestamp in what is signed: the first part that can be one.
_TIME = re.compile(rb"\.([1-9][0-9]{9})\.")

_PUBLIC_BYTES = _SEED_BYTES = 32
_LEAST_HMAC_BYTES = 24


class SecretError(ValueError):
    """A text is no secret of Standard Webhooks, or one that can't do what is asked of it.

    The message has nothing of the secret.
    """


class Key(ABC):
    """A secret that was read by `read_secret`; no repr shows it."""

    #: What its signatures begin with, and what the secret's text begins with.
    version: ClassVar[str]
    prefix: ClassVar[str]

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __repr__(self) -> str:
        return f"{type(self).__name__}(**********)"

    def __reduce__(self) -> tuple[type[Key], tuple[bytes]]:
        return type(self), (self._raw,)

    @abstractmethod
    def sign(self, content: bytes) -> bytes:
        """Return the signature of `id.timestamp.body`.

        Raises:
            SecretError: this secret only verifies.
        """

    @abstractmethod
    def verify(self, content: bytes, signatures: Iterable[bytes]) -> bool:
        """Whether one of the signatures is this secret's; takes as long for any wrong one."""


class HMACKey(Key):
    """A secret that both sides have (`whsec_`)."""

    version, prefix = "v1", "whsec_"

    def sign(self, content: bytes) -> bytes:
        return hmac.digest(self._raw, content, "sha256")

    def verify(self, content: bytes, signatures: Iterable[bytes]) -> bool:
        expected = self.sign(content)
        found = False
        for signature in signatures:
            found |= hmac.compare_digest(expected, signature)
        return found


class PublicKey(Key):
    """What a receiver has of an ed25519 key (`whpk_`)."""

    version, prefix = "v1a", "whpk_"

    def sign(self, content: bytes) -> bytes:
        raise SecretError("a public key (whpk_) can't sign; the sender's secret begins with whsk_")

    def verify(self, content: bytes, signatures: Iterable[bytes]) -> bool:
        from cryptography.exceptions import InvalidSignature

        for signature in signatures:
            try:
                self._public.verify(signature, content)
            except InvalidSignature:
                continue
            return True
        return False

    @cached_property
    def _public(self) -> Ed25519PublicKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return Ed25519PublicKey.from_public_bytes(self._raw)


class PrivateKey(PublicKey):
    """An ed25519 key of a sender (`whsk_`): its seed, perhaps with the public key after it."""

    prefix = "whsk_"

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._raw[:_SEED_BYTES])

    @cached_property
    def _public(self) -> Ed25519PublicKey:
        return self._private.public_key()


def read_secret(text: str) -> Key:
    """Read a secret: `whsec_`, `whsk_` or `whpk_`, and base64 after it.

    Raises:
        SecretError: it is none; the message has nothing of it.
    """
    text = text.strip()
    for kind in (HMACKey, PrivateKey, PublicKey):
        if text.startswith(kind.prefix):
            encoded = text.removeprefix(kind.prefix).rstrip("=")
            raw = _decoded(encoded + "=" * (-len(encoded) % 4))  # some leave the padding out
            if raw is None:
                raise SecretError(f"what comes after {kind.prefix} is not base64")
            _check(kind, raw)
            return kind(raw)
    raise SecretError("expected a secret that begins with whsec_, whsk_ or whpk_, then base64")


def sign(key: Key, message_id: str, timestamp: int, body: bytes) -> str:
    """Return one signature as the header holds it, `v1,...` or `v1a,...`.

    Args:
        key: of `read_secret`.
        message_id: goes into `webhook-id`: visible ASCII, without ten digits behind a `.`.
        timestamp: goes into `webhook-timestamp`: seconds since 1970, ten digits.
        body: the raw body.

    Raises:
        SecretError: the key can't sign.
        ValueError: the id can't be told from the timestamp, or has what a header can't hold; the
            timestamp is out of range.
    """
    content = _content(message_id, str(timestamp), body)
    if content is None:
        raise ValueError(
            f"can't sign: the id must be visible ASCII, without ten digits behind a `.`, and the "
            f"timestamp ten digits of seconds since 1970, got {message_id[:80]!r} and {timestamp!r}"
        )
    return f"{key.version},{base64.b64encode(key.sign(content)).decode()}"


def verify(
    keys: Iterable[Key], message_id: str, timestamp: str | int, body: bytes, header: str
) -> bool:
    """Whether one of the signatures in a header was made by one of the keys.

    An id with ten digits behind a `.`, and a timestamp of other than ten, are false: with them, one
    signature would fit two messages. So are signatures after the 32nd.

    Args:
        keys: of `read_secret`; more than one while secrets are changed.
        message_id: as in the header `webhook-id`.
        timestamp: as in the header `webhook-timestamp`.
        body: the raw body.
        header: the header `webhook-signature`.
    """
    content = _content(message_id, str(timestamp), body)
    if content is None:
        return False
    given: dict[str, list[bytes]] = {}
    for part in header.split(" ", MOST_SIGNATURES)[:MOST_SIGNATURES]:
        version, _, encoded = part.partition(",")
        if (raw := _decoded(encoded)) is not None:
            given.setdefault(version, []).append(raw)
    found = False
    for key in keys:
        found |= key.verify(content, given.get(key.version, ()))
    return found


def _content(message_id: str, timestamp: str, body: bytes) -> bytes | None:
    """Return what is signed; None if the parts could not be told apart, or not be in headers."""
    visible = message_id.isascii() and message_id.isprintable() and " " not in message_id
    if not message_id or not visible or not timestamp.isascii():
        return None
    head = b"%s.%s." % (message_id.encode(), timestamp.encode())
    first = _TIME.search(head)
    if first is None or first.end() != len(head) or first[1] != timestamp.encode():
        return None
    return head + body


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None


def _check(kind: type[Key], raw: bytes) -> None:
    """Raise SecretError if the bytes have no length of a secret of this kind."""
    if kind is HMACKey and len(raw) < _LEAST_HMAC_BYTES:
        raise SecretError(
            f"the secret holds {len(raw)} bytes; whsec_ asks for {_LEAST_HMAC_BYTES} or more"
        )
    if kind is PublicKey and len(raw) != _PUBLIC_BYTES:
        raise SecretError(f"the key holds {len(raw)} bytes; whpk_ asks for {_PUBLIC_BYTES}")
    if kind is PrivateKey:
        if len(raw) not in (_SEED_BYTES, _SEED_BYTES + _PUBLIC_BYTES):
            raise SecretError(f"the key holds {len(raw)} bytes; whsk_ asks for 32 or 64")
        if raw[_SEED_BYTES:] and kind(raw)._public.public_bytes_raw() != raw[_SEED_BYTES:]:
            raise SecretError(
                "the second half of the key (whsk_) is not the public key of the first"
            )
