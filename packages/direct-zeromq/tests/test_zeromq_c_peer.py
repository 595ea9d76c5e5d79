"""A peer in C over the system's libzmq, in both directions, with and without CURVE and PLAIN."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import zmq
from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions
from mainstem_direct_zeromq.sink.sender import publish
from mainstem_testkit.plugin import required
from zeromq_peers import address, taker

COUNT = 2000
LAYOUT = {"frames": ["topic", "sequence", "value"], "sequence": {"per": []}}
SOURCE = Path(__file__).parent / "zeromq_peer.c"


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The peer, compiled; the tests are skipped without a compiler or libzmq's headers."""
    made = tmp_path_factory.mktemp("zeromq") / "zeromq_peer"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", made, "-lzmq"]
    missing = "gcc" if shutil.which("gcc") is None else ""
    if not missing and not Path("/usr/include/zmq.h").exists():
        missing = "libzmq3-dev"
    if missing:
        told = f"server missing: libzmq: {missing} is not installed (services/apt.txt)"
        (pytest.fail if required("libzmq") else pytest.skip)(told)
    subprocess.run(command, check=True)
    return made


@pytest.fixture
def start(program):
    """Starts the peer; what is left is killed at the end."""
    running = []

    def start(*words, patience=20_000):
        process = subprocess.Popen(
            [program, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATIENCE": str(patience)},
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def keys():
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


@contextmanager
def secured(how):
    """The options of ours, as the server, and the peer's words: right ones, and wrong ones."""
    server, server_secret = keys()
    known, known_secret = keys()
    other, other_secret = keys()
    if how == "curve":
        options = {"curve": {"secret_key": server_secret, "clients": [known]}}
        right = ("curve-client", server, known, known_secret)
        wrong = [("curve-client", server, other, other_secret)]
        wrong += [("curve-client", other, known, known_secret), ()]
    elif how == "plain":
        options = {"plain": {"users": {"anna": "open sesame"}}}
        right = ("plain", "anna", "open sesame")
        wrong = [("plain", "anna", "hunter2"), ("plain", "emma", "open sesame"), ()]
    else:
        options, right, wrong = {}, (), [("plain", "anna", "x")]
    yield options, right, wrong


def expected(number):
    return (f"c.{number % 3}", number.to_bytes(8, "big"), b"from C %d" % number)


@pytest.mark.parametrize("how", ["open", "curve", "plain"])
@pytest.mark.parametrize(("kind", "socket"), [("push", "pull"), ("pub", "sub")])
def test_what_a_peer_in_c_sends_is_taken(start, how, kind, socket):
    """Pass: every message with topic, number and value, in order, and no gap is told."""
    where = address()
    given = {"socket": socket, "bind": where, **LAYOUT}
    with secured(how) as (options, right, _), taker(**given, **options) as taking:
        taking.connect()
        process = start(kind, "connect", where, COUNT, *right)
        found = taking.take_some(COUNT)
        assert [(m.origin, dict(m.headers)["zmq.sequence"], m.value) for m in found] == [
            expected(number) for number in range(COUNT)
        ]
        assert taking.receiver.facts()["lost"] == 0
        assert process.wait(20) == 0


@pytest.mark.parametrize("how", ["open", "curve", "plain"])
@pytest.mark.in_turn
def test_a_peer_in_c_with_a_wrong_key_gets_nothing_in(start, how):
    """Pass: another key, another server's key, another password, and none at all: the peer finds nobody to send
    to, nothing comes, and one with the right words gets in beside them."""
    where = address()
    with (
        secured(how) as (options, right, wrong),
        taker(bind=where, **LAYOUT, **options) as taking,
    ):
        taking.connect()
        strangers = [start("push", "connect", where, 5, *words, patience=1500) for words in wrong]
        found = []
        while any(process.poll() is None for process in strangers):
            found += taking.take(0.05)
        assert [process.wait(20) for process in strangers] == [3] * len(wrong)
        assert found == []
        start("push", "connect", where, 5, *right)
        assert [m.value for m in taking.take_some(5)] == [expected(n)[2] for n in range(5)]


@pytest.mark.parametrize("how", ["open", "curve"])
def test_ours_connects_to_a_peer_in_c(start, how):
    """Pass: the peer binds, as the server of CURVE; ours comes with its key."""
    server, server_secret = keys()
    where = address()
    theirs = ("curve-server", server_secret) if how == "curve" else ()
    curve = {"curve": {"server_key": server}} if how == "curve" else {}
    process = start("push", "bind", where, COUNT, *theirs)
    with taker(connect=where, **LAYOUT, reconnect="10 ms", **curve) as taking:
        taking.connect()
        found = taking.take_some(COUNT)
        assert [m.value for m in found] == [expected(n)[2] for n in range(COUNT)]
        assert process.wait(20) == 0


def rows(count):
    return pa.record_batch(
        {
            "value": [b"value %d" % n for n in range(count)],
            "key": [b"k\xff%d" % n for n in range(count)],
            "origin": [f"topic.{n % 3}" for n in range(count)],
            "headers": pa.array(
                [[("shop", "nörd".encode())]] * count, pa.map_(pa.string(), pa.binary())
            ),
        }
    )


@pytest.mark.parametrize("how", ["open", "curve", "plain"])
@pytest.mark.parametrize(("socket", "kind"), [("push", "pull"), ("pub", "sub")])
@pytest.mark.in_turn
def test_a_peer_in_c_reads_what_ours_sends(start, how, socket, kind):
    """Pass: frame by frame, in order; a reader with a wrong key finds nothing, and the right one all."""
    where = address()
    frames = ["topic", "key", "headers", "value"]
    with secured(how) as (options, right, wrong):
        given = {"socket": socket, "bind": where, "frames": frames, "give_up": "20 s", **options}
        strangers = [start(kind, "connect", where, 1, *words, patience=1500) for words in wrong]
        reader = start(kind, "connect", where, COUNT, *right)
        made = ZeroMQSinkOptions.model_validate(given)
        assert list(publish([rows(COUNT)], made)) == []
        lines = reader.communicate(timeout=20)[0].splitlines()
        assert [[bytes.fromhex(frame) for frame in line.split(" ")] for line in lines] == [
            [b"topic.%d" % (n % 3), b"k\xff%d" % n, '{"shop":"nörd"}'.encode(), b"value %d" % n]
            for n in range(COUNT)
        ]
        for stranger in strangers:
            told = stranger.communicate(timeout=20)[0]
            assert (stranger.returncode, told) == (3, "")
