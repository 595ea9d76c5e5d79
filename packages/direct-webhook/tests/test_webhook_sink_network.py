"""How the sink connects: TLS by name, HTTP/2 where offered, redirects, and no private addresses."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from ipaddress import ip_address

import h2.config
import h2.connection
import h2.events
import httpcore
import pytest
from mainstem import PermanentError, TransientError
from mainstem_direct_webhook.client.addresses import AddressRefusedError, refusal, resolve
from mainstem_direct_webhook.client.connection import Client
from mainstem_direct_webhook.sink import worker as lane_module
from mainstem_direct_webhook.sink.options import WebhookSinkOptions
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.plugin import serve
from test_webhook_sink_sending import run
from webhook_far import FarEndpoint


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    yield from serve(FarEndpoint, request, tmp_path_factory)


@pytest.fixture
def far(server):
    return server.place()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let no try wait."""
    monkeypatch.setattr(lane_module, "pause", lambda tries, asked, longest: 0.0)


# -- addresses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.0.9", "169.254.169.254",
        "172.16.0.1", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "224.0.0.1",
        "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
        "192.0.0.170", "192.0.0.192", "192.88.99.1", "168.63.129.16", "100.100.100.200",
        "198.51.100.1", "203.0.113.1", "3fff::1", "3fff:fff::1", "5f00::1", "fd00:ec2::254", "4000::1",
        "2002:a83f:8110::1", "::ffff:168.63.129.16", "2001:1::1", "100:0:0:1::1", "64:ff9b::c058:6301",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1",
        "2001::1", "2001:db8::1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1", "100::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(address):
    """Pass: a reason, also for IPv6 addresses that stand for an IPv4 one."""
    assert refusal(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "192.0.1.1",
        "168.63.129.17",
        "100.128.0.1",
        "2a00:1450::1",
        "2001:200::1",
    ],
)
def test_public_addresses_are_not_refused(address):
    """Pass: no reason."""
    assert refusal(ip_address(address)) is None


def looked_up(monkeypatch, *answers):
    """Let each look-up of a name give the next addresses; return the list of names looked up."""
    names = []

    def getaddrinfo(host, port, *args, **named):
        names.append(host)
        given = answers[min(len(names), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in given]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


def test_only_public_addresses_of_a_name_are_taken(monkeypatch):
    """Pass: the others are left out; a name that has no public one is refused with all of them named."""
    looked_up(monkeypatch, ["10.0.0.1", "8.8.8.8", "127.0.0.1"], ["10.0.0.1", "127.0.0.1"])
    assert resolve("a.test", 443, allow_private=False) == ["8.8.8.8"]
    with pytest.raises(AddressRefusedError, match="10.0.0.1 is a private.*127.0.0.1 is a loopback"):
        resolve("a.test", 443, allow_private=False)


def test_a_name_that_changes_its_address_gets_nothing(monkeypatch):
    """Pass: the address that was looked at is connected to, not the name; each look-up is looked at, so
    that a name which stands for this machine the next time is refused then."""
    names = looked_up(monkeypatch, ["8.8.8.8"], ["127.0.0.1"])
    connected = []

    def connect_tcp(self, host, *args, **named):
        connected.append(host)
        raise httpcore.ConnectError("not here")

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect_tcp)
    client = Client(WebhookSinkOptions.model_validate({"url": "http://rebinding.test/"}))
    with pytest.raises(TransientError):
        client.send([], b"", float("inf"))
    with pytest.raises(PermanentError, match=r"127\.0\.0\.1 is a loopback address"):
        client.send([], b"", float("inf"))
    assert connected == ["8.8.8.8"]
    assert names == ["rebinding.test"] * 2


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
def test_no_writing_of_this_machines_address_gets_through(far, host):
    """Pass: names and odd writings of 127.0.0.1 are refused when they are connected to."""
    url = far.url.replace("127.0.0.1", host)
    with pytest.raises(PermanentError, match="allow_private|Invalid IPv4 address"):
        run(far, [b"x"], url=url, allow_private=False)
    assert far.came() == []
    assert run(far, [b"x"], url=far.url) == {}


# -- redirects ------------------------------------------------------------------------------


