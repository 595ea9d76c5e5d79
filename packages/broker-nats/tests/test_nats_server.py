"""The test server: it keeps its streams."""

from __future__ import annotations

import json

import pytest


@pytest.mark.in_turn
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
