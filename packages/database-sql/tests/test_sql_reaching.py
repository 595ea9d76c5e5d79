"""How the sink `sql` is told where its database is, reaches it, and says why it can't."""

from __future__ import annotations

import os
import socket
import traceback

import pytest
from mainstem import DocumentError, Events, OptionError, PipelineError
from mainstem_database.connecting import make_engine
from mainstem_testkit.server import free_port
from pydantic import ValidationError
from sql_secured import CERTIFIED, ENCODED, PASSWORD, USER
from sql_writing import Place, options_of, slow

DDL = "id BIGINT"
SECRET = "S3CRET"
WRONG = [
    ("http://u:S3CRET@host/db", "expected a URL"),
    ("u:S3CRET@host/db", "expected a URL"),
    ("postgresql+psycopg://u:S3CRET@host/db", "expected a URL"),
    ("", "expected a URL"),
    (7, "expected text"),
    (["postgresql://u:S3CRET@host/db"], "expected text"),
    ("postgresql://u:S3CRET@host", "names no database"),
    ("mysql://u:S3CRET@host/", "names no database"),
    ("postgresql://u:S3CRET@/db", "has no host"),
    ("postgresql://u:S3CRET@host:0/db", "port 0"),
    ("postgresql://u:S3CRET@host:99999/db", "not encoded"),
    ("postgresql://u:S3CRET@host:port/db", "not encoded"),
    ("postgresql://u:S3CRET#x@host/db", "as %23"),
    ("postgresql://u:12#S3CRET@host/db", "write %23"),
    ("postgresql://u:S3CRET/x@host/db", "not encoded"),
    ("postgresql://u:12/S3CRET@host/db", "not encoded"),
    ("postgresql://u:12@S3CRET@host/db", "not encoded"),
    ("postgresql://u:S3CRET?x@host/db", "not encoded"),
    ("postgresql://u:[S3CRET@host/db", "not encoded"),
    ("postgresql://u:S3CRET\n@host/db", "not encoded"),
    ("sqlite://S3CRET.db", "expected sqlite:///FILE"),
    ("sqlite:///", "expected sqlite:///FILE"),
    ("sqlite:///:memory:", "expected sqlite:///FILE"),
    ("sqlite:///S3CRET.db?mode=ro", "nothing after"),
    ("sqlite:///S3CRET#.db", "write %23"),
]


@pytest.mark.parametrize(("url", "words"), WRONG, ids=str)
def test_a_wrong_url_is_refused_and_not_shown(url, words, pipeline):
    """Pass: as a problem of the document at the key `url` that says what is expected."""
    with pytest.raises(ValidationError) as error:
        options_of(url, table="t")
    assert SECRET not in str(error.value) + repr(error.value.errors(include_context=False))
    sink = {"use": "sql", "from": "lines", "with": {"url": url, "table": "t"}}
    pipeline.document(sinks={"out": sink})
    with pytest.raises(DocumentError, match=words) as error:
        pipeline.plan()
    (problem,) = error.value.problems
    assert problem.key == "sinks.out.with.url"
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://u:S3CRET@Host:5/db", "postgresql host:5/db"),
        ("postgres://u:S3CRET@host/db?sslmode=require", "postgresql host/db"),
        ("mariadb://u:S3%40CRET@[::1]:5/db", "mysql ::1:5/db"),
        ("mysql://host/db", "mysql host/db"),
        ("sqlite:////tmp/a b%23%3F.db", "sqlite /tmp/a b#?.db"),
    ],
)
def test_errors_call_a_place_without_user_and_password(url, place):
    """Pass: product, host, port and database; of SQLite the file."""
    assert options_of(url, table="t").place == place
    assert SECRET not in repr(options_of(url, table="t"))


def test_the_plan_shows_no_password(pipeline):
    """Pass: neither as text nor in JSON."""
    from mainstem.plan.rendering import as_json, as_text

    url = f"postgresql://alice:{SECRET}@host/db"
    sink = {"use": "sql", "from": "rows", "with": {"url": url, "table": "t"}}
    pipeline.document(sources={"rows": {"use": "rate"}}, sinks={"out": sink})
    shown = str(as_json(pipeline.plan())) + as_text(pipeline.plan())
    assert "out" in shown
    assert SECRET not in shown


