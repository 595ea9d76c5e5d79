"""StatsD: what real clients send, what the dialects say, and what is no line; any of them in bulk and by itself."""

from __future__ import annotations

import random
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import datadog
import pytest
import statsd
from hypothesis import given
from hypothesis import strategies as st
from mainstem import TransientError
from mainstem_direct_udp import metrics
from mainstem_direct_udp.metrics import read
from mainstem_direct_udp.options import StatsDSourceOptions
from mainstem_direct_udp.statsd_receiver import StatsDReceiver, StatsDStreamReceiver
from mainstem_ingress import Columns
from mainstem_ingress.losses import loss_of
from pydantic import ValidationError
from udp_peers import free_port

AT = 1_700_000_000_000_000


def rows(*datagrams):
    """Return the metrics of datagrams, without what is usual."""
    found = read([each.encode() for each in datagrams], [AT] * len(datagrams))
    if found.metrics is None:
        return []
    table = metrics.pa.table(found.metrics).to_pylist(maps_as_pydicts="strict")
    usual = {"text": None, "relative": False, "rate": 1.0, "scaled": None, "tags": {}}
    usual["at"] = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    return [{n: v for n, v in row.items() if n not in usual or v != usual[n]} for row in table]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a:1|c", [{"name": "a", "type": "counter", "value": 1.0, "scaled": 1.0}]),
        ("a:2|c|@0.1", [{"name": "a", "type": "counter", "value": 2.0, "rate": 0.1, "scaled": 20.0}]),
        ("a:-1|c", [{"name": "a", "type": "counter", "value": -1.0, "scaled": -1.0}]),
        ("g:7.5|g", [{"name": "g", "type": "gauge", "value": 7.5}]),
        ("g:+3|g", [{"name": "g", "type": "gauge", "value": 3.0, "relative": True}]),
        ("g:-3|g", [{"name": "g", "type": "gauge", "value": -3.0, "relative": True}]),
        ("t:320|ms|@0.5", [{"name": "t", "type": "timer", "value": 320.0, "rate": 0.5}]),
        ("u:é 7|s", [{"name": "u", "type": "set", "value": None, "text": "é 7"}]),
        ("h:1:2.5:3|h", [{"name": "h", "type": "histogram", "value": v} for v in (1.0, 2.5, 3.0)]),
        (
            "d:1e3|d|#env:prod,up,a:b:c",
            [{"name": "d", "type": "distribution", "value": 1000.0,
              "tags": {"env": "prod", "up": "", "a": "b:c"}}],
        ),
        (
            "o:1|c|#k:v|@0.5",
            [{"name": "o", "type": "counter", "value": 1.0, "rate": 0.5, "scaled": 2.0, "tags": {"k": "v"}}],
        ),
        (
            "w:1|g|#k:v|c:abc|T1600000000",
            [{"name": "w", "type": "gauge", "value": 1.0, "tags": {"k": "v"},
              "at": datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)}],
        ),
        ("a:1|c\nb:2|c\r\n\n", [
            {"name": "a", "type": "counter", "value": 1.0, "scaled": 1.0},
            {"name": "b", "type": "counter", "value": 2.0, "scaled": 2.0},
        ]),
    ],
)  # fmt: skip
def test_lines_of_both_dialects(line, expected):
    """Pass: as their pages say; beside others too."""
    assert rows(line) == expected
    assert [row for row in rows("x:9|c", line, "x:9|c") if row["name"] != "x"] == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nothing", "expected NAME:VALUE"),
        (":1|c", "expected NAME:VALUE"),
        ("a:1", "expected NAME:VALUE"),
        ("a:1|x", "no type"),
        ("a:b|c", "no number"),
        ("a:nan|g", "no number"),
        ("a:1e308|c|@0.5", "no number"),
        ("a:1e300|c|@1e-300", "no number"),
        ("a:1e999|g", "no number"),
        ("a:1:1e999|h", "no number"),
        ("a:|c", "no number"),
        ("a:1|c|@0", "sample rate"),
        ("a:1|c|@2", "sample rate"),
        ("a:1|c|@x", "sample rate"),
        ("a:1|c|what", "no section"),
        ("_e{9,9}:a|b", "lengths"),
        ("_e{1,1}:é|b", "lengths"),
        ("_e{2,1}:aé|b", "lengths"),
        ("_e:a", "expected"),
        ("_sc|a|9", "expected _sc"),
        ("a:1|c|T²", "no section"),
        ("_e{1,1}:a|b|d:²", "no section"),
        ("n" * 30_000 + ":1" * 10_000 + "|h", "too many values"),
    ],
)
def test_what_is_no_line_is_refused(line, told):
    """Pass: with the reason and its bytes, and the lines beside it come."""
    found = read([f"good:1|c\n{line}\ngood:2|c".encode()], [AT])
    ((data, why),) = found.refused
    assert data == line.encode()
    assert told in why
    assert found.metrics["name"].to_pylist() == ["good", "good"]


