"""Subjects and header lines of messages, without a server."""

from __future__ import annotations

import pyarrow as pa
import pytest
from mainstem import OptionError
from mainstem.columns import read_columns
from mainstem.sinks import Refused
from mainstem_broker_nats.sink.link import Verdict, judge
from mainstem_broker_nats.sink.messages import (
    Layout,
    SubjectTemplate,
    check_columns,
    lines,
    matches,
    messages,
)


@pytest.mark.parametrize(
    ("text", "values", "subject"),
    [
        ("orders.new", (), "orders.new"),
        ("orders.{key}", (b"eu.berlin",), "orders.eu.berlin"),
        ("{origin}", ("orders.café",), "orders.café"),
        ("{a}.{b}.{a}", ("x", b"y"), "x.y.x"),
        ("o.{{{key}}}", (b"k",), "o.{k}"),
        ("$KV.bucket.{key}", (b"k",), "$KV.bucket.k"),
        ("a*b.{key}", (b">c",), "a*b.>c"),
    ],
)
def test_a_template_makes_subjects(text, values, subject):
    """Pass: literal parts, columns in text and bytes, one of them twice, braces; twice the same."""
    template = SubjectTemplate(text)
    assert template.subject(values) == subject
    assert template.subject(values) == subject
    assert template.constant == (None if values else subject)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "'key' is null"),
        (b"", "empty token"),
        (b"two words", "a space or a control character"),
        (b"a\r\nPUB x 0", "a space or a control character"),
        ("no\u00a0break", "a space or a control character"),
        (b"nul\0", "a space or a control character"),
        (b".a", "empty token"),
        (b"a.", "empty token"),
        (b"a..b", "empty token"),
        (b"*", "wildcard"),
        (b"a.>", "wildcard"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * 4000, "more than 3900 bytes"),
    ],
)
def test_what_makes_no_subject_is_told(value, why):
    """Pass: each with its reason; what comes next is not harmed."""
    template = SubjectTemplate("orders.{key}")
    for _ in range(2):
        with pytest.raises(ValueError, match=why):
            template.subject((value,))
    assert template.subject((b"good",)) == "orders.good"


def test_data_reaches_no_subject_of_the_server():
    """Pass: a key can't make a request of JetStream's API; only a template that begins so can."""
    with pytest.raises(ValueError, match="the server's own"):
        SubjectTemplate("{key}").subject((b"$JS.API.STREAM.DELETE.orders",))
    assert SubjectTemplate("$KV.{key}").subject((b"b.k",)) == "$KV.b.k"


@pytest.mark.parametrize(
    "text", ["a.{", "a.}", "a.{}", "a.{key!r}", "a.{key:>9}", "", "a b", "a.>"]
)
def test_a_wrong_template_is_refused(text):
    """Pass: a ValueError, at once and not with the first row."""
    with pytest.raises(ValueError, match=r"."):
        SubjectTemplate(text)


@pytest.mark.parametrize(
    ("subject", "pattern", "fits"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.*", True),
        ("a.b", "*.b", True),
        ("a.b", "a.>", True),
        ("a.b.c", "a.>", True),
        ("a.b", ">", True),
        ("a", "a.>", False),
        ("a.b.c", "a.*", False),
        ("a", "a.*", False),
        ("a.b", "a", False),
        ("a.B", "a.b", False),
    ],
)
def test_patterns_stand_for_subjects(subject, pattern, fits):
    """Pass: as the server would decide."""
    assert matches(subject, pattern) is fits


def test_headers_become_lines():
    """Pass: text as it is, null as empty, directives left out unless they are named, in any case."""
    given = [
        ("a", b"1"),
        ("b", None),
        ("c", "å: b".encode()),
        ("Nats-Msg-Id", b"x"),
        ("nats-ttl", b"5s"),
        ("Nats-Rollup", b"all"),
    ]
    assert lines(given, frozenset()) == "a: 1\r\nb: \r\nc: å: b\r\n".encode()
    assert lines(given[4:], frozenset({"nats-ttl"})) == b"nats-ttl: 5s\r\n"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("a", b"1\r\nNats-Rollup: all", "line break"),
        ("a", b"1\n", "line break"),
        ("a", b" 1", "spaces around"),
        ("a", b"1\t", "spaces around"),
        ("a", b"\xff", "not UTF-8"),
        ("", b"1", "names are"),
        ("a b", b"1", "names are"),
        ("a:", b"1", "names are"),
        ("å", b"1", "names are"),
        ("a\r\nb", b"1", "names are"),
    ],
)
def test_headers_that_nats_would_change_are_refused(name, value, why):
    """Pass: a ValueError that names the header."""
    with pytest.raises(ValueError, match=why):
        lines([(name, value)], frozenset())


def rows_of(layout, **columns):
    refused = Refused()
    batch = pa.record_batch(columns)
    found = list(messages(batch, layout, SubjectTemplate(layout.subject), refused))
    return found, [row for taken in refused.take() for row in taken.to_pylist()]


