"""Properties and headers of AMQP in the column `headers`, there and back."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import pika
import pytest
from mainstem_broker_amqp.connection import parameters, places
from mainstem_broker_amqp.errors import permanent, words
from mainstem_broker_amqp.options import ConnectionOptions
from mainstem_broker_amqp.properties import from_headers, to_headers
from mainstem_broker_amqp.sink.link import encode_properties
from pika import data, exceptions
from pika.adapters.utils import connection_workflow as workflow
from pika.compat import long
from pydantic import ValidationError

TEXTS = [
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "message_id",
    "type",
    "user_id",
    "app_id",
]


def over_the_wire(table):
    """Return a table as a consumer gets it."""
    pieces = []
    data.encode_table(pieces, table)
    return data.decode_table(b"".join(pieces), 0)[0]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("text Æ", "text Æ".encode()),
        ("", b""),
        (b"\x00\xff", b"\x00\xff"),
        (b"bytes", b"bytes"),
        (True, b"true"),
        (False, b"false"),
        (0, b"0"),
        (-7, b"-7"),
        (2**31, b"2147483648"),
        (long(5), b"5"),
        (-(2**63), b"-9223372036854775808"),
        (Decimal("12.50"), b"12.5"),
        (Decimal("-0.001"), b"-0.001"),
        (Decimal("100"), b"100"),
        (datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC), b"2026-01-31T23:59:59Z"),
        (None, b""),
        ([], b"[]"),
        ({}, b"{}"),
        ([1, "a", None, True], b'[1,"a",null,true]'),
        (
            {"t": datetime(2026, 1, 1, tzinfo=UTC), "d": Decimal("0.5"), "l": [{"x": long(3)}]},
            b'{"t":"2026-01-01T00:00:00Z","d":"0.5","l":[{"x":3}]}',
        ),
        ({"text": b"in bytes", "bytes": b"\xff"}, b'{"text":"in bytes","bytes":"/w=="}'),
    ],
)
def test_every_type_of_a_field_table_has_its_bytes(value, found):
    """Pass: what pika encodes of the type is, when received, the bytes that the docs say."""
    headers = over_the_wire({"name": value})
    assert to_headers(pika.BasicProperties(headers=headers)) == [("name", found)]


def test_types_that_pika_decodes_alone():
    """Pass: numbers of the widths that other clients use, and a long text that is not UTF-8."""
    fields = b"".join(
        (
            b"\x01ab\xff",
            b"\x01bB\xff",
            b"\x01cs\xff\xff",
            b"\x01dI\xff\xff\xff\xff",
            b"\x01eS\0\0\0\1\xff",
        )
    )
    table = data.decode_table(len(fields).to_bytes(4, "big") + fields, 0)[0]
    found = to_headers(pika.BasicProperties(headers=table))
    assert found == [("a", b"-1"), ("b", b"255"), ("c", b"-1"), ("d", b"-1"), ("e", b"\xff")]


def test_floats_are_text():
    """Pass: as Python writes them; pika itself cuts them to integers before (see the README)."""
    found = to_headers(pika.BasicProperties(headers={"x": 0.5, "y": [1.25]}))
    assert found == [("x", b"0.5"), ("y", b"[1.25]")]


def test_a_plain_message_has_no_headers():
    """Pass: null rather than an empty map."""
    assert to_headers(pika.BasicProperties()) is None
    assert to_headers(pika.BasicProperties(headers={})) is None


def test_every_property_goes_there_and_back():
    """Pass: the same properties and headers, as the broker carries them."""
    given = {name: f"{name} Æ" for name in TEXTS}
    given |= {"expiration": "60000", "priority": 9, "delivery_mode": 1}
    table = {"text": "Æ", "bytes": b"\xff", "amqp.type": "mine", "amqp.header.x": "too"}
    headers = to_headers(pika.BasicProperties(**given, headers=table))
    assert dict(headers)["amqp.type"] == "type Æ".encode()
    assert dict(headers)["amqp.header.amqp.type"] == b"mine"
    assert len(dict(headers)) == len(headers)
    assert from_headers(headers) == (given, table)


def test_where_a_message_came_from_is_read_and_not_written():
    """Pass: exchange and redelivered are there when they say something; written they are ignored."""
    headers = to_headers(pika.BasicProperties(), "orders", True)
    assert headers == [("amqp.exchange", b"orders"), ("amqp.redelivered", b"true")]
    assert from_headers(headers) == ({}, {})
    assert to_headers(pika.BasicProperties(), "", False) is None


def test_what_is_not_utf8_stays_as_it_is():
    """Pass: a property's bytes; a name's bytes are escaped; both as pika leaves them."""
    made = pika.BasicProperties(type=b"\xff", headers={b"\xff": "v"})
    assert to_headers(made) == [("amqp.type", b"\xff"), ("\\xff", b"v")]


def test_null_is_a_header_without_a_value_and_no_property():
    """Pass: written as such; a property that is null is not set."""
    assert from_headers([("a", None), ("amqp.type", None)]) == ({}, {"a": None})
    assert from_headers(None) == ({}, {})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("amqp.typ", b"x", "amqp.typ names no property"),
        ("amqp.priority", b"high", "amqp.priority is no number from 0 to 255: 'high'"),
        ("amqp.priority", b"256", "from 0 to 255"),
        ("amqp.delivery_mode", b"3", "from 0 to 2"),
        ("amqp.priority", b"-1", "from 0 to 255"),
        ("amqp.priority", "٣".encode(), "from 0 to 255"),
        ("amqp.expiration", b"1 minute", "no number of milliseconds"),
        ("amqp.expiration", b"4294967296", "no number of milliseconds"),
        ("amqp.expiration", b"", "no number of milliseconds"),
        ("amqp.type", b"\xff", "amqp.type is not UTF-8"),
        ("amqp.type", b"x" * 256, "256 bytes; 255 are the most"),
        ("x" * 256, b"", "names have 255 bytes at most"),
        ("Æ" * 128, b"", "names have 255 bytes at most"),
    ],
)
def test_what_amqp_does_not_take_is_refused_by_name(name, value, words):
    """Pass: an error that says which header and what is wrong."""
    with pytest.raises(ValueError, match=words):
        from_headers([(name, value)])


@pytest.mark.parametrize(
    "properties",
    [
        {"delivery_mode": 2},
        {"delivery_mode": 2, "message_id": "a" * 32},
        {"delivery_mode": 1, "message_id": "", "timestamp": 1_700_000_000},
        {"delivery_mode": 2, "timestamp": 0},
        {"delivery_mode": 2, "message_id": "Æ" * 127},
        {"message_id": "x"},
        {"delivery_mode": 2, "type": "t"},
    ],
)
def test_the_short_way_encodes_as_pika_does(properties):
    """Pass: the same bytes."""
    assert encode_properties(properties, {}) == b"".join(
        pika.BasicProperties(**properties).encode()
    )


def test_a_property_that_is_too_long_is_refused():
    """Pass: on the short way and on pika's."""
    for more in ({}, {"type": "t"}):
        with pytest.raises(ValueError, match="more than 255 bytes"):
            encode_properties({"delivery_mode": 2, "message_id": "x" * 256, **more}, {})