@pytest.mark.in_turn
def test_a_file_is_found_beside_the_document(pipeline, place_in):
    """Pass: a relative path, with characters that URLs have other uses for, is relative to it."""
    url = "sqlite:///a%20b%23%25%3F.db"
    sink = {"use": "sql", "from": "lines", "with": {"url": url, "table": "t"}}
    source = {"use": "files", "with": {"path": "./in", "format": "jsonlines", "schema": DDL}}
    pipeline.document(sources={"lines": source}, sinks={"out": sink})
    pipeline.feed("1.jsonl", [{"id": 1}])
    pipeline.run()
    assert (pipeline.folder / "a b#%?.db").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "sqlite:///x.db", "tls": {}}, "SQLite is a file"),
        ({"tls": {"verify_host": False}}, "needs `ca`"),
        ({"tls": {"key": "x"}}, "without certificate"),
        ({"table": "x\x00"}, "without a NUL"),
        ({"namespace": " x"}, "blanks around"),
        ({"connect_timeout": "0 s"}, "more than 0"),
        ({"statement_timeout": "0 s"}, "more than 0"),
    ],
)
def test_options_that_can_not_be_are_refused(options, words):
    """Pass: an error that says why."""
    with pytest.raises(ValidationError, match=words):
        options_of(**{"url": "postgresql://host/db", "table": "t", **options})


# -- databases that can't be reached ----------------------------------------------------------


def failing(place, url, **options):
    """Prepare a sink, which must fail; return all that a user might see of it."""
    with pytest.raises((PipelineError, OptionError)) as error:
        place.write([], DDL, sink=place.sink(url=url, **options))
    text = "".join(traceback.format_exception(error.value))
    assert PASSWORD not in text
    assert ENCODED not in text
    return error.value


@pytest.mark.in_turn
def test_what_can_not_be_mended_by_waiting_fails_at_once(secured):
    """Pass: a wrong password, user or database: the database's words and the place, and no second try."""
    server = secured.server
    where = "postgresql" if secured.product == "postgres" else "mysql"
    for given, words in (
        ({"user": f"{USER}:{ENCODED}x"}, ("password authentication failed", "Access denied")),
        ({"user": f"nobody:{ENCODED}"}, ("password authentication failed", "Access denied")),
        ({"database": "nowhere"}, ('"nowhere" does not exist', "Unknown database 'nowhere'")),
    ):
        error = failing(secured, server.url_of(**given), give_up="1 hour")
        assert isinstance(error, PipelineError)
        assert str(error).startswith(f"{where} localhost:{server.port}/")
        assert any(word in str(error) for word in words)


@pytest.mark.parametrize("fault", ["port", "host", "silent"])
@pytest.mark.parametrize("product", ["postgres", "mariadb"])
@pytest.mark.in_turn
def test_what_may_come_back_is_tried_for_as_long_as_patience(fault, product, place_in):
    """Pass: a closed port, an unknown host, a port that never answers: the client's words and the place."""
    place = place_in(product)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = {
            "port": ("127.0.0.1", free_port()),
            "host": ("nowhere.invalid", 5),
            "silent": ("127.0.0.1", silent.getsockname()[1]),
        }[fault]
        scheme = place.url.partition(":")[0]
        url = f"{scheme}://{USER}:{ENCODED}@{host}:{port}/db"
        error = failing(place, url, give_up="700 ms", connect_timeout="1 second")
        tried = 0
        silent.setblocking(False)
        while fault == "silent":
            try:
                silent.accept()[0].close()
                tried += 1
            except BlockingIOError:
                break
    product = "postgresql" if product == "postgres" else "mysql"
    assert str(error).startswith(f"{product} {host}:{port}/db: ")
    assert fault != "silent" or tried


