"""Operator `decode`: the bytes of a message become columns; what does not fit goes to `rejected`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from mainstem import (
    MESSAGES,
    REJECTED,
    Changelog,
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
    literal,
    option,
    quoted,
)
from mainstem.builtin import far_times
from mainstem.builtin.far_times import far_time
from mainstem.builtin.huge_numbers import WORDS, beside_strings, huge_number
from mainstem.builtin.json_text import (
    EMPTY,
    MORE_TEXT,
    NO_OBJECT,
    NOT_JSON,
    NOT_UTF8,
    NULL,
    PLAIN,
)
from mainstem.contracts.columns import check_names, find_column

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_POSITION = "position"


class DecodeOptions(Options):
    """Options of `decode`."""

    format: Literal["json", "csv", "debezium-json"] = option(
        description="How the value is written. `debezium-json`: the envelopes of changes that "
        "Debezium writes, with or without schemas in them; they become a changelog.",
    )
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
        description="A value of another type, or a time beyond the years 1 to 9999: `strict` refuses "
        "the row, `null` reads it as null.",
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
    key: list[str] | None = option(
        None, min_length=1, description="debezium-json: the columns of the table's key."
    )
    sequence: str = option(
        _POSITION,
        description="debezium-json: the column, one of `keep` or the message column `position`, that "
        "only grows for a key.",
    )
    preimages: bool = option(
        True,
        description="debezium-json: whether the rows as they were before come out too. A table of "
        "PostgreSQL must have REPLICA IDENTITY FULL for that: else updates are refused, and of a deleted "
        "row only the key is true. Without pre-images a deletion tells the key alone.",
    )
    timestamp_unit: Literal["micros", "millis"] = option(
        "micros",
        description="debezium-json: what a number counts where the schema has a TIMESTAMP. "
        "Times that are written as text need no unit.",
    )


class Decode(Operator):
    """Turns messages into columns by a schema; what does not decode goes to `rejected`."""

    options: DecodeOptions
    ports = {"input": MESSAGES}

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """A message is one row, but an envelope can tell of two."""
        return OperatorCapabilities(row_wise=True, keeps_rows=not self._envelopes)

    @property
    def _envelopes(self) -> bool:
        return self.options.format == "debezium-json"

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        options = self.options
        if options.format != "json" and options.table_schema is None:
            raise OptionError(f"{options.format} needs a `schema`", option="format")
        for name, formats in _ONLY.items():
            default = type(options).model_fields[name].default
            if getattr(options, name) != default and options.format not in formats:
                message = f"is for {' and '.join(formats)}, not {options.format}"
                raise OptionError(message, option=name)
        columns = list(options.table_schema or (Column(options.into, "variant", nullable=False),))
        names = {column.name.lower() for column in columns}
        check_names([options.into], "into")
        check_names(options.keep, "keep")
        for name, expression in options.keep.items():
            if name.lower() in names:
                raise OptionError(f"column {name!r} is already in the schema", option="keep")
            source = inputs.only.column(expression.strip())
            columns.append(Column(name, source.type if source else None))
        return self._changelog(columns, inputs.only) if self._envelopes else Events(columns)

    def _changelog(self, columns: list[Column], given: Shape) -> Changelog:
        options = self.options
        if not options.key:
            raise OptionError("debezium-json needs a `key`", option="key")
        for name in options.key:
            find_column(options.table_schema or (), name, "key")
        if options.sequence not in options.keep:
            if options.sequence != _POSITION:
                hint = f"Kept are: {', '.join([*options.keep, _POSITION])}."
                raise OptionError(f"{options.sequence!r} is not kept", option="sequence", hint=hint)
            position = given.column(_POSITION)
            declared = {column.name.lower() for column in options.table_schema or ()}
            if position is None or _POSITION in declared:
                hint = "Keep one under another name, and name that."
                raise OptionError(
                    "the messages have no `position` to keep", option="sequence", hint=hint
                )
            columns = [*columns, position]
        if not options.preimages:  # a deletion tells the key alone
            keys = {name.lower() for name in options.key}
            columns = [c if c.name.lower() in keys else replace(c, nullable=True) for c in columns]
        return Changelog(columns, options.key, options.sequence, preimages=options.preimages)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def expressions(self) -> Mapping[str, str]:
        return {f"keep.{name}": text for name, text in self.options.keep.items()}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        frame = inputs.only
        if self._envelopes:
            return self._changes(frame, told="rejected" in ctx.wanted)
        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        kept = [F.expr(text).alias(name) for name, text in self.options.keep.items()]
        schema = self.options.table_schema
        columns = [f"{self._value(column)} AS {quoted(column.name)}" for column in schema or ()]
        names = [column.name for column in schema or ()]
        if schema is None:
            columns, names = [f"__parsed AS {quoted(self.options.into)}"], [self.options.into]
        told, huge = "rejected" in ctx.wanted, self._huge(schema)
        # Spark counts the rows of this frame before anything is filtered, so no filter moves below
        # the projection and has the value parsed once more.
        frame = frame.select(
            *map(F.expr, reserved),
            *kept,
            F.col("value").alias("__raw"),
            F.expr("CAST(value AS STRING)").alias("__text"),
            *([F.expr(huge).alias("__huge")] if huge else []),
            self._parsed(schema, huge).alias("__parsed"),
        ).selectExpr(
            *reserved,
            *columns,
            *map(quoted, self.options.keep),
            "__raw",
            f"{self._reason(schema, told=told, huge=huge is not None)} AS __reason",
        )
        rejected = "IF(__reason IS NOT NULL, struct(__reason AS reason, __raw AS payload), NULL)"
        return frame.selectExpr(
            *reserved,
            *map(quoted, [*names, *self.options.keep]),
            "IF(__reason IS NOT NULL, 'rejected', NULL) AS _output",
            *([f"{rejected} AS _rejected"] if told else []),
        )

    def _changes(self, frame: DataFrame, *, told: bool) -> DataFrame:
        from mainstem.builtin.debezium import Envelopes

        options = self.options
        sequence = options.sequence
        envelopes = Envelopes(
            options.table_schema or (),
            options.keep if sequence in options.keep else {**options.keep, _POSITION: _POSITION},
            options.key or (),
            sequence,
            preimages=options.preimages,
            unit=options.timestamp_unit,
        )
        return envelopes.changes(frame, told=told)

    def _huge(self, schema: tuple[Column, ...] | None) -> str | None:
        """Return SQL over `value`: whether it is not to be parsed; None if the schema has no DECIMAL."""
        text, beside = "CAST(value AS STRING)", "false"
        if self.options.format == "json":  # of text that is broken, Spark parses the first part
            beside = f"try_parse_json({text}) IS NULL OR {beside_strings(text)}"
        return huge_number(text, schema or (), self._parsed_as_text, beside)

    def _parsed_as_text(self, text: str, ddl: str) -> str:
        """Return SQL that parses a text by a DDL without DECIMAL; what is broken gives nulls."""
        if self.options.format == "json":
            return f"from_json({text}, {literal(ddl)}, map('allowSingleQuotes', 'false'))"
        return f"from_csv({text}, {literal(ddl)}, map('sep', {literal(self.options.separator)}))"

    def _parsed(self, schema: tuple[Column, ...] | None, huge: str | None) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        plain = "CAST(value AS STRING)"
        text = F.expr(f"IF({huge}, NULL, {plain})" if huge else plain)
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

    def _value(self, column: Column) -> str:
        """Return SQL for the value of a column; without `strict`, times too far away are none."""
        far = None if self.options.types == "strict" else _far(column)
        return f"IF({far}, NULL, {_field(column)})" if far else _field(column)

    def _reason(self, schema: tuple[Column, ...] | None, *, told: bool, huge: bool) -> str:
        """Return SQL over the parsed row that says why it is refused, or null.

        Args:
            told: whether anybody reads the reason; if not, any text will do.
            huge: whether there is a column `__huge`.
        """
        options = self.options
        json = options.format == "json"
        full = [column for column in schema or () if not column.nullable]
        strict = options.types == "strict"
        far = [(found, c) for c in schema or () if strict and (found := _far(c))]
        cases: list[tuple[str, str]] = []
        if huge:
            if json:
                cases.append((f"__huge AND {NOT_JSON[0]}", NOT_JSON[1]))
            cases.append(("__huge", WORDS))
        if json and "reject" not in (options.missing, options.extra):
            good = [PLAIN, f"{_CORRUPT} IS NULL" if schema else "__parsed IS NOT NULL"]
            good += [f"{self._value(column)} IS NOT NULL" for column in full]
            good += [f"NOT coalesce({found}, false)" for found, _ in far]
            cases.append((" AND ".join(good), "NULL"))
        cases += [NULL, NOT_UTF8]
        if schema is None:
            cases += [("__parsed IS NULL", NOT_JSON[1]), MORE_TEXT]
        else:
            cases.append(EMPTY)
            unparsed = f"{_CORRUPT} IS NOT NULL"
            if json and (told or options.types == "null"):
                cases += [
                    (f"{unparsed} AND {found}", words) for found, words in (NOT_JSON, NO_OBJECT)
                ]
            if strict:
                cases.append((unparsed, self._misfits(schema)))
            if json:
                cases.append(MORE_TEXT)
            names = ", ".join(literal(column.name) for column in schema)
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
            cases += [(found, literal(f"{c.name} {far_times.WORDS}")) for found, c in far]
            cases += [(f"{self._value(c)} IS NULL", literal(f"{c.name} is null")) for c in full]
        branches = " ".join(
            f"WHEN {condition} THEN {words if told or words == 'NULL' else literal('')}"
            for condition, words in cases
        )
        return f"CASE {branches} END"

    def _misfits(self, schema: tuple[Column, ...]) -> str:
        """Return SQL that names the columns whose text does not fit their types."""
        if self.options.format == "csv":
            return literal(f"does not fit {len(schema)} columns of the schema")
        found = ", ".join(
            f"IF({_field(c)} IS NULL AND get_json_object(__text, {literal(_path(c.name))}) IS NOT NULL, "
            f"{literal(c.name + ' is no ' + str(c.type).upper())}, NULL)"
            for c in schema
        )
        listed = f"array_join(filter(array({found}), x -> x IS NOT NULL), ', ')"
        return f"coalesce(nullif({listed}, ''), 'does not fit the schema')"


#: Options that are for some formats alone.
_ONLY = {
    "types": ("json", "csv"),
    "timestamp_format": ("json", "csv"),
    "missing": ("json",),
    "extra": ("json",),
    "key": ("debezium-json",),
    "sequence": ("debezium-json",),
    "preimages": ("debezium-json",),
    "timestamp_unit": ("debezium-json",),
}
_CORRUPT = "__parsed.__corrupt"


def _field(column: Column) -> str:
    return f"__parsed.{quoted(column.name)}"


def _far(column: Column) -> str | None:
    return far_time(_field(column), column.type)


def _path(name: str) -> str:
    return f"$['{name}']"