def test_redirects_are_not_followed_unless_told(far):
    """Pass: no request reaches the place that the answer names; the error does not name its path."""
    far.tell(status=307, headers={"location": f"/{far.name}/moved"})
    with pytest.raises(PermanentError, match="answers 307, a redirect to http://127.0.0.1"):
        run(far, [b"x"])
    assert {came["path"] for came in far.came()} == {f"/{far.name}/hook"}


@pytest.mark.parametrize("status", [307, 308])
def test_redirects_on_the_same_host_are_followed_when_told(far, status):
    """Pass: method, body and headers go to the other path."""
    far.tell({"status": status, "headers": {"location": "moved?a=b"}})
    assert run(far, [b"x"], redirects="same_host", auth={"bearer": "t"}, method="PUT") == {}
    first, second = far.came()
    assert (second["path"], second["query"]) == (f"/{far.name}/moved", "a=b")
    assert (second["method"], second["body"]) == ("PUT", b"x")
    drop = ("host",)
    assert {k: v for k, v in first["headers"].items() if k not in drop} == {
        k: v for k, v in second["headers"].items() if k not in drop
    }


def test_a_redirect_is_relative_to_where_it_was_given(far):
    """Pass: the second of two redirects names its place from that of the first."""
    deeper = f"/{far.name}/v2/hooks/"
    far.tell(*({"status": 307, "headers": {"location": text}} for text in (deeper, "in?a=b")))
    assert run(far, [b"x"], redirects="same_host") == {}
    paths = [(came["path"], came["query"]) for came in far.came()]
    assert paths == [(f"/{far.name}/hook", ""), (deeper, ""), (f"{deeper}in", "a=b")]


@pytest.mark.parametrize(
    "location",
    [
        "http://localhost:{port}/{name}/moved",
        "http://127.0.0.1:1/",
        "https://127.0.0.1:{port}/",
        "//elsewhere.test/",
        "gopher://127.0.0.1:{port}/",
        "http://[",
        "http://[::1",
        "//:99999/",
        "http://a:b:c/",
        "\u00ff\u00fe",
        "/{name}/a b",
    ],
)
def test_redirects_to_elsewhere_are_never_followed(far, location):
    """Pass: another host, port or scheme, or nonsense, is the batch's failure, and gets nothing."""
    text = location.format(port=far.server.port, name=far.name)
    far.tell(status=307, headers={"location": text})
    with pytest.raises(PermanentError, match="answers 307"):
        run(far, [b"x"], redirects="same_host")
    assert {came["path"] for came in far.came()} == {f"/{far.name}/hook"}


def test_redirects_in_a_circle_end(far):
    """Pass: a redirect to itself fails the batch after some rounds."""
    far.tell(status=308, headers={"location": "hook"})
    with pytest.raises(PermanentError, match="answers 308"):
        run(far, [b"x"], redirects="same_host")
    assert len(far.came()) == 3 * 5


@pytest.mark.parametrize("status", [301, 302, 303])
def test_redirects_that_would_change_the_method_are_not_followed(far, status):
    """Pass: the batch fails; a POST never becomes a GET."""
    far.tell(status=status, headers={"location": "moved"})
    with pytest.raises(PermanentError, match=f"answers {status}"):
        run(far, [b"x"], redirects="same_host")


# -- TLS and HTTP/2 -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Make a CA, a server's certificate for `localhost` alone, and a client's."""
    made = tmp_path_factory.mktemp("certificates")

    make_certificates(made, {"server": "DNS:localhost", "client": "DNS:localhost"})
    return made


