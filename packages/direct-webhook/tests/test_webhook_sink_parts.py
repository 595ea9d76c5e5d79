"""Parts of the sink by themselves: options, CloudEvents, what answers mean, and how long to wait."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem import Events, OptionError
from mainstem.columns import read_columns
from mainstem.document.checking import check
from mainstem.document.reading import from_values
from mainstem.sinks import Refused
from mainstem_direct_webhook.client.connection import Blanking
from mainstem_direct_webhook.sink import dispatcher
from mainstem_direct_webhook.sink.options import WebhookSinkOptions
from mainstem_direct_webhook.sink.requests import Packing, name_of, one_line
from mainstem_direct_webhook.sink.sink import WebhookSink
from mainstem_direct_webhook.sink.worker import Fate, fate, pause, retry_after
from mainstem_direct_webhook.source.cloudevents_in import read as read_events
from test_webhook_sink_sending import identity, rows_of

URL = "https://hooks.example.test/in"


def options(**given):
    return WebhookSinkOptions.model_validate({"url": URL, **given})


# -- options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "ftp://h/SECRET"}, "begins with https://"),
        ({"url": "SECRET"}, "begins with https://"),
        ({"url": 5_318_008}, "expected text"),
        ({"url": "https:///SECRET"}, "no host"),
        ({"url": "https://h:0/SECRET"}, "port 0"),
        ({"url": "https://a..b/SECRET"}, "between two dots"),
        ({"url": "https://.b/SECRET"}, "between two dots"),
        ({"url": f"https://{'a' * 64}.test/SECRET"}, "over 63"),
        ({"url": "https://h:99999/SECRET"}, "no valid URL"),
        ({"url": "https://u:SECRET@x@h/"}, "second `@`"),
        ({"url": "https://SECRET@h/"}, "user without a password"),
        ({"url": "https://h/SECRET#x"}, "after `#`"),
        ({"url": "https://h/SECRET\nx"}, "must be encoded"),
        ({"url": "https://hä/SECRET"}, "must be encoded"),
        ({"url": "https://h\\@SECRET/"}, "must be encoded"),
        ({"url": "http://127.0.0.1/SECRET"}, "loopback.*allow_private"),
        ({"url": "http://[::ffff:10.0.0.1]/SECRET"}, "private.*allow_private"),
        ({"url": "http://169.254.169.254/SECRET"}, "link-local.*allow_private"),
        ({"headers": {"x-a": "SECRET\r\nx: y"}}, "value of x-a"),
        ({"headers": {"x a": "SECRET"}}, "no name of a header"),
        ({"headers": {"Content-Length": "SECRET"}}, "content-length is made by the sink"),
        ({"headers": {"Webhook-Id": "SECRET"}}, "webhook-id is made by the sink"),
        ({"headers": {"content-type": "SECRET"}}, "write `content_type`"),
        ({"headers": {"X-A": "SECRET", "x-a": "SECRET"}}, "x-a is there twice"),
        ({"headers": "SECRET"}, "names with texts"),
        ({"auth": {"bearer": "SECRET\n"}}, "without line breaks"),
        ({"auth": {"bearer": 5_318_008}}, "expected text"),
        ({"auth": {"user": "u"}}, "go together"),
        ({"auth": {}}, "either bearer"),
        ({"auth": {"bearer": "SECRET", "user": "u", "password": "SECRET"}}, "either bearer"),
        ({"auth": {"bearer": "SECRET"}, "url": "https://u:SECRET@h/"}, "how to log in too"),
        ({"auth": {"bearer": "SECRET"}, "headers": {"authorization": "SECRET"}}, "log in too"),
        ({"sign_with": "SECRET"}, "begins with whsec_"),
        ({"sign_with": ["whsec_SECRET"]}, "not base64|bytes"),
        ({"sign_with": []}, "at least one secret"),
        ({"sign_with": "whpk_" + base64.b64encode(bytes(range(32))).decode()}, "for the receiver"),
        ({"forward_headers": ["Host"]}, "host is made by the sink"),
        ({"forward_headers": ["transfer-encoding"]}, "transfer-encoding is made by the sink"),
        ({"forward_headers": ["Cookie"]}, "not taken from messages"),
        ({"forward_headers": ["x"], "format": "ndjson"}, "holds several messages"),
        ({"format": "cloudevents"}, "go together"),
        ({"cloudevents": {}}, "go together"),
        ({"tls": {}, "url": "http://h/"}, "does not begin with https"),
        ({"tls": {"key": "k"}}, "key is there without certificate"),
        ({"content_type": "a/b\r\nx: y"}, "media type"),
        ({"reject": [200]}, "from 300 to 599"),
        ({"give_up": "0 seconds"}, "more than 0"),
        ({"batch_timeout": "0 seconds"}, "more than 0"),
        ({"requests": 0}, "greater than"),
        ({"method": "GET"}, "POST"),
    ],
)
def test_options_that_do_not_fit_are_refused_without_a_secret(given, words):
    """Pass: a problem of the document that says what is wrong, and shows nothing of a secret."""
    values = {"url": URL, **given}
    written = from_values(values)
    assert check(WebhookSinkOptions, values, written, (), set()) is None
    told = "\n".join(map(str, written.problems))
    assert re.search(words, told)
    assert "SECRET" not in told
    assert "5318008" not in told


@pytest.mark.parametrize("host", ["a" * 63 + ".test", "a.test.", "[2606:4700::1111]", "8.8.8.8"])
def test_hosts_that_can_be_looked_up(host):
    """Pass: the longest name, one with a dot at its end, and addresses are let in."""
    assert options(url=f"https://{host}/in")


def test_no_option_shows_its_secret():
    """Pass: neither repr, str nor JSON of the options has one."""
    made = options(
        url="https://hooks.example.test/PATH?k=QUERY",
        auth={"user": "u", "password": "PASSWORD"},
        headers={"x-a": "HEADER"},
        sign_with=["whsec_" + "SIGNING0" * 5],
    )
    told = repr(made) + str(made) + made.model_dump_json() + str(made.model_dump())
    assert not [w for w in ("PATH", "QUERY", "PASSWORD", "HEADER", "SIGNING0") if w in told]


@pytest.mark.parametrize(
    ("given", "columns", "words"),
    [
        ({}, "value INT", "column value is int, and must be binary or string"),
        ({}, "value BINARY, headers MAP<STRING, STRING>", "column headers is"),
        ({}, "value BINARY, timestamp STRING", "column timestamp is string"),
        ({"order": "log"}, "value BINARY, key BINARY", "without origin, partition, position"),
        ({"forward_headers": ["x"]}, "value BINARY", "no column 'headers'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(given, columns, words):
    """Pass: an error before the first batch that names the column."""
    with pytest.raises(OptionError, match=words):
        WebhookSink(options(**given)).check_types(read_columns(columns), Events(columns))


# -- what answers mean ----------------------------------------------------------------------


@given(st.integers(200, 999))
def test_each_status_has_one_meaning(status):
    """Pass: 2xx alone are done; 5xx and what passes come again; no 4xx is dropped in silence."""
    found = fate(status)
    assert (found is Fate.DONE) == (status < 300)
    assert (found is Fate.AGAIN) == (status >= 500 or status in (408, 425, 429))
    astray = 300 <= status < 400 or status in (401, 403, 404, 405, 407, 410, 421)
    assert (found is Fate.ASTRAY) == astray
    assert fate(status, {status}) is (Fate.DONE if status < 300 else Fate.REFUSED)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None), ("", None), ("soon", None), ("-1", None), ("1.5", None), ("²", None),
        ("0", 0), (" 120 ", 120), ("9" * 400, 999_999_999_999),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 60), ("Wed, 21 Oct 2015 07:26:00 GMT", 0),
        ("Wed, 21 Oct 2015 09:28:00 +0200", 60), ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_in_both_forms(text, seconds):
    """Pass: seconds, or a date from now on; nonsense is as if it were not there."""
    now = datetime(2015, 10, 21, 7, 27, tzinfo=UTC)
    assert retry_after(text, now) == seconds


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)))
def test_retry_after_reads_any_date(at):
    """Pass: what is written as an HTTP date is read to the second."""
    now = datetime(2000, 1, 1, tzinfo=UTC)
    whole = at.replace(microsecond=0, tzinfo=UTC)
    assert retry_after(format_datetime(whole, usegmt=True), now) == (whole - now).total_seconds()


@given(st.integers(1, 10_000), st.none() | st.floats(0, 1e9), st.floats(0.001, 1e6))
def test_a_wait_is_bounded_and_as_long_as_asked(tries, asked, longest):
    """Pass: never longer than `longest`, never shorter than asked but for that, and growing."""
    found = pause(tries, asked, longest)
    assert 0 < found <= longest
    assert found >= min(asked or 0, longest)
    assert found >= min(0.2 * 2.0 ** min(tries - 1, 30), longest) / 2 or asked is not None


# -- what is shown --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("x abc+d/ef x", "x * x"),
        ("x abc%2Bd%2Fef x", "x * x"),
        ("x abc%2bd%2fef x", "x * x"),
        ("x ABC+D/EF x", "x * x"),
        (r'{"t":"abc+d\/ef"}', '{"t":"*"}'),
        (r"x abc\u002Bd\u002fef x", "x * x"),
        ("x abc&#43;d&#x2f;ef x", "x * x"),
        ('x "hush" \n hush x', "x * x"),
        (r"x \"hush\" hush\t x", r"x *\t x"),
        ("x &quot;hush&quot; hush x", "x * x"),
        ("x &#034;hush&#34; hush x", "x * x"),
        ("x tok1 x", "x * x"),
        ("x only x", "x * x"),
        ("x p\u00e4ss x", "x * x"),
        (r"x p\u00E4ss x", "x * x"),
        ("x p&auml;ss p%C3%A4ss x", "x p&auml;ss * x"),
        (b"x p\xe4ss x".decode(errors="replace"), "x * x"),
        ("x dTpww6Rzcw== x", "x * x"),
        ("x SIGNING0SIGNING0SIGNING0SIGNING0 x", "x * x"),
        ("no v1 and x/y are shown\x00", "no v1 and x/y are shown?"),
    ],
)
def test_secrets_are_blanked_however_they_are_written(said, shown):
    """Pass: URL's path and query, headers, password and signing secret as they are, decoded, or escaped
    as URLs, JSON or HTML do; the rest is there."""
    made = options(
        url="https://h.test/tok1/v1?t=abc%2Bd%2Fef&only&k=x",
        headers={"x-a": '"hush"  hush'},
        auth={"user": "u", "password": "päss"},
        sign_with="whsec_" + "SIGNING0" * 4,
    )
    assert Blanking(made, made.sign_with or ()).shown(said).replace("**********", "*") == shown


def test_an_endpoint_without_secrets_is_shown_as_it_is():
    """Pass: nothing is blanked, and of a long text there is the start."""
    assert Blanking(options(url="https://h.test/")).shown("a  b\n" * 200) == ("a b " * 200)[:300]


# -- lanes ----------------------------------------------------------------------------------


def test_lanes_that_do_not_end_are_waited_for_together(monkeypatch):
    """Pass: `close` waits 5 seconds for 8 threads that hang, not for each."""
    now = [100.0]

    class Hanging:
        def join(self, seconds):
            now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(dispatcher, "time", clock, raising=False)
    deliverer = dispatcher.Deliverer(lambda: None, 8, lambda: None)
    deliverer._threads = [Hanging() for _ in range(8)]
    deliverer.close()
    assert now == [105.0]


# -- bodies ---------------------------------------------------------------------------------


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
), st.sampled_from([None, 1, "\r\n"]))  # fmt: skip
@pytest.mark.in_turn
def test_any_json_goes_on_one_line_unchanged(value, indent):
    """Pass: the line has no break and is the same value."""
    line = one_line(json.dumps(value, indent=indent).encode())
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == value


@given(st.lists(st.integers(), min_size=1, max_size=8))
def test_names_of_requests(numbers):
    """Pass: of one message its own id, of several 32 digits that depend on all of them and their order."""
    ids = [identity(n) for n in numbers]
    assert re.fullmatch("[0-9a-f]{32}", name_of(ids))
    assert name_of(ids) == name_of(list(ids))
    assert name_of([*ids, identity("more")]) != name_of(ids)
    assert name_of([ids[0]]) == ids[0].hex()


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b"{", b"1 2", b'"\n"', b"\xef\xbb\xbf1", b"-Infinity", b""]
)
def test_what_is_not_json_is_told(value):
    """Pass: ValueError, also of what is nested too deep to read."""
    with pytest.raises(ValueError, match="not JSON"):
        one_line(value)
    assert one_line(b"9" * 10_000) == b"9" * 10_000


# -- CloudEvents ----------------------------------------------------------------------------

AT = datetime(2026, 1, 31, 23, 59, 59, 123456, UTC)


def events(value, headers, mode, **given):
    """Return the parcels of one row as CloudEvents, and why it was refused."""
    made = options(
        format="cloudevents",
        cloudevents={"mode": mode, "source": "/orders", "type": "placed"},
        **given,
    )
    refused = Refused()
    batch = rows_of([value], headers=[headers and list(headers.items())], timestamp=[AT])
    parcels = list(Packing(made).parcels(batch, refused))
    return parcels, [row["reason"] for b in refused.take() for row in b.to_pylist()]


HEADERS = {
    "ce-subject": 'a b"%ä€'.encode(),
    "ce-type": b"changed",
    "CE-Tenant": b"t1",
    "ce-id": b"another",
    "x-other": b"no",
}


def test_an_event_in_binary_mode():
    """Pass: attributes as headers, encoded as the HTTP binding says; the value is the body as it is."""
    ((parcel,), reasons) = events(b"\xff raw", HEADERS, "binary", content_type="text/plain")
    assert reasons == []
    assert parcel.body == b"\xff raw"
    assert dict(parcel.headers) == {
        "content-type": "text/plain",
        "ce-specversion": "1.0",
        "ce-id": identity(0).hex(),
        "ce-source": "/orders",
        "ce-type": "changed",
        "ce-subject": "a%20b%22%25%C3%A4%E2%82%AC",
        "ce-tenant": "t1",
        "ce-time": "2026-01-31T23:59:59.123456Z",
    }
    assert parcel.name == identity(0).hex()


@pytest.mark.parametrize(
    ("kind", "value", "member"),
    [
        (None, b'{"a": [1.0]}', '"data":{"a": [1.0]}'),
        (b"application/vnd.x+json; charset=utf-8", b"1", '"data":1'),
        (b"text/plain", "ä\n".encode(), '"data":"ä\\n"'),
        (b"text/plain", b"\xff", '"data_base64":"/w=="'),
        (b"image/png", b"\x00", '"data_base64":"AA=="'),
    ],
)
def test_an_event_in_structured_mode(kind, value, member):
    """Pass: one JSON object; JSON stands in it as it is, text as a string, the rest as base64."""
    headers = {**HEADERS, **({"content-type": kind} if kind else {})}
    for mode in ("structured", "batch"):
        ((parcel,), reasons) = events(value, headers, mode)
        assert reasons == []
        body = parcel.body.decode()
        assert member in body
        found = json.loads(body)
        found = found if mode == "structured" else found[0]
        assert found["datacontenttype"] == (kind or b"application/json").decode()
        assert (found["subject"], found["id"]) == ('a b"%ä€', identity(0).hex())
        suffix = "" if mode == "structured" else "-batch"
        assert dict(parcel.headers) == {"content-type": f"application/cloudevents{suffix}+json"}


@pytest.mark.parametrize("mode", ["binary", "structured", "batch"])
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
def test_what_the_sink_writes_the_source_reads(mode, kind):
    """Pass: value, attributes, time and type of the data, as the source's reader has them."""
    given = {**HEADERS, "content-type": kind.encode()}
    ((parcel,), _) = events(b'{"a":1}', given, mode)
    headers = {name.encode(): text.encode("latin-1") for name, text in parcel.headers}
    (event,) = read_events(dict(parcel.headers)["content-type"], headers, parcel.body, 10)
    assert event.value == b'{"a":1}'
    found = dict(event.headers)
    assert found["ce-subject"] == HEADERS["ce-subject"]
    assert (found["ce-source"], found["ce-type"]) == (b"/orders", b"changed")
    assert found["content-type"] == kind.encode()
    assert event.timestamp == int(AT.timestamp()) * 1_000_000 + 123456


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"ce-a_b": b"x"}, "ce-a_b is no attribute"),
        ({"ce-a": b"\xff"}, "ce-a is not UTF-8"),
        ({"ce-a": b"x\r\ny"}, "control character"),
        ({"content-type": b"a\r\nb"}, "no media type"),
        ({"content-type": b" text/plain"}, "no media type"),
        ({"content-type": b"text/plain "}, "no media type"),
        ({"content-type": b"   "}, "no media type"),
        ({"content-type": "text/pläin".encode("latin-1")}, "no media type"),
    ],
)
def test_attributes_that_are_none_refuse_their_row(headers, words):
    """Pass: no request is made of the row, and the reason names the header."""
    for mode in ("binary", "structured"):
        parcels, (reason,) = events(b"1", headers, mode)
        assert parcels == []
        assert words in reason


