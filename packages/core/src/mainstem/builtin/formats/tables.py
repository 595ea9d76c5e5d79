"""Formats `parquet` and `arrow`: values that are whole tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from mainstem import Decoder, Format, OptionError
from mainstem.builtin.formats.options import check_readable, declared
from mainstem.columns import Column
from mainstem.contracts.formats import FieldOptions


class TableOptions(FieldOptions):
    """Options of reading tables."""


@dataclass(frozen=True)
class TableReader:
    """Reads tables, whose columns are found by name."""

    columns: tuple[Column, ...]
    kind: Literal["parquet", "arrow"]
    missing: bool
    extra: bool

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.table_values import TableValues

        return TableValues(self.columns, self.kind, missing=self.missing, extra=self.extra).read


class TableDecoder(Decoder):
    """A table, each row of which is one."""

    options: TableOptions
    kind: ClassVar[Literal["parquet", "arrow"]]

    @property
    def many(self) -> bool:
        return True

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        columns = declared(schema, self.kind)
        check_readable(columns, self.kind)
        for column in columns:
            if "variant" in (column.type or ""):
                told = f"{self.kind} has no values of type variant, as column {column.name}"
                raise OptionError(told, option="schema")
        return columns

    def reader(self, schema: Sequence[Column] | None) -> TableReader:
        options = self.options
        return TableReader(
            tuple(self.columns(schema)),
            self.kind,
            options.missing == "null",
            options.extra == "ignore",
        )


class ParquetDecoder(TableDecoder):
    """A file of Parquet."""

    kind = "parquet"


class ArrowDecoder(TableDecoder):
    """A stream or a file of Arrow IPC."""

    kind = "arrow"


class Parquet(Format):
    """Files of Parquet, each row of which is one, by a schema."""

    decoder = ParquetDecoder


class ArrowIPC(Format):
    """Streams and files of Arrow IPC, each row of which is one, by a schema."""

    decoder = ArrowDecoder