@pytest.mark.in_turn
def test_a_server_that_comes_back_is_waited_for(place_in):
    """Pass: a closed port is tried again until the server is there."""
    place = place_in("postgres")
    sink = place.sink(give_up="60 seconds")
    place.server.kill_for(1)
    assert place.write([{"id": 1}], DDL, sink=sink) is None
    place.server.started()
    assert place.ids() == [1]


@pytest.mark.in_turn
def test_parameters_of_the_url_reach_the_driver_or_are_refused(place_in):
    """Pass: one that the driver has is used; one that nobody has is told, or that would undo what the
    sink counts on."""
    place = place_in("postgres")
    place.ask("CREATE SCHEMA apart")
    given = "application_name=me&connect_timeout=3&options=-csearch_path%3Dapart"
    sink = place.sink(url=f"{place.url}?{given}")
    place.write([{"id": 1}], DDL, sink=sink)
    assert place.ask(f"SELECT id FROM apart.{place.quoted}") == [(1,)]
    with sink._writer.engine.connect() as connection:
        shown = [
            connection.exec_driver_sql(f"SHOW {x}").scalar()
            for x in ("application_name", "timezone")
        ]
    assert shown == ["me", "UTC"]
    assert "nonsense" in str(failing(place, f"{place.url}?nonsense=1", give_up="1 hour"))
    place = place_in("mariadb")
    place.write([], DDL, sink=place.sink(url=f"{place.url}?read_timeout=30"))
    error = failing(place, f"{place.url}?nonsense=1&read_timeout=30", give_up="1 hour")
    assert isinstance(error, OptionError)
    assert error.message.endswith("that would change what is written: nonsense")
    error = failing(place, f"{place.url}?autocommit=1&init_command=x", give_up="1 hour")
    assert error.message.endswith("that would change what is written: autocommit, init_command")
    for undone in ("ssl_disabled=false", "ssl_verify_cert=false", "ssl_verify_identity=true"):
        error = failing(place, f"{place.url}?{undone}", give_up="1 hour")
        assert error.message.endswith(undone.partition("=")[0])
        assert "`tls`" in error.hint


@pytest.mark.in_turn
def test_text_goes_into_a_database_of_another_encoding(place_in, spark):
    """Pass: few rows and many, which go by different ways, are what they were; a row that the encoding
    can't hold comes back."""
    server = place_in("postgres").server
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    url = f"{server.url.rpartition('/')[0]}/latin"
    for how, asked in (("transactional", ""), ("staged", ""), ("transactional", "LATIN1")):
        place = Place("postgres", url, spark, server)
        sink = place.sink(url=f"{url}?client_encoding={asked}" if asked else url)
        ddl, number = f"{DDL}, name STRING", 0
        for count in (4, 20):
            rows = [{"id": n, "name": f"é{n}"} for n in range(count)]
            assert place.write(rows, ddl, how, sink=sink, number=number) is None
            held = place.ask("SELECT id, convert_from(convert_to(name, 'UTF8'), 'UTF8') FROM {t}")
            assert sorted(held) == [(n, f"é{n}") for n in range(count)]
            place.ask("DELETE FROM {t}")
            (row,) = place.write(
                [*rows, {"id": -1, "name": "€"}], ddl, how, sink=sink, number=number + 1
            ).collect()
            assert "€" in row["payload"].decode()
            assert sorted(place.rows()) == [(n, f"é{n}") for n in range(count)]
            place.ask("DELETE FROM {t}")
            number += 2
        place.close()


def test_mysql_ends_the_session_of_a_runner_that_has_vanished(place_in):
    """Pass: after minutes, and with it the locks; the server's own limit is eight hours."""
    sink = place_in("mariadb").sink()
    assert sink._writer.options.product == "mysql"
    with sink._writer.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT @@wait_timeout").scalar() == 600


@pytest.mark.parametrize("product", ["postgres", "mariadb"])
def test_a_host_that_has_vanished_is_noticed(product, place_in):
    """Pass: the system asks whether the other end is there after half a minute of silence, not after hours."""
    place = place_in(product)
    engine = make_engine(options_of(place.url, table="t"))
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        opened = (
            driver._sock if product == "mariadb" else socket.socket(fileno=os.dup(driver.fileno()))
        )
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        assert 0 < idle <= 60
    engine.dispose()


