"""Connecting: who is let in and how, what is told of the rest, and that no secret is."""

from __future__ import annotations

import socket
import threading
import time

import nkeys
import pytest
from mainstem import ExternalError, PermanentError
from mainstem_broker_nats.client import Connection
from mainstem_broker_nats.connection import APIError, ConnectionOptions, login, places
from mainstem_broker_nats.testing import NATS
from nats_secured import Certificates, Late, Operated, creds, public, seed
from nats_streams import say
from pydantic import ValidationError

SECRET = "open-sesame/%41"


def options(server, **more):
    return ConnectionOptions.model_validate({"servers": server.url, **more})


def get_in(given):
    """Connect, ask something, and go."""
    with Connection.open(given, "test") as connection:
        assert connection.ask("INFO")["streams"] == 0
        return connection.server


def refused(given, *, permanent=True):
    """Return the words of a refusal, which has no secret."""
    with pytest.raises(ExternalError) as error:
        get_in(given)
    assert isinstance(error.value, PermanentError) is permanent
    text = f"{error.value!r} {error.getrepr(style='value')}"
    assert SECRET not in text
    return str(error.value)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls") / "made")


@pytest.fixture
def started(tmp_path):
    """Starts servers with settings of NATS's own; all are stopped at the end."""
    made = []

    def start(settings, kind=NATS):
        folder = tmp_path / f"server-{len(made)}"
        made.append(kind(folder) if kind is Operated else kind(folder, settings))
        made[-1].start()
        return made[-1]

    yield start
    for server in made:
        server.stop()


def test_a_token(started):
    """Pass: with it in, as an option and in the URL; without or with another one out, at once."""
    server = started(f'authorization {{ token: "{SECRET}" }}')
    get_in(options(server, token=SECRET))
    quoted = SECRET.replace("%", "%25").replace("/", "%2F")
    get_in(options(server, servers=server.url.replace("//", f"//{quoted}@")))
    assert "authorization violation" in refused(options(server)).lower()
    assert "authorization violation" in refused(options(server, token="wrong")).lower()


def test_a_user(started):
    """Pass: with the password in, as options and in the URL; with another one out, at once."""
    server = started(f'authorization {{ user: anna, password: "{SECRET}" }}')
    get_in(options(server, user="anna", password=SECRET))
    quoted = SECRET.replace("%", "%25").replace("/", "%2F")
    get_in(options(server, servers=server.url.replace("//", f"//anna:{quoted}@")))
    assert (
        "authorization violation" in refused(options(server, user="bob", password=SECRET)).lower()
    )


@pytest.mark.in_turn
def test_an_nkey(started):
    """Pass: with the seed in; with another one out; what is no seed is said without showing it."""
    mine, other = seed(nkeys.PREFIX_BYTE_USER), seed(nkeys.PREFIX_BYTE_USER)
    server = started(f"authorization {{ users: [{{ nkey: {public(mine)} }}] }}")
    get_in(options(server, nkey=mine))
    assert "authorization violation" in refused(options(server, nkey=other)).lower()
    assert "seed of the nkey is not valid" in refused(options(server, nkey=SECRET))


def test_a_credentials_file(started, tmp_path):
    """Pass: with it in; of another user, without a JWT, or not there: out, and the file is named."""
    server = started("", Operated)
    get_in(options(server, credentials=str(server.credentials)))
    wrong = tmp_path / "wrong.creds"
    wrong.write_text(creds(server.token, seed(nkeys.PREFIX_BYTE_USER)))
    assert "authorization violation" in refused(options(server, credentials=str(wrong))).lower()
    wrong.write_text(SECRET)
    assert f"{wrong} is no credentials file" in refused(options(server, credentials=str(wrong)))
    assert "can't read" in refused(options(server, credentials=str(tmp_path / "none")))
    assert "authorization violation" in refused(options(server)).lower()


