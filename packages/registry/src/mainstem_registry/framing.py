"""What stands before a value that names its schema by a registry's number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: Names of framings. `confluent` is that of Confluent's serializers, which Redpanda, Karapace
#: and Apicurio have too; `apicurio` has Apicurio's global ids, of eight bytes; `apicurio_headers` has
#: them, or content ids, in a header of the message.
CONFLUENT, APICURIO, APICURIO_HEADERS = "confluent", "apicurio", "apicurio_headers"
#: What a number is: an id of Confluent's API, or one of the two of Apicurio's.
IDS, GLOBAL_IDS, CONTENT_IDS = "ids", "globalIds", "contentIds"
_NO_HEAD = b"\xff"


class UnknownSchema(ValueError):  # noqa: N818
    """There is no schema for a value; says why."""


@dataclass(frozen=True)
class Framing:
    """A byte and a number, the highest byte first, before a value; or the number in a header.

    Attributes:
        name: its name.
        width: how many bytes the number has.
        marks: the bytes that may stand first, each with what the number is.
        within: the names of the headers that have the number, in the order of `marks`; none where it
            stands before the value. `{part}` is `value` or `key`.
    """

    name: str
    width: int
    marks: Mapping[bytes, str]
    within: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many bytes stand before a value."""
        return 1 + self.width

    def head(self, number: int) -> bytes:
        """Return what stands before values of a schema."""
        return next(iter(self.marks)) + number.to_bytes(self.width, "big")

    def number(self, head: bytes) -> int | None:
        """Return the number in a head; None if it is none."""
        if len(head) < self.size or head[:1] not in self.marks:
            return None
        return int.from_bytes(head[1 : self.size], "big")

    def ids(self, head: bytes) -> str:
        """Return what the number in a head is."""
        return self.marks[head[:1]]

    def headers(self, part: str) -> tuple[str, ...]:
        """Return the names of the headers that have the number of a message's `value` or `key`."""
        return tuple(name.format(part=part) for name in self.within)

    def framed(self, values: pa.Array[Any], *headers: pa.Array[Any]) -> pa.Array[Any]:
        """Return values behind their heads, also where these came in headers.

        Args:
            headers: an array for each of `headers`, null where a message does not have it.
        """
        if not self.within:
            return values
        import pyarrow as pa

        rows = zip(*(header.to_pylist() for header in headers), strict=True)
        made = []
        for value, told in zip(values.to_pylist(), rows, strict=True):
            numbers = [
                mark + number
                for mark, number in zip(self.marks, told, strict=True)
                if number is not None and len(number) == self.width
            ]
            head = numbers[0] if numbers else _NO_HEAD * self.size
            made.append(None if value is None else head + value)
        return pa.array(made, pa.binary())


FRAMINGS: Mapping[str, Framing] = {
    each.name: each
    for each in (
        Framing(CONFLUENT, 4, {b"\0": IDS}),
        Framing(APICURIO, 8, {b"\0": GLOBAL_IDS}),
        Framing(
            APICURIO_HEADERS, 8, {b"\0": GLOBAL_IDS, b"\1": CONTENT_IDS},
            ("apicurio.{part}.globalId", "apicurio.{part}.contentId"),
        ),
    )
}  # fmt: skip


def headers_of(framing: str, part: str = "value") -> tuple[str, ...]:
    """Return the headers that a framing reads of messages' values or keys, if it reads any."""
    found = FRAMINGS.get(framing)
    return () if found is None else found.headers(part)
