"""The test server: it keeps topics and rows, its tools are told, and it takes listeners."""

from __future__ import annotations

import pytest
from mainstem_broker_kafka.testing import Kafka
from mainstem_testkit.server import ServerFailed, free_port


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
