"""Values of Avro as JSON, for fields of which there is no column."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from mainstem_formats_avro.schemas import Node, is_whole

_encoder = msgspec.json.Encoder()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def json_of(fields: Mapping[str, Any]) -> str:
    """Return a JSON object of what `plain` gives."""
    return _encoder.encode(fields).decode()


def plain(node: Node, value: Any) -> Any:
    """Return a value, times as numbers, as JSON has it: times as ISO 8601, bytes as base64.

    Floats that are none of JSON's are texts: `NaN`, `Infinity`, `-Infinity`.
    """
    word = node.word
    if value is None:
        return None
    if word == "record":
        pairs = zip(node.names, node.parts, strict=True)
        return {name: plain(part, value[name]) for name, part in pairs if is_whole(part)}
    if word == "array":
        return [plain(node.parts[0], each) for each in value]
    if word == "map":
        return {key: plain(node.parts[0], each) for key, each in value}
    if word == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if "timestamp-" in word:
        at = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat()
        return at if word.startswith("local") else f"{at}Z"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return msgspec.Raw(format(value, "f").encode()) if isinstance(value, Decimal) else value
