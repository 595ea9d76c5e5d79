"""Apache Pulsar, for tests: a real broker, with BookKeeper, in one process."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mainstem_testkit.server import Server, fetched, free_port

_SETTINGS = {
    "bindAddress": "127.0.0.1",
    "advertisedAddress": "127.0.0.1",
    "clusterName": "standalone",
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "brokerDeduplicationEnabled": "true",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "allowAutoTopicCreationType": "non-partitioned",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
    "loadBalancerEnabled": "false",
    "functionsWorkerEnabled": "false",
    "journalSyncData": "false",
    "dbStorage_writeCacheMaxSizeMb": 16,
    "dbStorage_readAheadCacheMaxSizeMb": 16,
    "dbStorage_rocksDB_blockCacheSize": 16_777_216,
    "nettyMaxFrameSizeBytes": 5_253_120,
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.98,
    "diskUsageLwmThreshold": 0.98,
}
_OPENED = {
    "java.base": (
        "java.lang java.nio sun.net java.io java.util.zip jdk.internal.misc jdk.internal.platform"
    ),
    "java.management": "sun.management",
    "jdk.management": "com.sun.management.internal",
}


class Pulsar(Server):
    """A broker that keeps messages over a restart, and makes topics as they are asked for.

    A client that names the listener `through` is led to the port `through`: where a test has put
    something between.

    Args:
        folder: for its data and log.
        settings: of its configuration, beside those of all tests.
        tls: the port, at localhost, that clients come to who do so by TLS; None for none.
    """

    name = "pulsar"

    def __init__(
        self, folder: Path, settings: Mapping[str, Any] | None = None, tls: int | None = None
    ) -> None:
        super().__init__(folder)
        self.through = free_port()
        self._web, self._bookie = free_port(), free_port()
        self._settings = dict(settings or {})
        self._tls = tls
        self.token = ""

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self._web}"

    def prepare(self) -> None:
        jars()
        ways = [f"internal:pulsar://127.0.0.1:{self.port}"]
        ways.append(f"through:pulsar://127.0.0.1:{self.through}")
        if self._tls is not None:
            ways.append(f"internal:pulsar+ssl://localhost:{self._tls}")
        settings = {
            **_SETTINGS,
            "brokerServicePort": self.port,
            "webServicePort": self._web,
            "advertisedListeners": ",".join(ways),
            "internalListenerName": "internal",
            **self._settings,
        }
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (self.folder / "standalone.conf").write_text("".join(lines))

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        opened = [
            f"--add-opens={module}/{each}=ALL-UNNAMED"
            for module, names in _OPENED.items()
            for each in names.split()
        ]
        java = [
            "java", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1", "-Dpulsar.allocator.exit_on_oom=false",
            "-Dio.netty.tryReflectionSetAccessible=true", *opened,
        ]  # fmt: skip
        program = ["-cp", f"{jars()}/*", "org.apache.pulsar.PulsarStandaloneStarter"]
        told = [
            "--config", "standalone.conf", "--no-functions-worker", "--no-stream-storage",
            "--advertised-address", "127.0.0.1", "--metadata-dir", "meta",
            "--bookkeeper-dir", "bookkeeper", "--bookkeeper-port", str(self._bookie),
            "--num-bookies", "1",
        ]  # fmt: skip
        return [*java, *program, *told], {}

    def answers(self) -> bool:
        """Whether the namespace that clients use unasked is there."""
        return bool(self.ask("namespaces/public/default"))

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Return what the broker answers to its administration; a 404 is None.

        Args:
            path: after `/admin/v2/`.
            method: of HTTP.
            body: as JSON.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # an address of ours
            f"{self.admin_url}/admin/v2/{path}",
            data,
            {"Content-Type": "application/json"},
            method=method,
        )
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise OSError(f"{method} {path}: {error.code} {error.read()[:200]!r}") from None
        return json.loads(text) if text else None


def jars() -> Path:
    """Return the folder of the broker's jars.

    Raises:
        ServerMissing: it is not there.
    """
    return fetched("pulsar", called="Apache Pulsar")
