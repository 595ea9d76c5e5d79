"""CloudEvents as their specification writes them, read and written; and what RFC 3339 says of times.

The vectors are those of the HTTP binding and the JSON format, version 1.0, and of RFC 3339, section 5.8:
a fault that reader and writer have in common shows here alone.
"""

from __future__ import annotations

import json

import pytest
from mainstem_direct_webhook.cloudevents import BATCH, STRUCTURED, is_json
from mainstem_direct_webhook.source.cloudevents_in import NotEvent, read
from test_webhook_sink_parts import events

ATTRIBUTES = {
    "specversion": "1.0",
    "type": "com.example.someevent",
    "source": "/mycontext",
    "time": "2018-04-05T17:31:00Z",
    "comexampleextension1": "value",
}
#: Of the JSON format, section 3.2: the rest of an event in JSON; the same in binary mode.
EXAMPLES = [
    (
        (
            r'"id": "B234-1234-1234", "comexampleothervalue": 5, "unsetextension": null, '
            r'"datacontenttype": "application/xml", "data": "<much wow=\"xml\"/>"'
        ),
        {
            "ce-id": "B234-1234-1234",
            "ce-comexampleothervalue": "5",
            "content-type": "application/xml",
        },
        b'<much wow="xml"/>',
    ),
    (
        (
            '"id": "C234-1234-1234", "subject": null, "datacontenttype": "application/json", "data": '
            '{"appinfoA" : "abc", "appinfoB" : 123, "appinfoC" : true}'
        ),
        {"ce-id": "C234-1234-1234", "content-type": "application/json"},
        b'{"appinfoA" : "abc", "appinfoB" : 123, "appinfoC" : true}',
    ),
    (
        '"id": "C234-1234-1234", "datacontenttype": "application/json", "data" : 1.5',
        {"ce-id": "C234-1234-1234", "content-type": "application/json"},
        b"1.5",
    ),
    (
        '"id": "D234-1234-1234", "data": "I\'m just a string"',
        {"ce-id": "D234-1234-1234", "content-type": "application/json"},
        b'"I\'m just a string"',
    ),
    (
        '"id": "D234-1234-1234", "data_base64": "eyAieHl6IjogMTIzIH0="',
        {"ce-id": "D234-1234-1234"},
        b'{ "xyz": 123 }',
    ),
]


def binary(**changes):
    """Return the headers of an event in binary mode."""
    given = {**ATTRIBUTES, "id": "1", **changes}
    return {f"ce-{name}".encode(): text.encode() for name, text in given.items()}


def whole(rest, **changes):
    """Return an event in JSON, some of whose members are written out."""
    return f"{json.dumps({**ATTRIBUTES, **changes})[:-1]}, {rest}}}".encode()


@pytest.mark.parametrize(("rest", "headers", "value"), EXAMPLES)
def test_the_examples_of_the_json_format(rest, headers, value):
    """Pass: an event has the value and the headers that it has in binary mode; also in a batch."""
    expected = {f"ce-{name}": text for name, text in ATTRIBUTES.items()} | headers
    expected = {name: text.encode() for name, text in expected.items()}
    given = {name.encode(): text for name, text in expected.items()}
    for event in (
        *read(STRUCTURED, {}, whole(rest), 1),
        *read(BATCH, {}, b"[%s]" % whole(rest), 1),
        *read("any/type", given, value, 1),
    ):
        assert event.value == value
        assert dict(event.headers) == expected
        assert event.timestamp == 1_522_949_460_000_000
        assert event.id == b"/mycontext\0" + expected["ce-id"]


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("Euro%20%e2%82%ac%20%f0%9f%98%80", "Euro € 😀"),
        ("%45uro", "Euro"),
        ("100%2525", "100%25"),
        ('"Euro € 😀"', "Euro € 😀"),
        ('"Euro%20%E2%82%AC 😀"', "Euro € 😀"),
        (r'"a \"b\" \\ \c"', r'a "b" \ c'),
        ('a" b "c" "', "a b c "),
        ('""', ""),
        ("%22a%22", '"a"'),
        ("(a)", "(a)"),
        ('a"b', 'a"b'),
        ('"a\\', '"a\\'),
    ],
)
def test_values_of_headers_are_unquoted_then_decoded_once(header, text):
    """Pass: HTTP binding, 3.1.3.2: quoted strings first, then one round of percent-decoding; in the id
    by which a second delivery is known too. A quote without its end stands for itself."""
    (event,) = read("", binary(subject=header, id=f"x{header}"), b"", 1)
    assert dict(event.headers)["ce-subject"].decode() == text
    assert event.id == f"/mycontext\0x{text}".encode()


