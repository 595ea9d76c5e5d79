"""CSV records become columns: the dialect of RFC 4180.

Values are separated by one character. One that begins with a quote ends with one, and a quote in it is
doubled; it may hold separators and line ends. Blanks are part of a value. Nothing between two
separators is null, `""` an empty text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from mainstem.contracts.ddl import Column
from mainstem.formats import scalars
from mainstem.formats.arrow import Array, pa, pc
from mainstem.formats.json_values import EMPTY, NOT_UTF8, NULL, Decoded, all_utf8, refuse_nulls
from mainstem.formats.rules import Rules

#: A record whose quotes are not closed within so many bytes is refused by its first line.
LONGEST = 16 * 1024 * 1024
_CHUNK = 1024 * 1024


class CsvValues:
    """Reads records by a schema: one value of bytes, one record, with or without its line's end.

    Args:
        columns: those that come out, in the order of the values.
        separator: what stands between values: one character.
        rules: how numbers and times are written.
        encoding: of the bytes; a codec's name as Python has it.
        loose: read as null what is not of its column's type, instead of refusing the row.
        patterned: whether TIMESTAMPs have a pattern: they come out as texts.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        separator: str = ",",
        rules: Rules = Rules(),  # noqa: B008
        *,
        encoding: str = "utf-8",
        loose: bool = False,
        patterned: bool = False,
    ) -> None:
        self._columns = columns
        self._separator = separator
        self._rules = rules
        self._encoding = encoding
        self._loose = loose
        self._patterned = patterned
        self._field = field_pattern(separator)

    def read(self, values: Array, order: Sequence[int] | None = None) -> Decoded:
        """Return the columns of an array of bytes, and why rows are refused.

        Args:
            order: which value of a record each column has; theirs as they are when left out.
        """
        reasons: list[str | None] = [None] * len(values)
        texts = self._texts(values, reasons)
        width = len(self._columns) if order is None else len(order)
        found = self._plain(texts, width) or self._quoted(texts, width, reasons)
        if order is not None:
            found = [found[index] for index in order]
        kinds = [
            "string" if self._patterned and column.type == "timestamp" else column.type or ""
            for column in self._columns
        ]
        arrays = scalars.read_columns(
            self._columns, kinds, found, self._rules, reasons, loose=self._loose
        )
        refuse_nulls(self._columns, arrays, reasons)
        return arrays, reasons

    def _texts(self, values: Array, reasons: list[str | None]) -> Array:
        """Return the records as texts without their lines' ends; those that are none are null."""
        if self._encoding == "utf-8" and not values.null_count and all_utf8(values):
            texts = pc.replace_substring_regex(values.cast(pa.string()), "(\r\n|\n|\r)$", "")
            if pc.all(pc.not_equal(texts, ""), min_count=0).as_py() is not False:
                return texts
        made: list[str | None] = []
        for index, value in enumerate(values.to_pylist()):
            made.append(None)
            if value is None:
                reasons[index] = NULL
                continue
            try:
                text = value.decode(self._encoding)
            except UnicodeDecodeError:
                reasons[index] = not_encoded(self._encoding)
                continue
            text = text[: -len(ending[0])] if (ending := _ENDING.search(text)) else text
            if text:
                made[-1] = text
            else:
                reasons[index] = EMPTY
        return pa.array(made, pa.string())

    def _plain(self, texts: Array, width: int) -> list[Array] | None:
        """Return the values of records none of which has quotes or is of another width, by column."""
        if texts.null_count or pc.any(pc.match_substring_regex(texts, '["\r\n]')).as_py():
            return None
        lists = pc.split_pattern(texts, self._separator)
        if pc.all(pc.equal(pc.list_value_length(lists), width), min_count=0).as_py() is False:
            return None
        flat = lists.flatten()
        flat = pc.if_else(pc.equal(flat, ""), pa.scalar(None, pa.string()), flat)
        return [flat.take(pa.array(range(n, len(flat), width), pa.int64())) for n in range(width)]

    def _quoted(self, texts: Array, width: int, reasons: list[str | None]) -> list[Array]:
        rows: list[Sequence[str | None]] = []
        none: tuple[None, ...] = (None,) * width
        written = texts.to_pylist()
        for index, found in enumerate(self._quick(written) or map(self._fields, written)):
            rows.append(none)
            if isinstance(found, str):
                reasons[index] = found
            elif found is not None and len(found) != width:
                reasons[index] = f"has {len(found)} values, not {width}"
            elif found is not None:
                rows[-1] = found
        if not rows:
            return [pa.array([], pa.string())] * width
        return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]

    def _quick(self, texts: list[str | None]) -> list[list[str | None]] | None:
        """Return the values of records by Python's own reader; None where one is not for it.

        It does not tell an empty text from null, takes a quote that is not closed for one that the next
        record closes, and a second line's end for none.
        """
        if any(text is None or '""' in text or text[-1:] in "\r\n" for text in texts):
            return None
        try:
            found = list(csv.reader(texts, delimiter=self._separator, strict=True))  # type: ignore[arg-type]
        except csv.Error:
            return None
        if len(found) != len(texts):
            return None
        return [[each or None for each in row] for row in found]

    def _fields(self, text: str | None) -> list[str | None] | str | None:
        """Return the values of a record, or why it is none."""
        try:
            return None if text is None else fields(text, self._field)
        except ValueError as error:
            return str(error)


