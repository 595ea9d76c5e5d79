"""What the sink's tasks send, and what they do when the endpoint does not take it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import threading
import time
import tracemalloc
from contextlib import suppress

import pyarrow as pa
import pytest
import standardwebhooks
from mainstem import PermanentError
from mainstem.sinks import Refused
from mainstem_direct_webhook.sink import dispatcher, worker
from mainstem_direct_webhook.sink.dispatcher import make_deliverer, send
from mainstem_direct_webhook.sink.options import WebhookSinkOptions
from mainstem_direct_webhook.sink.requests import Message, Packing
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.plugin import serve
from mainstem_testkit.processes import resident
from mainstem_testkit.server import free_port
from webhook_far import FarEndpoint

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(bytes(range(32))).decode()
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.map_(pa.string(), pa.binary()),
        "timestamp": pa.timestamp("us", "UTC"),
        "_id": pa.binary(),
    }
)


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    yield from serve(FarEndpoint, request, tmp_path_factory)


@pytest.fixture
def far(server):
    return server.place()


@pytest.fixture
def free_port_url():
    return f"http://127.0.0.1:{free_port()}/TOKEN"


class Trickling:
    """Answers without end: its status line or body byte by byte, or its body as fast as it goes; or reads
    a request so slowly."""

    def __init__(self):
        self.part = "head"
        #: Bytes sent on each connection, when it has ended.
        self.closed = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        head = b"HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n"
        sent = 0
        with connection, suppress(OSError):
            while self.part == "deaf" and connection.recv(65536):
                time.sleep(0.01)
            connection.recv(65536)
            if self.part == "head":
                head = b"HTTP/1.1 202 " + b"x" * 10_000
            else:
                connection.sendall(head)
            chunk = b"1\r\nx\r\n" if self.part == "body" else b"1000\r\n" + bytes(4096) + b"\r\n"
            for byte in iter(head) if self.part == "head" else iter(int, 1):
                data = bytes([byte]) if self.part == "head" else chunk
                connection.sendall(data)
                sent += len(data)
                if self.part != "flood":
                    time.sleep(0.02)
        self.closed.append(sent)

    def close(self):
        self._listener.close()


@pytest.fixture
def trickling():
    made = Trickling()
    yield made
    made.close()


@pytest.fixture
def waits(monkeypatch):
    """Let no try wait; what the waits would have been."""
    noted, computed = [], worker.pause

    def pause(tries, asked, longest):
        noted.append(computed(tries, asked, longest))
        return 0.0

    monkeypatch.setattr(worker, "pause", pause)
    return noted


def options_of(far, **given):
    url = given.pop("url", None) or far.url
    return WebhookSinkOptions.model_validate(
        {"url": url, "allow_private": True, "give_up": "30 seconds", **given}
    )


def identity(number):
    return hashlib.md5(str(number).encode()).digest()


def rows_of(values, **columns):
    """Return a batch of rows; each id is the number of the row."""
    rows = [
        {"value": value, "_id": identity(n), **{name: held[n] for name, held in columns.items()}}
        for n, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in SCHEMA.names} for row in rows], SCHEMA
    )


def run(far, values, columns=None, **options):
    """Send rows; return those that were refused, by payload: the reasons."""
    batches = [rows_of(values, **(columns or {}))]
    refused = [
        row for b in send(iter(batches), options_of(far, **options)) for row in b.to_pylist()
    ]
    return {row["payload"]: row["reason"] for row in refused}


# -- what is sent ---------------------------------------------------------------------------


def test_a_request_is_what_the_row_and_the_options_say(far):
    """Pass: method, path, query, body, type, id, time, fixed and forwarded headers, and nothing else."""
    headers = {
        "X-Event": b"placed",
        "x-other": b"not this",
        "Host": b"evil",
        "webhook-id": b"forged",
    }
    refused = run(
        far,
        [b"\x00body\xff"],
        {"headers": [list(headers.items())]},
        url=f"{far.url}?token=a%20b",
        method="PUT",
        content_type="text/plain",
        headers={"X-Tenant": "t1"},
        forward_headers=["x-event", "x-absent"],
    )
    (came,) = far.came()
    assert (refused, came["body"], came["method"]) == ({}, b"\x00body\xff", "PUT")
    assert (came["path"], came["query"]) == (f"/{far.name}/hook", "token=a%20b")
    found = came["headers"]
    assert abs(int(found.pop("webhook-timestamp")) - time.time()) < 60
    assert found == {
        "host": f"127.0.0.1:{far.server.port}",
        "user-agent": "mainstem-direct-webhook",
        "accept": "*/*",
        "content-type": "text/plain",
        "content-length": "6",
        "x-tenant": "t1",
        "x-event": "placed",
        "webhook-id": identity(0).hex(),
        "idempotency-key": identity(0).hex(),
    }
    assert len(came["names"]) == len(set(came["names"]))


def test_every_secret_signs(far, waits):
    """Pass: an independent library verifies by each secret; a new try has its own time and signature."""
    far.tell({"status": 503})
    run(far, [b'{"n": 1}'], sign_with=[SECRET, OTHER])
    first, second = far.came()
    for secret in (SECRET, OTHER):
        for came in (first, second):
            standardwebhooks.Webhook(secret).verify(came["body"], came["headers"])
    assert len(second["headers"]["webhook-signature"].split(" ")) == 2
    assert first["headers"]["webhook-id"] == second["headers"]["webhook-id"] == identity(0).hex()
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(b'{"n": 2}', first["headers"])


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"auth": {"bearer": "abc"}}, "Bearer abc"),
        ({"auth": {"user": "u", "password": "p:ä"}}, "Basic " + base64.b64encode("u:p:ä".encode()).decode()),
        ({"headers": {"Authorization": "Custom x"}}, "Custom x"),
    ],
)  # fmt: skip
def test_ways_to_log_in(far, options, sent):
    """Pass: the header that the endpoint gets."""
    assert run(far, [b"x"], **options) == {}
    assert far.came()[0]["headers"]["authorization"] == sent


def test_user_and_password_of_the_url_are_sent_as_basic(far):
    """Pass: decoded, in the header, and not in the request's path or host."""
    url = far.url.replace("://", "://user:p%40ss@")
    assert run(far, [b"x"], url=url) == {}
    (came,) = far.came()
    assert came["headers"]["authorization"] == "Basic " + base64.b64encode(b"user:p@ss").decode()
    assert "@" not in came["headers"]["host"] + came["path"]


