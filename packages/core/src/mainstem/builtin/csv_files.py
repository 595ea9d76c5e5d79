"""CSV files become rows, in the tasks that read them."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from mainstem.contracts.ddl import Column, quoted
from mainstem.formats.rules import Rules

#: How files are compressed, by the ends of their names.
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_UNREAD = (".snappy", ".lz4", ".deflate", ".lzo", ".br", ".xz", ".zip", ".Z")
_CHUNK = 1024 * 1024
_ROWS = 10_000
_BYTES = 8 * 1024 * 1024


class CsvFiles:
    """Reads the files whose names come in batches; called in tasks.

    Args:
        columns: those that come out.
        header: whether each file begins with the columns' names, by which values are then known.
        encoding: of the files; a codec's name as Python has it.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        separator: str,
        rules: Rules,
        *,
        header: bool,
        encoding: str,
    ) -> None:
        self._columns = tuple(columns)
        self._separator = separator
        self._rules = rules
        self._header = header
        self._encoding = encoding

    @property
    def returned(self) -> str:
        """The columns that a call gives, in DDL: `c0`, `c1`, ..., and of each row where it was."""
        values = [f"c{number} {column.type}" for number, column in enumerate(self._columns)]
        return ", ".join(
            [*values, "reason STRING", "payload BINARY", "origin STRING", "position STRING"]
        )

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches of rows for batches of names (URIs, in the only column)."""
        for batch in batches:
            for origin in batch.column(0).to_pylist():
                yield from self._file(origin)

    def _file(self, origin: str) -> Iterator[Any]:
        from mainstem.formats.csv_values import CsvValues, records

        path = Path(unquote(urlparse(origin).path))
        transcode = _own_bytes(self._encoding)
        plain = "utf-8" if transcode else self._encoding
        reader = CsvValues(self._columns, self._separator, self._rules, encoding=plain)
        found = records(_chunks(path, self._encoding, transcode=transcode), self._separator)
        order: list[int] | None = None
        flaw, number, line = "", 0, 0
        batch: list[tuple[int, bytes]] = []
        size = 0
        try:
            for line, record in found:
                if self._header and order is None:
                    order, flaw = self._order(record, plain)
                    continue
                batch.append((line, record))
                size += len(record)
                if len(batch) == _ROWS or size >= _BYTES:
                    yield self._rows(reader, batch, order, flaw, origin, path, number)
                    number, size, batch = number + len(batch), 0, []
        except (OSError, UnicodeDecodeError, EOFError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the system's, and not what is in the file: the next try may read it
            what = self._encoding if isinstance(error, UnicodeDecodeError) else "readable"
            yield self._rows(reader, batch, order, flaw, origin, path, number)
            number += len(batch)
            flaw, batch = f"what follows is not {what}", [(line + 1, b"")]
        if batch:
            yield self._rows(reader, batch, order, flaw, origin, path, number)

    def _order(self, record: bytes, encoding: str) -> tuple[list[int], str]:
        """Return which value each column has, by a header, and what is wrong with that."""
        from mainstem.formats.csv_values import field_pattern, fields

        try:
            text = record.decode(encoding).removeprefix("\ufeff")
            names = [(name or "").lower() for name in fields(text, field_pattern(self._separator))]
        except ValueError as error:
            return list(range(len(self._columns))), f"the header can't be read: {error}"
        wanted = [column.name.lower() for column in self._columns]
        flaws = []
        if missing := [c.name for c in self._columns if c.name.lower() not in names]:
            flaws.append(f"has no {', '.join(missing)}")
        if extra := [name or "''" for name in names if name not in wanted]:
            flaws.append(f"has {', '.join(extra)}, which the schema has not")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            flaws.append(f"has {', '.join(twice)} twice")
        if flaws:
            return list(range(len(self._columns))), f"the header {'; '.join(flaws)}"
        return [names.index(name) for name in wanted], ""

    def _rows(
        self,
        reader: Any,
        batch: list[tuple[int, bytes]],
        order: list[int] | None,
        flaw: str,
        origin: str,
        path: Path,
        first: int,
    ) -> Any:
        from mainstem.formats.arrow import pa

        values = pa.array([record for _, record in batch], pa.binary())
        if flaw:
            types = [pa.array([], array.type) for array in reader.read(values[:0])[0]]
            arrays = [pa.nulls(len(batch), empty.type) for empty in types]
            reasons: list[str | None] = [flaw] * len(batch)
        else:
            arrays, reasons = reader.read(values, order)
        told = [
            reason and f"{path.name}, line {line}: {reason}"
            for (line, _), reason in zip(batch, reasons, strict=True)
        ]
        payloads = [
            record if reason else None for (_, record), reason in zip(batch, reasons, strict=True)
        ]
        positions = [f"{0:015}.{number:010}" for number in range(first, first + len(batch))]
        columns = [
            *arrays,
            pa.array(told, pa.string()),
            pa.array(payloads, pa.binary()),
            pa.array([origin] * len(batch), pa.string()),
            pa.array(positions, pa.string()),
        ]
        names = [*(f"c{n}" for n in range(len(arrays))), "reason", "payload", "origin", "position"]
        return pa.RecordBatch.from_arrays(columns, names)

    def selected(self) -> list[str]:
        """Return SQL for the columns by their names, over what a call gives."""
        return [f"c{n} AS {quoted(column.name)}" for n, column in enumerate(self._columns)]


def _own_bytes(encoding: str) -> bool:
    """Whether records can't be found in the bytes of an encoding, which has others than ASCII has."""
    marks = ',;\t|"\r\n'
    try:
        return marks.encode(encoding) != marks.encode("ascii")
    except UnicodeError:
        return True


def _chunks(path: Path, encoding: str, *, transcode: bool) -> Iterator[bytes]:
    """Yield a file's bytes, decompressed, and as UTF-8 if they are not like ASCII."""
    from mainstem.formats.arrow import pa

    if path.name.endswith(_UNREAD):
        raise OSError(f"{path}: csv files can be plain, .gz, .bz2 or .zst")
    codec = _CODECS.get(path.suffix)
    # Also what is decompressed is read piece by piece.
    with (
        pa.OSFile(str(path)) as file,
        pa.CompressedInputStream(file, codec) if codec else file as stream,
    ):
        decoder = codecs.getincrementaldecoder(encoding)() if transcode else None
        first = True
        while chunk := stream.read(_CHUNK):
            if first and decoder is None:
                chunk = chunk.removeprefix(codecs.BOM_UTF8)
            first = False
            yield chunk if decoder is None else decoder.decode(chunk).encode()
        if decoder is not None:
            yield decoder.decode(b"", final=True).encode()