# -- connecting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://user:SECRET@host", "begins with amqp:// or amqps://"),
        ("amqp://user:SECRET#1@host/", "no valid URL|after `.` or `#`"),
        ("amqp://user:SECRET/1@host/", "no valid URL|second path"),
        ("amqp://user:SECRET@host:0/", "no host, or port 0"),
        ("amqp://user:SECRET@host:x/", "no valid URL"),
        ("amqp://user:SECRET@host/a/b", "%2f"),
        ("amqp://user:SECRET@host/?heartbeat=5", "are options"),
        ("amqp://SECRET@host/", "a user without a password"),
        ("SECRET", "begins with amqp:// or amqps://"),
        ([], "at least one URL"),
        (["amqp://host", "SECRET"], "begins with amqp:// or amqps://"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_it(url, words):
    """Pass: what is wrong, in an error that has the URL nowhere."""
    with pytest.raises(ValidationError, match=words) as error:
        ConnectionOptions.model_validate({"url": url})
    assert "SECRET" not in str(error.value) + repr(error.value.errors())


def test_options_show_no_password_and_travel():
    """Pass: neither in text nor in JSON nor in what is shown as the place; a pickle keeps it."""
    made = ConnectionOptions.model_validate(
        {"url": ["amqp://u:SECRET@a", "amqps://u:SECRET@b:9/v%2fw"]}
    )
    assert places(made) == ["a:5672/", "b:9/v/w"]
    assert "SECRET" not in f"{made!r}{made}{made.model_dump_json()}{places(made)}"
    kept = parameters(pickle.loads(pickle.dumps(made)), "n")
    assert [p.credentials.password for p in kept] == ["SECRET", "SECRET"]
    assert [(p.host, p.port, p.virtual_host) for p in kept] == [("a", 5672, "/"), ("b", 9, "v/w")]
    assert [p.ssl_options is not None for p in kept] == [False, True]
    assert kept[0].client_properties == {"connection_name": "n"}
    assert "SECRET" not in repr(kept)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls": {}}, "no URL begins with amqps"),
        ({"heartbeat": "1.5 seconds"}, "whole seconds"),
        ({"connect_timeout": "0 seconds"}, "more than 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    """Pass: an error that says why."""
    with pytest.raises(ValidationError, match=words):
        ConnectionOptions.model_validate({"url": "amqp://host", **options})


def test_a_missing_certificate_is_told(tmp_path):
    """Pass: which option and which file."""
    tls = {"ca": str(tmp_path / "no.pem")}
    made = ConnectionOptions.model_validate({"url": "amqps://host", "tls": tls})
    with pytest.raises(OSError, match=r"tls.ca.*no.pem"):
        parameters(made, "n")


REFUSED = "ConnectionClosedByBroker: (403) 'ACCESS_REFUSED - Login was refused'"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (exceptions.ChannelClosedByBroker(403, "ACCESS_REFUSED - x"), "lacks a permission"),
        (
            exceptions.ChannelClosedByBroker(404, "NOT_FOUND - no queue 'q'"),
            "not there.*no queue 'q'",
        ),
        (exceptions.ChannelClosedByBroker(404, "NOT_FOUND - q is down or inaccessible"), None),
        (exceptions.ChannelClosedByBroker(405, "RESOURCE_LOCKED - q"), None),
        (exceptions.ChannelClosedByBroker(406, "PRECONDITION_FAILED - inequivalent"), "otherwise"),
        (exceptions.ChannelClosedByBroker(406, "PRECONDITION_FAILED - ... timed out"), None),
        (exceptions.ConnectionClosedByBroker(320, "CONNECTION_FORCED - shutdown"), None),
        (exceptions.ConnectionClosedByBroker(530, "NOT_ALLOWED - no such vhost"), "not allow"),
        (exceptions.ConnectionClosedByBroker(530, "NOT_ALLOWED - limit is reached"), None),
        (exceptions.ConnectionClosedByBroker(541, "INTERNAL_ERROR"), None),
        (exceptions.ProbableAuthenticationError(REFUSED), "refuses the user or the password"),
        (exceptions.ProbableAuthenticationError("StreamLostError: ('reset',)"), None),
        (exceptions.ProbableAccessDeniedError("StreamLostError: ('reset',)"), None),
        (exceptions.StreamLostError("reset"), None),
        (ConnectionRefusedError(111, "Connection refused"), None),
        (
            workflow.AMQPConnectionWorkflowFailed(
                [
                    workflow.AMQPConnectorSocketConnectError(OSError("first address")),
                    workflow.AMQPConnectorAMQPHandshakeError(
                        exceptions.ProbableAuthenticationError(REFUSED)
                    ),
                ]
            ),
            "refuses the user or the password",
        ),
    ],
)
def test_what_no_retry_can_mend_is_told_from_what_passes(error, why):
    """Pass: words for what stays wrong, also inside pika's wrappers; None for what time may mend."""
    found = permanent(error)
    if why is None:
        assert found is None
    else:
        import re

        assert re.search(why, found or ""), found
    assert words(error)
