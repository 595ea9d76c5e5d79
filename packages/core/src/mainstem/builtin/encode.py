"""Operator `encode`: columns become messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mainstem import (
    REJECTED,
    ArrowEncoder,
    Encoder,
    Events,
    Inputs,
    Needs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    ValueWriter,
    option,
)
from mainstem.arrays import arrow_call
from mainstem.attempts import Attempts, OnError, on_error_option, refusal, row_as_json
from mainstem.columns import Column
from mainstem.contracts.abilities import Branching, Checked, Expressions, Statement
from mainstem.contracts.columns import check_names, find_column
from mainstem.contracts.components import Find
from mainstem.contracts.ddl import short_form
from mainstem.contracts.formats import WRITTEN, FormattedOptions, with_format
from mainstem.contracts.shapes import (
    CHANGE_TYPE,
    CHANGELOG_COLUMNS,
    COMMIT_VERSION,
    MESSAGE_COLUMNS,
)
from mainstem.formats.words import Codec

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_DDL = {column.name: column for column in MESSAGE_COLUMNS}


class EncodeOptions(FormattedOptions):
    """Options of `encode`, to which those of the format are added."""

    compression: Codec | None = option(
        None,
        description="Compress each value: as one gzip member, one zstd or LZ4 frame, or one "
        "snappy block.",
    )
    columns: list[str] | None = option(
        None, min_length=1, description="The columns that go into the value; all when left out."
    )
    key: str | None = option(
        None,
        description="The message's key: an SQL expression. Its text; bytes stay as they are.",
        example="order_id",
    )
    headers: dict[str, str] = option(
        dict, description="Headers: SQL expressions by name, as `key` is; null leaves one out."
    )
    timestamp: str | None = option(
        None, description="The message's time: an SQL expression; null when left out."
    )
    origin: str | None = option(
        None,
        description="The topic, queue or subject to send to, for sinks that take it from the "
        "row: an SQL expression.",
    )
    keep: dict[str, str] = option(
        dict,
        description="More columns, beside the message's: SQL expressions, by name. A sink that keeps the "
        "order of the log goes by the source's `origin`, `partition` and `position`.",
        example={"partition": "partition", "position": "position"},
    )
    on_error: OnError = on_error_option()


class Encode(Operator, Branching, Expressions, Checked):
    """Turns columns into messages; a changelog's deletes become messages without a value.

    A changelog's sequence stays as a reserved column, for sinks that put messages of a key in order.
    """

    options: EncodeOptions
    option_kinds = {"format": "format"}
    capabilities = OperatorCapabilities(row_wise=True, keeps_names=False)

    def __init__(self, options: EncodeOptions) -> None:
        super().__init__(options)
        self.encoder = options.made(Encoder)  # type: ignore[type-abstract]

    def needs(self) -> Needs:
        return self.encoder.needs()

    @classmethod
    def options_for(cls, given: Mapping[str, Any], find: Find) -> type[Options]:
        return with_format(EncodeOptions, "encoder", given, find)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = self._columns(inputs.only)
        found = ((name, inputs.only.column(name)) for name in given)
        self.encoder.check([replace(column, name=name) for name, column in found if column])
        names = ["key", "value", "headers", "timestamp"]
        if self.options.origin:
            names.append("origin")
        columns = [Column(name, _DDL[name].type) for name in names]
        check_names(self.options.keep, "keep")
        for name, expression in self.options.keep.items():
            if name.lower() in names:
                raise OptionError(f"column {name!r} is the message's own", option="keep")
            source = inputs.only.column(expression.strip())
            columns.append(Column(name, source.type if source else None))
        return Events(columns)

    def expressions(self) -> Mapping[str, str]:
        options = self.options
        single = {"key": options.key, "timestamp": options.timestamp, "origin": options.origin}
        return {
            **{name: text for name, text in single.items() if text},
            **{f"headers.{name}": text for name, text in options.headers.items()},
            **{f"keep.{name}": text for name, text in options.keep.items()},
        }

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED} if self.options.on_error == "reject" else {}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        kept = {f"keep.{name}": name for name in self.options.keep}
        return [
            Statement(option, text, column=kept.get(option))
            for option, text in self.expressions().items()
        ]

    def _columns(self, shape: Shape) -> list[str]:
        wanted = self.options.columns
        if wanted is None:
            return list(shape.names)
        for name in wanted:
            find_column(shape.columns, name, "columns")
        return wanted

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        options = self.options
        frame = inputs.only
        reserved = [name for name in frame.columns if name.startswith("_")]
        names = options.columns or [name for name in frame.columns if name not in reserved]
        types = {f.name.lower(): short_form(f.dataType.jsonValue()) for f in frame.schema.fields}
        columns = [Column(name, types[name.lower()]) for name in names]
        self.encoder.check(columns)
        value = self.encoder.value(columns)
        flaw = "CAST(NULL AS STRING)"
        if isinstance(self.encoder, ArrowEncoder):
            flaw = f"{WRITTEN}.reason"
            if options.on_error == "fail":
                value = f"IF({flaw} IS NULL, {value}, raise_error(concat('encode: ', {flaw})))"
        if CHANGE_TYPE in reserved:
            frame = frame.where(f"{CHANGE_TYPE} != 'update_preimage'")
            value = f"IF({CHANGE_TYPE} = 'delete', NULL, {value})"
            flaw = f"IF({CHANGE_TYPE} = 'delete', NULL, {flaw})"
        expressions = dict(self.expressions()) if options.on_error == "reject" else {}
        if "timestamp" in expressions:  # text is cast, which may fail too
            expressions |= {"timestamp": f"CAST({options.timestamp} AS TIMESTAMP)"}
        tried = Attempts(expressions)
        given = list(frame.columns)
        if isinstance(self.encoder, ArrowEncoder):
            writing = _Writing(options.format, self.encoder.writer(columns))
            given_columns = map(F.expr, self.encoder.given(columns))
            # In one place: a filter above would else have each value written twice.
            written = arrow_call(writing, _WRITTEN_TYPE, *given_columns, once=True)
            frame = frame.select("*", written.alias(WRITTEN))
        frame = tried.onto(frame)

        def expression(key: str, text: str | None) -> SparkColumn:
            return F.expr(tried.value(key) if key in tried else text or "NULL")

        def as_bytes(value: SparkColumn) -> SparkColumn:
            return value.cast("string").cast("binary")  # which changes no bytes

        entries = [
            F.struct(
                F.lit(name).alias("key"),
                as_bytes(expression(f"headers.{name}", text)).alias("value"),
            )
            for name, text in options.headers.items()
        ]
        headers = (
            F.map_from_entries(
                F.filter(F.array(*entries), lambda entry: entry["value"].isNotNull())
            )
            if entries
            else F.lit(None).cast("map<string,binary>")
        )
        message = {
            "key": as_bytes(expression("key", options.key)),
            "value": self._compressed(F.expr(value).cast("binary")),
            "headers": headers,
            "timestamp": expression("timestamp", options.timestamp).cast("timestamp"),
        }
        if options.origin:
            message["origin"] = expression("origin", options.origin).cast("string")
        message |= {name: expression(f"keep.{name}", text) for name, text in options.keep.items()}
        kept = [n for n in reserved if n not in CHANGELOG_COLUMNS or n == COMMIT_VERSION]
        columns_made = [column.alias(name) for name, column in message.items()]
        if options.on_error == "fail":
            return frame.select(*kept, *columns_made)
        told = refusal("_why", row_as_json(given), wanted="rejected" in ctx.wanted)
        return frame.withColumn("_why", F.expr(f"coalesce({tried.failure()}, {flaw})")).select(
            *kept, *columns_made, *map(F.expr, told)
        )

    def _compressed(self, value: SparkColumn) -> SparkColumn:
        codec = self.options.compression
        return value if codec is None else arrow_call(_Compressing(codec), "BINARY", value)


_WRITTEN_TYPE = "STRUCT<value: BINARY, reason: STRING>"


class _Writing:
    """What Spark sends to its workers to write values."""

    def __init__(self, word: str, writer: ValueWriter) -> None:
        self._writer: Any = writer
        self.__name__ = f"write_{re.sub('[^a-z0-9]', '_', word.lower())}"

    def __call__(self, *arrays: Any) -> Any:
        from mainstem.formats.arrow import pa

        values, reasons = _opened(self._writer)(*arrays)
        return pa.StructArray.from_arrays(
            [values, pa.array(reasons, pa.string())], ["value", "reason"]
        )


@lru_cache(maxsize=64)
def _opened(writer: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = writer.open()
    return made


class _Compressing:
    """What Spark sends to its workers to compress values."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.__name__ = f"compress_{codec}"

    def __call__(self, values: Any) -> Any:
        from mainstem.formats.compression import compress

        return compress(values, self._codec)
