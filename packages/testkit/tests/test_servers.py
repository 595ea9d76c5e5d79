"""Real servers: they start, answer, and can be broken; a missing one is told."""

from __future__ import annotations

import json

import pytest
from mainstem_testkit.servers.kafka import Kafka
from mainstem_testkit.servers.mariadb import MariaDB
from mainstem_testkit.servers.postgres import Postgres
from mainstem_testkit.servers.rabbitmq import RabbitMQ
from mainstem_testkit.servers.server import (
    Server,
    ServerFailed,
    ServerMissing,
    free_port,
    living,
)


def test_postgres_keeps_its_data_over_a_kill_and_a_restart(postgres):
    """Pass: it decodes its log, and a committed row is there after both."""
    postgres.sql("CREATE TABLE numbers AS SELECT 7 AS n")
    assert postgres.sql("SHOW wal_level") == "logical"
    postgres.kill()
    assert not postgres.running
    with pytest.raises(OSError):  # noqa: PT011
        postgres.answers()
    postgres.start()
    postgres.restart()
    assert postgres.sql("SELECT n FROM numbers") == "7"


def test_mariadb_keeps_what_was_committed_over_a_kill_and_a_restart(mariadb):
    """Pass: a row committed just before the kill is there after both, and so is its place in the log."""
    mariadb.sql("CREATE TABLE kept (n INT)")
    mariadb.sql("INSERT INTO kept VALUES (7)")
    place = mariadb.sql("SELECT @@gtid_binlog_pos")
    mariadb.kill()
    assert not mariadb.running
    with pytest.raises(OSError):  # noqa: PT011
        mariadb.answers()
    mariadb.start()
    mariadb.restart()
    assert mariadb.sql("SELECT n, @@gtid_binlog_pos FROM kept") == f"7\t{place}"


def test_mariadb_logs_whole_rows(mariadb):
    """Pass: a change is in the log as rows, all columns of them, with the columns' names."""
    settings = "@@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata"
    assert mariadb.sql(f"SELECT {settings}") == "1\tROW\tFULL\tFULL"
    mariadb.sql(
        "CREATE TABLE logged (n INT); INSERT INTO logged VALUES (1); UPDATE logged SET n = 2"
    )
    log = mariadb.sql("SHOW MASTER STATUS").split("\t")[0]
    events = mariadb.sql(f"SHOW BINLOG EVENTS IN '{log}'").splitlines()
    kinds = [event.split("\t")[2] for event in events]
    assert {"Gtid", "Write_rows_v1", "Update_rows_v1"} <= set(kinds)


def test_mariadb_tells_rows_by_line_and_columns_by_tab(mariadb):
    """Pass: tabs, line breaks, nulls and empty texts within rows can be told from what is between."""
    told = mariadb.sql(
        "SELECT 1, 'a\\tb\\nc' UNION ALL SELECT NULL, 'Zoë 🚀' UNION ALL SELECT 3, ''"
    )
    assert told.split("\n") == ["1\ta\\tb\\nc", "NULL\tZoë 🚀", "3\t"]


def test_mariadb_starts_in_a_folder_of_any_depth(tmp_path):
    """Pass: it starts in a folder whose path is longer than that of a socket can be."""
    with MariaDB(tmp_path / ("deep" * 30)) as server:
        assert server.sql("SELECT DATABASE(), @@bind_address") == "test\t127.0.0.1"


@pytest.mark.in_turn
def test_rabbitmq_keeps_its_users_over_a_restart(rabbitmq):
    """Pass: a user added before is there after; nothing that it started outlives a kill."""
    rabbitmq.control("add_user", "carol", "secret")
    rabbitmq.restart()
    assert "carol" in rabbitmq.control("list_users")
    group = rabbitmq._process.pid
    assert len(living(group)) > 1
    rabbitmq.kill()
    assert living(group) == []
    rabbitmq.start()


@pytest.mark.slow
def test_kafka_keeps_topics_and_rows_over_a_kill_and_a_restart(kafka):
    """Pass: what its own producer wrote before the kill is read by its own consumer after the restart."""
    topic = kafka.create("kept", 2, max_message_bytes="2000")
    assert "max.message.bytes=2000" in kafka.tool("kafka-topics", "--describe", "--topic", topic)
    kafka.tool("kafka-console-producer", "--topic", topic, stdin="one\ntwo\n")
    kafka.kill()
    with pytest.raises(OSError):  # noqa: PT011
        kafka.answers()
    kafka.start()
    kafka.restart()
    reading = ["--topic", topic, "--from-beginning", "--max-messages", "2"]
    assert sorted(kafka.tool("kafka-console-consumer", *reading).split()) == ["one", "two"]


