"""Slow, greedy and broken clients: they are refused or cut off, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import random
import re
import select
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import uvicorn
from mainstem_direct_webhook.source.server import _Uvicorn
from mainstem_direct_webhook.source.source import WebhookSource
from mainstem_testkit import wait_for
from mainstem_testkit.conformance._receiver import TakingProcess, stored
from mainstem_testkit.processes import descendants
from webhook_clients import ask, connect, options, read_reply, standing, wire

GITHUB = {"/in": {"verify": {"use": "github", "secret": "s"}}}
QUICK = {"head_time": "300 ms", "body_time": "300 ms", "idle_time": "300 ms"}
LONG = {"head_time": "5 minutes", "body_time": "5 minutes", "idle_time": "5 minutes"}


def ends(connection):
    """Read until the server ends the connection; return what came."""
    found = b""
    connection.settimeout(20)
    with suppress(ConnectionError):
        while chunk := connection.recv(65536):
            found += chunk
    return found


def trickle(connection, data):
    """Send byte by byte until the server ends the connection; return what it said."""
    connection.settimeout(0.02)
    found = b""
    for number in range(2000):
        try:
            connection.sendall(data(number))
            chunk = connection.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return found
        if not chunk:
            return found
        found += chunk
    raise AssertionError("the server goes on listening")


# -- slow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "data", "status"),
    [
        (b"", lambda n: b"\r\n", b""),
        (b"", lambda n: b"POST /in HTTP/1.1\r\nHost: a\r\nX: "[n : n + 1] or b"y", b"408"),
        (b"POST /in HTTP/1.1\r\nHost: a\r\n", lambda n: b"X-%d: 1\r\n" % n, b"408"),
        (b"POST /in HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n", lambda n: b"x", b"408"),
        (b"POST /in HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", lambda n: b"1\r\nx\r\n", b"408"),
        (b"POST /in HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", lambda n: b"1;x" if n == 0 else b"y", b"4"),
        (b"POST /in HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxPOST /", lambda n: b"y", b"200"),
    ],
)  # fmt: skip
@pytest.mark.in_turn
def test_a_client_that_trickles_is_cut_off(begin, data, status):
    """Pass: whatever it trickles (empty lines, names, headers, body, chunks, a second head), its
    connection ends; a head or body that is not whole is 408."""
    with standing(limits=QUICK) as stand:
        with connect(stand.port) as connection:
            connection.sendall(begin)
            told = trickle(connection, data)
        assert told.startswith(b"HTTP/1.1 " + status) if status else told == b"", told
        assert ask(stand.port).status == 200


@pytest.mark.parametrize("sent", [b"", b"POST", wire(close=False)])
@pytest.mark.in_turn
def test_a_client_that_is_silent_is_cut_off(sent):
    """Pass: before, in and after a request, when its time is over."""
    with standing(limits=QUICK) as stand, connect(stand.port) as connection:
        connection.sendall(sent)
        told = ends(connection)
        assert told.startswith(b"HTTP/1.1 200") == (len(sent) > 4)


@pytest.mark.in_turn
def test_a_request_that_waits_for_the_disk_is_not_cut_off():
    """Pass: longer than all limits, and then it is answered."""
    limits = {**QUICK, "head_time": "100 ms", "body_time": "100 ms", "idle_time": "100 ms"}
    with standing(limits=limits) as stand, connect(stand.port) as patient:
        stand.storing.clear()
        patient.sendall(wire())
        for _ in range(3):  # each is cut off after the limits
            with connect(stand.port) as silent:
                ends(silent)
        stand.storing.set()
        assert read_reply(patient).status == 200


@pytest.mark.in_turn
def test_slow_clients_hold_nobody_up():
    """Pass: 150 clients stand in the middle of a head or body, and others are served at once; those
    beyond the most connections are cut off, and it serves on when they have gone."""
    limits = {**LONG, "connections": 200}
    with standing(limits=limits) as stand:
        held = []
        for number in range(150):
            connection = connect(stand.port)
            connection.sendall(wire(body=b"x" * 100)[: 20 + number])
            held.append(connection)
        assert [ask(stand.port).status for _ in range(20)] == [200] * 20
        for _ in range(60):
            connection = connect(stand.port)
            with suppress(ConnectionError):
                connection.sendall(b"P")
            held.append(connection)
        with pytest.raises(OSError):  # noqa: PT011  # a reset or an end, as the kernel likes
            ask(stand.port)
        for connection in held:
            connection.close()

        def served():
            with suppress(OSError):
                return ask(stand.port).status == 200

        wait_for(served)


def test_a_connection_counts_once_while_it_is_opened():
    """Pass: a client that uvicorn knows already, and whose opening is not over, is one client."""
    limits = options().limits
    with socket.socket() as listening:
        server = _Uvicorn(uvicorn.Config(lambda: None), listening, limits)
        known, coming = object(), object()
        server.server_state.connections = {known}
        server._opening = {"its task": known, "another": coming}
        assert server._open_ones() == 2


# -- greedy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 40])
def test_a_head_that_is_too_large_is_refused(pieces):
    """Pass: in one piece or many: 431, and the connection ends; a name, a value, a path, or in sum."""
    big = 40_000
    with standing() as stand:
        for request in (
            wire(headers={"X": "y" * big}),
            wire(headers={"X" * big: "y"}),
            wire(path="/in?" + "x" * big),
            wire(headers=[(f"x-{n}", "y" * 400) for n in range(99)]),
            b"POST /in HTTP/1.1\r\nHost: a\r\n"
            + b"".join(b"A: b\r\n" for _ in range(9000))
            + b"\r\n",
        ):
            with connect(stand.port) as connection:
                size = -(-len(request) // pieces)
                with suppress(ConnectionError):
                    for at in range(0, len(request), size):
                        connection.sendall(request[at : at + size])
                reply = read_reply(connection)
                assert reply.status == reply.problem["status"] == 431
                assert reply.headers["connection"] == "close"
        assert stand.messages == []
        assert ask(stand.port, headers={"X": "y" * 20_000}).status == 200


def test_a_head_without_end_is_cut_off():
    """Pass: a client that sends headers for ever is answered with 431 after `head_bytes`."""
    with (
        standing(limits={**LONG, "head_bytes": "8 KiB"}) as stand,
        connect(stand.port) as connection,
    ):
        connection.sendall(b"POST /in HTTP/1.1\r\nHost: a\r\n")
        sent = 0
        with suppress(ConnectionError):
            while sent < 50 * 2**20:
                sent += connection.send(b"X-Header: %s\r\n" % (b"y" * 1000))
        assert sent < 50 * 2**20
        with suppress(ConnectionError):
            assert read_reply(connection).status == 431


@pytest.mark.in_turn
def test_a_body_without_end_is_refused():
    """Pass: with a length or chunked, 413; what is read of it does not stay in memory."""
    limits = {**LONG, "pending_bytes": "2 MiB"}
    with standing(max_message="1 MiB", limits=limits) as stand:
        for header in ({"Content-Length": str(10**12)}, {"Transfer-Encoding": "chunked"}):
            with connect(stand.port) as connection:
                with suppress(ConnectionError):
                    connection.sendall(wire(body=b"", headers=header))
                    for _ in range(64):
                        connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                with suppress(ConnectionError):
                    assert read_reply(connection).status == 413
        assert stand.messages == []
        whole = bytes(2**20)
        assert [ask(stand.port, body=whole).status for _ in range(3)] == [200] * 3


def test_half_a_request_is_no_message():
    """Pass: cut anywhere, nothing is stored and nobody is answered with 2xx."""
    request = wire(body=b"0123456789", headers={"webhook-id": "1"})
    with standing() as stand:
        for at in range(1, len(request), 7):
            with connect(stand.port) as connection:
                connection.sendall(request[:at])
                connection.shutdown(socket.SHUT_WR)
                assert not re.match(rb"HTTP/1.1 2", ends(connection)), at
        assert stand.messages == []
        assert ask(stand.port, request).status == 200


def test_requests_that_could_be_read_in_two_ways_are_refused():
    """Pass: two lengths, a length and chunks, a length that is no number, broken lines: never 2xx."""
    host = b"POST /in HTTP/1.1\r\nHost: x\r\n"
    smuggled = b"\r\n\r\nx"
    with standing(limits=QUICK) as stand:
        for lines in (
            b"Content-Length: 1\r\nContent-Length: 5",
            b"Content-Length: 1\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked, identity",
            b"Content-Length: -1",
            b"Content-Length: 1e3",
            b"Content-Length: " + b"9" * 30,
            b"Content-Length : 1",
            b" Content-Length: 1",
            b"Content-Length: 1\r\nX: a\x00b",
        ):
            with connect(stand.port) as connection:
                connection.sendall(host + lines + smuggled)
                connection.shutdown(socket.SHUT_WR)
                assert not ends(connection).startswith(b"HTTP/1.1 2"), lines
        assert stand.messages == []


def test_what_is_no_http_is_refused_with_a_problem():
    """Pass: 400 with problem details, and the connection ends."""
    with standing() as stand:
        for request in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n"):
            reply = ask(stand.port, request)
            assert reply.status == reply.problem["status"] == 400
            assert reply.headers["connection"] == "close"


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("name", ["h2c", "websocket", "foo"])
def test_a_request_that_asks_for_another_protocol_is_one_as_any(name, chunked, together):
    """Pass: no 101; its body is stored, of its length or chunked, in one piece or several, and what comes
    after it on the connection is a request of its own, and never a part of the body."""
    body = b"POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nsmuggled"
    upgrade = {
        "Upgrade": name,
        "Connection": "Upgrade, HTTP2-Settings",
        "HTTP2-Settings": "AAMAAABk",
    }
    framing = {"Transfer-Encoding": "chunked"} if chunked else {}
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    if not chunked:
        framing = {"Content-Length": str(len(body))}
    head = wire(body=b"", headers={**upgrade, **framing}, close=False)
    empty = wire(body=b"", headers=upgrade, close=False)
    pieces = [head, sent[:20], sent[20:], empty, wire(body=b"next")]
    with standing() as stand, connect(stand.port) as connection:
        for piece in [b"".join(pieces)] if together else pieces:
            connection.sendall(piece)
            if not together:
                threading.Event().wait(0.05)  # the next is to come in a piece of its own
        statuses = re.findall(rb"HTTP/1.1 (\d+)", ends(connection))
        assert statuses == [b"200"] * 3
    assert [m.value for m in stand.messages] == [body, b"", b"next"]


@pytest.mark.in_turn
def test_http_2_is_not_spoken():
    """Pass: what begins as HTTP/2 ends without a message, and others are served."""
    with standing(limits=QUICK) as stand:
        with connect(stand.port) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            ends(connection)
        assert stand.messages == []
        assert ask(stand.port).status == 200


@pytest.mark.in_turn
def test_who_sends_on_after_the_answer_does_not_stay():
    """Pass: bodies that end after their answers, more of them than connections may be: all are cut off,
    and others are served."""
    with standing(limits={**QUICK, "connections": 5}) as stand:
        held = []
        for _ in range(5):
            connection = connect(stand.port)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
            assert read_reply(connection).status == 200
            with suppress(OSError):
                connection.sendall(b"x")
            held.append(connection)
        for connection in held:
            ends(connection)
        assert ask(stand.port).status == 200


@pytest.mark.in_turn
def test_who_does_not_read_its_answers_does_not_stay():
    """Pass: a client that sends whole requests, whose answers no buffer holds, and reads nothing, is cut
    off; others are served then."""
    few = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 20
    with standing(limits={**QUICK, "connections": 1}) as stand, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", stand.port))
        connection.settimeout(1)
        with suppress(OSError):
            while True:  # until nothing more is taken, or it is cut off
                connection.sendall(few)
                threading.Event().wait(0.001)

        def served():
            with suppress(OSError):
                return ask(stand.port).status == 200

        wait_for(served, 20)


@pytest.mark.in_turn
def test_what_comes_behind_a_body_is_no_header():
    """Pass: trailers are thrown away, a few of them; one after the other without end, or one that does
    not end, is 431, and the memory of the server does not grow."""
    chunked = {"Transfer-Encoding": "chunked", "X-GitHub-Event": "true"}
    head = wire(body=b"", headers=chunked, close=False)
    trailers = b"X-GitHub-Event: forged\r\nX-GitHub-Delivery: forged\r\n"
    body = b"1\r\nx\r\n0\r\n"
    before = set(descendants())
    with standing(limits={**LONG, "head_bytes": "8 KiB"}) as stand:
        for pieces in ([head + body + trailers + b"\r\n"], [head, body, trailers, b"\r\n"]):
            with connect(stand.port) as connection:
                for piece in pieces:
                    connection.sendall(piece)
                    threading.Event().wait(0.05)
                assert read_reply(connection).status == 200
            assert [m.headers for m in stand.messages] == [[("x-github-event", b"true")]]
            stand.messages.clear()
        (server,) = set(descendants()) - before
        resident_before = resident(server)
        for piece in (b"x-github-event: forged\r\n" * 1000, b"x" * 30_000):
            with connect(stand.port) as connection:
                connection.sendall(head + body)
                with suppress(ConnectionError):
                    for _ in range(1000):
                        connection.sendall(piece)
                with suppress(ConnectionError):
                    assert read_reply(connection).status in (200, 431)
        assert resident(server) - resident_before < 8 * 2**20
        assert ask(stand.port).status == 200
        assert [m.headers for m in stand.messages if len(m.headers or ()) > 1] == []


def test_parts_count_with_their_headers():
    """Pass: a small body of many parts that would each be stored with large headers is 413, and stores
    nothing; with small ones it is taken."""
    paths = {"/in": {"verify": {"use": "none"}, "split": "ndjson", "headers": ["x-large"]}}
    limits = {**LONG, "pending_bytes": "4 MiB"}
    with standing(paths=paths, limits=limits, max_message="1 MiB") as stand:
        body = b"1\n" * 1000
        assert ask(stand.port, body=body, headers={"x-large": "y" * 20_000}).status == 413
        assert stand.messages == []
        for _ in range(3):
            assert ask(stand.port, body=body, headers={"x-large": "y" * 2000}).status == 200
        assert len(stand.messages) == 3000


@pytest.mark.in_turn
def test_a_body_that_is_read_as_json_has_a_limit_of_its_own():
    """Pass: 413 where a field is looked for, parts are, or events are; where none is, it is taken."""
    none = {"use": "none"}
    paths = {
        "/plain": {"verify": none},
        "/field": {"verify": none, "id": {"field": "id"}},
        "/split": {"verify": none, "split": "json_array"},
        "/events": {"verify": none, "cloudevents": True},
    }
    with standing(paths=paths, limits={**LONG, "parsed_bytes": "10 KiB"}) as stand:
        body = b"[%s]" % b",".join([b"[]"] * 10_000)
        found = {path: ask(stand.port, path=path, body=body).status for path in paths}
        assert found == {"/plain": 200, "/field": 413, "/split": 413, "/events": 413}
        assert [m.value for m in stand.messages] == [body]


def test_many_requests_at_once_over_one_connection_are_answered_in_order():
    """Pass: 50 pipelined requests, every other refused: as many answers, in their order."""
    requests = b"".join(
        wire("/in" if n % 2 else "/nowhere", b"%d" % n, close=n == 49) for n in range(50)
    )
    with standing() as stand, connect(stand.port) as connection:
        connection.sendall(requests)
        statuses = re.findall(rb"HTTP/1.1 (\d+)", ends(connection))
        assert statuses == [b"404", b"200"] * 25
        assert [m.value for m in stand.messages] == [b"%d" % n for n in range(1, 50, 2)]


# -- broken ---------------------------------------------------------------------------------------


def forged(chance):
    """Return the bytes of a broken or forged request; none of them is one to be stored."""
    body = chance.randbytes(chance.choice([0, 1, 50, 2000]))
    headers = [
        ("Content-Type", "application/json"),
        ("X-GitHub-Delivery", str(chance.random())),
        ("X-Hub-Signature-256", "sha256=" + chance.randbytes(32).hex()),
    ]
    chance.shuffle(headers)
    if chance.random() < 0.1:
        headers += [
            (f"x-{n}", "y" * chance.choice([1, 500])) for n in range(chance.choice([50, 300]))
        ]
    if chance.random() < 0.2:
        headers.append(("Transfer-Encoding", "chunked"))
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    path = chance.choice(
        ["/in", "/in", "/in", "/", "/in/", "/%69%6e", "*", "http://x/in", "/in#x", "//in"]
    )
    method = chance.choice(["POST", "POST", "POST", "PUT", "GET", "BREW", "post", "CONNECT", "PRI"])
    request = bytearray(wire(path, body, headers, method, close=chance.random() < 0.5))
    for _ in range(chance.choice([0, 0, 1, 2, 10])):
        at = chance.randrange(len(request))
        how = chance.random()
        if how < 0.4:
            request[at] = chance.randrange(256)
        elif how < 0.6:
            del request[at : at + chance.randrange(1, 40)]
        elif how < 0.8:
            request[at:at] = chance.randbytes(chance.randrange(1, 40))
        else:
            request[at:at] = request[max(0, at - 50) : at]
        if not request:
            break
    return bytes(
        request[: chance.randrange(len(request) + 1)] if chance.random() < 0.1 else request
    )


async def bombard(port, count, seed, statuses):
    """Send forged requests over 16 connections at once, some of them in pieces, and count the answers."""
    chances = [random.Random(f"{seed} {n}") for n in range(16)]

    async def work(chance):
        for _ in range(count // 16):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                statuses["not connected"] += 1
                continue
            try:
                request = forged(chance)
                at = chance.randrange(len(request) + 1) if chance.random() < 0.3 else 0
                writer.write(request[:at])
                await writer.drain()
                writer.write(request[at:])
                writer.write_eof()
                told = await asyncio.wait_for(reader.read(65536), 30)
                statuses[told[9:12].decode("latin-1")] += 1
            except (ConnectionError, OSError):
                statuses["reset"] += 1
            finally:
                writer.close()

    await asyncio.gather(*map(work, chances))


def flood(connection, *, read, size=100_000_000, seconds=8):
    """Send requests one after the other until so many bytes are sent, nothing more goes, or time is over."""
    until = time.monotonic() + seconds
    block = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 4096
    left = b""
    sent = 0
    connection.setblocking(False)
    while sent < size and time.monotonic() < until:
        readable, writable, _ = select.select([connection] if read else [], [connection], [], 2)
        if not readable and not writable:
            break
        with suppress(BlockingIOError):
            if readable and not connection.recv(2**20):
                break
        if writable:
            left = left or block
            with suppress(BlockingIOError):
                count = connection.send(left)
                left, sent = left[count:], sent + count
    return sent


@pytest.mark.in_turn
def test_requests_that_do_not_wait_for_answers_fill_no_memory(tmp_path):
    """Pass: as many as go on a connection that reads its answers, and on 200 that do not (100 MB are on
    their way to each): the process grows by less than 96 MiB, and others are answered meanwhile."""
    given = options(paths=GITHUB)
    (process,) = WebhookSource(given).processes("rows", tmp_path)
    with TakingProcess(process) as taking:
        taking.until(lambda: any(facts["state"] == "running" for facts in taking.told()), "running")
        (pid,) = descendants(taking._process.pid)
        before, most = resident(pid), 0
        silent = [connect(given.port) for _ in range(200)]
        try:
            with ThreadPoolExecutor(201) as pool, connect(given.port) as reading:
                for connection in silent:
                    pool.submit(flood, connection, read=False)
                sent = pool.submit(flood, reading, read=True)
                while not sent.done():
                    most = max(most, resident(pid) - before)
                    assert ask(given.port).status == 401
                    time.sleep(0.1)
        finally:
            for connection in silent:
                connection.close()
        assert sent.result() > 1_000_000
        assert most < 96 * 2**20, f"grown by {most >> 20} MiB"
        assert taking.stop() == 0, taking.words()


@pytest.mark.in_turn
def test_pipelined_requests_are_answered_in_their_order():
    """Pass: a thousand at once, bodies between, each with its answer; all of them are stored."""
    with standing() as stand, connect(stand.port) as connection:
        requests = [wire(body=b"%d" % n, close=False) for n in range(1000)]
        sender = threading.Thread(target=connection.sendall, args=(b"".join(requests),))
        sender.start()
        connection.settimeout(60)
        told = b""
        while told.count(b"HTTP/1.1 200") < 1000 and (chunk := connection.recv(2**20)):
            told += chunk
        sender.join()
        assert told.count(b"HTTP/1.1") == told.count(b"HTTP/1.1 200") == 1000
        assert [int(message.value) for message in stand.messages] == list(range(1000))


@pytest.mark.in_turn
def test_one_address_can_not_hold_all_connections():
    """Pass: a client of another address is served though one has taken all and trickles; and it can not
    take all from others in turn."""
    with standing(limits={**LONG, "connections": 20}) as stand:
        greedy = [connect(stand.port) for _ in range(20)]
        try:
            for connection in greedy:
                connection.sendall(b"POST /in HTTP/1.1\r\nHo")
            time.sleep(1)  # until all of them are let in
            others = []
            for n in range(5):
                made = socket.create_connection(
                    ("127.0.0.1", stand.port), 20, source_address=(f"127.0.0.{n + 2}", 0)
                )
                made.sendall(wire(close=False))
                assert read_reply(made).status == 200
                others.append(made)
            more = [connect(stand.port) for _ in range(20)]  # none of these is let in
            for made in others:
                made.sendall(wire(close=False))
                assert read_reply(made).status == 200
            for connection in (*others, *more):
                connection.close()
        finally:
            for connection in greedy:
                connection.close()


def test_a_signature_that_is_given_twice_is_refused():
    """Pass: also where both are right; another header may come twice."""
    signature = "sha256=" + hmac.new(b"s", b"x", hashlib.sha256).hexdigest()
    name = "X-Hub-Signature-256"
    with standing(paths=GITHUB) as stand:
        for headers, status in (
            ([(name, signature), ("X-More", "1"), ("X-More", "2")], 200),
            ([(name, signature), (name, signature)], 401),
            ([(name, "sha256=00"), (name.lower(), signature)], 401),
            ([(name, signature), (name, "sha256=00")], 401),
        ):
            assert ask(stand.port, headers=headers).status == status, headers


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n"])
def test_a_request_names_one_host(hosts):
    """Pass: none, or two, are 400 and the end of the connection; HTTP/1.0 needs none."""
    with standing() as stand:
        with connect(stand.port) as connection:
            request = b"POST /in HTTP/1.1\r\n" + hosts + b"Content-Length: 1\r\n\r\nx"
            connection.sendall(request * 2)
            told = ends(connection)
        assert told.startswith(b"HTTP/1.1 400")
        assert told.count(b"HTTP/1.1 4") == 1
        assert ask(stand.port).status == 200
        with connect(stand.port) as connection:
            connection.sendall(b"POST /in HTTP/1.0\r\nContent-Length: 1\r\n\r\nx")
            assert ends(connection).startswith(b"HTTP/1.1 200")


def resident(pid):
    """The resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    "count", [3_200, pytest.param(112_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
@pytest.mark.in_turn
def test_broken_and_forged_requests_are_refused(count, tmp_path):
    """Pass: none is answered with 2xx or 5xx, nothing is stored, the process lives, its memory grows by
    less than 8 MiB after the first tenth; and then a signed request is stored."""
    given = options(paths=GITHUB, limits={**QUICK, "idle_time": "2 s"})
    (process,) = WebhookSource(given).processes("rows", tmp_path)
    statuses = Counter()
    with TakingProcess(process) as taking:
        taking.until(lambda: any(facts["state"] == "running" for facts in taking.told()), "running")
        (pid,) = descendants(taking._process.pid)
        asyncio.run(bombard(given.port, max(1600, count // 10), 1, statuses))
        before = resident(pid)
        asyncio.run(bombard(given.port, count, 2, statuses))
        grown = resident(pid) - before
        assert taking.running
        assert grown < 8 * 2**20, f"grown by {grown >> 10} KiB"
        answered = [status for status in statuses if status[:1] in "25" and status]
        assert not answered, statuses
        assert statuses["not connected"] == 0, statuses
        assert statuses["401"] > count / 10, statuses
        assert statuses["400"] > count / 50, statuses
        assert stored(tmp_path) == []
        signature = hmac.new(b"s", b"x", hashlib.sha256).hexdigest()
        assert ask(given.port, headers={"X-Hub-Signature-256": f"sha256={signature}"}).status == 200
        assert taking.stop() == 0, taking.words()
    assert [m.value for m in stored(tmp_path)] == [b"x"]
    print(f"{statuses}; grown by {grown >> 10} KiB")
