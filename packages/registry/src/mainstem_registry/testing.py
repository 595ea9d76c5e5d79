"""Apicurio Registry, for tests: a real registry, in memory."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from mainstem_testkit.server import Server, fetched


class Apicurio(Server):
    """A registry with the API of Confluent's and its own; what it has is gone with its process."""

    name = "apicurio"

    @property
    def url(self) -> str:
        """The API of Confluent's."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def own_url(self) -> str:
        """The API of its own."""
        return f"http://127.0.0.1:{self.port}/apis/registry/v3"

    def prepare(self) -> None:
        self._jar()

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        settings = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": self.port}
        told = [f"-D{name}={value}" for name, value in settings.items()]
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *told, "-jar", self._jar()], {}

    def answers(self) -> bool:
        return isinstance(self.ask("subjects"), list)

    def _jar(self) -> str:
        (jar,) = fetched("apicurio", "app", "Apicurio Registry").glob("*-runner.jar")
        return str(jar)

    # -- what a test does with it -----------------------------------------------------------------

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return what the API of Confluent's answers; `body` is sent as JSON, by POST."""
        return self._asked(f"{self.url}/{path}", body, method)

    def own(self, path: str) -> Any:
        """Return what the API of its own answers."""
        return self._asked(f"{self.own_url}/{path}", None, None)

    def _asked(self, url: str, body: Any, method: str | None) -> Any:
        request = urllib.request.Request(  # an address of ours
            url,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise OSError(f"{url}: {error.code} {error.read()[:300]!r}") from None

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """Register a schema and return its number."""
        body = {"schema": schema, "schemaType": kind}
        return int(self.ask(f"subjects/{subject}/versions", body)["id"])
