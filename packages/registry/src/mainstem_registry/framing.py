"""What stands before a value that names its schema by a registry's number."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    import pyarrow as pa

#: Names of framings. `confluent` is that of Confluent's serializers, which Redpanda, Karapace
#: and Apicurio have too; `apicurio` has Apicurio's global ids, of eight bytes; `apicurio_headers` has
#: them, or content ids, in a header of the message; `glue` is that of AWS Glue's serializers.
CONFLUENT, APICURIO, APICURIO_HEADERS, GLUE = "confluent", "apicurio", "apicurio_headers", "glue"
#: What a number is: an id of Confluent's API, one of the two of Apicurio's, a version of Glue's.
IDS, GLOBAL_IDS, CONTENT_IDS, VERSIONS = "ids", "globalIds", "contentIds", "versions"
#: What stands in the place of a head that is not there, and before what can't be made plain.
_NO_HEAD, _NOT_PLAIN = b"\xff", b"\xfe"
#: How Glue's serializers say that a value is plain, or compressed by zlib.
_PLAIN, _ZLIB = b"\0", b"\5"
#: How large a compressed value may become, and all of a batch, in bytes.
_MOST, _MOST_OF_ALL = 64 * 2**20, 2**31 - 2**20


class UnknownSchema(ValueError):  # noqa: N818
    """There is no schema for a value; says why."""


@dataclass(frozen=True)
class Framing:
    """A byte and a number, the highest byte first, before a value; or the number in a header.

    Attributes:
        name: its name.
        width: how many bytes the number has.
        marks: the bytes that may stand first, each with what the number is.
        end: what numbers are below.
        within: the names of the headers that have the number, in the order of `marks`; none where it
            stands before the value. `{part}` is `value` or `key`.
    """

    name: str
    width: int
    marks: Mapping[bytes, str]
    end: int
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
        number = int.from_bytes(head[1 : self.size], "big")
        return number if number < self.end else None

    def ids(self, head: bytes) -> str:
        """Return what the number in a head is."""
        return self.marks[head[:1]]

    def schema_name(self, head: bytes) -> str:
        """Return what a schema is called that a head names."""
        return f"schema {self.number(head)}"

    def flaw(self, head: bytes) -> str:
        """Return why a head has no number."""
        return "it names no schema" if head[:1] != _NOT_PLAIN else "it is not compressed as it says"

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


class GlueFraming(Framing):
    """A byte, one that says how the value is compressed, and the version of the schema, a UUID."""

    def number(self, head: bytes) -> int | None:
        return super().number(head) if head[1:2] == _PLAIN else None

    def schema_name(self, head: bytes) -> str:
        return f"schema {UUID(int=self.number(head) or 0)}"

    def framed(self, values: pa.Array[Any], *headers: pa.Array[Any]) -> pa.Array[Any]:
        import pyarrow as pa

        made, size = [], 0
        for value in values.to_pylist():
            made.append(None if value is None else self._plain(value))
            size += len(made[-1] or b"")
            if size > _MOST_OF_ALL:
                raise ValueError(
                    f"the values of {len(values)} messages are more than a batch can hold: lower "
                    "spark.sql.execution.arrow.maxRecordsPerBatch under spark.conf"
                )
        return pa.array(made, pa.binary())

    def _plain(self, value: bytes) -> bytes:
        if value[1:2] != _ZLIB or len(value) < self.size or value[:1] not in self.marks:
            return value
        made = zlib.decompressobj()
        try:
            plain = made.decompress(value[self.size :], _MOST)
        except zlib.error:
            return _NOT_PLAIN * self.size
        if not made.eof or made.unused_data:
            return _NOT_PLAIN * self.size
        return value[:1] + _PLAIN + value[2 : self.size] + plain


FRAMINGS: Mapping[str, Framing] = {
    each.name: each
    for each in (
        Framing(CONFLUENT, 4, {b"\0": IDS}, 2**31),
        Framing(APICURIO, 8, {b"\0": GLOBAL_IDS}, 2**63),
        Framing(
            APICURIO_HEADERS, 8, {b"\0": GLOBAL_IDS, b"\1": CONTENT_IDS}, 2**63,
            ("apicurio.{part}.globalId", "apicurio.{part}.contentId"),
        ),
        GlueFraming(GLUE, 17, {b"\3": VERSIONS}, 2**128),
    )
}  # fmt: skip


def headers_of(framing: str, part: str = "value") -> tuple[str, ...]:
    """Return the headers that a framing reads of messages' values or keys, if it reads any."""
    found = FRAMINGS.get(framing)
    return () if found is None else found.headers(part)
