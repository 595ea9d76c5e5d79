"""Options of both components: what is refused, with which words, and that nothing heavy is imported."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import timedelta

import pytest
from mainstem import DocumentError, OptionError, Pipeline
from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions
from mainstem_direct_zeromq.sink.sink import ZeroMQSink
from mainstem_direct_zeromq.source.options import ZeroMQSourceOptions
from mainstem_direct_zeromq.source.source import ZeroMQSource
from pydantic import ValidationError

#: Those of ZeroMQ's own documentation.
KEY, SECRET = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
WHERE = {"bind": "tcp://127.0.0.1:5555"}


def source(**given):
    return ZeroMQSource(ZeroMQSourceOptions.model_validate(given))


def sink(**given):
    return ZeroMQSink(ZeroMQSinkOptions.model_validate(given))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "bind or connect"),
        ({"bind": "tcp://host"}, "tcp://HOST:PORT"),
        ({"bind": "tcp://host:0"}, "port from 1"),
        ({"bind": "tcp://host:*"}, "port from 1"),
        ({"bind": "tcp://host:70000"}, "port from 1"),
        ({"bind": "ipc://relative/path"}, "absolute path"),
        ({"bind": "inproc://name"}, "tcp://HOST:PORT or ipc"),
        ({"bind": ["tcp://*:1", "tcp://*:1"]}, "twice"),
        ({"connect": "tcp://*:1"}, "is for `bind`"),
        (WHERE | {"curve": {}}, "either server_key"),
        (WHERE | {"curve": {"server_key": KEY, "clients": "any"}}, "either server_key"),
        (WHERE | {"curve": {"clients": "any"}}, "needs a secret_key"),
        (WHERE | {"curve": {"clients": [], "secret_key": SECRET}}, "nobody"),
        (WHERE | {"curve": {"clients": ["short"], "secret_key": SECRET}}, "40 characters of Z85"),
        (WHERE | {"curve": {"clients": "any", "secret_key": 7}}, "expected text"),
        (WHERE | {"plain": {}}, "either user"),
        (WHERE | {"plain": {"user": "u"}}, "belong together"),
        (WHERE | {"plain": {"users": {}}}, "nobody"),
        (WHERE | {"plain": {"users": {"u": ""}}}, "1 to 255 bytes"),
        (WHERE | {"plain": {"users": {"u" * 256: "x"}}}, "255 bytes at most"),
        (
            WHERE
            | {"plain": {"users": {"u": "x"}}, "curve": {"clients": "any", "secret_key": SECRET}},
            "not both",
        ),
        (WHERE | {"heartbeat": "2 hours"}, "an hour at most"),
        (WHERE | {"keepalive": "2 hours"}, "an hour at most"),
        (WHERE | {"keepalive": "1500 ms"}, "whole seconds"),
        (WHERE | {"socket_buffer": "4 GB"}, "less than or equal to 2147483647"),
        (WHERE | {"frames": ["body"]}, "'body'"),
        # Each five characters of Z85 are 32 bits, and these are more.
        (WHERE | {"curve": {"server_key": "#" * 40}}, "40 characters of Z85"),
        (WHERE | {"curve": {"clients": ["#" * 40], "secret_key": SECRET}}, "40 characters of Z85"),
        (WHERE | {"curve": {"clients": "any", "secret_key": "#" * 40}}, "40 characters of Z85"),
        (WHERE | {"reconnect": "0 s"}, "more than 0"),
    ],
)
def test_what_makes_no_sense_is_refused_by_both(given, told):
    """Pass: with words that say what was expected."""
    for made in (source, sink):
        with pytest.raises(ValidationError, match=told):
            made(**given)


@pytest.mark.parametrize(
    ("given", "option", "told"),
    [
        ({"topics": ["a"]}, "topics", "socket: sub"),
        ({"max_frame": "1 MB", "max_message": "2 MB"}, "max_message", "max_frame"),
        ({"receivers": 2}, "receivers", "only one can bind"),
        ({"socket": "sub", "receivers": 2}, "receivers", "every message"),
        (
            {"bind": [], "connect": "tcp://h:1", "receivers": 2, "frames": ["sequence", "value"]},
            "receivers",
            "gaps",
        ),
        ({"sequence": {}}, "sequence", "`frames` has no 'sequence'; it has value"),
        (
            {"frames": ["sequence", "value"], "sequence": {"per": ["header.a"]}},
            "sequence",
            "no 'header.a'",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_by_the_source(given, option, told):
    """Pass: the error names the option."""
    with pytest.raises(OptionError, match=told) as error:
        source(**{**WHERE, **given})
    assert error.value.option == option


@pytest.mark.parametrize("given", ["9 ms", "30 days"])
def test_the_sink_waits_for_as_long_as_libzmq_can(given):
    """Pass: more than its timers tell apart, and less than they hold."""
    with pytest.raises(ValidationError, match="10 milliseconds to a day"):
        sink(**WHERE, give_up=given)


def test_peers_are_asked_for_by_the_kernel_and_not_by_libzmq():
    """Pass: by default there are no heartbeats, for back-pressure holds their answers up."""
    for made in (source(**WHERE), sink(**WHERE)):
        assert made.options.heartbeat == timedelta(0)
        assert made.options.keepalive == timedelta(seconds=60)


def test_keys_are_those_that_libzmq_reads():
    """Pass: each that it makes, and the smallest and the largest that there are."""
    import zmq
    from mainstem_direct_zeromq.connection import check_key
    from zmq.utils import z85

    for _ in range(20):
        for key in zmq.curve_keypair():
            check_key(key.decode())
    for key in (bytes(32), b"\xff" * 32):
        check_key(z85.encode(key).decode())


def test_what_can_be_lost_depends_on_who_binds():
    """Pass: peers that bind drop their own queues when a connection ends, and the reason says so."""
    bound, connected = source(**WHERE).capabilities, source(connect="tcp://host:1").capabilities
    assert "a connection that breaks loses what is in flight" in bound.why
    assert "peers that bind" not in bound.why
    assert "what peers that bind hold, up to their own mark" in connected.why
    assert "the order of messages of different connections does not matter" in bound.assumptions


def test_receivers_can_share_what_pushers_that_bind_give_out():
    """Pass: PULL sockets that connect; their order is then not promised."""
    made = source(connect="tcp://host:1", receivers=3)
    assert not made.capabilities.ordered
    assert source(connect="tcp://host:1").capabilities.ordered


@pytest.mark.parametrize(
    ("given", "option", "told"),
    [
        ({"partitions": 2}, "partitions", "expected 1"),
        ({"topic": "t"}, "topic", "`frames` has no `topic`"),
        ({"topic_from": "place"}, "topic_from", "`frames` has no `topic`"),
        (
            {"topic_from": "place", "topic": "t", "frames": ["topic", "value"]},
            "topic_from",
            "beside `topic`",
        ),
        ({"when_full": "drop"}, "when_full", "socket: pub"),
        ({"subscriptions": 2}, "subscriptions", "socket: pub"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_the_sink(given, option, told):
    """Pass: the error names the option."""
    with pytest.raises(OptionError, match=told) as error:
        sink(**{**WHERE, **given})
    assert error.value.option == option


@pytest.mark.parametrize(
    ("frames", "columns", "told"),
    [
        (["topic", "value"], "value BINARY", "no column 'origin'"),
        (["key", "value"], "value BINARY", "no column 'key'"),
        (["sequence", "value"], "value BINARY", "no column 'headers'"),
        (["value"], "value STRING", "must be binary"),
        (["headers", "value"], "value BINARY, headers STRING", "must be map<string,binary>"),
    ],
)
def test_columns_that_make_no_frames_are_refused_before_a_run(frames, columns, told):
    """Pass: an OptionError that names the column."""
    from mainstem import Events
    from mainstem.columns import read_columns

    with pytest.raises(OptionError, match=told):
        sink(**WHERE, frames=frames).check_types(read_columns(columns), Events(columns))


@pytest.mark.parametrize("text", ["hunter2", SECRET], ids=["password", "key"])
def test_no_error_shows_a_secret(text):
    """Pass: wrong in many ways, and the words never hold the text that was given; a plan neither."""
    wrong = [
        {"curve": {"secret_key": text + "!", "clients": "any"}},
        {"curve": {"secret_key": [text], "clients": "any"}},
        {"curve": {"secret_key": text}},
        {"plain": {"user": "u", "password": text * 200}},
        {"plain": {"user": "", "password": text}},
        {"plain": {"users": {"u": [text]}}},
        {"plain": {"users": {"u": text * 200}}},
        {"plain": {"users": {"u": text}}, "no_such_option": 1},
    ]
    for given in wrong:
        document = {
            "pipeline": "p",
            "sources": {"s": {"use": "zeromq", "with": WHERE | given}},
            "sinks": {"out": {"use": "console", "from": "s"}},
        }
        with pytest.raises(DocumentError) as error:
            Pipeline(document).plan()
        assert text not in str(error.value), given


def test_options_reach_other_processes():
    """Pass: what is pickled, for a receiver's process or a task, has all that it had."""
    made = source(**WHERE, curve={"secret_key": SECRET, "clients": [KEY]}).options
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.curve.secret_key.get_secret_value() == SECRET


def test_what_the_plan_needs_imports_neither_zmq_nor_spark():
    """Pass: the plugin's module, both components and their capabilities."""
    code = (
        "import sys; from mainstem.registry import Registry; component = Registry().component; "
        "s = component('source', 'zeromq'); k = component('sink', 'zeromq'); "
        "given = {'bind': 'tcp://*:1', 'frames': ['sequence', 'value']}; "
        "made = s(s.options_model().model_validate(given)); made.capabilities; made.outputs({}); "
        "k(k.options_model().model_validate({'bind': 'tcp://*:1'})).capabilities; "
        "print([m for m in ('zmq', 'pyspark', 'pyarrow') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
