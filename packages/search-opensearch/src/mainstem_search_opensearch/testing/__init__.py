"""OpenSearch, for tests: a real node, as a program of ours starts it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mainstem_testkit.server import Server, fetched, free_port

_PATIENCE = 5.0
_HERE = Path(__file__).resolve()


class OpenSearch(Server):
    """A node of OpenSearch 2, alone, with its percolator.

    Args:
        settings: further settings of the node.
    """

    name = "opensearch"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self._transport = free_port()
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._jars()
        (self.folder / "home" / "config").mkdir(parents=True, exist_ok=True)

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        given = [f"{name}={value}" for name, value in self._settings.items()]
        program = str(_HERE.with_name("Node.java"))
        java = ["java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        classes = ["-cp", f"{self._jars()}/*", program]
        home = str(self.folder / "home")
        return [*java, *classes, home, str(self.port), str(self._transport), *given], {}

    def answers(self) -> bool:
        """Ask how its shards are."""
        with urllib.request.urlopen(f"{self.url}/_cluster/health", timeout=_PATIENCE) as answer:
            return bool(json.load(answer)["status"] in ("green", "yellow"))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return what the node answers to a request."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            text = answer.read()
        return json.loads(text, parse_float=str) if text else None

    def documents(self, index: str) -> dict[str, Any]:
        """Return the documents of an index by their ids, decimals as text."""
        self.ask("POST", f"/{index}/_refresh")
        query = {"size": 10_000, "query": {"match_all": {}}}
        found = self.ask("POST", f"/{index}/_search?allow_no_indices=true", query)
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}

    def _jars(self) -> Path:
        return fetched("opensearch", called="OpenSearch")
