"""Example rows for the standard tests of operators: few values of each type, so that keys meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mainstem.columns import read_columns

Row = Mapping[str, Any]

#: The times of example rows lie in the hour from here; watermarks stay that hour behind.
START = datetime(2024, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def samples(kind: str | None) -> list[Any]:
    """Return a few values of a type, as JSON has them.

    Args:
        kind: as `Column.type` has it.

    Raises:
        ValueError: none are known for the type, so a suite needs `examples` of its own.
    """
    name, _, inner = (kind or "").removesuffix(">").partition("<")
    if name == "array":
        return [[], samples(inner)[:1], samples(inner)[:2]]
    if name == "map":
        key, _, value = inner.partition(",")
        return [{}, {str(samples(key)[0]): samples(value)[0]}]
    if name == "struct":
        fields = {column.name: samples(column.type) for column in read_columns(inner)}
        return [{each: values[at] for each, values in fields.items()} for at in (0, 1)]
    values = _SAMPLES.get(name.partition("(")[0])
    if values is None:
        raise ValueError(f"there are no examples of {kind}: write `examples`")
    return list(values)


_TIMES = [f"{START + timedelta(minutes=m):%Y-%m-%dT%H:%M:%S}" for m in (0, 1, 9, 10, 31, 59)]
_SAMPLES: Mapping[str, Sequence[Any]] = {
    "boolean": (False, True),  # the simplest row is no deletion
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "decimal"), (0, 1, 2)),
    **dict.fromkeys(("float", "double"), (0.0, 0.5, -1.0)),
    **dict.fromkeys(("string", "char", "varchar", "binary"), ("a", "b", "")),
    "variant": ({"a": 1}, 1, "a"),
    "date": ("2024-05-01", "2024-05-02"),
    "timestamp": [f"{time}Z" for time in _TIMES],
    "timestamp_ntz": _TIMES,
}


def grown(kind: str, number: int) -> Any:
    """Return a value of a type that is the greater the greater the number."""
    if kind.startswith("timestamp"):
        return (START + timedelta(seconds=number)).isoformat()
    return f"{number:06}" if kind == "string" else number


def try_out(count: int, strategy: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Call a check with examples: always the same, and not made smaller when one fails."""
    quick = settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    quick(given(strategy)(check))()


def drawn(count: int, strategy: st.SearchStrategy[Any]) -> list[Row]:
    """Return up to so many rows of a strategy, always the same ones."""
    found: list[Row] = []

    def take(row: Row) -> None:
        found.append(row)

    try_out(count, strategy, take)
    return found