@pytest.mark.timeout(30)  # it was a minute, by the square of the length
@pytest.mark.parametrize("line", ["a:{}x|c", "a:1|c|@{}x", "a:{}.{}x|ms"])
def test_numbers_that_are_none_are_told_at_once_however_long(line):
    """Pass: work grows with the line: the regular expression that read them tried each way to cut the digits."""
    given = line.replace("{}", "1" * 60_000).encode()
    assert len(read([given], [AT]).refused) == 1


def test_a_line_that_is_no_text_is_refused_alone():
    """Pass: the lines beside it in the datagram come."""
    found = read([b"good:1|c\n\xff:1|c\nalso:2|c"], [AT])
    assert found.metrics["name"].to_pylist() == ["good", "also"]
    assert found.refused == [(b"\xff:1|c", "it is no text of UTF-8")]


@pytest.mark.parametrize("name", ["groups", "receive_buffer", "max_datagram"])
def test_streams_take_no_options_of_datagrams(name):
    """Pass: named, when the document is read."""
    given_ = {"groups": ["239.1.2.3"], "receive_buffer": "1 MiB", "max_datagram": 100}
    with pytest.raises(ValidationError, match=f"`{name}` is of datagrams"):
        StatsDSourceOptions.model_validate(
            {"listen": "0.0.0.0:8125", "stream": {}, name: given_[name]}
        )


def test_events_and_checks():
    """Pass: DataDog's fields by their letters."""
    found = read(
        [
            b"_e{5,8}:hello|a\\nb|c d|h:me|p:low|t:error|k:key|s:src|d:1600000000|#a:b,c",
            b"_sc|db.up|2|d:1600000000|h:me|#a:b|m:it is|down",
        ],
        [AT, AT],
    )
    at = 1_600_000_000_000_000
    assert found.events == [
        {"title": "hello", "text": "a\nb|c d", "host": "me", "priority": "low", "alert_type": "error",
         "aggregation_key": "key", "source_type": "src", "tags": [("a", "b"), ("c", "")], "at": at}
    ]  # fmt: skip
    assert found.checks == [
        {"name": "db.up", "status": 2, "host": "me", "tags": [("a", "b")], "message": "it is|down", "at": at}
    ]  # fmt: skip
    assert found.refused == []


@given(st.lists(st.tuples(
    st.sampled_from(["a", "é.b", "c d"]),
    st.floats(-1e300, 1e300),
    st.sampled_from(list(metrics.KINDS)),
    st.sampled_from(["", "|@0.25", "|@1e-2"]),
    st.sampled_from(["", "|#k:v", "|#a,b:c"]),
), min_size=1, max_size=30))  # fmt: skip
def test_all_at_once_is_as_one_by_one(lines):
    """Pass: the quick way and the careful one agree, whatever is beside it."""
    texts = [f"{n}:{v!r}|{kind}{rate}{tags}" for n, v, kind, rate, tags in lines]
    careful = [row for text in texts for row in metrics._metric(text, AT)]
    found = read(["\n".join(texts).encode()], [AT])
    assert not found.refused
    quick = metrics.pa.table(found.metrics).to_pylist()
    whole = metrics.pa.table(metrics._columns(careful)).to_pylist()
    assert quick == [{n: v for n, v in row.items() if n != "__line"} for row in whole]


@pytest.mark.in_turn
def test_a_million_random_datagrams_end_nothing():
    """Ten thousand at a time, of random bytes and of random parts of lines. Pass: rows or refused lines."""
    noise = random.Random(5)
    parts = [
        b"a",
        b":",
        b"1",
        b"|",
        b"c",
        b"@",
        b"0.5",
        b"#",
        b"k:v",
        b"\n",
        b"_e{1,1}:",
        b"_sc|",
        b"\xff",
    ]
    for turn in range(10):
        made = [
            noise.randbytes(20) if turn % 2 else b"".join(noise.choices(parts, k=8))
            for _ in range(10_000)
        ] * 10
        found = read(made, [AT] * len(made))
        assert found.refused


