"""What a request is answered with, and which messages come of it."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import socket
import subprocess
import sys
import time

import pytest
from mainstem import OptionError, TransientError
from mainstem_direct_webhook.source import receiver as receiver_module
from mainstem_direct_webhook.source.application import Limiter
from mainstem_direct_webhook.source.options import KEPT, Keeper, WebhookSourceOptions, is_secret
from mainstem_direct_webhook.source.receiver import WebhookReceiver
from mainstem_direct_webhook.source.source import WebhookSource
from mainstem_testkit import wait_for
from mainstem_testkit.conformance._receiver import TakingProcess, stored
from mainstem_testkit.processes import descendants
from mainstem_testkit.server import free_port
from webhook_clients import ask, connect, options, read_reply, standing, wire

NONE = {"use": "none"}
HASHED = {"use": "hmac", "secret": "s", "header": "X-Hash"}


def only(stand):
    """The one message that has come."""
    (message,) = stand.messages
    return message


# -- answers ------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_the_answer_comes_after_the_message_is_stored():
    """Pass: as long as nothing is acknowledged nobody is answered; then all are."""
    with standing() as stand:
        stand.storing.clear()
        connections = [connect(stand.port) for _ in range(5)]
        for number, connection in enumerate(connections):
            connection.sendall(wire(body=b"%d" % number))
        wait_for(lambda: len(stand._held) == 5)
        for connection in connections:
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(20)
        stand.storing.set()
        assert [read_reply(connection).status for connection in connections] == [200] * 5
        for connection in connections:
            connection.close()
        assert sorted(m.value for m in stand.messages) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_the_status_of_a_stored_message_is_the_one_chosen(status):
    """Pass: it is answered, and the connection can be used again."""
    with standing(status=status) as stand, connect(stand.port) as connection:
        for number in range(3):
            connection.sendall(wire(body=b"%d" % number, close=False))
            assert read_reply(connection).status == status
        assert [m.value for m in stand.messages] == [b"0", b"1", b"2"]


@pytest.mark.in_turn
def test_requests_that_do_not_fit_are_refused_with_a_problem():
    """Pass: each with its status and problem details; nothing is stored; the next one is."""
    paths = {
        "/in": {
            "verify": NONE,
            "content_types": ["application/json", "application/*+json", "text/*"],
        },
        "/put": {"verify": NONE, "methods": ["PUT"]},
        "/safe": {"verify": {"use": "bearer", "token": "open-sesame"}},
    }
    json_type = {"Content-Type": "application/json"}
    cases = [
        (404, {"path": "/nowhere"}),
        (404, {"path": "/in/"}),
        (404, {"path": "/"}),
        (405, {"path": "/in", "method": "PUT"}),
        (405, {"path": "/in", "method": "GET"}),
        (405, {"path": "/put", "method": "POST"}),
        (405, {"path": "/healthz", "method": "POST"}),
        (415, {"headers": {"Content-Type": "application/xml"}}),
        (415, {}),
        (415, {"headers": {"Content-Type": "application/jsonx"}}),
        (413, {"headers": json_type, "body": b"x" * 1001}),
        (413, {"headers": {**json_type, "Content-Length": "99999999999"}, "body": b""}),
        (431, {"headers": [(f"x-{n}", "1") for n in range(101)]}),
        (401, {"path": "/safe"}),
        (401, {"path": "/safe", "headers": {"Authorization": "Bearer wrong"}}),
    ]
    with standing(paths=paths, max_message=1000) as stand:
        for status, request in cases:
            reply = ask(stand.port, **request)
            assert reply.status == reply.problem["status"] == status, (request, reply)
            assert reply.problem.keys() == {"title", "status", "detail"}
            assert ("allow" in reply.headers) == (status == 405)
            assert "server" not in reply.headers
        # Without a length, it is counted while it is read.
        chunked = {**json_type, "Transfer-Encoding": "chunked"}
        body = b"".join(b"%x\r\n%s\r\n" % (100, b"x" * 100) for _ in range(11))
        assert ask(stand.port, headers=chunked, body=body + b"0\r\n\r\n").status == 413
        assert stand.messages == []
        whole = body[: len(body) // 11 * 10] + b"0\r\n\r\n"
        assert ask(stand.port, headers=chunked, body=whole).status == 200
        assert len(only(stand).value) == 1000
        for kind in ("application/json; charset=utf-8", "APPLICATION/PROBLEM+JSON", "text/plain"):
            assert ask(stand.port, headers={"Content-Type": kind}).status == 200
        assert ask(stand.port, path="/put", method="PUT").status == 200
        assert (
            ask(stand.port, path="/safe", headers={"Authorization": "Bearer open-sesame"}).status
            == 200
        )
        told = {"200": 6, "401": 2, "404": 3}
        wait_for(lambda: told.items() <= stand.receiver.facts()["answers"].items())


@pytest.mark.in_turn
def test_a_connection_outlives_a_refusal():
    """Pass: over one connection, refused and taken requests follow one another."""
    with standing() as stand, connect(stand.port) as connection:
        for number in range(3):
            connection.sendall(wire("/nowhere", b"x" * 1000, close=False))
            assert read_reply(connection).status == 404
            connection.sendall(wire(body=b"%d" % number, close=False))
            assert read_reply(connection).status == 200
        # A body that does not come to an end is not waited for: the connection ends.
        connection.sendall(wire("/nowhere", b"x", {"Content-Length": "9999999"}, close=False))
        reply = read_reply(connection)
        assert (reply.status, reply.headers["connection"]) == (404, "close")
        assert connection.recv(1) == b""
        assert len(stand.messages) == 3


def test_who_asks_before_sending_a_body_is_told():
    """Pass: `Expect: 100-continue` is answered with 100 when a body is wanted, else with the refusal."""
    expect = {"Expect": "100-continue", "Content-Length": "5"}
    with standing() as stand:
        with connect(stand.port) as connection:
            connection.sendall(wire(body=b"", headers=expect))
            assert read_reply(connection).status == 100
            connection.sendall(b"12345")
            assert read_reply(connection).status == 200
        reply = ask(stand.port, path="/nowhere", body=b"", headers=expect)
        assert (reply.status, reply.headers["connection"]) == (404, "close")
        reply = ask(stand.port, body=b"", headers={**expect, "Content-Length": "99999999"})
        assert reply.status == 413
    assert [m.value for m in stand.messages] == [b"12345"]


def test_above_the_high_water_mark_the_answer_is_503():
    """Pass: paused, 503 with Retry-After, also from `/readyz`; who waited is stored; resumed, 200."""
    with standing() as stand:
        assert ask(stand.port, path="/readyz", method="GET").status == 200
        stand.storing.clear()
        with connect(stand.port) as early:
            early.sendall(wire(body=b"early"))
            wait_for(lambda: stand._held)
            stand.receiver.pause()
            for request in ({}, {"path": "/readyz", "method": "GET"}):
                reply = ask(stand.port, **request)
                assert (reply.status, reply.headers["retry-after"]) == (503, "1")
                assert reply.problem["status"] == 503
            assert ask(stand.port, path="/healthz", method="GET").status == 200
            stand.storing.set()
            assert read_reply(early).status == 200
        stand.receiver.resume()
        assert ask(stand.port, body=b"late").status == 200
        assert [m.value for m in stand.messages] == [b"early", b"late"]


def test_when_the_server_ends_who_waits_is_told_to_come_again():
    """Pass: taken and not stored is 503, and nobody can connect afterwards."""
    with standing() as stand:
        stand.storing.clear()
        connection = connect(stand.port)
        connection.sendall(wire(close=False))
        wait_for(lambda: stand._held)
    reply = read_reply(connection)
    connection.close()
    assert (reply.status, reply.headers["connection"]) == (503, "close")
    assert "retry-after" in reply.headers
    with pytest.raises(ConnectionRefusedError):
        connect(stand.port)


def test_health_can_be_elsewhere_or_nowhere():
    """Pass: `HEAD` and `GET` are answered where the options say, else 404."""
    with standing(health="/live", readiness=None) as stand:
        assert ask(stand.port, path="/live", method="GET").status == 200
        assert ask(stand.port, path="/healthz", method="GET").status == 404
        assert ask(stand.port, path="/readyz", method="GET").status == 404


def test_a_client_that_sends_too_much_is_told_when_to_come_again():
    """Pass: 2 of 3 go through, the third is 429 with Retry-After; health is not counted."""
    with standing(rate={"requests": 1, "per": "1 hour", "burst": 2}) as stand:
        assert [ask(stand.port).status for _ in range(2)] == [200, 200]
        reply = ask(stand.port)
        assert reply.status == reply.problem["status"] == 429
        assert 3000 < int(reply.headers["retry-after"]) <= 3600
        assert ask(stand.port, path="/healthz", method="GET").status == 200
        assert len(stand.messages) == 2


def test_a_limiter_keeps_to_its_rate_and_its_memory():
    """Pass: the burst, then the rate; clients apart; the oldest is forgotten; IPv6 counts by network."""
    limiter = Limiter(rate=2.0, burst=3, clients=2)
    assert [limiter.wait("a", 0.0) for _ in range(4)] == [0, 0, 0, 1]
    assert limiter.wait("b", 0.0) == 0
    assert [limiter.wait("a", 0.5), limiter.wait("a", 0.5)] == [0, 1]
    assert [limiter.wait("a", 100.0) for _ in range(4)] == [0, 0, 0, 1]
    limiter.wait("c", 100.0)
    assert len(limiter) == 2
    limiter = Limiter(rate=0.01, burst=1, clients=10)
    assert limiter.wait("2001:db8::1", 0) == 0
    assert limiter.wait("2001:db8::2", 0) == 100
    assert limiter.wait("2001:db8:0:1::1", 0) == 0
    assert limiter.wait("::ffff:10.0.0.1", 0) == 0
    assert limiter.wait("::ffff:10.0.0.2", 0) == 0
    assert len(limiter) == 4


@pytest.mark.in_turn
def test_proxies_are_believed_only_when_told():
    """Pass: by default all requests are of one client, whatever they say; trusted, of those forwarded."""
    rate = {"requests": 1, "per": "1 hour"}
    for trusted, expected in (([], [200, 429, 429]), (["127.0.0.1/32"], [200, 200, 429])):
        with standing(rate=rate, trusted_proxies=trusted) as stand:
            came = [
                ask(stand.port, headers={"X-Forwarded-For": address}).status
                for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")
            ]
            assert came == expected


def test_proxies_are_believed_by_a_server_of_ipv6():
    """Pass: one that has an IPv4 address, which is seen as an IPv6 address then, is believed as told."""
    rate = {"requests": 1, "per": "1 hour"}
    trusted = ["127.0.0.0/8"]
    with standing(rate=rate, trusted_proxies=trusted, host="::") as stand:
        came = [
            ask(stand.port, headers={"X-Forwarded-For": address}).status
            for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")
        ]
        assert came == [200, 200, 429]


def test_the_bytes_on_their_way_are_bounded():
    """Pass: while bodies of 1,500 bytes wait, one that would make it 3,000 is 503; then it is taken."""
    limits = {"pending_bytes": 2000}
    with standing(limits=limits, max_message=2000) as stand:
        stand.storing.clear()
        with connect(stand.port) as connection:
            connection.sendall(wire(body=b"x" * 1500))
            wait_for(lambda: stand._held)
            assert ask(stand.port, body=b"y" * 1500).status == 503
            stand.storing.set()
            assert read_reply(connection).status == 200
        assert ask(stand.port, body=b"y" * 1500).status == 200


# -- messages -----------------------------------------------------------------------------------


def test_a_message_is_the_raw_body_with_chosen_headers():
    """Pass: bytes as sent, unpacked if they were packed; header names in lower case; nothing that is secret,
    whatever is asked for."""
    plain = b"anything \x00\xff"
    body = gzip.compress(plain)
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "gzip",
        "X-GitHub-Event": "push",
        "X-Shop-Region": "n\xe9",
        "X-Shop-Token": "open-sesame",
        "X-Shop-Hash": "open-sesame",
        "X-Hub-Signature-256": "open-sesame",
        "Authorization": "Bearer open-sesame",
        "Cookie": "open-sesame",
        "X-Other": "left out",
    }
    verify = {"use": "hmac", "secret": "s", "header": "X-Shop-Hash", "digest": "sha1"}
    kept = ["content-*", "X-GitHub-Event", "x-shop-*", "x-hub-*"]
    paths = {
        "/in": {"verify": NONE, "headers": ["x-hub-*", *kept]},
        "/hmac": {"verify": verify, "headers": kept},
    }
    with standing(paths=paths) as stand:
        assert (
            ask(
                stand.port,
                body=body,
                headers={n: v for n, v in headers.items() if n != "X-Shop-Hash"},
            ).status
            == 200
        )
        assert ask(stand.port, path="/hmac", body=body, headers=headers).status == 401
        headers["X-Shop-Hash"] = hmac.new(b"s", body, hashlib.sha1).hexdigest()
        assert ask(stand.port, path="/hmac", body=body, headers=headers).status == 200
    for message, origin in zip(stand.messages, ("/in", "/hmac"), strict=True):
        assert (message.value, message.key, message.origin, message.id) == (
            plain,
            None,
            origin,
            None,
        )
        assert dict(message.headers) == {
            "content-type": b"application/octet-stream",
            "x-github-event": b"push",
            "x-shop-region": b"n\xe9",
        }


def test_keys_and_ids_come_from_where_the_options_say():
    """Pass: from headers, parameters and fields; ids of two paths are never one."""
    paths = {
        "/shops/{shop}/orders/{kind}": {"verify": NONE, "key": {"path": "shop"}},
        "/a": {"verify": NONE, "id": {"field": "event.id"}, "key": {"field": "shop"}},
        "/b": {"verify": NONE, "id": {"header": "X-Delivery"}, "key": {"header": "X-Shop"}},
        "/shops/lyon/orders/fixed": {"verify": NONE},
    }
    with standing(paths=paths) as stand:
        requests = [
            {"path": "/shops/l%C3%BCbeck/orders/new", "headers": {"webhook-id": "1"}},
            {"path": "/shops/lyon/orders/fixed", "headers": {"Idempotency-Key": "1"}},
            {"path": "/a", "body": b'{"event": {"id": 1, "x": [1.5, null]}, "shop": "s"}'},
            {"path": "/a", "body": b"no json"},
            {"path": "/b", "headers": {"X-Delivery": "1", "X-Shop": "t"}},
            {"path": "/b", "headers": {"webhook-id": "not here"}},
        ]
        assert [ask(stand.port, **request).status for request in requests] == [200] * 6
        assert ask(stand.port, path="/shops//orders/new").status == 404
        assert ask(stand.port, path="/shops/a/b/orders/new").status == 404
    assert [(m.origin, m.key, m.id) for m in stand.messages] == [
        ("/shops/lübeck/orders/new", "lübeck".encode(), "/shops/lübeck/orders/new\0001".encode()),
        ("/shops/lyon/orders/fixed", None, b"/shops/lyon/orders/fixed\x001"),
        ("/a", b"s", b"/a\x001"),
        ("/a", None, None),
        ("/b", b"t", b"/b\x001"),
        ("/b", None, None),
    ]


@pytest.mark.in_turn
def test_ids_can_be_asked_for_or_ignored():
    """Pass: `always` answers 400 to who has none; `never` takes none up."""
    with standing(ids="always") as stand:
        assert ask(stand.port).problem["detail"] == "The request has no id."
        assert ask(stand.port, headers={"webhook-id": ""}).status == 400
        assert ask(stand.port, headers={"webhook-id": "1"}).status == 200
        assert only(stand).id == b"/in\x001"
    with standing(ids="never") as stand:
        assert ask(stand.port, headers={"webhook-id": "1"}).status == 200
        assert only(stand).id is None


@pytest.mark.parametrize(
    ("split", "body", "parts"),
    [
        ("ndjson", b'{"a": 1.0}\r\n\n [1,  2]\t\n"x"', [b'{"a": 1.0}', b"[1,  2]", b'"x"']),
        ("ndjson", b"", []),
        ("json_array", b' [ {"a":\n1.0} ,[],"\xc3\xa9\\u00e9" , 12345678901234567890123 ]\n',
         [b'{"a":\n1.0}', b"[]", b'"\xc3\xa9\\u00e9"', b"12345678901234567890123"]),
        ("json_array", b"[]", []),
    ],
)  # fmt: skip
def test_a_batch_becomes_messages_with_their_bytes(split, body, parts):
    """Pass: the bytes of each part are as they were sent, with the request's id and a number."""
    paths = {"/in": {"verify": NONE, "split": split}}
    with standing(paths=paths) as stand:
        assert ask(stand.port, body=body, headers={"webhook-id": "b"}).status == 200
    assert [m.value for m in stand.messages] == parts
    assert [m.id for m in stand.messages] == [b"/in\0b\0%d" % n for n in range(len(parts))]


