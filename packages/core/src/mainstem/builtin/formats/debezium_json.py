"""Format `debezium-json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mainstem import ChangesDecoder, ChangesOptions, Format, option
from mainstem.builtin.formats.options import check_readable, declared
from mainstem.columns import Column
from mainstem.contracts.columns import find_column

TimeUnit = Literal["micros", "millis"]
_UNITS: Mapping[TimeUnit, str] = {"micros": "us", "millis": "ms"}


class DebeziumDecoderOptions(ChangesOptions):
    """Options of reading `debezium-json`."""

    timestamp_unit: TimeUnit | dict[str, TimeUnit] = option(
        "micros",
        description="What a number counts where the schema has a TIMESTAMP: everywhere, or by column, "
        "where the others count micros (MySQL's DATETIME(3) millis, its DATETIME(6) micros). Times that "
        "are written as text need no unit, and a message with a schema says its own.",
        example={"created": "millis"},
    )
    plain_decimals: bool = option(
        False,
        description="Messages without a schema have decimals in digits (`decimal.handling.mode` is "
        "`string`); else a text that could be bytes too is refused.",
    )


@dataclass(frozen=True)
class DebeziumReader:
    """Reads envelopes; `options` are those of the reader."""

    columns: tuple[Column, ...]
    options: tuple[tuple[str, Any], ...]

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.debezium import Envelopes

        return Envelopes(self.columns, **dict(self.options)).read


class DebeziumDecoder(ChangesDecoder):
    """Envelopes of changes, with or without schemas in them."""

    options: DebeziumDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        columns = declared(schema, "debezium-json")
        check_readable(columns, "debezium-json")
        self._units(columns)
        return columns

    def reader(self, schema: Sequence[Column] | None) -> DebeziumReader:
        options, columns = self.options, tuple(self.columns(schema))
        given = {
            "key": tuple(options.key or ()),
            "preimages": options.preimages,
            "units": self._units(columns),
            "plain_decimals": options.plain_decimals,
        }
        return DebeziumReader(columns, tuple(given.items()))

    def _units(self, columns: Sequence[Column]) -> tuple[str, ...]:
        """Return what a number counts in each column of an envelope's rows."""
        given = self.options.timestamp_unit
        if isinstance(given, str):
            return tuple(_UNITS[given] for _ in columns)
        by_column = {
            find_column(columns, name, "timestamp_unit").name: unit for name, unit in given.items()
        }
        return tuple(_UNITS[by_column.get(column.name, "micros")] for column in columns)


class DebeziumJson(Format):
    """The envelopes of changes that Debezium writes as JSON; they become a changelog."""

    decoder = DebeziumDecoder
