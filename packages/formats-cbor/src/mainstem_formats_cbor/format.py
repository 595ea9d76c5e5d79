"""Format `cbor`: maps by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem import ArrowEncoder, Format, MapDecoder, ValueWriter
from mainstem.columns import Column, check_maps


@dataclass(frozen=True)
class CborReader:
    """Reads maps by columns; `options` are those of `ObjectColumns`."""

    columns: tuple[Column, ...]
    options: tuple[tuple[str, Any], ...]

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem_formats_cbor.values import reader

        return reader(self.columns, dict(self.options))


@dataclass(frozen=True)
class CborWriter:
    """Writes rows with these columns."""

    columns: tuple[Column, ...]

    def open(self) -> Callable[..., Any]:
        """Return what writes a batch."""
        from mainstem_formats_cbor.values import writer

        return writer(self.columns)


class CborDecoder(MapDecoder):
    """A map, whose fields are the columns."""

    def reader(self, schema: Sequence[Column] | None) -> CborReader:
        return CborReader(tuple(self.columns(schema)), self.given())


class CborEncoder(ArrowEncoder):
    """A map of the columns; what is null is left out."""

    def check(self, columns: Sequence[Column]) -> None:
        check_maps(columns, "cbor")

    def writer(self, columns: Sequence[Column]) -> ValueWriter:
        return CborWriter(tuple(columns))


class Cbor(Format):
    """CBOR: a map by its schema."""

    decoder, encoder = CborDecoder, CborEncoder
