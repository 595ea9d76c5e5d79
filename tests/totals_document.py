"""A document that decodes lines and counts them by key and minute, for tests to change."""

from __future__ import annotations

import copy
from typing import Any

BASE: dict[str, Any] = {
    "operators": {
        "row": {
            "use": "decode",
            "from": "lines",
            "with": {"format": "json", "schema": "k STRING, j STRING, at TIMESTAMP"},
            "on_rejected": "drop",
            "watermark": {"column": "at", "delay": "1 minute"},
        },
        "totals": {
            "use": "aggregate",
            "from": "row",
            "with": {
                "by": ["k"],
                "window": {"on": "at", "tumbling": "1 minute"},
                "columns": {"n": "count(*)"},
            },
        },
    },
    "sinks": {
        "out": {"use": "files", "from": "totals", "with": {"path": "./out", "format": "jsonlines"}}
    },
}
LINES = {"use": "files", "with": {"path": "./in", "format": "message"}}
MORE = {"use": "files", "with": {"path": "./more", "format": "message"}}
STATE = BASE["operators"]["totals"]


def changed(**paths: Any) -> dict[str, Any]:
    """Return the base with values set at paths written `operators__row__from`."""
    made = copy.deepcopy(BASE)
    for path, value in paths.items():
        *above, last = path.split("__")
        place = made
        for key in above:
            place = place.setdefault(key, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return made


def minute(number: int, count: int) -> list[dict[str, str]]:
    return [{"k": "a", "j": "b", "at": f"2026-01-01T00:{number:02}:0{i}Z"} for i in range(count)]


def write(pipeline, document, *, flush=False):
    trigger = {"available_now": True, **({"flush": True} if flush else {})}
    (pipeline.folder / "more").mkdir(exist_ok=True)
    pipeline.document(**document, trigger=trigger)


def totals(pipeline, name="out"):
    rows = [(r["window_start"], r["k"], r["n"]) for r in pipeline.rows(name)]
    return sorted(rows)
