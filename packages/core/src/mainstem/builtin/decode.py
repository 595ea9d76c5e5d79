"""Operator `decode`: the bytes of a message become columns; what does not fit goes to `rejected`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from mainstem import (
    MESSAGES,
    REJECTED,
    Column,
    Events,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Schema,
    Shape,
    option,
    quoted,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame


class DecodeOptions(Options):
    """Options of `decode`."""

    format: Literal["json", "csv"] = option(description="How the value is written.")
    table_schema: Schema | None = option(
        None,
        alias="schema",
        description="The columns. NOT NULL ones must have a value. Without a schema, json becomes "
        "one VARIANT column.",
        example="order_id STRING NOT NULL, cents BIGINT",
    )
    into: str = option(
        "value", min_length=1, description="The name of the VARIANT column, without a schema."
    )
    keep: dict[str, str] = option(
        dict,
        description="More columns: SQL expressions over the message columns, by name.",
        example={"event": "CAST(headers['X-GitHub-Event'] AS STRING)"},
    )
    types: Literal["strict", "null"] = option(
        "strict",
        description="A value of another type: `strict` refuses the row, `null` reads it as null.",
    )
    missing: Literal["null", "reject"] = option(
        "null", description="A column that json does not have: null, or the row is refused."
    )
    extra: Literal["ignore", "reject"] = option(
        "ignore",
        description="A field that the schema does not have: ignored, or the row is refused.",
    )
    separator: str = option(",", min_length=1, description="What stands between the values in csv.")
    timestamp_format: str | None = option(
        None,
        description="Spark's pattern for TIMESTAMP columns; ISO 8601 when left out. Times without a "
        "zone are UTC.",
    )


class Decode(Operator):
    """Turns messages into columns by a schema; what does not decode goes to `rejected`."""

    options: DecodeOptions
    capabilities = OperatorCapabilities(row_wise=True)
    ports = {"input": MESSAGES}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        options = self.options
        if options.format == "csv":
            if options.table_schema is None:
                raise OptionError("csv needs a `schema`", option="format")
            for name in ("missing", "extra"):
                if getattr(options, name) == "reject":
                    raise OptionError("is for json: csv always has every column", option=name)
        columns = list(options.table_schema or (Column(options.into, "variant", nullable=False),))
        names = {column.name.lower() for column in columns}
        for name, expression in options.keep.items():
            if name.lower() in names:
                raise OptionError(f"column {name!r} is already in the schema", option="keep")
            source = inputs.only.column(expression.strip())
            columns.append(Column(name, source.type if source else None))
        return Events(columns)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def expressions(self) -> Mapping[str, str]:
        return {f"keep.{name}": text for name, text in self.options.keep.items()}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        frame = inputs.only
        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        kept = [F.expr(text).alias(name) for name, text in self.options.keep.items()]
        schema = self.options.table_schema
        fields = [f"__{i}" for i in range(len(schema or ()))]
        # `inline` yields the parsed struct as columns: unlike a projection it is never evaluated
        # twice, whatever is filtered on it below.
        parsed = (
            F.inline(F.array(self._parsed(schema))).alias(*fields, "__corrupt")
            if schema
            else F.try_parse_json(F.expr("CAST(value AS STRING)")).alias("__variant")
        )
        frame = frame.select(
            *map(F.expr, reserved),
            *kept,
            F.col("value").alias("__raw"),
            F.expr("CAST(value AS STRING)").alias("__text"),
            parsed,
        )
        reason = self._reason(schema)
        names = [column.name for column in schema or ()] or [self.options.into]
        columns = [
            F.col(field).alias(name)
            for field, name in zip(fields or ["__variant"], names, strict=True)
        ]
        return frame.select(
            *map(F.expr, (*reserved, *map(quoted, self.options.keep))),
            *columns,
            "__raw",
            reason.alias("__reason"),
        ).selectExpr(
            *reserved,
            *map(quoted, [*names, *self.options.keep]),
            "IF(__reason IS NOT NULL, 'rejected', NULL) AS _output",
            "IF(__reason IS NOT NULL, struct(__reason AS reason, __raw AS payload), NULL)"
            " AS _rejected",
        )

    def _parsed(self, schema: tuple[Column, ...]) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        # Columns come back nullable whatever is declared: NOT NULL is checked by the reason.
        ddl = ", ".join(Column(column.name, column.type).ddl for column in schema)
        ddl += ", __corrupt STRING"
        settings = {"columnNameOfCorruptRecord": "__corrupt", "mode": "PERMISSIVE"}
        if self.options.timestamp_format:
            settings["timestampFormat"] = self.options.timestamp_format
        text = F.expr("CAST(value AS STRING)")
        if self.options.format == "json":
            return F.from_json(text, ddl, settings)
        return F.from_csv(text, ddl, {**settings, "sep": self.options.separator})

    def _reason(self, schema: tuple[Column, ...] | None) -> SparkColumn:
        """Return why a row is refused, or null: a column over the parsed row."""
        from pyspark.sql import functions as F  # noqa: N812

        options = self.options
        json = options.format == "json"
        cases: list[tuple[str, str]] = [
            ("__raw IS NULL", "'the value is null'"),
            ("NOT is_valid_utf8(__text)", "'not UTF-8'"),
        ]
        if schema is None:
            cases += [("__variant IS NULL", "'not JSON'"), (_TRAILING, f"'{_TRAILING_WORDS}'")]
        else:
            cases.append(("trim(__text) = ''", "'the value is empty'"))
            unparsed = "__corrupt IS NOT NULL"
            if json:
                cases.append((f"{unparsed} AND try_parse_json(__text) IS NULL", "'not JSON'"))
                cases.append(
                    (f"{unparsed} AND json_object_keys(__text) IS NULL", "'no JSON object'")
                )
            if options.types == "strict":
                cases.append((unparsed, self._misfits(schema)))
            if json:
                cases.append((_TRAILING, f"'{_TRAILING_WORDS}'"))
            names = ", ".join(_literal(column.name) for column in schema)
            for wanted, difference, words in (
                (
                    options.missing,
                    f"array_except(array({names}), json_object_keys(__text))",
                    "missing",
                ),
                (
                    options.extra,
                    f"array_except(json_object_keys(__text), array({names}))",
                    "unknown",
                ),
            ):
                if wanted == "reject":
                    cases.append(
                        (
                            f"size({difference}) > 0",
                            f"concat('{words}: ', array_join({difference}, ', '))",
                        )
                    )
            for index, column in enumerate(schema):
                if not column.nullable:
                    cases.append((f"__{index} IS NULL", _literal(f"{column.name} is null")))
        branches = " ".join(f"WHEN {condition} THEN {words}" for condition, words in cases)
        return F.expr(f"CASE {branches} END")

    def _misfits(self, schema: tuple[Column, ...]) -> str:
        """Return SQL that names the columns whose text does not fit their types."""
        if self.options.format == "csv":
            return _literal(f"does not fit {len(schema)} columns of the schema")
        found = ", ".join(
            f"IF(__{i} IS NULL AND get_json_object(__text, {_literal(_path(c.name))}) IS NOT NULL, "
            f"{_literal(c.name + ' is no ' + str(c.type).upper())}, NULL)"
            for i, c in enumerate(schema)
        )
        listed = f"array_join(filter(array({found}), x -> x IS NOT NULL), ', ')"
        return f"coalesce(nullif({listed}, ''), 'does not fit the schema')"


#: A JSON parser stops at the end of the first value. A flat object ends at its first brace, so most
#: rows need no second look; the rest are wrapped twice, as no text can break out of both wraps.
_TRAILING = (
    "locate('}', __text) != length(trim(TRAILING ' \\t\\r\\n' FROM __text))"
    " AND NOT (json_array_length(concat('[', __text, ']')) <=> 1"
    " AND size(json_object_keys(concat('{\"v\":', __text, '}'))) <=> 1)"
)
_TRAILING_WORDS = "more text after the JSON value"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _path(name: str) -> str:
    return f"$['{name}']"