class Secured:
    """An endpoint with TLS that asks for a client's certificate; speaks HTTP/2 if it may."""

    def __init__(self, made, *, http2, each=None):
        self._each = each  # requests of a connection of HTTP/2, if not any number
        self.requests = []
        self.names = []
        self.connections = 0
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made / "ca.pem")
        context.load_cert_chain(made / "server.pem", made / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
        context.sni_callback = lambda _, name, __: self.names.append(name)
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with suppress(OSError), self._context.wrap_socket(connection, server_side=True) as stream:
            if stream.selected_alpn_protocol() == "h2":
                self._http2(stream)
            else:
                self._http1(stream)

    def _http1(self, stream):
        while head := stream.recv(65536):
            lines = head.decode("latin-1").partition("\r\n\r\n")
            while len(lines[2]) < 1:
                lines = (*lines[:2], stream.recv(65536).decode("latin-1"))
            self.requests.append(("HTTP/1.1", lines[2].encode()))
            stream.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")

    def _http2(self, stream):
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        stream.sendall(state.data_to_send())
        bodies = {}
        before = len(self.requests)
        while data := stream.recv(65536):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    bodies[event.stream_id] = b""
                elif isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                    state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.requests.append(("HTTP/2", bodies.pop(event.stream_id)))
                    state.send_headers(event.stream_id, [(":status", "202")], end_stream=True)
                    if self._each and len(self.requests) - before == self._each:
                        state.close_connection()
            stream.sendall(state.data_to_send())

    def url(self, host="localhost"):
        return f"https://{host}:{self.port}/hook"

    def close(self):
        self._listener.close()


@pytest.fixture
def secured(certificates):
    made = []

    def make(**how):
        made.append(Secured(certificates, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()


def tls(made, **changes):
    right = {"ca": "ca.pem", "certificate": "client.pem", "key": "client.key", **changes}
    return {name: str(made / file) for name, file in right.items() if file}


@pytest.mark.parametrize(
    ("http2", "offered", "spoken"),
    [(True, True, "HTTP/2"), (True, False, "HTTP/1.1"), (False, True, "HTTP/1.1")],
)
def test_http2_is_spoken_where_it_is_offered(secured, certificates, http2, offered, spoken):
    """Pass: 30 requests by the protocol that both sides want, on two connections, over TLS with a
    client's certificate; the name of the URL is asked for, though an address was connected to."""
    endpoint = secured(http2=offered)
    values = [b"%02d" % n for n in range(30)]
    given = {"tls": tls(certificates), "http2": http2, "requests": 2}
    assert run(None, values, url=endpoint.url(), **given) == {}
    assert sorted(endpoint.requests) == [(spoken, value) for value in values]
    assert set(endpoint.names) == {"localhost"}
    assert endpoint.connections <= 2


def test_a_connection_of_http2_that_is_closed_is_made_anew(secured, certificates):
    """Pass: the endpoint says GOAWAY after every third request: 30 come, on ten connections or more."""
    endpoint = secured(http2=True, each=3)
    values = [b"%02d" % n for n in range(30)]
    assert run(None, values, url=endpoint.url(), tls=tls(certificates), requests=1) == {}
    assert {value for _, value in endpoint.requests} == {*values}
    assert endpoint.connections >= 10


def test_a_certificate_of_another_name_is_refused(secured, certificates):
    """Pass: the address is right and the name is not in the certificate: the batch fails at once."""
    endpoint = secured(http2=True)
    with pytest.raises(PermanentError, match="certificate is not trusted: .*127.0.0.1"):
        run(None, [b"x"], url=endpoint.url("127.0.0.1"), tls=tls(certificates))
    assert endpoint.requests == []
    assert endpoint.connections == 1


def test_a_certificate_of_another_ca_is_refused(secured, certificates):
    """Pass: neither another CA nor the system's own lets the endpoint pass."""
    endpoint = secured(http2=True)
    for given in (tls(certificates, ca="other.pem"), tls(certificates, ca=None)):
        with pytest.raises(PermanentError, match="certificate is not trusted"):
            run(None, [b"x"], url=endpoint.url(), tls=given)
    assert endpoint.requests == []


def test_without_the_clients_certificate_nothing_is_taken(secured, certificates):
    """Pass: an endpoint that asks for a certificate gets no request without one."""
    endpoint = secured(http2=False)
    given = tls(certificates, certificate=None, key=None)
    with pytest.raises(PermanentError, match="give_up"):
        run(None, [b"x"], url=endpoint.url(), tls=given, give_up="500 ms")
    assert endpoint.requests == []


def test_files_that_hold_no_certificate_are_named(certificates):
    """Pass: the option and the file, before anything is sent."""
    (certificates / "empty").touch()
    url = "https://localhost/"
    for changes, words in (
        ({"ca": "nowhere.pem"}, "tls.ca: .*nowhere.pem"),
        ({"key": "empty"}, "tls.certificate: .*client.pem and .*empty"),
    ):
        with pytest.raises(PermanentError, match=words):
            run(None, [b"x"], url=url, tls=tls(certificates, **changes))
