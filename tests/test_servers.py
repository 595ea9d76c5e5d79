"""All test servers that plugins bring."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from mainstem_testkit import Server

SERVERS = {entry.name: entry for entry in entry_points(group="mainstem.test_servers")}


def test_each_has_its_own_name():
    """Pass: the server's name is the fixture's, by which it is required or said to be elsewhere."""
    assert {"kafka", "mariadb", "nats", "postgres", "rabbitmq"} <= SERVERS.keys()
    assert {name: entry.load().name for name, entry in SERVERS.items()} == {n: n for n in SERVERS}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", sorted(SERVERS))
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


def test_the_kit_knows_none_of_them():
    """Pass: no file of the kit names a server, or a client of one."""
    import mainstem_testkit

    folder = Path(mainstem_testkit.__file__).parent
    texts = {file: file.read_text().lower() for file in folder.rglob("*.py")}
    assert len(texts) > 20
    words = {*SERVERS, "rabbit", "kinesis", "amqp", "mysql", "psycopg", "pika", "boto", "confluent"}
    found = {f"{file.name}: {w}" for file, text in texts.items() for w in words if w in text}
    assert found == set()
