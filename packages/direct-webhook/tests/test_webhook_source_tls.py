"""HTTPS and clients' certificates; certificates are made by `cryptography`, clients are Python's `ssl`."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mainstem import PermanentError
from mainstem_direct_webhook.source.receiver import WebhookReceiver
from mainstem_testkit import wait_for
from mainstem_testkit.processes import descendants
from webhook_clients import ask, connect, options, standing

PASSWORD = "open-sesame"


class Authority:
    """Signs certificates, which it leaves as PEM files in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key, None)
        self.file = self._write(
            f"{name}.pem", self._certificate.public_bytes(serialization.Encoding.PEM)
        )

    def certificate(self, name, password=None):
        """Return the file of a new certificate and that of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._sign(name, key, f"{name}.example.com")
        hidden = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return (
            self._write(f"{self.name}-{name}.pem", made.public_bytes(pem)),
            self._write(f"{self.name}-{name}.key", key.private_bytes(pem, form, hidden)),
        )

    def _sign(self, name, key, alternative):
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(alternative is None, None), critical=True)
        )
        if alternative is not None:
            names = [x509.DNSName("localhost"), x509.DNSName(alternative)]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self._key, hashes.SHA256())

    def _write(self, name, content):
        file = self.folder / name
        file.write_bytes(content)
        return str(file)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "authority")


def context(authority, *chain):
    made = ssl.create_default_context(cafile=authority.file)
    if chain:
        made.load_cert_chain(*chain)
    return made


def tls(authority, **more):
    certificate, key = authority.certificate("server")
    return {"certificate": certificate, "key": key, **more}


@pytest.mark.in_turn
def test_https_is_served_and_http_is_not(authority):
    """Pass: a client that trusts the authority is answered; TLS 1.1, plain HTTP and others are not."""
    with standing(tls=tls(authority)) as stand:
        assert ask(stand.port, context=context(authority)).status == 200
        assert stand.receiver.facts()["server"].startswith("https://")
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(stand.port, context=ssl.create_default_context())
        old = context(authority)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(OSError):  # noqa: PT011  # by our side, or already by the client's
            ask(stand.port, context=old)
        with pytest.raises(OSError):  # noqa: PT011
            ask(stand.port)
        with connect(stand.port) as silent:  # stays in the handshake
            assert ask(stand.port, context=context(authority)).status == 200
            silent.sendall(b"\x16\x03\x01")
        assert len(stand.messages) == 2


@pytest.mark.in_turn
def test_who_does_not_end_its_handshake_is_cut_off(authority):
    """Pass: of 60 silent clients no more than `connections` are let in, those are cut off after
    `head_time`, and then others are served."""
    limits = {"head_time": "500 ms", "connections": 10}
    before = set(descendants())
    with standing(tls=tls(authority), limits=limits) as stand:
        (server,) = set(descendants()) - before
        files = Path(f"/proc/{server}/fd")
        idle = len(list(files.iterdir()))
        silent = [connect(stand.port) for _ in range(60)]
        most = max(len(list(files.iterdir())) - idle for _ in range(20))
        assert most <= 11  # one is let in to be shown out
        for each in silent:
            each.settimeout(20)
            with suppress(ConnectionError):
                assert each.recv(1) == b""
        wait_for(lambda: len(list(files.iterdir())) <= idle)
        assert ask(stand.port, context=context(authority)).status == 200
        for each in silent:
            each.close()


@pytest.mark.in_turn
def test_a_path_can_ask_for_a_certificate(authority, tmp_path):
    """Pass: let in by name and authority; none is 401, another's ends the handshake; health needs none."""
    paths = {
        "/any": {"verify": {"use": "mtls"}},
        "/one": {"verify": {"use": "mtls", "subjects": ["billing.example.com"]}},
        "/all": {"verify": {"use": "none"}},
    }
    billing = context(authority, *authority.certificate("billing"))
    other = context(authority, *authority.certificate("shop"))
    stranger = context(authority, *Authority(tmp_path, "stranger").certificate("billing"))
    nobody = context(authority)
    with standing(paths=paths, tls=tls(authority, ca=authority.file)) as stand:

        def status(path, client):
            method = "GET" if path == "/healthz" else "POST"
            return ask(stand.port, path=path, method=method, context=client).status

        assert [status(path, billing) for path in ("/any", "/one", "/all")] == [200, 200, 200]
        assert [status(path, other) for path in ("/any", "/one", "/all")] == [200, 401, 200]
        assert [status(p, nobody) for p in ("/any", "/one", "/all", "/healthz")] == [
            401,
            401,
            200,
            200,
        ]
        with pytest.raises(OSError):  # noqa: PT011
            status("/all", stranger)
        assert len(stand.messages) == 6


@pytest.mark.in_turn
def test_a_key_can_be_encrypted(authority):
    """Pass: with its password it serves; with a wrong one, or none, it ends with the files' names and
    without the password."""
    certificate, key = authority.certificate("server", PASSWORD)
    files = {"certificate": certificate, "key": key}
    with standing(tls={**files, "password": PASSWORD}) as stand:
        assert ask(stand.port, context=context(authority)).status == 200
    for more in ({}, {"password": f"{PASSWORD}!"}):
        receiver = WebhookReceiver(options(tls={**files, **more}), 0, "rows")
        with pytest.raises(PermanentError, match=r"server\.key") as error:
            receiver.connect(None)
        receiver.close()
        assert PASSWORD not in str(error.value)