@pytest.mark.parametrize("year", [-1, 10_000, 292_000])
def test_a_time_that_no_event_can_have_refuses_its_row(year):
    """Pass: a timestamp of Spark's that is no time of RFC 3339 is a reason, and its neighbour is sent."""
    refused = Refused()
    made = options(format="cloudevents", cloudevents={"source": "/a", "type": "b"})
    micros = pa.array([(year - 1970) * 31_556_952_000_000, 0], pa.int64())
    batch = rows_of([b"1", b"2"], timestamp=[AT, AT])
    batch = batch.set_column(3, "timestamp", micros.cast(pa.timestamp("us", "UTC")))
    (parcel,) = Packing(made).parcels(batch, refused)
    assert parcel.body == b"2"
    ((row,),) = (b.to_pylist() for b in refused.take())
    assert (row["payload"], row["reason"]) == (
        b"1",
        "the timestamp is not within the years 1 to 9999",
    )


def test_an_event_needs_source_and_type():
    """Pass: without the options the message's headers must have them."""
    made = options(format="cloudevents", cloudevents={})
    refused = Refused()
    batch = rows_of([b"1", b"2"], headers=[None, [("ce-source", b"/a"), ("ce-type", b"b")]])
    assert len(list(Packing(made).parcels(batch, refused))) == 1
    ((row,),) = (b.to_pylist() for b in refused.take())
    assert "no source" in row["reason"]


def test_data_that_is_not_json_is_refused_in_json():
    """Pass: structured mode refuses the row; binary mode sends it as it is."""
    parcels, (reason,) = events(b"{no", None, "structured")
    assert parcels == []
    assert "not JSON" in reason
    assert events(b"{no", None, "binary")[0][0].body == b"{no"