def test_a_row_becomes_a_message():
    """Pass: subject, id with the sink's suffix, stream and expected sequence as header lines; null is empty."""
    layout = Layout("s.{key}", "S", "-abcd", expect=("Nats-Expected-Last-Subject-Sequence", "v"))
    found, refused = rows_of(
        layout, key=[b"a", b"b"], value=[b"1", None], _id=[b"\x01\xff", None], v=[0, None]
    )
    first, second = found
    assert (first.subject, first.body, first.name, first.expected) == ("s.a", b"1", "01ff-abcd", 0)
    assert first.head == (
        b"NATS/1.0\r\nNats-Expected-Stream: S\r\nNats-Msg-Id: 01ff-abcd\r\n"
        b"Nats-Expected-Last-Subject-Sequence: 0\r\n\r\n"
    )
    assert (second.body, second.name) == (b"", None)
    assert second.head == b"NATS/1.0\r\nNats-Expected-Stream: S\r\n\r\n"
    assert refused == []


def test_a_message_without_header_lines_has_none():
    """Pass: core NATS gets no empty block of headers."""
    found, _ = rows_of(Layout("s"), value=[b"1"], _id=[b"\x01"])
    assert found[0].head == b""


def test_rows_that_make_no_message_are_refused_beside_the_others():
    """Pass: a bad subject, a bad header and a sequence below 0, each with id, payload and reason."""
    headers = pa.array([[], [], [("a", b"\xff")], []], pa.map_(pa.string(), pa.binary()))
    found, refused = rows_of(
        Layout("s.{key}", "S", "", expect=("Nats-Expected-Last-Sequence", "v")),
        key=[b"a", b"b c", b"c", b"d"],
        value=[b"1", b"2", b"3", b"4"],
        headers=headers,
        _id=[b"1", b"2", b"3", b"4"],
        v=[1, 1, 1, -1],
    )
    assert [message.body for message in found] == [b"1"]
    assert [(row["_id"], row["payload"]) for row in refused] == [
        (b"2", b"2"),
        (b"3", b"3"),
        (b"4", b"4"),
    ]
    reasons = [row["reason"] for row in refused]
    assert "space" in reasons[0]
    assert "'a' is not UTF-8" in reasons[1]
    assert "below 0" in reasons[2]


@pytest.mark.parametrize(
    ("columns", "subject", "expect", "why"),
    [
        ("value BINARY, key INT", "s.{key}", None, "key is int"),
        ("value BINARY, kee BINARY", "s.{key}", None, "no column 'key'"),
        ("value BINARY, headers STRING", "s", None, "headers is string"),
        ("value BINARY", "s", ("expect_sequence", "v"), "no column 'v'"),
        ("value BINARY, v STRING", "s", ("expect_sequence", "v"), "v is string"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_the_first_batch(columns, subject, expect, why):
    """Pass: an OptionError that names the column."""
    with pytest.raises(OptionError, match=why):
        check_columns(read_columns(columns), SubjectTemplate(subject), expect)


def test_columns_that_fit_are_taken():
    """Pass: also in another case, and with a number of any size."""
    check_columns(
        read_columns("VALUE BINARY, Key STRING, headers MAP<STRING, BINARY>, v INT"),
        SubjectTemplate("s.{key}"),
        ("expect_sequence", "v"),
    )


@pytest.mark.parametrize(
    ("code", "number", "text", "verdict"),
    [
        (400, 10071, "wrong last sequence: 5", Verdict.CONFLICT),
        (400, 10164, "wrong last sequence", Verdict.CONFLICT),
        (400, 10054, "message size exceeds maximum allowed", Verdict.REFUSED),
        (400, 10060, "expected stream does not match", Verdict.REFUSED),
        (400, 10165, "invalid per-message TTL", Verdict.REFUSED),
        (500, 10111, "rollup not permitted", Verdict.REFUSED),
        (503, 10077, "maximum messages per subject exceeded", Verdict.REFUSED),
        (503, 10077, "maximum messages exceeded", Verdict.AGAIN),
        (503, 10077, "maximum bytes exceeded", Verdict.AGAIN),
        (503, 10047, "insufficient storage resources available", Verdict.AGAIN),
        (409, 10158, "duplicate message id is in process", Verdict.AGAIN),
        (400, 10002, "resource limits exceeded for account", Verdict.AGAIN),
        (429, 10167, "too many requests", Verdict.AGAIN),
        (429, 99999, "of a later server, for now", Verdict.AGAIN),
        (400, 99998, "of a later server", Verdict.AGAIN),
        (400, 10097, "header size exceeds maximum allowed of 64k", Verdict.REFUSED),
        (400, 10188, "message schedules is disabled", Verdict.REFUSED),
        (400, 10109, "invalid operation on sealed stream", Verdict.NEVER),
    ],
)
def test_answers_are_judged(code, number, text, verdict):
    """Pass: what is said of one message, of the stream now, and of the stream for ever are told apart."""
    data = b'{"error":{"code":%d,"err_code":%d,"description":"%b"},"stream":"S","seq":0}'
    found, reason = judge(data % (code, number, text.encode()), None)
    assert found is verdict
    assert text in reason


@pytest.mark.parametrize(
    ("data", "headers", "why"),
    [
        (b"", b"NATS/1.0 503\r\n\r\n", "no stream answers"),
        (b"", None, "without an acknowledgement"),
        (b"nonsense", None, "no acknowledgement"),
        (b"{}", None, "no acknowledgement"),
        (b'{"error": 5}', None, "no acknowledgement"),
    ],
)
def test_answers_that_say_nothing_are_tried_again(data, headers, why):
    """Pass: none of them counts as taken or as refused."""
    found, reason = judge(data, headers)
    assert found is Verdict.AGAIN
    assert why in reason