@pytest.mark.parametrize("header", ["%C0%A0", "%ff", '"%C0%A0"'])
def test_what_is_decoded_to_no_utf8_is_refused(header):
    """Pass: HTTP binding, 3.1.3.2: such as an overlong space."""
    with pytest.raises(NotEvent, match="UTF-8"):
        read("", binary(subject=header), b"", 1)


def test_the_sink_writes_what_the_specification_does():
    """Pass: HTTP binding, 3.1.3.2: the encoding of its example, in capitals."""
    ((parcel,), _) = events(b"1", {"ce-subject": "Euro € 😀".encode()}, "binary")
    assert dict(parcel.headers)["ce-subject"] == "Euro%20%E2%82%AC%20%F0%9F%98%80"


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("application/json", True), ("text/json", True), ("application/json; charset=utf-8", True),
        ("application/json ; charset=utf-8", True), ("Application/JSON", True), ("application/json ", True),
        ("application/vnd.example+json", True), ("application/vnd.example+JSON ;a=b", True),
        ("application/jsonx", False), ("application/x-json", False), ("json", False),
        ("text/plain", False), ("text/plain; a=application/json", False), ("application/json5", False),
    ],
)  # fmt: skip
def test_which_types_are_of_json(kind, found):
    """Pass: JSON format, 3.1.1: by the subtype, without parameters. A string is JSON text in JSON alone,
    when it is read and when it is written."""
    assert is_json(kind) is found
    rest = f'"id": "1", "datacontenttype": {json.dumps(kind)}, "data": "abc"'
    (event,) = read(STRUCTURED, {}, whole(rest), 1)
    assert event.value == (b'"abc"' if found else b"abc")
    if kind == kind.strip():
        ((parcel,), _) = events(b'"abc"', {"content-type": kind.encode()}, "structured")
        assert (json.loads(parcel.body).get("data") == "abc") is found


@pytest.mark.parametrize("held", ["1234", "true", "[]", "{}", '"*"', '"YQ"', '"é"'])
def test_data_that_is_no_base64_is_refused(held):
    """Pass: a number of digits that could be base64 is none; nor is anything else but a string of it."""
    with pytest.raises(NotEvent, match="data_base64"):
        read(STRUCTURED, {}, whole(f'"id": "1", "data_base64": {held}'), 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1985-04-12T23:20:50.52Z", 482_196_050.52),
        ("1996-12-19T16:39:57-08:00", 851_042_397),
        ("1990-12-31T23:59:60Z", 662_688_000),
        ("1990-12-31T15:59:60-08:00", 662_688_000),
        ("1937-01-01T12:00:27.87+00:20", -1_041_337_172.13),
        ("2016-12-31t23:59:60.5z", 1_483_228_800.5),
        ("2024-01-01 00:00:00.123456789Z", 1_704_067_200.123456),
        ("2024-01-01T00:00:00-00:00", 1_704_067_200),
        ("0001-01-01T00:00:00+01:00", -62_135_600_400),
        ("9999-12-31T23:59:59-01:00", 253_402_304_399),
    ],
)
def test_times_of_rfc_3339(text, seconds):
    """Pass: those of its section 5.8 and their like; a leap second is the one after it."""
    (event,) = read("", binary(time=text), b"", 1)
    assert event.timestamp == round(seconds * 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "20240101T000000Z", "2024-W01-1T00:00:00Z", "2024-001T00:00:00Z", "2024-01-01T00Z",
        "2024-01-01T00:00Z", "2024-01-01T00:00:00", "2024-01-01", "2024-01-01T00:00:00,5Z",
        "2024-01-01T00:00:00.Z", "2024-01-01T00:00:00+0100", "2024-01-01T00:00:00+01",
        "2024-01-01T24:00:00Z", "2024-02-30T00:00:00Z", "2024-01-01T00:00:61Z",
        "2024-01-01T12:00:60Z", "2024-01-30T23:59:60Z", "2024-01-31T23:59:60+01:00",
        "2024-01-01x00:00:00Z", "٢٠٢٤-01-01T00:00:00Z", "2024-01-01T00:00:00Z ", "",
    ],
)  # fmt: skip
def test_other_times_are_refused(text):
    """Pass: other forms of ISO 8601, and days, hours and leap seconds that do not exist."""
    with pytest.raises(NotEvent, match="RFC 3339"):
        read("", binary(time=text), b"", 1)
