"""An emulator of Amazon SQS, for tests: no test here has seen AWS."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mainstem_testkit.server import Server, fetched

#: How long one request may take, in seconds.
_PATIENCE = 5.0
#: Settings of AWS's clients, which the emulator does not look at.
CREDENTIALS: Mapping[str, Any] = {
    "access_key": "test", "secret_key": "test", "region": "us-east-1",
}  # fmt: skip
_SETTINGS = """include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
queues-storage {{ enabled = true, path = "{folder}/queues.conf" }}
messages-storage {{ enabled = true, uri = "jdbc:h2:{folder}/messages;WRITE_DELAY=0" }}
"""


class ElasticMQ(Server):
    """Queues, standard and FIFO, which are there again after a restart."""

    name = "elasticmq"

    @property
    def url(self) -> str:
        """The endpoint that a client is given."""
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._jars()
        (self.folder / "elasticmq.conf").write_text(
            _SETTINGS.format(port=self.port, folder=self.folder)
        )

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        settings = f"-Dconfig.file={self.folder}/elasticmq.conf"
        classes = ["-cp", f"{self._jars()}/*", "org.elasticmq.server.Main"]
        return [*java, settings, *classes], {}

    def answers(self) -> bool:
        """Ask for the queues."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)) as link:
            link.request("GET", "/?Action=ListQueues")
            return link.getresponse().status == 200

    def client(self) -> Any:
        """Return a client of AWS's library."""
        import boto3
        from botocore.config import Config

        made: Any = boto3.client
        return made(
            "sqs",
            endpoint_url=self.url,
            region_name=CREDENTIALS["region"],
            aws_access_key_id=CREDENTIALS["access_key"],
            aws_secret_access_key=CREDENTIALS["secret_key"],
            config=Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 1}),
        )

    def queue(self, name: str, **attributes: str) -> str:
        """Make a queue, and return its URL."""
        if name.endswith(".fifo"):
            attributes = {"FifoQueue": "true", **attributes}
        return str(self.client().create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def _jars(self) -> Path:
        return fetched("elasticmq", called="ElasticMQ")
