"""Which headers of a request are kept beside the message, and which never are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

#: The headers that are kept when the options say nothing: what a body is, and what vendors say of it.
KEPT = (
    "content-type",
    "user-agent",
    "webhook-id",
    "webhook-timestamp",
    "svix-id",
    "svix-timestamp",
    "idempotency-key",
    "ce-*",
    "x-github-*",
    "x-slack-retry-*",
)

#: How many names of headers are not looked at again.
_REMEMBERED = 1000

_SECRET = re.compile(
    r"authorization|authentication|cookie|signature|secret|token|credential|jwt|api-?key"
    r"|passphrase|passw(or)?d|pwd|(^|-)(auth|hmac|key|pass|sign|sig)(-|$)"
)
#: Keys that belong to data.
_DATA_KEY = re.compile(r"(^|-)(idempotency|message|ordering|partition|routing)-key(-|$)")


def is_secret(name: str) -> bool:
    """Whether a header, by its name in lower case, carries a secret or a signature."""
    return _SECRET.search(_DATA_KEY.sub("-", name)) is not None


class Keeper:
    """Picks the headers that are kept.

    Args:
        names: in any case, with `*` at the end for all that begin so.
        never: names in lower case that are left out whatever the names say.
    """

    def __init__(self, names: Iterable[str], never: Iterable[str] = ()) -> None:
        lower = [name.lower() for name in names]
        self._never = {name.encode() for name in never}
        self._exact = {
            name.encode(): name
            for name in lower
            if not name.endswith("*") and name.encode() not in self._never
        }
        self._begin = tuple(name[:-1].encode() for name in lower if name.endswith("*"))
        self._name = lru_cache(_REMEMBERED)(self._look)

    def kept(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, bytes]]:
        """Return names, in lower case, and values; of a name that comes twice, the last counts."""
        name = self._name
        return [(text, value) for each, value in headers if (text := name(each)) is not None]

    def _look(self, name: bytes) -> str | None:
        """Return the name of a header that is kept, else None."""
        if name in self._exact:
            return self._exact[name]
        if not name.startswith(self._begin) or name in self._never:
            return None
        text = name.decode("latin-1")
        return None if is_secret(text) else text