def test_a_file_in_no_folder_fails_at_once(place_in):
    """Pass: with the file's name; no folder is made."""
    place = place_in("sqlite")
    url = place.url.replace("0.db", "nowhere/0.db")
    error = failing(place, url, give_up="1 hour")
    assert str(error) == f"sqlite {url[10:]}: unable to open database file"


@pytest.mark.parametrize("secured", ["postgres", slow("mariadb")], indirect=True)
@pytest.mark.in_turn
def test_the_command_shows_no_password(secured, pipeline):
    """Pass: exit code 1 with the database's words, and the password in neither output, also with
    `--debug`."""
    server = secured.server
    given = {"url": server.url_of(user=f"{USER}:{ENCODED}x"), "table": "t", "give_up": "1 hour"}
    source = {"use": "files", "with": {"path": "./in", "format": "jsonlines", "schema": DDL}}
    sink = {"use": "sql", "from": "lines", "with": given}
    pipeline.document(sources={"lines": source}, sinks={"out": sink})
    ended = pipeline.command("--debug")
    assert ended.returncode == 1
    assert "authentication failed" in ended.stderr or "Access denied" in ended.stderr
    for secret in (PASSWORD, ENCODED, "S3CRET"):
        assert secret not in ended.stdout + ended.stderr


# -- TLS --------------------------------------------------------------------------------------


def tls(place, **changes):
    given = {"ca": str(place.server.certificates / "ca.pem"), **changes}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize("how", ["transactional", "staged"])
def test_a_server_whose_certificate_is_right_is_written_to(secured, how):
    """Pass: with its authority's certificate, and a password of characters that URLs have uses for; also
    by a name that is not in the certificate, when that is not asked for."""
    for number, (host, more) in enumerate(
        (("localhost", {}), ("127.0.0.1", {"verify_host": False}))
    ):
        sink = secured.sink(url=secured.server.url_of(host=host), tls=tls(secured, **more))
        assert secured.write([{"id": number}], DDL, how, sink=sink, number=number) is None
    assert secured.ids() == [0, 1]


def test_a_certificate_that_is_not_right_fails_at_once(secured):
    """Pass: of another authority, of none that the system knows, for another name: exit code 1 and words
    that speak of the certificate."""
    other = str(secured.server.certificates / "other.pem")
    for host, given in (
        ("localhost", {"ca": other}),
        ("localhost", {"ca": None}),
        ("localhost", {"ca": other, "verify_host": False}),
        ("127.0.0.1", {}),
    ):
        error = failing(
            secured, secured.server.url_of(host=host), tls=tls(secured, **given), give_up="1 hour"
        )
        assert isinstance(error, PipelineError)
        assert error.exit_code == 1
        assert "certificate" in str(error)


def test_a_client_shows_its_certificate(secured, tmp_path):
    """Pass: a user who is known by it is let in with it, its key beside it or in the same file, and not
    without."""
    made = secured.server.certificates
    url = secured.server.url_of(user=CERTIFIED)
    error = failing(secured, url, tls=tls(secured), give_up="1 hour")
    assert "certificate" in str(error) or "Access denied" in str(error)
    both = tmp_path / "both.pem"
    both.touch(0o600)
    both.write_text((made / "client.pem").read_text() + (made / "client.key").read_text())
    apart = {"certificate": str(made / "client.pem"), "key": str(made / "client.key")}
    for number, own in enumerate((apart, {"certificate": str(both)})):
        sink = secured.sink(url=url, tls=tls(secured, **own))
        secured.write([{"id": number}], DDL, sink=sink, number=number)
    assert secured.ids() == [0, 1]


