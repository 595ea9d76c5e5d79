"""A real registry: schemas by number, registered ones, those that do not fit; one that is away; secrets."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest
from mainstem import ExternalError, PermanentError, TransientError
from mainstem_registry import FRAMINGS, RegistryOptions, Schemas, UnknownSchema
from mainstem_registry.client import MOST, Client, Schema
from mainstem_testkit.certificates import make_certificates, server_context
from mainstem_testkit.proxy import FaultProxy

SECRET = "s3cret-Pass"


def avro(*fields, name="Order"):
    held = {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}
    return json.dumps(held)


def options(url, seconds=5.0, **more):
    return RegistryOptions(url=url, give_up=timedelta(seconds=seconds), **more)


@pytest.fixture
def subject(apicurio, request):
    """A subject that no other test has."""
    return f"{request.node.name}-{time.time_ns()}-value"


class Served(ThreadingHTTPServer):
    """A server that ends with its `with`: one that is only closed asks for requests for ever, at full speed."""

    def __exit__(self, *_):
        self.shutdown()
        super().__exit__()


def served(status, body, seen=None, headers=(), drip=0.0):
    """Return a server of HTTP that answers the same to everything, and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if seen is not None:
                seen.append((self.path, dict(self.headers)))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            for part in [body[n : n + 1] for n in range(len(body))] if drip else [body]:
                time.sleep(drip)
                with suppress(OSError):
                    self.wfile.write(part)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = Served(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server, f"127.0.0.1:{server.server_port}"


# -- heads --------------------------------------------------------------------------------------


def test_heads_name_schemas():
    """Pass: four bytes or eight behind a zero; what is none has no number."""
    confluent, apicurio = FRAMINGS["confluent"], FRAMINGS["apicurio"]
    assert confluent.head(258) == b"\0\0\0\1\2"
    assert apicurio.head(258) == b"\0\0\0\0\0\0\0\1\2"
    assert confluent.number(b"\0\0\0\1\2") == apicurio.number(b"\0\0\0\0\0\0\0\1\2") == 258
    assert [confluent.number(each) for each in (b"", b"\0\0\0\1", b"\1\0\0\1\2")] == [None] * 3
    # No registry has such numbers, and what they answer to one may end the run.
    assert [confluent.number(b"\0\x80\0\0\0"), apicurio.number(b"\0" + b"\xff" * 8)] == [None] * 2


# -- a real registry ----------------------------------------------------------------------------


def test_schemas_are_found_by_their_numbers(apicurio, subject):
    """Pass: by both of its APIs; one that is not there is told, and not asked for at once again."""
    text = avro(("id", "long"), (f"a{time.time_ns()}", "int"))
    number = apicurio.register(subject, text)
    schemas = Schemas(options(apicurio.url), "confluent")
    assert schemas.schema(schemas.framing.head(number)) == Schema(text, "AVRO")
    own = apicurio.ask(f"subjects/{subject}/versions/latest")
    assert own["id"] == number
    with Client(options(apicurio.own_url)) as client:
        its = apicurio.own(f"groups/default/artifacts/{subject}/versions/1")["globalId"]
        assert client.schema(its, "globalIds") == Schema(text, "")
    for _ in range(2):
        with pytest.raises(UnknownSchema, match="the registry has no schema 987654"):
            schemas.schema(schemas.framing.head(987_654))
    with pytest.raises(UnknownSchema, match="it names no schema"):
        schemas.schema(b"\1\0\0\0\0")


def test_a_schema_is_registered_once(apicurio, subject):
    """Pass: the same number again, also where it is only looked for; what is not there is told."""
    schemas = Schemas(options(apicurio.url), "confluent")
    schema = Schema(avro(("id", "long")), "AVRO")
    with pytest.raises(PermanentError, match=f"has not this schema under {subject}"):
        schemas.head(subject, schema, register=False)
    head = schemas.head(subject, schema, register=True)
    assert schemas.head(subject, schema, register=True) == head
    assert schemas.head(subject, schema, register=False) == head
    assert apicurio.ask(f"subjects/{subject}/versions") == [1]


def test_a_schema_that_does_not_fit_is_told_with_both(apicurio, subject):
    """Pass: the registry's reason, the new one and the latest."""
    old, new = avro(("id", "long")), avro(("id", "string"))
    apicurio.register(subject, old)
    apicurio.ask(f"config/{subject}", {"compatibility": "BACKWARD"}, "PUT")
    with pytest.raises(PermanentError) as told:
        Schemas(options(apicurio.url), "confluent").head(
            subject, Schema(new, "AVRO"), register=True
        )
    for part in (subject, new, old, "not compatible"):
        assert part in str(told.value)


def test_a_schema_that_is_none_is_told(apicurio, subject):
    """Pass: the registry's words."""
    with pytest.raises(PermanentError, match="422"):
        Schemas(options(apicurio.url), "confluent").head(
            subject, Schema("{", "AVRO"), register=True
        )


ADDRESS = avro(("city", "string"), name="Address")
REFERRING = avro(("id", "long"), ("to", ["null", "Address"]))


def referring(apicurio, subject):
    """Register two schemas, one of which refers to the other; return its number."""
    apicurio.register(f"{subject}-address", ADDRESS)
    reference = {"name": "Address", "subject": f"{subject}-address", "version": 1}
    body = {"schema": REFERRING, "schemaType": "AVRO", "references": [reference]}
    return apicurio.ask(f"subjects/{subject}/versions", body)["id"]


def test_what_a_schema_refers_to_is_had_with_it(apicurio, subject):
    """Pass: by the numbers of all three kinds."""
    number = referring(apicurio, subject)
    schemas = Schemas(options(apicurio.url), "confluent")
    schema, others = schemas.with_references(schemas.framing.head(number))
    assert (schema.text, others) == (REFERRING, [ADDRESS])
    own = apicurio.own(f"groups/default/artifacts/{subject}/versions/1")
    schemas = Schemas(options(apicurio.own_url), "apicurio_headers")
    for mark, key in ((b"\0", "globalId"), (b"\1", "contentId")):
        schema, others = schemas.with_references(mark + own[key].to_bytes(8, "big"))
        assert json.loads(schema.text) == json.loads(REFERRING)
        assert list(map(json.loads, others)) == [json.loads(ADDRESS)]


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ({"name": "B", "subject": "b", "version": 7}, "it refers to B, which is not there"),
        ({"name": "B", "subject": "deeper", "version": 0}, "it refers to more than 200 others"),
        ({"name": "B", "subject": "again", "version": 1}, "it refers to B in two versions"),
        ({"name": "B"}, "what it refers to is not told"),
        ("B", "what it refers to is not told"),
    ],
)
def test_what_can_t_be_referred_to_is_told(to, told):
    """Pass: the value's schema is unknown then, and so it stays for a while."""
    seen = []

    def answer(path):
        seen.append(path)
        if path.startswith("/schemas/ids/5"):
            return {"schema": '"A"', "references": [to]}
        if "deeper" in path:
            version = int(path.rpartition("/")[2]) + 1
            its = {"name": f"B{version}", "subject": "deeper", "version": version}
            return {"schema": '"B"', "references": [its]}
        if "again" in path:
            its = {"name": "B", "subject": "again", "version": 2}
            return {"schema": '"B"', "references": [its]}
        return {"error_code": 40402}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = answer(self.path)
            self.send_response(404 if "error_code" in found else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_):
            pass

    with Served(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        schemas = Schemas(options(f"http://127.0.0.1:{server.server_port}"), "confluent")
        for _ in range(2):
            with pytest.raises(UnknownSchema, match=f"schema 5: {told}"):
                schemas.with_references(schemas.framing.head(5))
        assert len(seen) == len(set(seen))


def test_what_is_not_there_is_so_by_its_kind(apicurio, subject):
    """Pass: a global id that is not there refuses no content id; what is not UTF-8 is no schema."""
    apicurio.register(subject, avro(("id", "long"), (f"a{time.time_ns()}", "int")))
    own = apicurio.own(f"groups/default/artifacts/{subject}/versions/1")
    schemas = Schemas(options(apicurio.own_url), "apicurio_headers")
    number = own["contentId"].to_bytes(8, "big")
    schemas._refused[b"\0" + number] = (time.monotonic() + 60, "it is not there")
    with pytest.raises(UnknownSchema, match="it is not there"):
        schemas.schema(b"\0" + number)
    assert json.loads(schemas.schema(b"\1" + number).text)["name"] == "Order"
    server, place = served(200, b"\xff\xfe")
    with server:
        schemas = Schemas(options(f"http://{place}"), "apicurio")
        with pytest.raises(UnknownSchema, match="it is not UTF-8"):
            schemas.schema(schemas.framing.head(5))


def test_numbers_in_headers_come_before_values():
    """Pass: global ids and content ids apart; what has none is no head."""
    framing = FRAMINGS["apicurio_headers"]
    assert framing.headers("key") == ("apicurio.key.globalId", "apicurio.key.contentId")
    number = (258).to_bytes(8, "big")
    values = pa.array([b"a", b"b", b"c", None, b"e"], pa.binary())
    found = framing.framed(
        values,
        pa.array([number, None, None, number, b"1"], pa.binary()),
        pa.array([None, number, None, None, None], pa.binary()),
    ).to_pylist()
    assert [None if each is None else each[9:] for each in found] == [b"a", b"b", b"c", None, b"e"]
    assert [framing.number(each) for each in found if each is not None] == [258, 258, None, None]
    assert [framing.ids(each) for each in found[:2]] == ["globalIds", "contentIds"]
    assert FRAMINGS["confluent"].framed(values) is values


# -- one that is away ---------------------------------------------------------------------------


def test_a_registry_that_is_away_is_waited_for(apicurio, subject):
    """Pass: it is asked again until it answers; after `give_up` the error says that it may come back."""
    number = apicurio.register(subject, avro(("id", "long")))
    with FaultProxy(apicurio.port) as proxy:
        url = apicurio.url.replace(str(apicurio.port), str(proxy.port))
        schemas = Schemas(options(url, 20), "confluent")
        proxy.refuse()
        threading.Timer(1.5, lambda: proxy.refuse(False)).start()
        assert schemas.schema(schemas.framing.head(number)).kind == "AVRO"
        proxy.refuse()
        proxy.cut()
        with pytest.raises(TransientError, match=f"registry 127.0.0.1:{proxy.port}: "):
            Schemas(options(url, 0.5), "confluent").schema(schemas.framing.head(number))


@pytest.mark.parametrize(
    ("status", "kind"), [(503, TransientError), (429, TransientError), (401, PermanentError), (302, PermanentError)]
)  # fmt: skip
def test_answers_that_are_none_are_told(status, kind):
    """Pass: what is busy may be asked again, what refuses may not; with its words."""
    server, place = served(
        status, b'{"message": "not today"}', headers=[("Location", "http://else.where/")]
    )
    with server, pytest.raises(kind, match=f"{status} not today"):
        Schemas(options(f"http://{place}", 0.3), "confluent").schema(b"\0\0\0\0\1")


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"[" * 100_000])
def test_a_server_that_is_no_registry_is_told(body):
    """Pass: whatever it answers, also when it refuses."""
    for status in (200, 500):
        server, place = served(status, body)
        with server, pytest.raises(ExternalError, match=f"registry {place}: "):
            Schemas(options(f"http://{place}", 0.3), "confluent").schema(b"\0\0\0\0\1")