@pytest.mark.in_turn
def test_tls_with_certificates_of_both(started, certificates):
    """Pass: in with the right ones; each wrong one is refused at once, with what is wrong."""
    server = started(certificates.settings(verify=True))
    get_in(options(server, tls=certificates.client()))
    other = f"{certificates.folder}/other.pem"
    assert "not trusted" in refused(options(server, tls=certificates.client(ca=other)))
    assert "mismatch" in refused(options(server, tls=certificates.client(server_name=None)))
    gone = certificates.client(ca="/no/such.pem")
    assert "can't read certificates from /no/such.pem" in refused(options(server, tls=gone))
    with pytest.raises(ExternalError):
        get_in(options(server, tls=certificates.client(certificate=None, key=None)))


@pytest.mark.in_turn
def test_tls_from_the_first_byte(started, certificates):
    """A server that greets only after TLS. Pass: in with `first`; without, told that it does not answer."""
    server = started(certificates.settings(handshake_first=True), Late)
    get_in(options(server, tls=certificates.client(first=True)))
    late = options(server, tls=certificates.client(), connect_timeout="1 s")
    assert "no answer in time" in refused(late, permanent=False)


@pytest.mark.in_turn
def test_tls_is_never_left_out(started, certificates):
    """TLS is wanted and the server speaks none, or leaves the choice. Pass: refused before the password
    is sent; spoken where it is offered.
    """
    plain = started("")
    secured = options(plain, tls=certificates.client(), token=SECRET)
    assert "does not speak TLS" in refused(secured)
    by_url = options(plain, servers=plain.url.replace("nats:", "tls:"), token=SECRET)
    assert "does not speak TLS" in refused(by_url)
    choice = started(f"{certificates.settings()}allow_non_tls: true\n")
    with Connection.open(options(choice, tls=certificates.client()), "test") as connection:
        transport = connection.client._transport
        assert transport._io_writer.get_extra_info("ssl_object") is not None


@pytest.mark.in_turn
def test_servers_are_tried_in_turn(started, nats):
    """The first is not there, the second stands still, the third answers. Pass: connected to that."""
    with socket.create_server(("127.0.0.1", 0)) as still:
        urls = ["nats://127.0.0.1:1", f"nats://127.0.0.1:{still.getsockname()[1]}", nats.url]
        given = options(nats, servers=urls, connect_timeout="500 ms")
        with Connection.open(given, "test") as connection:
            assert connection.server == f"127.0.0.1:{nats.port}"
        none = options(nats, servers=urls[:2], connect_timeout="500 ms")
        told = refused(none, permanent=False)
    assert "127.0.0.1:1: " in told
    assert "no answer in time" in told


def test_a_server_that_stands_still_is_waited_for_no_longer_than_said(started):
    """It stands still, then is killed. Pass: each call ends, and says so; the loss is known."""
    server = started("")
    given = options(server, answer_timeout="500 ms")
    with Connection.open(given, "test") as connection:
        server.pause()
        began = time.monotonic()
        with pytest.raises(ExternalError, match="no answer"):
            connection.ask("INFO")
        assert time.monotonic() - began < 10
        assert connection.lost == ""
        server.resume()
        server.kill()
        inbox = connection.client.is_closed
        until = time.monotonic() + 10
        while not connection.lost:
            assert time.monotonic() < until, inbox
            time.sleep(0.05)
        with pytest.raises(ExternalError):
            connection.ask("INFO")


@pytest.mark.in_turn
def test_what_jetstream_refuses(started):
    """No such stream; JetStream is off for the account; a subject that is forbidden. Pass: each told."""
    server = started(
        "accounts { A: { users: [{user: a, password: a}] }, B: { jetstream: enabled, users: "
        '[{user: b, password: b, permissions: {publish: {deny: "$JS.API.STREAM.>"}}}] } }'
    )
    with Connection.open(options(server, user="a", password="a"), "test") as connection:
        with pytest.raises(ExternalError, match="JetStream") as error:
            connection.ask("INFO")
        assert not isinstance(error.value, APIError) or error.value.err_code == 10039
    given = options(server, user="b", password="b", answer_timeout="2 s")
    with Connection.open(given, "test") as connection:
        with pytest.raises(
            ExternalError, match=r"Permissions Violation.*\$JS.API.STREAM.INFO.x"
        ) as error:
            connection.ask("STREAM.INFO.x")
        assert isinstance(error.value, PermanentError)
    with Connection.open(options(server, user="b", password="b"), "test") as connection:
        with pytest.raises(APIError, match="consumer|stream") as missing:
            connection.ask("CONSUMER.INFO.x.y")
        assert missing.value.code == 404