def test_arrays_and_lines(far):
    """Pass: 5 rows go as 2, 2 and 1; line breaks within JSON do not end a line; ids of several are
    stable, those of one the row's own; what is not JSON is refused alone."""
    values = [b'{"a":\n1}', b"2", None, b"{not json}", b'"\xc3\xa4"', b"1e999", b"NaN", b"\xff"]
    for kind in ("json_array", "ndjson"):
        refused = run(far, values, format=kind, max_messages=2)
        assert set(refused) == {b"{not json}", b"NaN", b"\xff"}
        assert all("not JSON" in reason for reason in refused.values())
    arrays, lines = far.came()[:3], far.came()[3:]
    assert sorted(came["body"] for came in arrays) == sorted(
        [b'[{"a": 1},2]', b'[null,"\xc3\xa4"]', b"[1e999]"]
    )
    assert sorted(came["body"] for came in lines) == sorted(
        [b'{"a": 1}\n2\n', b'null\n"\xc3\xa4"\n', b"1e999\n"]
    )
    assert {came["headers"]["content-type"] for came in arrays} == {"application/json"}
    assert {came["headers"]["content-type"] for came in lines} == {"application/x-ndjson"}
    names = {came["headers"]["webhook-id"] for came in far.came()}
    pairs = [(0, 1), (2, 4)]
    several = {hashlib.sha256(identity(a) + identity(b)).digest()[:16].hex() for a, b in pairs}
    assert names == {identity(5).hex(), *several}


