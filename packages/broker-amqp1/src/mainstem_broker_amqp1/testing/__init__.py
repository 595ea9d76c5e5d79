"""ActiveMQ Artemis, for tests: a real broker, as a program of ours starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mainstem_testkit.server import Server, fetched, receive

_HERE = Path(__file__).resolve()
_HELLO = b"AMQP\x03\x01\x00\x00"


class Artemis(Server):
    """A broker that keeps durable messages over a restart, and makes queues as they are asked for.

    Addresses that begin with `full` hold 100 kB, and then give no credit. Those that begin with
    `failing` reject what is more, and one that begins with `absent` is not made.

    Args:
        folder: for its data and log.
        login: `user:password` of the only one who may come; empty for anybody.
        tls: port, and the files (PEM) of its certificate with the key, and of those whose clients it
            trusts; None for none.
    """

    name = "artemis"

    def __init__(
        self, folder: Path, login: str = "", tls: tuple[int, Path, Path] | None = None
    ) -> None:
        super().__init__(folder)
        self._login, self._tls = login, tls

    @property
    def url(self) -> str:
        login = f"{self._login}@" if self._login else ""
        return f"amqp://{login}127.0.0.1:{self.port}"

    def prepare(self) -> None:
        jars()

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        program = ["-cp", f"{jars()}/*", str(_HERE.with_name("Node.java"))]
        secured = [str(each) for each in self._tls or ()]
        return [*java, *program, str(self.folder), str(self.port), self._login, *secured], {}

    def answers(self) -> bool:
        """Greet it as clients do that have a name to tell."""
        with self.connect() as connection:
            connection.sendall(_HELLO)
            return receive(connection, len(_HELLO)) == _HELLO


def jars() -> Path:
    """Return the folder of the broker's jars, in which is a client for JMS programs too.

    Raises:
        ServerMissing: it is not there.
    """
    return fetched("artemis", called="ActiveMQ Artemis")
