"""RabbitMQ, a node of its own with its own name server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from mainstem_testkit.server import Server, ServerFailed, ServerMissing, free_port, receive

_FOLDER = Path("/usr/lib/rabbitmq/bin")
_LOOPBACK = "{127,0,0,1}"


class RabbitMQ(Server):
    """A RabbitMQ node with the user `guest`, password `guest`.

    Attributes:
        plugins: those of RabbitMQ's own that it has.
    """

    name = "rabbitmq"
    plugins: ClassVar[Sequence[str]] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._names_port = free_port()
        self._distribution_port = free_port()
        self._names: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def prepare(self) -> None:
        if not (_FOLDER / "rabbitmq-server").exists() or shutil.which("epmd") is None:
            raise ServerMissing("rabbitmq is not installed: apt-get install rabbitmq-server")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\nlog.file = false\n"
        )
        (self.folder / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")

    def before(self) -> None:
        """Start Erlang's name server: without it the node would start one that outlives it."""
        if self._names is not None:
            return
        epmd = shutil.which("epmd") or "epmd"
        self._names = subprocess.Popen(
            [epmd, "-port", str(self._names_port), "-address", "127.0.0.1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._names_port), 1):
                return
            time.sleep(0.02)
        raise ServerFailed("epmd does not answer")

    def after(self) -> None:
        """End the name server."""
        if self._names is not None:
            self._names.kill()
            self._names.wait()
            self._names = None

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return [str(_FOLDER / "rabbitmq-server")], self._environment()

    def answers(self) -> bool:
        """Greet the server by AMQP 0-9-1; it answers with a method frame."""
        with self.connect() as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return receive(connection, 1) == b"\x01"

    def control(self, *arguments: str) -> str:
        """Run `rabbitmqctl` and return what it prints."""
        command = [str(_FOLDER / "rabbitmqctl"), "-q", *arguments]
        env = {**os.environ, **self._environment()}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerFailed(f"rabbitmqctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def sync(self) -> None:
        """Have written what was declared: RabbitMQ confirms a queue before its name is on disk, so that
        `kill -9` soon afterwards takes the queue with it.
        """
        self.control("eval", "mnesia:sync_log().")

    def _environment(self) -> dict[str, str]:
        home = str(self.folder)
        return {
            "HOME": home,
            "RABBITMQ_NODENAME": f"t{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": f"{home}/mnesia",
            "RABBITMQ_LOG_BASE": f"{home}/log",
            "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_PID_FILE": f"{home}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {_LOOPBACK}",
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