def test_nothing_in_the_url_undoes_tls(secured):
    """Pass: what PostgreSQL's client would take gives way to `tls`; all of MySQL's are refused."""
    url = secured.server.url_of()
    if secured.product == "postgres":
        secured.write(
            [{"id": 1}], DDL, sink=secured.sink(url=f"{url}?sslmode=disable", tls=tls(secured))
        )
        assert secured.ids() == [1]
        return
    for undone in (
        "ssl_ca=x",
        "ssl_cert=x&ssl_key=x",
        "ssl_disabled=false",
        "ssl_verify_cert=false",
    ):
        error = failing(secured, f"{url}?{undone}", tls=tls(secured), give_up="1 hour")
        assert isinstance(error, OptionError)
        assert error.option == "url"
        assert undone.partition("=")[0] in error.message


def test_files_that_are_not_there_are_told(secured):
    """Pass: before anything is connected to, as the option's fault."""
    for given in ({"ca": "/nowhere/ca.pem"}, {"certificate": "/nowhere/c", "key": "/nowhere/k"}):
        error = failing(secured, secured.server.url_of(), tls=tls(secured, **given))
        assert isinstance(error, OptionError)
        assert (error.option, "/nowhere" in error.message) == ("tls", True)


@pytest.mark.parametrize("product", ["postgres", "mariadb"])
def test_a_server_without_tls_is_not_written_to_when_it_is_demanded(product, place_in, tmp_path):
    """Pass: an error at once, not a connection that is not encrypted."""
    from sql_secured import certificates

    place = place_in(product)
    certificates(tmp_path / "made")
    error = failing(place, place.url, tls={"ca": str(tmp_path / "made/ca.pem")}, give_up="1 hour")
    assert "SSL" in str(error)


@pytest.mark.in_turn
def test_an_encrypted_connection_that_is_cut_is_made_again(secured, tripwire):
    """Pass: the words about its end speak of SSL, and it is no fault of certificates: tried again."""
    proxy = tripwire(secured.server.port)
    sink = secured.sink(url=secured.server.url_of(port=proxy.port), tls=tls(secured))
    rows = [{"id": n} for n in range(20_000)]
    secured.write([], DDL, sink=sink)
    proxy.arm(after=50_000, then=proxy.cut)
    assert secured.write(rows, DDL, sink=sink, number=1) is None
    assert proxy.tripped
    proxy.cut()  # between batches, where the connection waits in the pool
    assert secured.write([{"id": -1}], DDL, sink=sink, number=2) is None
    assert secured.ask("SELECT COUNT(*) FROM {t}")[0][0] == 20_001


# -- time limits ------------------------------------------------------------------------------

SLOW = {
    "postgres": (
        (
            "CREATE FUNCTION {f}() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$"
        ),
        "CREATE TRIGGER slow BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {f}()",
    ),
    "mariadb": ("CREATE TRIGGER {f} BEFORE INSERT ON {t} FOR EACH ROW SET @x = SLEEP(60)",),
}


@pytest.mark.parametrize("product", ["postgres", "mariadb"])
def test_a_statement_that_takes_too_long_is_ended(product, place_in):
    """Pass: by the server, with its words; nothing is written."""
    place = place_in(product)
    sink = place.sink(statement_timeout="500 ms", give_up="1 second")
    place.write([], DDL, sink=sink)
    for statement in SLOW[product]:
        place.ask(statement.replace("{f}", f"slow_{place.name[5:]}"))
    with pytest.raises(PipelineError, match="statement timeout|max_statement_time"):
        place.write([{"id": 1}], DDL, sink=sink, number=1)
    assert place.ids() == []
    assert not sink.committed(place.batch(Events(DDL), 1))


@pytest.mark.in_turn
def test_a_statement_may_take_longer_than_connecting(place_in):
    """Pass: the time for connecting, which PyMySQL has to be told otherwise, ends no statement."""
    place = place_in("mariadb")
    sink = place.sink(connect_timeout="1 second", give_up="1 second")
    place.write([], DDL, sink=sink)
    for statement in SLOW["mariadb"]:
        place.ask(statement.replace("60", "2.5").replace("{f}", f"slow_{place.name[5:]}"))
    assert place.write([{"id": 1}], DDL, sink=sink, number=1) is None
    assert place.ids() == [1]