@pytest.mark.parametrize(
    ("split", "body", "status"),
    [
        ("ndjson", b'{"a": 1}\n{"a": \n', 400),
        ("ndjson", b"1\nNaN\n", 400),
        ("ndjson", b'"\xff"\n', 400),
        ("ndjson", b"1 2\n", 400),
        ("ndjson", b"1\n2\n3\n4\n", 413),
        ("json_array", b"[1, 2,, 3]", 400),
        ("json_array", b"[1, 2", 400),
        ("json_array", b"[1, 2,]", 400),
        ("json_array", b"[1] 2", 400),
        ("json_array", b'{"a": [1]}', 400),
        ("json_array", b"", 400),
        ("json_array", b"\xef\xbb\xbf[1]", 400),
        ("json_array", b"[" * 100_000, 400),
        ("json_array", b"[1, 2, 3, 4]", 413),
    ],
)
def test_a_batch_with_one_wrong_part_is_refused_whole(split, body, status):
    """Pass: 400 for what is no JSON, 413 for too many; not one part is stored."""
    paths = {"/in": {"verify": NONE, "split": split, "most_parts": 3}}
    with standing(paths=paths) as stand:
        reply = ask(stand.port, body=body)
        assert reply.status == reply.problem["status"] == status
        assert stand.messages == []
        assert ask(stand.port, body=b"1" if split == "ndjson" else b"[1]").status == 200


