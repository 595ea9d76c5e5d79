"""The test server: it keeps its users over a restart, and two do not meet."""

from __future__ import annotations

import pytest
from mainstem_broker_amqp.testing import RabbitMQ
from mainstem_testkit.server import living


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
