"""Finds the endpoint of a path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mainstem_direct_webhook.source.endpoint import Endpoint

_NONE: Mapping[str, str] = {}


class Routes:
    """Endpoints by path; one without parameters goes before those with."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._exact: dict[str, Endpoint] = {}
        self._patterns: list[tuple[re.Pattern[str], Endpoint]] = []
        for endpoint in endpoints:
            if "{" in endpoint.path:
                self._patterns.append((_pattern(endpoint.path), endpoint))
            else:
                self._exact[endpoint.path] = endpoint

    def find(self, path: str) -> tuple[Endpoint, Mapping[str, str]] | None:
        """Return the endpoint of a path, and the values of its parameters."""
        endpoint = self._exact.get(path)
        if endpoint is not None:
            return endpoint, _NONE
        for pattern, each in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return each, match.groupdict()
        return None


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{([a-z][a-z0-9_]*)\}", path)
    texts = [
        f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
    ]
    return re.compile("".join(texts))
