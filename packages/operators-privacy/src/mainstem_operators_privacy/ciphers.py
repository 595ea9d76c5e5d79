"""Values and the keys they are encrypted with. AES-SIV (RFC 5297) throughout: the same value of a subject
gives the same text, so that a batch that is worked on again writes what it wrote.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

#: Before each encrypted text: the form of what follows.
FORM = b"m1."
_KEY = 64


class SealError(ValueError):
    """A text can't be decrypted; says why."""


class Cipher:
    """Encrypts and decrypts what belongs to one subject.

    Args:
        key: the subject's, 64 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._siv = AESSIV(key)

    def seal(self, value: bytes, kind: bytes) -> bytes:
        """Return a value encrypted, as text."""
        # Nothing can't be encrypted by this construction.
        made = self._siv.encrypt(b"\1" + value, [kind])
        return FORM + base64.urlsafe_b64encode(made)

    def unseal(self, text: bytes, kind: bytes) -> bytes:
        """Return what was encrypted.

        Raises:
            SealError: it was not, or with another key or of another type, or it has changed.
        """
        if not text.startswith(FORM):
            raise SealError("it is not encrypted")
        try:
            made = base64.b64decode(text[len(FORM) :], altchars=b"-_", validate=True)
            if base64.urlsafe_b64encode(made) != text[len(FORM) :]:
                raise ValueError("another text for the same bytes")
            return self._siv.decrypt(made, [kind])[1:]
        except (binascii.Error, ValueError, InvalidTag):
            raise SealError(
                f"it does not decrypt as {kind.decode().upper()} with its subject's key: that is "
                "another type or key, or it has changed"
            ) from None


class Master:
    """Hides the names of subjects, and encrypts their keys.

    Args:
        master: 32 bytes.
    """

    def __init__(self, master: bytes) -> None:
        self._names = hmac.digest(master, b"mainstem: names of subjects", hashlib.sha512)
        self._siv = AESSIV(hmac.digest(master, b"mainstem: keys of subjects", hashlib.sha512))
        #: The same of no other master.
        self.mark = hmac.digest(master, b"mainstem: which master", hashlib.sha256)

    def name(self, subject: bytes) -> str:
        """Return what a subject is called where keys are kept: 64 hexadecimal digits."""
        return hmac.digest(self._names, subject, hashlib.sha256).hex()

    def new_key(self, name: str) -> bytes:
        """Return a new key of a subject, encrypted."""
        return self._siv.encrypt(secrets.token_bytes(_KEY), [name.encode()])

    def key(self, name: str, sealed: bytes) -> bytes:
        """Return a subject's key.

        Raises:
            SealError: it was encrypted with another master.
        """
        try:
            return self._siv.decrypt(sealed, [name.encode()])
        except (ValueError, InvalidTag):
            raise SealError("a subject's key was encrypted with another `master`") from None
