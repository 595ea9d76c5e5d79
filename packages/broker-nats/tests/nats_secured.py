"""Servers that don't let everybody in, and the keys and certificates for those who may."""

from __future__ import annotations

import base64
import json
import os
import ssl
import time
from pathlib import Path
from typing import Any

import nkeys
from mainstem_broker_nats.testing import NATS
from mainstem_testkit.certificates import make_certificates


def seed(prefix: int) -> str:
    """Return a new seed of nkeys."""
    return nkeys.encode_seed(os.urandom(32), prefix).decode()


def public(of: str) -> str:
    """Return the public key of a seed."""
    return nkeys.from_seed(of.encode()).public_key.decode()


def signed(by: str, subject: str, facts: dict[str, Any]) -> str:
    """Return a JWT as NATS has them: what `by` says of `subject`."""
    body = {"jti": os.urandom(8).hex(), "iat": int(time.time()), "iss": public(by), "sub": subject}
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    parts = [
        _text(json.dumps(part).encode()) for part in (head, {**body, "name": "t", "nats": facts})
    ]
    signature = nkeys.from_seed(by.encode()).sign(".".join(parts).encode())
    return ".".join([*parts, _text(signature)])


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Operated(NATS):
    """A server of an operator, whose users show a JWT; `credentials` is a file of one of them."""

    def __init__(self, folder: Path) -> None:
        operator, account, user = (
            seed(prefix)
            for prefix in (
                nkeys.PREFIX_BYTE_OPERATOR,
                nkeys.PREFIX_BYTE_ACCOUNT,
                nkeys.PREFIX_BYTE_USER,
            )
        )
        limits = dict.fromkeys(
            ("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1
        )
        stores = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        accounts = signed(
            operator,
            public(account),
            {"type": "account", "version": 2, "limits": {**limits, **stores, "wildcards": True}},
        )
        system = seed(nkeys.PREFIX_BYTE_ACCOUNT)
        of_system = signed(
            operator,
            public(system),
            {"type": "account", "version": 2, "limits": {**limits, "wildcards": True}},
        )
        operators = signed(
            operator,
            public(operator),
            {"type": "operator", "version": 2, "system_account": public(system)},
        )
        self.token = signed(
            account,
            public(user),
            {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1},
        )
        self.user = user
        super().__init__(
            folder,
            f"operator: {operators}\nresolver: MEMORY\nsystem_account: {public(system)}\n"
            f"resolver_preload {{ {public(account)}: {accounts}, {public(system)}: {of_system} }}\n",
        )
        self.credentials = self.folder / "user.creds"
        self.credentials.write_text(creds(self.token, user))


def creds(token: str, of: str) -> str:
    """Return the text of a credentials file."""
    dashes = "-" * 5
    return (
        f"{dashes}BEGIN NATS USER JWT{dashes}\n{token}\n------END NATS USER JWT------\n\n"
        f"{dashes}BEGIN USER NKEY SEED{dashes}\n{of}\n------END USER NKEY SEED------\n"
    )


class Late(NATS):
    """A server that greets only when TLS is spoken."""

    def answers(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with self.connect() as plain, context.wrap_socket(plain) as connection:
            return connection.recv(4) == b"INFO"


class Certificates:
    """An authority, a server's certificate for `nats.test`, and a client's; and another authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_certificates(folder, {"server": "DNS:nats.test", "client": "DNS:nats.test"})

    def settings(self, **more: Any) -> str:
        """Return the server's `tls` block."""
        given = {
            "cert_file": f"{self.folder}/server.pem",
            "key_file": f"{self.folder}/server.key",
            "ca_file": f"{self.folder}/ca.pem",
            **more,
        }
        return f"tls {json.dumps(given)}\n"

    def client(self, **changes: Any) -> dict[str, Any]:
        """Return the options `tls` of a client that is let in."""
        made = self.folder
        right = {"ca": f"{made}/ca.pem", "certificate": f"{made}/client.pem"}
        right |= {"key": f"{made}/client.key", "server_name": "nats.test"}
        return {k: v for k, v in {**right, **changes}.items() if v is not None}