@pytest.mark.parametrize("body", [b"[]", b'{"schema": 5}', b"x" * (MOST + 1)])
def test_a_schema_that_is_none_refuses_its_values(body):
    """Pass: these alone, and a huge answer is not read to its end."""
    server, place = served(200, body)
    with server, pytest.raises(UnknownSchema, match="schema 1: "):
        Schemas(options(f"http://{place}", 0.3), "confluent").schema(b"\0\0\0\0\1")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error_code": 40403}', UnknownSchema),
        (b'{"name": "ArtifactNotFoundException"}', UnknownSchema),
        (b'{"error_code": 404, "message": "HTTP 404 Not Found"}', PermanentError),
        (b"<html>default backend", TransientError),
        (b"", TransientError),
    ],
)
def test_what_is_not_there_is_the_schema_or_the_registry(body, kind):
    """Pass: rows are refused for the registry's own word alone, not for a wrong path or a proxy's page."""
    server, place = served(404, body)
    with server, pytest.raises(kind):
        Schemas(options(f"http://{place}", 0.3), "confluent").schema(b"\0\0\0\0\1")


def test_an_answer_that_drips_is_given_up(monkeypatch):
    """Pass: after a time for all of it."""
    monkeypatch.setattr("mainstem_registry.client._LONGEST", 0.2)
    server, place = served(200, b"x" * 100, drip=0.05)
    with server, pytest.raises(TransientError, match="takes too long"):
        Schemas(options(f"http://{place}", 0.3), "confluent").schema(b"\0\0\0\0\1")


