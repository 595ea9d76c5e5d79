"""Format `syslog`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem import Decoder, Format, OptionError, Options
from mainstem.columns import Column
from mainstem.formats.syslog_columns import SYSLOG


@dataclass(frozen=True)
class SyslogReader:
    """Reads lines."""

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.syslog_values import SyslogValues

        return SyslogValues().read


class SyslogDecoder(Decoder):
    """A line, whose columns are known."""

    options: Options

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        if schema is not None:
            raise OptionError("syslog has columns of its own", option="schema")
        return SYSLOG

    def reader(self, schema: Sequence[Column] | None) -> SyslogReader:
        return SyslogReader()


class Syslog(Format):
    """A line of syslog: RFC 5424 or 3164."""

    decoder = SyslogDecoder
