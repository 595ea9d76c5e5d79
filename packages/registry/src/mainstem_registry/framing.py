"""What stands before a value that names its schema by a registry's number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Names of framings. `confluent` is that of Confluent's serializers, which Redpanda, Karapace
#: and Apicurio have too; `apicurio` has Apicurio's global ids, of eight bytes.
CONFLUENT, APICURIO = "confluent", "apicurio"
_MARK = b"\0"


class UnknownSchema(ValueError):  # noqa: N818
    """There is no schema for a value; says why."""


@dataclass(frozen=True)
class Framing:
    """A zero and a number, the highest byte first.

    Attributes:
        name: its name.
        width: how many bytes the number has.
    """

    name: str
    width: int

    @property
    def size(self) -> int:
        """How many bytes stand before a value."""
        return len(_MARK) + self.width

    def head(self, number: int) -> bytes:
        """Return what stands before values of a schema."""
        return _MARK + number.to_bytes(self.width, "big")

    def number(self, head: bytes) -> int | None:
        """Return the number in a head; None if it is none."""
        if len(head) < self.size or not head.startswith(_MARK):
            return None
        return int.from_bytes(head[len(_MARK) : self.size], "big")


FRAMINGS: Mapping[str, Framing] = {
    CONFLUENT: Framing(CONFLUENT, 4),
    APICURIO: Framing(APICURIO, 8),
}
