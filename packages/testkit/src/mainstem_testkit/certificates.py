"""Certificates for tests of TLS, as strict clients want them (Python's from 3.13 on)."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_AUTHORITY = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")


def make_certificates(folder: Path, names: Mapping[str, str], **subjects: str) -> None:
    """Make two authorities, `ca` and `other`, and certificates of the first; needs `openssl`.

    Args:
        folder: made if it is not there; each certificate is `<name>.pem` in it, its key `<name>.key`.
        names: by the certificate's name, whom it is for: `DNS:localhost`, `IP:127.0.0.1`.
        subjects: by the certificate's name, the common name, if that is another.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    def key(name: str) -> tuple[str, ...]:
        return ("-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key")

    for name in ("ca", "other"):
        about = ("-subj", f"/CN=test {name}", "-days", "2", *_AUTHORITY)
        openssl("req", "-x509", *key(name), *about, "-out", f"{name}.pem")
    for name, whom in names.items():
        subject = f"/CN={subjects.get(name, name)}"
        openssl("req", "-new", *key(name), "-subj", subject, "-out", f"{name}.csr")
        more = folder / f"{name}.extensions"
        more.write_text(f"subjectAltName={whom}\nauthorityKeyIdentifier=keyid\n")
        by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        given = ("-extfile", more.name, "-out", f"{name}.pem")
        openssl("x509", "-req", "-in", f"{name}.csr", *by, *given)


def server_context(folder: Path, name: str, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    """Return how a server encrypts that has a certificate of `make_certificates`.

    Args:
        folder: where that is.
        name: the certificate's.
        protocols: what the server speaks, by ALPN's names, such as `h2`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context
