"""How many requests a client may send: a token bucket for each, of a bounded number of clients."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict


class Limiter:
    """Token buckets by client.

    Args:
        rate: tokens that come back in a second.
        burst: the most tokens of a client.
        clients: how many are remembered; the one not seen for longest is forgotten, with its bucket.
    """

    def __init__(self, rate: float, burst: int, clients: int) -> None:
        self._rate, self._burst, self._most = rate, float(burst), clients
        #: Tokens, and when they were counted.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, now: float) -> int:
        """Take a token; return 0, or after how many whole seconds there is one again.

        Args:
            client: an address.
            now: in seconds, of a clock that never goes back.
        """
        name = _network(client)
        tokens, since = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        seconds = 0 if tokens >= 1 else max(1, math.ceil((1 - tokens) / self._rate))
        self._buckets[name] = (tokens if seconds else tokens - 1, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return seconds

    def __len__(self) -> int:
        return len(self._buckets)


def _network(client: str) -> str:
    """Return what a client can't change at will: of an IPv6 address the first 64 bits."""
    if ":" not in client:
        return client
    try:
        address = ipaddress.IPv6Address(client.partition("%")[0])
    except ValueError:
        return client
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:8].hex()
