"""Operator `decode`: the bytes of a message become columns; what does not fit goes to `rejected`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from mainstem import (
    MESSAGES,
    REJECTED,
    Changelog,
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
)
from mainstem.builtin.decoding import NO_VARIANT, Decoding, with_variants
from mainstem.builtin.format_options import (
    DecimalMark,
    FixedField,
    Times,
    check_csv,
    check_fixed,
    check_readable,
    codec,
    decimal_option,
    encoding_option,
    separator_option,
    thousands_option,
)
from mainstem.columns import Column, literal, quoted
from mainstem.contracts.abilities import Branching, Checked, Expressions, Statement
from mainstem.contracts.columns import check_names, find_column
from mainstem.contracts.options import Size
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from mainstem.formats.rules import Rules
from mainstem.formats.syslog_columns import SYSLOG
from mainstem.formats.words import Codec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POSITION = "position"
#: What is in an envelope of SNS.
_UNWRAPPED = "CAST(get_json_object(CAST(value AS STRING), '$.Message') AS BINARY)"
TimeUnit = Literal["micros", "millis"]
_UNITS: Mapping[TimeUnit, str] = {"micros": "us", "millis": "ms"}


class DecodeOptions(Options):
    """Options of `decode`."""

    format: Literal["json", "csv", "fixed", "syslog", "debezium-json"] = option(
        description="How the value is written. `fixed`: a record whose values stand at fixed places "
        "(`fields`); `syslog`: a line of RFC 5424 or 3164, whose columns are known; `debezium-json`: the "
        "envelopes of changes that Debezium writes, with or without schemas in them; they become a "
        "changelog.",
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
    tombstones: Literal["reject", "null"] = option(
        "reject",
        description="A message without a value: `reject` refuses it, `null` makes it a row of nulls "
        "beside what `keep` has, such as its key: in a compacted log it says that the key is gone.",
    )
    envelope: Literal["sns"] | None = option(
        None,
        description="What the value is wrapped in: `sns`, the JSON that Amazon SNS makes of a message. "
        "What is in it is decoded; `value` in `keep` is that, too.",
    )
    separator: str = separator_option()
    decimal: DecimalMark = decimal_option()
    thousands: str = thousands_option()
    encoding: str = encoding_option()
    text_numbers: bool = option(
        False, description='json: whether a text (`"1.50"`) may stand for a number.'
    )
    times: Times = option(
        Times, description="How times are written, where they are no ISO 8601 text."
    )
    timestamp_format: str | None = option(
        None,
        description="Spark's pattern for TIMESTAMP columns (not for those inside other values); ISO 8601 "
        "when left out. Times without a zone are UTC.",
    )
    compression: Codec | None = option(
        None,
        description="How each value is compressed: as one gzip member, one zstd or LZ4 frame, or "
        "one snappy block.",
    )
    max_size: Size = option(
        "64 MiB",
        validate_default=True,
        advanced=True,
        description="The most that a compressed value may become; a larger one is refused.",
    )
    fields: dict[str, FixedField] = option(
        dict,
        description="fixed: where each column of the schema stands in a record.",
        example={"price": {"at": 32, "type": "uint32", "scale": 4}},
    )
    length: int | None = option(
        None,
        gt=0,
        description="fixed: how many bytes a record has at most; any number when left out.",
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
    timestamp_unit: TimeUnit | dict[str, TimeUnit] = option(
        "micros",
        description="debezium-json: what a number counts where the schema has a TIMESTAMP: everywhere, "
        "or by column, where the others count micros (MySQL's DATETIME(3) millis, its DATETIME(6) "
        "micros). Times that are written as text need no unit, and a message with a schema says its own.",
        example={"created": "millis"},
    )
    plain_decimals: bool = option(
        False,
        description="debezium-json: messages without a schema have decimals in digits "
        "(`decimal.handling.mode` is `string`); else a text that could be bytes too is refused.",
    )


class Decode(Operator, Branching, Expressions, Checked):
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
        if options.format not in ("json", "syslog") and options.table_schema is None:
            raise OptionError(f"{options.format} needs a `schema`", option="format")
        if options.format == "syslog" and options.table_schema is not None:
            raise OptionError("syslog has columns of its own", option="schema")
        for name, formats in _ONLY.items():
            if name in options.model_fields_set and options.format not in formats:
                message = f"is for {' and '.join(formats)}, not {options.format}"
                raise OptionError(message, option=name)
        if options.envelope is not None and options.format == "debezium-json":
            raise OptionError("debezium-json is not in envelopes of others", option="envelope")
        if options.format == "fixed":
            check_fixed(options.table_schema or (), options.fields)
        else:
            check_readable(options.table_schema or (), options.format)
        check_csv(options.encoding, options.thousands, options.decimal)
        columns = list(self._columns)
        if options.tombstones == "null":
            columns = [replace(column, nullable=True) for column in columns]
        names = {column.name.lower() for column in columns}
        check_names([options.into], "into")
        check_names(options.keep, "keep")
        for name, expression in options.keep.items():
            if name.lower() in names:
                raise OptionError(f"column {name!r} is already in the schema", option="keep")
            source = inputs.only.column(expression.strip())
            columns.append(Column(name, source.type if source else None))
        return self._changelog(columns, inputs.only) if self._envelopes else Events(columns)

    @property
    def _columns(self) -> Sequence[Column]:
        """The columns that are read of values."""
        if self.options.format == "syslog":
            return SYSLOG
        return self.options.table_schema or (Column(self.options.into, "variant", nullable=False),)

    def _changelog(self, columns: list[Column], given: Shape) -> Changelog:
        options = self.options
        if not options.key:
            raise OptionError("debezium-json needs a `key`", option="key")
        for name in options.key:
            find_column(options.table_schema or (), name, "key")
        self._units(options.table_schema or ())
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

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        keep = self.options.keep
        return [Statement(f"keep.{name}", text, column=name) for name, text in keep.items()]

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        frame = inputs.only
        told = "rejected" in ctx.wanted
        if self._envelopes:
            return self._changes(frame, told=told)
        whole = "value"
        if self.options.envelope is not None:
            whole = "__whole"
            frame = frame.withColumn(whole, F.col("value")).withColumn("value", F.expr(_UNWRAPPED))
        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        kept = [F.expr(text).alias(name) for name, text in self.options.keep.items()]
        decoding = self._decoding()
        columns = decoding.columns
        reason = self._reason(decoding)
        if self.options.tombstones == "null":
            reason = f"IF(__raw IS NULL, NULL, {reason})"
        if self.options.envelope is not None:
            unlike = "__within IS NULL AND __raw IS NOT NULL"
            reason = f"IF({unlike}, 'it is no envelope of SNS', {reason})"
        # Spark counts the rows of this frame before anything is filtered, so no filter moves below
        # the projection and has the value read once more.
        frame = frame.select(
            *map(F.expr, reserved),
            *kept,
            F.col(whole).alias("__raw"),
            *([F.col("value").alias("__within")] if self.options.envelope else []),
            decoding.call(F.col("value")).alias("__read"),
        ).selectExpr(
            *reserved,
            *(
                f"{value} AS {quoted(c.name)}"
                for c, value in zip(columns, self._values(decoding), strict=True)
            ),
            *map(quoted, self.options.keep),
            "__raw",
            f"{reason} AS __reason",
        )
        rejected = "IF(__reason IS NOT NULL, struct(__reason AS reason, __raw AS payload), NULL)"
        return frame.selectExpr(
            *reserved,
            *map(quoted, [*(c.name for c in columns), *self.options.keep]),
            "IF(__reason IS NOT NULL, 'rejected', NULL) AS _output",
            *([f"{rejected} AS _rejected"] if told else []),
        )

    def _units(self, columns: Sequence[Column]) -> tuple[str, ...]:
        """Return what a number counts in each column of an envelope's rows."""
        given = self.options.timestamp_unit
        if isinstance(given, str):
            return tuple(_UNITS[given] for _ in columns)
        by_column = {
            find_column(columns, name, "timestamp_unit").name: unit for name, unit in given.items()
        }
        return tuple(_UNITS[by_column.get(column.name, "micros")] for column in columns)

    def _decoding(self) -> Decoding:
        options = self.options
        schema = options.table_schema
        columns = tuple(self._columns)
        unit = options.times.unit
        given: dict[str, Any] = {}
        rules = Rules(unit=unit)
        if self._envelopes:
            given = {
                "key": tuple(options.key or ()),
                "preimages": options.preimages,
                "units": self._units(columns),
                "plain_decimals": options.plain_decimals,
            }
        elif options.format == "csv":
            given = {"separator": options.separator, "encoding": codec(options.encoding)}
            rules = Rules(options.decimal, options.thousands, unit)
        elif options.format == "fixed":
            places = tuple(options.fields[column.name].place() for column in columns)
            given = {"places": places, "most": options.length}
        elif options.format == "syslog":
            pass
        elif schema is None:
            given = {"any": True}
        else:
            given = {
                "missing": options.missing == "null",
                "extra": options.extra == "ignore",
                "text_numbers": options.text_numbers,
            }
        if options.format in ("json", "csv") and schema is not None:
            given["loose"] = options.types == "null"
            given["patterned"] = options.timestamp_format is not None
        return Decoding(
            options.format,
            columns,
            rules,
            options.compression or "",
            options.max_size,
            tuple(given.items()),
        )

    def _values(self, decoding: Decoding) -> list[str]:
        """Return SQL for the columns, over what was read."""
        values = []
        for number, column in enumerate(decoding.columns):
            read, kind = f"__read.c{number}", column.type or ""
            if decoding.patterned and kind == "timestamp":
                pattern = literal(self.options.timestamp_format or "")
                values.append(_near(f"try_to_timestamp({read}, {pattern})"))
            else:
                values.append(with_variants(read, kind))
        return values

    def _reason(self, decoding: Decoding) -> str:
        """Return SQL for why a row is refused, null if it is not."""
        cases = ["WHEN __read.reason IS NOT NULL THEN __read.reason"]
        values = self._values(decoding)
        for number, (column, value) in enumerate(zip(decoding.columns, values, strict=True)):
            kind = column.type or ""
            pattern = decoding.patterned and kind == "timestamp"
            missing = f"__read.c{number} IS NOT NULL AND {value} IS NULL"
            if pattern and self.options.types == "strict":
                words = literal(f"{column.name} is no TIMESTAMP")
                cases.append(f"WHEN {missing} THEN {words}")
            elif pattern and not column.nullable:
                cases.append(f"WHEN {value} IS NULL THEN {literal(f'{column.name} is null')}")
            elif kind == "variant":
                words = literal(f"{column.name} {NO_VARIANT}")
                cases.append(f"WHEN {missing} THEN {words}")
        return f"CASE {' '.join(cases)} END"

    def _changes(self, frame: DataFrame, *, told: bool) -> DataFrame:
        """Return the changes of each message: a row each, and one for a message that is refused."""
        from pyspark.sql import functions as F  # noqa: N812

        options = self.options
        sequence = options.sequence
        keep = options.keep if sequence in options.keep else {**options.keep, _POSITION: _POSITION}
        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        key = F.col("key") if "key" in frame.columns else F.lit(None).cast("binary")
        decoding = self._decoding()
        columns = decoding.columns
        variants = [n for n, c in enumerate(columns) if c.type == "variant"]
        unread = " ".join(
            f"WHEN exists(__read.changes, c -> c.c{n} IS NOT NULL AND try_parse_json(c.c{n}) IS NULL) "
            f"THEN {literal(f'{columns[n].name} {NO_VARIANT}')}"
            for n in variants
        )
        missing = f"WHEN {quoted(sequence)} IS NULL THEN {literal(f'{sequence} is null')}"
        good = "__reason IS NULL"
        return (
            frame.select(
                *map(F.expr, reserved),
                *(F.expr(text).alias(name) for name, text in keep.items()),
                F.col("value").alias("__raw"),
                decoding.call(F.col("value"), key).alias("__read"),
            )
            .selectExpr("*", f"CASE {missing} {unread} ELSE __read.reason END AS __reason")
            .selectExpr("*", f"explode(IF({good}, __read.changes, array(NULL))) AS __change")
            .selectExpr(
                *reserved,
                *(
                    f"{with_variants(f'__change.c{n}', c.type or '')} AS {quoted(c.name)}"
                    for n, c in enumerate(columns)
                ),
                *map(quoted, keep),
                f"__change.type AS {CHANGE_TYPE}",
                f"{quoted(sequence)} AS {COMMIT_VERSION}",
                f"__read.at AS {COMMIT_TIMESTAMP}",
                f"IF({good}, NULL, 'rejected') AS _output",
                *(
                    [f"IF({good}, NULL, struct(__reason AS reason, __raw AS payload)) AS _rejected"]
                    if told
                    else []
                ),
            )
        )


def _near(value: str) -> str:
    """Return SQL for a TIMESTAMP that is null beyond the years 1 to 9999."""
    limits = "TIMESTAMP '0001-01-01 00:00:00Z' AND TIMESTAMP '9999-12-31 23:59:59.999999Z'"
    return f"IF({value} BETWEEN {limits}, {value}, NULL)"


#: Options that are for some formats alone.
_ONLY = {
    "types": ("json", "csv"),
    "times": ("json", "csv"),
    "fields": ("fixed",),
    "length": ("fixed",),
    "into": ("json",),
    "separator": ("csv",),
    "decimal": ("csv",),
    "thousands": ("csv",),
    "encoding": ("csv",),
    "text_numbers": ("json",),
    "plain_decimals": ("debezium-json",),
    "timestamp_format": ("json", "csv"),
    "missing": ("json",),
    "tombstones": ("json", "csv", "fixed", "syslog"),
    "extra": ("json",),
    "key": ("debezium-json",),
    "sequence": ("debezium-json",),
    "preimages": ("debezium-json",),
    "timestamp_unit": ("debezium-json",),
}