@pytest.mark.in_turn
def test_a_tool_of_kafka_that_fails_is_told_with_what_it_printed(kafka):
    """Pass: the error names the topic that is not there."""
    with pytest.raises(ServerFailed, match="no-such-topic"):
        kafka.tool("kafka-topics", "--describe", "--topic", "no-such-topic")


@pytest.mark.slow
def test_kafka_takes_further_listeners(tmp_path):
    """Pass: a second listener answers beside the first."""
    port = free_port()
    more = {
        "listeners": f"{{plain}},MORE://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,MORE:PLAINTEXT",
    }
    with Kafka(tmp_path / "kafka", more) as server:
        server.create("seen")
        server.port = port
        assert "seen" in server.tool("kafka-topics", "--list")


def test_nats_keeps_its_streams_over_a_kill_and_a_restart(nats):
    """Pass: a stream made over its own protocol is there after both."""
    ask(nats, "$JS.API.STREAM.CREATE.kept", {"name": "kept", "subjects": ["kept.>"]})
    nats.kill()
    with pytest.raises(OSError):  # noqa: PT011
        nats.answers()
    nats.start()
    nats.kill_for(0.1)
    nats.restart()
    assert ask(nats, "$JS.API.STREAM.NAMES", {})["streams"].count("kept") == 1


def ask(server, subject, body):
    """Send a request by NATS's protocol, on a connection of its own; return the answer."""
    text = json.dumps(body).encode()
    with server.connect() as connection, connection.makefile("rb") as lines:
        lines.readline()
        send = f"CONNECT {{}}\r\nSUB back 1\r\nPUB {subject} back {len(text)}\r\n"
        connection.sendall(send.replace("{}", '{"verbose":false}').encode() + text + b"\r\n")
        while not (line := lines.readline()).startswith(b"MSG back"):
            assert not line.startswith(b"-ERR"), line
        return json.loads(lines.read(int(line.split()[-1])))


@pytest.mark.parametrize("name", ["kafka", "mariadb", "nats", "postgres", "rabbitmq"])
def test_a_paused_server_stands_still_and_goes_on(request, name):
    """Pass: it takes connections and answers none, until it is resumed."""
    server: Server = request.getfixturevalue(name)
    server.pause()
    try:
        with pytest.raises(OSError):  # noqa: PT011
            server.answers()
        assert server.running
    finally:
        server.resume()
    server.wait()


def test_a_server_that_ends_is_told_with_its_log(tmp_path):
    """Pass: the error holds what the server printed."""
    server = Postgres(tmp_path / "postgres")
    server.start()
    server.stop()
    with (server._data / "postgresql.conf").open("a") as settings:
        settings.write("no_such_setting = 1\n")
    with pytest.raises(ServerFailed, match="no_such_setting"):
        server.start()


INNER = """
def test_with_a_server(postgres):
    assert postgres.url
"""


@pytest.mark.parametrize(("required", "outcome"), [("", "skipped"), ("all", "errors")])
def test_a_missing_server_skips_loudly_or_fails(pytester, monkeypatch, required, outcome):
    """Pass: skipped with a line at the end; an error where servers are required."""

    def missing(self):
        raise ServerMissing("postgres is not installed: apt-get install postgresql")

    monkeypatch.setattr(Postgres, "prepare", missing)
    monkeypatch.delenv("MAINSTEM_TEST_POSTGRES_URL", raising=False)
    monkeypatch.setenv("MAINSTEM_REQUIRE_SERVICES", required)
    pytester.makepyfile(INNER)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*apt-get install postgresql*"])
    if not required:
        result.stdout.fnmatch_lines(["*NOT TESTED: servers are missing*"])


def test_a_server_elsewhere_is_used_and_never_broken(pytester, monkeypatch):
    """Pass: its address is given; a test that would kill it is skipped."""
    monkeypatch.setenv("MAINSTEM_TEST_POSTGRES_URL", "postgresql://me@db:5433/x")
    pytester.makepyfile("""
    def test_address(postgres):
        assert (postgres.url, postgres.port) == ("postgresql://me@db:5433/x", 5433)

    def test_kill(postgres):
        postgres.kill()

    def test_tool(postgres):
        postgres.sql("SELECT 1")
    """)
    pytester.runpytest_inprocess().assert_outcomes(passed=1, skipped=2)


def test_two_servers_of_a_kind_do_not_meet(tmp_path):
    """Pass: each has its own port, node name and folder."""
    one, other = RabbitMQ(tmp_path / "one"), RabbitMQ(tmp_path / "two")
    assert one.url != other.url
    assert not set(one._environment().items()) & {
        item
        for item in other._environment().items()
        if item[0]
        not in ("RABBITMQ_CONF_ENV_FILE", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "ERL_EPMD_ADDRESS")
    }