def test_a_request_of_several_is_cut_by_bytes(far):
    """Pass: a value larger than `max_bytes` goes alone, small ones together."""
    big = json.dumps("x" * 200).encode()
    run(far, [b"1", b"2", big, b"3", b"4"], format="ndjson", max_bytes=100)
    assert sorted(far.bodies()) == sorted([b"1\n2\n", big + b"\n", b"3\n4\n"])


def test_headers_that_no_request_can_carry_refuse_their_row(far):
    """Pass: line breaks and control characters of a message reach no request; its neighbours do."""
    wrong = [b"a\r\nwebhook-id: forged", b"a\nb", b"\x00", b" a", b"ok \xe4"]
    columns = {"headers": [[("x-event", each)] for each in wrong]}
    refused = run(far, [b"%d" % n for n in range(5)], columns, forward_headers=["x-event"])
    assert set(refused) == {b"0", b"1", b"2", b"3"}
    assert all("header x-event" in reason for reason in refused.values())
    assert far.bodies() == [b"4"]


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_type_of_data_that_no_request_can_carry_refuses_its_row(far, mode):
    """Pass: the row is refused before anything is sent of it; its neighbours are sent."""
    columns = {"headers": [[("content-type", each)] for each in (b" text/plain", b"  ", b"a/b")]}
    events = {"mode": mode, "source": "/a", "type": "b"}
    given = {"format": "cloudevents", "cloudevents": events, "give_up": "1 second"}
    refused = run(far, [b"0", b"1", b"2"], columns, **given)
    assert set(refused) == {b"0", b"1"}
    assert len(far.came()) == 1


def test_a_header_that_no_request_can_carry_is_not_tried_again(far, waits):
    """Pass: what got past all checks refuses its message, without a try more, and the next is sent."""
    options, refused = options_of(far), Refused()
    packing = Packing(options)
    deliverer = make_deliverer(options, packing, refused)
    for number, value in enumerate((" wrong", "right")):
        message = Message(identity(number), None, b"%d" % number, b"%d" % number, (("x-a", value),))
        deliverer.send(packing.pack([message]))
    deliverer.flush()
    deliverer.close()
    ((row,),) = (batch.to_pylist() for batch in refused.take())
    assert row["payload"] == b"0"
    assert row["reason"].startswith("no request can carry it: ")
    assert far.bodies() == [b"1"]
    assert waits == []


# -- order and speed ------------------------------------------------------------------------


def pulled(far, count, ahead, value=b"%d"):
    """Yield batches of one row, and note how many the sender has taken beyond those that have come."""
    for number in range(count):
        yield rows_of([value % number])
        ahead.append(number + 1 - len(far.came()))


@pytest.mark.in_turn
def test_no_more_are_on_their_way_than_said(far):
    """Pass: of 300 requests 5 wait for their answers at a time, on 5 connections; the sender takes no
    more rows than it may hold while the endpoint stands still."""
    ahead = []
    far.tell(hold=True)
    given = pulled(far, 300, ahead)
    task = threading.Thread(target=lambda: list(send(given, options_of(far, requests=5))))
    task.start()
    wait_for(lambda: far.state()["waiting"] == 5)
    wait_for(lambda: len(ahead) >= 39)
    far.release()
    task.join(60)
    assert not task.is_alive()
    assert far.state() == {"waiting": 0, "most": 5, "connections": 5}
    assert len(far.came()) == 300
    assert max(ahead) <= 8 * 5 + 1


def test_bodies_that_are_held_are_bounded_by_bytes(far, monkeypatch):
    """Pass: with room for 5 bodies of 1,000 bytes no more are held, though 8 lanes could; one that is
    larger than all the room goes alone."""
    monkeypatch.setattr(dispatcher, "_MOST_BYTES", 5000)
    ahead = []
    far.tell(hold=True)
    given = pulled(far, 50, ahead, b"%01000d")
    task = threading.Thread(target=lambda: list(send(given, options_of(far))))
    task.start()
    wait_for(lambda: far.state()["waiting"] == 5)
    far.release()
    task.join(60)
    assert far.state()["most"] <= 5
    assert max(ahead) <= 6
    assert run(far, [b"x" * 20_000]) == {}
    assert len(far.came()) == 51


