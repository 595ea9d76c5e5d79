"""Times beyond the years 1 to 9999: Spark has them, Python and most others don't.

Milliseconds taken for seconds end there, and as an event time would make every later row late.
"""

from __future__ import annotations

from mainstem.contracts.ddl import parts_of, quoted

#: What is said of them, after the name of a column.
FAR_TIME = "is beyond the years 1 to 9999"
_LIMITS = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp": ("0001-01-01 00:00:00Z", "9999-12-31 23:59:59.999999Z"),
    "timestamp_ntz": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
}


def far_time(value: str, kind: str | None, depth: int = 0) -> str | None:
    """Return SQL that is true for a value with such a time in it; None if its type has no times.

    Args:
        value: SQL for the value.
        kind: its type, in Spark's short form.
        depth: how many lambdas the SQL will stand in.
    """
    if kind in _LIMITS:
        first, last = (f"{kind} '{limit}'" for limit in _LIMITS[kind])
        return f"{value} NOT BETWEEN {first} AND {last}"
    word = (kind or "").partition("<")[0]
    found = []
    for part in parts_of(kind or ""):
        if word == "struct":
            found.append(far_time(f"{value}.{quoted(part.name)}", part.type, depth))
        else:
            each = f"__x{depth}"
            items = value if word == "array" else f"map_{part.name}s({value})"
            inner = far_time(each, part.type, depth + 1)
            found.append(inner and f"exists({items}, {each} -> {inner})")
    return " OR ".join(f"({each})" for each in found if each) or None