_ENDING = re.compile(r"(?:\r\n|\n|\r)\Z")


def not_encoded(encoding: str) -> str:
    """Return the reason for bytes that are not in an encoding."""
    return NOT_UTF8 if encoding == "utf-8" else f"not {encoding}"


def field_pattern(separator: str) -> re.Pattern[str]:
    """Return the pattern of one value and what follows it."""
    mark = re.escape(separator)
    return re.compile(rf'(?:"((?:[^"]|"")*+)"|([^"{mark}\r\n][^{mark}\r\n]*+|))({mark}|\Z)')


def fields(text: str, pattern: re.Pattern[str]) -> list[str | None]:
    """Return the values of one record; one that is nothing is None.

    Raises:
        ValueError: it is no record; says why.
    """
    found: list[str | None] = []
    at = 0
    while True:
        match = pattern.match(text, at)
        if match is None:
            if not text.startswith('"', at):
                raise ValueError("more than one record")
            closed = re.compile(r'"(?:[^"]|"")*+"').match(text, at)
            raise ValueError("text after a closing quote" if closed else "a quote is not closed")
        quoted, plain, mark = match.groups()
        found.append(plain or None if quoted is None else quoted.replace('""', '"'))
        if not mark:
            return found
        at = match.end()


def records(
    chunks: Iterator[bytes], separator: str, longest: int = LONGEST
) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a file, each with the number of its first line, from 1.

    Lines end with LF, CRLF or CR; those with nothing in them are passed over. A record whose quotes are
    not closed comes out as its first line alone.

    Args:
        chunks: the file's bytes, in an encoding that has ASCII's quotes and line ends.
        longest: how many bytes a record may have.
    """
    mark = re.escape(separator.encode())
    value = rb'(?:"(?:[^"]|"")*+"[^' + mark + rb'\r\n]*+|[^"' + mark + rb"\r\n][^" + mark
    value += rb"\r\n]*+)?"
    whole = re.compile(value + rb"(?:" + mark + value + rb")*+(\r\n|\n|\r)")
    first = re.compile(rb"[^\r\n]*+(\r\n|\n|\r)")
    line, rest, ended = 1, b"", False
    while not ended:
        chunk = next(chunks, None)
        ended = chunk is None
        rest += chunk or b""
        if ended and rest and not rest.endswith((b"\n", b"\r")):
            rest += b"\n"
        at = 0
        # A CR at the end may be half of a CRLF.
        end = len(rest) if ended or not rest.endswith(b"\r") else len(rest) - 1
        if b'"' not in rest:
            end = max(rest.rfind(b"\n", 0, end), rest.rfind(b"\r", 0, end)) + 1
            for number, record in enumerate(rest[:end].splitlines(), line):
                if record:
                    yield number, record
            line, at = line + _lines(rest[:end]), end
        while at < end:
            found = whole.match(rest, at, end)
            if found is None and (ended or end - at > longest):
                found = first.match(rest, at, end)
            if found is None:
                break
            if found.end() == end and not ended and found[1] == b"\r" and end == len(rest):
                break
            record = rest[at : found.start(1)]
            if record:
                yield line, record
            line += _lines(found[0])
            at = found.end()
        rest = rest[at:]


def _lines(record: bytes) -> int:
    return record.count(b"\n") + record.count(b"\r") - record.count(b"\r\n")
