"""Operator `encode`: columns become messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from mainstem import (
    Column,
    Events,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    option,
    quoted,
)
from mainstem.contracts.columns import check_names, find_column
from mainstem.contracts.shapes import (
    CHANGE_TYPE,
    CHANGELOG_COLUMNS,
    COMMIT_VERSION,
    MESSAGE_COLUMNS,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DDL = {column.name: column for column in MESSAGE_COLUMNS}


class EncodeOptions(Options):
    """Options of `encode`."""

    format: Literal["json", "csv", "raw"] = option(
        description="How the value is written; `raw` takes the only column as it is."
    )
    columns: list[str] | None = option(
        None, min_length=1, description="The columns that go into the value; all when left out."
    )
    key: str | None = option(
        None, description="The message's key: an SQL expression, cast to bytes.", example="order_id"
    )
    headers: dict[str, str] = option(
        dict, description="Headers: SQL expressions by name, cast to bytes; null leaves one out."
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


class Encode(Operator):
    """Turns columns into messages; a changelog's deletes become messages without a value.

    A changelog's sequence stays as a reserved column, for sinks that put messages of a key in order.
    """

    options: EncodeOptions
    capabilities = OperatorCapabilities(row_wise=True)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = self._columns(inputs.only)
        if self.options.format == "raw" and len(given) != 1:
            raise OptionError(f"raw takes one column, not {', '.join(given)}", option="columns")
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
        packed = f"struct({', '.join(map(quoted, names))})"
        value = {
            "json": f"to_json({packed})",
            "csv": f"to_csv({packed})",
            "raw": quoted(names[0]),
        }[options.format]
        if CHANGE_TYPE in reserved:
            frame = frame.where(f"{CHANGE_TYPE} != 'update_preimage'")
            value = f"IF({CHANGE_TYPE} = 'delete', NULL, {value})"
        entries = [
            F.struct(F.lit(name).alias("key"), F.expr(text).cast("binary").alias("value"))
            for name, text in options.headers.items()
        ]
        headers = (
            F.map_from_entries(
                F.filter(F.array(*entries), lambda entry: entry["value"].isNotNull())
            )
            if entries
            else F.lit(None).cast("map<string,binary>")
        )
        columns = {
            "key": F.expr(options.key or "NULL").cast("binary"),
            "value": F.expr(value).cast("binary"),
            "headers": headers,
            "timestamp": F.expr(options.timestamp or "NULL").cast("timestamp"),
        }
        if options.origin:
            columns["origin"] = F.expr(options.origin).cast("string")
        columns |= {name: F.expr(text) for name, text in options.keep.items()}
        return frame.select(
            *(name for name in reserved if name not in CHANGELOG_COLUMNS or name == COMMIT_VERSION),
            *(column.alias(name) for name, column in columns.items()),
        )
