"""Formats `maxwell-json` and `canal-json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mainstem import ChangesDecoder, ChangesOptions, Format, OptionError, option
from mainstem.builtin.formats.options import check_readable, declared
from mainstem.columns import Column


class MySQLChangesOptions(ChangesOptions):
    """Options of reading `maxwell-json` and `canal-json`."""

    table: str | None = option(
        None,
        min_length=1,
        description="The table, `DATABASE.TABLE`: messages about others, which one topic may hold, give "
        "nothing. Any when left out.",
        example="shop.orders",
    )


@dataclass(frozen=True)
class MySQLChangesReader:
    """Reads messages of a tool."""

    tool: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    preimages: bool
    table: str | None

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.mysql_changes import MySQLChanges

        return MySQLChanges(
            self.tool, self.columns, self.key, preimages=self.preimages, table=self.table
        ).read


class _Decoder(ChangesDecoder):
    """Messages about rows of a table."""

    options: MySQLChangesOptions
    tool: ClassVar[str]
    nested: ClassVar[bool]

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        columns = declared(schema, f"{self.tool}-json")
        check_readable(columns, f"{self.tool}-json", nested=self.nested)
        if self.options.table is not None and "." not in self.options.table:
            raise OptionError("expected DATABASE.TABLE", option="table")
        return columns

    def reader(self, schema: Sequence[Column] | None) -> MySQLChangesReader:
        options = self.options
        return MySQLChangesReader(
            self.tool, tuple(self.columns(schema)), tuple(options.key or ()), options.preimages,
            options.table,
        )  # fmt: skip


class MaxwellDecoder(_Decoder):
    """What Maxwell writes: a row each."""

    tool, nested = "maxwell", True


class CanalDecoder(_Decoder):
    """What Canal writes: one row or several, values as texts."""

    tool, nested = "canal", False


class MaxwellJson(Format):
    """The changes of a table of MySQL that Maxwell writes; they become a changelog."""

    decoder = MaxwellDecoder


class CanalJson(Format):
    """The changes of a table of MySQL that Canal writes as flat messages; they become a changelog."""

    decoder = CanalDecoder
