"""Format `logfmt`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem import Format
from mainstem.builtin.formats.options import (
    TextDecoder,
    TextOptions,
    check_readable,
    declared,
)
from mainstem.columns import Column
from mainstem.contracts.formats import FieldOptions
from mainstem.formats.rules import Rules


class LogfmtDecoderOptions(TextOptions, FieldOptions):
    """Options of reading `logfmt`."""


@dataclass(frozen=True)
class LogfmtReader:
    """Reads lines; `options` are the reader's."""

    columns: tuple[Column, ...]
    rules: Rules
    options: tuple[tuple[str, Any], ...]

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.logfmt_values import LogfmtValues

        return LogfmtValues(self.columns, self.rules, **dict(self.options)).read


class LogfmtDecoder(TextDecoder):
    """A line of keys and values, by a schema."""

    options: LogfmtDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        columns = declared(schema, "logfmt")
        check_readable(columns, "logfmt", nested=False)
        return columns

    def reader(self, schema: Sequence[Column] | None) -> LogfmtReader:
        options, columns = self.options, tuple(self.columns(schema))
        given = {
            "missing": options.missing == "null",
            "extra": options.extra == "ignore",
            **self.texts(),
        }
        return LogfmtReader(columns, Rules(unit=options.times.unit), tuple(given.items()))


class Logfmt(Format):
    """Lines of logfmt: `level=info msg="it began"`, by a schema."""

    decoder = LogfmtDecoder
