"""The certificates and keys of a client, as text: Java's client and librdkafka both take it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mainstem import HostTLSOptions, OptionError, Secret, option
from pydantic import model_validator

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_KEYS = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")


class KafkaTLSOptions(HostTLSOptions):
    """Options of `tls`. The files are read where the pipeline is started, and by no executor."""

    key_password: Secret | None = option(
        None,
        description="The password of an encrypted `key`, which is to be of a kind that Java reads "
        "(`openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`).",
        example="${env:KEY_PASSWORD}",
    )

    @model_validator(mode="after")
    def _password_has_key(self) -> KafkaTLSOptions:
        if self.key_password is not None and self.certificate is None:
            raise ValueError("key_password is there without certificate")
        return self

    def blocks(self) -> dict[str, str]:
        """Return what the files hold, as PEM text: `ca`, `certificate` and `key`, where given.

        Raises:
            OptionError: a file can't be read, or does not hold what it should; says which.
        """
        found = {}
        if self.ca is not None:
            found["ca"] = _certificates(self.ca, "tls.ca")
        if self.certificate is not None:
            found["certificate"] = _certificates(self.certificate, "tls.certificate")
            where = "tls.key" if self.key is not None else "tls.certificate"
            found["key"] = _key(self.key or self.certificate, where)
        return found


def _certificates(file: Path, name: str) -> str:
    found = [text for kind, text in _blocks(file, name) if kind == "CERTIFICATE"]
    if not found:
        raise OptionError(f"there is no certificate (PEM) in {file}", option=name)
    return "\n".join(found) + "\n"


def _key(file: Path, name: str) -> str:
    keys = [(kind, text) for kind, text in _blocks(file, name) if kind.endswith("PRIVATE KEY")]
    if not keys:
        raise OptionError(f"there is no private key (PEM) in {file}", option=name)
    kind, text = keys[0]
    if kind not in _KEYS:
        message = f"the key in {file} is in the form {kind!r}, which Java's client does not read"
        hint = f"Make one that it reads: openssl pkcs8 -topk8 -nocrypt -in {file} -out NEW.key"
        raise OptionError(message, option=name, hint=hint)
    return text + "\n"


def _blocks(file: Path, name: str) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise OptionError(f"can't read {file}: {error.strerror}", option=name) from None
    for match in _PEM.finditer(text):
        yield match[1], match[0]
