"""A Kafka node that lets in who has a password, a certificate or a token."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from mainstem_broker_kafka.testing import Kafka
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.server import free_port

USER, PASSWORD = "reader", 'p"a\\ss=w;ord $x'
CLIENT, CLIENT_SECRET = "the-job", "hush-secret"
_LOGINS = "org.apache.kafka.common.security"
_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


class SecuredKafka(Kafka):
    """Listens four times: plainly, by password or token, by password over TLS, and by certificate.

    The certificate of the listener for passwords carries a name that is not its own.
    """

    name = "kafka_secured"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sasl_port, self.sasl_ssl_port, self.ssl_port = free_port(), free_port(), free_port()
        self.certificates = self.folder / "certificates"
        names = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
        ports = (self.sasl_port, self.sasl_ssl_port, self.ssl_port)
        listeners = [f"{n}://127.0.0.1:{p}" for n, p in zip(names, ports, strict=True)]
        self._properties = {
            "listeners": ",".join(["{plain}", *listeners]),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            + ",".join(f"{name}:{name}" for name in names),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.certificates}/ca.pem",
            "listener.name.ssl.ssl.keystore.location": f"{self.certificates}/server-whole.pem",
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.sasl_ssl.ssl.keystore.location": f"{self.certificates}/named-whole.pem",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        }
        escaped = PASSWORD.replace("\\", "\\\\\\\\").replace('"', '\\\\"')
        for listener in ("sasl_plaintext", "sasl_ssl"):
            at = f"listener.name.{listener}"
            self._properties |= {
                f"{at}.plain.sasl.jaas.config": f'{_LOGINS}.plain.PlainLoginModule required user_{USER}="{escaped}";',
                f"{at}.scram-sha-256.sasl.jaas.config": f"{_LOGINS}.scram.ScramLoginModule required;",
                f"{at}.scram-sha-512.sasl.jaas.config": f"{_LOGINS}.scram.ScramLoginModule required;",
                f"{at}.oauthbearer.sasl.jaas.config": f"{_LOGINS}.oauthbearer.OAuthBearerLoginModule required;",
                f"{at}.oauthbearer.sasl.server.callback.handler.class": f"{_LOGINS}.oauthbearer.OAuthBearerValidatorCallbackHandler",
                f"{at}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.jwks.as_uri(),
                f"{at}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
                f"{at}.oauthbearer.sasl.oauthbearer.expected.issuer": "the-issuer",
            }

    @property
    def jwks(self):
        return self.folder / "jwks.json"

    def prepare(self):
        names = {"server": "IP:127.0.0.1", "named": "DNS:kafka.test", "client": "DNS:client"}
        make_certificates(self.certificates, names)
        for name in names:
            whole = [(self.certificates / f"{name}.{kind}").read_text() for kind in ("key", "pem")]
            (self.certificates / f"{name}-whole.pem").write_text("".join(whole))
        self._openssl(
            "pkcs8",
            "-topk8",
            "-v1",
            "PBE-SHA1-3DES",
            "-in",
            "client.key",
            "-out",
            "locked.key",
            "-passout",
            "pass:open sesame",
        )
        self._openssl("rsa", "-in", "client.key", "-traditional", "-out", "old.key")
        modulus = (
            self._openssl("rsa", "-in", "other.key", "-noout", "-modulus").strip().partition("=")[2]
        )
        key = {
            "kty": "RSA",
            "kid": "one",
            "use": "sig",
            "alg": "RS256",
            "e": "AQAB",
            "n": _base64(bytes.fromhex(modulus)),
        }
        self.jwks.write_text(json.dumps({"keys": [key]}))
        super().prepare()

    def command(self):
        argv, env = super().command()
        allowed = f"org.apache.kafka.sasl.oauthbearer.allowed.urls={self.jwks.as_uri()}"
        return [argv[0], f"-D{allowed}", *argv[1:]], env

    def start(self):
        super().start()
        admin = AdminClient({"bootstrap.servers": self.url})
        users = [
            UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
            )
            for mechanism in _MECHANISMS.values()
        ]
        for each in users:  # one change of a user at a time
            for future in admin.alter_user_scram_credentials([each]).values():
                future.result(20)

    def servers(self, listener):
        ports = {"sasl": self.sasl_port, "sasl_ssl": self.sasl_ssl_port, "ssl": self.ssl_port}
        return f"127.0.0.1:{ports[listener]}"

    def tls(self, **changes):
        """Return the options `tls` of a client that the server lets in; None leaves one out."""
        made = self.certificates
        right = {
            "ca": f"{made}/ca.pem",
            "certificate": f"{made}/client.pem",
            "key": f"{made}/client.key",
        }
        return {k: v for k, v in {**right, **changes}.items() if v is not None}

    @contextmanager
    def tokens(self):
        """Serve an endpoint that gives tokens to `CLIENT`; gives its URL and the list of what was asked."""
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler):  # noqa: N805
                length = int(handler.headers.get("Content-Length", 0))
                form = parse_qs(handler.rfile.read(length).decode())
                basic = f"{CLIENT}:{CLIENT_SECRET}".encode()
                known = (
                    base64.b64decode(handler.headers.get("Authorization", "").partition(" ")[2])
                    == basic
                )
                known |= form.get("client_secret") == [CLIENT_SECRET]
                asked.append({"known": known, "scope": form.get("scope")})
                body = {"access_token": self.token(), "token_type": "Bearer", "expires_in": 3600}
                data = json.dumps(body if known else {"error": "invalid_client"}).encode()
                handler.send_response(200 if known else 401)
                handler.send_header("Content-Type", "application/json")
                handler.send_header("Content-Length", str(len(data)))
                handler.end_headers()
                handler.wfile.write(data)

            def log_message(handler, *_):  # noqa: N805
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/token", asked
            finally:
                server.shutdown()

    def token(self):
        """Return a token that the server takes."""
        now = int(time.time())
        header = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        claims = {
            "iss": "the-issuer",
            "sub": CLIENT,
            "aud": "kafka",
            "iat": now,
            "exp": now + 3600,
            "scope": "read",
        }
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
        argv = ["openssl", "dgst", "-sha256", "-sign", str(self.certificates / "other.key")]
        made = subprocess.run(argv, input=signed.encode(), capture_output=True, check=True).stdout
        return f"{signed}.{_base64(made)}"

    def _openssl(self, *arguments):
        done = subprocess.run(
            ["openssl", *arguments],
            cwd=self.certificates,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def _base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
