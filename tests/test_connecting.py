"""Connecting: who is not who the certificate must say is sent nothing, and a wrong password is not told.

The server of the certificates is one of this test, which knows the first words of each protocol and no
more: it is to come as far as a handshake, or not.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import struct
import subprocess
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from mainstem.registry import Registry

SECRET = "hunter2-canary"
PATIENCE = 20


class Certificates:
    """Certificates for `localhost`, and such as are none: each with its key beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # As strict clients want them (Python's from 3.13 on).
        use = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        for authority in ("ca", "foreign-ca"):
            about = ("-days", "2", "-subj", f"/CN={authority}", *use)
            self._openssl("req", "-x509", *about, name=authority)
        self._signed("right", "localhost", "ca")
        self._signed("wrong name", "other.example", "ca")
        self._signed("foreign", "localhost", "foreign-ca")
        self._signed("expired", "localhost", "ca", days=-1)
        names = ("-addext", "subjectAltName=DNS:localhost")
        self._openssl("req", "-x509", "-days", "2", "-subj", "/CN=me", *names, name="self-signed")

    def path(self, name: str, kind: str = "pem") -> str:
        return str(self.folder / f"{name}.{kind}")

    def _signed(self, name: str, host: str, authority: str, days: int = 2) -> None:
        (self.folder / "names").write_text(
            f"subjectAltName=DNS:{host}\nauthorityKeyIdentifier=keyid\n"
        )
        self._openssl("req", "-new", "-subj", f"/CN={host}", name=name, kind="csr")
        signed = ["x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem"]
        rest = ["-CAkey", f"{authority}.key", "-CAcreateserial", "-extfile", "names"]
        self._run(*signed, *rest, "-days", str(days), "-out", f"{name}.pem")

    def _openssl(self, *arguments: str, name: str, kind: str = "pem") -> None:
        key = ("-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key")
        self._run(*arguments, *key, "-out", f"{name}.{kind}")

    def _run(self, *arguments: str) -> None:
        argv = ["openssl", *arguments]
        subprocess.run(argv, cwd=self.folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


# -- the first words of protocols that do not begin with TLS ---------------------------------


def postgresql(connection):
    """Answer the request for TLS."""
    connection.recv(8)
    connection.sendall(b"S")


def mysql(connection):
    """Greet as a server of version 8 that offers TLS; read the client's request for it."""
    abilities = 0x1 | 0x8 | 0x200 | 0x800 | 0x8000 | 0x80000
    salt = b"12345678"
    greeting = b"\x0a8.0.36\0" + struct.pack("<I", 7) + salt + b"\0"
    greeting += struct.pack("<HBHH", abilities & 0xFFFF, 45, 2, abilities >> 16)
    greeting += bytes([21]) + bytes(10) + b"123456789012\0" + b"caching_sha2_password\0"
    connection.sendall(struct.pack("<I", len(greeting)) + greeting)
    connection.recv(36)


def nats(connection):
    """Tell that TLS is wanted."""
    told = {"server_id": "x", "version": "2.10.0", "max_payload": 1 << 20, "tls_required": True}
    connection.sendall(b"INFO " + json.dumps(told).encode() + b"\r\n")


class Impostor:
    """Listens on a port, and shows a certificate to whoever comes."""

    def __init__(self, certificate: str, key: str, first=None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._first = first
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        #: Whether somebody has come, and whether all that they say was heard.
        self.came, self.over = threading.Event(), threading.Event()
        self.heard = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.came.set()
                connection.settimeout(PATIENCE)
                threading.Thread(target=self._meet, args=(connection,), daemon=True).start()

    def _meet(self, connection: socket.socket) -> None:
        with suppress(OSError), closing(connection):
            if self._first is not None:
                self._first(connection)
            secured = self._context.wrap_socket(connection, server_side=True)
            secured.settimeout(1)
            self.heard += secured.recv(65536)
            secured.close()
        self.over.set()

    def close(self) -> None:
        self._listening.close()


# -- the connectors --------------------------------------------------------------------------


@dataclass(frozen=True)
class Connector:
    """How a connector of a word is made to connect to a port of this machine."""

    name: str
    connect: object
    first: object = None

    def __str__(self) -> str:
        return self.name


def options(kind, word, given):
    return Registry().component(kind, word).options_model().model_validate(given)


def amqp(port, ca):
    from mainstem_broker_amqp.source.receiver import AMQPReceiver

    url = f"amqps://user:{SECRET}@localhost:{port}/"
    given = {"url": url, "queue": "q", "tls": {"ca": ca}, "connect_timeout": "5 seconds"}
    AMQPReceiver(options("source", "amqp", given), 0, "node").connect(None)


def to_nats(port, ca):
    from mainstem_broker_nats.client import Connection

    server = f"tls://localhost:{port}"
    given = {
        "servers": server,
        "subjects": ["a"],
        "user": "u",
        "password": SECRET,
        "tls": {"ca": ca},
    }
    Connection.open(options("source", "nats", given), "node")


def kafka(port, ca):
    from mainstem_broker_kafka.sink.topics import Topics

    given = {
        "servers": f"localhost:{port}",
        "topic": "t",
        "tls": {"ca": ca},
        "sasl": {"mechanism": "PLAIN", "user": "u", "password": SECRET},
        "answer_timeout": "2 seconds",
    }
    Topics(options("sink", "kafka", given)).describe(["t"])


def sql(scheme):
    def connect(port, ca):
        from mainstem_database.connecting import make_engine

        url = f"{scheme}://u:{SECRET}@localhost:{port}/shop"
        given = {"url": url, "table": "t", "tls": {"ca": ca}, "connect_timeout": "5 seconds"}
        make_engine(options("sink", "sql", given)).connect()

    return connect


def webhook(port, ca):
    from mainstem_direct_webhook.client.connection import Client

    given = {
        "url": f"https://localhost:{port}/hook",
        "tls": {"ca": ca},
        "allow_private": True,
        "headers": {"authorization": f"Bearer {SECRET}"},
    }
    Client(options("sink", "webhook", given)).send([], b"x", time.monotonic() + 5)


def kinesis(port, ca):
    from mainstem_aws.client import connect

    given = {
        "stream": "s",
        "region": "eu-central-1",
        "endpoint": f"https://localhost:{port}",
        "access_key": "AKIA",
        "secret_key": SECRET,
        "attempts": 1,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_CA_BUNDLE", ca)
        connect("kinesis", options("sink", "kinesis", given)).list_streams()


def redis(port, ca):
    from mainstem_cache_redis.connection import connect

    url = f"rediss://u:{SECRET}@localhost:{port}"
    given = {"url": url, "stream": "s", "tls": {"ca": ca}, "answer_timeout": "2 seconds"}
    connect(options("sink", "redis", given), "node")


def mqtt(port, ca):
    from mainstem_broker_mqtt.connection import Connection

    url = f"mqtts://u:{SECRET}@localhost:{port}"
    given = {"url": url, "topic": "t", "tls": {"ca": ca}, "connect_timeout": "5 seconds"}
    Connection(options("sink", "mqtt", given))


CONNECTORS = [
    Connector("amqp", amqp),
    Connector("nats", to_nats, nats),
    Connector("kafka", kafka),
    Connector("postgresql", sql("postgresql"), postgresql),
    Connector("mysql", sql("mysql"), mysql),
    Connector("webhook", webhook),
    Connector("kinesis", kinesis),
    Connector("redis", redis),
    Connector("mqtt", mqtt),
]


def meet(connector, certificates, name):
    """Let a connector connect to who shows a certificate; return that one, and the error."""
    impostor = Impostor(certificates.path(name), certificates.path(name, "key"), connector.first)
    error = None
    try:
        connector.connect(impostor.port, certificates.path("ca"))
    except Exception as raised:
        error = raised
    finally:
        impostor.close()
    return impostor, error


@pytest.mark.parametrize("connector", CONNECTORS, ids=str)
def test_the_right_certificate_is_taken(connector, certificates):
    """Pass: what the client says comes over, or the test below would show nothing."""
    impostor, _ = meet(connector, certificates, "right")
    assert impostor.over.wait(PATIENCE)
    assert impostor.heard != b""


@pytest.mark.parametrize("name", ["wrong name", "expired", "self-signed", "foreign"])
@pytest.mark.parametrize("connector", CONNECTORS, ids=str)
def test_a_certificate_that_says_nothing_is_refused(connector, certificates, name):
    """Pass: nothing is sent (some clients look at the name after the handshake), and the error says why."""
    impostor, error = meet(connector, certificates, name)
    assert impostor.came.is_set()
    assert error is not None
    impostor.over.wait(PATIENCE)
    assert impostor.heard == b""
    assert re.search("certificate|SSL", f"{error}")
    assert SECRET not in f"{error!r} {error} {error.__cause__} {error.__context__}"


# -- wrong passwords -------------------------------------------------------------------------


def amqp_login(server):
    from mainstem_broker_amqp.source.receiver import AMQPReceiver

    url = f"amqp://guest:{SECRET}@127.0.0.1:{server.port}/"
    AMQPReceiver(options("source", "amqp", {"url": url, "queue": "q"}), 0, "node").connect(None)


def sql_login(server):
    from mainstem_database.connecting import make_engine

    url = f"mysql://root:{SECRET}@127.0.0.1:{server.port}/test"
    make_engine(options("sink", "sql", {"url": url, "table": "t"})).connect()


def chain(error):
    """Yield an error, and what it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("fixture", "login", "told"),
    [("rabbitmq", amqp_login, "ACCESS_REFUSED|refused"), ("mariadb", sql_login, "Access denied")],
)
@pytest.mark.in_turn
def test_a_wrong_password_is_in_no_output(request, fixture, login, told, capfd, caplog):
    """Pass: the server refuses, the error says so, and neither it nor a log has the password.

    Those of NATS, Kafka and PostgreSQL, which take servers of their own, are in the packages' tests.
    """
    server = request.getfixturevalue(fixture)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Exception, match=told) as failed:
        login(server)
    texts = [f"{error!r} {error}" for error in chain(failed.value)]
    out, err = capfd.readouterr()
    assert SECRET not in " ".join([*texts, out, err, caplog.text])