def test_the_parts_of_a_batch_can_have_ids_and_keys_of_their_own():
    """Pass: with `field`, each part has its own; `always` refuses the whole when one has none."""
    path = {"verify": NONE, "split": "json_array", "id": {"field": "id"}, "key": {"field": "k"}}
    with standing(paths={"/in": path}, ids="always") as stand:
        assert ask(stand.port, body=b'[{"id": "a", "k": "x"}, {"id": 7}]').status == 200
        assert ask(stand.port, body=b'[{"id": "b"}, {"k": "y"}]').status == 400
    assert [(m.id, m.key) for m in stand.messages] == [(b"/in\0a", b"x"), (b"/in\x007", None)]


# -- CloudEvents --------------------------------------------------------------------------------

EVENT = {"specversion": "1.0", "id": "e 1", "source": "/shop", "type": "paid"}
BINARY = {"ce-specversion": "1.0", "ce-id": "e%201", "ce-source": "/shop", "ce-type": "paid"}
EVENTS = {"paths": {"/in": {"verify": NONE, "cloudevents": True}}}
STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=utf-8"}


def test_binary_cloudevents():
    """Pass: attributes come decoded, the time is the message's, source and id make its id."""
    headers = {**BINARY, "ce-time": "2026-01-31T23:59:59.5+01:00", "ce-subject": "%C3%A9",
               "Content-Type": "text/plain"}  # fmt: skip
    with standing(**EVENTS) as stand:
        assert ask(stand.port, headers=headers, body=b"\xff\x00").status == 200
    message = only(stand)
    assert message.value == b"\xff\x00"
    assert message.id == b"/in\0/shop\0e 1"
    assert message.timestamp == 1769900399_500000
    assert dict(message.headers) == {
        "ce-specversion": b"1.0", "ce-id": b"e 1", "ce-source": b"/shop", "ce-type": b"paid",
        "ce-time": b"2026-01-31T23:59:59.5+01:00", "ce-subject": "é".encode(), "content-type": b"text/plain",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "value", "kind"),
    [
        ('"data": {"a":  1.0}', b'{"a":  1.0}', b"application/json"),
        ('"data": "<x/>", "datacontenttype": "text/xml"', b"<x/>", b"text/xml"),
        ('"data": "x", "datacontenttype": "application/a+json"', b'"x"', b"application/a+json"),
        ('"data_base64": "/wA=", "datacontenttype": "image/png"', b"\xff\x00", b"image/png"),
        ('"data": null', b"null", b"application/json"),
        ('"n": 5, "b": true, "empty": null', None, None),
    ],
)
def test_structured_cloudevents(more, value, kind):
    """Pass: data is as it was sent; text and base64 are what they stand for."""
    body = json.dumps(EVENT)[:-1] + f", {more}}}"
    with standing(**EVENTS) as stand:
        assert ask(stand.port, headers=STRUCTURED, body=body.encode()).status == 200
        batch = {"Content-Type": "application/cloudevents-batch+json"}
        assert ask(stand.port, headers=batch, body=f"[{body}, {body}]".encode()).status == 200
        assert ask(stand.port, headers=batch, body=b"[]").status == 200
    assert len(stand.messages) == 3
    for message in stand.messages:
        assert message.value == value
        assert message.id == b"/in\0/shop\0e 1"
        found = dict(message.headers)
        assert found.get("content-type") == kind
        assert found["ce-type"] == b"paid"
        assert "ce-empty" not in found


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b"{}"),
        ({**BINARY, "ce-specversion": "0.3"}, b""),
        ({n: v for n, v in BINARY.items() if n != "ce-id"}, b""),
        ({**BINARY, "ce-time": "yesterday"}, b""),
        ({**BINARY, "ce-time": "2026-01-01T00:00:00"}, b""),
        ({**BINARY, "ce-subject": "%ff"}, b""),
        (STRUCTURED, b"[]"),
        (STRUCTURED, b"{}"),
        (STRUCTURED, json.dumps({**EVENT, "type": ""}).encode()),
        (STRUCTURED, json.dumps({**EVENT, "Bad-Name": "x"}).encode()),
        (STRUCTURED, json.dumps({**EVENT, "x": {}}).encode()),
        (STRUCTURED, json.dumps({**EVENT, "subject": "\ud800"}).encode()),
        (STRUCTURED, json.dumps({**EVENT, "data_base64": "*"}).encode()),
        (STRUCTURED, json.dumps({**EVENT, "data_base64": 5}).encode()),
        (STRUCTURED, json.dumps({**EVENT, "data": 1, "data_base64": ""}).encode()),
        (STRUCTURED, b'{"id": "1", "id": "2"}'),
        (STRUCTURED, b'{"id" "1"}'),
        (STRUCTURED, b'{"id'),
        (STRUCTURED, b"{1: 2}"),
        ({"Content-Type": "application/cloudevents-batch+json"}, json.dumps([EVENT, {}]).encode()),
    ],
)
def test_what_is_no_cloudevent_is_refused(headers, body):
    """Pass: 400 with a problem, and nothing is stored."""
    with standing(**EVENTS) as stand:
        assert ask(stand.port, headers=headers, body=body).problem["status"] == 400
        assert stand.messages == []