def test_no_thread_and_no_socket_stays(nats):
    """Ten connections, made and closed, one of them refused. Pass: as many threads as before."""
    before = threading.active_count()
    for _ in range(10):
        get_in_or_not = Connection.open(options(nats), "test")
        get_in_or_not.close()
        get_in_or_not.close()
    with pytest.raises(ExternalError):
        Connection.open(options(nats, servers="nats://127.0.0.1:1"), "test")
    assert threading.active_count() == before


def test_an_inbox_drops_what_it_has_no_room_for(nats):
    """Limits of rows and of bytes. Pass: the first are kept, the others counted; room comes again."""
    with Connection.open(options(nats), "test") as connection:
        few = connection.subscribe("few", rows=3)
        small = connection.subscribe("small", size=5)
        connection.flush()
        say(nats, "few", range(5))
        say(nats, "small", ["abc", "de", "f"])
        connection.flush()
        until = time.monotonic() + 10
        while few.dropped + small.dropped < 3:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert [raw.data for raw in connection.take(few, 1)] == [b"0", b"1", b"2"]
        assert [raw.data for raw in connection.take(small, 1)] == [b"abc", b"de"]
        assert (few.dropped, small.dropped, small.dropped_bytes) == (2, 1, 1)
        say(nats, "few", ["again"])
        assert [raw.data for raw in connection.take(few, 5)] == [b"again"]


def test_a_message_said_before_the_flush_ends_is_there(nats):
    """nats-py's own flush overtakes what it has not written. Pass: ours never does, in 200 tries."""
    with (
        Connection.open(options(nats), "here") as here,
        Connection.open(options(nats), "there") as there,
    ):
        inbox = here.subscribe("overtaken")
        here.flush()
        for number in range(200):
            there.publish("overtaken", b"%d" % number)
            there.flush()
            here.flush()
            assert [raw.data for raw in here.take(inbox, 0)] == [b"%d" % number]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"servers": "http://host"}, "nats:// or tls://"),
        ({"servers": []}, "at least one"),
        ({"servers": "nats://host/path"}, "after host and port"),
        ({"servers": ["nats://a:b@one", "nats://two"]}, "same user"),
        ({"servers": "nats://a:b@one", "token": "t"}, "one way to log in"),
        ({"user": "anna"}, "belong together"),
        ({"user": "anna", "password": "p", "nkey": "SU"}, "one way to log in"),
        ({"heartbeat": "0 s"}, "more than 0"),
        ({"inbox": "a.>"}, "pattern"),
    ],
)
def test_options_that_do_not_fit(wrong, said):
    """Pass: refused, with what is wrong."""
    with pytest.raises(ValidationError, match=said):
        ConnectionOptions.model_validate({"servers": "nats://host", **wrong})


def test_no_option_shows_a_secret():
    """URLs, tokens and seeds are looked at, also wrong ones. Pass: the text of none is in a repr."""
    given = ConnectionOptions.model_validate(
        {"servers": ["nats://anna:hush@one:1", "nats://anna:hush@two"]}
    )
    assert "hush" not in repr(given)
    assert login(given) == {"user": "anna", "password": "hush"}
    assert places(given) == ["one:1", "two:4222"]
    with pytest.raises(ValidationError) as error:
        ConnectionOptions.model_validate({"servers": "https://anna:hush@one"})
    assert "hush" not in str(error.value)