@pytest.mark.in_turn
def test_memory_does_not_grow_with_what_is_sent(far):
    """Pass: while 300 MB go in 3,000 requests, the process is never 60 MB larger than it was after the
    first 50 MB."""
    far.tell(forget=True)
    sizes = []

    def given():
        for number in range(3500):
            yield pa.RecordBatch.from_pylist([{"_id": b"%016d" % number, "value": bytes(100_000)}])
            if number % 100 == 0:
                sizes.append(resident()[os.getpid()])

    assert not list(send(given(), options_of(far)))
    assert max(sizes[5:]) - sizes[5] < 60_000_000


@pytest.mark.in_turn
def test_memory_does_not_grow_with_the_batch_of_rows(far):
    """Pass: of one batch of 600 rows and 150 MB, while the endpoint stands still and after, there are
    never 50 MB in Python's hands."""
    far.tell(hold=True, forget=True)
    values = pa.array([bytes(250_000)] * 600, pa.binary())
    ids = pa.array([identity(n) for n in range(600)], pa.binary())
    given = iter([pa.RecordBatch.from_arrays([values, ids], ["value", "_id"])])
    tracemalloc.start()
    try:
        task = threading.Thread(target=lambda: list(send(given, options_of(far))))
        task.start()
        wait_for(lambda: far.state()["waiting"] == 8)
        far.release()
        task.join(60)
        assert not task.is_alive()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 50_000_000


def test_a_connection_serves_many_requests(far):
    """Pass: 200 requests of two batches of rows on 3 connections."""
    batches = [rows_of([b"%d" % n for n in range(100)])] * 2
    assert not list(send(iter(batches), options_of(far, requests=3)))
    assert far.state()["connections"] <= 3
    assert len(far.came()) == 200


def in_order(far):
    """Return the numbers of each key's rows, as they came."""
    found = {}
    for came in far.came():
        rows = json.loads(came["body"])
        for key, number in rows if isinstance(rows[0], list) else [rows]:
            found.setdefault(key, []).append(number)
    return found


def keyed(count, keys):
    values = [json.dumps([n % keys, n]).encode() for n in range(count)]
    return values, {"key": [b"%d" % (n % keys) for n in range(count)]}


def test_requests_of_a_key_go_one_after_another(far):
    """Pass: of 3 keys 3 requests wait at a time, though 8 could; each key's rows come in order, also when
    tries fail in between."""
    values, columns = keyed(60, 3)
    far.tell(hold=True)
    task = threading.Thread(target=lambda: run(far, values, columns, longest_wait="1 ms"))
    task.start()
    wait_for(lambda: far.state()["waiting"] == 3)
    far.tell(*({"status": 503} if n % 3 else {} for n in range(60)))
    far.release()
    task.join(60)
    assert not task.is_alive()
    assert far.state()["most"] == 3
    assert in_order(far).keys() == {0, 1, 2}
    for numbers in in_order(far).values():
        assert numbers == sorted(numbers)
    assert len(far.taken()) == 60


def test_requests_of_several_wait_for_those_that_share_a_key(far):
    """Pass: arrays of 4 rows with 6 keys, some refused at first: each key's rows come in order."""
    values, columns = keyed(120, 6)
    far.tell(*({"status": 500} if n % 2 else {} for n in range(30)))
    run(far, values, columns, format="json_array", max_messages=4, longest_wait="1 ms")
    for numbers in in_order(far).values():
        assert numbers == sorted(numbers)
    assert sum(len(numbers) for numbers in in_order(far).values()) >= 120


def test_without_order_a_key_does_not_wait(far):
    """Pass: with `order: none`, and for rows without a key, all lanes are busy with one key."""
    values, columns = keyed(20, 1)
    for given, options in ((columns, {"order": "none"}), ({}, {})):
        far.tell(hold=True)
        task = threading.Thread(target=run, args=(far, values, given), kwargs=options)
        task.start()
        wait_for(lambda: far.state()["waiting"] == 8)
        far.release()
        task.join(60)
        assert not task.is_alive()
    assert len(far.came()) == 40


