"""Format `raw`."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Encoder, Format, OptionError, Options
from mainstem.columns import Column, quoted


class RawEncoder(Encoder):
    """The only column, as it is."""

    options: Options

    def check(self, columns: Sequence[Column]) -> None:
        if len(columns) != 1:
            names = ", ".join(column.name for column in columns)
            raise OptionError(f"raw takes one column, not {names}", option="columns")

    def value(self, columns: Sequence[Column]) -> str:
        return quoted(columns[0].name)


class Raw(Format):
    """The only column, as it is."""

    encoder = RawEncoder
