"""What stands before a value that names its schema; one of the two modules that import the library."""

from __future__ import annotations

import json

from fastavro import parse_schema
from fastavro.schema import fingerprint, to_parsing_canonical_form

#: How such a value begins, before the schema's fingerprint, and how many bytes both have.
MARK, HEAD = b"\xc3\x01", 10


def mark_of(text: str) -> bytes:
    """Return what stands before a value that names a schema."""
    canonical = to_parsing_canonical_form(parse_schema(json.loads(text)))
    return MARK + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