@pytest.mark.parametrize("number", [-1, 2**31, True, "1", None])
def test_a_number_that_is_none_is_told(number):
    """Pass: of a schema that is registered."""
    server, place = served(200, json.dumps({"id": number}).encode())
    with server, pytest.raises(PermanentError, match="its answer has no id"):
        Schemas(options(f"http://{place}"), "confluent").head(
            "a", Schema("{}", "AVRO"), register=True
        )


def test_a_certificate_of_somebody_else_is_told(tmp_path):
    """Pass: at once, and not waited for; with the authority the registry is asked."""
    make_certificates(tmp_path, {"server": "DNS:localhost"})
    with FaultProxy(1, tls=server_context(tmp_path, "server")) as proxy:
        url = f"https://localhost:{proxy.port}"
        with pytest.raises(PermanentError, match="certificate is not good"):
            Schemas(options(url, 60), "confluent").schema(b"\0\0\0\0\1")
        good = options(url, 0.3, tls={"ca": str(tmp_path / "ca.pem")})
        with pytest.raises(TransientError):  # what is behind it is not there
            Schemas(good, "confluent").schema(b"\0\0\0\0\1")
    gone = options("https://localhost:1", 0.3, tls={"ca": str(tmp_path / "gone.pem")})
    with pytest.raises(PermanentError, match="can't read a file of `tls`"):
        Schemas(gone, "confluent").schema(b"\0\0\0\0\1")