# -- answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_statuses_that_pass_are_tried_again(far, waits, status):
    """Pass: three tries with one id, the third is taken; the waits grow."""
    far.tell({"status": status}, {"status": status})
    assert run(far, [b"x"]) == {}
    assert [came["status"] for came in far.came()] == [status, status, 202]
    assert len({came["headers"]["idempotency-key"] for came in far.came()}) == 1
    assert 0.1 <= waits[0] <= 0.2 <= waits[1] <= 0.4


@pytest.mark.parametrize("status", [400, 406, 409, 411, 413, 415, 418, 422, 431, 451])
def test_other_4xx_refuse_the_message(far, waits, status):
    """Pass: one try; the row is refused with status and body start, the next one is sent."""
    far.tell({"status": status, "body": "no\n  \x00good" + "x" * 9000})
    refused = run(far, [b"a", b"b"], requests=1)
    assert list(refused) == [b"a"]
    assert refused[b"a"].startswith(f"{status} ")
    assert ": no ?goodxxx" in refused[b"a"]
    assert len(refused[b"a"]) < 400
    assert far.bodies() == [b"a", b"b"]
    assert waits == []


@pytest.mark.parametrize("status", [301, 302, 307, 308, 401, 403, 404, 405, 407, 410])
def test_an_endpoint_that_is_none_fails_the_batch(far, waits, status):
    """Pass: after three tries an error that names the status and what to look at; nothing is refused."""
    far.tell(status=status, body="wrong", headers={"location": "https://elsewhere.test/secret"})
    with pytest.raises(PermanentError, match=f"{status}") as error:
        run(far, [b"x"])
    assert len(far.came()) == 3
    assert "`url`" in str(error.value)
    assert "/secret" not in str(error.value)


@pytest.mark.parametrize("status", [404, 500, 302])
def test_reject_refuses_what_the_user_says(far, waits, status):
    """Pass: one try, and the row is refused."""
    far.tell(status=status)
    refused = run(far, [b"x"], reject=[status])
    assert list(refused) == [b"x"]
    assert len(far.came()) == 1


def test_an_endpoint_that_is_deployed_anew_is_waited_for(far, waits):
    """Pass: two answers of 404, then it is taken."""
    far.tell({"status": 404}, {"status": 404})
    assert run(far, [b"x"]) == {}
    assert len(far.came()) == 3


def test_one_message_of_an_array_is_refused_alone(far, waits):
    """Pass: the array is refused, its messages go one by one, and only the one to blame is refused."""
    far.tell(refuse="bad")
    refused = run(far, [b"1", b'"bad"', b"3"], format="json_array")
    assert list(refused) == [b'"bad"']
    assert far.bodies() == [b'[1,"bad",3]', b"[1]", b'["bad"]', b"[3]"]
    assert far.came()[1]["headers"]["webhook-id"] == identity(0).hex()


def test_an_array_that_is_too_large_goes_in_parts(far, waits):
    """Pass: after 413 each message is sent alone, none is refused."""
    far.tell(most=5)
    assert run(far, [b"1", b"2", b"3"], format="json_array") == {}
    assert [came["body"] for came in far.taken()] == [b"[1]", b"[2]", b"[3]"]


@pytest.mark.in_turn
def test_retry_after_is_kept_and_holds_back_all(far, monkeypatch):
    """Pass: after `Retry-After: 1` the lanes send nothing for a second, but for what each of the others
    may have been about to send."""
    held, sent = [], []
    real_hold, real_send = worker.Gate.hold, worker.Lane._send

    def hold(gate, seconds):
        held.append((time.monotonic(), seconds))
        real_hold(gate, seconds)

    def noted(lane, *args):
        sent.append(time.monotonic())
        return real_send(lane, *args)

    monkeypatch.setattr(worker.Gate, "hold", hold)
    monkeypatch.setattr(worker.Lane, "_send", noted)
    far.tell({}, {}, {}, {"status": 429, "headers": {"retry-after": "1"}})
    values = [b"%d" % n for n in range(200)]
    assert run(far, values, requests=4) == {}
    ((at, seconds),) = held
    assert 1.0 <= seconds <= 2.0
    assert len([moment for moment in sent if at < moment < at + seconds]) <= 3
    assert len(far.taken()) == 200