@contextmanager
def receiver(**more):
    port = free_port()
    given_ = {"listen": f"127.0.0.1:{port}", "receive_buffer": "4 MiB", **more}
    made = StatsDReceiver(StatsDSourceOptions.model_validate(given_), 0, "node")
    made.connect(None)
    try:
        yield made, port
    finally:
        made.close()


def taken(made, count, seconds=5):
    """Return the rows of each output, and messages of none, until there are so many."""
    found, others, until = {}, [], time.monotonic() + seconds
    while sum(map(len, found.values())) + len(others) < count and time.monotonic() < until:
        taken_ = made.take(0.05)
        for part in taken_.parts if hasattr(taken_, "parts") else [list(taken_)]:
            if isinstance(part, Columns):
                found.setdefault(part.table, []).extend(
                    part.rows.to_pylist(maps_as_pydicts="strict")
                )
            else:
                others += part
    return found, others


def test_what_statsd_s_client_sends():
    """Pass: each of its calls is a row, by itself and in a pipeline."""
    with receiver() as (made, port):
        client = statsd.StatsClient("127.0.0.1", port, prefix="app")
        client.incr("hits")
        client.decr("hits", 3)
        client.gauge("depth", 5)
        client.gauge("depth", -2, delta=True)
        client.timing("took", timedelta(milliseconds=250))
        client.set("users", "u1")
        with client.pipeline() as together:
            together.incr("a", 2)
            together.timing("b", 1.5)
        found, others = taken(made, 8)
    told = [(r["name"], r["type"], r["value"], r["text"], r["relative"]) for r in found["metrics"]]
    assert told == [
        ("app.hits", "counter", 1.0, None, False),
        ("app.hits", "counter", -3.0, None, False),
        ("app.depth", "gauge", 5.0, None, False),
        ("app.depth", "gauge", -2.0, None, True),
        ("app.took", "timer", 250.0, None, False),
        ("app.users", "set", None, "u1", False),
        ("app.a", "counter", 2.0, None, False),
        ("app.b", "timer", 1.5, None, False),
    ]
    assert others == []


def test_what_datadog_s_client_sends():
    """Pass: metrics with tags, events and checks, with what it adds of itself."""
    with receiver() as (made, port):
        client = datadog.DogStatsd(
            "127.0.0.1", port, disable_telemetry=True, disable_buffering=True
        )
        client.increment("hits", 2, tags=["env:prod", "up"])
        client.histogram("size", 7.5, sample_rate=1)
        client.distribution("d", 1)
        client.set("users", "u1")
        client.event("title", "two\nlines", alert_type="warning", tags=["a:b"])
        client.service_check("db", 1, message="slow")
        found, others = taken(made, 6)
    assert others == []
    hits, size, _, users = found["metrics"]
    assert (hits["name"], hits["value"], hits["tags"]) == ("hits", 2.0, {"env": "prod", "up": ""})
    assert (size["type"], size["value"], users["text"]) == ("histogram", 7.5, "u1")
    (event,) = found["events"]
    assert (event["title"], event["text"], event["alert_type"]) == (
        "title",
        "two\nlines",
        "warning",
    )
    (check,) = found["checks"]
    assert (check["name"], check["status"], check["message"]) == ("db", 1, "slow")


def test_a_socket_of_this_machine(tmp_path):
    """Pass: DataDog's client by a path; a socket that a killed process has left is taken over, one in use is not."""
    path = tmp_path / "dsd.socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stale:
        stale.bind(str(path))
    with receiver(listen=f"unix:{path}", receive_buffer=None) as (made, _):
        client = datadog.DogStatsd(
            socket_path=str(path), disable_telemetry=True, disable_buffering=True
        )
        client.increment("hits", tags=["a:b"])
        found, others = taken(made, 1)
        assert [(r["name"], r["tags"]) for r in found["metrics"]] == [("hits", {"a": "b"})]
        assert others == []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as odd:  # its name is no UTF-8
            odd.bind(bytes(tmp_path) + b"/\xff")
            odd.sendto(b"odd:1|c", str(path))
            found, _ = taken(made, 1)
        assert [r["name"] for r in found["metrics"]] == ["odd"]
        again = pytest.raises(TransientError, match="somebody listens")
        with again, receiver(listen=f"unix:{path}", receive_buffer=None):
            pass
    assert not path.exists()


