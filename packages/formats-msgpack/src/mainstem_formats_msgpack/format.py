"""Format `msgpack`: maps by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem import ArrowEncoder, Format, MapDecoder, ValueWriter
from mainstem.columns import Column, check_maps


@dataclass(frozen=True)
class MsgpackReader:
    """Reads maps by columns; `options` are those of `ObjectColumns`."""

    columns: tuple[Column, ...]
    options: tuple[tuple[str, Any], ...]

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem_formats_msgpack.values import reader

        return reader(self.columns, dict(self.options))


@dataclass(frozen=True)
class MsgpackWriter:
    """Writes rows with these columns."""

    columns: tuple[Column, ...]

    def open(self) -> Callable[..., Any]:
        """Return what writes a batch."""
        from mainstem_formats_msgpack.values import writer

        return writer(self.columns)


class MsgpackDecoder(MapDecoder):
    """A map, whose fields are the columns."""

    def reader(self, schema: Sequence[Column] | None) -> MsgpackReader:
        return MsgpackReader(tuple(self.columns(schema)), self.given())


class MsgpackEncoder(ArrowEncoder):
    """A map of the columns; what is null is left out."""

    def check(self, columns: Sequence[Column]) -> None:
        check_maps(columns, "msgpack")

    def writer(self, columns: Sequence[Column]) -> ValueWriter:
        return MsgpackWriter(tuple(columns))


class Msgpack(Format):
    """MessagePack: a map by its schema."""

    decoder, encoder = MsgpackDecoder, MsgpackEncoder