def test_retry_after_is_capped(far, monkeypatch):
    """Pass: a day is `longest_wait`, in seconds and as a date."""
    held = []
    monkeypatch.setattr(worker.Gate, "hold", lambda gate, seconds: held.append(seconds))
    day = "Fri, 31 Dec 2100 23:59:59 GMT"
    far.tell(*({"status": 503, "headers": {"retry-after": text}} for text in ("86400", day)))
    assert run(far, [b"x"], longest_wait="50 ms") == {}
    assert held == [0.05, 0.05]


# -- trouble --------------------------------------------------------------------------------


def test_a_request_is_given_up_in_time(far):
    """Pass: with 503 for ever the batch fails, and says how often and why; no row is refused."""
    far.tell(status=503, body="busy")
    with pytest.raises(PermanentError, match=r"tried \d+ times .*give_up.*503 Service Unav.*busy"):
        run(far, [b"x"], give_up="1 second")
    assert len(far.came()) >= 2


def test_a_batch_is_given_up_in_time(far):
    """Pass: `batch_timeout` ends a task whose requests would be tried on."""
    far.tell(status=503)
    with pytest.raises(PermanentError, match="batch_timeout"):
        run(far, [b"x"], batch_timeout="500 ms")


def test_an_answer_that_takes_too_long_is_not_waited_for(far, waits):
    """Pass: the request is sent again with the same id when `answer_timeout` is over, and then taken."""
    far.tell({"hold": True})
    assert run(far, [b"x"], answer_timeout="500 ms") == {}
    far.release()
    wait_for(lambda: len(far.came()) == 2)
    assert len(far.taken()) == 1


@pytest.mark.in_turn
def test_answers_that_trickle_end_at_the_deadline(trickling, waits):
    """Pass: a byte at a time, of the status line or the body, does not hold a lane beyond `answer_timeout`."""
    for part in ("head", "body"):
        trickling.part = part
        options = options_of(None, url=trickling.url, answer_timeout="300 ms", give_up="900 ms")
        with pytest.raises(PermanentError, match="timed out"):
            list(send(iter([rows_of([b"x"])]), options))


@pytest.mark.in_turn
def test_a_body_that_nobody_reads_ends_at_the_deadline(trickling, waits):
    """Pass: an endpoint that takes a piece of a large body now and then holds no lane beyond `answer_timeout`."""
    trickling.part = "deaf"
    options = options_of(None, url=trickling.url, answer_timeout="1 second", give_up="1 second")
    with pytest.raises(PermanentError, match="timed out while sending"):
        list(send(iter([rows_of([bytes(32 * 1024 * 1024)])]), options))


def test_an_endless_body_is_not_read(trickling, waits):
    """Pass: a 202 whose body never ends is taken after some KiB, and the connection is closed."""
    trickling.part = "flood"
    refused = list(send(iter([rows_of([b"x", b"y"])]), options_of(None, url=trickling.url)))
    assert refused == []
    wait_for(lambda: len(trickling.closed) == 2)
    assert max(trickling.closed) < 16 * 1024 * 1024  # of what the system's buffers hold


def test_a_connection_that_ends_within_the_answer_is_ambiguous(far, waits):
    """Pass: the request is sent again with the same id: the endpoint has it twice, and once by id."""
    far.tell({"short": True, "body": "begin"})
    assert run(far, [b"x"]) == {}
    assert far.bodies() == [b"x", b"x"]
    assert len(far.taken()) == 1


