"""What reader and writer of CloudEvents 1.0 share."""

from __future__ import annotations

import re
from datetime import UTC, datetime

STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"

#: The name of an attribute.
NAME = re.compile(r"[a-z0-9]+")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_JSON = re.compile(r"[^/;]+/([^;]*\+)?json\s*(;|$)", re.IGNORECASE)


def is_json(kind: str) -> bool:
    """Whether a media type, perhaps with parameters, is one of JSON (JSON format, 3.1.1)."""
    return _JSON.match(kind) is not None
