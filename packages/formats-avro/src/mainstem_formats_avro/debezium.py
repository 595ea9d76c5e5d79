"""Format `debezium-avro`: the changes of a table, as Debezium writes them by Avro converters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from mainstem import ChangesDecoder, ChangesOptions, Format, LocalPath, OptionError, option
from mainstem.columns import Column
from mainstem_registry import FramedOptions, RegistryOptions, headers_of

from mainstem_formats_avro import schemas
from mainstem_formats_avro.format import Text, loaded
from mainstem_formats_avro.schemas import Node

if TYPE_CHECKING:
    import pyarrow as pa

_UNAVAILABLE = "__debezium_unavailable_value"


class DebeziumAvroDecoderOptions(ChangesOptions, FramedOptions):
    """Options of reading `debezium-avro`."""

    framing: Literal["none", "confluent", "apicurio", "apicurio_headers"] = option(  # type: ignore[assignment]
        "none",
        description="What stands before a value, and before a key: nothing, or the schema's number at a "
        "registry, as Confluent's converter writes it, or Apicurio's with global ids "
        "(`apicurio_headers`: in headers of the message, or content ids).",
    )
    schema_file: LocalPath = option(
        description="The file (.avsc) with the schema of values: an envelope with `before`, `after` and "
        "`op`. The fields of `after` are the columns.",
        example="./customers-value.avsc",
    )
    key_schema_file: LocalPath | None = option(
        None,
        description="The file with the schema of the messages' keys. Without pre-images a message "
        "without a value deletes the key that its own key tells: it needs this.",
        example="./customers-key.avsc",
    )


@dataclass(frozen=True)
class DebeziumAvroReader:
    """Reads envelopes; what it has of schemas are texts."""

    schema: str
    key_schema: str | None
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    preimages: bool
    framing: str
    registry: RegistryOptions | None

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        return _Envelopes(self).read


class _Envelopes:
    """Turns envelopes into the changes that they tell."""

    def __init__(self, told: DebeziumAvroReader) -> None:
        from mainstem_formats_avro.reading import AvroValues

        self._told = told
        framed: Any = {"framing": told.framing, "registry": told.registry}
        names = schemas.read(told.schema).names
        self._at = {name: names.index(name) for name in _WANTED if name in names}
        self._values = AvroValues([told.schema], **framed)
        self._keys = self._key_names = None
        if told.key_schema is not None:
            self._keys = AvroValues([told.key_schema], **framed)
            self._key_names = schemas.read(told.key_schema).names

    def read(self, values: pa.Array[Any], keys: pa.Array[Any], *headers: pa.Array[Any]) -> Any:
        """Return the changes that messages tell, given their values and keys as bytes.

        Args:
            headers: what a framing reads of the messages' headers, for values and then for keys.

        Raises:
            TransientError: the registry was away for too long.
            PermanentError: the registry refuses to be asked.
        """
        from mainstem.changes import Told, changes_told

        half = len(headers) // 2
        arrays, reasons = self._values.read(values, *headers[:half])
        parts = {name: arrays[at].to_pylist() for name, at in self._at.items()}
        its_keys = self._told_keys(keys, *headers[half:])
        there = values.is_valid().to_pylist()
        messages: list[list[Told] | str] = []
        for number, reason in enumerate(reasons):
            key = its_keys[number]
            if not there[number]:
                if self._keys is None and not self._told.preimages:
                    messages.append(_NO_KEY)
                else:
                    messages.append([Told(None, key=key, value=False)])
                continue
            if reason is not None:
                messages.append(reason)
                continue
            part = {name: each[number] for name, each in parts.items()}
            before, after = _row(part.get("before")), _row(part["after"])
            messages.append([Told(part["op"], before, after, key, _committed(part))])
        told_by = self._told
        return changes_told(told_by.columns, told_by.key, messages, preimages=told_by.preimages)

    def _told_keys(
        self, keys: pa.Array[Any], *headers: pa.Array[Any]
    ) -> list[dict[str, Any] | None]:
        """Return what messages' keys tell, None for what can't be read."""
        if self._keys is None or self._key_names is None:
            return [None] * len(keys)
        arrays, reasons = self._keys.read(keys, *headers)
        rows = zip(*(array.to_pylist() for array in arrays), strict=True)
        return [
            None if reason is not None else dict(zip(self._key_names, row, strict=True))
            for row, reason in zip(rows, reasons, strict=True)
        ]


_NO_KEY = "no value, and what its key is in is not said: see `key_schema_file`"
#: The fields of an envelope that are read.
_WANTED = ("before", "after", "op", "source", "ts_ms")


def _row(told: dict[str, Any] | None) -> dict[str, Any] | None:
    from mainstem.changes import UNAVAILABLE

    if told is None:
        return None
    gone = (_UNAVAILABLE, _UNAVAILABLE.encode())
    return {
        name: UNAVAILABLE if isinstance(value, str | bytes) and value in gone else value
        for name, value in told.items()
    }


def _committed(told: dict[str, Any]) -> int | None:
    """Return when the database made the change, in microseconds, None if that is not told."""
    at = (told.get("source") or {}).get("ts_ms")
    at = told.get("ts_ms") if at is None else at
    return 1000 * at if isinstance(at, int) and abs(at) < _MOST_MILLIS else None


_MOST_MILLIS = 253_402_300_800_000


class DebeziumAvroDecoder(ChangesDecoder):
    """Envelopes of changes."""

    options: DebeziumAvroDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        if schema is not None:
            raise OptionError("debezium-avro has the columns of its `schema_file`", option="schema")
        if self.options.key_schema_file is not None:
            loaded(self.options.key_schema_file, "key_schema_file")
        return schemas.columns(self._after)

    def reader(self, schema: Sequence[Column] | None) -> DebeziumAvroReader:
        options = self.options
        file = options.key_schema_file
        key_schema = None if file is None else loaded(file, "key_schema_file").text
        return DebeziumAvroReader(
            self._schema.text, key_schema, tuple(self.columns(schema)), tuple(options.key or ()),
            options.preimages, options.framing, options.registry,
        )  # fmt: skip

    @property
    def headers(self) -> Sequence[str]:
        framing = self.options.framing
        return (*headers_of(framing), *headers_of(framing, "key"))

    @property
    def _after(self) -> Node:
        node = self._schema.node
        parts = dict(zip(node.names, node.parts, strict=True))
        after, op = parts.get("after"), parts.get("op")
        if (
            after is None
            or after.word != "record"
            or op is None
            or op.word not in ("string", "enum")
        ):
            raise OptionError(
                "the schema is no envelope: it has no record `after`, or no text `op`",
                option="schema_file",
            )
        before = parts.get("before", after)
        if before.ddl != after.ddl:
            raise OptionError("`before` and `after` have other fields", option="schema_file")
        return after

    @cached_property
    def _schema(self) -> Text:
        return loaded(self.options.schema_file, "schema_file")


class DebeziumAvro(Format):
    """The envelopes of changes that Debezium writes in Avro; they become a changelog."""

    decoder = DebeziumAvroDecoder
