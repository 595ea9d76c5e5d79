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
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)
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
        columns = [f"{_field(column)} AS {quoted(column.name)}" for column in schema or ()]
        names = [column.name for column in schema or ()]
        if schema is None:
            columns, names = [f"__parsed AS {quoted(self.options.into)}"], [self.options.into]
        told = "rejected" in ctx.wanted
        # Spark counts the rows of this frame before anything is filtered, so no filter moves below
        # the projection and has the value parsed once more.
        frame = frame.select(
            *map(F.expr, reserved),
            *kept,
            F.col("value").alias("__raw"),
            F.expr("CAST(value AS STRING)").alias("__text"),
            self._parsed(schema).alias("__parsed"),
        ).selectExpr(
            *reserved,
            *columns,
            *map(quoted, self.options.keep),
            "__raw",
            f"{self._reason(schema, told=told)} AS __reason",
        )
        rejected = "IF(__reason IS NOT NULL, struct(__reason AS reason, __raw AS payload), NULL)"
        return frame.selectExpr(
            *reserved,
            *map(quoted, [*names, *self.options.keep]),
            "IF(__reason IS NOT NULL, 'rejected', NULL) AS _output",
            *([f"{rejected} AS _rejected"] if told else []),
        )

    def _parsed(self, schema: tuple[Column, ...] | None) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        text = F.expr("CAST(value AS STRING)")
        if schema is None:
            return F.try_parse_json(text)
        # Columns come back nullable whatever is declared: NOT NULL is checked by the reason.
        ddl = ", ".join(Column(column.name, column.type).ddl for column in schema)
        settings = {"columnNameOfCorruptRecord": "__corrupt", "mode": "PERMISSIVE"}
        if self.options.timestamp_format:
            settings["timestampFormat"] = self.options.timestamp_format
        ddl += ", __corrupt STRING"
        if self.options.format == "json":
            return F.from_json(text, ddl, {**settings, "allowSingleQuotes": "false"})
        return F.from_csv(text, ddl, {**settings, "sep": self.options.separator})

    def _reason(self, schema: tuple[Column, ...] | None, *, told: bool) -> str:
        """Return SQL over the parsed row that says why it is refused, or null.

        Args:
            told: whether anybody reads the reason; if not, any text will do.
        """
        options = self.options
        json = options.format == "json"
        full = [column for column in schema or () if not column.nullable]
        cases: list[tuple[str, str]] = []
        if json and "reject" not in (options.missing, options.extra):
            good = [_PLAIN, f"{_CORRUPT} IS NULL" if schema else "__parsed IS NOT NULL"]
            good += [f"{_field(column)} IS NOT NULL" for column in full]
            cases.append((" AND ".join(good), "NULL"))
        cases += [
            ("__raw IS NULL", "'the value is null'"),
            ("NOT is_valid_utf8(__text)", "'not UTF-8'"),
        ]
        if schema is None:
            cases += [("__parsed IS NULL", "'not JSON'"), (_TRAILING, f"'{_TRAILING_WORDS}'")]
        else:
            cases.append(("trim(__text) = ''", "'the value is empty'"))
            unparsed = f"{_CORRUPT} IS NOT NULL"
            if json and (told or options.types == "null"):
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
            cases += [(f"{_field(c)} IS NULL", _literal(f"{c.name} is null")) for c in full]
        branches = " ".join(
            f"WHEN {condition} THEN {words if told or words == 'NULL' else _literal('')}"
            for condition, words in cases
        )
        return f"CASE {branches} END"

    def _misfits(self, schema: tuple[Column, ...]) -> str:
        """Return SQL that names the columns whose text does not fit their types."""
        if self.options.format == "csv":
            return _literal(f"does not fit {len(schema)} columns of the schema")
        found = ", ".join(
            f"IF({_field(c)} IS NULL AND get_json_object(__text, {_literal(_path(c.name))}) IS NOT NULL, "
            f"{_literal(c.name + ' is no ' + str(c.type).upper())}, NULL)"
            for c in schema
        )
        listed = f"array_join(filter(array({found}), x -> x IS NOT NULL), ', ')"
        return f"coalesce(nullif({listed}, ''), 'does not fit the schema')"


#: True for nearly every row that is one flat object and UTF-8: nothing follows the first brace, and
#: nothing had to be replaced to read the bytes as text. What it is not true for may still be good.
_PLAIN = r"__text RLIKE '^[ \\t\\r\\n]*\\{[^}\\x{FFFD}]*+}[ \\t\\r\\n]*\\z'"
#: A JSON parser stops at the end of the first value. So the text is wrapped twice, as none can break
#: out of both wraps.
_TRAILING = (
    "NOT (json_array_length(concat('[', __text, ']')) <=> 1"
    " AND size(json_object_keys(concat('{\"v\":', __text, '}'))) <=> 1)"
)
_TRAILING_WORDS = "more text after the JSON value"


_CORRUPT = "__parsed.__corrupt"


def _field(column: Column) -> str:
    return f"__parsed.{quoted(column.name)}"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _path(name: str) -> str:
    return f"$['{name}']"
