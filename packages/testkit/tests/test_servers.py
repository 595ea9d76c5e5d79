"""Real servers: they start, answer, and can be broken; a missing one is told."""

from __future__ import annotations

import pytest
from mainstem_testkit.servers.postgres import Postgres
from mainstem_testkit.servers.rabbitmq import RabbitMQ
from mainstem_testkit.servers.server import Server, ServerFailed, ServerMissing, living


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


@pytest.mark.parametrize("name", ["postgres", "rabbitmq"])
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
    """)
    pytester.runpytest_inprocess().assert_outcomes(passed=1, skipped=1)


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
