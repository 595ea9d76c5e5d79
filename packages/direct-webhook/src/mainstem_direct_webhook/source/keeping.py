"""Which headers of a request are kept beside the message, and which never are."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The headers that are kept when the options say nothing: what a body is, and what vendors say of it.
KEPT = (
    "content-type",
    "content-encoding",
    "user-agent",
    "webhook-id",
    "webhook-timestamp",
    "idempotency-key",
    "ce-*",
    "x-github-*",
    "x-slack-retry-*",
)

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

    def kept(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, bytes]]:
        """Return names, in lower case, and values; of a name that comes twice, the last counts."""
        exact, begin = self._exact, self._begin
        found = []
        for name, value in headers:
            if name in exact:
                found.append((exact[name], value))
            elif name.startswith(begin) and name not in self._never:
                text = name.decode("latin-1")
                if not is_secret(text):
                    found.append((text, value))
        return found
