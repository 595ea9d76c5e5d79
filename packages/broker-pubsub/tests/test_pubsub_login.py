"""TLS and the login of a service account, before the fake: a line that is encrypted, and who gives tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest
from mainstem_testkit.certificates import make_certificates, server_context
from mainstem_testkit.proxy import FaultProxy

#: gRPC reads whom it trusts once in a process, so each login is in one of its own.
LOGIN = """
import json, sys
from mainstem_broker_pubsub.options import PubSubSourceOptions
from mainstem_broker_pubsub.receiver import PubSubReceiver
from mainstem_testkit.conformance.receiver import taken
made = PubSubReceiver(PubSubSourceOptions.model_validate(json.loads(sys.argv[1])), 0, "orders")
try:
    made.connect(None)
    (found,) = taken(made, 1)
    made.acknowledge([found])
    print("took", found.value.decode())
except Exception as error:
    print(type(error).__name__, error)
finally:
    made.close()
"""


class Tokens(BaseHTTPRequestHandler):
    """Gives a token to who has signed, or what `answer` says."""

    answer = (200, {"access_token": "hunter2", "expires_in": 3600, "token_type": "Bearer"})

    def do_POST(self):
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        assert asked["assertion"][0].count(".") == 2, "a signed token"
        code, told = type(self).answer
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *told):
        """Say nothing."""


@pytest.fixture
def tokens():
    """Who gives tokens, with its address."""
    kind = type("Its", (Tokens,), {})
    server = HTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kind.url = f"http://127.0.0.1:{server.server_port}/token"
    yield kind
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder, {"server": "DNS:localhost"})
    return folder


@pytest.fixture
def front(pubsub, certificates):
    """The port of an encrypted way to the fake."""
    with FaultProxy(pubsub.port, tls=server_context(certificates, "server", ["h2"])) as proxy:
        yield proxy.port


@pytest.fixture
def login(pubsub, certificates, tokens, tmp_path, front):
    """Take one message as a service account, trusting `ca`, and return what came of it."""
    key = (certificates / "server.key").read_text()
    account = {
        "type": "service_account",
        "client_email": "reader@my-project.iam.gserviceaccount.com",
        "private_key": key,
        "token_uri": tokens.url,
    }
    (tmp_path / "key.json").write_text(json.dumps(account))
    name = f"orders-{uuid.uuid4().hex}"
    topic = pubsub.topic(name)
    subscription = pubsub.subscription(name, topic)
    pubsub.publish(topic, [{"data": b"v"}])

    def done(*, ca="ca", **more):
        options = {
            "subscription": subscription,
            "credentials": str(tmp_path / "key.json"),
            "endpoint": f"localhost:{front}",
            "answer_timeout": "5 s",
            **more,
        }
        trusted = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificates / f"{ca}.pem")}
        run = subprocess.run(
            [sys.executable, "-c", LOGIN, json.dumps(options)],
            env={**os.environ, **trusted},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "hunter2" not in run.stdout + run.stderr
        return run.stdout.strip()

    return done


def test_a_service_account_over_tls(login):
    """Pass: with a token of its own, through an encrypted line, a message is taken."""
    assert login() == "took v"


def test_a_server_that_is_not_trusted_is_told(login):
    """Pass: a certificate of somebody else ends it, and says why."""
    told = login(ca="other")
    assert told.startswith("PermanentError")
    assert "certificate" in told.lower()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}), "Perm"),
        ((503, {"error": "server_error"}), "Trans"),
    ],
)
@pytest.mark.in_turn
def test_a_login_that_is_refused_is_told(login, tokens, answer, told):
    """Pass: refused for good is an error for good; who gives tokens and can't now is asked again."""
    tokens.answer = answer
    found = login()
    assert found.startswith(told)
    assert answer[1]["error"] in found


def test_nobody_who_gives_tokens_is_told(login, tokens, tmp_path):
    """Pass: when nobody is there who gives tokens, a retry may help."""
    held = json.loads((tmp_path / "key.json").read_text())
    (tmp_path / "key.json").write_text(json.dumps({**held, "token_uri": "http://127.0.0.1:9/t"}))
    assert login().startswith("TransientError")
