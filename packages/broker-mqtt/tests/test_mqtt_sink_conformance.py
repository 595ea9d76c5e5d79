"""The sink `mqtt` passes the standard tests of senders; those of sinks are shown by others on egress."""

from __future__ import annotations

import uuid

import pytest
from mainstem_broker_mqtt.testing import Mosquitto
from mainstem_testkit import SenderSuite, serve
from mqtt_clients import Listener

#: Made by mosquitto_passwd for the user `us` and the password `letmein`.
LOGIN = ("us", "letmein")


@pytest.fixture(scope="session")
def secured_mosquitto(request, tmp_path_factory):
    """A server that asks for a password, and lets its user publish to one topic alone."""

    class SecuredMosquitto(Mosquitto):
        name = "secured_mosquitto"

        def __init__(self, folder):
            settings = f"password_file {folder}/passwords\nacl_file {folder}/rights"
            super().__init__(folder, settings, anonymous=False)

        def prepare(self):
            import subprocess

            super().prepare()
            file = self.folder / "passwords"
            subprocess.run(["mosquitto_passwd", "-b", "-c", str(file), *LOGIN], check=True)
            (self.folder / "rights").write_text("user us\ntopic read #\ntopic write open/#\n")
            for each in (file, self.folder / "rights"):
                each.chmod(0o600)

    yield from serve(SecuredMosquitto, request, tmp_path_factory)


class TestSender(SenderSuite):
    use = "mqtt"
    server_fixture = "mosquitto"
    secrets = ("hunter2",)
    refused = {"origin": "a/+/b"}
    refusing_disconnects = True
    qos = 1
    version = "5"

    def prepare(self):
        self.topic = f"open/{uuid.uuid4()}"
        self.listener = Listener(self.server, self.topic)

    def options(self):
        return {
            "url": f"mqtt://127.0.0.1:{self.port}",
            "qos": self.qos,
            "version": self.version,
            "give_up": "30 s",
            "keep_alive": "2 s",
        }

    def row(self, number):
        return {**super().row(number), "origin": self.topic}

    def received(self):
        return [int(value or 0) for value in self.listener.values()]


class TestQoS2(TestSender):
    qos = 2


class TestOldVersion(TestSender):
    version = "3.1.1"


class TestSecured(TestSender):
    server_fixture = "secured_mosquitto"

    def prepare(self):
        self.topic = f"open/{uuid.uuid4()}"
        self.listener = Listener(self.server, self.topic, login=LOGIN)

    def options(self):
        user, password = LOGIN
        return {**super().options(), "url": f"mqtt://{user}:{password}@127.0.0.1:{self.port}"}

    def permanent(self):
        there = f"127.0.0.1:{self.port}"
        return {
            "another password": {"url": f"mqtt://us:hunter2@{there}"},
            "nobody": {"url": f"mqtt://{there}"},
        }

    def test_what_the_server_refuses_is_a_refused_row(self):
        """Mosquitto 2.0.11 then ends the connection, too. Pass: the row comes back with the server's word."""
        (reason,) = self.send_rows([{**self.row(5), "origin": "closed/x"}], order="none")
        assert "0x87" in str(reason)
