"""Handshakes are answered as their senders ask, packed bodies are unpacked within limits, ids are signed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import zlib

import pytest
import svix
from mainstem_direct_webhook.source.answers import Refused
from mainstem_direct_webhook.source.application import Application
from mainstem_direct_webhook.source.endpoint import Endpoint, Head
from mainstem_direct_webhook.source.options import Limits, PathOptions, WebhookSourceOptions
from test_webhook_verifiers import BODY, NOW, SECRET, by_svix, check, verifier


def endpoint(most=1000, **options):
    made = PathOptions.model_validate({"verify": {"use": "none"}, **options})
    return Endpoint("/in", made, "auto", most, Limits())


def head(method="POST", query=b"", **headers):
    pairs = [(n.replace("_", "-").encode(), v) for n, v in headers.items()]
    return Head(method, "/in", {}, pairs, dict(pairs), {}, query)


def ask(path, method, query="", headers=()):
    """Send a request to the application itself; return the answer's status, headers and body."""
    options = WebhookSourceOptions.model_validate(
        {"port": 8080, "paths": {"/in": {"verify": {"use": "none"}, **path}}}
    )
    told = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event):
        told.append(event)

    scope = {
        "type": "http", "path": "/in", "raw_path": b"/in", "query_string": query.encode(),
        "method": method, "headers": list(headers), "client": ("127.0.0.1", 1), "state": {},
    }  # fmt: skip
    asyncio.run(Application(options)(scope, receive, send))
    return told[0]["status"], dict(told[0]["headers"]), told[1]["body"]


def test_meta_gets_its_challenge_back_for_the_right_token():
    """Pass: the challenge comes back as plain text, and for a wrong token, or mode, nothing does."""
    path = {"handshake": {"use": "meta", "token": "secret token"}}
    query = "hub.mode=subscribe&hub.challenge=115842&hub.verify_token=secret+token"
    status, headers, body = ask(path, "GET", query)
    assert (status, body) == (200, b"115842")
    assert headers[b"content-type"].startswith(b"text/plain")
    assert headers[b"x-content-type-options"] == b"nosniff"
    for wrong in (query.replace("secret", "other"), query.replace("subscribe", "x"), ""):
        assert ask(path, "GET", wrong)[0] == 401
    assert ask({}, "GET", query)[0] == 405


@pytest.mark.parametrize(("use", "method"), [("meta", "GET"), ("graph", "POST")])
def test_a_query_of_too_many_fields_proves_nothing(use, method):
    """Pass: a refusal as any other, and no error of the server's."""
    given = {"use": use, "token": "x"} if use == "meta" else {"use": use}
    query = "&".join(f"f{n}=1" for n in range(200))
    assert ask({"handshake": given}, method, query)[0] == 401


def test_graph_gets_its_token_back():
    """Pass: a POST with the token alone is answered with it; one with a body is a message."""
    path = {"handshake": {"use": "graph"}}
    status, headers, body = ask(path, "POST", "validationToken=Validation%3A+a%2Bb")
    assert (status, body) == (200, b"Validation: a+b")
    assert headers[b"content-type"].startswith(b"text/plain")
    made = endpoint(**path)
    assert made.greeting(head(query=b"validationToken=x", content_length=b"2")) is None
    assert ask(path, "POST", "validationToken=a%0Ab")[0] == 401


def test_cloudevents_are_allowed_by_origin():
    """Pass: OPTIONS with a known origin is allowed, at the rate that the document gives."""
    path = {"handshake": {"use": "cloudevents", "origins": ["good.example"], "rate": 100}}
    origin = [(b"webhook-request-origin", b"good.example")]
    status, headers, _ = ask(path, "OPTIONS", headers=origin)
    assert status == 200
    assert headers[b"webhook-allowed-origin"] == b"good.example"
    assert headers[b"webhook-allowed-rate"] == b"100"
    assert ask(path, "OPTIONS", headers=[(b"webhook-request-origin", b"bad.example")])[0] == 401


def test_who_only_looks_whether_the_path_is_there_is_told():
    """Pass: GET and HEAD are 200 without a body."""
    path = {"handshake": {"use": "reachable"}}
    assert [ask(path, method)[::2] for method in ("GET", "HEAD")] == [(200, b"")] * 2
    assert ask({}, "HEAD")[0] == 405


def test_a_packed_body_is_unpacked_within_the_limit():
    """Pass: the value is what was packed; bombs, broken, truncated and doubled bodies are refused."""
    made = endpoint()
    packed = gzip.compress(b'{"n": 1}')
    (message,) = made.messages(head(content_encoding=b"gzip"), packed, NOW)
    assert message.value == b'{"n": 1}'
    assert all(name != "content-encoding" for name, _ in message.headers)
    bomb = gzip.compress(bytes(100_000_000))
    for body, status in (
        (bomb, 413), (packed[:-3], 400), (packed + packed, 400), (b"no gzip", 400),
        (zlib.compress(b"x"), 400),
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            made.messages(head(content_encoding=b"gzip"), body, NOW)
        assert refused.value.status == status
    with pytest.raises(Refused) as refused:
        made.messages(head(content_encoding=b"br"), b"x", NOW)
    assert refused.value.status == 415


def test_the_older_spelling_of_standard_webhooks_is_let_in():
    """Pass: `svix-` headers verify as `webhook-` ones do; headers of both spellings don't mix."""
    made = verifier(use="standard", secret=SECRET)
    headers = {name.replace("webhook", "svix"): value for name, value in by_svix().items()}
    svix.Webhook(SECRET)  # the library that writes them
    assert check(made, headers) == 0
    assert check(made, {**headers, "svix-id": "msg_2"}) == 401
    assert check(made, {**headers, "webhook-id": "msg_2"}) == 401
    options = {"verify": {"use": "standard", "secret": SECRET}}
    path = Endpoint("/in", PathOptions.model_validate(options), "auto", 1000, Limits())
    found = head(**{name.replace("-", "_"): value.encode() for name, value in headers.items()})
    (message,) = path.messages(found, BODY, NOW)
    assert message.id == b"/in\0msg_1"


def test_an_id_can_be_signed_with_the_body():
    """Pass: `{id}` stands for its header; another id, or one that could be read in two ways, is refused."""
    made = verifier(
        use="hmac", secret="s" * 32, header="X-Sign", id="X-Id", timestamp="X-Time",
        signed="{id}.{timestamp}.{body}",
    )  # fmt: skip

    def signed(message_id, claimed=None):
        content = b"%s.%d." % (message_id.encode(), NOW) + BODY
        sign = hmac.new(b"s" * 32, content, hashlib.sha256).hexdigest()
        return {"X-Sign": sign, "X-Id": claimed or message_id, "X-Time": str(NOW)}

    assert check(made, signed("one")) == 0
    assert check(made, signed("one", "two")) == 401
    assert check(made, signed("a.b")) == 401
    assert made.ids[0].header == "X-Id"
    with pytest.raises(ValueError, match="`id` names the header"):
        verifier(use="hmac", secret="s", header="X-Sign", signed="{id}.{body}")