# -- who asks -----------------------------------------------------------------------------------


def test_users_and_tokens_are_sent():
    """Pass: those of the address, and a token; none is in an error."""
    seen = []
    server, place = served(403, b"no", seen)
    with server:
        for given in (
            {"url": f"http://me:{SECRET}@{place}/api"},
            {"url": f"http://{place}/api", "token": SECRET},
        ):
            with pytest.raises(PermanentError, match="403 no") as told:
                Schemas(options(**given), "confluent").schema(b"\0\0\0\0\1")
            assert SECRET not in str(told.value)
    assert [path for path, _ in seen] == ["/api/schemas/ids/1"] * 2
    basic = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert [headers["Authorization"] for _, headers in seen] == [
        f"Basic {basic}",
        f"Bearer {SECRET}",
    ]


@pytest.mark.parametrize("token", ["", " ", "s3cret-ü", "a b", "a\0b"])
def test_tokens_that_none_can_be_are_told(token):
    """Pass: before anything is sent, and not shown; a line's end of a file is none of it."""
    with pytest.raises(ValueError, match="letters, digits and signs") as told:
        RegistryOptions(url="http://a", token=token)
    assert "s3cret" not in str(told.value)
    assert RegistryOptions(url="http://a", token="abc\n").token.get_secret_value() == "abc"
    with pytest.raises(ValueError, match="or a user in the `url`"):
        RegistryOptions(url="http://me:pass@a", token="abc")


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a?b=c", "a"])
def test_addresses_that_are_none_are_told(url):
    """Pass: before anything is asked."""
    with pytest.raises(ValueError, match="url"):
        RegistryOptions(url=url)