@contextmanager
def streams(listen, **stream):
    options = StatsDSourceOptions.model_validate({"listen": listen, "stream": stream})
    made = StatsDStreamReceiver(options, 0, "node")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


def test_lines_over_tcp():
    """Pass: statsd's own client over TCP, a line in pieces, one that is none, and one that its end has cut."""
    port = free_port()
    with streams(f"127.0.0.1:{port}") as made:
        client = statsd.TCPStatsClient("127.0.0.1", port)
        client.incr("hits", 2)
        client.gauge("depth", 5)
        with socket.create_connection(("127.0.0.1", port)) as other:
            other.sendall(b"a:1|c\nnone\nb:2")
            found, others = taken(made, 4)
            other.sendall(b"2|g\ncut:1|")
        more, cut = taken(made, 2)
        client.close()
    assert sorted((r["name"], r["value"]) for r in found["metrics"]) == [
        ("a", 1.0),
        ("depth", 5.0),
        ("hits", 2.0),
    ]
    assert [(m.value, m.refused) for m in others] == [
        (b"none", "it is no line of StatsD: expected NAME:VALUE|TYPE")
    ]
    assert [(r["name"], r["value"]) for r in more["metrics"]] == [("b", 22.0)]
    assert [(m.value, m.refused) for m in cut] == [(b"cut:1|", "the stream ended within it")]


def test_packets_over_a_unix_stream(tmp_path):
    """Pass: DataDog's client, whose packets have their length before them."""
    path = tmp_path / "dsd.stream"
    length = {"bytes": 4, "byte_order": "little"}
    with streams(f"unix:{path}", framing="length", length=length) as made:
        client = datadog.DogStatsd(
            socket_path=f"unixstream://{path}", disable_telemetry=True, disable_buffering=True
        )
        client.increment("hits", tags=["a:b"])
        client.service_check("db", 1)
        found, others = taken(made, 2)
        client.close_socket()
    assert [(r["name"], r["tags"]) for r in found["metrics"]] == [("hits", {"a": "b"})]
    assert [r["name"] for r in found["checks"]] == ["db"]
    assert others == []


def test_refused_lines_and_drops_come_beside_rows():
    """Pass: a line that is none with its bytes; what the kernel dropped, counted."""
    with (
        receiver(receive_buffer=None) as (made, port),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sender.sendto(b"good:1|c\nbad", ("127.0.0.1", port))
        found, others = taken(made, 2)
        assert [r["name"] for r in found["metrics"]] == ["good"]
        (bad,) = others
        assert (bad.value, bad.refused.partition(":")[0]) == (b"bad", "it is no line of StatsD")
        for _ in range(20_000):
            sender.sendto(b"x:1|c", ("127.0.0.1", port))
        counts, losses, until = 0, 0, time.monotonic() + 10
        while counts + losses < 20_000 and time.monotonic() < until:
            found, others = taken(made, 1, seconds=0.2)
            counts += len(found.get("metrics", ()))
            losses += sum(loss_of(m)["count"] for m in others)
    assert counts + losses == 20_000
    assert losses > 0


@pytest.mark.in_turn
def test_metrics_come_out_of_a_document(pipeline):
    """Pass: rows of `metrics` through Spark, lines that are none in `rejected`."""
    port = free_port()
    pipeline.document(
        trigger={"every": "100 ms"},
        sources={"app": {"use": "statsd", "with": {"listen": f"127.0.0.1:{port}"}}},
        sinks={
            "out": pipeline.sink("out", "app.metrics"),
            "events": pipeline.sink("events", "app.events"),
            "bad": pipeline.sink("bad", "app.rejected"),
        },
    )
    with pipeline.start() as process, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:

        def come():
            sender.sendto(b"a:1|c|@0.5|#k:v\nbad\n_e{1,1}:t|x", ("127.0.0.1", port))
            return pipeline.rows("out") and pipeline.rows("bad") and pipeline.rows("events")

        process.wait_for(come, 90)
    row = pipeline.rows("out")[0]
    assert (row["name"], row["scaled"], row["tags"]) == ("a", 2.0, {"k": "v"})
    assert pipeline.rows("events")[0]["title"] == "t"
