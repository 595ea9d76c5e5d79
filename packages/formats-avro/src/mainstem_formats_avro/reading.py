"""Values of Avro become columns: exactly, or with a reason."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from mainstem.arrays import without_times
from mainstem.columns import arrow_type
from mainstem.cursors import Cursors, Rows, read_values
from mainstem.objects import check_variant
from mainstem_registry import RegistryOptions, Schemas, UnknownSchema

from mainstem_formats_avro import side_by_side, single_values
from mainstem_formats_avro.fingerprints import HEAD, MARK, mark_of
from mainstem_formats_avro.json_values import json_of, plain
from mainstem_formats_avro.references import whole
from mainstem_formats_avro.schemas import (
    NOTHING,
    Node,
    check_resolves,
    columns,
    kind,
    named,
    names_of,
    new_fields,
    own_fields,
    read,
)
from mainstem_formats_avro.single_values import Misfit


class AvroValues:
    """Reads values by a schema, or by several, each of which is a column.

    Args:
        schemas: the texts of the readers' schemas.
        others: those of other writers, by whose fingerprints values are known.
        framing: what stands before each value: `none`, `single_object`, or a registry's.
        registry: the one that knows schemas by numbers.
        new_fields: whether values whose schema has fields that the reader's does not are read.
        by_type: whether each schema is a column, null in rows of another type; else there is one schema.
        other_types: whether a value of another type is a row of nulls, instead of refused.
        unknown: whether there is a column more, the JSON of the fields that the reader's schema does not
            have.

    Attributes:
        kinds: the types of the columns.
    """

    def __init__(
        self,
        schemas: Sequence[str],
        others: Sequence[str] = (),
        *,
        framing: str = "none",
        registry: RegistryOptions | None = None,
        new_fields: bool = True,
        by_type: bool = False,
        other_types: bool = False,
        unknown: bool = False,
    ) -> None:
        self._texts = schemas
        self._readers = [read(text) for text in schemas]
        self._by_type, self._other_types = by_type, other_types
        types = [kind(each) for each in self._readers]
        if not by_type:
            types = [column.type or "" for column in columns(self._readers[0])]
        self.kinds: list[Any] = [arrow_type(each) for each in types]
        self._known, self._unknown = len(self.kinds), unknown
        if unknown:
            self.kinds.append(pa.string())
        self._new_fields = new_fields
        self._own: _Writer | None = None
        self._schemas: Schemas | None = None
        self._writers: dict[bytes, _Writer | Misfit] = {}
        if framing == "none":
            self._head, self._own = 0, _writer(self._readers[0], self._readers[0], 0)
        elif registry is None:
            self._head = HEAD
            self._writers = {mark_of(text): self.resolved(text) for text in (*others, *schemas)}
        else:
            self._schemas = Schemas(registry, framing)
            self._head = self._schemas.framing.size

    def read(
        self, values: pa.Array[Any], *headers: pa.Array[Any]
    ) -> tuple[list[pa.Array[Any]], list[str | None]]:
        """Return the columns of an array of bytes, and why rows are refused.

        Args:
            headers: what a framing reads of the messages' headers.

        Raises:
            TransientError: the registry was away for too long.
            PermanentError: the registry refuses to be asked.
        """
        if self._schemas is not None:
            values = self._schemas.framing.framed(values, *headers)
        return read_values(values, self.kinds, self._together, self._alone)

    def _together(self, cursors: Cursors) -> Iterator[tuple[Rows, list[pa.Array[Any]]]]:
        rows = cursors.rows[~cursors.marked]
        if self._own is not None:
            yield rows, self._columns(self._own, cursors, rows)
            return
        heads = cursors.fixed(rows, self._head).dictionary_encode()
        numbers = heads.indices.to_numpy()
        for number, head in enumerate(heads.dictionary.to_pylist()):
            try:
                writer = self._writer(head)
            except Misfit:
                continue  # each is told why by itself
            its = rows[numbers == number]
            if writer.number is not None:
                yield its, self._columns(writer, cursors, its)

    def _columns(self, writer: _Writer, cursors: Cursors, rows: Rows) -> list[pa.Array[Any]]:
        found = writer.side_by_side(cursors, rows)
        if self._unknown:
            texts = _texts(writer, found[self._known :], cursors, rows)
            return [*found[: self._known], pa.array(texts, pa.string())]
        if not self._by_type:
            return found
        made: list[Any] = [pa.nulls(len(rows), its) for its in self.kinds]
        fields = list(self.kinds[writer.number or 0])
        made[writer.number or 0] = pa.StructArray.from_arrays(found, fields=fields)
        return made

    def _alone(self, value: bytes) -> Sequence[Any]:
        writer = self._own if self._own is not None else self._writer(value[: self._head])
        row: Sequence[Any]
        if writer.number is None:
            return [None] * len(self.kinds)
        try:
            row, end = writer.single(value, self._head)
        except (IndexError, struct.error):
            raise Misfit("the value is cut") from None
        except UnicodeDecodeError:
            raise Misfit("a text is not UTF-8") from None
        except RecursionError:
            raise Misfit("the value is nested too deep") from None
        if end != len(value):
            raise Misfit("more bytes after the value")
        if self._by_type:
            its = dict(zip(self._readers[writer.number].names, row, strict=True))
            return [its if n == writer.number else None for n in range(len(self.kinds))]
        if self._unknown:
            return [*row[: self._known], writer.text_of(row[self._known :])]
        return row

    def _writer(self, head: bytes) -> _Writer:
        """Return what reads the values behind a head.

        Raises:
            Misfit: nothing does.
        """
        found = self._writers.get(head)
        if found is None:
            if self._schemas is None:
                if len(head) < HEAD or not head.startswith(MARK):
                    raise Misfit("it names no schema")
                told = head[len(MARK) :][::-1].hex()
                raise Misfit(f"its schema is not known (fingerprint {told})")
            found = self._asked(head, self._schemas)
        if isinstance(found, Misfit):
            raise found
        return found

    def _asked(self, head: bytes, schemas: Schemas) -> _Writer | Misfit:
        found: _Writer | Misfit
        try:
            schema, others = schemas.with_references(head)
        except UnknownSchema as error:
            return Misfit(str(error))
        name = schemas.framing.schema_name(head)
        if schema.kind not in ("", "AVRO"):
            found = Misfit(f"{name} is {schema.kind}")
        else:
            try:
                found = self.resolved(schema.text, others)
            except ValueError as error:
                found = Misfit(f"{name}: {error}")
        if len(self._writers) >= _MOST:
            self._writers.clear()
        self._writers[head] = found
        return found

    def resolved(self, text: str, others: Sequence[str] = ()) -> _Writer:
        """Return what reads values that a schema has written.

        Args:
            others: the texts of those to which it refers.

        Raises:
            ValueError: no reader's schema is for them, or it is no schema; says why.
        """
        try:
            return self._resolved(whole(text, others))
        except Exception as error:  # anybody can claim anything to be a schema
            if type(error) is ValueError:
                raise
            raise ValueError("it is no schema") from None

    def _resolved(self, text: str) -> _Writer:
        number = named(text, self._texts)
        if number is None and self._by_type and self._other_types:
            return _Writer(None)
        if number is None:
            told = ", ".join(name for text in self._texts for name in names_of(text)[:1])
            raise ValueError(f"it is {' '.join(names_of(text)[:1]) or 'no record'}, not {told}")
        writer, reader = read(text, writer=True), self._readers[number]
        check_resolves(writer, reader)
        if not self._new_fields and (new := new_fields(writer, reader)):
            raise ValueError(f"{', '.join(new)} is new")
        return _writer(writer, reader, number, unknown=self._unknown)


#: How many schemas are kept.
_MOST = 1000


class _Writer(NamedTuple):
    """Reads what one schema has written, both ways; `number` is the reader's, None for none of them.

    `new` are the fields that only the writer has, which are read behind the reader's.
    """

    number: int | None
    side_by_side: Callable[[Cursors, Rows], list[Any]] = lambda _, __: []
    single: Callable[[bytes, int], tuple[Any, int]] = lambda _, at: (None, at)
    new: tuple[tuple[str, Node], ...] = ()

    def text_of(self, row: Sequence[Any]) -> str | None:
        """Return the JSON of a row's new fields; None where there are none.

        Raises:
            Misfit: a VARIANT does not hold them as they are.
        """
        if not self.new:
            return None
        pairs = zip(self.new, row, strict=True)
        try:
            text = json_of({name: plain(node, value) for (name, node), value in pairs})
            check_variant(text)
        except (ValueError, TypeError, OverflowError) as error:
            told = str(error) if isinstance(error, ValueError) else "has what JSON has not"
            raise Misfit(f"what is new {told}") from None
        return text


def _texts(
    writer: _Writer, new: Sequence[pa.Array[Any]], cursors: Cursors, rows: Rows
) -> list[str | None]:
    """Return the JSON of rows' new fields; those for which there is none are marked."""
    if not writer.new:
        return [None] * len(rows)
    texts: list[str | None] = [None] * len(rows)
    marked = cursors.marked[rows]  # of these no value is one
    values = zip(*(without_times(each).to_pylist() for each in new), strict=True)
    for number, row in enumerate(values):
        if not marked[number]:
            try:
                texts[number] = writer.text_of(row)
            except Misfit:
                cursors.mark(rows[number : number + 1])
    return texts


def _writer(writer: Node, reader: Node, number: int, *, unknown: bool = False) -> _Writer:
    new: tuple[tuple[str, Node], ...] = ()
    if unknown:
        new = tuple(own_fields(writer, reader))
        reader = replace(
            reader,
            names=(*reader.names, *(name for name, _ in new)),
            aliases=(*reader.aliases, *(() for _ in new)),
            parts=(*reader.parts, *(node for _, node in new)),
            defaults=(*reader.defaults, *(NOTHING for _ in new)),
        )
    together = side_by_side.columns(writer, reader)
    return _Writer(number, together, single_values.fields(writer, reader), new)