def test_a_connection_that_ends_before_the_answer(far, fault_proxy, waits):
    """Pass: the far side has taken the request and its answer is lost: sent again with the same id."""
    proxy = fault_proxy(far.server.port)
    proxy.drop_answer()
    assert run(far, [b"x"], url=far.url.replace(str(far.server.port), str(proxy.port))) == {}
    assert far.bodies() == [b"x", b"x"]
    assert len(far.taken()) == 1


@pytest.mark.in_turn
def test_connections_that_are_cut_are_made_anew(far, fault_proxy):
    """Pass: with connections cut again and again each of 400 rows is there once by id."""
    proxy = fault_proxy(far.server.port)
    url = far.url.replace(str(far.server.port), str(proxy.port))
    done = threading.Event()

    def cut():
        while not done.wait(0.05):
            proxy.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        assert run(far, [b"%d" % n for n in range(400)], url=url, longest_wait="20 ms") == {}
    finally:
        done.set()
        cutter.join()
    assert sorted(came["body"] for came in far.taken()) == sorted(b"%d" % n for n in range(400))


@pytest.mark.in_turn
def test_an_endpoint_that_is_killed_and_comes_back(far):
    """Pass: killed in the middle of 500 requests and started again, it has each once by id."""
    values = [b"%d" % n for n in range(500)]
    failures = []

    def task():
        try:
            run(far, values, give_up="60 seconds", longest_wait="200 ms")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=task)
    thread.start()
    wait_for(lambda: len(far.came()) > 50)
    far.server.kill()
    far.server.start()
    thread.join(60)
    assert not thread.is_alive()
    assert failures == []
    assert len(far.taken()) == 500


def test_an_endpoint_that_is_not_there(free_port_url):
    """Pass: an error that says where and why, without the path."""
    with pytest.raises(PermanentError, match=r"127\.0\.0\.1:\d+: .*Connection refused") as error:
        list(send(iter([rows_of([b"x"])]), options_of(None, url=free_port_url, give_up="1 second")))
    assert "TOKEN" not in str(error.value)


def test_a_task_that_is_broken_off_ends_its_lanes(far):
    """Pass: while answers are held, closing the generator ends threads and connections."""
    far.tell(hold=True)
    refused_first = pa.RecordBatch.from_pylist([dict.fromkeys(SCHEMA.names)], SCHEMA)
    task = send(iter([rows_of([b"x"]), refused_first, rows_of([b"y"])]), options_of(far))
    assert next(task).num_rows == 1
    wait_for(lambda: far.state()["waiting"] == 1)
    task.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("webhook-")]
    far.release()


def test_decoded_and_escaped_secrets_of_an_answer_are_not_shown(far, waits):
    """Pass: a token of the query decoded, a short part of the path, and a header as JSON has it."""
    given = {
        "url": f"{far.url}/tok12345/x?token=abc%2Bdef%2Fghi",
        "headers": {"x-s": '"hushhush"'},
    }
    far.tell(status=400, body=json.dumps('abc+def/ghi, tok12345 and "hushhush"'))
    (reason,) = run(far, [b"x"], **given).values()
    assert reason == '400 Bad Request: "**********, ********** and **********"'


def test_what_an_endpoint_repeats_of_secrets_is_not_shown(far, waits):
    """Pass: token, header, password of the URL, query and path are blanked in reasons and errors."""
    secrets = ["TOKENTOKEN", "HEADERVALUE", "QUERYVALUE", "T0123456789ABCDEFGH"]
    given = {
        "url": f"{far.url}/T0123456789ABCDEFGH?k=QUERYVALUE",
        "auth": {"bearer": "TOKENTOKEN"},
        "headers": {"x-a": "HEADERVALUE"},
    }
    far.tell(status=400, body=" ".join(["you said", *secrets]))
    (reason,) = run(far, [b"x"], **given).values()
    assert "you said" in reason
    far.tell(status=403, body=" ".join(["you said", *secrets]))
    with pytest.raises(PermanentError, match="you said") as error:
        run(far, [b"x"], **given)
    assert not [text for text in secrets if text in reason + str(error.value)]
    assert far.name not in str(error.value)