def test_an_address_that_nobody_has_names_no_password():
    """Pass: what the library says is not told, for it may have the address."""
    with pytest.raises(TransientError) as told:
        Schemas(options(f"http://me:{SECRET}@127.0.0.1:1", 0.2), "confluent").schema(b"\0\0\0\0\1")
    assert str(told.value) == "registry 127.0.0.1:1: ConnectError: Connection refused"


# -- the command --------------------------------------------------------------------------------


def command(*told, **env):
    """Return what the command ended with, and what it said."""
    run = [sys.executable, "-m", "mainstem", "schemas", *told]
    done = subprocess.run(
        run, capture_output=True, text=True, env={**os.environ, **env}, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_schema_is_pulled_into_a_file(apicurio, subject, tmp_path):
    """Pass: the latest; the same again changes nothing; `--check` fails when there is another."""
    file = tmp_path / "order.avsc"
    text = avro(("id", "long")).replace(", ", ",\r\n")
    apicurio.register(subject, text)
    told = ("pull", subject, str(file))
    assert command(*told, MAINSTEM_REGISTRY=apicurio.url)[0] == 0
    assert file.read_bytes().decode() == text + "\n"
    code, said = command(*told, "--check", MAINSTEM_REGISTRY=apicurio.url)
    assert (code, said) == (0, f"{file}: as the registry has it\n")
    apicurio.register(subject, avro(("id", "long"), ("more", "int")))
    code, said = command(*told, "--check", MAINSTEM_REGISTRY=apicurio.url)
    assert code != 0
    assert "is not the latest schema" in said
    assert file.read_bytes().decode() == text + "\n"
    code, said = command("subjects", MAINSTEM_REGISTRY=apicurio.url)
    assert code == 0
    assert subject in said.splitlines()


def test_what_a_schema_refers_to_is_pulled_with_it(apicurio, subject, tmp_path):
    """Pass: a file each, of Avro by the type's name; `--check` looks at all; no name leads elsewhere."""
    referring(apicurio, subject)
    file = tmp_path / "order.avsc"
    told = ("pull", subject, str(file), "--registry", apicurio.url)
    code, said = command(*told)
    assert code == 0, said
    assert json.loads((tmp_path / "Address.avsc").read_text()) == json.loads(ADDRESS)
    assert command(*told, "--check")[0] == 0
    (tmp_path / "Address.avsc").write_text("{}")
    code, said = command(*told, "--check")
    assert code != 0
    assert "Address.avsc is not the latest" in said
    code, said = command(
        "pull", subject, str(tmp_path / "Address.avsc"), "--registry", apicurio.url
    )
    assert code != 0
    assert "write it into another file" in said
    apicurio.register(
        f"{subject}-base", 'syntax = "proto3"; message B { int32 a = 1; }', "PROTOBUF"
    )
    body = {
        "schema": 'syntax = "proto3"; import "../b.proto"; message A { B b = 1; }',
        "schemaType": "PROTOBUF",
        "references": [{"name": "../b.proto", "subject": f"{subject}-base", "version": 1}],
    }
    apicurio.ask(f"subjects/{subject}-up/versions", body)
    code, said = command(
        "pull", f"{subject}-up", str(tmp_path / "in" / "a.proto"), "--registry", apicurio.url
    )
    assert code != 0
    assert "which is no file's name" in said
    assert not (tmp_path / "b.proto").exists()


def test_a_subject_that_is_not_there_is_told(apicurio, subject, tmp_path):
    """Pass: with the nearest; an address that is none; and no file is made."""
    apicurio.register(subject, avro(("id", "long")))
    file = tmp_path / "order.avsc"
    code, said = command("pull", subject + "x", str(file), "--registry", apicurio.url)
    assert code != 0
    assert f"the nearest is {subject}" in said
    code, said = command("pull", subject, str(file), "--registry", f"ftp://me:{SECRET}@host")
    assert code != 0
    assert "--registry" in said
    assert SECRET not in said
    assert not file.exists()
    code, said = command("pull", subject, str(tmp_path / "no" / "file"), "--registry", apicurio.url)
    assert code != 0
    assert "No such file" in said
    assert "Traceback" not in said