# -- the whole source ---------------------------------------------------------------------------


def test_capabilities_say_what_ids_give():
    """Pass: exactly-once with `ids: always`, else at-least-once with the reason."""
    exact = WebhookSource(options(ids="always")).capabilities
    assert not exact.may_duplicate
    assert not exact.lossy
    assert any("within 1 hour" in each for each in exact.assumptions)
    some = WebhookSource(options()).capabilities
    assert some.may_duplicate
    assert "ids: always" in some.why
    with pytest.raises(OptionError, match="would not help"):
        WebhookSource(options(ids="always", duplicates_within="0 s"))


@pytest.mark.parametrize(
    ("verify", "allowed"),
    [
        ({"use": "standard", "secret": "whsec_" + "abcdefgh" * 4}, False),
        ({"use": "stripe", "secret": "s"}, False),
        ({"use": "slack", "secret": "s"}, False),
        ({**HASHED, "timestamp": "x-time", "signed": "{timestamp}.{body}"}, False),
        (HASHED, True),
        ({"use": "github", "secret": "s"}, True),
    ],
)
def test_ids_are_remembered_for_as_long_as_a_request_is_fresh(verify, allowed):
    """Pass: with `ids: always` half an hour of `tolerance` needs an hour of ids, at every path whose
    verifier looks at a time; without, it is at-least-once anyway."""
    tolerance = {} if verify["use"] == "github" else {"tolerance": "30 minutes 1 s"}
    paths = {"/in": {"verify": NONE}, "/timed": {"verify": {**verify, **tolerance}}}
    assert WebhookSource(options(paths=paths))
    longer = {"duplicates_within": "60 minutes 2 s"}
    assert WebhookSource(options(paths=paths, ids="always", **longer))
    if allowed:
        assert WebhookSource(options(paths=paths, ids="always"))
        return
    with pytest.raises(OptionError, match="twice the `tolerance` of '/timed'") as error:
        WebhookSource(options(paths=paths, ids="always"))
    assert error.value.option == "duplicates_within"
    assert "3602 seconds or more" in error.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "proxy-authorization", "cookie", "set-cookie", "x-hub-signature-256",
        "x-shop-hmac-sha256", "x-auth", "x-api-key", "x-apikey", "x-functions-key", "key",
        "ocp-apim-subscription-key", "x-access-key", "x-access-key-id", "x-goog-iap-jwt-assertion",
        "x-passphrase", "x-pass", "x-passwd", "x-user-pwd", "x-csrf-token", "x-client-secret",
        "x-idempotency-key-secret", "x-message-key-key",
    ],
)  # fmt: skip
def test_headers_of_secrets_are_known_by_their_names(name):
    """Pass: they are in no pattern, and can be named neither to be kept nor as a place."""
    assert is_secret(name)
    assert Keeper(["*"]).kept([(name.encode(), b"x")]) == []
    for wrong in ({"headers": [name]}, {"key": {"header": name.title()}}, {"id": {"header": name}}):
        with pytest.raises(ValueError, match="never kept"):
            options(paths={"/in": {"verify": NONE, **wrong}})


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in KEPT if "*" not in name), "x-idempotency-key", "x-partition-key",
        "x-routing-key", "message-key", "x-ordering-key", "x-github-event", "x-keyboard", "x-monkey",
        "x-compass", "x-passenger", "x-author", "x-design", "content-length",
    ],
)  # fmt: skip
def test_other_headers_are_kept(name):
    """Pass: those that are kept by default, keys of data, and names that hold a part of such a word."""
    assert not is_secret(name)
    assert options(paths={"/in": {"verify": NONE, "headers": [name], "key": {"header": name}}})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"paths": {}}, "paths"),
        ({"paths": {"in": {"verify": NONE}}}, "does not begin with"),
        ({"paths": {"/a b": {"verify": NONE}}}, "neither text nor"),
        ({"paths": {"/{a}/{a}": {"verify": NONE}}}, "twice"),
        ({"paths": {"/{a}": {"verify": NONE}, "/{b}": {"verify": NONE}}}, "are one path"),
        ({"paths": {"/a": {"verify": NONE, "key": {"path": "b"}}}}, "no parameter"),
        ({"paths": {"/a": {"verify": NONE, "key": {}}}}, "one of header, path and field"),
        ({"paths": {"/a": {"verify": NONE, "headers": ["Authorization"]}}}, "never kept"),
        ({"paths": {"/a": {"verify": NONE, "headers": ["x-api-key"]}}}, "never kept"),
        ({"paths": {"/a": {"verify": NONE, "key": {"header": "Authorization"}}}}, "never kept"),
        ({"paths": {"/a": {"verify": NONE, "id": {"header": "X-Hub-Signature"}}}}, "never kept"),
        ({"paths": {"/a": {"verify": HASHED, "headers": ["x-hash"]}}}, "'X-Hash' is a signature"),
        ({"paths": {"/a": {"verify": HASHED, "key": {"header": "x-hash"}}}}, "'X-Hash' is a signature"),
        ({"paths": {"/a": {"verify": HASHED, "id": {"header": "X-HASH"}}}}, "'X-Hash' is a signature"),
        ({"paths": {"/a": {"verify": NONE, "content_types": ["json"]}}}, "no media type"),
        ({"paths": {"/a": {"verify": NONE, "cloudevents": True, "split": "ndjson"}}}, "of their own"),
        ({"paths": {"/a": {"verify": {"use": "mtls"}}}}, "needs `tls`"),
        ({"paths": {"/healthz": {"verify": NONE}}}, "also `health`"),
        ({"health": "/x", "readiness": "/x"}, "one path"),
        ({"trusted_proxies": ["everybody"]}, "no address or network"),
        ({"limits": {"pending_bytes": 10}}, "less than `max_message`"),
        ({"limits": {"body_time": "0 s"}}, "more than 0"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(changes, words):
    """Pass: in words that say what is wrong."""
    with pytest.raises(ValueError, match=words):
        options(**changes)


def test_importing_the_plugin_imports_no_server():
    """Pass: neither the server's libraries nor Spark come with the plugin's module."""
    code = (
        "import sys, mainstem_direct_webhook.plugin\n"
        "bad = {'uvicorn', 'httptools', 'starlette', 'httpx', 'cryptography', 'pyspark'} & set(sys.modules)\n"
        "sys.exit(', '.join(bad) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.in_turn
def test_a_second_delivery_is_answered_and_not_stored(tmp_path):
    """Pass: as a process: a replay answers 200 and is one row; the same id at another path is a second;
    the parts of a batch that comes again are dropped, all of them."""
    port = free_port()
    paths = {"/a": {"verify": NONE}, "/b": {"verify": NONE, "split": "ndjson"}}
    given = WebhookSourceOptions.model_validate({"port": port, "paths": paths})
    (process,) = WebhookSource(given).processes("rows", tmp_path)
    with TakingProcess(process) as taking:
        taking.until(lambda: any(facts["state"] == "running" for facts in taking.told()), "running")
        same = {"webhook-id": "1"}
        assert [ask(port, path="/a", headers=same, body=b"0").status for _ in range(3)] == [200] * 3
        for _ in range(2):
            assert ask(port, path="/b", headers=same, body=b"1\n2\n3").status == 200
        assert [m.value for m in stored(tmp_path)] == [b"0", b"1", b"2", b"3"]
        taking.until(lambda: taking.told()[-1]["duplicates"] == 5, "counted")
        assert taking.stop() == 0
        assert taking.told()[-1]["server"] == f"http://127.0.0.1:{port}"


@pytest.mark.in_turn
def test_two_receivers_share_a_port(tmp_path):
    """Pass: both processes answer; each message is there once, also one that comes to both."""
    given = options(receivers=2)
    first, second = WebhookSource(given).processes("rows", tmp_path)
    port = given.port
    with TakingProcess(first) as one, TakingProcess(second) as two:
        for taking in (one, two):
            taking.until(lambda t=taking: any(f["state"] == "running" for f in t.told()), "running")

        def both():
            assert ask(port, headers={"webhook-id": "same"}, body=b"same").status == 200
            assert ask(port, body=b"x").status == 200
            return all(taking.told()[-1]["rows"] > 0 for taking in (one, two))

        wait_for(both)
        assert one.stop() == two.stop() == 0
    values = [m.value for m in stored(tmp_path)]
    assert values.count(b"same") == 1


@pytest.mark.in_turn
def test_a_port_that_is_taken_is_waited_for():
    """Pass: `TransientError` while somebody has it, and afterwards it serves."""
    given, before = options(), set(descendants())
    receiver = WebhookReceiver(given, 0, "rows")
    with socket.socket() as other:
        other.bind(("127.0.0.1", given.port))
        other.listen()
        with pytest.raises(TransientError, match=str(given.port)):
            receiver.connect(None)
        receiver.close()
    receiver.connect(None)
    try:
        assert ask(given.port, path="/healthz", method="GET").status == 200
    finally:
        receiver.close()
    assert set(descendants()) <= before, "the server has not ended"


@pytest.mark.in_turn
def test_a_server_that_starts_too_late_is_ended_all_the_same(monkeypatch):
    """Pass: `TransientError` when nobody waits any more; closing ends it, and the next one serves."""
    given, before = options(), set(descendants())
    receiver = WebhookReceiver(given, 0, "rows")
    with monkeypatch.context() as patch:
        patch.setattr(receiver_module, "_STARTS", 0.0)
        with pytest.raises(TransientError, match="did not start"):
            receiver.connect(None)
    time.sleep(2)  # it serves by now
    receiver.close()
    assert set(descendants()) <= before, "the server has not ended"
    receiver.connect(None)
    try:
        assert ask(given.port, path="/healthz", method="GET").status == 200
    finally:
        receiver.close()


@pytest.mark.in_turn
def test_a_log_that_nobody_reads_fills_up_and_says_so(tmp_path):
    """Pass: as a process: above the high-water mark 503 with Retry-After, the state is `paused`, and all
    that was answered with 2xx is stored."""
    given = options(high_water=100_000)
    (process,) = WebhookSource(given).processes("rows", tmp_path)
    with TakingProcess(process) as taking:
        taking.until(lambda: any(facts["state"] == "running" for facts in taking.told()), "running")
        stored_ones = 0

        def full():
            nonlocal stored_ones
            reply = ask(given.port, body=b"x" * 20_000)
            stored_ones += reply.status == 200
            return reply.status == 503 and "retry-after" in reply.headers

        wait_for(full)
        taking.until(lambda: taking.told()[-1]["state"] == "paused", "paused")
        assert ask(given.port, path="/readyz", method="GET").status == 503
        assert ask(given.port, path="/healthz", method="GET").status == 200
        assert taking.stop() == 0
    assert len(stored(tmp_path)) == stored_ones >= 5
