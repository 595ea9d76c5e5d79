"""Options: one frozen model per component.

The model is the one spec for validation, error messages, generated docs, the JSON Schema and
`mainstem plugins show`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from mainstem.contracts.columns import check_names
from mainstem.contracts.ddl import Column, quoted, read_columns
from mainstem.errors import OptionError


class Options(BaseModel):
    """Base of every component's options: frozen, no unknown keys, a description on every field."""

    # Input is hidden, for a model's own check is handed all of its options, secrets too.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if not field.description:
                raise TypeError(f"option {name!r} of {cls.__qualname__} has no description")

    def cautions(self) -> Iterable[str]:
        """Return what is allowed in these options and may hurt, each a sentence with the way out.

        The plan's warnings tell them, the node's name before each; they name no secret.
        """
        return ()


def option(
    default: Any = ...,
    *,
    description: str,
    example: Any = None,
    advanced: bool = False,
    **constraints: Any,
) -> Any:
    """Declare an option.

    Args:
        default: its value when the document leaves it out; none given makes it required.
        description: one or two sentences for the user: what it does, in which unit.
        example: a value worth showing in the docs.
        advanced: whether most users can pass it by.
        constraints: pydantic's (`gt`, `ge`, `le`, `min_length`, `pattern`, `alias`, ...).
    """
    extra: dict[str, Any] = {"advanced": True} if advanced else {}
    if not callable(default) or default is ...:
        constraints["default"] = default
    else:
        constraints["default_factory"] = default
    if example is not None:
        constraints["examples"] = [example]
    return Field(description=description, json_schema_extra=extra, **constraints)


_UNITS = {
    "ms": 0.001, "millisecond": 0.001, "s": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hour": 3600, "d": 86400, "day": 86400, "w": 604800, "week": 604800,
}  # fmt: skip
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip
#: Sizes are Java's `long` in the end.
_SIZE_END = 2**63


def read_duration(value: Any) -> Any:
    """Read `10 minutes`, `1.5 hours` or `1 hour 30 minutes`.

    Raises:
        ValueError: the text is no duration.
    """
    if not isinstance(value, str):
        if isinstance(value, timedelta):
            return value
        raise ValueError("expected a duration such as '10 minutes'")
    seconds = 0.0
    for number, unit in _DURATION.findall(value):
        name = unit.lower()
        factor = _UNITS.get(name) or _UNITS.get(name.rstrip("s"))
        if factor is None:
            raise ValueError(f"unknown unit {unit!r}; expected a duration such as '10 minutes'")
        seconds += float(number) * factor
    if _DURATION.sub("", value).strip() or not _DURATION.search(value):
        raise ValueError("expected a duration such as '10 minutes'")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError(f"too long; expected at most {timedelta.max.days} days") from None


def write_duration(value: timedelta) -> str:
    """Write a duration as Spark reads an interval, in its largest whole unit."""
    total = round(value.total_seconds() * 1000)
    for unit, size in (
        ("day", 86_400_000),
        ("hour", 3_600_000),
        ("minute", 60_000),
        ("second", 1000),
    ):
        if total and total % size == 0:
            count = total // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{total} milliseconds"


def read_size(value: Any) -> Any:
    """Read `64 MiB`, `20 GB` or a plain number of bytes."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", value)
        factor = _SIZES.get(match.group(2).upper()) if match else None
        if match is None or factor is None:
            raise ValueError("expected a size such as '64 MiB' or '20 GB'")
        try:
            value = int(float(match.group(1)) * factor)
        except OverflowError:
            value = _SIZE_END
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("expected a size such as '64 MiB' or a number of bytes")
    if value >= _SIZE_END:
        raise ValueError("too large; expected less than 2**63 bytes")
    return value


def _read_path(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str) or not value:
        raise ValueError("expected a path")
    folder = (info.context or {}).get("folder")
    return Path(folder, value) if folder else Path(value)


#: A length of time, written `10 minutes`; a `timedelta` in the component.
Duration = Annotated[
    timedelta,
    BeforeValidator(read_duration),  # limits of an option come after it
    PlainSerializer(write_duration),
    WithJsonSchema({"type": "string", "pattern": r"^\s*\d", "examples": ["10 minutes"]}),
]


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("expected more than 0 seconds")
    return value


#: A `Duration` of more than nothing.
PositiveDuration = Annotated[Duration, AfterValidator(_positive)]

#: A number of bytes, written `64 MiB` or `64000000`.
Size = Annotated[
    int,
    BeforeValidator(read_size),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["64 MiB"]}),
]

#: A path on this machine or a shared file system; a relative one is relative to the document.
LocalPath = Annotated[
    Path,
    PlainValidator(_read_path),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "minLength": 1, "format": "path"}),
]


def _read_schema(value: Any, info: ValidationInfo) -> Any:
    columns = _read_columns(value, info)
    try:
        check_names((column.name for column in columns), "")
    except OptionError as error:
        raise ValueError(error.message) from None
    return columns


def _read_columns(value: Any, info: ValidationInfo) -> tuple[Column, ...]:
    if isinstance(value, dict):
        return read_columns(", ".join(f"{quoted(name)} {kind}" for name, kind in value.items()))
    if not isinstance(value, str):
        raise ValueError("expected DDL text, a map from column to type, or file:PATH")
    if value.startswith("file:"):
        file = Path((info.context or {}).get("folder") or "", value.removeprefix("file:"))
        try:
            value = file.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"can't read {file}: {error.strerror}") from None
    return read_columns(value)


#: Columns with types: DDL text (`a INT, b STRING`), a map (`{a: INT}`), or `file:PATH` of DDL text.
Schema = Annotated[
    tuple[Column, ...],
    PlainValidator(_read_schema),
    PlainSerializer(lambda columns: ", ".join(c.ddl for c in columns)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
            ]
        }
    ),
]
